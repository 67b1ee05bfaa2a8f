"""Assignments that change one item at a time, so that few of those who stay are moved.

An item that comes is put where the growth of filters and the chain of moves that makes room for it cost least together
(``staying``).
"""

import numpy as np

from overstory.kernels.bits import WORD, bit_of
from overstory.kernels.chaining import Chains, chains_for, cover, note
from overstory.kernels.compiling import kernel
from overstory.kernels.enlarging import Grown, let_in_path
from overstory.kernels.greedy import Ground, State
from overstory.kernels.nothing import NONE
from overstory.kernels.served import Items, Out, join, nothing_out, part, remember
from overstory.kernels.staying import NOBODY_AHEAD, Home, put_back_near


@kernel
def chains_of_few(ground: Ground, items: Items, state: State) -> tuple[Chains, Out]:
    """Items that are nowhere have NONE for a leaf."""
    chains = chains_for(ground, items, state, len(ground.capacity), NOBODY_AHEAD)
    return chains, nothing_out(len(items.size), len(ground.rectangles))


@kernel
def arrive(ground: Ground, items: Items, state: State, chains: Chains, out: Out, item: int, home: Home) -> int:
    """Puts an item that is nowhere where it costs least. Returns how many others moved, NONE if there is no room: then
    nothing has changed."""
    rectangle = items.rectangle[item]
    remember(out, item, NONE)
    out.rectangles[0], out.keys[0] = rectangle, 0.0
    out.first[rectangle], out.after[item] = item, NONE
    placed, _ = put_back_near(ground, items, state, chains, out, 1, home, np.inf)
    moved = _moved(items, state, out) - (items.size[item] if placed else 0)
    _forget(out)
    return moved if placed else NONE


@kernel
def place(ground: Ground, items: Items, state: State, chains: Chains, item: int, leaf: int, grown: Grown) -> None:
    """Puts an item that is nowhere to a leaf, whatever it costs, and however full it is."""
    rectangle = items.rectangle[item]
    if not state.covered[rectangle, leaf // WORD] & bit_of(leaf):
        let_in_path(ground.sums, ground.parent, state.filters, leaf, ground.rectangles[rectangle], grown)
        cover(chains, ground, items, state, state.filters.boxes[leaf], state.filters.counts[leaf], leaf)
    state.leaf[item] = leaf
    state.load[leaf] += items.size[item]
    join(chains.served, items, leaf, item)
    note(chains, ground, items, state, item, leaf)


@kernel
def depart(items: Items, state: State, chains: Chains, item: int) -> None:
    leaf = state.leaf[item]
    part(chains.served, leaf, item)
    state.load[leaf] -= items.size[item]
    state.leaf[item] = NONE


@kernel
def _moved(items: Items, state: State, out: Out) -> int:
    """Subscribers who are not where they were."""
    moved = 0
    for at in range(out.count[0]):
        item = out.items[at]
        if state.leaf[item] != out.leaf[at]:
            moved += items.size[item]
    return moved


@kernel
def _forget(out: Out) -> None:
    for at in range(out.count[0]):
        out.is_out[out.items[at]] = False
    out.count[0] = 0
