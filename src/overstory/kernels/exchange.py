"""Better trees by exchanging links: one that is not in the tree for one on the cycle that it closes.

A cycle's brokers are *positions* 0 to L along the tree's path, and the new link leads back from L to 0. What hangs off
a position stays as it is, whichever link of the cycle is taken out, so an instance *cares* for a position only if its
root or a terminal hangs there. Between such positions are *arcs*: an instance crosses the whole cycle but for the one
arc that holds the link taken out. So what each choice costs is the same along an arc, and two entries of a difference
array count it for all links of it.

1. The gain is exact: bytes times prices before, less after, over all instances.
2. An exchange changes routes only on its cycle. Another cycle need not be looked at again before a broker on it has
   been on one that changed.
3. A tree is a ``parent`` for each broker, -1 at one of them, as in ``tree_cost``.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.nothing import NONE

SPARE = 2  # a list of crossings has room for so many times its first size
DOWN, LOW_CARES, HIGH_CARES = 1, 2, 4  # marks of a crossing: its direction; whether others end at its two ends
ENOUGH = 1e-9  # relative to all traffic: gains below are of rounding


class Links(NamedTuple):
    """Each once, with the prices from source to target and back."""

    sources: Array
    targets: Array
    there: Array
    back: Array


class Instances(NamedTuple):
    """From the root of each to its terminals: those between offsets i and i + 1."""

    roots: Array
    offsets: Array
    terminals: Array
    weights: Array


class Crossings(NamedTuple):
    """Which instances cross the link between a broker and its parent: ``size`` entries from ``starts`` on. An entry is
    of the past if its version is not that of its instance."""

    starts: Array
    size: Array
    instance: Array
    version: Array
    marks: Array


class Tree(NamedTuple):
    """By broker: its parent, its depth, and the prices from its parent and to it."""

    parent: Array
    depth: Array
    down: Array
    up: Array


# Of an instance: its weight and version; the last cycle that it was on; and on that one where it joins and leaves the
# path, the last position so far that it cares for, and the one that its root hangs off. One row, half a cache line,
# since what a crossing asks of its instance is then fetched at once.
STATE = np.dtype(
    [("weight", np.float64)] + [(name, np.int32) for name in ("version", "cycle", "first", "last", "cared", "entry")]
)


class Cycle(NamedTuple):
    """What evaluating a cycle writes on."""

    path: Array
    forth: Array  # price from position 0 to each, along the tree
    back: Array  # price from each to position 0
    gain: Array  # by link of the path, as differences
    touched: Array  # instances on the path


@kernel
def improve_tree(parent: Array, links: Links, instances: Instances, passes: int) -> float:
    """Exchanges links until none gains, or for as many passes over all links; changes ``parent``, and returns by how
    much the cost fell."""
    count = len(parent)
    tree = Tree(parent, np.empty(count, np.int64), np.zeros(count), np.zeros(count))
    set_prices(parent, links, tree.down, tree.up)
    set_depths(parent, tree.depth)
    ends = np.zeros(count, np.int64)
    states = np.zeros(len(instances.roots), STATE)
    states["weight"][:] = instances.weights
    crossings = crossings_of(parent, instances, states, ends)
    least = ENOUGH * (1.0 + _cost(crossings, tree.down, tree.up, instances))
    cycle = _new_cycle(count, len(instances.roots))
    changed, looked = np.zeros(count, np.int64), np.full(len(links.sources), NONE, np.int64)
    clock, fallen = 0, 0.0
    for _ in range(passes):
        before = fallen
        for link in range(len(links.sources)):
            one, other = links.sources[link], links.targets[link]
            if parent[one] == other or parent[other] == one:
                continue
            length, top = _lay_path(tree, one, other, cycle)
            if not _any_later(changed, cycle.path, length, looked[link]):
                continue
            clock += 1
            looked[link] = clock
            gain, place, touched = _best(
                crossings, states, cycle, length, top, links.there[link], links.back[link], clock
            )
            if gain <= least:
                continue
            fallen += gain
            out = cycle.path[place] if place < top else cycle.path[place + 1]
            below = _turn(tree, out, one, other, links.there[link], links.back[link])
            for at in range(length + 1):
                changed[cycle.path[at]] = clock
            if not _reroute(parent, instances, crossings, states, cycle.touched[:touched], place, below == one, ends):
                crossings = crossings_of(parent, instances, states, ends)
        if fallen == before:
            break
    return fallen


@kernel
def set_prices(parent: Array, links: Links, down: Array, up: Array) -> None:
    for link in range(len(links.sources)):
        source, target = links.sources[link], links.targets[link]
        if parent[target] == source:
            down[target], up[target] = links.there[link], links.back[link]
        elif parent[source] == target:
            down[source], up[source] = links.back[link], links.there[link]


@kernel
def set_depths(parent: Array, depth: Array) -> None:
    depth[:] = NONE
    way = np.empty(len(parent), np.int64)
    for start in range(len(parent)):
        node, length = start, 0
        while node != NONE and depth[node] == NONE:
            way[length] = node
            length += 1
            node = parent[node]
        below = 0 if node == NONE else depth[node] + 1
        for at in range(length - 1, -1, -1):
            depth[way[at]] = below
            below += 1


@kernel
def _trace(parent: Array, instances: Instances, i: int, ends: Array, nodes: Array) -> tuple[int, int]:
    """Lists the brokers that instance i crosses links to or from, its root first, and counts in ``ends`` how many links
    of its subtree end at each, one more at its root and at terminals. Returns how many they are, and the topmost.

    ``ends`` is 0 everywhere, and must be made so again. The root's way to the top is written at the end of ``nodes``.
    """
    root = instances.roots[i]
    above = len(nodes)
    node = root
    while node != NONE:
        above -= 1
        nodes[above] = node
        ends[node] = NONE  # on the root's way, and not reached yet
        node = parent[node]
    way = above
    top = root
    ends[root] = 1
    nodes[0], total = root, 1
    for at in range(instances.offsets[i], instances.offsets[i + 1]):
        node = instances.terminals[at]
        while ends[node] == 0:
            ends[node] = 2
            nodes[total] = node
            total += 1
            node = parent[node]
        while ends[node] == NONE:
            ends[top] += 1
            top = parent[top]
            ends[top] = 1
            nodes[total] = top
            total += 1
        ends[node] += 1
    for at in range(way, len(nodes)):
        if ends[nodes[at]] == NONE:
            ends[nodes[at]] = 0
    return total, top


@kernel
def crossings_of(parent: Array, instances: Instances, states: Array, ends: Array) -> Crossings:
    count = len(parent)
    nodes = np.empty(2 * count, np.int64)
    sizes = np.zeros(count, np.int64)
    for i in range(len(instances.roots)):
        total, top = _trace(parent, instances, i, ends, nodes)
        for at in range(total):
            sizes[nodes[at]] += 1 if nodes[at] != top else 0
            ends[nodes[at]] = 0
    starts = np.zeros(count + 1, np.int64)
    for node in range(count):
        starts[node + 1] = starts[node] + SPARE * sizes[node] + 16
    crossings = Crossings(
        starts,
        np.zeros(count, np.int64),
        np.empty(starts[-1], np.int32),
        np.empty(starts[-1], np.int32),
        np.empty(starts[-1], np.uint8),
    )
    for i in range(len(instances.roots)):
        _enter(parent, instances, crossings, states, i, ends, nodes)
    return crossings


@kernel
def _enter(
    parent: Array, instances: Instances, crossings: Crossings, states: Array, i: int, ends: Array, nodes: Array
) -> bool:
    """Adds the crossings of an instance. Returns whether there was room."""
    total, top = _trace(parent, instances, i, ends, nodes)
    starts, size, version = crossings.starts, crossings.size, states[i].version
    fits = True
    # From the root to the topmost broker an instance goes up, and down everywhere else.
    node = instances.roots[i]
    while node != top:
        ends[node] = -ends[node]
        node = parent[node]
    for number in range(total):
        node = nodes[number]
        if node == top:
            continue
        at = starts[node] + size[node]
        if at == starts[node + 1]:
            at = _forget_past(crossings, states, node)
            if at == starts[node + 1]:
                fits = False
                continue
        mark = DOWN if ends[node] > 0 else 0
        if abs(ends[node]) > 2:
            mark |= LOW_CARES
        if abs(ends[parent[node]]) > 2:
            mark |= HIGH_CARES
        crossings.instance[at], crossings.version[at], crossings.marks[at] = i, version, mark
        size[node] += 1
    for number in range(total):
        ends[nodes[number]] = 0
    return fits


@kernel
def _forget_past(crossings: Crossings, states: Array, node: int) -> int:
    """Closes the ranks of a list. Returns its new end."""
    end = crossings.starts[node]
    for at in range(crossings.starts[node], crossings.starts[node] + crossings.size[node]):
        i = crossings.instance[at]
        if crossings.version[at] == states[i].version:
            crossings.instance[end], crossings.version[end] = i, crossings.version[at]
            crossings.marks[end] = crossings.marks[at]
            end += 1
    crossings.size[node] = end - crossings.starts[node]
    return end


@kernel
def _reroute(
    parent: Array,
    instances: Instances,
    crossings: Crossings,
    states: Array,
    touched: Array,
    place: int,
    from_start: bool,
    ends: Array,
) -> bool:
    """Enters anew those of the touched instances that cross links which were turned round: links of the path from its
    start, or else its end, to the one taken out. Returns whether there was room."""
    nodes = np.empty(2 * len(parent), np.int64)
    fits = True
    for i in touched:
        if states[i].first <= place if from_start else states[i].last > place:
            states[i].version += 1
            fits = fits and _enter(parent, instances, crossings, states, i, ends, nodes)
    return fits


@kernel
def _cost(crossings: Crossings, down: Array, up: Array, instances: Instances) -> float:
    total = 0.0
    for node in range(len(crossings.size)):
        for at in range(crossings.starts[node], crossings.starts[node] + crossings.size[node]):
            price = down[node] if crossings.marks[at] & DOWN else up[node]
            total += price * instances.weights[crossings.instance[at]]
    return total


@kernel
def _new_cycle(brokers: int, instances: int) -> Cycle:
    return Cycle(
        np.empty(brokers + 1, np.int64),
        np.empty(brokers + 1),
        np.empty(brokers + 1),
        np.empty(brokers + 1),
        np.empty(instances, np.int64),
    )


@kernel
def _any_later(changed: Array, path: Array, length: int, time: int) -> bool:
    for at in range(length + 1):
        if changed[path[at]] > time:
            return True
    return False


@kernel
def _lay_path(tree: Tree, one: int, other: int, cycle: Cycle) -> tuple[int, int]:
    """The tree's path between two brokers, and what it costs to go along it. Returns its number of links, and the
    position at its top: before it the path goes up, behind it down."""
    parent, depth, down, up = tree
    left, right, length = one, other, 0
    while left != right:
        if depth[left] >= depth[right]:
            left = parent[left]
        else:
            right = parent[right]
        length += 1
    begin, end = 0, length
    left, right = one, other
    path, forth, back = cycle.path, cycle.forth, cycle.back
    path[0], path[length] = one, other
    forth[0], back[0] = 0.0, 0.0
    while left != right:  # prices of single links at first, at their later position
        if depth[left] >= depth[right]:
            begin += 1
            forth[begin], back[begin] = up[left], down[left]
            left = parent[left]
            path[begin] = left
        else:
            forth[end], back[end] = down[right], up[right]
            end -= 1
            right = parent[right]
            path[end] = right
    for at in range(1, length + 1):
        forth[at] += forth[at - 1]
        back[at] += back[at - 1]
    return length, begin


@kernel
def _best(
    crossings: Crossings,
    states: Array,
    cycle: Cycle,
    length: int,
    top: int,
    there: float,
    back: float,
    number: int,
) -> tuple[float, int, int]:
    """The greatest gain, the link of the path (by the position where it begins) to take out for it, and how many
    instances are on the path. ``there`` is the new link's price from position 0 to the last, ``back`` the other way."""
    path, gain, starts, size = cycle.path, cycle.gain, crossings.starts, crossings.size
    # All around the cycle, either way. Prices along it go to the inner loop by their long names: under short ones their
    # owners would be counted for each arc, which takes a third of the time.
    round_there, round_back = there + cycle.back[length], back + cycle.forth[length]
    count = _follow(crossings, states, cycle, length, top, number)
    for at in range(length + 1):
        gain[at] = 0.0
    for at in range(1, length):
        node = path[at] if at < top else path[at + 1]
        cares = HIGH_CARES if at >= top else LOW_CARES  # of the marks about the position where the link begins
        for entry in range(starts[node], starts[node] + size[node]):
            if crossings.marks[entry] & cares:
                i = crossings.instance[entry]
                if states[i].cared < at and crossings.version[entry] == states[i].version:
                    _count_arc(states, i, at, round_there, round_back, cycle.forth, cycle.back, gain)
    for at in range(count):
        i = cycle.touched[at]
        _count_arc(states, i, states[i].last, round_there, round_back, cycle.forth, cycle.back, gain)
    best, place, total = 0.0, NONE, 0.0
    for at in range(length):
        total += gain[at]
        if total > best:
            best, place = total, at
    return best, place, count


