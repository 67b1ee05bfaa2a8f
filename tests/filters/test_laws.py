"""The laws that every filter obeys, attacked by a generator."""

import pickle

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from overstory import Filter, FilterLimitError, parse_filter
from overstory.filters import syntax as s

from . import oracle
from .strategies import box_conditions, conditions, events, text_of


def parsed(condition: s.Condition) -> Filter:
    try:
        return parse_filter(text_of(condition))
    except FilterLimitError:
        assume(False)
        raise


filters = conditions.map(parsed)
box_filters = box_conditions.map(parsed)


@given(conditions)
def test_parsing_what_is_written_gives_the_same_tree(condition: s.Condition) -> None:
    assert unplaced(parsed(condition).condition) == unplaced(condition)


def unplaced(node: s.Condition) -> s.Condition:
    """Without positions, and with nested conjunctions and disjunctions made one, as the parser does."""
    if isinstance(node, s.Not):
        return s.Not(unplaced(node.operand))
    if isinstance(node, s.In):
        return s.In(node.operand, node.options)
    if isinstance(node, (s.And, s.Or)):
        kind = type(node)
        flat = [o for each in map(unplaced, node.operands) for o in (each.operands if type(each) is kind else [each])]
        return kind(tuple(flat))
    return node


@given(conditions, st.lists(events, min_size=1, max_size=5))
def test_evaluation_means_what_the_tree_says(condition: s.Condition, some: list[oracle.Event]) -> None:
    wanted = parsed(condition)
    for event in some:
        assert wanted.evaluate(event) is oracle.truth(condition, event)


@given(conditions, st.lists(events, min_size=1, max_size=5))
def test_the_normal_form_holds_exactly_the_events_that_match(condition: s.Condition, some: list[oracle.Event]) -> None:
    wanted = parsed(condition)
    for event in some:
        assert any(box.contains(event) for box in wanted.boxes) == (oracle.truth(condition, event) is True)


@given(box_conditions)
def test_the_normal_form_is_right_on_every_cell(condition: s.Condition) -> None:
    wanted = parsed(condition)
    for event in oracle.events_of(condition):
        assert any(box.contains(event) for box in wanted.boxes) == (oracle.truth(condition, event) is True)


@given(filters)
@example(parse_filter("(x LIKE '%' AND x < -1) OR x < -1"))
@example(parse_filter("x >= 'a' AND x < 'am' AND x LIKE '%a%' OR x >= 'am' AND x < 'b' AND x LIKE '%a%'"))
@example(parse_filter("x LIKE '" + "\\" * 250 + "_'"))
@example(parse_filter("x >= '" + "a" * 300 + "' AND x < '" + "a" * 299 + "b'"))
@example(parse_filter("[x,str-prefix,'" + "%" * 200 + "']", "padres"))
def test_print_then_parse_is_the_identity(wanted: Filter) -> None:
    printed = str(wanted)
    assert parse_filter(printed) == wanted
    assert str(parse_filter(printed)) == printed


@given(filters, filters, st.lists(events, min_size=1, max_size=8))
def test_covers_implies_implication_and_intersects_is_safe(a: Filter, b: Filter, some: list[oracle.Event]) -> None:
    covers, intersects = a.covers(b), a.intersects(b)
    for event in some:
        in_a, in_b = a.matches(event), b.matches(event)
        assert in_a or not in_b or not covers
        assert intersects or not (in_a and in_b)


@given(box_conditions, box_conditions)
def test_between_boxes_covers_is_implication_and_intersects_is_exact(a: s.Condition, b: s.Condition) -> None:
    outer, inner = parsed(a), parsed(b)
    implied, shared = True, False
    for event in oracle.events_of(a, b):
        in_a, in_b = oracle.truth(a, event) is True, oracle.truth(b, event) is True
        implied &= in_a or not in_b
        shared |= in_a and in_b
    assert outer.covers(inner) == implied
    assert outer.intersects(inner) == shared


@given(filters, filters, filters)
def test_covers_is_a_preorder(a: Filter, b: Filter, c: Filter) -> None:
    assert a.covers(a)
    both = a.union(b)
    assert both.covers(a)
    assert both.covers(b)
    if a.is_exact_with(b) and b.is_exact_with(c) and a.is_exact_with(c) and a.covers(b) and b.covers(c):
        assert a.covers(c)


