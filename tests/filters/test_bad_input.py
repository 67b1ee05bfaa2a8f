"""Bad input ends in a named error with its position, or in the documented result; it is never slow, never a crash."""

import math
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory import (
    FilterError,
    FilterLimitError,
    FilterSyntaxError,
    Limits,
    OverstoryError,
    Untyped,
    UsageError,
    parse_filter,
    parse_publication,
)

from .strategies import conditions, text_of

MEGABYTE = 2**20
FRAGMENTS = st.sampled_from(
    "x y 'a' 5 0x1F 017 1e5 .5 ( ) , = <> != < <= > >= + - * / % AND OR NOT IN LIKE BETWEEN IS NULL TRUE FALSE HAS ANY "
    "ESCAPE EXISTS LOWER LEFT ' \" [ ] ; eq isPresent class \\ \0 é 🙂 . ..".split(" ")
)
soup = st.lists(FRAGMENTS, max_size=30).map(" ".join) | st.lists(FRAGMENTS, max_size=30).map("".join)


@given(soup | st.text(), st.sampled_from(["sql", "padres"]))
def test_any_text_parses_or_is_refused_with_a_position(text: str, dialect: str) -> None:
    try:
        parse_filter(text, dialect).evaluate({"x": 5, "y": "a"})
    except FilterError as error:
        assert 0 <= error.position <= len(text)
        assert "^" in str(error)


@given(st.binary(max_size=30), st.sampled_from(["sql", "padres"]))
def test_any_bytes_parse_or_are_refused(data: bytes, dialect: str) -> None:
    try:
        parse_filter(data, dialect)
    except FilterError as error:
        assert error.problem


@given(conditions, st.data())
def test_a_damaged_filter_parses_or_is_refused(condition: object, data: st.DataObject) -> None:
    text = text_of(condition)
    position = data.draw(st.integers(0, len(text)))
    damaged = text[:position] + data.draw(st.text(max_size=2)) + text[position + data.draw(st.integers(0, 3)) :]
    try:
        parse_filter(damaged)
    except FilterError as error:
        assert 0 <= error.position <= len(damaged)