@kernel
def _follow(crossings: Crossings, states: Array, cycle: Cycle, length: int, top: int, number: int) -> int:
    """Where instances join and leave the path, and where their roots hang. Returns how many there are."""
    starts, size = crossings.starts, crossings.size
    count = 0
    for at in range(length):
        node = cycle.path[at] if at < top else cycle.path[at + 1]
        for entry in range(starts[node], starts[node] + size[node]):
            i = crossings.instance[entry]
            if crossings.version[entry] != states[i].version:
                continue
            if states[i].cycle != number:
                states[i].cycle, states[i].first = number, at
                states[i].cared, states[i].entry = at, at
                cycle.touched[count] = i
                count += 1
            states[i].last = at + 1
            if (crossings.marks[entry] & DOWN != 0) != (at >= top):  # it comes along the path from further on
                states[i].entry = at + 1
    return count


@inlined
def _count_arc(
    states: Array, i: int, end: int, there: float, back: float, forth: Array, backward: Array, gain: Array
) -> None:
    """From the last position that the instance cares for to this one: what it gains if a link between is taken out.
    ``there`` is the price of going from position 0 over the new link and along the whole path to 0 again, ``back``
    that of going the other way round."""
    start, root = states[i].cared, states[i].entry
    won = forth[states[i].last] - forth[root] + backward[root] - backward[states[i].first]
    if root <= start:
        won -= forth[start] - forth[root] + backward[root] + there - backward[end]
    else:
        won -= backward[root] - backward[end] + back - forth[root] + forth[start]
    gain[start] += states[i].weight * won
    gain[end] -= states[i].weight * won
    states[i].cared = end


@kernel
def _turn(tree: Tree, out: int, source: int, target: int, there: float, back: float) -> int:
    """Takes out the link of ``out`` to its parent: what hung there now hangs off the new link. Returns the end of the
    new link that was cut off: between it and ``out`` parents are children now."""
    parent, depth, down, up = tree
    node = source
    while node != NONE and node != out:
        node = parent[node]
    # The end of the new link that is cut off, its new parent, and the prices down to it and up from it
    end, over, price_down, price_up = source, target, back, there
    if node == NONE:
        end, over, price_down, price_up = target, source, there, back
    below = end
    while True:
        following, old_down, old_up = parent[end], down[end], up[end]
        parent[end], down[end], up[end] = over, price_down, price_up
        if end == out:
            break
        over, end = end, following
        price_down, price_up = old_up, old_down
    set_depths(parent, depth)
    return below
