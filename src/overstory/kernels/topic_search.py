"""Search on the true cost, from clusters that are there: topics come and go, clusters unite, split off and end, and
users cover themselves anew.

It works on the state of ``tamara`` with surveys that ask everyone, so each step is known to lower the overall cost
before it is made. Beside Tamara's own updates it opens clusters beside those that there are: the union of two for those
who have both, and a cluster without one of its topics for those who throw that topic away.
"""

import numpy as np

from overstory.kernels.compiling import kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.tamara_channels import brings, join, put_topic, quit_cluster
from overstory.kernels.tamara_covering import recover
from overstory.kernels.tamara_estimates import adding, destroying, merging_two, pairing, removing
from overstory.kernels.tamara_state import Tamara
from overstory.kernels.tamara_updates import add_topic, create, destroy, merge, remove_topic

LEAST = 1e-7  # what a step must save


@kernel
def search(state: Tamara, rounds: int) -> int:
    """Takes steps until a round of all kinds saves nothing, or there have been so many. Returns how many were."""
    for done in range(rounds):
        changed = cover_all(state)
        for cluster in range(len(state.size)):
            if state.width[cluster]:
                changed += improve(state, cluster)
        for topic in range(len(state.rate)):
            changed += pair_best(state, topic)
        changed += cover_all(state)
        if changed == 0:
            return done + 1
    return rounds


@kernel
def cover_all(state: Tamara) -> int:
    changed = 0
    for user in range(len(state.held)):
        changed += recover(state, user)
        state.pending[0] = 0  # no channel reconsiders: all are looked at in turn
    return changed


@kernel
def improve(state: Tamara, cluster: int) -> int:
    """All kinds of steps of one cluster, the ones after the others."""
    changed = 0
    while state.width[cluster] and add_best(state, cluster):
        changed += 1
    while state.width[cluster] and remove_best(state, cluster):
        changed += 1
    if state.width[cluster]:
        changed += join_best(state, cluster)
    if state.width[cluster]:
        changed += spare_best(state, cluster)
    if state.width[cluster]:
        changed += end_if_idle(state, cluster)
    return changed


@kernel
def add_best(state: Tamara, cluster: int) -> bool:
    """Adds the topic that saves most, of those that subscribers of the cluster have directly."""
    count = np.zeros(len(state.rate), np.int64)
    for k in range(state.size[cluster]):
        user = state.rows[cluster, k]
        for i in range(state.owns[user]):
            count[state.own[user, i]] += 1
    best, least = NONE, -LEAST
    for topic in range(len(state.rate)):
        if count[topic]:
            fans = state.fans[topic]
            found = adding(
                state, state.size[cluster], state.width[cluster], state.rate[topic], fans, float(count[topic])
            )
            if found < least:
                best, least = topic, found
    if best == NONE:
        return False
    add_topic(state, cluster, best)
    return True


@kernel
def remove_best(state: Tamara, cluster: int) -> bool:
    """Removes the topic whose going saves most, if the cluster keeps two."""
    best, least = NONE, -LEAST
    for i in range(state.width[cluster]):
        topic = state.topics[cluster, i]
        lacking = 0
        for k in range(state.size[cluster]):
            user = state.rows[cluster, k]
            lacking += state.wants[user, topic] and not brings(state, user, topic, cluster)
        found = removing(state, cluster, topic, float(lacking))
        if found < least:
            best, least = topic, found
    if best == NONE or state.width[cluster] <= 2:
        return False
    remove_topic(state, cluster, best)
    return True


@kernel
def free_number(state: Tamara) -> int:
    for cluster in range(len(state.size)):
        if state.width[cluster] == 0:
            return cluster
    return NONE


@kernel
def opening(state: Tamara, width: int, load: float, size: int) -> float:
    """What a channel with so many topics and subscribers costs."""
    return state.associate[width] + load * (state.notify + state.deliver[size]) + state.maintain[size]


@kernel
def leaving_size(state: Tamara, cluster: int, gone: int) -> float:
    """What it saves if so many subscribers leave a cluster."""
    size = state.size[cluster]
    found = state.maintain[size] - state.maintain[size - gone]
    return found + state.load[cluster] * (state.deliver[size] - state.deliver[size - gone])


