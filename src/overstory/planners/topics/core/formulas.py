"""Benefit estimates, the coin and the draws, as plain functions of numbers: the kernel's twins."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from overstory.planners.topics.costs import Costs

MASK = (1 << 64) - 1


class Tables(NamedTuple):
    """The four costs as lists."""

    maintain: list[float]
    deliver: list[float]
    associate: list[float]
    notify: float


def tables_of(costs: Costs) -> Tables:
    return Tables(costs.maintain.tolist(), costs.deliver.tolist(), costs.associate.tolist(), float(costs.notify))


class Draws:
    """Numbers between 0 and 1, by splitmix64 of the seed and of how many there were before."""

    def __init__(self, seed: int) -> None:
        self.seed, self.count = seed, 0

    def uniform(self) -> float:
        self.count += 1
        value = (self.seed + self.count * 0x9E3779B97F4A7C15) & MASK
        value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
        return ((value ^ (value >> 31)) >> 11) / 9007199254740992.0


def coin(phi: float, threshold: float) -> float:
    if threshold <= 1 and phi > 0:
        return 1.0
    return float(1.0 - (1.0 - phi) ** (1.0 / threshold))


def answers(sampled: float, subscribers: int) -> int:
    if subscribers <= 1 or sampled >= 1e18:
        return subscribers
    return min(subscribers, math.ceil(sampled / (1.0 + (sampled - 1.0) / subscribers)))


def at(table: Sequence[float], place: float) -> float:
    """The value of a table between two of its places."""
    if place <= 0:
        return table[0]
    low = int(place)
    if low >= len(table) - 1:
        return table[-1]
    return table[low] + (place - low) * (table[low + 1] - table[low])


def step(table: Sequence[float], size: int) -> float:
    """What one more subscriber of a channel adds."""
    return table[size + 1] - table[size]


def adding(costs: Tables, cluster_size: int, width: int, rate: float, fans: int, common: float) -> float:
    kept = fans - common
    return (
        at(costs.maintain, kept)
        - at(costs.maintain, fans)
        + costs.associate[width + 1]
        - costs.associate[width]
        + rate * (costs.notify + costs.deliver[cluster_size] + at(costs.deliver, kept) - at(costs.deliver, fans))
    )


def pairing(costs: Tables, rate: float, fans: int, other_rate: float, other_fans: int, common: float) -> float:
    found = at(costs.maintain, common) + costs.associate[2] - costs.associate[0]
    found += (rate + other_rate) * (costs.notify + at(costs.deliver, common))
    found += at(costs.maintain, fans - common) - at(costs.maintain, fans)
    found += at(costs.maintain, other_fans - common) - at(costs.maintain, other_fans)
    found += rate * (at(costs.deliver, fans - common) - at(costs.deliver, fans))
    return found + other_rate * (at(costs.deliver, other_fans - common) - at(costs.deliver, other_fans))


class Side(NamedTuple):
    """A cluster as merging sees it."""

    size: int
    width: int
    load: float


def merging(costs: Tables, one: Side, other: Side, width: int, load: float, common: float) -> float:
    """``width`` and ``load`` are those of the topics of both."""
    together = one.size + other.size - common
    before = costs.maintain[one.size] + costs.maintain[other.size]
    before += costs.associate[one.width] + costs.associate[other.width]
    before += one.load * (costs.notify + costs.deliver[one.size])
    before += other.load * (costs.notify + costs.deliver[other.size])
    after = at(costs.maintain, together) + costs.associate[width]
    return after + load * (costs.notify + at(costs.deliver, together)) - before


def removing(costs: Tables, cluster: Side, rate: float, fans: int, wanted: float) -> float:
    found = costs.associate[cluster.width - 1] - costs.associate[cluster.width]
    found -= rate * (costs.notify + costs.deliver[cluster.size])
    found += at(costs.maintain, fans + wanted) - costs.maintain[fans]
    return found + rate * (at(costs.deliver, fans + wanted) - costs.deliver[fans])


def destroying(costs: Tables, cluster: Side, topics: Sequence[tuple[float, int, float]]) -> float:
    """``topics`` are rates, direct subscribers, and how many more would be."""
    found = -costs.associate[cluster.width] - costs.maintain[cluster.size]
    found -= cluster.load * (costs.notify + costs.deliver[cluster.size])
    for rate, fans, lacking in topics:
        found += at(costs.maintain, fans + lacking) - costs.maintain[fans]
        found += rate * (at(costs.deliver, fans + lacking) - costs.deliver[fans])
    return found


def break_even(costs: Tables, cluster: Side, rate: float) -> float:
    more = costs.associate[cluster.width + 1] - costs.associate[cluster.width]
    needed = more + rate * (costs.notify + costs.deliver[cluster.size])
    each = costs.maintain[1] - costs.maintain[0] + rate * (costs.deliver[1] - costs.deliver[0])
    return max(needed / max(each, 1e-12), 1.0)


def add_threshold(costs: Tables, cluster: Side, rate: float, fans: int) -> float:
    """The fewest common subscribers that make adding the topic to the cluster pay."""
    low, high = 0, fans
    if adding(costs, cluster.size, cluster.width, rate, fans, float(high)) >= 0:
        return break_even(costs, cluster, rate)
    while low < high:
        middle = (low + high) // 2
        if adding(costs, cluster.size, cluster.width, rate, fans, float(middle)) < 0:
            high = middle
        else:
            low = middle + 1
    return float(max(low, 1))
