"""What the cheapest way from every broker to many goals costs, and how it begins: tables as compact as prices allow.

A table has a row for each *goal*. So a way to it is walked link by link, and whoever looks at few goals reads few rows.
Of several cheapest ways one is taken, always the same. Prices are per direction.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import cheapest_paths

AT_ONCE = 64  # goals: as many as a word has bits
ONE = np.uint64(1)
LARGEST = 2**31 - 1
KINDS = (np.uint8, np.uint16, np.int32, np.float32)  # of tables


class Distances(NamedTuple):
    """Of goal g and broker v, the entries at ``row_of[g], v``."""

    row_of: Array  # by broker; NONE if it is no goal
    far: Array  # the price of the cheapest way from v: infinite, or the highest number there is, without a way
    first: Array  # its first link, counted from the first of those that leave v


def distances_to(offsets: Array, targets: Array, prices: Array, goals: Array) -> Distances:
    """The links that leave broker v are between ``offsets`` v and v + 1; ``goals`` are brokers, each once. Whole prices
    are added up exactly, in 8 to 32 bits, if they are below 2**31 in sum; others are rounded to floats of 32 bits."""
    count = len(offsets) - 1
    row_of = np.full(count, NONE, np.int64)
    row_of[goals] = np.arange(len(goals))
    first = np.zeros((len(goals), count), np.uint8 if np.diff(offsets).max(initial=0) <= 256 else np.uint32)
    if not np.all(prices == 1):
        return Distances(row_of, _by_price(offsets, targets, prices, goals, first), first)
    far = np.empty((len(goals), count), np.uint8)
    if not _by_links(offsets, targets, goals, far, first, 255):
        far = np.empty((len(goals), count), np.int32)
        _by_links(offsets, targets, goals, far, first, LARGEST)
    return Distances(row_of, far, first)


@kernel
def _by_links(offsets: Array, targets: Array, goals: Array, far: Array, first: Array, no_way: int) -> bool:
    """Where each link costs 1: from 64 goals at a time, one bit for each. Returns whether all distances fit."""
    count = len(offsets) - 1
    seen, now, later = np.empty(count, np.uint64), np.empty(count, np.uint64), np.empty(count, np.uint64)
    for start in range(0, len(goals), AT_ONCE):
        some = goals[start : start + AT_ONCE]
        now[:] = 0
        far_now, first_now = far[start : start + len(some)], first[start : start + len(some)]
        far_now[:] = no_way
        for bit in range(len(some)):
            now[some[bit]] |= ONE << np.uint64(bit)
            far_now[bit, some[bit]] = 0
        seen[:] = now
        length, more = 0, True
        while more:
            length += 1
            more = False
            for node in range(count):
                later[node] = _reached(offsets, targets, node, now, seen[node], far_now, first_now, length)
                more |= later[node] != 0
            if more and length >= no_way:
                return False
            seen |= later
            now, later = later, now
    return True


@inlined
def _reached(
    offsets: Array, targets: Array, node: int, now: Array, seen: int, far: Array, first: Array, length: int
) -> int:
    """The goals that are just so many links away from a node; notes how far they are, and the lowest link to each."""
    found = np.uint64(0)
    for link in range(offsets[node], offsets[node + 1]):
        new = now[targets[link]] & ~(seen | found)
        found |= new
        while new:
            row = _lowest_bit(new)
            new &= new - ONE
            far[row, node], first[row, node] = length, link - offsets[node]
    return found


@kernel
def _lowest_bit(bits: int) -> int:
    lowest, place = bits & (~bits + ONE), 0
    for half in (32, 16, 8, 4, 2, 1):
        if lowest >> np.uint64(half):
            lowest >>= np.uint64(half)
            place += half
    return place


def _by_price(offsets: Array, targets: Array, prices: Array, goals: Array, first: Array) -> Array:
    """Dijkstra's search against the links, from a few goals at a time, on all cores."""
    count = len(offsets) - 1
    paid = np.asarray(prices, np.float64)
    exact = bool(np.all(paid == np.floor(paid))) and paid.sum() < LARGEST
    far = np.empty((len(goals), count), np.int32 if exact else np.float32)
    order = np.argsort(targets, kind="stable")
    entering = np.searchsorted(targets[order], np.arange(count + 1))
    sources = np.repeat(np.arange(count), np.diff(offsets))[order]

    def search(start: int) -> None:
        some = np.asarray(goals[start : start + AT_ONCE])
        distances, after = np.empty((len(some), count)), np.empty((len(some), count), np.int64)
        cheapest_paths(entering, sources, paid[order], some, distances, after)
        _first_links(offsets, targets, paid, after, first[start:])
        if exact:
            distances[np.isinf(distances)] = LARGEST
        far[start : start + len(some)] = distances

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(threads.map(search, range(0, len(goals), AT_ONCE)))
    return _compact(far) if exact else far


@kernel
def _first_links(offsets: Array, targets: Array, prices: Array, after: Array, first: Array) -> None:
    """The cheapest link from each node to the one ``after`` it, of several the first."""
    for row in range(len(after)):
        for node in range(len(offsets) - 1):
            least = np.inf
            for link in range(offsets[node], offsets[node + 1]):
                if targets[link] == after[row, node] and prices[link] < least:
                    least = prices[link]
                    first[row, node] = link - offsets[node]


def _compact(far: Array) -> Array:
    no_way = far == LARGEST
    longest = far.max(where=~no_way, initial=0)
    for kind in KINDS[:2]:
        highest = np.iinfo(kind).max
        if longest < highest:
            return np.where(no_way, highest, far).astype(kind)
    return far
