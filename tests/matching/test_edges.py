"""What hardly ever comes, and comes in the end: extreme values, extreme numbers of filters, odd columns."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from overstory import Filter, Untyped, UsageError, parse_filter
from overstory.filters import syntax as s
from overstory.filters.boxes import Box
from overstory.filters.value_sets import Strings, points_of_strings
from overstory.kernels.match import MOST_TOGETHER, MOST_VALUES
from overstory.kernels.nothing import NONE
from overstory.kernels.store import BLOCK, ROOT, TOKENS, TOKENS_USED, Store
from overstory.matching.batch import Batch, Lists, Numbers, Texts, Values
from overstory.matching.index import FilterIndex
from overstory.matching.reference import ReferenceIndex

from .agreement import assert_nothing_left, assert_right, assert_same_matches
from .draws import quoted

COMPARISONS = ["=", "<>", "<", "<=", ">", ">="]


def index_of(*texts: str) -> FilterIndex:
    return FilterIndex(map(parse_filter, texts))


def matches_of(index: FilterIndex, batch: Batch) -> list[list[int]]:
    found = index.match_batch(batch)
    return [found.of(i).tolist() for i in range(len(batch))]


def assert_same_batch(index: FilterIndex, batch: Batch, *texts: str) -> None:
    """Events out of columns are what the plain index takes them for, and so is each by itself."""
    plain = ReferenceIndex(map(parse_filter, texts))
    assert matches_of(index, batch) == [plain.match(event).tolist() for event in batch.events()]
    assert matches_of(index, batch) == [index.match(event).tolist() for event in batch.events()]


# Filters


def test_true_matches_every_event_and_false_none() -> None:
    index = index_of("TRUE", "FALSE", "x IS NULL OR x IS NOT NULL", "x > 5 AND x < 3")
    events: list[dict[str, object]] = [{}, {"x": 1}, {"y": "a"}, {"x": None}, {"x": {}}]
    for event in events:
        assert index.match(event).tolist() == [0, 2]
    assert matches_of(index, Batch({}, 3)) == [[0, 2]] * 3
    assert len(index) == 4
    for number in range(4):
        index.remove(number)
    assert_nothing_left(index)


def test_equal_filters_share_one_box() -> None:
    wanted = parse_filter("x BETWEEN 1 AND 5 AND t = 'a'")
    index = FilterIndex([wanted] * 100_000)
    assert (index.statistics().filters, index.statistics().boxes) == (100_000, 1)
    assert np.array_equal(index.match({"x": 3, "t": "a"}), np.arange(100_000))
    for number in range(0, 100_000, 2):
        index.remove(number)
    assert np.array_equal(index.match({"x": 3, "t": "a"}), np.arange(1, 100_000, 2))
    for number in range(1, 100_000, 2):
        index.remove(number)
    assert_nothing_left(index)


def test_an_attribute_may_have_very_many_distinct_strings() -> None:
    texts = [f"name-{i}" for i in range(200_000)]
    filters = [equality(text) for text in texts]  # parsing so many would take longer than all the rest
    index = FilterIndex(filters)
    assert index.statistics().tokens == index.statistics().boxes == 200_000
    events = Batch({"t": Texts.of([*texts, "name-200000", ""])})
    assert np.array_equal(index.match_batch(events).filters, np.arange(200_000))
    for number in range(0, 200_000, 2):
        index.remove(number)
    assert np.array_equal(index.match_batch(events).filters, np.arange(1, 200_000, 2))
    index.add_all(filters[1::2])
    assert index.statistics().boxes == 100_000, "what is still there is found in spite of what has gone"


def equality(text: str) -> Filter:
    condition = s.Compare("=", s.Attribute("t"), s.Literal(text))
    return Filter(condition, (Box({"t": Strings(points_of_strings([text]))}),))


def test_equality_is_what_parsing_makes_of_it() -> None:
    assert equality("it's") == parse_filter("t = 'it''s'")


def test_an_empty_index_finds_nothing() -> None:
    index = FilterIndex()
    assert len(index) == 0
    assert index.match({"x": 1}).tolist() == []
    assert matches_of(index, Batch.of([{"x": 1}, {}])) == [[], []]
    assert index.add_all([]).tolist() == []
    assert_nothing_left(index)


@pytest.mark.parametrize("number", [-1, 2, 10**9])
def test_removing_an_unknown_number_is_an_error(number: int) -> None:
    index = index_of("x > 1", "x > 2")
    assert number not in index
    with pytest.raises(UsageError, match=f"no filter {number}"):
        index.remove(number)
    assert index.match({"x": 5}).tolist() == [0, 1]


def test_a_number_can_be_removed_once_and_is_given_out_again() -> None:
    index = index_of("x > 1", "x > 2", "x > 3")
    index.remove(1)
    assert 1 not in index
    assert len(index) == 2
    with pytest.raises(UsageError, match="no filter 1"):
        index.remove(1)
    assert index.add(parse_filter("x < 0")) == 1
    assert index.match({"x": 5}).tolist() == [0, 2]
    assert index.match({"x": -5}).tolist() == [1]
    assert index.add(parse_filter("x < 0")) == 3


def test_a_filter_of_many_boxes_is_found_once() -> None:
    some = " OR ".join(f"(x BETWEEN {i} AND {i + 5} AND y > {i})" for i in range(20))
    assert_right([some, "x = 1 OR x = 3 OR y = 2"], [{"x": x, "y": y} for x in range(-1, 27) for y in (0, 2, 30)])


# Trees


def in_turn(i: int) -> str:
    return f"x BETWEEN {i} AND {i + 3}"


def backwards(i: int) -> str:
    return f"x BETWEEN {-i} AND {3 - i}"


def around_each_other(i: int) -> str:
    return f"x BETWEEN {-i} AND {i}"


@pytest.mark.parametrize("spell", [in_turn, backwards, around_each_other])
def test_sorted_filters_do_not_make_the_tree_a_list(spell: Callable[[int], str]) -> None:
    filters = [parse_filter(spell(i)) for i in range(20_000)]
    index = FilterIndex()
    for wanted in filters:
        index.add(wanted)
    assert depth_of(index.store) < 100
    events = [{"x": x} for x in (-20_001, -9_999.5, -3, 0, 1, 9_999.5, 19_999, 20_003)]
    assert_same_matches(index, ReferenceIndex(filters), events)


def depth_of(store: Store) -> int:
    """Of the deepest leaf, under the root or under the node of a token."""
    tops = store.tokens["child"][: store.counts[TOKENS_USED]][store.tokens["uses"][: store.counts[TOKENS_USED]] > 0]
    waiting = [(ROOT, 1), *((int(top), 1) for top in tops if top != NONE)]
    deepest = 0
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting += [(child, depth + 1) for child in children_of(store, node)]
    return deepest


def children_of(store: Store, node: int) -> list[int]:
    row = store.nodes[node]
    if row["kind"] <= BLOCK:
        return []
    if row["kind"] != TOKENS:
        return [int(row["left"]), int(row["right"])]
    table = store.words[row["threshold"] : row["threshold"] + (1 << row["left"])]
    return [int(row["attribute"]), *((table[table != 0] & 0xFFFFFFFF) - 1).tolist()]


def test_filters_that_no_range_can_part_are_parted_all_the_same() -> None:
    """All start and end alike in what they have ranges in, and differ in lists of numbers that are no ranges."""
    texts = [f"x <> {i} AND x <> {i + 1}" for i in range(500)]
    assert_right(texts, [{"x": x} for x in (-1, 0, 1, 250, 500, 501, 0.5)])


# Numbers

EXTREMES: list[Any] = [
    *(0, -0.0, 0.5, -1, 5e-324, -5e-324, 1e-200, -1e-200, 2.0**-511, 2.0**-512, 1e300, -1e300, 2.0**512),
    *(2**53, 2**53 + 1, 2**53 + 2, float(2**53), -(2**53) - 1, 2**63 - 1, -(2**63), float(2**63), 2**54 - 1),
    1.7976931348623157e308,
]
BEYOND_THE_LANGUAGE: list[Any] = [2**63, 2**64 - 1, 2**64, 2**64 + 1, -(2**64), 2**600, -(2**2000), math.inf, -math.inf]
NO_NUMBERS: list[Any] = [math.nan, True, False, "5", None, {}, [], b"5"]


def test_numbers_of_every_size_compare_exactly() -> None:
    texts = [f"x {comparison} {constant}" for constant in EXTREMES for comparison in COMPARISONS]
    events = [{"x": value} for value in EXTREMES + BEYOND_THE_LANGUAGE + NO_NUMBERS]
    assert_right([*texts, "x IS NULL", "x", "NOT x"], events)


def test_ranges_between_extremes_hold_what_lies_between() -> None:
    ordered = sorted(EXTREMES)
    texts = [f"x > {low} AND x <= {high}" for low, high in zip(ordered, ordered[3:], strict=False)]
    texts += [f"x < {low} OR x >= {high}" for low, high in zip(ordered, ordered[2:], strict=False)]
    texts.append(f"x IN ({', '.join(map(str, EXTREMES))})")
    assert_right(texts, [{"x": value} for value in EXTREMES + BEYOND_THE_LANGUAGE + NO_NUMBERS])


@pytest.mark.parametrize("sign", ["", "-"])
def test_integers_between_the_last_float_with_a_key_and_two_to_512_compare_exactly(sign: str) -> None:
    last = f"{sign}1.3407807929942596e154"
    event = {"x": (2**512 - 1) * (-1 if sign else 1)}
    assert_right([f"x {comparison} {last}" for comparison in COMPARISONS], [event])


def test_numbers_outside_all_ranges_match_nothing() -> None:
    index = FilterIndex(parse_filter(f"x BETWEEN {i} AND {i + 10} AND y BETWEEN {i} AND {i + 9}") for i in range(300))
    assert matches_of(index, Batch({"x": [-1, 310, 1e300, -1e300, 5], "y": [5, 5, 5, 5, 400]})) == [[]] * 5


def test_untyped_numbers_and_booleans_are_those_of_json() -> None:
    spellings = """1e5 1E5 1e+5 100000 -0 0 0.0 -0.0 5 5.0 05 +5 5. .5 0.5 1e999 -1e999 1e-999 true false True 1_0
        9007199254740993 9007199254740993.0 18446744073709551617 0.1 0.30000000000000004 123456789012345678901234567890
        1e22 1e23 5e-324 1e-400 4.35 2.2250738585072014e-308 NaN Infinity - e5 1e 1e+ 0x10 ٣""".split()
    spellings += ["", " 5", "5 ", "5\n", "1" * 400, "0." + "1" * 400, "1" * 5000, "1e" + "0" * 400 + "5"]
    constants = [
        "0",
        "5",
        "100000",
        "0.1",
        "0.3",
        "4.35",
        "9007199254740992",
        "9007199254740993",
        "1e22",
        "1e23",
        "5e-324",
    ]
    texts = [f"x {comparison} {constant}" for constant in constants for comparison in COMPARISONS]
    texts += ["x", "NOT x", "x = '5'", "x LIKE '1%'", "x = '1e5' AND x = 100000", "x LIKE '5%' AND x > 4", "x IS NULL"]
    assert_right(texts, [{"x": Untyped(spelling)} for spelling in spellings])
    index = FilterIndex(map(parse_filter, texts))
    assert_same_batch(index, Batch({"x": Texts.of(spellings, untyped=True)}), *texts)


# Texts and lists

TEXTS = [
    "",
    "\0",
    "a",
    "a\0",
    "a\0b",
    "ab",
    "b",
    "é",
    "e\u0301",
    "🙂",
    "🙂🙂",
    "\ud7ff",
    "\ue000",
    "\U0010ffff",
    "a" * 250,
]


def test_texts_of_every_character_compare_exactly() -> None:
    texts = [f"t {comparison} {quoted(text)}" for text in TEXTS for comparison in COMPARISONS]
    texts += [f"t LIKE {quoted(text + '%')}" for text in TEXTS] + [f"t NOT LIKE {quoted(text + '%')}" for text in TEXTS]
    texts += [f"t IN ({', '.join(map(quoted, TEXTS[:size]))})" for size in range(1, len(TEXTS))]
    texts += ["t LIKE '%a'", "t LIKE '_'", "t IS NULL", "t HAS ANY ('a')"]
    lone = ["\ud800", "a\udfff", "\ud83d", "\ud83d\ude42"]  # halves of a pair, and both halves unjoined
    values: list[object] = [*TEXTS, *lone, *map(Untyped, TEXTS), Untyped("\ud800"), 5, True, ["a"], {}, None]
    assert_right(texts, [{"t": value} for value in values])


def test_a_text_and_its_prefixes_of_all_lengths_are_told_apart() -> None:
    long = "abcdefghijklmnopqrstuvwxyz" * 4
    texts = [f"t LIKE '{long[:length]}%'" for length in range(1, 100)]
    texts += [f"t = '{long[:length]}'" for length in range(1, 100)]
    events = [{"t": long[:length]} for length in range(104)] + [{"t": long[:50] + "!"}]
    assert_right(texts, events)
    index, plain = index_of(*texts), ReferenceIndex(map(parse_filter, texts))
    for number in range(0, len(texts), 7):  # the lengths that are left are still looked for
        index.remove(number)
        plain.remove(number)
    assert_same_matches(index, plain, events)


def test_the_same_text_on_another_attribute_or_as_a_word_is_another_token() -> None:
    texts = ["t = 'a'", "u = 'a'", "t LIKE 'a%'", "u LIKE 'a%'", "t HAS ANY ('a')", "u HAS ANY ('a')"]
    assert_right(texts, [{name: value} for name in "tuv" for value in ("a", "ab", ["a"], ["ab"], Untyped("a"))])


def test_lists_hold_their_words_however_often() -> None:
    texts = ["k HAS ANY ('a')", "k HAS ANY ('a', 'b')", "NOT k HAS ANY ('a')", "k HAS ANY ('a') AND k HAS ANY ('b')"]
    texts += ["k HAS ANY ('a') AND NOT k HAS ANY ('b', 'c')", "k HAS ANY ('')", "k HAS ANY ('🙂')", "k IS NULL"]
    values: list[object] = [[], [""], ["a"], ["a", "a"], ["b", "a", "b"], ["c"], ["c", "a"], ("a",), ["🙂"], ["\ud800"]]
    values += [
        ["z"] * 300 + ["a"],
        [f"w{i}" for i in range(300)] + ["b"],
        "a",
        Untyped("a"),
        [1],
        ["a", None],
        {},
        None,
    ]
    assert_right(texts, [{"k": value} for value in values])


def test_long_lists_of_choices_meet_events_with_few_words_and_with_many() -> None:
    words = [f"w{i}" for i in range(300)]
    listed = [", ".join(map(quoted, words[start::step])) for start, step in ((0, 1), (0, 2), (1, 2), (299, 300))]
    texts = [f"t {test} ({some})" for test in ("IN", "NOT IN") for some in listed]
    texts += [f"{negation}k HAS ANY ({some})" for negation in ("", "NOT ") for some in listed]
    texts += [f"k HAS ANY ('{word}') AND x > {i}" for i, word in enumerate(words)]
    events: list[dict[str, object]] = [{"t": word, "k": words[: 10 * i], "x": 150} for i, word in enumerate(words[:31])]
    assert_right(texts, [*events, {"t": "w299", "k": ["w299"]}, {"t": "w", "k": ["w"]}, {"t": "w0", "k": words[::-2]}])


def test_malformed_values_are_there_and_nothing_else() -> None:
    texts = ["x IS NULL", "x IS NOT NULL", "x = 1", "x <> 1", "x = 'a'", "x <> 'a'", "x", "x HAS ANY ('a')"]
    texts.append("NOT x HAS ANY ('a')")
    assert_right(texts, [{"x": value} for value in ({}, {"a": 1}, b"a", [1], [["a"]], object(), 1j, {"a"})])


# Events


def test_an_event_without_a_known_attribute_matches_only_what_asks_for_none() -> None:
    assert_right(["x > 1", "x IS NULL", "NOT x > 1", "t = 'a'", "TRUE"], [{}, {"z": 1}, {"": ""}, {"X": 5}])


def test_an_empty_batch_has_no_matches() -> None:
    for batch in (Batch.of([]), Batch({}), Batch({"x": []}), Batch({"x": np.zeros(0)}), Batch({"x": Texts.of([])})):
        found = index_of("x > 1", "TRUE").match_batch(batch)
        assert (found.offsets.tolist(), found.filters.tolist()) == ([0], [])


def test_more_events_than_go_together_keep_their_order() -> None:
    index = index_of("x > 0", "x = 4095", "x = 4096", "t = 'a' AND x < 2")
    count = 2 * MOST_TOGETHER + 5
    found = index.match_batch(Batch({"x": np.arange(count), "t": Texts.of(["a"] * count)}))
    plain = index_of("x > 0")
    assert [i for i in range(count) if 1 in found.of(i)] == [4095]
    assert [i for i in range(count) if 2 in found.of(i)] == [4096]
    assert [i for i in range(count) if 3 in found.of(i)] == [0, 1]
    assert (
        found.filters.tolist().count(0) == len(plain.match_batch(Batch({"x": np.arange(count)})).filters) == count - 1
    )


def test_many_attributes_part_a_batch_into_more_groups() -> None:
    names = [f"x{i}" for i in range(2000)]
    index = FilterIndex(parse_filter(f"{name} > {i % 7}") for i, name in enumerate(names))
    plain = ReferenceIndex(parse_filter(f"{name} > {i % 7}") for i, name in enumerate(names))
    count = 3 * (MOST_VALUES // 2000) + 1
    events = [{names[i * 37 % 2000]: i % 9, names[i * 91 % 2000]: 6} for i in range(count)]
    found = matches_of(index, Batch.of(events))
    assert found[:: count // 20] == [plain.match(event).tolist() for event in events[:: count // 20]]
    assert found == [index.match(event).tolist() for event in events]


# Columns

RANGES = ["x > 1", "x <= 1", "x = 0", "x >= 255", "x > 9007199254740992", "x IS NULL", "x = 'a'", "x", "NOT x"]


@pytest.mark.parametrize("dtype", "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 ? >f8 >i4".split())
def test_columns_of_every_type_of_number_are_taken(dtype: str) -> None:
    with np.errstate(over="ignore"):
        values = np.array([0, 1, 2, 100, 1]).astype(dtype)
    assert_same_batch(index_of(*RANGES), Batch({"x": values}), *RANGES)
    assert_same_batch(index_of(*RANGES), Batch({"x": values[::-2]}), *RANGES)  # not in a row


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_columns_of_integers_are_exact_to_the_last(dtype: Any) -> None:
    limits = np.iinfo(dtype)
    values = [2**53 + 1, 2**53, 2**62 + 1, limits.max, limits.max - 1, limits.max - 512, limits.max - 1024, limits.min]
    constants = ["9007199254740992", "9007199254740993", str(2**62), str(2**63 - 1), str(2**63 - 513), str(-(2**63))]
    texts = [f"x {comparison} {constant}" for constant in constants for comparison in COMPARISONS]
    assert_same_batch(index_of(*texts), Batch({"x": np.array(values, dtype)}), *texts)


def test_columns_of_floats_have_no_number_where_there_is_none() -> None:
    values = np.array([math.nan, math.inf, -math.inf, -0.0, 1e-200, 1e300, 5e-324])
    texts = ["x > 0", "x >= 0", "x < 0", "x <> 0", "x = 0", "x > 1e300", "x >= 1e300", "x IS NOT NULL"]
    assert_same_batch(index_of(*texts), Batch({"x": values}), *texts)
    assert matches_of(index_of("x <> 0", "x IS NOT NULL"), Batch({"x": values[:1]})) == [[1]]


def test_large_unsigned_integers_of_the_other_byte_order_are_exact() -> None:
    other = np.dtype(np.uint64).newbyteorder()
    assert_same_batch(index_of("x > 5"), Batch({"x": np.array([2**63 + 5, 3], other)}), "x > 5")


def test_columns_of_numpy_strings_are_texts() -> None:
    texts = ["t = 'a'", "t LIKE 'é%'", "t = ''", "t IS NULL"]
    assert_same_batch(index_of(*texts), Batch({"t": np.array(["a", "é🙂", "", "5"])}), *texts)


def test_absent_values_of_a_column_are_null_whatever_stands_there() -> None:
    present = np.array([True, False, True])
    words = Texts.of(["a", "b", "b"])
    columns = {
        "n": Numbers(np.array([5.0, 5.0, math.nan]), present),
        "i": Numbers(np.array([5, 5, 5]), present),
        "b": Numbers(np.array([True, True, False]), present),
        "t": Texts(words.data, words.offsets, present),
        "u": Texts(np.frombuffer(b"555", np.uint8), np.arange(4), present, untyped=True),
        "k": Lists(np.array([0, 1, 2, 2]), words, present),
        "v": Values(["a", None, 5]),
    }
    texts = [f"{name} IS {negation}NULL" for name in columns for negation in ("", "NOT ")]
    texts += ["n = 5", "i = 5", "b", "NOT b", "t = 'a'", "t = 'b'", "u = 5", "u = '5'", "k HAS ANY ('a', 'b')", "v = 5"]
    assert_same_batch(index_of(*texts), Batch(columns), *texts)
    batch = Batch(columns)
    assert batch.event(1) == {"v": None}
    assert batch.event(0) == {"n": 5.0, "i": 5, "b": True, "t": "a", "u": Untyped("5"), "k": ["a"], "v": "a"}


def test_columns_of_texts_and_lists_may_start_in_the_middle() -> None:
    """As a slice of an Arrow array does."""
    words = Texts.of(["x", "a", "b", "", "🙂", "a"])
    sliced = Texts(words.data, words.offsets[1:])
    columns = {
        "t": sliced,
        "k": Lists(np.array([1, 1, 3, 4, 5, 6]), words),
        "l": Lists(np.array([0, 2, 2, 4, 5, 5]), sliced),
    }
    texts = [f"t = {quoted(text)}" for text in ("x", "a", "b", "", "🙂")]
    texts += [f"{name} HAS ANY ({quoted(text)})" for name in "kl" for text in ("x", "a", "b", "", "🙂")]
    assert_same_batch(index_of(*texts), Batch(columns), *texts)


def test_columns_of_mixed_values_lie_side_by_side_with_others() -> None:
    mixed: list[object] = ["a", ["a", "b"], 5, True, None, {}, Untyped("5"), [], "", math.nan]
    columns = {
        "v": mixed,
        "w": tuple(reversed(mixed)),
        "t": Texts.of([None, "a", "", "5", "b", None, "a\0", "a", "b", "c"]),
        "k": [["b"], "a", ["a"], [], None, ["a", "b"], ["c"], 5, ["b"], ["a"]],
        "n": np.arange(10),
    }
    texts = [
        f"{name} {rest}" for name in "vwtkn" for rest in ("= 'a'", "= 5", "HAS ANY ('b')", "IS NULL", "> 3", "= ''")
    ]
    assert_same_batch(index_of(*texts), Batch(columns), *texts)


def test_columns_of_unequal_length_are_refused() -> None:
    with pytest.raises(UsageError, match="column y has 3 values where others have 2"):
        Batch({"x": [1, 2], "y": np.arange(3)})
    with pytest.raises(UsageError, match="column t has 1 values where others have 4"):
        Batch({"t": Texts.of(["a"])}, 4)


@pytest.mark.parametrize(
    "column", [np.zeros((2, 2)), np.array([b"a"]), np.array([1j]), np.array([{}]), "abc", {1: 2}, 5]
)
def test_columns_of_what_is_no_value_are_refused(column: object) -> None:
    with pytest.raises(UsageError, match="column x"):
        Batch({"x": column})


def test_a_mask_of_another_length_than_its_column_is_refused() -> None:
    with pytest.raises(UsageError):
        index_of("x > 1").match_batch(Batch({"x": Numbers(np.arange(3), np.array([True]))}))


def test_events_come_out_of_a_batch_as_they_went_in() -> None:
    events: list[dict[str, object]] = [
        {"x": 1, "t": "é🙂\0", "k": ["a", ""], "b": True},
        {"x": 2.5, "t": "", "k": [], "b": False},
        {"x": Untyped("5"), "t": "\ud800", "k": ("a",), "b": None},
    ]
    batch = Batch.of(events)
    assert len(batch) == 3
    assert [batch.event(i) for i in range(3)] == list(batch.events()) == events
    columns = Batch({"t": Texts.of(["é🙂\0", "", "\ud800"]), "u": Texts.of(["5", "", "é"], untyped=True)})
    assert list(columns.events()) == [
        {"t": "é🙂\0", "u": Untyped("5")},
        {"t": "", "u": Untyped("")},
        {"t": "\ud800", "u": Untyped("é")},
    ]


# Texts that strangers choose


@pytest.mark.parametrize("seed", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_the_seed_of_the_hash_changes_nothing_else(seed: int) -> None:
    filters = [parse_filter(f"t = 'S{i}' AND k HAS ANY ('w{i}')") for i in range(100)]
    index = FilterIndex(filters, seed)
    assert [index.match({"t": f"S{i}", "k": ["w1", f"w{i}"]}).tolist() for i in range(100)] == [[i] for i in range(100)]


def test_a_seed_of_any_size_is_taken() -> None:
    assert FilterIndex([parse_filter("t = 'a'")], 2**64 - 1).match({"t": "a"}).tolist() == [0]
