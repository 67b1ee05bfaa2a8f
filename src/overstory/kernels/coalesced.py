"""What rows cost when frames coalesce: one copy serves all groups of a row for as long as their ways are the same.

In a tree there is one way from a row's root to a broker. Two groups share a crossing if their ways from the root up to
it are the same, broker by broker; once they have parted, they never meet again. So a row costs the prices of all
*different ways* to the brokers that it reaches, and a way is known by a hash of it: 64 bits, since a wrong match in a
planner's estimate does no harm.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.exchange import set_depths
from overstory.kernels.nothing import NONE

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
SPREAD = np.uint64(0xBF58476D1CE4E5B9)


class Trees(NamedTuple):
    """By group and broker; and where each group's ways begin: all alike if frames coalesce, else each its own."""

    parent: Array
    down: Array
    up: Array
    begin: Array


class Rows(NamedTuple):
    """Where each is published, and the units that it matches: those between offsets i and i + 1."""

    roots: Array
    offsets: Array
    units: Array
    weights: Array


class Units(NamedTuple):
    """What moves between groups as one: the brokers of unit u are between offsets u and u + 1."""

    offsets: Array
    brokers: Array


class UnitRows(NamedTuple):
    """The rows that unit u matches are between offsets u and u + 1."""

    offsets: Array
    rows: Array


class Ways(NamedTuple):
    """What one row writes on: stamps say which entries are of the row, or the group in it, at hand."""

    hashes: Array  # by broker: of the way to it in this group's tree
    reached: Array
    above: Array
    stack: Array
    known: Array  # an open hash table of ways
    stamps: Array
    last: Array  # the last stamp in use


@kernel
def new_ways(trees: Trees, rows: Rows, units: Units) -> Ways:
    """With room for the ways of any row."""
    deepest = _deepest(trees)
    most = 0
    for i in range(len(rows.roots)):
        ends = rows.offsets[i + 1] - rows.offsets[i]  # each unit may climb from the root, too
        for at in range(rows.offsets[i], rows.offsets[i + 1]):
            ends += units.offsets[rows.units[at] + 1] - units.offsets[rows.units[at]]
        most = max(most, ends)
    size, brokers = 64, trees.parent.shape[1]
    while size < 2 * most * (deepest + 1):
        size *= 2
    return Ways(
        np.empty(brokers, np.uint64),
        np.full(brokers, NONE, np.int64),
        np.full(brokers, NONE, np.int64),
        np.empty(brokers, np.int64),
        np.empty(size, np.uint64),
        np.full(size, NONE, np.int64),
        np.zeros(1, np.int64),
    )


@kernel
def _deepest(trees: Trees) -> int:
    depth = np.empty(trees.parent.shape[1], np.int64)
    found = 0
    for group in range(len(trees.parent)):
        set_depths(trees.parent[group], depth)
        found = max(found, depth.max())
    return found


@kernel
def _is_new(ways: Ways, way: np.uint64, stamp: int) -> bool:
    mask = np.uint64(len(ways.known) - 1)
    at = np.int64((way * GOLDEN >> np.uint64(20)) & mask)
    while ways.stamps[at] == stamp:
        if ways.known[at] == way:
            return False
        at = (at + 1) & np.int64(mask)
    ways.stamps[at], ways.known[at] = stamp, way
    return True


@kernel
def _step(way: np.uint64, broker: int) -> np.uint64:
    mixed = way * GOLDEN + np.uint64(broker + 1) * SPREAD
    mixed = (mixed ^ (mixed >> np.uint64(29))) * GOLDEN
    return mixed ^ (mixed >> np.uint64(32))


@kernel
def _add_unit(trees: Trees, group: int, root: int, brokers: Array, ways: Ways, row: int, stamp: int) -> float:
    """Adds the ways from the root to these brokers in the group's tree, and returns the price of those that are new to
    the row, whose own stamp is ``row``."""
    parent, down, up = trees.parent[group], trees.down[group], trees.up[group]
    node = root
    while node != NONE:
        ways.above[node] = stamp
        node = parent[node]
    ways.reached[root], ways.hashes[root] = stamp, trees.begin[group]
    cost = 0.0
    for broker in brokers:
        node, height = broker, 0
        while ways.reached[node] != stamp and ways.above[node] != stamp:
            ways.stack[height] = node
            height += 1
            node = parent[node]
        if ways.reached[node] != stamp:
            cost += _climb(parent, up, root, node, ways, row, stamp)
        for at in range(height - 1, -1, -1):
            below = ways.stack[at]
            ways.reached[below] = stamp
            ways.hashes[below] = _step(ways.hashes[parent[below]], below)
            if _is_new(ways, ways.hashes[below], row):
                cost += down[below]
    return cost


@kernel
def _climb(parent: Array, up: Array, root: int, goal: int, ways: Ways, row: int, stamp: int) -> float:
    node, cost = root, 0.0
    while node != goal:
        over = parent[node]
        if ways.reached[over] != stamp:
            ways.reached[over] = stamp
            ways.hashes[over] = _step(ways.hashes[node], over)
            if _is_new(ways, ways.hashes[over], row):
                cost += up[node]
        node = over
    return cost


@kernel
def coalesced_costs(trees: Trees, rows: Rows, units: Units, unit_group: Array, out: Array) -> None:
    """Sets ``out[i]`` to the price of all links that row i crosses, each as often as it does."""
    ways = new_ways(trees, rows, units)
    for i in range(len(rows.roots)):
        out[i] = row_cost(trees, rows, units, unit_group, i, NONE, NONE, ways)


@kernel
def row_cost(
    trees: Trees, rows: Rows, units: Units, unit_group: Array, i: int, moved: int, to: int, ways: Ways
) -> float:
    """Of row i, if the unit ``moved`` were in group ``to``."""
    cost = 0.0
    row = ways.last[0] + 1
    stamp = row
    for at in range(rows.offsets[i], rows.offsets[i + 1]):
        unit = rows.units[at]
        group = to if unit == moved else unit_group[unit]
        stamp += 1
        brokers = units.brokers[units.offsets[unit] : units.offsets[unit + 1]]
        cost += _add_unit(trees, group, rows.roots[i], brokers, ways, row, stamp)
    ways.last[0] = stamp
    return cost


@kernel
def best_moves(
    trees: Trees,
    rows: Rows,
    units: Units,
    unit_group: Array,
    rows_of: UnitRows,
    candidates: Array,
    costs: Array,
    rounds: int,
) -> float:
    """Moves units, one after the other, to the group where their rows cost least, of the ``candidates`` (by unit, NONE
    for nothing); changes ``unit_group`` and the rows' ``costs``. Returns by how much the cost fell."""
    ways = new_ways(trees, rows, units)
    fallen = 0.0
    for _ in range(rounds):
        before = fallen
        for unit in range(len(unit_group)):
            mine = rows_of.rows[rows_of.offsets[unit] : rows_of.offsets[unit + 1]]
            now = 0.0
            for i in mine:
                now += rows.weights[i] * costs[i]
            best, to = now * (1 - 1e-12), NONE
            for group in candidates[unit]:
                if group == NONE or group == unit_group[unit]:
                    continue
                total = 0.0
                for i in mine:
                    total += rows.weights[i] * row_cost(trees, rows, units, unit_group, i, unit, group, ways)
                    if total >= best:
                        break
                if total < best:
                    best, to = total, group
            if to != NONE:
                unit_group[unit] = to
                for i in mine:
                    costs[i] = row_cost(trees, rows, units, unit_group, i, NONE, NONE, ways)
                fallen += now - best
        if fallen == before:
            break
    return fallen
