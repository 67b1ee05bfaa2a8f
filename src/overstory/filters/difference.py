"""What some boxes hold and others do not, where boxes can say it exactly.

An event for which a filter is unknown is outside it as much as one for which it is false. So ``a AND NOT b`` says too
little, and what is outside ``price > 5`` is in general no union of boxes: a price may be absent, a string, a list. It
is one within ``price > 3``, where all prices are numbers.
"""

from collections.abc import Sequence

import overstory.filters.value_sets as value_sets
from overstory.filters.box import Box
from overstory.filters.room import with_room
from overstory.filters.value_sets import ABSENT, CUTS, PRESENT, Faces, Presence, ValueSet
from overstory.filters.work import OutOfWorkError, Work

MOST_WORK = 200_000  # steps, at most about a microsecond each


def difference(boxes: Sequence[Box], others: Sequence[Box], most: int) -> list[Box] | None:
    """Boxes that together hold what is in ``boxes`` and not in ``others``.

    None if no boxes say that, if there are more than ``most`` on the way, or if it takes too much work.
    """
    return with_room(lambda: _difference(boxes, others, most))


def _difference(boxes: Sequence[Box], others: Sequence[Box], most: int) -> list[Box] | None:
    work = Work(MOST_WORK)
    left = list(boxes)
    try:
        for other in others:
            if len(left) > most:
                return None
            pieces = []
            for box in left:
                work.spend(2 + len(other.sets))
                outside = _outside(box, other, work)
                if outside is None:
                    return None
                pieces += outside
            left = pieces
    except OutOfWorkError:
        return None
    return left


def _outside(box: Box, other: Box, work: Work) -> list[Box] | None:
    """The parts of the box outside the other one. Each part is outside in one attribute and inside in those before."""
    if not box.meets(other, work):
        return [box]
    work.spend(box.weight() // CUTS)
    if not other.residuals <= box.residuals:
        return None
    pieces, sets = [], dict(box.sets)
    for name, asked in other.sets.items():
        given = sets.get(name)
        outside = _without(given, asked, work)
        if outside is None:
            return None
        work.spend(len(outside) * (1 + len(sets) // CUTS))
        pieces += [Box({**sets, name: part}, box.residuals) for part in outside]
        inside = asked if given is None else value_sets.intersect(given, asked, work)
        assert inside is not None, "the boxes intersect, so they do so in each attribute"
        sets[name] = inside
    return pieces


def _without(given: ValueSet | None, asked: ValueSet, work: Work) -> list[ValueSet] | None:
    """What is given and not asked for, where the sets are not disjoint; None if no sets say it.

    A value of two faces may be in sets of unlike kinds. Such sets are not looked into.
    """
    if given is None:
        return [ABSENT if asked.present else PRESENT] if isinstance(asked, Presence) else None
    if value_sets.covers(asked, given, work):
        return []
    if type(given) is not type(asked) or isinstance(given, Faces):
        return None
    return value_sets.subtract(given, asked, work)
