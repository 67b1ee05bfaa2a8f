"""Relations between unions of boxes: covers and intersects.

One box covers another set by set. Whether *several* boxes together cover one is decided by cutting: take one of
them away from the box, and ask whether the others cover every piece that is left. Two things keep that small. A
coverer counts only if it can hold a part of the box that no looser coverer holds (see ``_helps``), and the work is
counted: past ``MOST_PIECES`` the answer is the safe one, that it does not cover.
"""

from collections.abc import Sequence

from overstory.filters import value_sets
from overstory.filters.boxes import Box
from overstory.filters.value_sets import ABSENT, PRESENT, Faces, Presence, ValueSet

MOST_PIECES = 20_000


def covers(outer: Sequence[Box], inner: Sequence[Box]) -> bool:
    for box in inner:
        for coverer in outer:
            if coverer.covers(box):
                break
        else:
            if len(outer) < 2 or not _Cutting().covered(box, outer):
                return False
    return True


def intersects(a: Sequence[Box], b: Sequence[Box]) -> bool:
    return any(x.intersect(y) is not None for x in a for y in b)


class _Cutting:
    def __init__(self) -> None:
        self.pieces_left = MOST_PIECES

    def covered(self, box: Box, coverers: Sequence[Box]) -> bool:
        self.pieces_left -= 1
        if self.pieces_left < 0:
            return False
        helping = [coverer for coverer in coverers if _helps(coverer, box)]
        if any(coverer.covers(box) for coverer in helping):
            return True
        if len(helping) < 2:
            return False
        # Cutting along few attributes leaves few pieces.
        first = min(helping, key=lambda coverer: len(_uncovered(coverer, box)))
        others = [coverer for coverer in helping if coverer is not first]
        return all(self.covered(piece, others) for piece in _cut_away(box, first))


def _helps(coverer: Box, box: Box) -> bool:
    """Whether ``coverer`` may be needed to cover ``box``.

    It is not if they are disjoint or if it asks for a residual that the box lacks. It is not either if for some
    attribute it asks for a kind of value, and the box for presence, for nothing, or for another kind: it then
    cannot hold the values of the box that have only that other kind, and whatever holds those holds all the rest.
    """
    if not coverer.residuals <= box.residuals:
        return False
    for name, asked in coverer.sets.items():
        given = box.sets.get(name)
        if given is None:
            if not isinstance(asked, Presence):
                return False
        elif not _comparable(asked, given) or value_sets.intersect(asked, given) is None:
            return False
    return True


def _comparable(asked: ValueSet, given: ValueSet) -> bool:
    return type(asked) is type(given) or isinstance(asked, Presence) or isinstance(given, Faces)


def _uncovered(coverer: Box, box: Box) -> list[str]:
    """The attributes in which the box reaches beyond the coverer."""
    return [
        name
        for name, asked in coverer.sets.items()
        if (given := box.sets.get(name)) is None or not value_sets.covers(asked, given)
    ]


def _cut_away(box: Box, coverer: Box) -> list[Box]:
    """The parts of the box outside the coverer, one attribute at a time and inside it in those before."""
    pieces = []
    sets = dict(box.sets)
    for name in _uncovered(coverer, box):
        asked, given = coverer.sets[name], sets.get(name)
        outside = _opposite(asked) if given is None else value_sets.subtract(given, asked)
        pieces += [Box({**sets, name: part}, box.residuals) for part in outside]
        inside = asked if given is None else value_sets.intersect(given, asked)
        assert inside is not None, "a coverer that helps is not disjoint from the box"
        sets[name] = inside
    return pieces


def _opposite(asked: ValueSet) -> list[ValueSet]:
    return [ABSENT if asked == PRESENT else PRESENT]
