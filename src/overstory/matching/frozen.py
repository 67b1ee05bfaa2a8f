"""An index as one file, mapped into memory: processes on one host share one copy, and opening it takes no time.

The file: ``MAGIC``; the length of the header as eight bytes, little endian; its CRC-32 as four; the header, in JSON;
then the tables of the store as they are in memory, each at a multiple of ``ALIGNMENT``. The header says what stands
where, and has a checksum of each table, which ``open`` compares only if asked to be ``thorough``: that reads it all.
What only Python can test is kept as filter text, and parsed when it is first needed.
"""

import mmap
import os
import sys
import zlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from overstory.errors import IndexFileError
from overstory.filters.filter import Filter
from overstory.filters.limits import MOST_DEPTH, MOST_OPERATORS, Limits
from overstory.filters.parse import parse_filter
from overstory.filters.printing import print_boxes
from overstory.kernels.match import Scratch
from overstory.kernels.store import TYPES, Store
from overstory.matching.arithmetic import Comparison, comparison_of
from overstory.matching.index import FilterIndex
from overstory.matching.matcher import Matcher, rows_used
from overstory.model.values import Attributes

MAGIC = b"overstory index\n"
VERSION = 1  # of the file and of the layout of its tables
ALIGNMENT = 4096
FIXED = len(MAGIC) + 12
ROOM_FOR_TABLES = 4096  # in the header: more than they take
UNLIMITED = Limits(
    2**31, 2**31, MOST_DEPTH, MOST_OPERATORS, 2**31, 2**31, 2**31, 2**62
)  # our own texts, not a stranger's


class Table(msgspec.Struct, frozen=True):
    name: str
    start: int
    rows: int
    row_bytes: int
    checksum: int


class Header(msgspec.Struct, frozen=True):
    version: int
    byte_order: str
    size: int  # of the whole file
    attributes: list[str]
    tests: dict[int, str]
    tables: list[Table]


def freeze(index: FilterIndex, path: str | Path) -> None:
    """Writes the index to a file, which is either there as a whole afterwards or as it was before."""
    arrays = {name: getattr(index.store, name)[:rows] for name, rows in rows_used(index.store).items()}
    header = _header(index, arrays)
    encoded = msgspec.json.encode(header)
    target = Path(path)
    beside = target.with_name(f".{target.name}.{token_hex(4)}")
    try:
        try:
            with open(beside, "xb") as file:
                file.write(MAGIC + len(encoded).to_bytes(8, "little") + zlib.crc32(encoded).to_bytes(4, "little"))
                file.write(encoded)
                for table in header.tables:
                    file.seek(table.start)
                    file.write(arrays[table.name].data)
                file.truncate(header.size)
                file.flush()
                os.fsync(file.fileno())
            os.replace(beside, target)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise IndexFileError(f"cannot write {path}: {error.strerror}") from None


def _header(index: FilterIndex, arrays: Mapping[str, NDArray[Any]]) -> Header:
    tests = {number: print_boxes((test.box,)) for number, test in index.tests.items()}
    header = Header(VERSION, sys.byteorder, 0, list(index.numbers), tests, [])
    start = _after(FIXED + len(msgspec.json.encode(header)) + ROOM_FOR_TABLES)
    for name, array in arrays.items():
        header.tables.append(Table(name, start, len(array), array.itemsize, zlib.crc32(array.data)))
        start = _after(start + array.nbytes)
    return msgspec.structs.replace(header, size=start)


def _after(place: int) -> int:
    return -(-place // ALIGNMENT) * ALIGNMENT


class FrozenIndex(Matcher):
    """A file that ``freeze`` wrote, ready to match. It cannot be changed."""

    def __init__(self, path: str | Path, thorough: bool = False) -> None:
        super().__init__()
        pages = _map(path)
        header = _read_header(path, pages)
        arrays = {}
        for table in header.tables:
            data = memoryview(pages)[table.start : table.start + table.rows * table.row_bytes]
            if thorough and zlib.crc32(data) != table.checksum:
                raise IndexFileError(f"{path} is damaged: the table {table.name} has changed; freeze the index again")
            arrays[table.name] = np.frombuffer(data, TYPES[table.name])
        self._store = Store(**arrays)
        self.numbers = {name: number for number, name in enumerate(header.attributes)}
        self.tests = {number: OpaqueText(text) for number, text in header.tests.items()}
        # Zeros that are never written to take up no memory.
        groups, stamps = np.zeros(len(self._store.tokens), np.int64), np.zeros(len(self._store.filters), np.int64)
        self._scratch = Scratch(groups, stamps, self.tally)

    @property
    def store(self) -> Store:
        return self._store

    @property
    def scratch(self) -> Scratch:
        return self._scratch


class OpaqueText:
    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def _filter(self) -> Filter:
        return parse_filter(self.text, limits=UNLIMITED)

    @cached_property
    def comparison(self) -> Comparison | None:
        return comparison_of(self._filter.boxes[0]) if len(self._filter.boxes) == 1 else None

    def holds(self, attributes: Attributes) -> bool:
        return self._filter.matches(attributes)


def _map(path: str | Path) -> mmap.mmap:
    try:
        with open(path, "rb") as file:
            # Private: should a page ever be written to, no other process sees it.
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise IndexFileError(f"cannot read {path}: {error.strerror}") from None
    except ValueError:
        raise IndexFileError(f"{path} is empty, not an index") from None


def _read_header(path: str | Path, pages: mmap.mmap) -> Header:
    if pages[: len(MAGIC)] != MAGIC:
        raise IndexFileError(f"{path} is not an index of filters")
    length = int.from_bytes(pages[len(MAGIC) : len(MAGIC) + 8], "little")
    checksum = int.from_bytes(pages[FIXED - 4 : FIXED], "little")
    encoded = pages[FIXED : FIXED + length] if length < len(pages) else b""
    if not encoded or len(encoded) != length or zlib.crc32(encoded) != checksum:
        raise IndexFileError(f"{path} is damaged or cut off within its header; freeze the index again")
    version = msgspec.json.decode(encoded)["version"]
    if version != VERSION:
        raise IndexFileError(f"{path} has version {version}, this Overstory reads {VERSION}; freeze the index again")
    header = msgspec.json.decode(encoded, type=Header)
    if header.byte_order != sys.byteorder:
        raise IndexFileError(f"{path} was written by a {header.byte_order}-endian machine, this one is the other kind")
    if len(pages) != header.size:
        raise IndexFileError(f"{path} has {len(pages)} bytes where it should have {header.size}; it was cut off")
    if {table.name: table.row_bytes for table in header.tables} != {name: t.itemsize for name, t in TYPES.items()}:
        raise IndexFileError(f"{path} has tables that this Overstory does not know; freeze the index again")
    return header