@kernel
def join_best(state: Tamara, cluster: int) -> int:
    """Merges the cluster with the one that most of its subscribers have, or opens their union for those who have both:
    whichever saves more."""
    joint = np.zeros(len(state.size), np.int64)
    for k in range(state.size[cluster]):
        user = state.rows[cluster, k]
        for i in range(state.held[user]):
            joint[state.mine[user, i]] += 1
    joint[cluster] = 0
    changed = 0
    for _ in range(len(joint)):
        other = int(np.argmax(joint))
        common = joint[other]
        if common < 2:
            break
        joint[other] = 0
        if state.width[other] == 0:
            continue
        whole = merging_two(state, cluster, other, float(common))
        width, load = state.width[cluster], state.load[cluster]
        for i in range(state.width[other]):
            if not state.inside[cluster, state.topics[other, i]]:
                width += 1
                load += state.rate[state.topics[other, i]]
        beside = opening(state, width, load, common)
        beside -= leaving_size(state, cluster, common) + leaving_size(state, other, common)
        if min(whole, beside) >= -LEAST:
            continue
        if whole <= beside:
            merge(state, cluster, other)
            return changed + 1
        changed += open_union(state, cluster, other)
        if state.width[cluster] == 0:
            return changed
    return changed


@kernel
def open_union(state: Tamara, cluster: int, other: int) -> int:
    """A cluster of all topics of both, for those who have both."""
    new = free_number(state)
    if new == NONE:
        return 0
    for i in range(state.width[cluster]):
        put_topic(state, new, state.topics[cluster, i])
    for i in range(state.width[other]):
        if not state.inside[new, state.topics[other, i]]:
            put_topic(state, new, state.topics[other, i])
    for k in range(state.size[cluster] - 1, -1, -1):
        user = state.rows[cluster, k]
        if state.member[other, user]:
            join(state, user, new)
            quit_cluster(state, user, cluster)
            quit_cluster(state, user, other)
    end_if_empty(state, cluster)
    end_if_empty(state, other)
    return 1


@kernel
def spare_best(state: Tamara, cluster: int) -> int:
    """Opens the cluster without one of its topics, for those who do not want that one, where it saves most."""
    if state.width[cluster] < 3:
        return 0
    best, least = NONE, -LEAST
    for i in range(state.width[cluster]):
        topic = state.topics[cluster, i]
        idle = 0
        for k in range(state.size[cluster]):
            idle += 1 - state.wants[state.rows[cluster, k], topic]
        if idle == 0:
            continue
        found = opening(state, state.width[cluster] - 1, state.load[cluster] - state.rate[topic], idle)
        found -= leaving_size(state, cluster, idle)
        if found < least:
            best, least = topic, found
    new = free_number(state)
    if best == NONE or new == NONE:
        return 0
    for i in range(state.width[cluster]):
        if state.topics[cluster, i] != best:
            put_topic(state, new, state.topics[cluster, i])
    for k in range(state.size[cluster] - 1, -1, -1):
        user = state.rows[cluster, k]
        if not state.wants[user, best]:
            join(state, user, new)
            quit_cluster(state, user, cluster)
    end_if_empty(state, cluster)
    return 1


@kernel
def end_if_empty(state: Tamara, cluster: int) -> None:
    if state.size[cluster] == 0:
        destroy(state, cluster)


@kernel
def end_if_idle(state: Tamara, cluster: int) -> int:
    """Ends the cluster if it saves less than it costs."""
    lacking = np.zeros(state.width[cluster])
    for i in range(state.width[cluster]):
        topic = state.topics[cluster, i]
        for k in range(state.size[cluster]):
            user = state.rows[cluster, k]
            lacking[i] += state.wants[user, topic] and not brings(state, user, topic, cluster)
    found = destroying(state, cluster, lacking)
    if found >= -LEAST:
        return 0
    destroy(state, cluster)
    return 1


@kernel
def pair_best(state: Tamara, topic: int) -> int:
    """Opens a cluster of the topic and of the one that most of its direct subscribers have too, if that saves."""
    shared = np.zeros(len(state.rate), np.int64)
    for k in range(state.fans[topic]):
        user = state.listed[topic, k]
        for i in range(state.owns[user]):
            shared[state.own[user, i]] += 1
    shared[topic] = 0
    other = int(np.argmax(shared))
    if shared[other] < 1:
        return 0
    common = float(shared[other])
    found = pairing(state, state.rate[topic], state.fans[topic], state.rate[other], state.fans[other], common)
    if found >= -LEAST:
        return 0
    return 1 if create(state, topic, other) != NONE else 0
