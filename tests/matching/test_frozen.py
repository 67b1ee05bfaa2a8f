"""A frozen index answers as the live one does, and a file that is not whole is never taken for an index."""

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overstory import Filter, parse_filter
from overstory.errors import IndexFileError
from overstory.kernels.store import TYPES
from overstory.matching.batch import Batch
from overstory.matching.frozen import ALIGNMENT, FIXED, MAGIC, VERSION, FrozenIndex, freeze
from overstory.matching.index import FilterIndex
from overstory.matching.matcher import Matcher
from overstory.model.values import Attributes

from ..filters.strategies import events
from ..filters.test_laws import filters
from .draws import Draws

TEXTS = ["x > 5", "x + y > 3", "u LIKE 'S_%1'", "u = 'a' AND tags HAS ANY ('a', 'b')", "TRUE", "FALSE", "x > 1e300"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An index of ``TEXTS``."""
    path = tmp_path / "some.index"
    freeze(FilterIndex(map(parse_filter, TEXTS)), path)
    return path


def assert_same_matches(live: Matcher, frozen: Matcher, some: list[Any]) -> None:
    together, expected = frozen.match_batch(Batch.of(some)), live.match_batch(Batch.of(some))
    assert np.array_equal(together.offsets, expected.offsets)
    assert np.array_equal(together.filters, expected.filters)
    for event in some:
        assert np.array_equal(frozen.match(event), live.match(event))


def assert_refused(path: Path, words: str, thorough: bool = False) -> None:
    with pytest.raises(IndexFileError) as caught:
        FrozenIndex(path, thorough)
    message = str(caught.value)
    assert str(path) in message
    assert words in message
    assert "\n" not in message


def header_of(data: bytes) -> Any:
    return json.loads(data[FIXED : FIXED + int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")])


def with_header(data: bytes, header: Any) -> bytes:
    """The file with another header, and the checksum that goes with it."""
    old = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    encoded = json.dumps(header, separators=(",", ":")).encode().ljust(old)
    assert len(encoded) == old
    return MAGIC + old.to_bytes(8, "little") + zlib.crc32(encoded).to_bytes(4, "little") + encoded + data[FIXED + old :]


# What it answers


# All examples write to the same folder
@settings(max_examples=settings().max_examples // 2, suppress_health_check=[*HealthCheck])
@given(st.lists(filters, max_size=6), st.lists(events, min_size=1, max_size=4))
def test_frozen_matches_what_the_live_one_does(tmp_path: Path, some: list[Filter], asked: list[Attributes]) -> None:
    live = FilterIndex(some)
    freeze(live, tmp_path / "index")
    assert_same_matches(live, FrozenIndex(tmp_path / "index"), asked)


@pytest.mark.parametrize("seed", range(3))
def test_frozen_matches_what_the_live_one_does_after_many_changes(tmp_path: Path, seed: int) -> None:
    draws = Draws(seed)
    live = FilterIndex(draws.filters(400), seed=seed)
    numbers = live.add_all(draws.boxes(200)).tolist()
    for number in draws.dice.sample(range(400), 150) + draws.dice.sample(numbers, 100):
        live.remove(number)
    for wanted in draws.filters(60):
        live.add(wanted)
    assert live.tests
    asked = draws.events(40)
    live.match_batch(Batch.of(asked))
    freeze(live, tmp_path / "index")
    frozen = FrozenIndex(tmp_path / "index", thorough=True)
    assert_same_matches(live, frozen, asked)


def test_residuals_and_patterns_are_tested(file: Path) -> None:
    frozen = FrozenIndex(file)
    assert frozen.match({"x": 1, "y": 3, "u": "Sx21"}).tolist() == [1, 2, 4]
    assert frozen.match({"x": 1e301, "y": 0, "u": "S1"}).tolist() == [0, 1, 4, 6]


def test_an_empty_index_can_be_frozen(tmp_path: Path) -> None:
    freeze(FilterIndex(), tmp_path / "index")
    frozen = FrozenIndex(tmp_path / "index", thorough=True)
    assert frozen.match({"x": 1}).tolist() == []
    assert frozen.match_batch(Batch.of([{}, {"x": "a"}])).offsets.tolist() == [0, 0, 0]


def test_statistics_are_those_of_the_live_one(tmp_path: Path) -> None:
    live = FilterIndex(Draws(1).filters(100))
    freeze(live, tmp_path / "index")
    assert FrozenIndex(tmp_path / "index").statistics() == live.statistics()


def test_what_is_frozen_does_not_change_with_the_live_one(tmp_path: Path) -> None:
    live = FilterIndex([parse_filter("x > 5")])
    freeze(live, tmp_path / "index")
    frozen = FrozenIndex(tmp_path / "index")
    live.remove(0)
    live.add_all(Draws(1).filters(50))
    assert frozen.match({"x": 6}).tolist() == [0]


# The file


def test_a_second_freeze_gives_the_same_bytes(tmp_path: Path) -> None:
    draws = Draws(5)
    live = FilterIndex(draws.filters(200))
    live.remove(7)
    freeze(live, tmp_path / "one")
    live.match_batch(Batch.of(draws.events(10)))
    freeze(live, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_matching_does_not_change_the_file(file: Path) -> None:
    before = file.read_bytes()
    FrozenIndex(file).match_batch(Batch.of(Draws(1).events(20)))
    assert file.read_bytes() == before


def test_tables_stand_one_behind_the_other_at_whole_pages(file: Path) -> None:
    data = file.read_bytes()
    header = header_of(data)
    assert [table["name"] for table in header["tables"]] == list(TYPES)
    assert header["size"] == len(data)
    stop = FIXED
    for table in header["tables"]:
        assert table["start"] % ALIGNMENT == 0
        assert table["start"] >= stop
        stop = table["start"] + table["rows"] * table["row_bytes"]
    assert stop <= len(data)


def test_freezing_over_a_file_replaces_it(file: Path) -> None:
    opened = FrozenIndex(file)
    freeze(FilterIndex([parse_filter("y = 1")]), file)
    assert FrozenIndex(file, thorough=True).match({"y": 1}).tolist() == [0]
    assert opened.match({"x": 6}).tolist() == [0, 4], "whoever has the old one open keeps it"
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_a_path_may_be_a_relative_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    freeze(FilterIndex([parse_filter("x > 5")]), "index")
    assert FrozenIndex("index").match({"x": 6}).tolist() == [0]


# What cannot be written


def assert_not_written(path: Path, words: str) -> None:
    with pytest.raises(IndexFileError) as caught:
        freeze(FilterIndex([parse_filter("x > 5")]), path)
    assert str(caught.value).startswith(f"cannot write {path}: ")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_that_does_not_exist_is_not_made(tmp_path: Path) -> None:
    assert_not_written(tmp_path / "none" / "index", "No such file or directory")
    assert not list(tmp_path.iterdir())


def test_a_file_is_not_taken_for_a_folder(file: Path) -> None:
    before = file.read_bytes()
    assert_not_written(file / "index", "Not a directory")
    assert file.read_bytes() == before


def test_a_folder_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    assert_not_written(tmp_path / "index", "Is a directory")
    assert [each.name for each in tmp_path.iterdir()] == ["index"]
    assert not list((tmp_path / "index").iterdir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_nothing_is_left_in_a_folder_that_cannot_be_written_to(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert_not_written(tmp_path / "index", "Permission denied")
        assert not list(tmp_path.iterdir())
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_half_way_leaves_the_old_file_and_no_other(
    file: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    before = file.read_bytes()

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    assert_not_written(file, "No space left on device")
    assert file.read_bytes() == before
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_an_interrupt_half_way_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        freeze(FilterIndex([parse_filter("x > 5")]), tmp_path / "index")
    assert not list(tmp_path.iterdir())


# What cannot be read


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert_refused(tmp_path / "none", "No such file or directory")
    assert_refused(tmp_path, "Is a directory")


@pytest.mark.parametrize("data", [b"x", b"overstory index", b"\x7fELF" + bytes(5000), MAGIC[::-1] * 300])
def test_a_foreign_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "index").write_bytes(data)
    assert_refused(tmp_path / "index", "is not an index")


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index").touch()
    assert_refused(tmp_path / "index", "is empty")


@pytest.mark.parametrize("length", range(1, FIXED + 8))
def test_a_file_that_is_cut_off_early_is_refused(file: Path, length: int) -> None:
    file.write_bytes(file.read_bytes()[:length])
    assert_refused(file, "not an index" if length < len(MAGIC) else "within its header")


def test_a_header_of_zeros_is_refused(tmp_path: Path) -> None:
    (tmp_path / "index").write_bytes(MAGIC + bytes(10_000))
    assert_refused(tmp_path / "index", "freeze the index again")


def test_a_file_that_is_cut_off_anywhere_is_refused(file: Path) -> None:
    data = file.read_bytes()
    for length in [*range(FIXED + 8, len(data), 997), len(data) - ALIGNMENT, len(data) - 1]:
        file.write_bytes(data[:length])
        assert_refused(file, "cut off")


def test_a_file_with_more_at_its_end_is_refused(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0")
    assert_refused(file, "bytes where it should have")


def test_a_flipped_bit_in_the_header_is_found(file: Path) -> None:
    data = file.read_bytes()
    length = int.from_bytes(data[len(MAGIC) : len(MAGIC) + 8], "little")
    for place in [*range(FIXED), *range(FIXED, FIXED + length, 13), FIXED + length - 1]:
        for bit in (0, 7):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            file.write_bytes(changed)
            assert_refused(file, "is not an index" if place < len(MAGIC) else "damaged or cut off within its header")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("version", VERSION + 1, f"has version {VERSION + 1}, this Overstory reads {VERSION}"),
        ("byte_order", "bigger", "bigger-endian machine"),
        ("size", 4096, "bytes where it should have 4096"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(file: Path, field: str, value: object, words: str) -> None:
    data = file.read_bytes()
    header = header_of(data)
    del header["tests"]["1"]  # which makes room
    header[field] = value
    file.write_bytes(with_header(data, header))
    assert_refused(file, words)


def test_a_later_version_may_have_another_header(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(with_header(data, {"version": 7}))
    assert_refused(file, "has version 7")


def test_tables_of_another_layout_are_refused(file: Path) -> None:
    data = file.read_bytes()
    header = header_of(data)
    header["tables"][0]["row_bytes"] = 8
    file.write_bytes(with_header(data, header))
    assert_refused(file, "tables that this Overstory does not know")


@pytest.mark.parametrize("name", list(TYPES))
def test_a_damaged_table_is_found_by_a_thorough_look_alone(file: Path, name: str) -> None:
    data = bytearray(file.read_bytes())
    table = next(table for table in header_of(bytes(data))["tables"] if table["name"] == name)
    size = table["rows"] * table["row_bytes"]
    assert size
    data[table["start"] + size - 1] ^= 1
    file.write_bytes(data)
    FrozenIndex(file)
    assert_refused(file, f"the table {name} has changed", thorough=True)
