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
MOST_COMPARED = 16  # patterns or hits in a set; comparing many with each other is slow, keeping them all is safe
STARTS_OF_NUMBERS: Cuts = ("-", ".", "0", ":")  # texts that start with a minus or a digit
ALL_NUMBERS: Cuts = (NUMBER_BOTTOM,)
ALL_STRINGS: Cuts = (STRING_BOTTOM,)


class Presence(msgspec.Struct, frozen=True, gc=False):
    present: bool

    def contains(self, value: object) -> bool:
        return is_absent(value) != self.present

    def covers(self, other: "Presence") -> bool:
        return self.present == other.present

    def intersect(self, other: "Presence") -> "Presence | None":
        return self if self.present == other.present else None

    def merge_key(self) -> object:
        return Presence

    def merge(self, other: "Presence") -> "Presence | None":
        return self if self.present == other.present else None

    def subtract(self, other: "Presence") -> "list[ValueSet]":
        return [] if self.present == other.present else [self]


PRESENT, ABSENT = Presence(True), Presence(False)


class Numbers(msgspec.Struct, frozen=True, gc=False):
    cuts: Cuts

    def contains(self, value: object) -> bool:
        number = number_face(value)
        return number is not None and cut.contains(self.cuts, (number, 0))

    def covers(self, other: "Numbers") -> bool:
        ours, theirs = self.cuts, other.cuts
        if len(ours) == 2 and len(theirs) == 2:  # one interval each: what is asked most
            return bool(ours[0] <= theirs[0] and theirs[1] <= ours[1])
        return cut.is_subset(theirs, ours)

    def intersect(self, other: "Numbers") -> "Numbers | None":
        return numbers(cut.intersection(self.cuts, other.cuts))

    def merge_key(self) -> object:
        return Numbers

    def merge(self, other: "Numbers") -> "Numbers":
        return Numbers(cut.union(self.cuts, other.cuts))

    def subtract(self, other: "Numbers") -> "list[ValueSet]":
        left = numbers(cut.difference(self.cuts, other.cuts))
        return [] if left is None else [left]


def numbers(cuts: Cuts) -> Numbers | None:
    return Numbers(cuts) if cuts else None


def points_of_numbers(values: Iterable[Number]) -> Cuts:
    return tuple((value, side) for value in sorted(set(values)) for side in (0, 1))


class Booleans(msgspec.Struct, frozen=True, gc=False):
    allowed: frozenset[bool]

    def contains(self, value: object) -> bool:
        return boolean_face(value) in self.allowed

    def covers(self, other: "Booleans") -> bool:
        return self.allowed >= other.allowed

    def intersect(self, other: "Booleans") -> "Booleans | None":
        return booleans(self.allowed & other.allowed)

    def merge_key(self) -> object:
        return Booleans

    def merge(self, other: "Booleans") -> "Booleans":
        return Booleans(self.allowed | other.allowed)

    def subtract(self, other: "Booleans") -> "list[ValueSet]":
        left = booleans(self.allowed - other.allowed)
        return [] if left is None else [left]


def booleans(allowed: frozenset[bool]) -> Booleans | None:
    return Booleans(allowed) if allowed else None


