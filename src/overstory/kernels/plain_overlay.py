"""The plain twin of ``overlay_state``: the cost of users at brokers, added up from sets, channel by channel."""

from collections.abc import Sequence

import numpy as np

from overstory.kernels.compiling import Array
from overstory.kernels.overlay_state import Given


def spanning_length(near: Array, nodes: Sequence[int]) -> float:
    """Kruskal's method."""
    links = sorted((near[u, v], u, v) for u in nodes for v in nodes if u < v)
    group = {node: node for node in nodes}
    length = 0.0
    for price, u, v in links:
        if group[u] != group[v]:
            length += float(price)
            old, new = group[u], group[v]
            group = {node: new if mine == old else mine for node, mine in group.items()}
    return length


def cost_of(given: Given, at: Sequence[int], paid: Sequence[float]) -> float:
    """Access and core of everybody at these brokers."""
    cost = float(sum(paid))
    for channel in range(len(given.total)):
        wanting = sorted({int(at[user]) for user in range(len(at)) if channel in wanted_by(given, user)})
        if not wanting:
            continue
        tree = spanning_length(given.near, wanting) * float(given.steiner_ratio[0])
        for user in range(len(at)):
            rate = sent_by(given, user).get(channel, 0.0)
            cost += rate * (tree + min(float(given.far[at[user], broker]) for broker in wanting))
    return cost


def wanted_by(given: Given, user: int) -> set[int]:
    kind = given.kind[user]
    return set(given.wants[given.want_offsets[kind] : given.want_offsets[kind + 1]].tolist())


def sent_by(given: Given, user: int) -> dict[int, float]:
    mine = slice(given.send_offsets[user], given.send_offsets[user + 1])
    return dict(zip(given.sends[mine].tolist(), given.rates[mine].tolist(), strict=True))


def access_at(given: Given, user: int, broker: int) -> float:
    """What the access of a user costs at a broker within its reach."""
    (place,) = np.flatnonzero(given.brokers[user] == broker)
    return float(given.costs[user, place])
