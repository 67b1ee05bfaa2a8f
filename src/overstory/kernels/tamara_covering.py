"""Re-covering, which the paper does not have: a user chooses its clusters anew, greedily by what each saves."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.tamara_channels import join, leave
from overstory.kernels.tamara_state import GREW, SHRANK, Tamara, remember, step
from overstory.kernels.tamara_updates import destroy


@kernel
def worth_of(state: Tamara, user: int, topic: int) -> float:
    """What a direct subscription of the user to the topic costs."""
    fans = state.fans[topic] - (1 if state.direct[user, topic] else 0)
    return step(state.maintain, fans) + state.rate[topic] * step(state.deliver, fans)


@kernel
def price_of(state: Tamara, user: int, cluster: int) -> float:
    """What a subscription of the user to the cluster costs."""
    size = state.size[cluster] - (1 if state.member[cluster, user] else 0)
    return step(state.maintain, size) + state.load[cluster] * step(state.deliver, size)


@kernel
def recover(state: Tamara, user: int) -> bool:
    """Chooses the user's clusters anew, greedily by what each saves, then leaves out those that no longer pay. Changes
    nothing unless it costs less. Returns whether it did."""
    now, interests, count = 0.0, np.empty(len(state.rate), np.int64), 0
    for topic in range(len(state.rate)):
        if state.wants[user, topic]:
            interests[count] = topic
            count += 1
    for i in range(state.held[user]):
        now += price_of(state, user, state.mine[user, i])
    for i in range(count):
        if state.direct[user, interests[i]]:
            now += worth_of(state, user, interests[i])
    chosen, cost = greedy_cover(state, user, interests[:count])
    if cost >= now - 1e-9:
        return False
    before = state.mine[user, : state.held[user]].copy()
    for i in range(len(chosen)):
        if not state.member[chosen[i], user]:
            join(state, user, chosen[i])
            remember(state, GREW, chosen[i], NONE)
    for i in range(len(before)):
        if not among(chosen, before[i]):
            go(state, user, before[i])
    return True


@kernel
def go(state: Tamara, user: int, cluster: int) -> None:
    """The user leaves a cluster by its own decision; if it was the last one, the cluster ends."""
    leave(state, user, cluster)
    if state.size[cluster] == 0:
        destroy(state, cluster)
    else:
        remember(state, SHRANK, cluster, NONE)


@kernel
def among(values: Array, value: int) -> bool:
    for i in range(len(values)):
        if values[i] == value:
            return True
    return False


@kernel
def greedy_cover(state: Tamara, user: int, interests: Array) -> tuple[Array, float]:
    """Which clusters a user with these interests takes, in the order in which it does, and what it then costs."""
    worth = np.empty(len(interests))
    saved, near, seen = np.zeros(len(state.size)), 0, np.empty(len(state.size), np.int64)
    known = np.zeros(len(state.size), np.bool_)
    for i in range(len(interests)):
        worth[i] = worth_of(state, user, interests[i])
        for k in range(state.abouts[interests[i]]):
            cluster = state.about[interests[i], k]
            if not known[cluster]:
                known[cluster], seen[near] = True, cluster
                near += 1
                saved[cluster] = -price_of(state, user, cluster)
            saved[cluster] += worth[i]
    times, chosen, size = np.zeros(len(interests), np.int64), np.empty(len(interests), np.int64), 0
    while True:
        best, most = NONE, 1e-9
        for k in range(near):
            if saved[seen[k]] > most or (saved[seen[k]] == most and seen[k] < best):
                best, most = seen[k], saved[seen[k]]
        if best == NONE:
            break
        chosen[size] = best
        size += 1
        for i in range(len(interests)):
            if state.inside[best, interests[i]]:
                if times[i] == 0:
                    for k in range(state.abouts[interests[i]]):
                        saved[state.about[interests[i], k]] -= worth[i]
                times[i] += 1
    return prune(state, user, interests, worth, times, chosen[:size])


@kernel
def prune(state: Tamara, user: int, interests: Array, worth: Array, times: Array, chosen: Array) -> tuple[Array, float]:
    """Without clusters that cost more than what only they bring; and what it then costs."""
    kept, cost = 0, 0.0
    for at_ in range(len(chosen)):
        price = price_of(state, user, chosen[at_])
        lost = -price
        for i in range(len(interests)):
            if times[i] == 1 and state.inside[chosen[at_], interests[i]]:
                lost += worth[i]
        if lost < -1e-9:
            for i in range(len(interests)):
                times[i] -= state.inside[chosen[at_], interests[i]]
        else:
            cost += price
            chosen[kept] = chosen[at_]
            kept += 1
    for i in range(len(interests)):
        cost += worth[i] if times[i] == 0 else 0.0
    return chosen[:kept], cost
