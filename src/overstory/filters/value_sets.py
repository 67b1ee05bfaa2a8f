"""Value sets: what a box allows one attribute to be.

The rules that the rest relies on:

1. A value is in a set iff it shows the set's face (see ``model.values``) and that face is allowed. So sets of
   unlike kinds share only untyped values, and those are what ``Faces`` holds.
2. Sets are canonical and never empty: an operation that finds nothing gives ``None``, and equal sets compare
   equal. The exceptions are LIKE patterns and ``Faces`` with infinitely many strings, which are only *safe*: a set
   may be empty without being known to be, ``covers`` may miss, ``subtract`` may leave too much.
3. The complement of a set is taken within its kind, which is what NOT means in three-valued logic.
4. Sets with equal ``merge_key`` have a union that is one set, given by ``merge``. (Present and absent together are
   everything, which is no set: ``merge`` gives None.)
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

import overstory.filters.cuts as cut
from overstory.filters.cuts import Cuts
from overstory.filters.like import Like, like_prefix
from overstory.filters.work import UNCOUNTED, Work
from overstory.model.values import (
    JSON_BOOLEAN,
    Number,
    boolean_face,
    is_absent,
    list_face,
    number_face,
    number_in,
    string_face,
)

NUMBER_BOTTOM = (float("-inf"), 0)
STRING_BOTTOM = ""
NEXT = "\0"  # s + NEXT is the string right after s
MOST_NEIGHBOURS = 16  # a hostile filter could name very many; treating them as infinitely many is safe
CUTS = 4  # that one step takes
WORDS = 16  # likewise
MOST_COMPARED = 16  # patterns or hits in a set; comparing many with each other is slow, keeping them all is safe
STARTS_OF_NUMBERS: Cuts = ("-", ".", "0", ":")  # texts that start with a minus or a digit
ALL_NUMBERS: Cuts = (NUMBER_BOTTOM,)
ALL_STRINGS: Cuts = (STRING_BOTTOM,)


class Presence(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    present: bool

    def contains(self, value: object) -> bool:
        return is_absent(value) != self.present

    def covers(self, other: "Presence", work: Work = UNCOUNTED) -> bool:
        return self.present == other.present

    def intersect(self, other: "Presence", work: Work = UNCOUNTED) -> "Presence | None":
        return self if self.present == other.present else None

    def merge_key(self) -> object:
        return Presence

    def merge(self, other: "Presence", work: Work = UNCOUNTED) -> "Presence | None":
        return self if self.present == other.present else None

    def subtract(self, other: "Presence", work: Work = UNCOUNTED) -> "list[ValueSet]":
        return [] if self.present == other.present else [self]


PRESENT, ABSENT = Presence(True), Presence(False)


class Numbers(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    cuts: Cuts

    def contains(self, value: object) -> bool:
        number = number_face(value)
        return number is not None and cut.contains(self.cuts, (number, 0))

    def covers(self, other: "Numbers", work: Work = UNCOUNTED) -> bool:
        ours, theirs = self.cuts, other.cuts
        if len(ours) == 2 and len(theirs) == 2:  # one interval each: what is asked most
            return bool(ours[0] <= theirs[0] and theirs[1] <= ours[1])
        work.spend(len(theirs) // CUTS)
        return cut.is_subset(theirs, ours)

    def intersect(self, other: "Numbers", work: Work = UNCOUNTED) -> "Numbers | None":
        return numbers(cut.intersection(self.cuts, other.cuts))

    def merge_key(self) -> object:
        return Numbers

    def merge(self, other: "Numbers", work: Work = UNCOUNTED) -> "Numbers":
        return Numbers(cut.union(self.cuts, other.cuts))

    def subtract(self, other: "Numbers", work: Work = UNCOUNTED) -> "list[ValueSet]":
        left = numbers(cut.difference(self.cuts, other.cuts))
        return [] if left is None else [left]


def numbers(cuts: Cuts) -> Numbers | None:
    return Numbers(cuts) if cuts else None


def points_of_numbers(values: Iterable[Number]) -> Cuts:
    return tuple((value, side) for value in sorted(set(values)) for side in (0, 1))


class Booleans(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    allowed: frozenset[bool]

    def contains(self, value: object) -> bool:
        return boolean_face(value) in self.allowed

    def covers(self, other: "Booleans", work: Work = UNCOUNTED) -> bool:
        return self.allowed >= other.allowed

    def intersect(self, other: "Booleans", work: Work = UNCOUNTED) -> "Booleans | None":
        return booleans(self.allowed & other.allowed)

    def merge_key(self) -> object:
        return Booleans

    def merge(self, other: "Booleans", work: Work = UNCOUNTED) -> "Booleans":
        return Booleans(self.allowed | other.allowed)

    def subtract(self, other: "Booleans", work: Work = UNCOUNTED) -> "list[ValueSet]":
        left = booleans(self.allowed - other.allowed)
        return [] if left is None else [left]


def booleans(allowed: frozenset[bool]) -> Booleans | None:
    return Booleans(allowed) if allowed else None


class Strings(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Strings in ``cuts`` that match every pattern of ``likes`` paired with True, and none paired with False."""

    cuts: Cuts
    likes: frozenset[tuple[Like, bool]] = frozenset()

    def contains(self, value: object) -> bool:
        text = string_face(value)
        return (
            text is not None
            and cut.contains(self.cuts, text)
            and all(like.matches(text) is wanted for like, wanted in self.likes)
        )

    def covers(self, other: "Strings", work: Work = UNCOUNTED) -> bool:
        work.spend(len(other.cuts) // CUTS)
        if not cut.is_subset(other.cuts, self.cuts):
            return False
        return not self.likes or Known(other, work).implies_all(self.likes)

    def intersect(self, other: "Strings", work: Work = UNCOUNTED) -> "Strings | None":
        return strings(cut.intersection(self.cuts, other.cuts), self.likes | other.likes, work)

    def merge_key(self) -> object:
        return self.likes

    def merge(self, other: "Strings", work: Work = UNCOUNTED) -> "Strings":
        union = strings(cut.union(self.cuts, other.cuts), self.likes, work)
        assert union is not None, "a union holds what its parts hold"
        return union

    def subtract(self, other: "Strings", work: Work = UNCOUNTED) -> "list[ValueSet]":
        pieces = [strings(cut.difference(self.cuts, other.cuts), self.likes, work)]
        shared = cut.intersection(self.cuts, other.cuts)
        for like, wanted in sorted(other.likes - self.likes, key=_spelling):
            pieces.append(strings(shared, self.likes | {(like, not wanted)}, work))
        return [piece for piece in pieces if piece is not None]


class Known:
    """What the cuts and the patterns of a set of strings say about further patterns. It may miss something."""

    def __init__(self, allowed: Strings, work: Work) -> None:
        self.cuts, self.likes, self.work = allowed.cuts, allowed.likes, work
        work.spend(1 + len(allowed.cuts) // CUTS)
        self.points = points_of(allowed.cuts)
        self.all = allowed.cuts == ALL_STRINGS  # which says nothing about any pattern
        self.prefixes = None if self.all or self.points is not None else _prefixes_of(allowed.cuts)

    def implies_all(self, likes: Iterable[tuple[Like, bool]]) -> bool:
        return all(self.implies(like, wanted, self.likes) for like, wanted in likes)

    def implies(self, like: Like, wanted: bool, given: frozenset[tuple[Like, bool]]) -> bool:
        """Whether all strings within the cuts that satisfy the given patterns match ``like``, or none, as wanted."""
        work = self.work
        work.spend(1 + len(given))
        if (like, wanted) in given:
            return True
        if self.points is not None:
            return all(like.fits(text, work) is wanted for text in self.points)
        return self._matches(like, given) if wanted else self._misses(like, given)

    def _matches(self, like: Like, given: frozenset[tuple[Like, bool]]) -> bool:
        work = self.work
        for other, holds in given:
            if holds and like.covers(other, work):
                return True
        return self.prefixes is not None and all(like.covers(prefix, work) for prefix in self.prefixes)

    def _misses(self, like: Like, given: frozenset[tuple[Like, bool]]) -> bool:
        work = self.work
        for other, holds in given:
            if like.disjoint(other, work) if holds else other.covers(like, work):
                return True
        if self.all:
            return False
        return not cut.overlap(self.cuts, cuts_of_prefix(like.prefix())) or (
            self.prefixes is not None and all(like.disjoint(prefix, work) for prefix in self.prefixes)
        )


def strings(cuts: Cuts, likes: frozenset[tuple[Like, bool]] = frozenset(), work: Work = UNCOUNTED) -> Strings | None:
    """The canonical set of strings. What patterns say of prefixes goes into the cuts; what others imply is dropped."""
    if not likes:
        return Strings(cuts) if cuts else None
    for like, wanted in likes:
        if wanted and (prefix := like.prefix()):
            cuts = cut.intersection(cuts, cuts_of_prefix(prefix))
    known = Known(Strings(cuts, likes), work)
    if known.points is not None:
        fitting = [text for text in known.points if all(like.fits(text, work) is wanted for like, wanted in likes)]
        return Strings(points_of_strings(fitting)) if fitting else None
    if len(likes) > MOST_COMPARED:
        return Strings(cuts, likes)
    kept = likes
    for like, wanted in sorted(likes, key=_spelling) if len(likes) > 1 else likes:
        others = kept - {(like, wanted)}
        if known.implies(like, not wanted, others):
            return None
        if known.implies(like, wanted, others):
            kept = others
    return Strings(cuts, kept)


def _spelling(pair: tuple[Like, bool]) -> tuple[tuple[str, ...], bool]:
    """A key that sorts patterns in an order that does not depend on how sets are stored."""
    return pair[0].segments, pair[1]


def strings_like(like: Like, wanted: bool) -> Strings | None:
    """The strings that match the pattern, or those that do not. Cuts alone say it where they can."""
    if like.is_equality():
        exact: Cuts | None = points_of_strings([like.prefix()])
    elif like.is_prefix():
        exact = cuts_of_prefix(like.prefix())
    else:
        exact = None
    if exact is None:
        return strings(ALL_STRINGS, frozenset([(like, wanted)]))
    return strings(exact if wanted else cut.difference(ALL_STRINGS, exact))


def points_of_strings(texts: Iterable[str]) -> Cuts:
    """The cuts around each of the texts. Neighbours such as 'a' and 'a' + NEXT share a cut, which then is none."""
    cuts: list[str] = []
    for text in sorted(set(texts)):
        if cuts and cuts[-1] == text:
            cuts.pop()
        else:
            cuts.append(text)
        cuts.append(text + NEXT)
    return tuple(cuts)


def points_of(cuts: Cuts) -> list[str] | None:
    """The strings of a set that has few, else None. (An interval holds several only if they are neighbours.)"""
    texts: list[str] = []
    for start, stop in cut.intervals(cuts):
        if stop is None or not stop.startswith(start) or stop[len(start) :].strip(NEXT):
            return None
        if len(stop) - len(start) > MOST_NEIGHBOURS:
            return None
        texts.extend(start + NEXT * count for count in range(len(stop) - len(start)))
    return texts


def cuts_of_prefix(prefix: str) -> Cuts:
    stop = after_prefix(prefix)
    return (prefix,) if stop is None else (prefix, stop)


def after_prefix(prefix: str) -> str | None:
    """The least string above all that start with ``prefix``; None if there is none."""
    stem = prefix.rstrip(chr(0x10FFFF))
    if not stem:
        return None
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(0xE000 if following == 0xD800 else following)  # surrogates are no characters


def _prefixes_of(cuts: Cuts) -> list[Like] | None:
    """The set as patterns, if each of its intervals is one string or all strings with one prefix."""
    likes = []
    for start, stop in cut.intervals(cuts):
        if stop == start + NEXT:
            likes.append(Like((start,)))
        elif stop == after_prefix(start):
            likes.append(like_prefix(start))
        else:
            return None
    return likes


ANY_NUMBER, ANY_STRING = Numbers(ALL_NUMBERS), Strings(ALL_STRINGS)


class Keywords(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Lists that hit every set of words in ``hits`` and contain none of ``misses``."""

    hits: frozenset[frozenset[str]]
    misses: frozenset[str]

    def contains(self, value: object) -> bool:
        words = list_face(value)
        return (
            words is not None and self.misses.isdisjoint(words) and all(not hit.isdisjoint(words) for hit in self.hits)
        )

    def covers(self, other: "Keywords", work: Work = UNCOUNTED) -> bool:
        work.spend(len(self.misses) // WORDS)
        if not self.misses <= other.misses:
            return False
        steps = 1 + weight(other) // WORDS
        for ours in self.hits:
            work.spend(steps)
            if not any(theirs <= ours for theirs in other.hits):
                return False
        return True

    def intersect(self, other: "Keywords", work: Work = UNCOUNTED) -> "Keywords | None":
        return keywords(self.hits | other.hits, self.misses | other.misses)

    def merge_key(self) -> object:
        return (Keywords, self.misses) if len(self.hits) == 1 else self

    def merge(self, other: "Keywords", work: Work = UNCOUNTED) -> "Keywords":
        """The union of two sets that hit one set of words each: to hit one or the other is to hit the words of both."""
        if self == other:
            return self
        return Keywords(frozenset([next(iter(self.hits)) | next(iter(other.hits))]), self.misses)

    def subtract(self, other: "Keywords", work: Work = UNCOUNTED) -> "list[ValueSet]":
        pieces = [keywords(self.hits, self.misses | hit) for hit in sorted(other.hits, key=sorted)]
        if other.misses - self.misses:
            pieces.append(keywords(self.hits | {other.misses - self.misses}, self.misses))
        return [piece for piece in pieces if piece is not None]


def keywords(hits: frozenset[frozenset[str]], misses: frozenset[str] = frozenset()) -> Keywords | None:
    """The canonical set of lists. Words that are missed hit nothing, and a hit that another one implies is dropped."""
    open_hits = frozenset(hit - misses for hit in hits) if misses else hits
    if frozenset() in open_hits:
        return None
    if 1 < len(open_hits) <= MOST_COMPARED:
        open_hits = frozenset(hit for hit in open_hits if not any(other < hit for other in open_hits))
    return Keywords(open_hits, misses)


class Faces(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    """Untyped values whose text and whose number or boolean are both allowed; nothing typed is in here."""

    strings: Strings
    other: Numbers | Booleans

    def contains(self, value: object) -> bool:
        return self.strings.contains(value) and self.other.contains(value)

    def covers(self, other: "Faces", work: Work = UNCOUNTED) -> bool:
        return covers(self.strings, other.strings, work) and covers(self.other, other.other, work)

    def intersect(self, other: "Faces", work: Work = UNCOUNTED) -> "Faces | None":
        shared, allowed = intersect(self.strings, other.strings, work), intersect(self.other, other.other, work)
        if isinstance(shared, Strings) and isinstance(allowed, (Numbers, Booleans)):
            return faces(shared, allowed, work)
        return None

    def merge_key(self) -> object:
        return self

    def merge(self, other: "Faces", work: Work = UNCOUNTED) -> "Faces":
        return self

    def subtract(self, other: "Faces", work: Work = UNCOUNTED) -> "list[ValueSet]":
        return subtract(self, other.strings, work) + subtract(self, other.other, work)


def faces(text: Strings, other: Numbers | Booleans, work: Work = UNCOUNTED) -> Faces | None:
    """The values that have both faces. Of finitely many texts it keeps those whose other face is allowed."""
    if isinstance(other, Booleans):
        words = strings(points_of_strings(word for word, truth in JSON_BOOLEAN.items() if truth in other.allowed))
        within = words and text.intersect(words, work)
        if within is None:
            return None
        text = within
    points = points_of(text.cuts)
    work.spend(len(text.cuts) // CUTS if points is None else len(points))
    if points is None:
        return Faces(text, other) if cut.overlap(text.cuts, STARTS_OF_NUMBERS) else None
    if isinstance(other, Booleans):
        return Faces(text, Booleans(frozenset(JSON_BOOLEAN[point] for point in points)))
    read = {point: number_in(point) for point in points}
    fitting = {p: n for p, n in read.items() if n is not None and cut.contains(other.cuts, (n, 0))}
    if not fitting:
        return None
    return Faces(Strings(points_of_strings(fitting)), Numbers(points_of_numbers(fitting.values())))


ValueSet: TypeAlias = Presence | Numbers | Strings | Booleans | Keywords | Faces


def is_exact(sets: Sequence[ValueSet]) -> bool:
    """Whether relations among these sets, all of one attribute, are exact: no patterns, and not two faces."""
    kinds = {type(allowed) for allowed in sets} - {Presence}
    return not any(isinstance(allowed, Strings) and allowed.likes for allowed in sets) and (
        Faces not in kinds and not (Strings in kinds and kinds & {Numbers, Booleans})
    )


def weight(allowed: ValueSet) -> int:
    """About how many steps it takes to read all of the set."""
    if isinstance(allowed, Faces):
        return weight(allowed.strings) + weight(allowed.other)
    if isinstance(allowed, (Numbers, Strings)):
        return len(allowed.cuts) + pattern_count(allowed)
    return len(allowed.misses) + sum(map(len, allowed.hits)) if isinstance(allowed, Keywords) else 1


def pattern_count(allowed: ValueSet) -> int:
    """How many patterns or word lists a value has to satisfy: what simplifying the set compares with each other."""
    if isinstance(allowed, Strings):
        return len(allowed.likes)
    if isinstance(allowed, Faces):
        return len(allowed.strings.likes)
    return len(allowed.hits) if isinstance(allowed, Keywords) else 0


def covers(outer: ValueSet, inner: ValueSet, work: Work = UNCOUNTED) -> bool:
    if type(outer) is type(inner):
        return outer.covers(inner, work)  # type: ignore[arg-type]
    if outer is PRESENT or outer == PRESENT:
        return True  # unlike kinds: whatever has a face is present
    if isinstance(inner, Faces) and isinstance(outer, (Strings, Numbers, Booleans)):
        return covers(outer, inner.strings if isinstance(outer, Strings) else inner.other, work)
    return False


def meet(a: ValueSet, b: ValueSet, work: Work = UNCOUNTED) -> bool:
    """Whether the sets have an intersection, without making it if there is a shorter way."""
    if type(a) is type(b) and isinstance(a, (Numbers, Strings)):
        work.spend(min(len(a.cuts), len(b.cuts)) // CUTS)  # type: ignore[union-attr]
        if not cut.overlap(a.cuts, b.cuts):  # type: ignore[union-attr]
            return False
        if isinstance(a, Numbers) or not (a.likes or b.likes):  # type: ignore[union-attr]
            return True
    work.spend((weight(a) + weight(b)) // CUTS)
    return intersect(a, b, work) is not None


def intersect(a: ValueSet, b: ValueSet, work: Work = UNCOUNTED) -> ValueSet | None:
    if type(a) is type(b):
        return a.intersect(b, work)  # type: ignore[arg-type]
    if isinstance(a, Presence):
        return b if a.present else None
    if isinstance(b, Presence):
        return a if b.present else None
    if isinstance(b, (Strings, Faces)) and not isinstance(a, (Strings, Faces)):
        a, b = b, a
    if isinstance(a, Strings) and isinstance(b, (Numbers, Booleans)):
        return faces(a, b, work)
    if isinstance(a, Strings) and isinstance(b, Faces):
        a, b = b, a
    if isinstance(a, Faces):
        return _narrow(a, b, work)
    return None


def _narrow(a: Faces, b: ValueSet, work: Work) -> Faces | None:
    if isinstance(b, Strings):
        text = a.strings.intersect(b, work)
        return None if text is None else faces(text, a.other, work)
    if type(a.other) is type(b):
        allowed = intersect(a.other, b, work)
        return faces(a.strings, allowed, work) if isinstance(allowed, (Numbers, Booleans)) else None
    return None


def subtract(a: ValueSet, b: ValueSet, work: Work = UNCOUNTED) -> list[ValueSet]:
    """Sets that together hold what is in ``a`` and not in ``b``; they may overlap."""
    if type(a) is type(b):
        return a.subtract(b, work)  # type: ignore[arg-type]
    if isinstance(b, Presence):
        return [] if b.present else [a]
    if isinstance(a, Faces) and isinstance(b, Strings):
        return [f for s in a.strings.subtract(b, work) if isinstance(s, Strings) and (f := faces(s, a.other, work))]
    if isinstance(a, Faces) and type(a.other) is type(b):
        left = subtract(a.other, b, work)
        return [f for o in left if isinstance(o, (Numbers, Booleans)) and (f := faces(a.strings, o, work))]
    return [a]
