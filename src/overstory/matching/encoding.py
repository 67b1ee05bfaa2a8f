"""Boxes as records of ranges and clauses, which is all that kernels know. (``kernels.store`` gives their layout.)

A range holds the key of a number or a boolean. A clause asks for one of some tokens, or for none of them. What cannot
be said in this way (a residual, a LIKE pattern, a bound such as 1e300) becomes the opaque test of the record, which is
asked in Python of the few events that pass the rest. The rest then is as narrow as it can be without losing an event.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from overstory.filters.boxes import Box, Residuals
from overstory.filters.cuts import Cut, Cuts, intervals
from overstory.filters.value_sets import (
    NEXT,
    NUMBER_BOTTOM,
    Booleans,
    Keywords,
    Numbers,
    Presence,
    Strings,
    ValueSet,
    after_prefix,
)
from overstory.kernels.boxes import OPAQUE
from overstory.kernels.keys import FALSE, TOP, TRUE, key_of_number, keys_of_ends
from overstory.kernels.texts import EQUAL, LIST, PREFIX, PRESENT, STRING, WORD

MOST_PIECES = 8  # that a box is cut into where an attribute has several intervals: each by itself is easier to find
MOST_STEPS = 32  # prefixes and texts that an interval of strings is taken apart into
# From the least string to one that starts later, and from one that starts earlier on without end, it takes more.
LATE, EARLY = chr(MOST_STEPS), chr(sys.maxunicode - MOST_STEPS)

Interval = tuple[int, int]  # first and last key
Range = tuple[int, int, int]  # attribute, first and last key
Token = tuple[int, str]  # kind and text
Clause = tuple[bool, Sequence[Token]]  # whether negated


class Said(NamedTuple):
    """What a value set asks for: one of the intervals, if there are any, and all of the clauses."""

    intervals: Sequence[Interval]
    clauses: Sequence[Clause]
    exact: bool = True


class Numbering(NamedTuple):
    """How an index numbers what its boxes speak of."""

    attributes: Mapping[str, int]
    token: Callable[[int, int, str], int]  # by attribute, kind and text: what stands for it in a record
    opaque: Callable[[Box], int]


def write_records(box: Box, numbering: Numbering, words: list[int]) -> int:
    """Writes the records of a box behind the others, each after its size: one, or several that together hold what it
    holds. Returns how many."""
    ranges: list[Range] = []
    others: list[tuple[str, ValueSet]] = []
    for name, allowed in box.sets.items():
        if type(allowed) is Numbers and len(allowed.cuts) == 2:  # what is said most, by a shorter way
            interval = _one_interval(allowed.cuts)
            if interval is not None:
                ranges.append((numbering.attributes[name], *interval))
                continue
        others.append((name, allowed))
    return _write_any(ranges, others, box.residuals, numbering, words)


def _write_any(
    ranges: list[Range],
    sets: list[tuple[str, ValueSet]],
    residuals: Residuals,
    numbering: Numbering,
    words: list[int],
) -> int:
    """Writes the records of a box of which some ranges are known already. Returns how many."""
    choices: list[list[Range]] = []
    pieces = 1
    lists: list[int] = []
    clauses: list[int] = []
    list_count = clause_count = 0
    unsaid: dict[str, ValueSet] = {}
    attributes, token = numbering.attributes, numbering.token
    for name, allowed in sets:
        attribute = attributes[name]
        found, required, exact = said_by(allowed)
        if len(found) == 1:
            ranges.append((attribute, *found[0]))
        elif found:
            bounded = found[0][0] != -TOP and found[-1][1] != TOP
            if bounded and pieces * len(found) <= MOST_PIECES:
                pieces *= len(found)
                choices.append([(attribute, low, high) for low, high in found])
            else:
                ranges.append((attribute, found[0][0], found[-1][1]))
                lists += (attribute, 2 * len(found))
                for low, high in found:
                    lists += (low, high + 1)
                list_count += 1
        for negated, tokens in required:
            clauses.append(2 * len(tokens) + negated)
            for kind, text in tokens:
                clauses.append(token(attribute, kind, text))
            clause_count += 1
        if not exact:
            unsaid[name] = allowed
    header = len(ranges) + len(choices) | list_count << 16 | clause_count << 32
    rest = lists + clauses
    if unsaid or residuals:
        header |= OPAQUE
        rest.append(numbering.opaque(Box(unsaid, residuals)))
    size = 1 + 3 * (len(ranges) + len(choices)) + len(rest)
    for chosen in product(*choices):
        words += (size, header)
        for one_range in sorted((*ranges, *chosen)):
            words += one_range
        words += rest
    return pieces


def said_by(allowed: ValueSet) -> Said:
    if isinstance(allowed, Numbers):
        return _numbers(allowed.cuts)
    if isinstance(allowed, Strings):
        return _strings(allowed)
    if isinstance(allowed, Keywords):
        clauses: list[Clause] = [(False, [(WORD, word) for word in sorted(hit)]) for hit in allowed.hits]
        if allowed.misses:
            clauses.append((True, [(WORD, word) for word in sorted(allowed.misses)]))
        return Said((), clauses if allowed.hits else [(False, [(LIST, "")]), *clauses])
    if isinstance(allowed, Booleans):
        return Said([(FALSE if False in allowed.allowed else TRUE, TRUE if True in allowed.allowed else FALSE)], ())
    if isinstance(allowed, Presence):
        return Said((), [(not allowed.present, [(PRESENT, "")])])
    text, other = said_by(allowed.strings), said_by(allowed.other)  # only what is untyped has both faces
    return Said(other.intervals, text.clauses, text.exact and other.exact)


def _one_interval(cuts: Cuts) -> Interval | None:
    """The keys between two cuts at numbers. None if a number has no key of its own."""
    (low, after_low), (high, after_high) = cuts
    first, last = keys_of_ends(low, high)
    return None if (first | last) & 1 else (first + after_low, last + after_high - 1)


def _numbers(cuts: Cuts) -> Said:
    interval = _one_interval(cuts) if len(cuts) == 2 else None
    if interval is not None:
        return Said((interval,), ())
    keys: list[int] = []
    exact = True
    for at, limit in enumerate(cuts):
        key = key_of_number(limit[0])
        if limit == NUMBER_BOTTOM:
            keys.append(-TOP)
        elif key & 1:  # a constant between two keys, or beyond all: take in all that has the same key
            keys.append(key + at % 2)
            exact = False
        else:
            keys.append(key + limit[1])
    if len(keys) % 2:
        keys.append(TOP + 1)
    found = [(start, stop - 1) for start, stop in zip(keys[::2], keys[1::2], strict=True)]
    if not exact:
        found = [(found[0][0], found[-1][1])]
    return Said(found, (), exact)


def _strings(allowed: Strings) -> Said:
    cuts = allowed.cuts
    if len(cuts) == 2 and cuts[1] == cuts[0] + NEXT:  # one text: what is said most
        return Said((), ((False, ((EQUAL, cuts[0]),)),))
    clauses, exact = _said_by_texts(cuts)
    return Said((), clauses, exact and not allowed.likes)


def _said_by_texts(cuts: Cuts) -> tuple[list[Clause], bool]:
    inside = _taken_apart(list(intervals(cuts)))
    if inside is not None:
        return [(False, inside)], True
    start, stop = cuts[0], cuts[-1] if len(cuts) % 2 == 0 else None
    around = _taken_apart([(start, stop)])
    holes = _taken_apart(list(intervals(cuts[1 : len(cuts) - (len(cuts) % 2 == 0)])))
    if around is not None and holes is not None:
        return [(False, around), (True, holes)], True
    return [(False, [_common_prefix(start, stop)])], False


def _taken_apart(parts: list[tuple[Cut, Cut | None]]) -> list[Token] | None:
    """Intervals of strings as texts and prefixes. None if that takes too many."""
    found: list[Token] = []
    for start, stop in parts:
        if start == "" and stop is None:
            found.append((STRING, ""))
            continue
        if stop == start + NEXT:
            found.append((EQUAL, start))
            continue
        if start[0] < EARLY if stop is None else start == "" and stop[0] > LATE:
            return None
        at: Cut | None = start
        for _ in range(MOST_STEPS):
            if at == stop:
                break
            assert at is not None, "an interval ends where it says"
            beyond = after_prefix(at)
            if at and (stop is None or (beyond is not None and beyond <= stop)):
                found.append((PREFIX, at))
                at = beyond
            else:
                found.append((EQUAL, at))
                at += NEXT
        else:
            return None
    return found


def _common_prefix(start: str, stop: str | None) -> Token:
    """The longest prefix that all strings of an interval have."""
    for length in range(len(start), 0, -1):
        beyond = after_prefix(start[:length])
        if beyond is not None and stop is not None and beyond >= stop:
            return PREFIX, start[:length]
    return STRING, ""
