"""Boxes that move between groups: the kernel does what its plain twin does, attempt by attempt."""

import numpy as np
import pytest

from overstory.kernels.compiling import Array
from overstory.kernels.nothing import NONE
from overstory.kernels.regrouping import Draws, Sides, ones, regroup


def plain_hull(sides: Sides, boxes: list[int]) -> set[int]:
    """The bits of its slice that a group of boxes lets through."""
    if not boxes:
        return set()
    place = sides.slices[boxes[0]]
    found = set(range(64 * sides.spans[place], 64 * sides.spans[place + 1]))
    for attribute in range(sides.kind.shape[1]):
        kinds = {int(sides.kind[box, attribute]) for box in boxes}
        if len(kinds) == 1 and NONE not in kinds:
            found &= set().union(*(bits_of(sides.inside[box, attribute]) for box in boxes))
    return found


def bits_of(words: Array) -> set[int]:
    return {64 * at + bit for at, word in enumerate(words.tolist()) for bit in range(64) if word >> bit & 1}


def plain_waste(sides: Sides, wasted: set[int], group: list[int], most: int) -> int:
    hulls = [plain_hull(sides, [box for box, at in enumerate(group) if at == number]) for number in range(most)]
    return len(set().union(*hulls) & wasted)


def plain_regroup(sides: Sides, wasted: set[int], group: list[int], most: int, draws: Draws) -> tuple[int, list[int]]:
    best = plain_waste(sides, wasted, group, most), list(group)
    now = best[0]
    for box, to, heat in zip(*(each.tolist() for each in draws), strict=True):
        there = {int(sides.slices[other]) for other, at in enumerate(group) if at == to}
        alone = group.count(group[box]) == 1
        if to == group[box] or there - {int(sides.slices[box])} or (not there and alone):
            continue
        changed = [to if other == box else at for other, at in enumerate(group)]
        count = plain_waste(sides, wasted, changed, most)
        if count - now <= heat:
            group, now = changed, count
            if now < best[0]:
                best = now, list(group)
    return best


@pytest.mark.parametrize("seed", range(12))
def test_the_kernel_and_its_twin_agree(seed: int) -> None:
    dice = np.random.default_rng(seed)
    count, most, places = int(dice.integers(3, 12)), int(dice.integers(2, 6)), int(dice.integers(1, 3))
    spans = np.concatenate([[0], np.cumsum(dice.integers(1, 3, places))])
    slices = np.sort(dice.integers(places, size=count))
    bits = dice.random((count, 3, 64 * spans[-1])) < 0.3
    inside = np.packbits(bits, axis=-1, bitorder="little").view(np.uint64)
    kind = np.where(dice.random((count, 3)) < 0.2, NONE, dice.integers(2, size=(count, 3)) * (seed % 2) + 10)
    sides = Sides(kind, inside, slices, spans)
    wasted = np.packbits(dice.random(64 * spans[-1]) < 0.7, bitorder="little").view(np.uint64)
    most = max(most, len(np.unique(slices)))
    group = np.unique(slices, return_inverse=True)[1].astype(np.int64)
    draws = Draws(dice.integers(count, size=80), dice.integers(most, size=80), 20 * dice.standard_exponential(80))
    expected = plain_regroup(sides, bits_of(wasted), group.tolist(), most, draws)
    assert regroup(sides, wasted, group, most, draws) == expected[0]
    assert group.tolist() == expected[1]


def test_bits_are_counted() -> None:
    for word in (0, 1, 2**63, 2**64 - 1, 0x123456789ABCDEF0):
        assert ones(np.uint64(word)) == word.bit_count()
