"""No filter inside the limits takes long, whatever is asked of it; and what runs out of work is answered safely."""

import contextlib
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory import Filter, FilterLimitError, Limits, OverstoryError, parse_filter
from overstory.filters import Discrete, Uniform, boxes, like, relations
from overstory.filters import difference as differences
from overstory.filters.automaton import Automaton
from overstory.filters.box import Box
from overstory.filters.boxes import absorbed
from overstory.filters.difference import difference
from overstory.filters.grid import Grid, bits_of
from overstory.filters.work import UNCOUNTED, OutOfWorkError, Work

from .strategies import conditions, events, text_of
from .test_laws import box_filters, filters

LETTERS = "abcdefghijklmnopqrstuvwxyz"
SECONDS = 0.3 * 3  # that anything inside the limits may take; three times as long where others use the machine, too


def joined(template: str, count: int, separator: str) -> str:
    return separator.join(template.format(i=i, letter=LETTERS[i % 26]) for i in range(count))


def product(count: int, width: int, pattern: str, test: str = "x LIKE") -> str:
    """So many ORs of so many patterns each, joined by AND."""
    return " AND ".join(
        "(" + " OR ".join(f"{test} '{pattern.format(i=LETTERS[i], j=j)}'" for j in range(width)) + ")"
        for i in range(count)
    )


def nested(inner: str, levels: int, template: str) -> str:
    for level in range(levels):
        inner = template.format(inner=inner, level=level)
    return inner


MANY_RUNS, MANY_ONES = "%" + "a%" * 100 + "z{i}.%", "%" + "a_" * 100 + "z{i}.%"
SEGMENTS = "%" + "a_%" * 60
SUM = " + ".join(["{0}"] * 120)
HOSTILE = {
    "eight pairs": product(8, 2, "%{i}_{j}a%"),
    "eight pairs of many segments": product(8, 2, SEGMENTS + "{i}{j}%"),
    "eight pairs of many ones": product(8, 2, "%" + "a_" * 90 + "{i}{j}%"),
    "four fours not to match": product(4, 4, "%{i}_{j}a%", "x NOT LIKE"),
    "three sixes": product(3, 6, SEGMENTS + "{i}{j}%"),
    "two sixteens": product(2, 16, "%{i}{j}%"),
    "240 patterns": joined("x LIKE '%z{i}a_%'", 240, " OR "),
    "240 literal patterns": joined("x LIKE '%z{i}a%'", 240, " OR "),
    "240 patterns of many segments": joined(f"x LIKE '{SEGMENTS}z{{i}}.%'", 240, " OR "),
    "240 patterns of many runs": joined(f"x LIKE '{MANY_RUNS}'", 240, " OR "),
    "240 patterns of many ones": joined(f"x LIKE '{MANY_ONES}'", 240, " OR "),
    "240 patterns not to match": joined(f"x NOT LIKE '{SEGMENTS}z{{i}}.%'", 240, " OR "),
    "a thousand patterns": joined("(x LIKE '%{i}_0%' AND y = {i})", 1000, " OR "),
    "a thousand patterns not to match": joined("x NOT LIKE '%{i}_0%'", 1000, " OR "),
    "a thousand pairs of patterns": joined("(x NOT LIKE '%{i}_0%' AND x NOT LIKE '%{i}_1%')", 1000, " OR "),
    "sixteen patterns in each box": " OR ".join(
        "(" + joined(f"x LIKE '%{i}_{{i}}%'", 16, " AND ") + ")" for i in range(128)
    ),
    "boxes of patterns": joined(f"(x LIKE '{SEGMENTS}z{{i}}.%' AND y{{i}} = 1)", 230, " OR "),
    "a thousand steps": joined("(a > {i} AND b > -{i})", 1000, " OR "),
    "steps in many attributes": joined("(a > {i} AND b > {i} AND c > {i} AND d > {i} AND e > -{i})", 256, " OR "),
    "nested unions": nested(joined("(a > {i} AND b > -{i})", 200, " OR "), 30, "NOT NOT ({inner}) OR c{level} = 1"),
    "nested products": nested(
        joined("(a > {i} AND b > -{i})", 250, " OR "), 30, "(({inner}) AND c{level} = 1) OR d{level} = 1"
    ),
    "points and patterns": "x IN (" + joined("'s{i}'", 2500, ", ") + ") AND " + joined("x LIKE '%{i}%'", 10, " AND "),
    "long points and patterns": f"x IN ('{'a' * 25000}', '{'a' * 25000}b') AND "
    + joined(f"x NOT LIKE '{'%a_a_a_' * 20}{{i}}_b%'", 16, " AND "),
    "prefixes and patterns": f"({joined('x LIKE {q}p{{i}}%{q}'.format(q=chr(39)), 1000, ' OR ')}) AND "
    + joined("x NOT LIKE '%{i}_%'", 16, " AND "),
    "word lists": " OR ".join(
        "(" + joined(f"k HAS ANY ('a{i}_{{i}}', 'b{{i}}')", 16, " AND ") + ")" for i in range(100)
    ),
    "a long sum and alternatives": f"{SUM.format('y')} = {SUM.format('z')} AND ({joined('a{i} < b{i}', 250, ' OR ')})",
    "a thousand residuals": joined("a{i} < b{i}", 1000, " OR "),
    "mixed lists": "x IN (" + joined("{i}, {i}.5, 'a{i}'", 2000, ", ") + ")",
    "faces": " AND ".join(f"(x LIKE '%{i}_%' OR x > {i})" for i in range(8)),
    "holes in many boxes": " OR ".join(
        f"(x NOT IN ({joined(f'{i}.{{i}}', 20, ', ')}) AND y = {i})" for i in range(250)
    ),
}
TAKEN = [
    "eight pairs",
    "eight pairs of many segments",
    "eight pairs of many ones",
    "four fours not to match",
    "two sixteens",
    "240 patterns",
    "240 literal patterns",
    "steps in many attributes",
    "mixed lists",
]


