"""Tables of distances after some links have gone down: only what led over these links is searched again.

A goal's row is a tree of first links that leads to it. If a link is down, the brokers whose ways led over it are cut
off from that tree, mostly a few; each of them finds the nearest way back to the rest. All other entries stay the same.
What comes of it depends on the first tables and on the links that are down, not on the order in which they went down.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.distances import Distances
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import pop, push


class Links(NamedTuple):
    """A network: the links that leave broker v are between ``offsets`` v and v + 1, and ``order`` has those that enter
    it between ``entering`` v and v + 1."""

    offsets: Array
    targets: Array
    prices: Array
    sources: Array
    down: Array  # by link
    gone: Array  # the links that are down
    entering: Array
    order: Array


class Row(NamedTuple):
    """A goal and its row of the table, whose entries change."""

    goal: int
    far: Array
    first: Array
    no_way: float


class Cut(NamedTuple):
    """The brokers whose ways led over links that are down, in arrays that are used again for the next goal."""

    goal: Array  # by broker: the goal that it was cut off from last
    settled: Array  # by broker: the goal that it has found back to last
    brokers: Array
    best: Array  # by broker: the price of the best way back so far


def distances_without(offsets: Array, targets: Array, prices: Array, known: Distances, down: Array) -> Distances | None:
    """The table of the network without the links that are ``down`` (by a flag for each); first links count as in
    ``known``, with those that are down. None if distances have become too large for the table's numbers."""
    far, first = known.far.copy(), known.first.copy()
    order = np.argsort(targets, kind="stable")
    links = Links(
        offsets,
        targets,
        np.asarray(prices, np.float64),
        np.repeat(np.arange(len(offsets) - 1), np.diff(offsets)),
        np.asarray(down, np.bool_),
        np.flatnonzero(down),
        np.searchsorted(targets[order], np.arange(len(offsets))),
        order,
    )
    no_way = np.inf if far.dtype.kind == "f" else float(np.iinfo(far.dtype).max)
    goals = np.flatnonzero(known.row_of != NONE)

    def search(rows: Array) -> bool:
        return bool(_repair(links, goals[rows], known.row_of, far, first, no_way))

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        fits = list(threads.map(search, np.array_split(np.arange(len(goals)), 4 * (os.cpu_count() or 1))))
    return Distances(known.row_of, far, first) if all(fits) else None


@kernel
def _repair(links: Links, goals: Array, row_of: Array, far: Array, first: Array, no_way: float) -> bool:
    """Repairs the rows of some goals. Returns whether all distances fit."""
    count = len(links.offsets) - 1
    cut = Cut(
        np.full(count, NONE, np.int64), np.full(count, NONE, np.int64), np.empty(count, np.int64), np.empty(count)
    )
    for goal in goals:
        row = Row(goal, far[row_of[goal]], first[row_of[goal]], no_way)
        total = _cut_off(links, row, cut)
        if total and not _find_back(links, row, cut, total):
            return False
        for broker in cut.brokers[:total]:
            if cut.settled[broker] != goal:
                row.far[broker] = no_way
    return True


@kernel
def _led_over(links: Links, row: Row, cut: Cut, link: int) -> bool:
    """Whether a broker that is not known to be cut off goes to the goal over this link."""
    here = links.sources[link]
    if here == row.goal or cut.goal[here] == row.goal or row.far[here] >= row.no_way:
        return False
    return row.first[here] == link - links.offsets[here]


@kernel
def _cut_off(links: Links, row: Row, cut: Cut) -> int:
    """Lists the brokers that are cut off from the goal: how many there are."""
    total = 0
    for link in links.gone:
        if _led_over(links, row, cut, link):
            cut.goal[links.sources[link]], cut.brokers[total] = row.goal, links.sources[link]
            total += 1
    at = 0
    while at < total:
        here = cut.brokers[at]
        for each in range(links.entering[here], links.entering[here + 1]):
            link = links.order[each]
            if _led_over(links, row, cut, link):
                cut.goal[links.sources[link]], cut.brokers[total] = row.goal, links.sources[link]
                total += 1
        at += 1
    return total


@kernel
def _find_back(links: Links, row: Row, cut: Cut, total: int) -> bool:
    """Dijkstra's search among the brokers that are cut off. Returns whether all distances fit."""
    heap, size = np.empty((2, 64)), 0
    for here in cut.brokers[:total]:
        cut.best[here] = _best_way(links, row, cut, here)
        if cut.best[here] < np.inf:
            heap, size = _pushed(heap, size, cut.best[here], here)
    while size:
        price, here = heap[0, 0], int(heap[1, 0])
        size = pop(heap, size)
        if cut.settled[here] == row.goal:
            continue
        if price >= row.no_way:
            return False
        row.first[here] = _first_link(links, row, cut, here, price)
        cut.settled[here], row.far[here] = row.goal, price
        for each in range(links.entering[here], links.entering[here + 1]):
            link = links.order[each]
            before = links.sources[link]
            is_behind = cut.goal[before] == row.goal and cut.settled[before] != row.goal and not links.down[link]
            if is_behind and price + links.prices[link] < cut.best[before]:
                cut.best[before] = price + links.prices[link]
                heap, size = _pushed(heap, size, cut.best[before], before)
    return True


@kernel
def _leads_back(links: Links, row: Row, cut: Cut, link: int) -> bool:
    """Whether a link is up and leads to a broker that has a way to the goal."""
    there = links.targets[link]
    if links.down[link] or (cut.goal[there] == row.goal and cut.settled[there] != row.goal):
        return False
    return row.far[there] < row.no_way


@kernel
def _best_way(links: Links, row: Row, cut: Cut, here: int) -> float:
    """The price of the best way over one link to a broker that has a way to the goal."""
    best = np.inf
    for link in range(links.offsets[here], links.offsets[here + 1]):
        if _leads_back(links, row, cut, link):
            best = min(best, links.prices[link] + row.far[links.targets[link]])
    return best


@kernel
def _first_link(links: Links, row: Row, cut: Cut, here: int, price: float) -> int:
    """The lowest link that a way of this price begins with, counted from the first that leaves the broker."""
    for link in range(links.offsets[here], links.offsets[here + 1]):
        if _leads_back(links, row, cut, link) and _same(links.prices[link] + row.far[links.targets[link]], price):
            return link - links.offsets[here]
    return 0


@kernel
def _pushed(heap: Array, size: int, price: float, broker: int) -> tuple[Array, int]:
    """The heap with one more, perhaps in a larger array."""
    if size == heap.shape[1]:
        larger = np.empty((2, 2 * size))
        larger[:, :size] = heap
        heap = larger
    return heap, push(heap, size, price, broker)


@kernel
def _same(one: float, other: float) -> bool:
    """Whether two sums are the same, as far as floats of 32 bits can tell."""
    return abs(one - other) <= 1e-6 * abs(other)
