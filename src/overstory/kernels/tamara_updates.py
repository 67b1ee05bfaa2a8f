"""Tamara's local updates, carried out: two topics become a cluster, a topic comes or goes, clusters unite or end.

Who is told is counted as a message each: channels of topics about the clusters that hold them, and subscribers about
the topics that they are now sent.
"""

from overstory.kernels.compiling import kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.tamara_channels import (
    has,
    join,
    leave,
    put_topic,
    quit_cluster,
    subscribe,
    take_topic,
    unsubscribe,
)
from overstory.kernels.tamara_state import ADDED, DESTROYED, MERGED, PAIRED, REMOVED, UPDATE, Tamara


@kernel
def create(state: Tamara, topic: int, other: int) -> int:
    """A cluster of two topics, of those who are directly subscribed to both; NONE if there is no room for another. All
    who are directly subscribed to the first are told."""
    cluster = NONE
    for each in range(len(state.size)):
        if state.width[each] == 0:
            cluster = each
            break
    if cluster == NONE:
        return NONE
    put_topic(state, cluster, topic)
    put_topic(state, cluster, other)
    state.messages[UPDATE] += 2 + state.fans[topic]
    for i in range(state.fans[topic] - 1, -1, -1):  # backwards: those who join leave the list
        user = state.listed[topic, i]
        if state.direct[user, other]:
            join(state, user, cluster)
    state.updates[PAIRED] += 1
    return cluster


@kernel
def add_topic(state: Tamara, cluster: int, topic: int) -> None:
    put_topic(state, cluster, topic)
    state.messages[UPDATE] += 1 + state.size[cluster]  # the topic's channel, and all who must change their filters
    for i in range(state.size[cluster]):
        if state.direct[state.rows[cluster, i], topic]:
            unsubscribe(state, state.rows[cluster, i], topic)
    state.updates[ADDED] += 1


@kernel
def remove_topic(state: Tamara, cluster: int, topic: int) -> None:
    """Those who lack the topic then subscribe to it directly."""
    take_topic(state, cluster, topic)
    state.messages[UPDATE] += 1 + state.size[cluster]
    for i in range(state.size[cluster]):
        user = state.rows[cluster, i]
        if state.wants[user, topic] and not has(state, user, topic):
            subscribe(state, user, topic)
    state.updates[REMOVED] += 1
    if state.width[cluster] == 1:
        destroy(state, cluster)


@kernel
def destroy(state: Tamara, cluster: int) -> None:
    """Everyone leaves; its number is free again."""
    state.messages[UPDATE] += state.width[cluster] + state.size[cluster]
    while state.size[cluster]:
        leave(state, state.rows[cluster, state.size[cluster] - 1], cluster)
    free(state, cluster)
    state.updates[DESTROYED] += 1


@kernel
def free(state: Tamara, cluster: int) -> None:
    while state.width[cluster]:
        take_topic(state, cluster, state.topics[cluster, state.width[cluster] - 1])
    state.load[cluster] = 0.0
    state.patience[cluster] = 0


@kernel
def merge(state: Tamara, cluster: int, other: int) -> None:
    """The members of the other move to the first, which takes over its topics."""
    state.messages[UPDATE] += 1 + state.width[other] + state.size[cluster] + state.size[other]
    for i in range(state.width[other]):
        if not state.inside[cluster, state.topics[other, i]]:
            put_topic(state, cluster, state.topics[other, i])
    for k in range(state.size[cluster]):
        user = state.rows[cluster, k]
        for i in range(state.width[other]):
            if state.direct[user, state.topics[other, i]]:
                unsubscribe(state, user, state.topics[other, i])
    while state.size[other]:
        user = state.rows[other, state.size[other] - 1]
        quit_cluster(state, user, other)
        if not state.member[cluster, user]:
            join(state, user, cluster)
    free(state, other)
    state.updates[MERGED] += 1