def seconds(ask: Callable[[], object]) -> float:
    """CPU seconds, the best of three: others use this machine, too."""
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        with contextlib.suppress(OverstoryError):
            ask()
        best = min(best, time.process_time() - start)
        if best < SECONDS:
            break
    return best


@cache
def accepted() -> dict[str, Filter]:
    found = {"other patterns": parse_filter(joined("x LIKE '%y{i}b_%'", 240, " OR "))}
    for name, text in HOSTILE.items():
        with contextlib.suppress(FilterLimitError):
            found[name] = parse_filter(text)
    return found


@pytest.mark.parametrize("name", HOSTILE)
def test_no_filter_inside_the_limits_takes_long_to_parse(name: str) -> None:
    text = HOSTILE[name]
    assert len(text) <= Limits().length
    assert seconds(lambda: parse_filter(text)) < SECONDS


@pytest.mark.parametrize("depth", range(0, 120, 5))
def test_the_depth_of_the_stack_does_not_matter(depth: int) -> None:
    """Where CPython's stack grows, each call once took ten times as long, and loops began at any depth."""

    def deeper(levels: int) -> float:
        return deeper(levels - 1) if levels else seconds(lambda: parse_filter(HOSTILE["two sixteens"]))

    assert deeper(depth) < SECONDS


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_large_but_not_hard_is_taken(name: str) -> None:
    assert parse_filter(HOSTILE[name]).boxes


@pytest.mark.parametrize("name", TAKEN)
def test_no_relation_between_filters_inside_the_limits_takes_long(name: str) -> None:
    ours = accepted()[name]
    for other in ("other patterns", *TAKEN[TAKEN.index(name) :]):
        theirs = accepted()[other]
        for ask in (Filter.covers, Filter.intersects, Filter.union, Filter.leaves_out):
            for a, b in ((ours, theirs), (theirs, ours)):
                taken = seconds(lambda ask=ask, a=a, b=b: ask(a, b))  # type: ignore[misc]
                assert taken < SECONDS, f"{name}, {ask.__name__}, {other}"
    assert ours.covers(ours)
    assert ours.intersects(ours)


def test_printing_and_volumes_do_not_take_long() -> None:
    for name, wanted in accepted().items():
        assert seconds(lambda wanted=wanted: str(wanted)) < SECONDS, name  # type: ignore[misc]
        names = {attribute for box in wanted.boxes for attribute in box.sets}
        for kind in (Uniform(0, 1000), Discrete({"aza": 1, 5: 2, None: 1})):
            given = dict.fromkeys(names, kind)
            assert seconds(lambda wanted=wanted, given=given: wanted.volume(given)) < SECONDS, name  # type: ignore[misc]


# The count


def test_patterns_are_compared_once_for_each_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """256 boxes of eight patterns each are made of sixteen patterns: not millions of comparisons, but some hundreds."""
    compared = []
    plain = Automaton.accepts

    def counted(self: Automaton, text: str) -> bool:
        compared.append((self.spelling, text))
        return plain(self, text)

    monkeypatch.setattr(Automaton, "accepts", counted)
    assert len(parse_filter(product(8, 2, "%" + "a_" * 90 + "{i}{j}%")).boxes) == 256
    assert len(compared) == len(set(compared)) <= 16 * 16


