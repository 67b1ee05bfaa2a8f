"""Unions of boxes, made simpler: boxes that one set can say together are merged, those inside another go."""

from collections import deque
from collections.abc import Iterable, Sequence

from overstory.filters.box import EVERYTHING, Box, Residuals
from overstory.filters.grid import Grid, bits_of
from overstory.filters.room import with_room
from overstory.filters.value_sets import CUTS
from overstory.filters.work import UNCOUNTED, OutOfWorkError, Work

__all__ = ["EVERYTHING", "Box", "Residuals", "absorbed", "merged", "simplified", "simplified_in_part"]

STEPS, STEPS_PER_BOX = 100_000, 200  # that simplifying a union may take
FEW = 16  # boxes that do not take long


def merged(boxes: Iterable[Box], work: Work = UNCOUNTED) -> list[Box]:
    """The same union, in which boxes that differ in one attribute are one box where one value set can say it.

    Whatever merges goes to the back of the queue, so a thousand alternatives pair up as in a tournament.
    """
    queue = deque(boxes)
    kept: dict[int, Box] = {}
    placed: dict[object, Box] = {}  # a kept box stands under one key for each of its attributes
    while queue:
        box = queue.popleft()
        work.spend(1 + len(box.sets) + box.weight() // CUTS)
        keys = _merge_keys(box)
        for name, key in keys.items():
            other = placed.get(key)
            if other is not None and _differ_only_in(name, box, other):
                del kept[id(other)]
                for old in _merge_keys(other).values():
                    placed.pop(old, None)
                queue.append(_merge(name, box, other, work))
                break
        else:
            kept[id(box)] = box
            placed.update((key, box) for key in keys.values())
    return list(kept.values())


def _merge_keys(box: Box) -> dict[str, object]:
    """A key for each attribute. Boxes that can be merged in an attribute share its key."""
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


def _merge(name: str, a: Box, b: Box, work: Work) -> Box:
    union = a.sets[name].merge(b.sets[name], work)  # type: ignore[arg-type]
    rest = {other: allowed for other, allowed in a.sets.items() if other != name}
    return Box(rest if union is None else {**rest, name: union}, a.residuals)


def absorbed(boxes: Sequence[Box], work: Work = UNCOUNTED, in_part: bool = False) -> tuple[Box, ...]:
    """The same union without boxes that lie inside another. ``in_part`` keeps those that the work does not suffice for.

    A box has no more constraints than what it holds, so it stands before that and is kept if the two are equal.
    """
    ordered = sorted(boxes, key=lambda box: (len(box.sets), len(box.residuals)))
    grid = Grid(ordered)
    kept = grid.everything
    try:
        for i in reversed(range(len(ordered))):
            others = kept & ~(1 << i)
            if grid.holding(ordered[i], others, work):
                kept = others
    except OutOfWorkError:
        if not in_part:
            raise
    return tuple(ordered[i] for i in bits_of(kept))


def simplified(boxes: Sequence[Box], work: Work = UNCOUNTED) -> tuple[Box, ...]:
    return tuple(boxes) if len(boxes) < 2 else absorbed(merged(boxes, work), work)


def simplified_in_part(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """The same union, simplified as far as an amount of work goes that grows with the number of boxes."""
    return _in_part(boxes) if len(boxes) <= FEW else with_room(lambda: _in_part(boxes))


def _in_part(boxes: Sequence[Box]) -> tuple[Box, ...]:
    work = Work(STEPS + STEPS_PER_BOX * len(boxes) + sum(box.weight() for box in boxes))
    try:
        fewer: Sequence[Box] = merged(boxes, work)
    except OutOfWorkError:
        fewer = boxes
    return absorbed(fewer, work, in_part=True)