class Strings(msgspec.Struct, frozen=True, gc=False):
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

    def covers(self, other: "Strings") -> bool:
        return cut.is_subset(other.cuts, self.cuts) and (
            not self.likes or all(other.implies(*like) for like in self.likes)
        )

    def intersect(self, other: "Strings") -> "Strings | None":
        return strings(cut.intersection(self.cuts, other.cuts), self.likes | other.likes)

    def merge_key(self) -> object:
        return self.likes

    def merge(self, other: "Strings") -> "Strings":
        union = strings(cut.union(self.cuts, other.cuts), self.likes)
        assert union is not None, "a union holds what its parts hold"
        return union

    def subtract(self, other: "Strings") -> "list[ValueSet]":
        pieces = [strings(cut.difference(self.cuts, other.cuts), self.likes)]
        shared = cut.intersection(self.cuts, other.cuts)
        for like, wanted in sorted(other.likes - self.likes, key=_spelling):
            pieces.append(strings(shared, self.likes | {(like, not wanted)}))
        return [piece for piece in pieces if piece is not None]

    def implies(self, like: Like, wanted: bool) -> bool:
        """Safe: True only if all strings of this set match ``like``, or none does, as wanted."""
        if (like, wanted) in self.likes:
            return True
        points = points_of(self.cuts)
        if points is not None:
            return all(like.matches(text) is wanted for text in points)
        known = [other for other, holds in self.likes if holds]
        prefixes = _prefixes_of(self.cuts)
        if wanted:
            return any(like.covers(other) for other in known) or (
                prefixes is not None and all(like.covers(prefix) for prefix in prefixes)
            )
        return (
            any(like.disjoint(other) for other in known)
            or any(other.covers(like) for other, holds in self.likes if not holds)
            or not cut.intersection(self.cuts, cuts_of_prefix(like.prefix()))
            or (prefixes is not None and all(like.disjoint(prefix) for prefix in prefixes))
        )


def strings(cuts: Cuts, likes: frozenset[tuple[Like, bool]] = frozenset()) -> Strings | None:
    """The canonical set: what patterns say about prefixes goes into the cuts, what the rest implies goes."""
    if not likes:
        return Strings(cuts) if cuts else None
    for like, wanted in likes:
        if wanted:
            cuts = cut.intersection(cuts, cuts_of_prefix(like.prefix()))
    points = points_of(cuts)
    if points is not None:
        fitting = [text for text in points if all(like.matches(text) is wanted for like, wanted in likes)]
        return Strings(points_of_strings(fitting)) if fitting else None
    if len(likes) > MOST_COMPARED:
        return Strings(cuts, likes)
    kept = likes
    for like, wanted in sorted(likes, key=_spelling):
        others = Strings(cuts, kept - {(like, wanted)})
        if others.implies(like, not wanted):
            return None
        if others.implies(like, wanted):
            kept = others.likes
    return Strings(cuts, kept)


def _spelling(pair: tuple[Like, bool]) -> tuple[tuple[str, ...], bool]:
    """An order that does not depend on how sets are stored."""
    return pair[0].segments, pair[1]


def strings_like(like: Like, wanted: bool) -> Strings | None:
    """Strings that match the pattern, or that do not: cuts alone where these can say it."""
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
    """Neighbours such as 'a' and 'a' + NEXT share a cut, which then is none."""
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


class Keywords(msgspec.Struct, frozen=True, gc=False):
    """Lists that hit every set of words in ``hits`` and contain none of ``misses``."""

    hits: frozenset[frozenset[str]]
    misses: frozenset[str]

    def contains(self, value: object) -> bool:
        words = list_face(value)
        return (
            words is not None and self.misses.isdisjoint(words) and all(not hit.isdisjoint(words) for hit in self.hits)
        )

    def covers(self, other: "Keywords") -> bool:
        return self.misses <= other.misses and all(any(theirs <= ours for theirs in other.hits) for ours in self.hits)

    def intersect(self, other: "Keywords") -> "Keywords | None":
        return keywords(self.hits | other.hits, self.misses | other.misses)

    def merge_key(self) -> object:
        return (Keywords, self.misses) if len(self.hits) == 1 else self

    def merge(self, other: "Keywords") -> "Keywords":
        """Hitting one set of words or the other is hitting the union of both."""
        if self == other:
            return self
        return Keywords(frozenset([next(iter(self.hits)) | next(iter(other.hits))]), self.misses)

    def subtract(self, other: "Keywords") -> "list[ValueSet]":
        pieces = [keywords(self.hits, self.misses | hit) for hit in sorted(other.hits, key=sorted)]
        if other.misses - self.misses:
            pieces.append(keywords(self.hits | {other.misses - self.misses}, self.misses))
        return [piece for piece in pieces if piece is not None]


