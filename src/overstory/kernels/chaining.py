"""Making room at a full leaf: some of its items go to another leaf that serves them as it is, where others make room
in their turn, along a shortest chain to a leaf that has room. Filters stay as they are.

1. ``covered`` has by rectangle the bits of the leaves whose filters hold it. Whoever changes a filter calls ``cover``.
2. ``others`` has by leaf the bits of all leaves to which one of its items could go, and perhaps of more: of those for
   the sake of items that have left since. Whoever finds no item for a bit takes the bit away.

So chains are looked for among leaves, a word at a time, and items are looked at only on the chain that is taken. As
looking takes longest, whoever looks sends more items on than it takes, if there is room for them: they are those who
would be looked for next.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.bits import WORD, bit_of, lowest
from overstory.kernels.borrowing import borrowing
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.greedy import Ground, State
from overstory.kernels.nothing import NONE
from overstory.kernels.served import Items, Out, Served, pass_on, remember, served_by

FULL = -2  # instead of the next leaf of a chain: there is none, and no room either
STEPS = 16  # from leaf to leaf at most, to make room for one item
AHEAD = 64  # where moves cost nothing but the looks
MOVES = 4096  # of items at most, for the same
AT_ONCE = 4  # rectangles that are compared at once


class Chains(NamedTuple):
    served: Served
    others: Array  # by leaf and word
    open: Array  # by word: leaves that have room, or could make some
    refused: Array  # by word: leaves that turned out to be unable to
    next: Array  # by leaf: where an item of it goes, NONE if it has room itself, else FULL
    waiting: Array  # leaves that are not open
    opened: Array  # leaves that have just been opened
    overloaded: Array  # leaves
    moved: Array  # items, in the order of their moves
    source: Array  # by place in ``moved``: the leaf that it came from
    moves: Array  # one number: how many have moved
    ends: Array  # by end and rectangle: the rectangles, in columns
    inside: Array  # by rectangle: whether a filter holds it
    inside_at_once: Array  # the same memory, AT_ONCE of them in a word
    held: Array  # by leaf and rectangle: the same, as it is in ``covered``
    held_at_once: Array
    starts: Array  # by rectangle: the place of its first item
    of_rectangle: Array  # items, by rectangle
    usual: int  # size of an item
    ahead: int  # items of usual size for whom room is made as well, if it costs no further look


@kernel
def chains_for(ground: Ground, items: Items, state: State, leaves: int, ahead: int) -> Chains:
    """Items that are nowhere have NONE for a leaf."""
    width, count = ground.words.shape[1], len(ground.rectangles)
    padded = -(-count // AT_ONCE) * AT_ONCE
    ends = np.full((4, padded), np.int16(-1))
    for at in range(count):
        for end in range(4):
            ends[end, at] = ground.rectangles[at, end]
    inside, held = np.zeros(padded, np.int16), np.zeros((leaves, padded), np.int16)
    of_rectangle = np.argsort(items.rectangle, kind="mergesort")
    starts = np.searchsorted(items.rectangle[of_rectangle], np.arange(count + 1))
    chains = Chains(
        served_by(items, state.leaf, leaves),
        np.zeros((leaves, width), np.uint64),
        np.zeros(width, np.uint64),
        np.zeros(width, np.uint64),
        np.empty(leaves, np.int64),
        np.empty(leaves, np.int64),
        np.empty(leaves, np.int64),
        np.empty(STEPS + 1, np.int64),
        np.empty(MOVES, np.int64),
        np.empty(MOVES, np.int64),
        np.zeros(1, np.int64),
        ends,
        inside,
        inside.view(np.int64),
        held,
        held.view(np.int64),
        starts,
        of_rectangle,
        max(np.sum(items.size) // max(len(items.size), 1), 1),
        ahead,
    )
    state.covered[:] = 0
    for leaf in range(leaves):
        cover(chains, ground, items, state, state.filters.boxes[leaf], state.filters.counts[leaf], leaf)
    return chains


@borrowing
def note(chains: Chains, ground: Ground, items: Items, state: State, item: int, leaf: int) -> None:
    """That an item has come to a leaf."""
    which, rectangle = items.which[item], items.rectangle[item]
    for word in range(len(chains.open)):
        chains.others[leaf, word] |= ground.words[which, word] & state.covered[rectangle, word]


@borrowing
def cover(chains: Chains, ground: Ground, items: Items, state: State, boxes: Array, count: int, leaf: int) -> None:
    """Brings ``covered`` and ``others`` up to date after a change of a leaf's filter."""
    word, bit, ends, inside = leaf // WORD, bit_of(leaf), chains.ends, chains.inside
    for at in range(len(inside)):
        inside[at] = 0
    for number in range(count):
        b0, b1 = np.int16(boxes[number, 0]), np.int16(boxes[number, 1])
        b2, b3 = np.int16(boxes[number, 2]), np.int16(boxes[number, 3])
        for at in range(len(inside)):
            inside[at] |= (ends[0, at] >= b0) & (ends[1, at] <= b1) & (ends[2, at] >= b2) & (ends[3, at] <= b3)
    for group in range(len(chains.inside_at_once)):
        if chains.inside_at_once[group] == chains.held_at_once[leaf, group]:
            continue
        for at in range(AT_ONCE * group, AT_ONCE * group + AT_ONCE):
            if inside[at] == chains.held[leaf, at]:
                continue
            chains.held[leaf, at] = inside[at]
            if inside[at] == 0:
                state.covered[at, word] &= ~bit
                continue
            state.covered[at, word] |= bit
            for place in range(chains.starts[at], chains.starts[at + 1]):
                item = chains.of_rectangle[place]
                if state.leaf[item] != NONE and ground.words[items.which[item], word] & bit:
                    chains.others[state.leaf[item], word] |= bit


