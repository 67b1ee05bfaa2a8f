"""The workload of the pruning paper: subscriptions with a given covering degree, and publications that meet them.

It is frozen: policies are tuned on it, never it on them.

An event has one number x. There are families, one for each unit of x. The root of family r wants [r, r + 2.5]; its
``degree`` others want an interval of length 1.5 that begins somewhere in [r, r + 1]. So a root covers its own family
and nobody else's, and the others cover nobody: the removal of any root uncovers ``degree`` subscriptions, which is the
covering degree as the paper defines it. A publication is uniform in x, where families are complete. It matches two or
three roots and 1.5 times ``degree`` others: with 30 some 47 subscriptions, on most of the 29 edge brokers, and an edge
broker keeps some 15,000 rows of statistics in an hour (the paper: at most 14,000).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.filters import Filter, parse_filter
from overstory.lab.simulator.topology import Topology

WANTED_BY_ROOT, WANTED_BY_OTHERS, BEGIN = 2.5, 1.5, 1.0
POOL = 20_000  # publications among which those that reach most brokers are looked for

Reals = NDArray[np.float64]
Ints = NDArray[np.int64]


class Subscriptions(NamedTuple):
    """In the order in which they are made; the id is the place."""

    low: Reals
    high: Reals
    family: Ints
    is_root: NDArray[np.bool_]
    broker: Ints

    def filter(self, number: int) -> Filter:
        return parse_filter(f"x BETWEEN {float(self.low[number])!r} AND {float(self.high[number])!r}")

    def wanting(self, x: float) -> Ints:
        return np.flatnonzero((self.low <= x) & (x <= self.high))


def make_subscriptions(
    topology: Topology, count: int, degree: int, dice: np.random.Generator, clustered: bool = False
) -> Subscriptions:
    """As many whole families as fit, at least two. Each subscription is at a random broker; if clustered, at one of the
    region where its family is."""
    families = max(2, count // (degree + 1))
    family = np.repeat(np.arange(families), degree + 1)
    is_root = np.arange(len(family)) % (degree + 1) == 0
    begin = np.where(is_root, 0.0, np.round(dice.uniform(0.0, BEGIN, len(family)), 6))
    low = begin + family.astype(np.float64)
    high = low + np.where(is_root, WANTED_BY_ROOT, WANTED_BY_OTHERS)
    order = dice.permutation(len(family))
    if clustered:
        home = dice.integers(len(topology.regions), size=families)[family]
        broker = np.array([dice.choice(topology.regions[each]) for each in home.tolist()])
    else:
        broker = dice.choice(np.array(topology.subscribers), len(family))
    return Subscriptions(low[order], high[order], family[order], is_root[order], broker[order])


def make_publications(count: int, families: int, dice: np.random.Generator) -> Reals:
    return dice.uniform(WANTED_BY_OTHERS, families, count)


def far_reaching(subscriptions: Subscriptions, count: int, families: int, dice: np.random.Generator) -> Reals:
    """Those of many publications that are wanted at most brokers."""
    pool = make_publications(POOL, families, dice)
    order = np.argsort(subscriptions.low)
    low, high, broker = subscriptions.low[order], subscriptions.high[order], subscriptions.broker[order]
    brokers = []
    for x in pool.tolist():
        first, last = np.searchsorted(low, [x - WANTED_BY_ROOT, x], side="right")
        brokers.append(len(np.unique(broker[first:last][high[first:last] >= x])))
    best = np.argsort(-np.array(brokers), kind="stable")[:count]
    return pool[np.sort(best)]


def covering_degree(subscriptions: Subscriptions) -> float:
    """New roots that the removal of a root leaves, on average; counted from the intervals themselves."""
    low, high = subscriptions.low, subscriptions.high
    covered_by = [np.flatnonzero((low <= a) & (high >= b)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    roots = {number for number, some in enumerate(covered_by) if len(some) == 1}
    alone = [some for number, some in enumerate(covered_by) if number not in roots and len(some) == 2]
    triggered = sum(1 for some in alone if roots & set(some.tolist()))
    return triggered / len(roots)