def least_work(text: str) -> int:
    """The work with which the text is just taken."""
    low, high = 0, Limits().work
    while low < high:
        middle = (low + high) // 2
        try:
            parse_filter(text, limits=Limits(work=middle))
            high = middle
        except FilterLimitError:
            low = middle + 1
    return low


@pytest.mark.parametrize("name", ["eight pairs", "240 patterns", "word lists", "faces"])
def test_the_count_is_the_same_every_time(name: str) -> None:
    text = HOSTILE[name]
    needed = least_work(text)
    assert 0 < needed < Limits().work
    like._automaton.cache_clear()
    like.matcher.cache_clear()
    assert least_work(text) == needed


def test_a_filter_that_takes_too_much_work_is_refused_where_it_does() -> None:
    text = "p = 1 AND (" + HOSTILE["a thousand steps"] + ")"
    with pytest.raises(FilterLimitError, match="takes too much work") as caught:
        parse_filter(text)
    assert text[caught.value.position :].startswith("OR")
    small = joined("(a > {i} AND b > -{i})", 20, " OR ")
    with pytest.raises(FilterLimitError, match="takes too much work"):
        parse_filter(small, limits=Limits(work=50))
    assert len(parse_filter(HOSTILE["a thousand steps"], limits=Limits(boxes=1000, work=10**9)).boxes) == 1000


def test_work_runs_out() -> None:
    work = Work(3)
    work.spend(3)
    with pytest.raises(OutOfWorkError):
        work.spend(1)


# Safety: whatever is left undone, the answer is not wrong

small_work = st.integers(0, 40)


@given(filters | box_filters, filters | box_filters, small_work)
def test_relations_that_run_out_of_work_are_safe(a: Filter, b: Filter, steps: int) -> None:
    covers, intersects, leaves_out = a.covers(b), a.intersects(b), a.leaves_out(b)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(relations, "MOST_WORK", steps)
        patch.setattr(relations, "WORK_PER_BOX", 0)
        patch.setattr(differences, "MOST_WORK", steps)
        assert covers or not a.covers(b)
        assert a.intersects(b) or not intersects
        assert leaves_out or not a.leaves_out(b)
        rest = difference(a.boxes, b.boxes, 256)
    assert rest is None or rest == difference(a.boxes, b.boxes, 256)


@given(filters | box_filters, filters | box_filters, small_work, st.lists(events, max_size=5))
def test_a_union_that_runs_out_of_work_is_the_same_union(a: Filter, b: Filter, steps: int, several: Any) -> None:
    whole = a.union(b)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boxes, "STEPS", steps)
        patch.setattr(boxes, "STEPS_PER_BOX", 0)
        part = a.union(b)
    assert whole.equals(part) or not whole.is_exact_with(part)
    for event in several:
        assert part.matches(event) is whole.matches(event)
        assert any(box.contains(event) for box in part.boxes) is any(box.contains(event) for box in whole.boxes)


@given(conditions, st.integers(0, 200))
def test_a_filter_is_refused_or_the_same_whatever_the_work(condition: Any, steps: int) -> None:
    text = text_of(condition)
    try:
        limited = parse_filter(text, limits=Limits(work=steps))
    except FilterLimitError:
        return
    assert limited == parse_filter(text)


# The grid against asking each box


several_boxes = st.lists(filters | box_filters, max_size=4).map(
    lambda found: [box for each in found for box in each.boxes]
)


@given(several_boxes, filters | box_filters)
def test_a_grid_finds_what_asking_each_box_finds(found: list[Box], other: Filter) -> None:
    grid = Grid(found)
    for box in other.boxes:
        holding, meeting = (ask(box, grid.everything, UNCOUNTED) for ask in (grid.holding, grid.meeting))
        assert list(bits_of(holding)) == [i for i, each in enumerate(found) if each.covers(box)]
        assert list(bits_of(meeting)) == [i for i, each in enumerate(found) if each.intersect(box) is not None]
        assert [each.meets(box) for each in found] == [each.intersect(box) is not None for each in found]


@given(several_boxes)
def test_what_is_absorbed_lies_in_what_is_kept(found: list[Box]) -> None:
    kept = absorbed(found)
    assert not any(a.covers(b) for a in kept for b in kept if a is not b)
    for box in found:
        above, waiting = [box], [box]  # what ``covers`` knows need not be transitive
        while waiting:
            inner = waiting.pop()
            further = [each for each in found if each not in above and each.covers(inner)]
            above += further
            waiting += further
        assert any(each in kept for each in above)
