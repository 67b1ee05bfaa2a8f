"""The covering index knows what asking every filter whether it covers another finds."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from numpy.typing import NDArray
from sortedcontainers import SortedDict  # type: ignore[import-untyped]

from overstory import Filter, parse_filter
from overstory.errors import UsageError
from overstory.kernels.cover import enclosed, enclosing
from overstory.kernels.keys import FALSE, LEAST, MOST, TOP, TRUE
from overstory.kernels.leaves import CAPACITY
from overstory.matching.covering import MOST_HULLS, CoveringIndex, Labels, hulls_of
from overstory.matching.filing import Filing

from ..filters.test_laws import box_filters, filters
from .draws import Draws

Array = NDArray[np.int64]
WORD_CHOICES = "tags HAS ANY ('a', 'b') AND tags HAS ANY ('c', 'd')"
SPECIAL = [
    parse_filter(text)
    for text in (
        "FALSE",
        "TRUE",
        "x IS NULL",
        "x IS NOT NULL",
        "x LIKE 'a%'",
        "x LIKE 'ab%'",
        "x LIKE '%'",
        "x NOT LIKE 'a%'",
        "x > 5",
        "x <> 5",
        "x > 5 AND x > 'a'",  # untyped values alone have both faces
        "x >= 5 AND x >= ''",
        "x = 'a' OR x = 5",
        "x > 2 OR y > 2",
        "(x > 2 AND x < 3) OR (y > 2 AND x > 5)",
        "tags HAS ANY ('a')",
        "tags HAS ANY ('a', 'b', 'c', 'd')",
        WORD_CHOICES,
        "tags HAS ANY ('a') AND tags HAS ANY ('d')",
        "tags HAS ANY ('a', 'd') AND tags HAS ANY ('b', 'c')",
        f"{WORD_CHOICES} AND NOT tags HAS ANY ('e')",
        f"({WORD_CHOICES} AND x > 1) OR (tags HAS ANY ('a', 'd') AND x > 2)",
        " AND ".join(f"k{i} HAS ANY ('a', 'b') AND k{i} HAS ANY ('c', 'd')" for i in range(4)),  # 16 hulls: too many
        "NOT tags HAS ANY ('a')",
        "x + y > 3 AND x > 5",
        "flag",
        "NOT flag",
        "x > 1e300",
        "x > 9007199254740993",
        "x > 9007199254740992",
    )
]
all_kinds = st.sampled_from(SPECIAL) | filters | box_filters


def assert_same_answers(index: CoveringIndex, asked: Filter) -> None:
    live = index.filters
    wanted = sorted(number for number, each in live.items() if each.covers(asked))
    assert index.covering(asked) == wanted, f"covering {asked}"
    wanted = sorted(number for number, each in live.items() if asked.covers(each))
    assert index.covered(asked) == wanted, f"covered by {asked}"


def assert_nothing_left(index: CoveringIndex) -> None:
    known = index.statistics()
    assert (known.filters, known.hulls, known.unfiled, known.labels, known.bins) == (0, 0, 0, 0, 1)
    assert index.covered(parse_filter("TRUE")) == index.covering(parse_filter("FALSE")) == []


class CoveringAgainstPairs(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.index = CoveringIndex()
        self.live: dict[int, Filter] = {}

    @rule(wanted=all_kinds)
    def add(self, wanted: Filter) -> None:
        number = self.index.add(wanted)
        assert number not in self.live
        self.live[number] = wanted
        assert_same_answers(self.index, wanted)

    @rule(some=st.lists(all_kinds, max_size=6))
    def add_all(self, some: list[Filter]) -> None:
        numbers = self.index.add_all(some)
        assert self.live.keys().isdisjoint(numbers)
        self.live.update(zip(numbers, some, strict=True))

    @precondition(lambda self: bool(self.live))
    @rule(at=st.integers(0, 2**16))
    def remove(self, at: int) -> None:
        number = sorted(self.live)[at % len(self.live)]
        assert self.index.remove(number) is self.live.pop(number)
        assert number not in self.index

    @rule(asked=all_kinds)
    def ask(self, asked: Filter) -> None:
        assert_same_answers(self.index, asked)

    @precondition(lambda self: bool(self.live))
    @rule(at=st.integers(0, 2**16))
    def ask_about_one_inside(self, at: int) -> None:
        assert_same_answers(self.index, self.live[sorted(self.live)[at % len(self.live)]])

    @invariant()
    def has_what_was_added(self) -> None:
        assert self.index.filters == self.live

    def teardown(self) -> None:
        for number in list(self.live):
            self.index.remove(number)
        assert_nothing_left(self.index)


# One example is up to fifty steps
CoveringAgainstPairs.TestCase.settings = settings(max_examples=settings().max_examples // 8)
test_covering_index_finds_what_asking_all_pairs_finds = CoveringAgainstPairs.TestCase


def test_every_special_filter_is_found_from_every_other() -> None:
    together, one_by_one = CoveringIndex(SPECIAL), CoveringIndex()
    for wanted in SPECIAL:
        one_by_one.add(wanted)
    for asked in SPECIAL:
        assert_same_answers(together, asked)
        assert_same_answers(one_by_one, asked)


@pytest.mark.parametrize("seed", range(2))
def test_answers_stay_right_while_hundreds_of_filters_come_and_go(seed: int) -> None:
    draws = Draws(seed)
    dice = draws.dice
    pool = draws.filters(350) + draws.boxes(250) + SPECIAL
    index = CoveringIndex()
    live: list[int] = []
    for removed in (0.2, 0.5, 0.8, 0.3):  # the share of removals among changes
        live += index.add_all(dice.choices(pool, k=300))
        for _ in range(300):
            if live and dice.random() < removed:
                index.remove(live.pop(dice.randrange(len(live))))
            else:
                live.append(index.add(dice.choice(pool)))
        for asked in dice.choices(pool, k=12):
            assert_same_answers(index, asked)
    for number in dice.sample(live, len(live)):
        index.remove(number)
    assert_nothing_left(index)


@pytest.mark.parametrize("splitting", [False, True])
def test_answers_are_right_after_blocks_have_split(splitting: bool) -> None:
    dice = random.Random(7)
    some = [
        parse_filter(f"p BETWEEN {low} AND {low + width} AND u >= '{letter}'")
        for low, width, letter in (
            (dice.randint(0, 500), dice.choice([0, 3, 90]), dice.choice("abcdef")) for _ in range(4 * CAPACITY)
        )
    ]
    index = CoveringIndex() if splitting else CoveringIndex(some)
    if splitting:
        for wanted in some:
            index.add(wanted)
    assert index.statistics().bins >= 4
    for asked in dice.sample(some, 20):
        assert_same_answers(index, asked)


def test_few_filters_are_asked_where_hulls_tell_them_apart() -> None:
    index = CoveringIndex(parse_filter(f"p BETWEEN {i} AND {i + 2}") for i in range(500))
    assert index.covering(parse_filter("p BETWEEN 100 AND 101")) == [99, 100]
    assert index.covered(parse_filter("p BETWEEN 99 AND 103")) == [99, 100, 101]
    assert index.statistics().candidates_per_query < 5


def test_filters_with_too_many_hulls_are_counted_as_unfiled() -> None:
    many = " AND ".join(f"k{i} HAS ANY ('a', 'b') AND k{i} HAS ANY ('c', 'd')" for i in range(4))
    assert not hulls_of(parse_filter(many))
    assert 1 < len(hulls_of(parse_filter(WORD_CHOICES))) <= MOST_HULLS
    assert CoveringIndex([parse_filter(many), parse_filter("FALSE"), parse_filter("TRUE")]).statistics().unfiled == 2


def test_removing_what_is_not_there_is_a_usage_error() -> None:
    index = CoveringIndex([parse_filter("x > 5")])
    index.remove(0)
    for number in (0, 1, -1):
        with pytest.raises(UsageError, match="has no filter"):
            index.remove(number)


def test_a_pattern_that_empties_the_rest_of_a_hull_does_not_hide_a_filter() -> None:
    outer = parse_filter("(x LIKE 'a%' AND y > 3) OR (x >= 'a' AND x < 'bb' AND y < 5)")
    inner = parse_filter("x >= 'a' AND x < 'c' AND x NOT LIKE '%b%' AND y > 0")
    assert outer.covers(inner)
    assert CoveringIndex([outer]).covering(inner) == [0]
    assert CoveringIndex([inner]).covered(outer) == [0]


# Labels

texts = st.text("ab\0é🙂", max_size=4)


class PlainLabels:
    """What ``Labels`` gave out, in a sorted list."""

    def __init__(self) -> None:
        self.fast = Labels()
        self.known = SortedDict()
        self.uses: dict[str, int] = {}

    def take(self, text: str) -> None:
        label = self.fast.take(text)
        assert self.known.setdefault(text, label) == label, "a text keeps its label while it is in use"
        assert -TOP < label < TOP
        self.uses[text] = self.uses.get(text, 0) + 1

    def release(self, text: str) -> None:
        self.fast.release(text)
        self.uses[text] -= 1
        if not self.uses[text]:
            del self.uses[text], self.known[text]

    def check(self, strict: bool = False) -> None:
        labels = list(self.known.values())
        assert labels == sorted(labels)
        assert len(self.fast) == len(labels)
        if strict:
            assert len(set(labels)) == len(labels)

    def check_near(self, text: str) -> None:
        below = [label for known, label in self.known.items() if known <= text]
        above = [label for known, label in self.known.items() if known >= text]
        assert self.fast.near(text, below=True) == (below[-1] if below else -TOP)
        assert self.fast.near(text, below=False) == (above[0] if above else TOP)


@given(st.lists(st.tuples(st.booleans(), texts), max_size=40), st.lists(texts, min_size=1, max_size=8))
def test_labels_keep_the_order_of_texts_that_come_and_go(changes: list[tuple[bool, str]], asked: list[str]) -> None:
    labels = PlainLabels()
    for leaves, text in changes:
        if leaves and text in labels.uses:
            labels.release(text)
        else:
            labels.take(text)
        labels.check()
    for text in [*asked, *labels.uses]:
        labels.check_near(text)


@pytest.mark.parametrize("order", ["ascending", "descending", "random"])
def test_thousands_of_labels_keep_the_order_of_texts(order: str) -> None:
    dice = random.Random(1)
    some = [f"{i:05}" for i in range(4000)]
    if order == "descending":
        some.reverse()
    elif order == "random":
        dice.shuffle(some)
    labels = PlainLabels()
    for text in some:
        labels.take(text)
    labels.check(strict=order != "random")
    for text in dice.sample(some, 2000):
        labels.release(text)
    labels.check()
    for text in [*dice.sample(some, 20), "", "zzz", "02000x"]:
        labels.check_near(text)


def test_labels_stay_in_order_when_a_gap_has_run_out() -> None:
    labels = PlainLabels()
    low, high = "", "b"
    labels.take(low)
    labels.take(high)
    for i in range(200):  # each between the last two
        middle = low + "a"
        labels.take(middle)
        if i % 2:
            low = middle
        else:
            low, high = low + "\0", middle
            labels.take(low)
    labels.check()
    assert len(set(labels.known.values())) < len(labels.known)
    for text in list(labels.known)[::20]:
        labels.check_near(text)
        labels.check_near(text + "\0")


def test_filters_are_found_when_labels_have_run_out() -> None:
    some = [parse_filter(f"u >= '{'a' * i}' AND u < '{'a' * i}b'") for i in range(1, 150)]
    index = CoveringIndex()
    for wanted in some:
        index.add(wanted)
    for asked in some[::10]:
        assert_same_answers(index, asked)


# Kernels, against a scan of all hulls

Range = tuple[int, int, int]  # attribute, low, high


class PlainHulls:
    """A row for each filter; LEAST to MOST where it asks for nothing."""

    def __init__(self, hulls: list[list[Range]], attributes: int) -> None:
        self.lows, self.highs = np.full((len(hulls), attributes), LEAST), np.full((len(hulls), attributes), MOST)
        for row, hull in enumerate(hulls):
            for attribute, low, high in hull:
                self.lows[row, attribute], self.highs[row, attribute] = low, high

    def enclosing(self, asked: list[Range]) -> list[int]:
        one = PlainHulls([asked], self.lows.shape[1])
        return np.flatnonzero(((self.lows <= one.lows) & (one.highs <= self.highs)).all(axis=1)).tolist()

    def enclosed(self, asked: list[Range]) -> list[int]:
        one = PlainHulls([asked], self.lows.shape[1])
        return np.flatnonzero(((self.lows >= one.lows) & (self.highs <= one.highs)).all(axis=1)).tolist()


def filed(hulls: list[list[Range]], attributes: int, splitting: bool) -> Filing:
    filing = Filing()
    for number in range(attributes):
        filing.attribute(number)
    records = [[1 + 3 * len(hull), len(hull), *flat(hull).tolist()] for hull in hulls]
    if splitting:
        for each in records:
            filing.add([1], each, splitting=True)
    else:
        filing.add([1] * len(records), [word for each in records for word in each], splitting=False)
        filing.finish()
    return filing


def flat(hull: list[Range]) -> Array:
    return np.array([word for each in hull for word in each], np.int64)


def random_hull(dice: random.Random, attributes: int, width: int) -> list[Range]:
    hull = []
    for attribute in sorted(dice.sample(range(attributes), dice.randint(0, attributes))):
        low = dice.randint(0, 60)
        limits = [(low, low + dice.randint(0, width))] * 6
        limits += [(-TOP, low), (low, TOP), (-TOP, TOP), (FALSE, FALSE), (FALSE, TRUE)]
        hull.append((attribute, *dice.choice(limits)))
    return hull


@pytest.mark.parametrize("splitting", [False, True])
@pytest.mark.parametrize(("seed", "count", "attributes"), [(1, 0, 1), (2, 5, 2), (3, 700, 1), (4, 700, 3), (5, 400, 6)])
def test_kernels_find_what_a_scan_of_all_hulls_finds(seed: int, count: int, attributes: int, splitting: bool) -> None:
    dice = random.Random(seed)
    hulls = [random_hull(dice, attributes, dice.choice([0, 5, 40])) for _ in range(count)]
    filing, plain = filed(hulls, attributes, splitting), PlainHulls(hulls, attributes)
    for asked in [[], *(random_hull(dice, attributes, dice.choice([0, 5, 60])) for _ in range(60)), *hulls[:20]]:
        assert sorted(enclosing(*filing.store, flat(asked)).tolist()) == plain.enclosing(asked)
        assert sorted(enclosed(*filing.store, flat(asked)).tolist()) == plain.enclosed(asked)


keys = st.integers(-3, 6) | st.sampled_from([-TOP, TOP, FALSE, TRUE])
limits = st.tuples(keys, keys).map(lambda pair: (min(pair), max(pair)))
hulls_strategy = st.dictionaries(st.integers(0, 2), limits).map(
    lambda found: [(attribute, low, high) for attribute, (low, high) in sorted(found.items())]
)


@given(st.lists(hulls_strategy, max_size=12), hulls_strategy, st.booleans())
def test_kernels_find_what_a_scan_finds_among_few(
    hulls: list[list[Range]], asked: list[Range], splitting: bool
) -> None:
    filing, plain = filed(hulls, 3, splitting), PlainHulls(hulls, 3)
    assert sorted(enclosing(*filing.store, flat(asked)).tolist()) == plain.enclosing(asked)
    assert sorted(enclosed(*filing.store, flat(asked)).tolist()) == plain.enclosed(asked)


def assert_asks_as_all_do(filters: list[Filter], asked: list[Filter]) -> None:
    index = CoveringIndex(filters)
    for wanted in asked:
        assert index.covering(wanted) == [i for i, other in enumerate(filters) if other.covers(wanted)]
        assert index.covered(wanted) == [i for i, other in enumerate(filters) if wanted.covers(other)]


def test_a_hull_of_one_box_alone_says_nothing_of_the_others() -> None:
    """A union that must hit several word lists is filed by the hulls of one of its boxes, too."""
    narrow = "(p BETWEEN 0 AND 9 AND tags HAS ANY ('a') AND tags HAS ANY ('b'))"
    union = f"{narrow} OR (p BETWEEN 20 AND 29 AND tags HAS ANY ('a') AND tags HAS ANY ('c') AND tags HAS ANY ('d'))"
    filters = [parse_filter(text) for text in (narrow, union, "p BETWEEN 0 AND 9", "p BETWEEN 0 AND 29", "TRUE")]
    assert_asks_as_all_do(filters, filters)


@pytest.mark.parametrize("texts", [["a"], ["a", "b"], ["", "a", "ab", "b", "\U0010ffff"]])
def test_texts_that_share_a_label_are_told_apart(texts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overstory.matching.covering.TOP", 2)  # hardly any labels
    filters = [parse_filter(f"x {operator} '{text}'") for text in texts for operator in ("=", ">", "<=", "<>")]
    filters += [parse_filter(f"x LIKE '{text}%'") for text in texts]
    index = CoveringIndex(filters)
    for wanted in filters:
        assert index.covering(wanted) == [i for i, other in enumerate(filters) if other.covers(wanted)]
        assert index.covered(wanted) == [i for i, other in enumerate(filters) if wanted.covers(other)]
