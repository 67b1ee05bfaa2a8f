"""Every kernel gives what its plain twin gives."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from overstory import Filter
from overstory.kernels import cells, hashing, keys, match, plain
from overstory.kernels.cells import CELL, KEY, UNTYPED, Cells
from overstory.kernels.keys import FALSE, LEAST, TRUE
from overstory.kernels.match import MOST_TOGETHER
from overstory.matching.batch import Batch, Texts, read_untyped
from overstory.matching.index import FilterIndex
from overstory.model.values import Attributes

from ..filters.strategies import events
from ..filters.test_laws import filters
from ..matching.draws import Draws

Array = NDArray[np.int64]
TRUTHS = np.array([FALSE, TRUE])

# Floats by value and by pattern, so that the tiny, the huge and the many NaNs come as well
floats = st.floats() | st.integers(0, 2**64 - 1).map(lambda bits: float(np.uint64(bits).view(np.float64)))
near_powers = st.builds(lambda power, off: 2**power + off, st.integers(50, 62), st.integers(-1025, 1025))
integers = st.integers(-(2**63), 2**63 - 1) | near_powers | near_powers.map(lambda value: -value)
integers |= st.integers(2**63 - 1500, 2**63 - 1) | st.integers(-5, 5)


# Keys


def keys_by(function: object, values: NDArray[np.generic]) -> list[int]:
    found = np.empty(len(values), np.int64)
    assert callable(function)
    function(values, found)
    return found.tolist()


@given(st.lists(floats))
def test_keys_of_floats(some: list[float]) -> None:
    values = np.array(some, np.float64)
    assert keys_by(keys.keys_of_floats, values) == keys_by(plain.keys_of_floats, values)
    assert keys_by(keys.keys_of_floats, values) == list(map(keys.key_of_number, some))


@given(st.lists(integers))
def test_keys_of_integers(some: list[int]) -> None:
    values = np.array(some, np.int64)
    assert keys_by(keys.keys_of_integers, values) == keys_by(plain.keys_of_integers, values)
    assert keys_by(keys.keys_of_integers, values) == list(map(keys.key_of_number, some))


def test_keys_of_random_patterns() -> None:
    bits = np.random.default_rng(1).integers(-(2**63), 2**63 - 1, 100_000, endpoint=True)
    shifted = bits >> np.random.default_rng(2).integers(0, 63, len(bits))  # of every size
    for values in (bits.view(np.float64), shifted.astype(np.float64)):
        assert keys_by(keys.keys_of_floats, values) == keys_by(plain.keys_of_floats, values)
    for whole in (bits, shifted):
        assert keys_by(keys.keys_of_integers, whole) == keys_by(plain.keys_of_integers, whole)


@given(floats | integers | st.integers(-(2**1100), 2**1100))
def test_the_key_of_any_number(value: int | float) -> None:
    assert keys.key_of_number(value) == plain.key_of(value)


@given(*[floats.filter(lambda value: value == value) | integers | st.integers(-(2**1100), 2**1100)] * 2)
def test_the_keys_of_both_ends_of_an_interval(a: int | float, b: int | float) -> None:
    low, high = min(a, b), max(a, b)
    assert keys.keys_of_ends(low, high) == (plain.key_of(low), plain.key_of(high))


@given(floats | integers | st.integers(-(2**600), 2**600), floats | integers)
def test_keys_are_in_the_order_of_numbers(a: int | float, b: int | float) -> None:
    """And an even key is that of one number alone, so that comparing with it is exact."""
    first, second = keys.key_of_number(a), keys.key_of_number(b)
    if LEAST in (first, second):
        assert a != a or b != b
    elif first % 2 == 0 or second % 2 == 0:
        assert ((first > second) - (first < second)) == (a > b) - (a < b)
    elif first < second:
        assert a < b


# Untyped numbers

digits = st.text("0123456789", min_size=1, max_size=25)
exponents = st.builds(
    lambda e, sign, power: f"{e}{sign}{power}", st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), digits
)
exponents |= st.builds(lambda power: f"e{power}", st.integers(-330, 330))
numerals = st.builds(
    lambda sign, whole, rest, exponent: sign + whole + rest + exponent,
    st.sampled_from(["", "-"]),
    digits | st.integers(0, 10**17).map(str),
    st.just("") | digits.map(lambda each: "." + each),
    st.just("") | exponents,
)
odd_texts = (
    st.text("0123456789+-.eE", max_size=8) | st.text(max_size=4) | st.sampled_from(["true", "false", "truE", "NaN"])
)


def untyped(texts: list[str]) -> Cells:
    """One event with many cells, each second of another kind."""
    column = Texts.of(texts)
    rows = np.zeros(2 * len(texts), CELL)
    rows["kind"], rows["key"] = np.tile([UNTYPED, KEY], len(texts)), 7
    rows["start"], rows["stop"] = np.repeat(column.offsets[:-1], 2), np.repeat(column.offsets[1:], 2)
    return Cells(np.array([0, len(rows)]), rows, np.zeros(1, np.int64), column.data)


def assert_same_numbers(texts: list[str]) -> None:
    by_kernel, by_twin, by_both = untyped(texts), untyped(texts), untyped(texts)
    hard = cells.read_numbers(by_kernel, np.empty(1), TRUTHS)
    assert plain.read_numbers(by_twin, np.empty(1), TRUTHS).tolist() == []
    easy = np.setdiff1d(np.arange(len(by_kernel.rows)), hard)
    assert by_kernel.rows["key"][easy].tolist() == by_twin.rows["key"][easy].tolist()
    read_untyped(by_both)
    assert by_both.rows["key"].tolist() == by_twin.rows["key"].tolist()


@given(st.lists(numerals | odd_texts))
def test_read_numbers(texts: list[str]) -> None:
    assert_same_numbers(texts)


def test_read_numbers_as_they_are_printed() -> None:
    dice = np.random.default_rng(3)
    some = [*dice.integers(-(2**63), 2**63 - 1, 2000), *dice.normal(size=2000), *np.exp(dice.uniform(-700, 700, 2000))]
    assert_same_numbers([str(value.item()) for value in some])
    assert_same_numbers([f"{value:.3f}" for value in dice.uniform(-1000, 1000, 2000)])


# Events, boxes and filters


def churned(seed: int, count: int = 600) -> FilterIndex:
    """An index with free rows in between."""
    draws = Draws(seed)
    index = FilterIndex(draws.filters(count) + draws.boxes(count))
    for number in draws.dice.sample(range(2 * count), count):
        index.remove(number)
    for wanted in draws.filters(count // 2) + draws.boxes(count // 4):
        index.add(wanted)
    return index


def boxes_by_event(offsets: Array, found: Array) -> list[set[int]]:
    """A box may come again, and in any order."""
    return [set(found[start:stop].tolist()) for start, stop in pairwise(offsets)]


def assert_twins_agree(index: FilterIndex, batch: Batch) -> None:
    store, scratch = index.store, index.scratch
    given_cells = batch.cells(index.numbers)
    encoded, twin = cells.encode(store, given_cells), plain.encode(store, given_cells)
    for name in encoded._fields:
        ours, theirs = getattr(encoded, name), getattr(twin, name)
        assert (ours.dtype, ours.tolist()) == (theirs.dtype, theirs.tolist()), name
    offsets, found = match.match(store, encoded, scratch)
    assert boxes_by_event(offsets, found) == boxes_by_event(*plain.match(store, encoded, scratch))
    assert match.opaque_among(store, found).tolist() == plain.opaque_among(store, found).tolist()
    for refused in (found[:0], np.arange(0, len(found), 3), np.arange(len(found))):
        needed = store.boxes, store.links, scratch.stamps, scratch.tally
        ends, numbers = match.filters_of(*needed, offsets, found, refused.astype(np.int64))
        twin_ends, twin_numbers = plain.filters_of(store, offsets, found, refused.astype(np.int64), scratch)
        assert ends.tolist() == twin_ends.tolist()
        assert numbers.tolist() == twin_numbers.tolist()
    assert not scratch.groups.any(), "the next match relies on it"


@given(st.lists(filters, max_size=12), st.lists(events, max_size=6))
def test_encode_match_and_filters_of(some: list[Filter], several: list[Attributes]) -> None:
    assert_twins_agree(FilterIndex(some), Batch.of(several))


@pytest.mark.parametrize("seed", range(4))
def test_encode_match_and_filters_of_many_filters(seed: int) -> None:
    assert_twins_agree(churned(seed), Batch.of(Draws(seed + 100).events(200)))


def test_encode_match_and_filters_of_more_events_than_go_together() -> None:
    some = Draws(7).events(500)
    assert_twins_agree(churned(7, 50), Batch.of([some[i * i % 500] for i in range(MOST_TOGETHER + 300)]))


def test_a_store_without_filters_or_events() -> None:
    assert_twins_agree(FilterIndex(), Batch.of([{"x": 1}, {}]))
    assert_twins_agree(churned(8, 20), Batch.of([]))


@given(values=st.lists(integers, max_size=20))
def test_hashes_of_many(values: list[int]) -> None:
    fast, slow = np.array(values, np.int64), np.array(values, np.int64)
    hashing.mix_all(fast)
    plain.mix_all(slow)
    assert fast.tolist() == slow.tolist()
