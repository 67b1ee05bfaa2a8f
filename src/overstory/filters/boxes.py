"""Boxes: conjunctions of value sets, one per attribute, and of residuals; and unions of them.

An event is in a box iff each constrained attribute is in its set and each residual is true. A box is never known
to be empty. A residual is a condition that no value set can say, kept as syntax and compared by its spelling.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec

import overstory.filters.value_sets as value_sets
from overstory.filters.evaluate import compile_condition
from overstory.filters.operators import COMPARISONS
from overstory.filters.syntax import Compare, Condition, Literal, Not
from overstory.filters.value_sets import ValueSet
from overstory.model.values import Attributes

Residuals: TypeAlias = frozenset[Condition]
NO_RESIDUALS: Residuals = frozenset()


class Box(msgspec.Struct, frozen=True, gc=False):
    sets: dict[str, ValueSet]
    residuals: Residuals = NO_RESIDUALS

    def contains(self, attributes: Attributes) -> bool:
        """The plain meaning of a box, to check faster things against."""
        return all(allowed.contains(attributes.get(name)) for name, allowed in self.sets.items()) and all(
            compile_condition(residual)(attributes) is True for residual in self.residuals
        )

    def covers(self, other: "Box") -> bool:
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
                if not ours.covers(their):  # type: ignore[arg-type]
                    return False
            elif not value_sets.covers(ours, their):
                return False
        return self.residuals <= other.residuals

    def intersect(self, other: "Box") -> "Box | None":
        return intersection_of((self, other))

    def weight(self) -> int:
        """About how many steps it takes to look at all of the box."""
        return sum(map(value_sets.weight, self.sets.values())) + len(self.residuals)

    def key(self) -> object:
        """Equal for equal boxes, and hashable."""
        return frozenset(self.sets.items()), self.residuals


EVERYTHING = Box({})


def canonical(residual: Compare) -> Compare:
    """One spelling for what means the same: constants to the right, else "less than", else names in order."""
    comparison, left, right = COMPARISONS[residual.operator], residual.left, residual.right
    if isinstance(right, Literal):
        flip = False
    elif comparison.ordering:
        flip = isinstance(left, Literal) or comparison.symbol in (">", ">=")
    else:
        flip = isinstance(left, Literal) or repr(left) > repr(right)
    return Compare(comparison.flipped, right, left) if flip else residual


def negation(residual: Condition) -> Condition:
    """The condition that is true where ``residual`` is false, and unknown where it is."""
    if isinstance(residual, Compare):
        return canonical(Compare(COMPARISONS[residual.operator].negated, residual.left, residual.right))
    return residual.operand if isinstance(residual, Not) else Not(residual)


def intersection_of(boxes: Iterable[Box]) -> Box | None:
    sets: dict[str, ValueSet] = {}
    further: dict[str, list[ValueSet]] = {}
    residuals = NO_RESIDUALS
    for box in boxes:
        for name, allowed in box.sets.items():
            if name not in sets:
                sets[name] = allowed
            elif sets[name] is not allowed:
                further.setdefault(name, []).append(allowed)
        if box.residuals:
            residuals |= box.residuals
    for name, others in further.items():
        shared = _intersection_of_sets([sets[name], *others])
        if shared is None:
            return None
        sets[name] = shared
    if residuals and any(negation(residual) in residuals for residual in residuals):
        return None
    return Box(sets, residuals)


def _intersection_of_sets(sets: list[ValueSet]) -> ValueSet | None:
    """By pairs, as in a tournament: a thousand small sets are not each met by one that grows."""
    while len(sets) > 1:
        winners = sets[len(sets) & ~1 :]
        for a, b in zip(sets[0::2], sets[1::2], strict=False):
            shared = value_sets.intersect(a, b)
            if shared is None:
                return None
            winners.append(shared)
        sets = winners
    return sets[0]


def merged(boxes: Iterable[Box]) -> list[Box]:
    """The same union with boxes that are equal but for one attribute made one, where one value set can say it.

    Whatever merges goes to the back of the queue, so a thousand alternatives pair up as in a tournament.
    """
    queue = deque(boxes)
    kept: dict[int, Box] = {}
    placed: dict[object, Box] = {}  # a kept box stands under one key for each of its attributes
    while queue:
        box = queue.popleft()
        keys = _merge_keys(box)
        for name, key in keys.items():
            other = placed.get(key)
            if other is not None and _differ_only_in(name, box, other):
                del kept[id(other)]
                for old in _merge_keys(other).values():
                    placed.pop(old, None)
                queue.append(_merge(name, box, other))
                break
        else:
            kept[id(box)] = box
            placed.update((key, box) for key in keys.values())
    return list(kept.values())


def _merge_keys(box: Box) -> dict[str, object]:
    """For each attribute a key that boxes share if they can be merged there."""
    hashes = {name: hash((name, allowed)) for name, allowed in box.sets.items()}
    everything = hash(box.residuals)
    for value in hashes.values():
        everything ^= value
    return {name: (name, allowed.merge_key(), everything ^ hashes[name]) for name, allowed in box.sets.items()}


def _differ_only_in(name: str, a: Box, b: Box) -> bool:
    return (
        a.residuals == b.residuals
        and a.sets.keys() == b.sets.keys()
        and all(
            allowed is b.sets[other] or allowed == b.sets[other] for other, allowed in a.sets.items() if other != name
        )
    )


def _merge(name: str, a: Box, b: Box) -> Box:
    union = a.sets[name].merge(b.sets[name])  # type: ignore[arg-type]
    rest = {other: allowed for other, allowed in a.sets.items() if other != name}
    return Box(rest if union is None else {**rest, name: union}, a.residuals)


def absorbed(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """The same union without boxes that lie inside another. A box has no more constraints than what it holds."""
    kept: list[Box] = []
    for box in sorted(boxes, key=lambda box: (len(box.sets), len(box.residuals))):
        if not any(other.covers(box) for other in kept):
            kept = [other for other in kept if len(other.sets) < len(box.sets) or not box.covers(other)]
            kept.append(box)
    return tuple(kept)


def simplified(boxes: Sequence[Box]) -> tuple[Box, ...]:
    return tuple(boxes) if len(boxes) < 2 else absorbed(merged(boxes))
