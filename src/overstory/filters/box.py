"""A box: a conjunction of value sets, one per attribute, and of residuals.

An event is in a box iff each constrained attribute is in its set and each residual is true. A box is never known
to be empty. A residual is a condition that no value set can say, kept as syntax and compared by its spelling.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import TypeAlias

import msgspec

import overstory.filters.value_sets as value_sets
from overstory.filters.evaluate import compile_condition
from overstory.filters.operators import COMPARISONS
from overstory.filters.syntax import Compare, Condition, Literal, Not
from overstory.filters.value_sets import ValueSet
from overstory.filters.work import UNCOUNTED, Work
from overstory.model.values import Attributes

Residuals: TypeAlias = frozenset[Condition]
NO_RESIDUALS: Residuals = frozenset()


class Box(msgspec.Struct, frozen=True, gc=False):
    sets: dict[str, ValueSet]
    residuals: Residuals = NO_RESIDUALS

    def contains(self, attributes: Attributes) -> bool:
        """Whether the event is in the box, by its plain meaning. Faster ways are checked against this one."""
        return all(allowed.contains(attributes.get(name)) for name, allowed in self.sets.items()) and all(
            compile_condition(residual)(attributes) is True for residual in self.residuals
        )

    def covers(self, other: "Box", work: Work = UNCOUNTED) -> bool:
        theirs = other.sets
        if len(self.sets) > len(theirs):
            return False
        for name, ours in self.sets.items():
            their = theirs.get(name)
            if their is None:
                return False
            if ours is their:
                continue
            if type(ours) is type(their):
                if not ours.covers(their, work):  # type: ignore[arg-type]
                    return False
            elif not value_sets.covers(ours, their, work):
                return False
        return self.residuals <= other.residuals

    def intersect(self, other: "Box", work: Work = UNCOUNTED) -> "Box | None":
        return intersection_of((self, other), work)

    def meets(self, other: "Box", work: Work = UNCOUNTED) -> bool:
        """Whether the two have an intersection."""
        for name, ours in self.sets.items():
            theirs = other.sets.get(name)
            if theirs is not None and ours is not theirs and not value_sets.meet(ours, theirs, work):
                return False
        return not contradict(self.residuals, other.residuals)

    def weight(self) -> int:
        """About how many steps it takes to read all of the box."""
        return sum(map(value_sets.weight, self.sets.values())) + len(self.residuals)

    def key(self) -> object:
        """A hashable value that is equal for equal boxes."""
        return frozenset(self.sets.items()), self.residuals


EVERYTHING = Box({})


def canonical(residual: Compare) -> Compare:
    """The one spelling of what means the same: constants stand right, else it is "less than", else names in order."""
    comparison, left, right = COMPARISONS[residual.operator], residual.left, residual.right
    if isinstance(right, Literal):
        flip = False
    elif comparison.ordering:
        flip = isinstance(left, Literal) or comparison.symbol in (">", ">=")
    else:
        flip = isinstance(left, Literal) or repr(left) > repr(right)
    return Compare(comparison.flipped, right, left) if flip else residual


def negation(residual: Condition) -> Condition:
    """The condition that is true where the canonical ``residual`` is false, and unknown where that is unknown."""
    if not isinstance(residual, Compare):
        return residual.operand if isinstance(residual, Not) else Not(residual)
    comparison = COMPARISONS[COMPARISONS[residual.operator].negated]
    if comparison.symbol in (">", ">=") and not isinstance(residual.right, Literal):
        return Compare(comparison.flipped, residual.right, residual.left)
    return Compare(comparison.symbol, residual.left, residual.right)


def contradict(ours: AbstractSet[Condition], theirs: AbstractSet[Condition]) -> bool:
    """Whether a residual of one side is the negation of one of the other. Neither side contradicts itself."""
    if not ours or not theirs:
        return False
    fewer, more = (ours, theirs) if len(ours) < len(theirs) else (theirs, ours)
    return any(negation(residual) in more for residual in fewer)


def intersection_of(boxes: Iterable[Box], work: Work = UNCOUNTED) -> Box | None:
    sets: dict[str, ValueSet] = {}
    further: dict[str, list[ValueSet]] = {}
    residuals: set[Condition] = set()
    for box in boxes:
        for name, allowed in box.sets.items():
            if name not in sets:
                sets[name] = allowed
            elif sets[name] is not allowed:
                further.setdefault(name, []).append(allowed)
        if box.residuals:
            if contradict(residuals, box.residuals):
                return None
            residuals |= box.residuals
    for name, others in further.items():
        shared = _intersection_of_sets([sets[name], *others], work)
        if shared is None:
            return None
        sets[name] = shared
    return Box(sets, frozenset(residuals) if residuals else NO_RESIDUALS)


def _intersection_of_sets(sets: list[ValueSet], work: Work) -> ValueSet | None:
    """Intersects the sets by pairs, as in a tournament. So a thousand small sets are not each met by one that grows."""
    while len(sets) > 1:
        winners = sets[len(sets) & ~1 :]
        for a, b in zip(sets[0::2], sets[1::2], strict=False):
            shared = value_sets.intersect(a, b, work)
            if shared is None:
                return None
            winners.append(shared)
        sets = winners
    return sets[0]