def keywords(hits: frozenset[frozenset[str]], misses: frozenset[str] = frozenset()) -> Keywords | None:
    """The canonical set: words that are missed hit nothing, and a hit that another implies goes."""
    open_hits = frozenset(hit - misses for hit in hits) if misses else hits
    if frozenset() in open_hits:
        return None
    if 1 < len(open_hits) <= MOST_COMPARED:
        open_hits = frozenset(hit for hit in open_hits if not any(other < hit for other in open_hits))
    return Keywords(open_hits, misses)


class Faces(msgspec.Struct, frozen=True, gc=False):
    """Untyped values whose text and whose number or boolean are both allowed; nothing typed is in here."""

    strings: Strings
    other: Numbers | Booleans

    def contains(self, value: object) -> bool:
        return self.strings.contains(value) and self.other.contains(value)

    def covers(self, other: "Faces") -> bool:
        return covers(self.strings, other.strings) and covers(self.other, other.other)

    def intersect(self, other: "Faces") -> "Faces | None":
        shared, allowed = intersect(self.strings, other.strings), intersect(self.other, other.other)
        if isinstance(shared, Strings) and isinstance(allowed, (Numbers, Booleans)):
            return faces(shared, allowed)
        return None

    def merge_key(self) -> object:
        return self

    def merge(self, other: "Faces") -> "Faces":
        return self

    def subtract(self, other: "Faces") -> "list[ValueSet]":
        return subtract(self, other.strings) + subtract(self, other.other)


def faces(text: Strings, other: Numbers | Booleans) -> Faces | None:
    """Keeps only texts that have an allowed other face, if there are finitely many, and only their faces."""
    if isinstance(other, Booleans):
        words = strings(points_of_strings(word for word, truth in JSON_BOOLEAN.items() if truth in other.allowed))
        within = words and text.intersect(words)
        if within is None:
            return None
        text = within
    points = points_of(text.cuts)
    if points is None:
        return Faces(text, other) if cut.intersection(text.cuts, STARTS_OF_NUMBERS) else None
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
    """About how many steps it takes to look at all of the set."""
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


def covers(outer: ValueSet, inner: ValueSet) -> bool:
    if type(outer) is type(inner):
        return outer.covers(inner)  # type: ignore[arg-type]
    if outer is PRESENT or outer == PRESENT:
        return True  # unlike kinds: whatever has a face is present
    if isinstance(inner, Faces) and isinstance(outer, (Strings, Numbers, Booleans)):
        return covers(outer, inner.strings if isinstance(outer, Strings) else inner.other)
    return False


def intersect(a: ValueSet, b: ValueSet) -> ValueSet | None:
    if type(a) is type(b):
        return a.intersect(b)  # type: ignore[arg-type]
    if isinstance(a, Presence):
        return b if a.present else None
    if isinstance(b, Presence):
        return a if b.present else None
    if isinstance(b, (Strings, Faces)) and not isinstance(a, (Strings, Faces)):
        a, b = b, a
    if isinstance(a, Strings) and isinstance(b, (Numbers, Booleans)):
        return faces(a, b)
    if isinstance(a, Strings) and isinstance(b, Faces):
        a, b = b, a
    if isinstance(a, Faces):
        return _narrow(a, b)
    return None


def _narrow(a: Faces, b: ValueSet) -> Faces | None:
    if isinstance(b, Strings):
        text = a.strings.intersect(b)
        return None if text is None else faces(text, a.other)
    if type(a.other) is type(b):
        allowed = intersect(a.other, b)
        return faces(a.strings, allowed) if isinstance(allowed, (Numbers, Booleans)) else None
    return None


def subtract(a: ValueSet, b: ValueSet) -> list[ValueSet]:
    """Sets that together hold what is in ``a`` and not in ``b``; they may overlap."""
    if type(a) is type(b):
        return a.subtract(b)  # type: ignore[arg-type]
    if isinstance(b, Presence):
        return [] if b.present else [a]
    if isinstance(a, Faces) and isinstance(b, Strings):
        return [f for s in a.strings.subtract(b) if isinstance(s, Strings) and (f := faces(s, a.other))]
    if isinstance(a, Faces) and type(a.other) is type(b):
        left = subtract(a.other, b)
        return [f for o in left if isinstance(o, (Numbers, Booleans)) and (f := faces(a.strings, o))]
    return [a]
