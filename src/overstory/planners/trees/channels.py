"""Channels, as SemCast has them: which events travel together, and to which brokers.

1. Channels begin as filters. Two that share events of the sample may be replaced by what both have, which goes to the
   members of both, and by what is left of each, which goes to its own. So the channels of a member are disjoint at all
   times, and together what they were.
2. Which of these an event is in depends on the filters that it matches, and on nothing else. So a channel is known as
   a *cell*: it asks for one of some filters, for one of others, and for none of still others. What is left of a cell
   may be several; one without events in the sample is never split again, so cells stay few and small.
3. An event floods its channel: its cost depends on where it is published, and on the members.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from overstory.kernels.channels import Links, Lists, flood_costs
from overstory.model.network import Ints, Network

Owners = frozenset[int]  # the channels at the beginning whose members these are

MOST_TOGETHER = 64  # channels of one event: of those with more, no pairs are sought
MOST_TREES = 60_000  # that are grown to compare pairs
LEAST_GAIN = 1e-9  # of the cost: what rounding may make up


class Cell(NamedTuple):
    """Events that match one filter of each set in ``hits``, and none of ``misses``."""

    hits: frozenset[frozenset[int]]
    misses: frozenset[int] = frozenset()

    def holds(self, filters: frozenset[int]) -> bool:
        return self.misses.isdisjoint(filters) and not any(hit.isdisjoint(filters) for hit in self.hits)

    def meet(self, other: "Cell") -> "Cell | None":
        return _cell(self.hits | other.hits, self.misses | other.misses)

    def outside(self, other: "Cell") -> list["Cell"]:
        """Disjoint cells that are together what this one has and the other has not."""
        found: list[Cell | None] = []
        hits = self.hits
        for hit in sorted(other.hits - self.hits, key=sorted):
            found.append(_cell(hits, self.misses | hit))
            hits |= {hit}
        missed = other.misses - self.misses
        if missed:
            found.append(_cell(hits | {missed}, self.misses))
        return [channel for channel in found if channel is not None]


def _cell(hits: frozenset[frozenset[int]], misses: frozenset[int]) -> Cell | None:
    """None if nothing can be in it."""
    open_hits = frozenset(hit - misses for hit in hits)
    if frozenset() in open_hits:
        return None
    return Cell(frozenset(hit for hit in open_hits if not any(other < hit for other in open_hits)), misses)


@dataclass(frozen=True, eq=False)
class Channel:
    owners: Owners
    cell: Cell
    costs: dict[int, float]  # by row of the sample: bytes times price


class Ground(NamedTuple):
    """What channels are made of."""

    network: Network
    members: list[Ints]  # by owner: the brokers
    filters: list[frozenset[int]]  # by row: those of the owners that it matches
    roots: list[int]
    bytes: list[int]


class Channels:
    """``fits`` says whether a cell can be written down as a predicate."""

    def __init__(self, ground: Ground, fits: Callable[[Cell], bool]) -> None:
        self.ground, self.fits = ground, fits
        self.alive: dict[int, Channel] = {}
        self.of_row: list[set[int]] = [set() for _ in ground.roots]
        self.prices: dict[Owners, dict[int, float]] = {}  # by root: of an event that floods the members' tree
        self.trees = 0
        self.heap: list[tuple[float, int, int]] = []
        self.made = 0
        self._begin()

    @property
    def cost(self) -> float:
        return sum(sum(channel.costs.values()) for channel in self.alive.values())

    def merge(self, most: int) -> None:
        """Splits the pair of channels whose sum of costs falls most, until none does or there would be more than
        ``most`` different sets of members."""
        known = {channel.owners for channel in self.alive.values()}
        least = LEAST_GAIN * self.cost
        while self.heap and -self.heap[0][0] > least:
            _, one, other = heapq.heappop(self.heap)
            if one not in self.alive or other not in self.alive:
                continue
            owners = self.alive[one].owners | self.alive[other].owners
            if (owners in known or len(known) < most) and self._split(one, other):
                known.add(owners)

    def _begin(self) -> None:
        rows_of: list[list[int]] = [[] for _ in self.ground.members]
        for row, filters in enumerate(self.ground.filters):
            for filter_ in filters:
                rows_of[filter_].append(row)
        owners = [frozenset([owner]) for owner in range(len(rows_of))]
        self._grow({owner: rows for owner, rows in zip(owners, rows_of, strict=True) if rows})
        new = [self._add(own, Cell(frozenset([own])), rows) for own, rows in zip(owners, rows_of, strict=True)]
        self._seek(new)

    def _split(self, one: int, other: int) -> bool:
        """Whether it could be done: not all that is left of a filter can be written down."""
        a, b = self.alive[one], self.alive[other]
        both, left_of_a, left_of_b = a.cell.meet(b.cell), a.cell.outside(b.cell), b.cell.outside(a.cell)
        assert both is not None, "they share a row"
        if not all(map(self.fits, (both, *left_of_a, *left_of_b))):
            return False
        shared = a.costs.keys() & b.costs.keys()
        for number, channel in ((one, a), (other, b)):
            del self.alive[number]
            for row in channel.costs:
                self.of_row[row].remove(number)
        new = [self._add(a.owners | b.owners, both, sorted(shared))]
        for channel, cells in ((a, left_of_a), (b, left_of_b)):
            left = [row for row in channel.costs if row not in shared]
            for cell in cells:
                held = [row for row in left if cell.holds(self.ground.filters[row])]
                new.append(self._add(channel.owners, cell, held))
        self._seek(new)
        return True

    def _add(self, owners: Owners, cell: Cell, rows: Iterable[int]) -> int:
        prices, ground = self.prices.get(owners, {}), self.ground
        number, self.made = self.made, self.made + 1
        costs = {row: ground.bytes[row] * prices[ground.roots[row]] for row in rows}
        self.alive[number] = Channel(owners, cell, costs)
        for row in costs:
            self.of_row[row].add(number)
        return number

    def _seek(self, new: list[int]) -> None:
        """All pairs of a new channel and another that share rows, with what splitting them would save."""
        pairs: Counter[tuple[int, int]] = Counter()
        for number in new:
            for row in self.alive[number].costs:
                if len(self.of_row[row]) <= MOST_TOGETHER:
                    for other in self.of_row[row]:
                        if other != number:
                            pairs[min(number, other), max(number, other)] += self.ground.bytes[row]
        wanted: dict[Owners, list[int]] = {}
        found = []
        for (one, other), _ in sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0])):
            a, b = self.alive[one], self.alive[other]
            owners = a.owners | b.owners
            shared = a.costs.keys() & b.costs.keys()
            if owners not in self.prices and owners not in wanted and self.trees + len(wanted) >= MOST_TREES:
                continue
            wanted.setdefault(owners, []).extend(shared)
            found.append((one, other, owners, sorted(shared)))
        self._grow(wanted)
        for one, other, owners, rows in found:
            heapq.heappush(self.heap, (-self._gain(one, other, owners, rows), one, other))

    def _gain(self, one: int, other: int, owners: Owners, shared: list[int]) -> float:
        """What is left of each keeps its tree, and costs what it did."""
        a, b, prices, ground = self.alive[one].costs, self.alive[other].costs, self.prices[owners], self.ground
        return sum(a[row] + b[row] - ground.bytes[row] * prices[ground.roots[row]] for row in shared)

    def _grow(self, rows_of: dict[Owners, list[int]]) -> None:
        """Prices of those rows' roots that are not known."""
        ground = self.ground
        asked = {}
        for owners, rows in rows_of.items():
            missing = {ground.roots[row] for row in rows} - self.prices.get(owners, {}).keys()
            if missing:
                asked[owners] = sorted(missing)
        if not asked:
            return
        members = [brokers_of(ground.members, owners) for owners in asked]
        roots = [np.array(root, np.int64) for root in asked.values()]
        out = np.empty(sum(len(root) for root in roots))
        flood_costs(links_of(ground.network), _lists(members), _lists(roots), out)
        self.trees += len(asked)
        prices = iter(out.tolist())
        for owners, each in asked.items():
            self.prices.setdefault(owners, {}).update((root, next(prices)) for root in each)


def brokers_of(members: list[Ints], owners: Iterable[int]) -> Ints:
    return np.unique(np.concatenate([members[owner] for owner in owners]))


def links_of(network: Network) -> Links:
    return Links(network.offsets, network.targets, network.prices, network.back)


def _lists(lists: list[Ints]) -> Lists:
    offsets = np.concatenate([[0], np.cumsum([len(items) for items in lists])]).astype(np.int64)
    return Lists(offsets, np.concatenate(lists))
