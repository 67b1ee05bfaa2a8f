"""Spanning trees on which neighbours stay near each other: low average stretch, weighted by multiplicity.

After Alon, Karp, Peleg and West (1995), as Majumder et al. use it: an edge has a weight, its price, and a multiplicity
(how much crosses it). In each round balls grow around vertices in random order, layer by layer, while much crosses
their boundary compared with their volume. Each ball gets a tree of its layers and is one vertex of the next round,
where parallel edges are one, with the sum of their multiplicities. Dear edges wait: round r has r classes of prices.

All randomness is a hash of the brokers' numbers, and what is equally heavy is taken in the order of the edges: the same
graph and seed give the same tree.
"""

import math

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE

CLASS = 4.0  # prices of one class differ by less than this factor


@kernel
def low_stretch_forest(
    names: Array, sources: Array, targets: Array, multiplicity: Array, prices: Array, seed: int
) -> Array:
    """A spanning tree of each component, as a mask of the edges. Edges lead between the vertices 0, 1, … whose
    brokers are ``names``, each is listed once, and multiplicities are integers above 0."""
    chosen = np.zeros(len(sources), np.bool_)
    one, other, weight = sources.copy(), targets.copy(), multiplicity.copy()
    best = np.arange(len(sources))  # the edge that stands for all that are parallel to it
    rank = _classes(prices)
    names, level = names.copy(), 0
    while len(best):
        level = max(level, rank[best].min())
        inner = rank[best] <= level
        offsets, neighbours, edges = adjacent(len(names), one[inner], other[inner], np.flatnonzero(inner))
        order = np.argsort(_hashes(names, seed, level), kind="mergesort")
        ball, centres = _grow_balls(order, offsets, neighbours, edges, weight, best, chosen)
        one, other, names, level = ball[one], ball[other], names[centres], level + 1
        one, other, weight, best = _contract(one, other, weight, best, rank, multiplicity)
    return chosen


@kernel
def _classes(prices: Array) -> Array:
    """By powers of CLASS, from the least price on; what costs nothing is in the first one."""
    found = np.zeros(len(prices), np.int64)
    least = np.inf
    for price in prices:
        if 0 < price < least:
            least = price
    for i in range(len(prices)):
        if prices[i] > 0:
            found[i] = int(math.log(prices[i] / least) / math.log(CLASS))
    return found


@kernel
def _hashes(names: Array, seed: int, level: int) -> Array:
    """Each round its own order (the finaliser of splitmix64)."""
    found = np.empty(len(names), np.uint64)
    for i in range(len(names)):
        bits = np.uint64(names[i]) + np.uint64(0x9E3779B97F4A7C15) * np.uint64(seed * 1000 + level + 1)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found[i] = bits ^ (bits >> np.uint64(31))
    return found


@kernel
def adjacent(count: int, one: Array, other: Array, edges: Array) -> tuple[Array, Array, Array]:
    """Offsets by vertex, and for each the neighbours with the edges to them."""
    offsets = np.zeros(count + 1, np.int64)
    for i in range(len(one)):
        offsets[one[i] + 1] += 1
        offsets[other[i] + 1] += 1
    offsets = np.cumsum(offsets)
    place = offsets[:-1].copy()
    neighbours, numbers = np.empty(2 * len(one), np.int64), np.empty(2 * len(one), np.int64)
    for i in range(len(one)):
        for here, there in ((one[i], other[i]), (other[i], one[i])):
            neighbours[place[here]], numbers[place[here]] = there, edges[i]
            place[here] += 1
    return offsets, neighbours, numbers


@kernel
def _grow_balls(
    order: Array, offsets: Array, neighbours: Array, edges: Array, weight: Array, best: Array, chosen: Array
) -> tuple[Array, Array]:
    """The ball that each vertex is in, and the centre of each. A ball takes its next layer while more crosses its
    boundary than a 2 ln n-th of its volume, the degrees of its vertices. Whoever is in a layer hangs on its heaviest
    edge inwards."""
    share = 1 / (2 * math.log(max(len(order), 3)))
    ball = np.full(len(order), NONE, np.int64)
    inward = np.full(len(order), NONE, np.int64)  # by vertex of the next layer: its heaviest edge to the ball
    centres, queue = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    count = 0
    for centre in order:
        if ball[centre] != NONE:
            continue
        ball[centre], centres[count], queue[0] = count, centre, centre
        first, last, volume = 0, 1, 0.0
        while first < last:
            boundary, end = 0.0, last
            for at in range(first, last):
                here = queue[at]
                for i in range(offsets[here], offsets[here + 1]):
                    there, edge = neighbours[i], edges[i]
                    if ball[there] == NONE or ball[there] == count:
                        volume += weight[edge]
                    if ball[there] == NONE:
                        boundary += weight[edge]
                        if inward[there] == NONE:
                            queue[end] = there
                            end += 1
                            inward[there] = edge
                        elif _heavier(weight, best, edge, inward[there]):
                            inward[there] = edge
            grows = boundary > share * volume
            for at in range(last, end):
                if grows:
                    ball[queue[at]] = count
                    chosen[best[inward[queue[at]]]] = True
                inward[queue[at]] = NONE
            first, last = last, end if grows else last
        count += 1
    return ball, centres[:count]


@kernel
def _heavier(weight: Array, best: Array, edge: int, other: int) -> bool:
    return weight[edge] > weight[other] or (weight[edge] == weight[other] and best[edge] < best[other])


@kernel
def _contract(
    one: Array, other: Array, weight: Array, best: Array, rank: Array, multiplicity: Array
) -> tuple[Array, Array, Array, Array]:
    """Without edges inside a ball; of parallel ones the cheapest class stands for all, in it the heaviest edge."""
    low, high = np.minimum(one, other), np.maximum(one, other)
    left = np.flatnonzero(low != high)
    order = left[np.argsort(low[left] * (high.max() + 1 if len(high) else 1) + high[left], kind="mergesort")]
    found = 0
    ends, sums, stands = np.empty((2, len(order)), np.int64), np.empty(len(order), weight.dtype), best[order]
    for edge in order:
        if found and ends[0, found - 1] == low[edge] and ends[1, found - 1] == high[edge]:
            sums[found - 1] += weight[edge]
            if _better(rank, multiplicity, best[edge], stands[found - 1]):
                stands[found - 1] = best[edge]
        else:
            ends[0, found], ends[1, found], sums[found], stands[found] = low[edge], high[edge], weight[edge], best[edge]
            found += 1
    return ends[0, :found].copy(), ends[1, :found].copy(), sums[:found].copy(), stands[:found].copy()


@kernel
def _better(rank: Array, multiplicity: Array, edge: int, other: int) -> bool:
    if rank[edge] != rank[other]:
        return rank[edge] < rank[other]
    return multiplicity[edge] > multiplicity[other] or (multiplicity[edge] == multiplicity[other] and edge < other)
