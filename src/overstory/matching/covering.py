"""Which filters of a set cover a given one, and which does it cover?

A filter that covers another reaches, in each attribute that it constrains, at least as far. So every filter is filed by
its *hull*: for each attribute the interval from the least to the greatest value that any of its boxes allows. Those
whose hull encloses that of another (or is enclosed by it) are found in a tree, without a scan, and only they are asked
whether they do cover it.

Hulls are intervals of integers. Numbers have their keys (see ``kernels.keys``). Strings and words have *labels*, which
are in the same order as they are: see ``Labels``.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict  # type: ignore[import-untyped]

from overstory.errors import UsageError
from overstory.filters.boxes import Box
from overstory.filters.filter import Filter, checked_filter
from overstory.filters.value_sets import Booleans, Faces, Keywords, Numbers, Strings, ValueSet
from overstory.kernels.cover import all_enclosing, enclosed, enclosing
from overstory.kernels.keys import TOP
from overstory.kernels.reading import NUMBERS, write_message
from overstory.kernels.store import LIVE_BOXES, LIVE_LEAVES
from overstory.matching.encoding import said_by
from overstory.matching.filing import Filing
from overstory.matching.matcher import bytes_of
from overstory.matching.reading import Reading

MOST_HULLS = 8  # that a filter is filed by
STEP = 1 << 40  # between labels that come in order
CHUNK = 4096  # filters that a kernel files at once

Face = tuple[str, type]  # an attribute, and what it is taken for: a number, a string, or a list of words
Limit = int | str | None  # a key, or a text; None is beyond all texts
Hull = dict[Face, tuple[Limit, Limit]]


class CoveringStatistics(msgspec.Struct, frozen=True):
    filters: int
    hulls: int  # distinct ones
    unfiled: int  # filters that have too many hulls, or none, and are always asked
    labels: int
    bins: int  # leaves of the tree
    bytes: int  # of the tree; the filters themselves are held as well
    queries: int
    candidates_per_query: float  # filters that were asked


class CoveringIndex:
    """Filters by their hulls. They are numbered as they come, from 0; the number of a removed one is used again."""

    def __init__(self, filters: Iterable[Filter] = ()) -> None:
        self.filters: dict[int, Filter] = {}
        self._filing = Filing()
        self._faces: dict[Face, int] = {}  # their numbers as attributes of the tree
        self._labels: dict[Face, Labels] = {}
        self.vague: set[int] = set()  # those that are not just their hull; among them are all of the following
        self._unfiled: set[int] = set()
        self._several: set[int] = set()  # filed by more than the hull that encloses all of it
        self._unions: set[int] = set()
        self._loose: set[int] = set()
        self._queries = self._candidates = 0
        self.add_all(filters)

    def __len__(self) -> int:
        return len(self.filters)

    def __contains__(self, number: int) -> bool:
        return number in self.filters

    def add(self, wanted: Filter) -> int:
        ranges = self._plain_ranges(checked_filter(wanted))
        if ranges is None:
            return self._add([wanted], splitting=True)[0]
        count = len(ranges) // 3
        if any(ranges[at] > ranges[at + 3] for at in range(0, len(ranges) - 3, 3)):
            triples = sorted(zip(ranges[::3], ranges[1::3], ranges[2::3], strict=True))
            ranges = [word for triple in triples for word in triple]
        number = self._filing.add_plain([count, *ranges])
        self.filters[number] = wanted
        return number

    def add_all(self, filters: Iterable[Filter]) -> list[int]:
        """Adds many, faster than one by one; returns their numbers."""
        numbers = self._add(list(map(checked_filter, filters)), splitting=False)
        if numbers:
            self._filing.finish()
        return numbers

    def remove(self, number: int) -> Filter:
        if number not in self:
            raise UsageError(f"the index has no filter {number}")
        self._filing.remove_plain(number)
        if number in self.vague:
            for kind in (self.vague, self._unfiled, self._several, self._unions, self._loose):
                kind.discard(number)
        wanted = self.filters.pop(number)
        if _plain_hull(wanted) is not None:
            return wanted
        for face, limit in _limits(hulls_of(wanted)):
            if isinstance(limit, str):
                self._labels[face].release(limit)
        return wanted

    def covering(self, wanted: Filter) -> list[int]:
        """The filters that cover this one, ascending; itself among them if it is in the index."""
        return sorted(self.all_covering(wanted))

    def covered(self, wanted: Filter) -> list[int]:
        """The filters that this one covers, ascending; itself among them if it is in the index."""
        return sorted(self.all_covered(wanted))

    def all_covering(self, wanted: Filter) -> set[int]:
        """What ``covering`` gives, in no order. A filter that is just its hull is not asked: it holds all within."""
        ranges = None if self.vague else self._plain_ranges(checked_filter(wanted))
        if ranges is not None:
            self._queries += 1
            return set(enclosing(*self._filing.store, np.array(ranges, np.int64)).tolist())
        if not checked_filter(wanted).boxes:
            return set(self.filters)
        found: set[int] = set()
        for hull in _all_hulls(wanted).inner:
            found.update(enclosing(*self._filing.store, self._ranges(hull, outward=True)).tolist())
        sure = _all_hulls(wanted).is_one and self._tells_texts_apart(wanted)
        asked = found & self.vague if sure else set(found)
        asked |= self._unfiled
        if self._unions and is_loose(wanted):
            asked |= self._unions
        return self._answered(found, asked, lambda other: other.covers(wanted))

    def all_covered(self, wanted: Filter) -> set[int]:
        """What ``covered`` gives, in no order. If this filter is just its hull, all within are covered, unasked."""
        ranges = None if self.vague else self._plain_ranges(checked_filter(wanted))
        if ranges is not None:
            self._queries += 1
            return set(enclosed(*self._filing.store, np.array(ranges, np.int64)).tolist())
        found: set[int] = set()
        asked = self._unfiled | self._loose if len(checked_filter(wanted).boxes) > 1 else set(self._unfiled)
        if wanted.boxes:
            hull = _all_hulls(wanted).outer
            if self._faces.keys() >= hull.keys():
                found.update(enclosed(*self._filing.store, self._ranges(hull, outward=False)).tolist())
            asked |= found & self._several if self.is_hull(wanted) else found
        return self._answered(found, asked, wanted.covers)

    def _plain_ranges(self, wanted: Filter) -> list[int] | None:
        """The ranges of a filter that is just a hull of numbers, if the index knows all its attributes."""
        hull = _plain_hull(wanted)
        if hull is None:
            return None
        words: list[int] = []
        for face, low, high in hull:
            number = self._faces.get(face)
            if number is None:
                return None
            words += (number, low, high)
        return words

    def statistics(self) -> CoveringStatistics:
        counts = self._filing.store.counts
        return CoveringStatistics(
            filters=len(self.filters),
            hulls=int(counts[LIVE_BOXES]),
            unfiled=len(self._unfiled),
            labels=sum(map(len, self._labels.values())),
            bins=int(counts[LIVE_LEAVES]),
            bytes=bytes_of(self._filing.store),
            queries=self._queries,
            candidates_per_query=self._candidates / self._queries if self._queries else 0.0,
        )

    def _answered(self, found: set[int], asked: set[int], holds: Callable[[Filter], bool]) -> set[int]:
        self._queries += 1
        self._candidates += len(asked)
        if not asked:
            return found
        return (found - asked) | {number for number in asked if holds(self.filters[number])}

    def is_hull(self, wanted: Filter) -> bool:
        """Whether the filter is just its hull, as far as the labels of texts can tell."""
        return _is_hull(wanted) and self._tells_texts_apart(wanted)

    def _tells_texts_apart(self, wanted: Filter) -> bool:
        """Whether no two texts have one label, in any attribute that the filter asks for a text."""
        faces = _all_hulls(wanted).outer
        return not any(face[1] is str and face in self._labels and self._labels[face].shared for face in faces)

    def _add(self, filters: Sequence[Filter], splitting: bool) -> list[int]:
        counts: list[int] = []
        records: list[int] = []
        for wanted in filters:
            hulls = hulls_of(wanted)
            counts.append(len(hulls))
            for hull in hulls:
                self._write_record(hull, records)
        numbers, _ = self._filing.add(counts, records, splitting)
        for number, wanted, count in zip(numbers, filters, counts, strict=True):
            self.filters[number] = wanted
            if not _is_hull(wanted):
                self.vague.add(number)
                if not count:
                    self._unfiled.add(number)
                elif not _all_hulls(wanted).is_one:
                    self._several.add(number)
                if len(wanted.boxes) > 1:
                    self._unions.add(number)
                if is_loose(wanted):
                    self._loose.add(number)
        return numbers

    def _write_record(self, hull: Hull, words: list[int]) -> None:
        """Writes a record of ranges alone, as ``kernels.store`` has them, after its size."""
        ranges = []
        for face, (low, high) in hull.items():
            ranges.append((self._number(face), self._label(face, low), self._label(face, high)))
        ranges.sort()
        words += (1 + 3 * len(ranges), len(ranges))
        for one_range in ranges:
            words += one_range

    def _number(self, face: Face) -> int:
        number = self._faces.get(face)
        if number is None:
            number = self._faces[face] = len(self._faces)
            self._filing.attribute(number)
            self._labels[face] = Labels()
        return number

    def _label(self, face: Face, limit: Limit) -> int:
        if isinstance(limit, str):
            return self._labels[face].take(limit)
        return TOP if limit is None else limit

    def _ranges(self, hull: Hull, outward: bool) -> NDArray[np.int64]:
        """A hull that is asked about. A text without a label takes that of a neighbour: outward, so that what encloses
        the one encloses the other, or inward, so that what the one encloses the other does."""
        words: list[int] = []
        for face, (low, high) in hull.items():
            number = self._faces.get(face)
            if number is not None:
                first = self._labels[face].near(low, below=outward) if isinstance(low, str) else low
                last = self._labels[face].near(high, below=not outward) if isinstance(high, str) else high
                words += (number, TOP if first is None else first, TOP if last is None else last)
        return np.array(words, np.int64)


def covering_pairs(reading: Reading) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]] | None:
    """Which of many filters cover which, as ``kernels.cover.all_enclosing`` has it. None unless all are just boxes of
    numbers. Such a box covers another iff it encloses it, so no filter need be parsed."""
    tests = reading.tests
    if not reading.read.all() or (tests.count < 0).any() or (tests.kind != NUMBERS).any():
        return None
    filing, numbers = Filing(), np.arange(len(tests.count))
    for attribute in range(len(reading.names)):
        filing.attribute(attribute)
    filing.next_numbers(len(numbers))
    attributes = np.arange(len(reading.names))
    for start in range(0, len(numbers), CHUNK):
        some = numbers[start : start + CHUNK]
        message = write_message(tests, reading.starts, some, some, attributes, reading.texts.data)
        filing.add_message(*message, splitting=False)
    filing.finish()
    order = np.lexsort((tests.name, np.repeat(numbers, tests.count)))
    ranges = np.stack([tests.name[order].astype(np.int64), tests.low[order], tests.high[order]], axis=1)
    return all_enclosing(filing.store, np.append(reading.starts, len(order)), ranges)


class Labels:
    """Texts numbered in their own order, with gaps between them for texts to come.

    A gap may run out; then neighbours share a number. That loses no answer, since nothing is in the wrong order, but
    more filters are asked. Texts that come in ascending or descending order take small steps, so it takes long.
    """

    def __init__(self) -> None:
        self._known = SortedDict()  # text: [label, uses]
        self.shared = False  # whether two texts have ever had one label
        self._latest: str | None = None

    def __len__(self) -> int:
        return len(self._known)

    def take(self, text: str) -> int:
        entry = self._known.get(text)
        if entry is None:
            entry = self._known[text] = [self._fresh(text), 0]
            self._latest = text
        entry[1] += 1
        label: int = entry[0]
        return label

    def release(self, text: str) -> None:
        entry = self._known[text]
        entry[1] -= 1
        if entry[1] == 0:
            del self._known[text]

    def near(self, text: str, below: bool) -> int:
        """The label of the text, or that of the next one that is known, below or above it."""
        entry = self._known.get(text)
        if entry is not None:
            own: int = entry[0]
            return own
        at = self._known.bisect_left(text) - below
        if 0 <= at < len(self._known):
            label: int = self._known.peekitem(at)[1][0]
            return label
        return -TOP if below else TOP

    def _fresh(self, text: str) -> int:
        at = self._known.bisect_left(text)
        before, low = self._known.peekitem(at - 1) if at else (None, [1 - TOP])
        after, high = self._known.peekitem(at) if at < len(self._known) else (None, [TOP - 1])
        half: int = (high[0] - low[0]) // 2
        self.shared |= half == 0
        if before is not None and before == self._latest:
            return low[0] + min(half, STEP)
        if after is not None and after == self._latest:
            return high[0] - min(half, STEP)
        return low[0] + half


class Hulls(NamedTuple):
    outer: Hull
    inner: list[Hull]
    filed: list[Hull]
    is_one: bool  # whether the outer hull is the only one
    is_all: bool  # whether the outer hull says all that the filter does
    plain: list[tuple[Face, int, int]] | None  # the outer hull, if it says all and has no texts


def hulls_of(wanted: Filter) -> list[Hull]:
    """The hulls that a filter is filed by: its own, and those by which it is found among the covered."""
    return _all_hulls(wanted).filed if wanted.boxes else []


def reach(wanted: Filter, attribute: str) -> tuple[int, int]:
    """The least and the greatest key that the filter lets a number of this attribute have."""
    if not wanted.boxes:
        return TOP, -TOP
    low, high = _all_hulls(wanted).outer.get((attribute, float), (-TOP, TOP))
    assert isinstance(low, int)
    assert isinstance(high, int)
    return low, high


def _all_hulls(wanted: Filter) -> Hulls:
    if not isinstance(wanted.hulls, Hulls):
        outer, inner = outer_hull(wanted.boxes), inner_hulls(wanted)
        filed = inner if inner == [outer] else [outer, *inner]
        is_all = len(wanted.boxes) == 1 and _is_plain(wanted.boxes[0])
        plain = _without_texts(outer) if is_all and inner == [outer] else None
        filed = filed if len(filed) <= MOST_HULLS else []
        wanted.hulls = Hulls(outer, inner, filed, inner == [outer], is_all, plain)
    return wanted.hulls


def _without_texts(hull: Hull) -> list[tuple[Face, int, int]] | None:
    """The ranges of a hull; None if it is one of texts, or of nothing."""
    ranges = []
    for face, (low, high) in hull.items():
        if not isinstance(low, int) or not isinstance(high, int):
            return None
        ranges.append((face, low, high))
    return ranges or None


def _plain_hull(wanted: Filter) -> list[tuple[Face, int, int]] | None:
    """The hull of a filter that is just a box of numbers; None for all others."""
    return _all_hulls(wanted).plain if wanted.boxes else None


def _is_hull(wanted: Filter) -> bool:
    return bool(wanted.boxes) and _all_hulls(wanted).is_all


def _is_plain(box: Box) -> bool:
    """Whether the box is one interval in each attribute: of strings, or of numbers whose ends have their own keys."""
    return not box.residuals and all(map(_is_interval, box.sets.values()))


def _is_interval(allowed: ValueSet) -> bool:
    if isinstance(allowed, Strings):
        return len(allowed.cuts) <= 2 and not allowed.likes
    if not isinstance(allowed, (Numbers, Booleans)):
        return False
    said = said_by(allowed)
    return said.exact and len(said.intervals) == 1


def outer_hull(boxes: Sequence[Box]) -> Hull:
    """The hull that no box reaches out of."""
    hull = _hull_of(boxes[0])
    for box in boxes[1:]:
        other = _hull_of(box)
        hull = {
            face: (_least(start, other[face][0]), _greatest(stop, other[face][1]))
            for face, (start, stop) in hull.items()
            if face in other
        }
    return hull


def inner_hulls(wanted: Filter) -> list[Hull]:
    """Whatever covers the filter encloses at least one of these.

    They differ from the outer hull only where lists must hit several sets of words: whatever covers that hits one of
    the sets, or more, but nobody knows which. The box with the fewest of them then stands for all.
    """
    choices = list(map(_hit_choices, wanted.boxes))
    if max(choices) == 1:
        return [outer_hull(wanted.boxes)]
    box = wanted.boxes[choices.index(min(choices))]
    hull = _hull_of(box)
    several = {name: allowed.hits for name, allowed in box.sets.items() if isinstance(allowed, Keywords)}
    hits = [[((name, list), (min(hit), max(hit))) for hit in found] for name, found in several.items() if found]
    return [hull | dict(chosen) for chosen in product(*hits)]


def is_loose(wanted: Filter) -> bool:
    """Whether patterns may make the filter narrower than its hull. Several boxes together may then cover it though
    their hull does not enclose its own, so those that have several are asked in any case."""
    return any(
        isinstance(allowed, Faces) or (isinstance(allowed, Strings) and bool(allowed.likes))
        for box in wanted.boxes
        for allowed in box.sets.values()
    )


def _hit_choices(box: Box) -> int:
    choices = 1
    for allowed in box.sets.values():
        if isinstance(allowed, Keywords) and allowed.hits:
            choices *= len(allowed.hits)
    return choices


def _hull_of(box: Box) -> Hull:
    hull: Hull = {}
    for name, allowed in box.sets.items():
        _add_faces(hull, name, allowed)
    return hull


def _add_faces(hull: Hull, name: str, allowed: ValueSet) -> None:
    if isinstance(allowed, (Numbers, Booleans)):
        intervals = said_by(allowed).intervals
        hull[name, float] = (intervals[0][0], intervals[-1][1])
    elif isinstance(allowed, Strings):
        cuts = allowed.cuts
        hull[name, str] = (cuts[0], cuts[-1] if len(cuts) % 2 == 0 else None)
    elif isinstance(allowed, Keywords):
        if allowed.hits:
            words = frozenset().union(*allowed.hits)
            hull[name, list] = (min(words), max(words))
    elif isinstance(allowed, Faces):
        _add_faces(hull, name, allowed.strings)
        _add_faces(hull, name, allowed.other)


def _least(a: Limit, b: Limit) -> Limit:
    return min(a, b)  # type: ignore[type-var]


def _greatest(a: Limit, b: Limit) -> Limit:
    return None if a is None or b is None else max(a, b)


def _limits(hulls: Iterable[Hull]) -> Iterable[tuple[Face, Limit]]:
    return ((face, limit) for hull in hulls for face, limits in hull.items() for limit in limits)
