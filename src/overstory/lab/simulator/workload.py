"""The workloads of the pruning experiments: subscriptions of a given covering degree, and publications for them.

They are frozen: policies are tuned on them, never they on policies.

An event has one number x. There are families, one for each unit of x. The root of family r wants all that its family
wants; its ``degree`` others want intervals of one length, which begin somewhere in [r, r + 1]. So a root covers its own
family and nobody else's, and the others cover nobody: the removal of any root uncovers ``degree`` subscriptions, which
is the covering degree as the paper defines it. A publication is uniform in x, where families are complete. Brokers are
drawn at random. The two workloads differ in one number, the length of the intervals.

``dense``, the paper's: a length of 1.5. A publication matches two or three roots and 1.5 times ``degree`` others: with
30 some 47 subscriptions, on most of the 29 edge brokers, and an edge broker keeps some 15,000 rows of statistics in an
hour (the paper: at most 14,000). When all roots have left, a publication is still wanted by 23 of 29 edge brokers on
average, and hardly ever by fewer than 18: what a root leaves behind lets through next to nothing in vain.

``sparse``, ours: a length of 0.1. A publication matches one root, or two, and 0.1 times ``degree`` others: with 30 some
three, on as many edge brokers, and one publication in twenty nobody but a root. So what a root leaves behind costs
something, and the nearer to the root's host the more. Of what the root of a host behind core broker A gets, somebody
else behind A wants 68 %, somebody behind A or B 90 %, as far as C it is 95 %, as far as D 97 %: so the threshold
decides which broker is the critical one.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.filters import Filter, parse_filter
from overstory.lab.simulator.topology import Topology

BEGIN = 1.0  # the first of a family's intervals and the last begin so far apart
LENGTHS = {"dense": 1.5, "sparse": 0.1}  # of the intervals that others than roots want, by workload
POOL = 20_000  # publications among which those that reach most brokers are looked for

Reals = NDArray[np.float64]
Ints = NDArray[np.int64]


class Subscriptions(NamedTuple):
    """All subscriptions, in the order in which they are made; the id of one is its place."""

    low: Reals
    high: Reals
    family: Ints
    is_root: NDArray[np.bool_]
    broker: Ints
    length: float  # of the intervals of all but roots

    @property
    def families(self) -> int:
        return int(self.family.max()) + 1

    def filter(self, number: int) -> Filter:
        return parse_filter(f"x BETWEEN {float(self.low[number])!r} AND {float(self.high[number])!r}")

    def wanting(self, x: float) -> Ints:
        return np.flatnonzero((self.low <= x) & (x <= self.high))


def make_subscriptions(
    topology: Topology,
    count: int,
    degree: int,
    dice: np.random.Generator,
    clustered: bool = False,
    workload: str = "dense",
) -> Subscriptions:
    """Makes as many whole families as fit, at least two. Each subscription is at a random broker; if clustered, at one
    of the region where its family is."""
    families, length = max(2, count // (degree + 1)), LENGTHS[workload]
    family = np.repeat(np.arange(families), degree + 1)
    is_root = np.arange(len(family)) % (degree + 1) == 0
    begin = np.where(is_root, 0.0, np.round(dice.uniform(0.0, BEGIN, len(family)), 6))
    low = begin + family.astype(np.float64)
    high = low + np.where(is_root, BEGIN + length, length)
    order = dice.permutation(len(family))
    if clustered:
        home = dice.integers(len(topology.regions), size=families)[family]
        broker = np.array([dice.choice(topology.regions[region]) for region in home.tolist()])
    else:
        broker = dice.choice(np.array(topology.subscribers), len(family))
    return Subscriptions(low[order], high[order], family[order], is_root[order], broker[order], length)


def make_publications(subscriptions: Subscriptions, count: int, dice: np.random.Generator) -> Reals:
    return dice.uniform(subscriptions.length, subscriptions.families, count)


def far_reaching(subscriptions: Subscriptions, count: int, dice: np.random.Generator) -> Reals:
    """Draws many publications and returns those that are wanted at the most brokers."""
    pool = make_publications(subscriptions, POOL, dice)
    order = np.argsort(subscriptions.low)
    low, high, broker = subscriptions.low[order], subscriptions.high[order], subscriptions.broker[order]
    brokers = []
    for x in pool.tolist():
        first, last = np.searchsorted(low, [x - BEGIN - subscriptions.length, x], side="right")
        brokers.append(len(np.unique(broker[first:last][high[first:last] >= x])))
    best = np.argsort(-np.array(brokers), kind="stable")[:count]
    return pool[np.sort(best)]


def covering_degree(subscriptions: Subscriptions) -> float:
    """How many new roots the removal of a root leaves on average, counted from the intervals themselves."""
    low, high = subscriptions.low, subscriptions.high
    covered_by = [np.flatnonzero((low <= a) & (high >= b)) for a, b in zip(low.tolist(), high.tolist(), strict=True)]
    roots = {number for number, covering in enumerate(covered_by) if len(covering) == 1}
    alone = [covering for number, covering in enumerate(covered_by) if number not in roots and len(covering) == 2]
    triggered = sum(1 for covering in alone if roots & set(covering.tolist()))
    return triggered / len(roots)
