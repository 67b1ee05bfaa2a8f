"""Surveys of Tamara's channels, and the local updates that they decide on. An update is made only if the survey says
that it pays; where everyone is asked, it then does.

A channel locks those that it is about to change, which takes three messages.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.tamara_channels import brings
from overstory.kernels.tamara_estimates import (
    add_threshold,
    adding,
    answers,
    break_even,
    coin,
    destroying,
    merging_two,
    pairing,
    removing,
)
from overstory.kernels.tamara_state import ANSWER, ASK, LITERAL, LOCK, NOTICE, Tamara, uniform
from overstory.kernels.tamara_updates import add_topic, create, destroy, merge, remove_topic

LOCKING = 3  # messages: the request, the answer, and the release


@kernel
def tossed(state: Tamara, threshold: float) -> bool:
    return uniform(state.draws) < coin(state.phi, threshold)


@kernel
def tossed_for(state: Tamara, cluster: int, topic: int) -> bool:
    """Whether the cluster's coin for the topic wins: by the threshold alone as in the paper, or, where users cover
    themselves anew, by what the last survey was short of it."""
    if state.mode == LITERAL or state.patience[cluster, topic] == 0:
        return tossed(state, add_threshold(state, cluster, topic))
    return tossed(state, float(state.patience[cluster, topic]))


@kernel
def sample(state: Tamara, people: Array) -> Array:
    """Those whom a survey asks: everyone, or some, each drawn by itself."""
    count = answers(state.sampled, len(people))
    state.messages[ASK] += count
    state.messages[ANSWER] += count
    if count == len(people):
        return people.copy()
    found = np.empty(count, people.dtype)
    for i in range(count):
        found[i] = people[int(uniform(state.draws) * len(people))]
    return found


@kernel
def consider_adding(state: Tamara, cluster: int, topic: int) -> bool:
    """Surveys the cluster's subscribers for how many are directly subscribed to the topic, and adds it if that pays."""
    asked = sample(state, state.rows[cluster, : state.size[cluster]])
    found = 0
    for i in range(len(asked)):
        found += state.direct[asked[i], topic]
    common = min(found / max(len(asked), 1) * state.size[cluster], float(state.fans[topic]))
    if adding(state, state.size[cluster], state.width[cluster], state.rate[topic], state.fans[topic], common) >= 0:
        state.patience[cluster, topic] = max(int(add_threshold(state, cluster, topic) - common), 1)
        return False
    state.messages[LOCK] += LOCKING
    add_topic(state, cluster, topic)
    return True


@kernel
def consider_removing(state: Tamara, cluster: int, topic: int) -> bool:
    """Surveys the cluster's subscribers for how many want the topic, and removes it if that pays."""
    asked = sample(state, state.rows[cluster, : state.size[cluster]])
    found = 0
    for i in range(len(asked)):
        found += state.wants[asked[i], topic]
    wanted = found / max(len(asked), 1) * state.size[cluster]
    if removing(state, cluster, topic, wanted) >= 0:
        state.patience[cluster, topic] = max(int(wanted - break_even(state, cluster, topic)), 1)
        return False
    state.messages[LOCK] += LOCKING
    remove_topic(state, cluster, topic)
    return True


@kernel
def consider_pairing(state: Tamara, topic: int) -> bool:
    """The topic's channel surveys its direct subscribers for the cluster and for the topic that most of them have, and
    enters the one or pairs with the other if that pays."""
    asked = sample(state, state.listed[topic, : state.fans[topic]])
    shared, joint = np.zeros(len(state.rate), np.int64), np.zeros(len(state.size), np.int64)
    for i in range(len(asked)):
        for k in range(state.owns[asked[i]]):
            shared[state.own[asked[i], k]] += 1
        for k in range(state.held[asked[i]]):
            joint[state.mine[asked[i], k]] += 1
    shared[topic] = -1
    scale = state.fans[topic] / max(len(asked), 1)
    best = int(np.argmax(joint))
    if joint[best] and not state.inside[best, topic]:
        state.messages[LOCK] += LOCKING
        common = min(joint[best] * scale, float(state.size[best]))
        size, width = state.size[best], state.width[best]
        if adding(state, size, width, state.rate[topic], state.fans[topic], common) < 0:
            state.messages[NOTICE] += 1
            add_topic(state, best, topic)
            return True
    other = int(np.argmax(shared))
    if shared[other] < 1:
        return False
    state.messages[LOCK] += LOCKING
    common = min(shared[other] * scale, float(state.fans[other]))
    if pairing(state, state.rate[topic], state.fans[topic], state.rate[other], state.fans[other], common) >= 0:
        return False
    return create(state, topic, other) != NONE


@kernel
def consider_merging(state: Tamara, cluster: int) -> bool:
    """The cluster's channel surveys its subscribers for the other cluster that most of them have, and merges with it if
    that pays."""
    asked = sample(state, state.rows[cluster, : state.size[cluster]])
    joint = np.zeros(len(state.size), np.int64)
    for i in range(len(asked)):
        for k in range(state.held[asked[i]]):
            joint[state.mine[asked[i], k]] += 1
    joint[cluster] = -1
    other = int(np.argmax(joint))
    if joint[other] < 1:
        return False
    state.messages[LOCK] += LOCKING
    common = min(joint[other] * state.size[cluster] / max(len(asked), 1), float(state.size[other]))
    if merging_two(state, cluster, other, common) >= 0:
        return False
    state.messages[LOCK] -= 1  # the other one ends, so that there is nothing to release
    merge(state, cluster, other)
    return True


@kernel
def consider_shrinking(state: Tamara, cluster: int) -> bool:
    """A cluster that has lost subscribers surveys the others for what they would lack without it, and for the topic
    that most of them have directly: it ends, or takes the topic in, if that pays."""
    asked = sample(state, state.rows[cluster, : state.size[cluster]])
    lacking, shared = np.zeros(state.width[cluster]), np.zeros(len(state.rate), np.int64)
    for i in range(len(asked)):
        for k in range(state.owns[asked[i]]):
            shared[state.own[asked[i], k]] += 1
        for k in range(state.width[cluster]):
            topic = state.topics[cluster, k]
            lacking[k] += state.wants[asked[i], topic] and not brings(state, asked[i], topic, cluster)
    scale = state.size[cluster] / max(len(asked), 1)
    if destroying(state, cluster, lacking * scale) < 0:
        state.messages[LOCK] += LOCKING * state.width[cluster]
        destroy(state, cluster)
        return True
    best = int(np.argmax(shared))
    if shared[best] < 1:
        return False
    state.messages[LOCK] += LOCKING
    common = min(shared[best] * scale, float(state.fans[best]))
    size, width = state.size[cluster], state.width[cluster]
    if adding(state, size, width, state.rate[best], state.fans[best], common) >= 0:
        return False
    add_topic(state, cluster, best)
    return True
