"""Relations between unions of boxes: covers and intersects.

One box covers another set by set. Whether *several* boxes together cover one is decided by cutting: take one of
them away from the box, and ask whether the others cover every piece that is left. Three things keep that small.
Only boxes that overlap the one asked about are looked at. One that cannot hold anything that looser ones do not hold
is left out (see ``_beyond``). And the work is counted: past ``MOST_WORK`` the answer is the safe one, no.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, takewhile

import overstory.filters.value_sets as value_sets
from overstory.filters.box import Box
from overstory.filters.cuts import Cut, is_subset_of_union
from overstory.filters.grid import Grid
from overstory.filters.room import with_room
from overstory.filters.value_sets import ABSENT, CUTS, PRESENT, Faces, Keywords, Numbers, Presence, Strings, ValueSet
from overstory.filters.work import OutOfWorkError, Work

MOST_WORK, WORK_PER_BOX = 100_000, 100  # steps that a question may take, at most about a microsecond each
FEW = 4  # boxes that are looked through faster than they are sorted out
MANY = 16  # boxes that are looked through faster side by side in a grid


class Union:
    """A union of boxes, made ready to be asked many times which of them overlap a box.

    They are sorted by where they start in the one attribute that tells them apart best. ``furthest[i]`` is how far the
    first i + 1 of them reach, so those that overlap an interval stand between two places found by bisection.
    """

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.boxes = boxes
        self._grid: Grid | None = None
        self.name, self.kind = ("", Presence) if len(boxes) <= FEW else _telling_attribute(boxes)
        if self.name:
            self.sorted = sorted(boxes, key=lambda box: _start(box.sets[self.name]))
            self.starts = [_start(box.sets[self.name]) for box in self.sorted]
            stops: list[Cut] = [_stop(box.sets[self.name]) for box in self.sorted]
            # From the first that is unbounded on, all may overlap.
            self.furthest = list(accumulate(takewhile(lambda stop: stop is not None, stops), max))

    def overlapping(self, box: Box) -> Sequence[Box]:
        """The boxes that may overlap this one; no box that does is left out."""
        asked = box.sets.get(self.name)
        if asked is None or type(asked) is not self.kind:
            return self.boxes
        stop = _stop(asked)
        first = bisect_right(self.furthest, _start(asked))
        return self.sorted[first : None if stop is None else bisect_left(self.starts, stop)]

    def covers(self, inner: "Union", if_too_much: bool = False) -> bool:
        """Whether the boxes together hold all inner boxes. ``if_too_much`` is the answer where the work runs out."""
        if len(self.boxes) + len(inner.boxes) <= MANY:
            return self._covers_all(inner, if_too_much)
        return with_room(lambda: self._covers_all(inner, if_too_much))

    def _covers_all(self, inner: "Union", if_too_much: bool) -> bool:
        work = self._work_with(inner)
        try:
            return all(self._covers(box, work) for box in inner.boxes)
        except OutOfWorkError:
            return if_too_much

    def _covers(self, box: Box, work: Work) -> bool:
        near = self.overlapping(box)
        if len(near) <= MANY:
            work.spend(len(near))
            if any(coverer.covers(box, work) for coverer in near):
                return True
        elif self._all().holding(box, self._all().everything, work):
            return True
        if self.name and _side_by_side(box, near, self.name, work):
            return True
        return len(near) > 1 and _covered_together(box, near, work)

    def intersects(self, other: "Union") -> bool:
        """Whether some event may be in both."""
        if len(self.boxes) + len(other.boxes) <= MANY:
            return self._meets_any(other)
        return with_room(lambda: self._meets_any(other))

    def _meets_any(self, other: "Union") -> bool:
        work = self._work_with(other)
        try:
            return any(self._meets(box, work) for box in other.boxes)
        except OutOfWorkError:
            return True

    def _meets(self, box: Box, work: Work) -> bool:
        near = self.overlapping(box)
        if len(near) <= MANY:
            work.spend(len(near))
            return any(other.meets(box, work) for other in near)
        return self._all().meeting(box, self._all().everything, work) != 0

    def _work_with(self, other: "Union") -> Work:
        return Work(MOST_WORK + WORK_PER_BOX * (len(self.boxes) + len(other.boxes)))

    def _all(self) -> Grid:
        if self._grid is None:
            self._grid = Grid(self.boxes)
        return self._grid


def box_covers(outer: Box, inner: Box) -> bool:
    """What ``Union.covers`` says of unions of one box each, without making them."""
    try:
        return outer.covers(inner, Work(MOST_WORK))
    except OutOfWorkError:
        return False


def _telling_attribute(boxes: Sequence[Box]) -> tuple[str, type]:
    """The attribute, constrained by all boxes to the same ordered kind, in which they start at the most places."""
    best: tuple[str, type, int] = ("", Presence, 1)
    for name, allowed in boxes[0].sets.items():
        kind = type(allowed)
        if kind is Numbers or kind is Strings:
            starts = {box.sets[name].cuts[0] for box in boxes if type(box.sets.get(name)) is kind}  # type: ignore[union-attr]
            if len(starts) > best[2] and all(type(box.sets.get(name)) is kind for box in boxes):
                best = (name, kind, len(starts))
    return best[:2]


def _start(allowed: ValueSet) -> Cut:
    return allowed.cuts[0]  # type: ignore[union-attr]


def _stop(allowed: ValueSet) -> Cut | None:
    cuts = allowed.cuts  # type: ignore[union-attr]
    return None if len(cuts) % 2 else cuts[-1]


def _side_by_side(box: Box, coverers: Sequence[Box], name: str, work: Work) -> bool:
    """Whether the coverers that hold the box in all other attributes hold it in this one, alone or side by side."""
    given = box.sets.get(name)
    if not isinstance(given, (Numbers, Strings)):
        return False
    parts = []
    size = len(given.cuts)
    work.spend(len(coverers))
    for coverer in coverers:
        for other, asked in coverer.sets.items():
            if other != name:
                theirs = box.sets.get(other)
                if theirs is None or type(theirs) is not type(asked) or not asked.covers(theirs, work):  # type: ignore[arg-type]
                    break
        else:
            part = coverer.sets[name]
            if coverer.residuals <= box.residuals and type(part) is type(given):
                if isinstance(part, Strings) and part.likes:
                    continue
                parts.append(part.cuts)
                size += len(part.cuts)
    work.spend(size // CUTS)
    return is_subset_of_union(given.cuts, parts)


def _covered_together(inner: Box, coverers: Sequence[Box], work: Work) -> bool:
    """Whether the coverers, none of which holds all of the box, do so together."""
    pieces = [(inner, coverers)]
    while pieces:
        piece, candidates = pieces.pop()
        work.spend(len(candidates))
        helping = [(names, box) for box in candidates if (names := _beyond(box, piece, work)) is not None]
        if any(not names for names, _ in helping):
            continue  # one of them holds all of the piece
        if len(helping) < 2:
            return False
        together = _along_one_attribute(piece, helping, work)
        if together is False:
            return False
        if together is None:
            work.spend(len(candidates) * piece.weight())
            # Cutting along few attributes leaves few pieces.
            names, first = min(helping, key=lambda pair: (len(pair[0]), _pieces_beyond(pair[1], piece)))
            others = [coverer for _, coverer in helping if coverer is not first]
            pieces += [(part, others) for part in _cut_away(piece, first, names, work)]
    return True


def _along_one_attribute(piece: Box, helping: list[tuple[list[str], Box]], work: Work) -> bool | None:
    """Whether boxes that reach short of the piece in one ordered attribute only cover it. None if it must be cut."""
    names = helping[0][0]
    given = piece.sets.get(names[0])
    kind = type(given)
    if len(names) > 1 or not isinstance(given, (Numbers, Strings)):
        return None
    cuts = []
    for other, coverer in helping:
        asked = coverer.sets[names[0]] if other == names else None
        if type(asked) is not kind or (kind is Strings and asked.likes):  # type: ignore[union-attr]
            return None
        cuts.append(asked.cuts)  # type: ignore[union-attr]
    work.spend((len(given.cuts) + sum(map(len, cuts))) // CUTS)
    return is_subset_of_union(given.cuts, cuts)


def _beyond(coverer: Box, box: Box, work: Work) -> list[str] | None:
    """The attributes in which the box reaches beyond the coverer. None if the coverer is of no help.

    It is of none if they are disjoint or if it asks for a residual that the box lacks. Nor is it if for some
    attribute it asks for a kind of value, and the box for presence, for nothing, or for another kind: it then
    cannot hold the values of the box that have only that other kind, and whatever holds those holds all the rest.
    """
    if not coverer.residuals <= box.residuals:
        return None
    names = []
    for name, asked in coverer.sets.items():
        given = box.sets.get(name)
        if given is None:
            if not isinstance(asked, Presence):
                return None
            names.append(name)
        elif type(asked) is type(given):
            if not asked.covers(given, work):  # type: ignore[arg-type]
                if not value_sets.meet(asked, given, work):
                    return None
                names.append(name)
        elif not value_sets.covers(asked, given, work):
            if not isinstance(given, Faces) or not value_sets.meet(asked, given, work):
                return None
            names.append(name)
    return names


def _pieces_beyond(coverer: Box, box: Box) -> int:
    """About how many pieces cutting leaves where word lists are asked for. Other attributes leave one piece each."""
    pieces = 0
    for name, asked in coverer.sets.items():
        given = box.sets.get(name)
        if isinstance(asked, Keywords) and isinstance(given, Keywords):
            pieces += len(asked.hits - given.hits) + (not asked.misses <= given.misses)
    return pieces


def _cut_away(box: Box, coverer: Box, names: list[str], work: Work) -> list[Box]:
    """The parts of the box outside the coverer. Each part is outside in one attribute and inside in those before."""
    pieces = []
    sets = dict(box.sets)
    for name in names:
        asked, given = coverer.sets[name], sets.get(name)
        outside = _opposite(asked) if given is None else value_sets.subtract(given, asked, work)
        pieces += [Box({**sets, name: part}, box.residuals) for part in outside]
        inside = asked if given is None else value_sets.intersect(given, asked, work)
        assert inside is not None, "a coverer that helps is not disjoint from the box"
        sets[name] = inside
    return pieces


def _opposite(asked: ValueSet) -> list[ValueSet]:
    return [ABSENT if asked == PRESENT else PRESENT]


def exact_between(a: Sequence[Box], b: Sequence[Box]) -> bool:
    """Whether relations between these unions are exact rather than safe."""
    by_name: dict[str, list[ValueSet]] = {}
    for box in (*a, *b):
        if box.residuals:
            return False
        for name, allowed in box.sets.items():
            by_name.setdefault(name, []).append(allowed)
    return all(map(value_sets.is_exact, by_name.values()))
