"""The cache: what has been worked out about a scenario, in a folder inside it, for the next command that asks the same.

1. An entry is known by a fingerprint of all that it depends on: the scenario, the question, and the code and the
   libraries that answered it. Where any of them changes, the entry is not found; nothing stale is ever used.
2. An entry is a folder, written under another name and renamed when it is whole, with a fingerprint of each file in it.
   Whoever reads while others write sees all of it or nothing; one that is damaged is removed, and worked out again.
3. Together they take a bounded room. The entry that was not used for the longest time goes first.

A folder that cannot be written to is no error: then there is no cache, which ``note`` hears once.
"""

import hashlib
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from overstory.errors import EngineError
from overstory.model.folders import fingerprint_of_file, parts_of
from overstory.model.scenario import Scenario

FOLDER = ".cache"
VALUE, ARRAYS, SUMS = "value.msgpack", "arrays.npz", "sums.json"
UNFINISHED = ".new-"  # as its name begins
MOST = 1 << 30  # bytes of all entries, unless the log is large
TIMES_THE_LOG = 4
FORGOTTEN = 24 * 3600  # seconds after which something unfinished is nobody's
CODE = ("errors.py", "model", "filters", "kernels", "matching", "pipeline")  # what entries are computed by
LIBRARIES = ("numba", "numpy", "pyarrow", "pyspark")

T = TypeVar("T")
N = TypeVar("N", bound="Arrays")


class Arrays(Protocol):
    """A named tuple of arrays and numbers."""

    def _asdict(self) -> dict[str, Any]: ...


class Cache:
    """What was worked out for one scenario, kept in a folder inside it."""

    def __init__(self, scenario: Scenario, note: Callable[[str], None] = lambda _: None, most: int = MOST) -> None:
        self.folder, self.note = scenario.folder / FOLDER, note
        self._log = scenario.events
        self._stamps = stamps_of(self._log)
        self._known = f"{scenario.fingerprint} {code_fingerprint()}"
        self.most = max(most, TIMES_THE_LOG * sum(size for _, size, _ in self._stamps))
        self._writes = True

    def key(self, kind: str, *depends_on: object) -> str:
        """The name of an entry: of its kind, and of all that it depends on beside the scenario and the code."""
        digest = hashlib.sha256(self._known.encode())
        for part in depends_on:
            data = part if isinstance(part, bytes) else str(part).encode()
            digest.update(len(data).to_bytes(8, "little") + data)
        return f"{kind}-{digest.hexdigest()[:40]}"

    def find(self, key: str) -> Path | None:
        """An entry's folder, if there is one and it is as it was written."""
        entry = self.folder / key
        try:
            if not entry.is_dir():
                return None
            if _sums(entry) == msgspec.json.decode((entry / SUMS).read_bytes(), type=dict[str, str]):
                os.utime(entry)
                return entry
        except PermissionError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            pass  # damaged, or another process is removing it
        self.drop(key)
        return None

    def find_value(self, key: str, kind: type[T]) -> T | None:
        entry = self.find(key)
        try:
            return None if entry is None else msgspec.msgpack.decode((entry / VALUE).read_bytes(), type=kind)
        except (OSError, msgspec.DecodeError):
            return None

    def keep_value(self, key: str, value: object) -> None:
        with self.new(key) as entry:
            if entry is not None:
                (entry / VALUE).write_bytes(msgspec.msgpack.encode(value))  # which holds nan and inf, as JSON does not

    def find_arrays(self, key: str, kind: Callable[..., N]) -> N | None:
        entry = self.find(key)
        try:
            if entry is not None:
                with np.load(entry / ARRAYS, allow_pickle=False) as found:
                    return kind(**found)
        except (OSError, ValueError, TypeError, zipfile.BadZipFile):
            self.drop(key)
        return None

    def keep_arrays(self, key: str, arrays: N) -> None:
        with self.new(key) as entry:
            if entry is not None:
                np.savez(entry / ARRAYS, **arrays._asdict())

    @contextmanager
    def new(self, key: str) -> Iterator[Path | None]:
        """A folder to write to, which becomes the entry. None if nothing can be written; that is said once, also where
        it shows only while writing. Errors of the file system and of Spark end in the ``with``."""
        unfinished = None
        try:
            if self._writes:
                self.folder.mkdir(exist_ok=True)
                unfinished = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self.folder))
        except OSError as error:
            self._give_up(error)
        try:
            yield unfinished
            if unfinished is not None and stamps_of(self._log) == self._stamps:  # else it is of another log
                (unfinished / SUMS).write_bytes(msgspec.json.encode(_sums(unfinished)))
                self._install(unfinished, key)
        except (OSError, EngineError) as error:
            self._give_up(error)
        finally:
            if unfinished is not None:
                shutil.rmtree(unfinished, ignore_errors=True)

    def _install(self, unfinished: Path, key: str) -> None:
        unfinished.chmod(0o755)
        try:
            unfinished.rename(self.folder / key)
        except OSError:
            if not (self.folder / key).is_dir():  # or else another process was faster, with the same
                raise
        self._make_room(key)

    def _make_room(self, newest: str) -> None:
        """Removes entries until the rest fits; the newest stays, however large it is."""
        entries = []
        for entry in self.folder.iterdir():
            if entry.name.startswith("."):
                if time.time() - _used(entry) > FORGOTTEN:
                    shutil.rmtree(entry, ignore_errors=True)
            elif entry.name != newest:
                entries.append((_used(entry), entry.name, _size(entry)))
        room = self.most - _size(self.folder / newest)
        for _, name, size in sorted(entries, reverse=True):
            room -= size
            if room < 0:
                self.drop(name)

    def drop(self, key: str) -> None:
        """Renamed first, so that nobody sees a half of it."""
        with (
            suppress(OSError),  # another process has removed it, or nobody can
            tempfile.TemporaryDirectory(prefix=UNFINISHED, dir=self.folder, ignore_cleanup_errors=True) as gone,
        ):
            (self.folder / key).rename(Path(gone) / key)

    def _give_up(self, error: Exception) -> None:
        self._writes = False
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        self.note(f"nothing is kept for the next time: cannot write {self.folder} ({why})")