LIMITS = {
    "a megabyte": "x = '" + "a" * MEGABYTE + "'",
    "a megabyte of quotes": "'" * MEGABYTE,
    "a thousand parentheses": "(" * 1000 + "x" + ")" * 1000,
    "a thousand NOTs": "NOT " * 1000 + "x",
    "a thousand signs": "x = " + "-" * 1000 + "y",
    "a thousand functions": "LOWER(" * 1000 + "x" + ")" * 1000 + " = 'a'",
    "too many tokens": " OR ".join(f"x={i}" for i in range(8000)),
    "an AND of fifty ORs": " AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(50)),
    "a NOT of an OR of fifty ANDs": f"NOT ({' OR '.join(f'(a{i} = 1 AND b{i} = 2)' for i in range(50))})",
    "an OR of a thousand boxes": " OR ".join(f"(a{i} = 1 AND b = {i})" for i in range(1000)),
    "a long pattern": "x LIKE '" + "%a" * 1000 + "'",
    "many patterns": " AND ".join(f"x LIKE '%{i}%'" for i in range(100)),
    "many word lists": " AND ".join(f"x HAS ANY ('a{i}', 'b')" for i in range(1000)),
    "a sum of thousands": "x = " + "+".join("y" * 8000),
    "many patterns not to match": " AND ".join(f"x NOT LIKE '%{'a_' * 100}{i}%'" for i in range(100)),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_filter_that_is_too_large_is_refused(name: str) -> None:
    with pytest.raises(FilterLimitError) as caught:
        parse_filter(LIMITS[name])
    assert len(str(caught.value)) < 500


def test_large_filters_within_the_limits_are_taken() -> None:
    alternatives = " OR ".join(f"x = {i}" for i in range(4000))
    assert len(parse_filter(alternatives).boxes) == 1
    names = " AND ".join(f"a{i} = 1" for i in range(3000))
    assert len(parse_filter(names).boxes[0].sets) == 3000
    shrinking = " AND ".join(f"(a = 1 OR b = {i} OR c = {i})" for i in range(50))
    assert parse_filter(shrinking) == parse_filter("a = 1")
    topics = "topic IN (" + ", ".join(f"'t{i}'" for i in range(6000)) + ")"
    assert parse_filter(topics).matches({"topic": "t5999"})


def listed(template: str, count: int, separator: str = ", ") -> str:
    return separator.join(template.format(i) for i in range(count))


ALTERNATIVES = f"({listed('a{} = 1', 250, ' OR ')})"
HARD = {
    "trailing blanks": "TRUE" + " " * 60_000,
    "inner blanks": "x" + " " * 60_000 + "= 1",
    "many holes": listed("x <> {}", 4000, " AND "),
    "many holes among strings": listed("x <> 's{}'", 3000, " AND "),
    "mixed lists": "x NOT IN (" + listed("{0}, {0}.5, 'a{0}'", 1500) + ")",
    "holes and alternatives": f"x NOT IN ({listed('{}', 3000)}) AND {ALTERNATIVES}",
    "strings and alternatives": "x IN (" + listed("'{}'", 3000) + ") AND " + ALTERNATIVES,
    "many attributes and alternatives": f"{listed('b{} = 1', 500, ' AND ')} AND {ALTERNATIVES}",
    "words and alternatives": "k HAS ANY (" + listed("'w{}'", 5000) + ") AND " + ALTERNATIVES,
    "strings and patterns": "x IN ("
    + listed("'s{}'", 3000)
    + ") AND ("
    + listed("(x LIKE '%{0}%' AND y{0} = 1)", 250, " OR ")
    + ")",
    "many groups of patterns": " OR ".join("(" + listed(f"x LIKE '%{i}_{{}}%'", 16, " AND ") + ")" for i in range(100)),
}


@pytest.mark.parametrize("name", HARD)
def test_hard_filters_within_the_limits_are_taken_or_refused(name: str) -> None:
    """Each of these once took seconds or minutes."""
    try:
        wanted = parse_filter(HARD[name])
    except FilterLimitError as error:
        assert error.problem
    else:
        assert wanted.covers(wanted)
        assert wanted.intersects(wanted) == bool(wanted.boxes)


def test_hard_questions_are_answered_on_the_safe_side() -> None:
    tiles = [
        f"(x > {i} AND x < {i + 1.5} AND y > {j - i / 7} AND y < {j + 1.3} AND z > {k - j / 5} AND z < {k + 1.4})"
        for i in range(6)
        for j in range(6)
        for k in range(6)
    ]
    union = parse_filter(" OR ".join(tiles))
    inner = " OR ".join(
        f"(x > 1 AND x < 5 AND y > 1 AND y < {4 + i / 100} AND z > {1 + i / 100} AND z < 4)" for i in range(100)
    )
    assert union.covers(union)
    assert union.covers(parse_filter(inner)) in (True, False)
    odds, evens = (", ".join(map(str, range(start, 6000, 2))) for start in (1, 0))
    both = parse_filter(f"(x IN ({odds}) AND y > 1) OR (x IN ({evens}) AND y > 2)")
    assert both.covers(parse_filter(f"x IN ({evens}) AND y > 3"))


def test_a_union_of_many_unions_stays_flat() -> None:
    union = parse_filter("x = -1")
    for i in range(2000):
        union = union.union(parse_filter(f"x = {i}"))
    assert union.matches({"x": 1999})
    assert len(union.boxes) == 1


def test_limits_are_the_callers_to_set() -> None:
    alternatives = " OR ".join(f"(a = {i} AND b = {i})" for i in range(400))
    with pytest.raises(FilterLimitError, match="256 boxes"):
        parse_filter(alternatives)
    assert len(parse_filter(alternatives, limits=Limits(boxes=400)).boxes) == 400
    with pytest.raises(UsageError, match="stack"):
        Limits(depth=10_000)
    with pytest.raises(FilterLimitError, match="3 tokens"):
        parse_filter("x = 1 OR y", limits=Limits(tokens=3))


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("symbol = 'IBM", 9),
        ('symbol = "IBM', 9),
        ("(price > 5", 0),
        ("price > 5)", 9),
        ("x = 9223372036854775808", 4),
        ("x = -9223372036854775809", 5),
        ("x = 1e999", 4),
        ("x LIKE 'a!' ESCAPE '!'", 7),
        ("x \ud800", 2),
        ("", 0),
    ],
)
def test_a_mistake_is_shown_where_it_is(text: str, position: int) -> None:
    with pytest.raises(FilterSyntaxError) as caught:
        parse_filter(text)
    assert caught.value.position == position
    shown, under = str(caught.value).splitlines()[1:]
    assert under.index("^") == 2 + position
    assert text.isprintable() is False or shown.strip() == text


