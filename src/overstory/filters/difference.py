"""What some boxes hold and others do not, where boxes can say it exactly.

An event for which a filter is unknown is outside it as much as one for which it is false. So ``a AND NOT b`` says too
little, and what is outside ``price > 5`` is in general no union of boxes: a price may be absent, a string, a list. It
is one within ``price > 3``, where all prices are numbers.
"""

from collections.abc import Sequence

import overstory.filters.value_sets as value_sets
from overstory.filters.boxes import Box
from overstory.filters.value_sets import ABSENT, PRESENT, Faces, Presence, ValueSet


def difference(boxes: Sequence[Box], others: Sequence[Box], most: int) -> list[Box] | None:
    """Boxes that together hold what is in ``boxes`` and not in ``others``; None if there are none that do, or if there
    are more than ``most`` on the way."""
    left = list(boxes)
    for other in others:
        if len(left) > most:
            return None
        pieces = []
        for box in left:
            outside = _outside(box, other)
            if outside is None:
                return None
            pieces += outside
        left = pieces
    return left


def _outside(box: Box, other: Box) -> list[Box] | None:
    """One attribute at a time, and inside the other box in those before."""
    if box.intersect(other) is None:
        return [box]
    if not other.residuals <= box.residuals:
        return None
    pieces, sets = [], dict(box.sets)
    for name, asked in other.sets.items():
        given = sets.get(name)
        outside = _without(given, asked)
        if outside is None:
            return None
        pieces += [Box({**sets, name: part}, box.residuals) for part in outside]
        inside = asked if given is None else value_sets.intersect(given, asked)
        assert inside is not None, "the boxes intersect, so they do so in each attribute"
        sets[name] = inside
    return pieces


def _without(given: ValueSet | None, asked: ValueSet) -> list[ValueSet] | None:
    """The sets are not disjoint. A value of two faces may be in sets of unlike kinds: that is not looked into."""
    if given is None:
        return [ABSENT if asked.present else PRESENT] if isinstance(asked, Presence) else None
    if value_sets.covers(asked, given):
        return []
    if type(given) is not type(asked) or isinstance(given, Faces):
        return None
    return value_sets.subtract(given, asked)