def digest_of(arrays: Iterable[NDArray[Any]]) -> bytes:
    """Of all that they hold, for the name of an entry that depends on it."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.descr} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
    return digest.digest()


def stamps_of(log: Path) -> list[tuple[str, int, int]]:
    """Name, size and time of each file of a log: they change when it does."""
    found = [(part.name, part.stat()) for part in parts_of(log)]
    return [(name, about.st_size, about.st_mtime_ns) for name, about in found]


@cache
def code_fingerprint() -> str:
    """Of the files that compute what is kept, byte for byte, and of the libraries that they use. The lab looks closer,
    and compares syntax: that takes longer than is worth it before every command."""
    ours = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for name in CODE:
        for path in sorted((ours / name).rglob("*.py")) if (ours / name).is_dir() else [ours / name]:
            digest.update(path.relative_to(ours).as_posix().encode() + b"\0" + fingerprint_of_file(path))
    for library in LIBRARIES:
        digest.update(f"{library} {version(library)}\0".encode())
    return digest.hexdigest()


def _sums(entry: Path) -> dict[str, str]:
    files = sorted(path for path in entry.iterdir() if path.name != SUMS and not path.name.startswith((".", "_")))
    return {path.name: fingerprint_of_file(path).hex() for path in files}


def _used(entry: Path) -> float:
    try:
        return entry.stat().st_mtime
    except OSError:  # another process has removed it
        return 0.0


def _size(entry: Path) -> int:
    try:
        return sum(path.stat().st_size for path in entry.rglob("*") if path.is_file())
    except OSError:
        return 0