@given(box_filters, box_filters, box_filters)
def test_covers_between_boxes_is_transitive(a: Filter, b: Filter, c: Filter) -> None:
    wider = a.union(b)
    widest = wider.union(c)
    assert wider.covers(a)
    assert widest.covers(wider)
    assert widest.covers(a)
    if a.covers(b) and b.covers(c):
        assert a.covers(c)


@given(filters, filters)
def test_intersects_is_symmetric(a: Filter, b: Filter) -> None:
    assert a.intersects(b) == b.intersects(a)


@given(filters, filters, st.lists(events, min_size=1, max_size=5))
def test_union_matches_what_either_matches(a: Filter, b: Filter, some: list[oracle.Event]) -> None:
    both = a.union(b)
    for event in some:
        assert both.evaluate(event) is oracle.any_of([a.evaluate(event), b.evaluate(event)])
        assert any(box.contains(event) for box in both.boxes) == both.matches(event)


@given(box_filters, box_filters)
def test_union_is_the_least_cover(a: Filter, b: Filter) -> None:
    both = a.union(b)
    assert both.covers(a)
    assert both.covers(b)
    assert both.equals(b.union(a))
    assert a.covers(b) == both.equals(a)


@pytest.mark.parametrize("left", [True, False, None])
@pytest.mark.parametrize("right", [True, False, None])
def test_three_valued_logic(left: bool | None, right: bool | None) -> None:
    event = {"p": left, "q": right}
    both = parse_filter("p AND q").evaluate(event)
    either = parse_filter("p OR q").evaluate(event)
    assert both is (False if left is False or right is False else None if None in (left, right) else True)
    assert either is (True if left is True or right is True else None if None in (left, right) else False)
    assert parse_filter("NOT p").evaluate(event) is (None if left is None else not left)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("x + 1 > 0", "x + 1.0 > 0"),
        ("x + TRUE = 5", "x + 1 = 5"),
        ("LEFT(x, TRUE) = 'a'", "LEFT(x, 1) = 'a'"),
        ("x % 2 = 1", "x % '2' = 1"),
    ],
)
def test_residuals_that_differ_only_in_a_type_are_not_the_same(a: str, b: str) -> None:
    assert parse_filter(a) != parse_filter(b)
    assert not parse_filter(a).covers(parse_filter(b))


def test_a_filter_that_has_been_used_can_be_pickled() -> None:
    wanted = parse_filter("x > 5 AND y LIKE '%a' OR z + 1 > 2")
    assert wanted.matches({"x": 6, "y": "a"})
    again = pickle.loads(pickle.dumps(wanted))
    assert again == wanted
    assert hash(again) == hash(wanted)
    assert again.matches({"x": 6, "y": "a"})


bounds = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(sorted)
ends = st.sampled_from(
    [("n >= {}", "n < {}"), ("n > {}", "n <= {}"), ("n >= {}", "n IS NOT NULL"), ("n <> {}", "n < {}")]
)


@st.composite
def small_boxes(draw: st.DrawFn) -> str:
    """A box over two numbers and a string, with ends of all kinds."""
    parts = []
    for name in ("n", "m"):
        (low, high), (above, below) = draw(bounds), draw(ends)
        parts.append(f"{above.format(low)} AND {below.format(high + 1)}".replace("n ", f"{name} "))
    if draw(st.booleans()):
        parts.append(draw(st.sampled_from(["t = 'a'", "t LIKE 'a%'", "t > 'a'", "t <> 'b'", "t IS NULL"])))
    return " AND ".join(parts)


@given(st.lists(small_boxes(), min_size=5, max_size=12), st.lists(small_boxes(), min_size=1, max_size=6))
def test_between_unions_of_many_boxes_relations_are_exact(outer: list[str], inner: list[str]) -> None:
    a, b = (parse_filter(" OR ".join(f"({box})" for box in boxes)) for boxes in (outer, inner))
    numbers = [None, *(half / 2 for half in range(-1, 14))]
    events = [
        {"n": n, "m": m, "t": t} for n in numbers for m in numbers for t in (None, "", "a", "a\0", "ab", "b", "b\0", 1)
    ]
    in_a, in_b = ({i for i, event in enumerate(events) if each.matches(event)} for each in (a, b))
    assert a.covers(b) == (in_b <= in_a)
    assert b.covers(a) == (in_a <= in_b)
    assert a.intersects(b) == bool(in_a & in_b)
