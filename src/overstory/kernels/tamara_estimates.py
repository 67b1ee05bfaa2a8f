"""Benefit estimates of Tamara's local updates: what each adds to the overall cost, from sizes alone; and the coin."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.tamara_state import Tamara, at


@kernel
def coin(phi: float, threshold: float) -> float:
    """ω: so many tosses win at least once with probability φ. With φ = 0 nothing is ever tried: clusters stay."""
    if threshold <= 1 and phi > 0:
        return 1.0
    return 1.0 - (1.0 - phi) ** (1.0 / threshold)


@kernel
def answers(sampled: float, subscribers: int) -> int:
    """How many subscribers a survey asks: Cochran's number with the correction for a finite population."""
    if subscribers <= 1 or sampled >= 1e18:
        return subscribers
    return min(subscribers, int(np.ceil(sampled / (1.0 + (sampled - 1.0) / subscribers))))


@kernel
def adding(state: Tamara, cluster_size: int, width: int, rate: float, fans: int, common: float) -> float:
    """A topic with so many direct subscribers comes into a cluster, and ``common`` of them are the cluster's."""
    kept = fans - common
    return (
        at(state.maintain, kept)
        - at(state.maintain, fans)
        + state.associate[width + 1]
        - state.associate[width]
        + rate * (state.notify + state.deliver[cluster_size] + at(state.deliver, kept) - at(state.deliver, fans))
    )


@kernel
def removing(state: Tamara, cluster: int, topic: int, wanted: float) -> float:
    """A topic goes out of a cluster, and ``wanted`` of its subscribers subscribe to the topic directly."""
    fans = state.fans[topic]
    found = state.associate[state.width[cluster] - 1] - state.associate[state.width[cluster]]
    found -= state.rate[topic] * (state.notify + state.deliver[state.size[cluster]])
    found += at(state.maintain, fans + wanted) - state.maintain[fans]
    return found + state.rate[topic] * (at(state.deliver, fans + wanted) - state.deliver[fans])


@kernel
def destroying(state: Tamara, cluster: int, lacking: Array) -> float:
    """A cluster ends, and of each of its topics, ascending, so many subscribe to the topic directly."""
    size = state.size[cluster]
    found = -state.associate[state.width[cluster]] - state.maintain[size]
    found -= state.load[cluster] * (state.notify + state.deliver[size])
    for i in range(state.width[cluster]):
        topic = state.topics[cluster, i]
        fans = state.fans[topic]
        found += at(state.maintain, fans + lacking[i]) - state.maintain[fans]
        found += state.rate[topic] * (at(state.deliver, fans + lacking[i]) - state.deliver[fans])
    return found


@kernel
def pairing(state: Tamara, rate: float, fans: int, other_rate: float, other_fans: int, common: float) -> float:
    """Two topics become a cluster of those who are directly subscribed to both."""
    found = at(state.maintain, common) + state.associate[2] - state.associate[0]
    found += (rate + other_rate) * (state.notify + at(state.deliver, common))
    found += at(state.maintain, fans - common) - at(state.maintain, fans)
    found += at(state.maintain, other_fans - common) - at(state.maintain, other_fans)
    found += rate * (at(state.deliver, fans - common) - at(state.deliver, fans))
    return found + other_rate * (at(state.deliver, other_fans - common) - at(state.deliver, other_fans))


@kernel
def merging(state: Tamara, sizes: Array, widths: Array, loads: Array, common: float) -> float:
    """Two clusters become one: ``sizes``, ``widths`` and ``loads`` of the first, of the second, of the union (of its
    topics only)."""
    together = sizes[0] + sizes[1] - common
    before = state.maintain[int(sizes[0])] + state.maintain[int(sizes[1])]
    before += state.associate[int(widths[0])] + state.associate[int(widths[1])]
    before += loads[0] * (state.notify + state.deliver[int(sizes[0])])
    before += loads[1] * (state.notify + state.deliver[int(sizes[1])])
    after = at(state.maintain, together) + state.associate[int(widths[2])]
    return after + loads[2] * (state.notify + at(state.deliver, together)) - before


@kernel
def merging_two(state: Tamara, cluster: int, other: int, common: float) -> float:
    """What it adds if two clusters with so many common subscribers become one."""
    width, load = state.width[cluster], state.load[cluster]
    for i in range(state.width[other]):
        if not state.inside[cluster, state.topics[other, i]]:
            width += 1
            load += state.rate[state.topics[other, i]]
    sizes = np.array([float(state.size[cluster]), float(state.size[other])])
    widths = np.array([float(state.width[cluster]), float(state.width[other]), float(width)])
    return merging(state, sizes, widths, np.array([state.load[cluster], state.load[other], load]), common)


@kernel
def break_even(state: Tamara, cluster: int, topic: int) -> float:
    """How many subscribers of the cluster must want the topic for it to be there, where each costs the same."""
    rate = state.rate[topic]
    more = state.associate[state.width[cluster] + 1] - state.associate[state.width[cluster]]
    needed = more + rate * (state.notify + state.deliver[state.size[cluster]])
    each = state.maintain[1] - state.maintain[0] + rate * (state.deliver[1] - state.deliver[0])
    return max(needed / max(each, 1e-12), 1.0)


@kernel
def add_threshold(state: Tamara, cluster: int, topic: int) -> float:
    """The fewest common subscribers that make adding the topic to the cluster pay."""
    low, high = 0, state.fans[topic]
    if adding(state, state.size[cluster], state.width[cluster], state.rate[topic], high, float(high)) >= 0:
        return break_even(state, cluster, topic)  # not even all of them: what it would take if more came
    while low < high:
        middle = (low + high) // 2
        found = adding(
            state, state.size[cluster], state.width[cluster], state.rate[topic], state.fans[topic], float(middle)
        )
        if found < 0:
            high = middle
        else:
            low = middle + 1
    return float(max(low, 1))
