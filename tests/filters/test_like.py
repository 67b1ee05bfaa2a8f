"""LIKE patterns against regular expressions, and their relations against enumeration."""

import re
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from overstory.filters.automaton import ONE, RUN
from overstory.filters.like import parse_like
from overstory.filters.work import UNCOUNTED, Work

patterns = st.text("ab%_", max_size=6)
TEXTS = ["".join(letters) for length in range(7) for letters in product("abc", repeat=length)]


def expression(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace("%", ".*").replace("_", "."), re.DOTALL)


@given(patterns, st.text("ab", max_size=8))
def test_matching_is_that_of_a_regular_expression(pattern: str, text: str) -> None:
    assert parse_like(pattern).matches(text) == (expression(pattern).fullmatch(text) is not None)


@given(st.text("ab%_!\n", max_size=6), st.text("ab%_!\n", max_size=6))
def test_what_is_escaped_means_itself(pattern: str, text: str) -> None:
    literal = "".join("!" + character for character in text)
    assert parse_like(literal, "!").matches(text)
    assert parse_like(literal, "!").is_equality()
    written, escaped = parse_like(pattern, "!" if not pattern.endswith("!") else None).pattern()
    again = parse_like(written, "\\" if escaped else None)
    assert again == parse_like(pattern, "!" if not pattern.endswith("!") else None)


@given(patterns, st.text(f"abc{ONE}{RUN}", max_size=8))
def test_an_automaton_matches_as_the_matcher_of_events_does(pattern: str, text: str) -> None:
    """Also texts that are patterns, in which the wildcards have characters of their own."""
    like = parse_like(pattern)
    assert like.fits(text, UNCOUNTED) == like.matches(text)


@given(patterns, patterns)
def test_one_pattern_covers_another_if_it_matches_that_as_a_text(a: str, b: str) -> None:
    first, second = parse_like(a), parse_like(b)
    work = Work(1000)
    for _ in range(2):  # found out, then remembered
        assert first.covers(second, work) == first.covers(second) == first.matches(RUN.join(second.segments))
        assert first.disjoint(second, work) == first.disjoint(second) == second.disjoint(first)


@given(patterns, patterns)
def test_relations_are_safe(a: str, b: str) -> None:
    first, second = parse_like(a), parse_like(b)
    in_first = {text for text in TEXTS if first.matches(text)}
    in_second = {text for text in TEXTS if second.matches(text)}
    assert in_second <= in_first or not first.covers(second)
    assert not in_first & in_second or not first.disjoint(second)


@given(patterns)
def test_a_pattern_covers_itself_and_is_covered_by_everything(pattern: str) -> None:
    like = parse_like(pattern)
    assert like.covers(like)
    assert parse_like("%").covers(like)


def test_wildcards_in_another_order_are_the_same_pattern() -> None:
    assert parse_like("a%_b") == parse_like("a_%b") == parse_like("a%%_%b")
    assert parse_like("%_") == parse_like("_%")


def test_a_hostile_pattern_stays_linear() -> None:
    """A backtracking matcher needs more steps here than there are atoms."""
    pattern, text = "%a" * 120 + "%b", "a" * 100_000
    assert not parse_like(pattern).matches(text)
    assert parse_like(pattern).matches(text + "b")
    assert not parse_like("%" + "a_" * 120 + "b%").matches(text)
