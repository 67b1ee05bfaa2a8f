"""What was installed on a network, in order: a file that is only ever added to, and the folders of the plans.

A line is written before anything changes, and another when it is over. So a line without its end says that a
coordinator died, or still runs. A history that cannot be written is an error before the network is touched.
"""

import os
import time
from pathlib import Path

import msgspec

from overstory.errors import UsageError

FILE, PLANS = "history.jsonl", "plans"
BEGAN, INSTALLED, GIVEN_UP, ROLLED_BACK, ABORTED = "began", "installed", "given up", "rolled back", "aborted"
NAMES = (BEGAN, INSTALLED, GIVEN_UP, ROLLED_BACK, ABORTED)


class Entry(msgspec.Struct, frozen=True):
    """One line of the history."""

    time: float  # seconds since 1970
    epoch: int
    plan: str  # the fingerprint of its tables
    planner: str
    state: str
    by: str = ""  # the coordinator
    note: str = ""


class History:
    """The history of one network, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def entries(self) -> list[Entry]:
        """All lines, the oldest first. A last line that is not whole was never written."""
        try:
            lines = (self.folder / FILE).read_bytes().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise UsageError(f"the history {self.folder} cannot be read: {error.strerror}") from None
        found = []
        for line in lines[:-1]:
            try:
                found.append(msgspec.json.decode(line, type=Entry))
            except msgspec.MsgspecError:
                raise UsageError(f"the history {self.folder / FILE} has a line that is none; move it away") from None
        return found

    def add(self, entry: Entry, files: dict[str, bytes] | None = None) -> None:
        """Adds a line, with the files of its plan. Raises a ``UsageError`` if it cannot be written."""
        try:
            if files:
                folder = self.folder / PLANS / entry.plan
                folder.mkdir(parents=True, exist_ok=True)
                for name, data in files.items():
                    (folder / Path(name).name).write_bytes(data)
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / FILE).open("ab") as out:
                out.write(msgspec.json.encode(entry) + b"\n")
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            raise UsageError(
                f"the history {self.folder} cannot be written: {error.strerror}; nothing was changed; "
                "choose another folder with --history"
            ) from None

    def plan_folder(self, plan: str) -> Path:
        """The folder of a plan that was installed."""
        return self.folder / PLANS / plan

    def before(self, plan: str) -> Entry | None:
        """What to go back to: the last plan that was installed before this one, and is another."""
        done = [entry for entry in self.entries() if entry.state in (INSTALLED, ROLLED_BACK)]
        at = max((place for place, entry in enumerate(done) if entry.plan == plan), default=len(done))
        return next((entry for entry in reversed(done[:at]) if entry.plan != plan), None)


def usual_folder(network: str) -> Path:
    """Where the history of a network is, unless somebody says otherwise."""
    state = os.environ.get("XDG_STATE_HOME")
    home = Path(state) if state else Path.home() / ".local" / "state"
    return home / "overstory" / network


def now() -> float:
    """The time of an entry."""
    return round(time.time(), 3)
