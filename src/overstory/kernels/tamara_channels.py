"""Tamara's channels as arrays: topics come into clusters and go, users subscribe to channels and leave them.

Every interest of every user stays covered: by a direct subscription, or by a cluster that the user is subscribed to.
"""

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.tamara_state import SUBSCRIBE, UNSUBSCRIBE, Tamara


@kernel
def insert(row: Array, size: int, value: int) -> None:
    """Puts a value into an ascending list that is the beginning of a row."""
    at = size
    while at > 0 and row[at - 1] > value:
        row[at] = row[at - 1]
        at -= 1
    row[at] = value


@kernel
def erase(row: Array, size: int, value: int) -> None:
    """Takes a value out of a list, and lets those behind it move up."""
    at = 0
    while row[at] != value:
        at += 1
    for i in range(at, size - 1):
        row[i] = row[i + 1]


@kernel
def put_topic(state: Tamara, cluster: int, topic: int) -> None:
    state.inside[cluster, topic] = 1
    state.patience[cluster, topic] = 0
    insert(state.topics[cluster], state.width[cluster], topic)
    state.width[cluster] += 1
    state.load[cluster] += state.rate[topic]
    state.about[topic, state.abouts[topic]] = cluster
    state.abouts[topic] += 1


@kernel
def take_topic(state: Tamara, cluster: int, topic: int) -> None:
    state.inside[cluster, topic] = 0
    state.patience[cluster, topic] = 0
    erase(state.topics[cluster], state.width[cluster], topic)
    state.width[cluster] -= 1
    state.load[cluster] -= state.rate[topic]
    erase(state.about[topic], state.abouts[topic], cluster)
    state.abouts[topic] -= 1


@kernel
def subscribe(state: Tamara, user: int, topic: int) -> None:
    state.direct[user, topic] = 1
    state.own[user, state.owns[user]] = topic
    state.own_place[user, topic] = state.owns[user]
    state.owns[user] += 1
    state.spot[user, topic] = state.fans[topic]
    state.listed[topic, state.fans[topic]] = user
    state.fans[topic] += 1
    state.messages[SUBSCRIBE] += 1


@kernel
def unsubscribe(state: Tamara, user: int, topic: int) -> None:
    state.direct[user, topic] = 0
    state.owns[user] -= 1
    moved = state.own[user, state.owns[user]]
    state.own[user, state.own_place[user, topic]] = moved
    state.own_place[user, moved] = state.own_place[user, topic]
    state.fans[topic] -= 1
    last = state.listed[topic, state.fans[topic]]
    state.listed[topic, state.spot[user, topic]] = last
    state.spot[last, topic] = state.spot[user, topic]
    state.messages[UNSUBSCRIBE] += 1


@kernel
def join(state: Tamara, user: int, cluster: int) -> None:
    """The user subscribes to the cluster, and no longer directly to its topics."""
    state.member[cluster, user] = 1
    state.place[cluster, user] = state.size[cluster]
    state.rows[cluster, state.size[cluster]] = user
    state.size[cluster] += 1
    insert(state.mine[user], state.held[user], cluster)
    state.held[user] += 1
    state.messages[SUBSCRIBE] += 1
    for i in range(state.width[cluster]):
        if state.direct[user, state.topics[cluster, i]]:
            unsubscribe(state, user, state.topics[cluster, i])


@kernel
def leave(state: Tamara, user: int, cluster: int) -> None:
    """The user leaves the cluster, and subscribes directly to what no other cluster of its own brings."""
    quit_cluster(state, user, cluster)
    for i in range(state.width[cluster]):
        topic = state.topics[cluster, i]
        if state.wants[user, topic] and not has(state, user, topic):
            subscribe(state, user, topic)


@kernel
def quit_cluster(state: Tamara, user: int, cluster: int) -> None:
    state.member[cluster, user] = 0
    state.size[cluster] -= 1
    last = state.rows[cluster, state.size[cluster]]
    state.rows[cluster, state.place[cluster, user]] = last
    state.place[cluster, last] = state.place[cluster, user]
    erase(state.mine[user], state.held[user], cluster)
    state.held[user] -= 1
    state.messages[UNSUBSCRIBE] += 1


@kernel
def has(state: Tamara, user: int, topic: int) -> bool:
    """Whether the topic's events reach the user."""
    if state.direct[user, topic]:
        return True
    for i in range(state.held[user]):
        if state.inside[state.mine[user, i], topic]:
            return True
    return False


@kernel
def brings(state: Tamara, user: int, topic: int, without: int) -> bool:
    """Whether the topic's events reach the user without one of its clusters."""
    if state.direct[user, topic]:
        return True
    for i in range(state.held[user]):
        if state.mine[user, i] != without and state.inside[state.mine[user, i], topic]:
            return True
    return False
