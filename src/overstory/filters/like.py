"""LIKE patterns: matching in time linear in the text, and safe relations between patterns.

A pattern is kept split at its ``%`` into segments, in which ``ONE`` stands for ``_`` and every other character for
itself. Runs of wildcards are put in one order (``_`` before ``%``), so patterns that differ only there are equal.
"""

import re
from collections.abc import Callable
from functools import lru_cache

import msgspec

from overstory.filters.automaton import ONE, RUN, Automaton, automaton_of
from overstory.filters.work import UNCOUNTED, Work

ESCAPE = "\\"  # the escape character that printed patterns use
CHARACTERS = 4  # that comparing patterns takes in one step


class Like(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    segments: tuple[str, ...]

    def matches(self, text: str) -> bool:
        return matcher(self)(text)

    def prefix(self) -> str:
        """The literal characters that every matching text starts with."""
        return self.segments[0].partition(ONE)[0]

    def is_equality(self) -> bool:
        return len(self.segments) == 1 and ONE not in self.segments[0]

    def is_prefix(self) -> bool:
        return len(self.segments) == 2 and not self.segments[1] and ONE not in self.segments[0]

    def fits(self, text: str, work: Work) -> bool:
        """Whether the text matches, for a question that is asked once: see ``automaton``."""
        work.spend(1 + len(text) // CHARACTERS)
        return _automaton(self).accepts(text)

    def covers(self, other: "Like", work: Work = UNCOUNTED) -> bool:
        """Whether this pattern surely matches every text that ``other`` matches. It may miss a yes.

        The other pattern is matched as if it were a text: its wildcards are characters that only wildcards take, and
        ``_`` does not take a ``%``, which might stand for nothing.
        """
        ours, theirs = _automaton(self), _automaton(other)
        if ours.last > theirs.last or not ours.letters <= theirs.letters:
            return False  # it is longer, or has a character that the other one lacks
        pair = (self, other)
        known = work.patterns.get(pair)
        if known is None:
            work.spend(1 + len(theirs.spelling) // CHARACTERS)
            known = work.remember(pair, ours.accepts(theirs.spelling))
        return known

    def disjoint(self, other: "Like", work: Work = UNCOUNTED) -> bool:
        """Whether surely no text matches both patterns. It may miss a yes."""
        pair = (None, self, other)
        known = work.patterns.get(pair)
        if known is None:
            work.spend(1 + (len(self.segments[0]) + len(self.segments[-1])) // CHARACTERS)
            known = work.remember(pair, self._disjoint(other))
        return known

    def _disjoint(self, other: "Like") -> bool:
        return (
            _clash(self.segments[0], other.segments[0])
            or _clash(self.segments[-1][::-1], other.segments[-1][::-1])
            or (len(self.segments) == 1 and self.least_length() < other.least_length())
            or (len(other.segments) == 1 and other.least_length() < self.least_length())
        )

    def least_length(self) -> int:
        """The length of the shortest text that matches."""
        return sum(map(len, self.segments))

    def length(self) -> int:
        """The length of the pattern itself. An escaped character counts once."""
        return self.least_length() + len(self.segments) - 1

    def pattern(self) -> tuple[str, bool]:
        """The pattern's text, and whether it uses the escape character."""
        literal = RUN.join(self.segments)
        escaped = any(special in literal for special in ("%", "_", ESCAPE))
        for special in (ESCAPE, "%", "_"):
            literal = literal.replace(special, ESCAPE + special)
        return literal.replace(ONE, "_").replace(RUN, "%"), escaped


def parse_like(pattern: str, escape: str | None = None) -> Like:
    """Reads a pattern as it is written. Raises ValueError if it ends in its escape character."""
    if escape is not None and escape in pattern:
        return Like(_in_order(_unescaped(pattern, escape).split(RUN)))
    return Like(_in_order(pattern.replace("_", ONE).split("%")))


def like_prefix(text: str) -> Like:
    return Like((text, ""))


def like_suffix(text: str) -> Like:
    return Like(("", text))


def like_infix(text: str) -> Like:
    return Like(("", text, "")) if text else Like(("", ""))


def _unescaped(pattern: str, escape: str) -> str:
    wildcards = {"_": ONE, "%": RUN}
    result = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                raise ValueError("the pattern ends in its escape character")
            result.append(literal)
        else:
            result.append(wildcards.get(character, character))
    return "".join(result)


def _in_order(segments: list[str]) -> tuple[str, ...]:
    """Moves each ``_`` that follows a ``%`` before it, and drops the ``%`` that then stand twice."""
    kept = [segments[0]]
    for segment in segments[1:-1]:
        rest = segment.lstrip(ONE)
        kept[-1] += ONE * (len(segment) - len(rest))
        if rest:
            kept.append(rest)
    if len(segments) > 1:
        rest = segments[-1].lstrip(ONE)
        kept[-1] += ONE * (len(segments[-1]) - len(rest))
        kept.append(rest)
    return tuple(kept)


@lru_cache(maxsize=4096)
def _automaton(like: Like) -> Automaton:
    return automaton_of(RUN.join(like.segments))


@lru_cache(maxsize=4096)
def matcher(like: Like) -> Callable[[str], bool]:
    """A function that matches one text in one pass: the ends first, then each middle segment at its leftmost place.

    Taking the leftmost place for each segment never spoils a later one, so nothing is ever tried twice.
    """
    if like.is_prefix():
        prefix = like.prefix()
        return lambda text: text.startswith(prefix)
    if len(like.segments) == 1:
        whole, length = _matches_at(like.segments[0]), len(like.segments[0])
        return lambda text: len(text) == length and whole(text, 0)
    first, *middle, last = like.segments
    starts, ends, finds = _matches_at(first), _matches_at(last), [_finder(segment) for segment in middle]

    def match(text: str) -> bool:
        stop = len(text) - len(last)
        if stop < len(first) or not starts(text, 0) or not ends(text, stop):
            return False
        position = len(first)
        for find in finds:
            position = find(text, position, stop)
            if position < 0:
                return False
        return True

    return match


def _matches_at(segment: str) -> Callable[[str, int], bool]:
    if ONE not in segment:
        return lambda text, position: text.startswith(segment, position)
    at = _expression(segment).match
    return lambda text, position: at(text, position) is not None


def _finder(segment: str) -> Callable[[str, int, int], int]:
    """A function that finds the segment at or after a position. It gives the position behind the segment, or -1."""
    if ONE not in segment:

        def find_literal(text: str, position: int, stop: int) -> int:
            found = text.find(segment, position, stop)
            return found if found < 0 else found + len(segment)

        return find_literal
    search = _expression(segment).search

    def find_expression(text: str, position: int, stop: int) -> int:
        found = search(text, position, stop)
        return found.end() if found else -1

    return find_expression


def _expression(segment: str) -> re.Pattern[str]:
    return re.compile(f"[^{RUN}]".join(map(re.escape, segment.split(ONE))))


def _clash(a: str, b: str) -> bool:
    return any(x != y and x != ONE and y != ONE for x, y in zip(a, b, strict=False))
