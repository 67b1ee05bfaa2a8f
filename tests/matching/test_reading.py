"""Filters that a kernel reads, against the parser."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory import parse_filter
from overstory.errors import FilterError
from overstory.filters.value_sets import NEXT, Numbers, Strings
from overstory.kernels.reading import NOTHING, TEXT
from overstory.matching import FilterIndex
from overstory.matching.batch import Texts
from overstory.matching.covering import CoveringIndex, covering_pairs
from overstory.matching.encoding import said_by
from overstory.matching.reading import Reading

NAMES = ["x", "y", "price", "order.price", "$a", "_b1", "AND", "not", "x.", "Between", "émile", "true", "lower", '"x"']
CONSTANTS = [
    *["0", "1", "-1", "+1", "007", "0.5", "00.5", ".5", "5.", ".", "-.5", "- 5", "1e5", "1_000", "0x1F", "5f", "5L"],
    *["9007199254740992", "9007199254740993", "0.1234567890123456789012", "123456789.123456789", "1.2.3", "-0", "0.0"],
    *["'a'", "''", "'it''s'", "'é'", "'a", "TRUE", "y", "2 + 3", "(1)"],
]
OPERATORS = ["=", "<", "<=", ">", ">=", "<>", "!=", "==", "BETWEEN", "between", "IN", "LIKE"]
SPACES = ["", " ", "  ", "\t", "\n"]
tests = st.builds(
    "".join,
    st.tuples(*(st.sampled_from(some) for some in (NAMES, SPACES, OPERATORS, SPACES, CONSTANTS))),
)
between = st.builds("{} BETWEEN {} AND {}".format, *(st.sampled_from(some) for some in (NAMES, CONSTANTS, CONSTANTS)))
filters = st.lists(tests | between, min_size=1, max_size=4).flatmap(
    lambda some: st.sampled_from([" AND ", " and ", " OR ", " AND", "\tAnd\n"]).map(lambda joint: joint.join(some))
)


def as_read(reading: Reading, text: int) -> set[tuple[str, object]] | None:
    """What the kernel says of each attribute; None if it says that nothing matches."""
    tests = reading.tests
    if tests.count[text] == NOTHING:
        return None
    found: set[tuple[str, object]] = set()
    for at in range(reading.starts[text], reading.starts[text] + tests.count[text]):
        low, high = int(tests.low[at]), int(tests.high[at])
        said: object = (low, high)
        if tests.kind[at] == TEXT:
            said = reading.texts.data[low:high].tobytes().decode()
        found.add((reading.names[tests.name[at]], said))
    return found


def as_parsed(text: str) -> set[tuple[str, object]] | None:
    wanted = parse_filter(text)
    if not wanted.boxes:
        return None
    (box,) = wanted.boxes
    assert not box.residuals
    found: set[tuple[str, object]] = set()
    for name, allowed in box.sets.items():
        if isinstance(allowed, Numbers):
            said = said_by(allowed)
            assert said.exact
            (interval,) = said.intervals
            found.add((name, interval))
        else:
            assert isinstance(allowed, Strings)
            assert allowed.cuts[1:] == (allowed.cuts[0] + NEXT,)
            found.add((name, allowed.cuts[0]))
    return found


@given(st.lists(filters, min_size=1, max_size=8))
def test_what_is_read_is_what_the_parser_says(texts: list[str]) -> None:
    reading = Reading(Texts.of(texts))
    for number, text in enumerate(texts):
        if reading.read[number]:
            assert as_read(reading, number) == as_parsed(text), text


@given(st.text(alphabet="xy<>=.' \tANDand0123456789-()", max_size=30))
def test_nothing_is_read_that_does_not_parse(text: str) -> None:
    reading = Reading(Texts.of([text]))
    if reading.read[0]:
        assert as_read(reading, 0) == as_parsed(text)


@pytest.mark.parametrize(
    "text",
    ["x >= 0.1234 AND x < 0.1334 AND y >= 0.5 AND y < 0.51", "kind = 'a'", "x between 1 and 2.5", "x>=-5 AND a.b<7"],
)
def test_the_usual_filters_are_read(text: str) -> None:
    assert Reading(Texts.of([text])).read.all()


@pytest.mark.parametrize("text", ["TRUE", "x <> 5", "x = 1e3", "x + 1 > 2", "NOT x > 5", "x = y", "x > 5 OR y > 5", ""])
def test_others_are_left_to_the_parser(text: str) -> None:
    assert not Reading(Texts.of([text])).read.any()


def test_more_tests_and_names_than_there_is_room_for() -> None:
    many = " AND ".join(f"a{number} > {number}" for number in range(20))
    names = [f"n{number} = 1" for number in range(3000)]
    reading = Reading(Texts.of([many, *names, "x > 1"]))
    assert not reading.read[0]
    assert 900 < reading.read.sum() <= 1024
    index = FilterIndex()
    index.add_texts(reading)
    assert index.match({"n7": 1, "n2999": 1}).tolist() == [8, 3000]


@given(st.lists(filters, max_size=12), st.lists(st.integers(-2, 6), min_size=4, max_size=4))
def test_an_index_of_texts_is_an_index_of_filters(texts: list[str], values: list[int]) -> None:
    right = [text for text in texts if parses(text)]
    event = dict(zip(("x", "y", "price", "order.price"), values, strict=True)) | {"$a": "a", "_b1": "é"}
    index = FilterIndex()
    assert index.add_texts(Reading(Texts.of(right))).tolist() == list(range(len(right)))
    wanted = [number for number, text in enumerate(right) if parse_filter(text).matches(event)]
    assert index.match(event).tolist() == wanted
    assert index.statistics().boxes == FilterIndex(map(parse_filter, right)).statistics().boxes


def parses(text: str) -> bool:
    try:
        parse_filter(text)
    except FilterError:
        return False
    return True


ranges = st.tuples(st.sampled_from("xy"), st.integers(0, 4), st.integers(0, 4))
boxes = st.lists(ranges, min_size=1, max_size=3).map(
    lambda some: " AND ".join(f"{name} BETWEEN {min(a, b)} AND {max(a, b)}" for name, a, b in some)
)


@given(st.lists(boxes, max_size=20))
def test_covering_pairs_are_those_of_the_covering_index(texts: list[str]) -> None:
    parsed = [parse_filter(text) for text in texts]
    found = covering_pairs(Reading(Texts.of(texts)))
    if not all(wanted.boxes for wanted in parsed):
        assert found is None
        return
    assert found is not None
    same, offsets, above = found
    index = CoveringIndex(parsed)
    for number, wanted in enumerate(parsed):
        assert sorted(above[offsets[number] : offsets[number + 1]].tolist()) == index.covering(wanted)
        assert same[number] == min(other for other, each in enumerate(parsed) if each.equals(wanted))


def test_of_other_filters_there_are_no_pairs() -> None:
    assert covering_pairs(Reading(Texts.of(["x > 1", "x > 1 OR y > 1"]))) is None
    assert covering_pairs(Reading(Texts.of(["x > 1", "kind = 'a'"]))) is None


def test_no_texts() -> None:
    reading = Reading(Texts.of([]))
    assert reading.names == []
    assert FilterIndex().add_texts(reading).tolist() == []
    assert np.array_equal(reading.read, np.zeros(0, bool))