def test_a_mistake_far_into_a_long_filter_is_shown_with_what_is_around_it() -> None:
    text = "x = 1 OR " * 1000 + "x = = 1"
    with pytest.raises(FilterSyntaxError) as caught:
        parse_filter(text)
    shown, under = str(caught.value).splitlines()[1:]
    assert len(shown) < 130
    assert shown[under.index("^")] == "="


def test_bytes_that_are_not_utf_8() -> None:
    with pytest.raises(FilterSyntaxError, match="0xff") as caught:
        parse_filter("é = '".encode() + b"\xff'")
    assert caught.value.position == 5
    assert parse_filter("é = 'ü'".encode()).matches({"é": "ü"})
    assert parse_filter(b"x = '" + "é".encode() * 60_000 + b"'").boxes


@pytest.mark.parametrize("value", [math.nan, {"a": 1}, b"5", [1, 2], object(), ["a", 1], 1j])
def test_an_attribute_of_the_wrong_type_is_unknown(value: object) -> None:
    event = {"x": value}
    for text in (
        "x > 5",
        "x = 5",
        "x <> 'a'",
        "x LIKE '%'",
        "x = TRUE",
        "x + 1 > 2",
        "x",
        "x HAS ANY ('a')",
        "x IN (5)",
    ):
        assert parse_filter(text).evaluate(event) is None
        assert parse_filter(f"NOT ({text})").evaluate(event) is None
    assert parse_filter("x IS NOT NULL AND EXISTS(x)").evaluate(event) is True


def test_infinities_and_large_integers_compare_by_value() -> None:
    assert parse_filter("x > 1e308").matches({"x": math.inf})
    assert parse_filter("x < -1e308").matches({"x": -math.inf})
    assert parse_filter("x > 9223372036854775807").matches({"x": 2**63})
    assert parse_filter("x = 9007199254740993").evaluate({"x": 9007199254740992.0}) is False
    assert parse_filter("x + 1 > 0").evaluate({"x": 2**63 - 1}) is None
    assert parse_filter("x * 10 > 0").evaluate({"x": 1e308}) is None
    assert parse_filter("x / 0 = x / 0").evaluate({"x": 1}) is None
    assert parse_filter("x > 5").matches({"x": Untyped("9" * 400)})
    assert parse_filter("x > 5").evaluate({"x": Untyped("9" * 10_000)}) is None


def test_covering_that_is_too_hard_to_decide_is_denied_in_bounded_work() -> None:
    """A chessboard in many dimensions needs exponentially many pieces."""
    names = [f"a{i}" for i in range(40)]
    tiles = [f"({names[i % 40]} < {i % 7} AND {names[(i * 7 + 1) % 40]} > {i % 5})" for i in range(200)]
    everything = " AND ".join(f"({name} < 0 OR {name} >= 0)" for name in names)
    assert parse_filter(" OR ".join(tiles)).covers(parse_filter(everything)) is False


def test_many_pieces_do_not_exhaust_the_stack() -> None:
    steps = [f"(x >= {i} AND x < {i + 1} AND y > {i % 3})" for i in range(250)]
    wanted = parse_filter("x >= 0 AND x < 250 AND y > 2")
    assert parse_filter(" OR ".join(steps)).covers(wanted)
    assert sys.getrecursionlimit() <= 10_000


@pytest.mark.parametrize("dialect", ["xpath", None, ["sql"]])
def test_an_unknown_dialect_is_a_usage_error(dialect: Any) -> None:
    with pytest.raises(UsageError, match="sql, padres"):
        parse_filter("x", dialect)


@pytest.mark.parametrize("text", [None, 5, ["x > 5"], bytearray(b"x"), parse_filter("x")])
@pytest.mark.parametrize("parse", [parse_filter, lambda text: parse_filter(text, "padres"), parse_publication])
def test_what_is_no_text_is_a_usage_error(parse: Any, text: Any) -> None:
    with pytest.raises(UsageError, match="a text is wanted"):
        parse(text)


def test_a_name_is_not_empty() -> None:
    with pytest.raises(FilterSyntaxError, match="a name is empty") as caught:
        parse_filter('x = 1 AND "" = 2')
    assert caught.value.position == 10
    assert parse_filter('"""" = 2').matches({'"': 2})


@given(soup | st.text())
def test_any_publication_parses_or_is_refused(text: str) -> None:
    try:
        attributes = parse_publication(text)
    except OverstoryError as error:
        assert "^" in str(error)
    else:
        assert attributes
