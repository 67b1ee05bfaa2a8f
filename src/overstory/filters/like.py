"""LIKE patterns: matching in time linear in the text, and safe relations between patterns.

A pattern is split at its ``%`` into segments; within a segment an item is a character or ``None`` for ``_``.
Runs of wildcards are put in one order (``_`` before ``%``), so patterns that differ only there are equal.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

import msgspec

Item: TypeAlias = str | None
Segment: TypeAlias = tuple[Item, ...]

ESCAPE = "\\"  # the escape character that printed patterns use


class Like(msgspec.Struct, frozen=True):
    segments: tuple[Segment, ...]

    def matches(self, text: str) -> bool:
        return matcher(self)(text)

    def prefix(self) -> str:
        """The literal characters that every matching text starts with."""
        return _literal_start(self.segments[0])

    def is_equality(self) -> bool:
        return len(self.segments) == 1 and None not in self.segments[0]

    def is_prefix(self) -> bool:
        return len(self.segments) == 2 and not self.segments[1] and None not in self.segments[0]

    def covers(self, other: "Like") -> bool:
        """Safe: True only if every text that ``other`` matches is matched by this one."""
        return _matches_symbols(self.symbols(), other.symbols())

    def disjoint(self, other: "Like") -> bool:
        """Safe: True only if no text matches both."""
        return (
            _clash(self.segments[0], other.segments[0])
            or _clash(self.segments[-1][::-1], other.segments[-1][::-1])
            or (len(self.segments) == 1 and self.least_length() < other.least_length())
            or (len(other.segments) == 1 and other.least_length() < self.least_length())
        )

    def least_length(self) -> int:
        return sum(map(len, self.segments))

    def symbols(self) -> list[Item]:
        """The pattern as one sequence: characters, None for ``_``, and "" for ``%``."""
        symbols: list[Item] = list(self.segments[0])
        for segment in self.segments[1:]:
            symbols.append("")
            symbols.extend(segment)
        return symbols

    def pattern(self) -> tuple[str, bool]:
        """The pattern's text, and whether it uses the escape character."""
        escaped = False
        parts = []
        for symbol in self.symbols():
            if symbol is None:
                parts.append("_")
            elif symbol == "":
                parts.append("%")
            elif symbol in ("%", "_", ESCAPE):
                parts.append(ESCAPE + symbol)
                escaped = True
            else:
                parts.append(symbol)
        return "".join(parts), escaped


def parse_like(pattern: str, escape: str | None = None) -> Like:
    """Raises ValueError if the pattern ends in its escape character."""
    segments: list[list[Item]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                raise ValueError("the pattern ends in its escape character")
            segments[-1].append(literal)
        elif character == "%":
            segments.append([])
        else:
            segments[-1].append(None if character == "_" else character)
    return Like(_in_order(segments))


def like_prefix(text: str) -> Like:
    return Like((tuple(text), ()))


def like_suffix(text: str) -> Like:
    return Like(((), tuple(text)))


def like_infix(text: str) -> Like:
    return Like(((), tuple(text), ())) if text else Like(((), ()))


def _in_order(segments: list[list[Item]]) -> tuple[Segment, ...]:
    """Moves each ``_`` that follows a ``%`` before it, and drops the ``%`` that then stand twice."""
    kept = [segments[0]]
    for i, segment in enumerate(segments[1:], 1):
        ones = 0
        while ones < len(segment) and segment[ones] is None:
            ones += 1
        kept[-1] = kept[-1] + segment[:ones]
        rest = segment[ones:]
        if rest or i == len(segments) - 1:
            kept.append(rest)
    return tuple(map(tuple, kept))


@lru_cache(maxsize=4096)
def matcher(like: Like) -> Callable[[str], bool]:
    """A function that matches one text in one pass: ends first, then each middle segment at its leftmost place.

    Taking the leftmost place for each segment never spoils a later one, so nothing is ever tried twice.
    """
    if len(like.segments) == 1:
        whole, length = _matches_at(like.segments[0]), len(like.segments[0])
        return lambda text: len(text) == length and whole(text, 0)
    first, *middle, last = like.segments
    starts, ends, finds = _matches_at(first), _matches_at(last), [_finder(segment) for segment in middle]
    first_length, last_length = len(first), len(last)

    def match(text: str) -> bool:
        stop = len(text) - last_length
        if stop < first_length or not starts(text, 0) or not ends(text, stop):
            return False
        position = first_length
        for find in finds:
            position = find(text, position, stop)
            if position < 0:
                return False
        return True

    return match


def _matches_at(segment: Segment) -> Callable[[str, int], bool]:
    if None not in segment:
        literal = _literal_start(segment)
        return lambda text, position: text.startswith(literal, position)
    at = _expression(segment).match
    return lambda text, position: at(text, position) is not None


def _finder(segment: Segment) -> Callable[[str, int, int], int]:
    """Finds the segment at or after a position; gives the position behind it, or -1."""
    length = len(segment)
    if None not in segment:
        literal = _literal_start(segment)

        def find_literal(text: str, position: int, stop: int) -> int:
            found = text.find(literal, position, stop)
            return found if found < 0 else found + length

        return find_literal
    search = _expression(segment).search

    def find_expression(text: str, position: int, stop: int) -> int:
        found = search(text, position, stop)
        return found.end() if found else -1

    return find_expression


def _expression(segment: Segment) -> re.Pattern[str]:
    return re.compile("".join("." if item is None else re.escape(item) for item in segment), re.DOTALL)


def _literal_start(segment: Segment) -> str:
    characters = []
    for item in segment:
        if item is None:
            break
        characters.append(item)
    return "".join(characters)


def _clash(a: Segment, b: Segment) -> bool:
    return any(x is not None and y is not None and x != y for x, y in zip(a, b, strict=False))


def _matches_symbols(pattern: list[Item], symbols: list[Item]) -> bool:
    """The pattern against another pattern's symbols, as if they were a text: ``%`` takes any run of symbols,
    ``_`` any one but ``%``, which might stand for nothing, and a character only itself."""
    i = j = 0
    star, resume = -1, 0
    while j < len(symbols):
        if i < len(pattern) and pattern[i] == "":
            star, resume = i, j
            i += 1
        elif i < len(pattern) and (pattern[i] == symbols[j] or (pattern[i] is None and symbols[j] != "")):
            i += 1
            j += 1
        elif star >= 0:
            resume += 1
            i, j = star + 1, resume
        else:
            return False
    return all(symbol == "" for symbol in pattern[i:])
