"""NumPy's scalars are the numbers, truths and texts that they hold, to every part that reads an event."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory import Untyped, parse_filter
from overstory.errors import UsageError
from overstory.filters import Filter
from overstory.kernels.keys import key_of_number
from overstory.matching.batch import Batch, Numbers, _keys
from overstory.matching.index import FilterIndex
from overstory.matching.reference import ReferenceIndex

from ..filters.oracle import truth
from ..filters.strategies import conditions, event_values, names, text_of

HUGE = 10**400
INTEGERS: list[Any] = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
integers = st.sampled_from(INTEGERS).flatmap(
    lambda kind: st.integers(int(np.iinfo(kind).min), int(np.iinfo(kind).max)).map(kind)
)
small_integers = st.builds(lambda kind, value: kind(value), st.sampled_from(INTEGERS), st.integers(0, 5))
doubles = st.floats() | st.sampled_from([0.5, -2.5, 1.0, 5.0, float(2**53), 1e300])
floats = doubles.map(np.float64) | st.floats(width=32).map(np.float32) | st.floats(width=16).map(np.float16)
EPSILON = np.finfo(np.longdouble).eps
long_doubles = doubles.map(np.longdouble) | st.builds(
    lambda value, side: np.longdouble(value) * (1 + side * EPSILON),
    st.sampled_from([0.5, 1, 5, 2**53, -1]),
    st.sampled_from([-1, 0, 1]),
)
truths = st.booleans().map(np.bool_)
texts = st.sampled_from(["", "a", "ab", "5", "true", "é🙂"]).map(np.str_)
scalars: st.SearchStrategy[Any] = integers | small_integers | floats | long_doubles | truths | texts
zero_dimensional = scalars.map(np.array)
lists = st.lists(st.sampled_from(["a", "b", "z"]).map(np.str_) | st.sampled_from(["a", "c"]), max_size=3)
values = scalars | zero_dimensional | lists | event_values | st.just(HUGE) | st.just(-HUGE)
events = st.dictionaries(names, values)


def held(value: object) -> object:
    """What a value holds, by another way than the one under test."""
    if isinstance(value, list):
        return [held(word) for word in value]
    if isinstance(value, np.ndarray):
        value = value[()]
    if isinstance(value, np.longdouble):
        if not np.isfinite(value):
            return float(value)
        exact = Fraction(*value.as_integer_ratio())
        try:
            return float(exact) if Fraction(float(exact)) == exact else exact
        except OverflowError:
            return exact
    return value.tolist() if isinstance(value, np.generic) else value


def is_odd(value: object) -> bool:
    """A longdouble that is no float, which the oracle does not know."""
    return isinstance(held(value), Fraction)


@given(conditions, st.lists(events, min_size=1, max_size=3))
def test_all_who_read_an_event_agree(condition: Any, several: list[dict[str, object]]) -> None:
    wanted = parse_filter(text_of(condition))
    fast, plainly = FilterIndex([wanted]), ReferenceIndex([wanted])
    together, plainly_together = fast.match_batch(Batch.of(several)), plainly.match_batch(Batch.of(several))
    for i, event in enumerate(several):
        expected = wanted.evaluate({name: held(value) for name, value in event.items()})
        found = wanted.evaluate(event)
        assert found is expected
        if not any(map(is_odd, event.values())):
            assert found is truth(condition, {name: held(value) for name, value in event.items()})
        assert wanted.matches(event) is (found is True)
        number = [0] if found is True else []
        assert any(box.contains(event) for box in wanted.boxes) is (found is True)
        for matches in (fast.match(event), plainly.match(event), together.of(i), plainly_together.of(i)):
            assert matches.tolist() == number


COLUMNS = st.sampled_from([np.float16, np.float32, np.float64, np.longdouble, np.bool_, *INTEGERS])
bounds = st.sampled_from([-1, 0, 0.5, 1, 2, 5, 100, 2**53, 2**53 + 1, 2**63 - 1, 1e300, -1e300, 5e-324])


@given(
    COLUMNS.flatmap(
        lambda kind: st.lists(st.builds(lambda v: _cast(v, kind), scalars_of(kind)), min_size=1, max_size=6)
    ),
    bounds,
    st.sampled_from(["<", "<=", "=", "<>", ">=", ">"]),
)
def test_a_column_is_the_numbers_that_it_holds(column: list[Any], bound: int | float, operator: str) -> None:
    array = np.array(column)
    wanted = [parse_filter(f"x {operator} {bound!r}"), parse_filter(f"x + 0 {operator} {bound!r}"), parse_filter("x")]
    fast, plainly = FilterIndex(wanted), ReferenceIndex(wanted)
    together, again = fast.match_batch(Batch({"x": array})), plainly.match_batch(Batch({"x": array}))
    for i, value in enumerate(column):
        expected = [number for number, asked in enumerate(wanted) if asked.evaluate({"x": held(value)}) is True]
        assert together.of(i).tolist() == again.of(i).tolist() == fast.match({"x": value}).tolist() == expected


def scalars_of(kind: Any) -> st.SearchStrategy[Any]:
    if kind is np.longdouble:
        return long_doubles
    if kind is np.bool_:
        return st.booleans()
    if np.issubdtype(kind, np.floating):
        return st.floats(width=np.dtype(kind).itemsize * 8)
    return st.integers(int(np.iinfo(kind).min), int(np.iinfo(kind).max)) | st.integers(0, 5)


def _cast(value: Any, kind: Any) -> Any:
    return kind(value)


@given(long_doubles)
def test_a_longdouble_has_the_key_of_its_number(value: Any) -> None:
    exact = held(value)
    if not math.isnan(float(value)):
        assert _keys(np.array([value])).tolist() == [key_of_number(exact)]  # type: ignore[arg-type]


TINY = [np.longdouble(3) * np.longdouble(2) ** -1080, np.longdouble(2) ** -16000, np.longdouble(10) ** 4000]


@pytest.mark.parametrize("value", [sign * value for value in TINY for sign in (1, -1)])
def test_a_longdouble_beyond_all_floats_compares_exactly(value: np.longdouble) -> None:
    wanted = [parse_filter(text) for text in ("x > 0", "x < 0", "x > 5e-324", "x > 1.7e308", "x < -1.7e308")]
    positive, large = value > 0, abs(value) > 1
    expected = [positive, not positive, positive and large, positive and large, not positive and large]
    found = [number for number, yes in enumerate(expected) if yes]
    assert FilterIndex(wanted).match({"x": value}).tolist() == found
    assert FilterIndex(wanted).match_batch(Batch({"x": np.array([value])})).of(0).tolist() == found
    assert ReferenceIndex(wanted).match({"x": value}).tolist() == found


def test_the_cases_that_were_wrong() -> None:
    wanted = parse_filter("x > 5")
    assert wanted.evaluate({"x": np.float64(7)}) is True
    assert wanted.matches({"x": np.float64(7)})
    for kind in (np.float32, np.int64, np.uint64, np.longdouble, np.array):
        assert ReferenceIndex([wanted]).match({"x": kind(7)}).tolist() == [0]
        assert FilterIndex([wanted]).match({"x": kind(7)}).tolist() == [0]
    assert parse_filter("x < y").evaluate({"x": np.float64(1), "y": HUGE}) is True
    assert parse_filter("x").evaluate({"x": np.bool_(True)}) is True
    assert parse_filter("x HAS ANY ('a')").evaluate({"x": [np.array("a"), np.str_("b")]}) is True
    assert parse_filter("x = 'a'").evaluate({"x": Untyped(np.str_("a"))}) is True


def test_what_holds_no_value_has_no_face() -> None:
    for value in (np.datetime64(7, "ns"), np.timedelta64(7, "s"), np.complex128(7), np.bytes_(b"7"), np.array([7, 8])):
        event = {"x": value}
        assert parse_filter("x > 5").evaluate(event) is None
        assert FilterIndex([parse_filter("x > 5"), parse_filter("EXISTS(x)")]).match(event).tolist() == [1]
    for value in (np.ma.masked, np.array(None)):
        assert parse_filter("x IS NULL").evaluate({"x": value}) is True
        assert FilterIndex([parse_filter("x IS NULL")]).match({"x": value}).tolist() == [0]


def test_what_is_masked_in_a_column_is_absent() -> None:
    wanted = [parse_filter("x > 5"), parse_filter("x IS NULL"), parse_filter("t IS NULL")]
    numbers = np.ma.masked_array([7.0, 7.0], [False, True])
    words = np.ma.masked_array(["a", "b"], [True, False])
    matches = FilterIndex(wanted).match_batch(Batch({"x": numbers, "t": words}))
    assert (matches.of(0).tolist(), matches.of(1).tolist()) == ([0, 2], [1])


@pytest.mark.parametrize("values", [["a"], [1, HUGE], [None, 1.5], [[1, 2]], np.array(["2020"], "M8[D]"), [1j], 5])
def test_numbers_that_are_none_are_refused(values: Any) -> None:
    with pytest.raises(UsageError, match="Numbers are one row of numbers"):
        Numbers(values)


@pytest.mark.parametrize("wrong", [None, "x > 5", b"x > 5", 5, ["x > 5"]])
def test_what_is_no_filter_is_refused(wrong: Any) -> None:
    good = parse_filter("x > 4")
    for index in (FilterIndex([good]), ReferenceIndex([good])):
        for add in (index.add, lambda one, index=index: index.add_all([good, one])):
            with pytest.raises(UsageError, match="a Filter is wanted"):
                add(wrong)
        assert len(index) == 1
        assert index.add(good) == 1
        assert index.match({"x": 5}).tolist() == [0, 1]


def test_relations_with_what_is_no_filter_are_refused() -> None:
    wanted: Any = parse_filter("x > 5")
    for ask in (wanted.covers, wanted.intersects, wanted.union, wanted.equals, wanted.leaves_out, wanted.is_exact_with):
        with pytest.raises(UsageError, match="make one with parse_filter"):
            ask("x > 6")
    assert isinstance(wanted, Filter)