@borrowing
def open_up(chains: Chains, load: Array, capacity: Array, size: int) -> None:
    """Finds out which leaves have room for so many, or could make some, and by which chain."""
    onward, waiting = chains.next, 0
    for word in range(len(chains.open)):
        bits, bit = np.uint64(0), np.uint64(1)
        for leaf in range(WORD * word, min(WORD * word + WORD, len(load))):
            if load[leaf] + size <= capacity[leaf]:
                onward[leaf] = NONE
                bits |= bit
            else:
                onward[leaf] = FULL
                chains.waiting[waiting] = leaf
                waiting += 1
            bit <<= np.uint64(1)
        chains.open[word] = bits
    before = len(load) + 1
    while 0 < waiting < before:
        before, waiting = waiting, _one_step_further(chains, waiting)
    for word in range(len(chains.open)):
        chains.open[word] &= ~chains.refused[word]


@borrowing
def _one_step_further(chains: Chains, waiting: int) -> int:
    """Opens the leaves from which one step leads to an open leaf. Returns how many still wait."""
    left, opened = 0, 0
    for at in range(waiting):
        leaf, there = chains.waiting[at], FULL
        for word in range(len(chains.open)):
            common = chains.others[leaf, word] & chains.open[word]
            if common:
                there = WORD * word + lowest(common)
                break
        chains.next[leaf] = there
        if there == FULL:
            chains.waiting[left] = leaf
            left += 1
        else:
            chains.opened[opened] = leaf
            opened += 1
    for at in range(opened):
        leaf = chains.opened[at]
        chains.open[leaf // WORD] |= bit_of(leaf)
    return left


@borrowing
def make_room(
    chains: Chains, ground: Ground, items: Items, state: State, out: Out, leaf: int, size: int
) -> tuple[bool, int]:
    """Sends items on from a leaf, and from where they go to, until it has room for so many and no leaf has too many.
    Returns whether that was possible, and if not nothing has moved; and how many items were looked at.
    ``open_up`` has to come before."""
    load, looked, steps, left, grain = state.load, 0, 0, 1, min(size, chains.usual)
    chains.overloaded[0], chains.moves[0], start = leaf, 0, leaf
    load[start] += size
    while left:
        leaf = chains.overloaded[left - 1]
        over = load[leaf] - ground.capacity[leaf]
        if over <= 0:
            left -= 1
            continue
        if chains.next[leaf] < 0:
            open_up(chains, load, ground.capacity, grain)
            looked += 2 * len(load)
        there = chains.next[leaf]
        if there == FULL or steps == STEPS or chains.moves[0] == len(chains.moved):
            break
        if chains.next[there] == NONE:
            room = ground.capacity[there] - load[there]
            over = max(min(over + chains.ahead * chains.usual, room), grain)
        before = chains.moves[0]
        seen, is_last = _send(chains, ground, items, state, out, leaf, there, over)
        looked += seen
        if is_last:
            chains.others[leaf, there // WORD] &= ~bit_of(there)
            chains.next[leaf] = FULL
        if chains.moves[0] == before:
            continue
        steps += 1
        if load[there] + grain > ground.capacity[there] and chains.next[there] == NONE:
            chains.next[leaf] = FULL  # as far as is known
        if load[there] > ground.capacity[there]:
            chains.overloaded[left] = there
            left += 1
    load[start] -= size
    if left:
        for at in range(chains.moves[0] - 1, -1, -1):
            item = chains.moved[at]
            _move(items, state, chains.served, item, state.leaf[item], chains.source[at])
    return left == 0, looked


@borrowing
def _move(items: Items, state: State, served: Served, item: int, leaf: int, there: int) -> None:
    pass_on(served, leaf, there, item)
    state.load[leaf] -= items.size[item]
    state.load[there] += items.size[item]
    state.leaf[item] = there


@borrowing
def _send(
    chains: Chains, ground: Ground, items: Items, state: State, out: Out, leaf: int, there: int, over: int
) -> tuple[int, bool]:
    """Sends items that could go from a leaf to another, until there are ``over`` less or no more can go: the first ones
    that are not too large, and at last the smallest that is. Returns how many were looked at, and whether nobody is
    left who could go."""
    word, bit, looked, least, large = there // WORD, bit_of(there), 0, NONE, 0
    members, place, most = chains.served.members, chains.served.counts[leaf] - 1, len(chains.moved)
    while place >= 0 and over > 0 and chains.moves[0] < most:
        looked += 1
        # Most fail the first test, which looks at little memory.
        if chains.held[there, members[leaf, place, 1]] and ground.words[members[leaf, place, 2], word] & bit:
            item = members[leaf, place, 0]
            size = items.size[item]
            if size <= over:
                _sent(chains, ground, items, state, out, item, leaf, there)
                over -= size
            else:
                large += 1
                if least == NONE or size < items.size[least]:
                    least = item
        place -= 1
    all_looked_at = place < 0
    if over > 0 and least != NONE and chains.moves[0] < most:
        _sent(chains, ground, items, state, out, least, leaf, there)
        large -= 1
    return looked, all_looked_at and large == 0


@borrowing
def _sent(
    chains: Chains, ground: Ground, items: Items, state: State, out: Out, item: int, leaf: int, there: int
) -> None:
    remember(out, item, leaf)
    _move(items, state, chains.served, item, leaf, there)
    note(chains, ground, items, state, item, there)
    at = chains.moves[0]
    chains.moved[at], chains.source[at] = item, leaf
    chains.moves[0] = at + 1
