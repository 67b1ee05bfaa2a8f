"""Tamara, replayed: changes of interests in, clusters of topics and who is subscribed to what out, in one pass.

The law of this file:

1. Every interest of every user is covered, after every change: by a direct subscription or by a cluster of the user.
2. A local update is made only if its survey says that the overall cost falls. Where surveys ask everyone, it does fall.
3. A request is served first; channels that it gave a reason to reconsider then do so, in the order of the reasons.
4. Decisions are those of the state machines in ``planners.topics.core``, draw by draw; a test compares the two.

The state is in ``tamara_state``, what channels do in ``tamara_channels``, what an update would save in
``tamara_estimates``, who is asked in ``tamara_surveys``, what is then done in ``tamara_updates``, and what users choose
anew in ``tamara_covering``.
"""

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.tamara_channels import brings, has, join, subscribe, unsubscribe
from overstory.kernels.tamara_covering import go, recover
from overstory.kernels.tamara_state import (
    ADD,
    CHEAPER,
    DEARER,
    GREW,
    GROWTH,
    LOOK,
    NOTICE,
    RATE,
    RECOVERING,
    SHRANK,
    TOPIC_GREW,
    UNWANTED,
    WANTED,
    Tamara,
    remember,
    step,
)
from overstory.kernels.tamara_surveys import (
    consider_adding,
    consider_merging,
    consider_pairing,
    consider_removing,
    consider_shrinking,
    tossed,
    tossed_for,
)


@kernel
def joining(state: Tamara, user: int, cluster: int, topic: int) -> float:
    """What it adds if the user joins the cluster instead of being subscribed directly to those of its topics that it
    is, and to ``topic``."""
    found = step(state.maintain, state.size[cluster]) + state.load[cluster] * step(state.deliver, state.size[cluster])
    for i in range(state.width[cluster]):
        each = state.topics[cluster, i]
        if state.direct[user, each] or each == topic:
            fans = state.fans[each] - (1 if state.direct[user, each] else 0)
            found -= step(state.maintain, fans) + state.rate[each] * step(state.deliver, fans)
    return found


@kernel
def leaving(state: Tamara, user: int, cluster: int, enough: float) -> float:
    """What it adds if the user leaves the cluster, and subscribes directly to what it then lacks. About that it asks
    one topic's channel after the other, until what it knows of adds up to ``enough``."""
    size = state.size[cluster] - 1
    found = -step(state.maintain, size) - state.load[cluster] * step(state.deliver, size)
    for i in range(state.width[cluster]):
        topic = state.topics[cluster, i]
        if found >= enough:
            break
        if state.wants[user, topic] and not brings(state, user, topic, cluster):
            state.messages[LOOK] += 2  # the user asks the topic's channel for its numbers
            found += step(state.maintain, state.fans[topic])
            found += state.rate[topic] * step(state.deliver, state.fans[topic])
    return found


@kernel
def nearest_cluster(state: Tamara, user: int, topic: int) -> int:
    """Of the clusters that hold the topic, the one with most topics to which the user is directly subscribed."""
    best, most = NONE, -1
    for k in range(state.abouts[topic]):
        cluster = state.about[topic, k]
        shared = 0
        for i in range(state.width[cluster]):
            shared += state.direct[user, state.topics[cluster, i]]
        if shared > most or (shared == most and cluster < best):
            best, most = cluster, shared
    return best


@kernel
def most_filtered(state: Tamara, user: int) -> int:
    """The cluster of the user with most topics that it throws away."""
    best, most = NONE, -1
    for k in range(state.held[user]):
        cluster = state.mine[user, k]
        filtered = 0
        for i in range(state.width[cluster]):
            filtered += 1 - state.wants[user, state.topics[cluster, i]]
        if filtered > most:
            best, most = cluster, filtered
    return best


@kernel
def gain_interest(state: Tamara, user: int, topic: int) -> None:
    """SUBSCRIBE, as in the paper's section 4."""
    state.wants[user, topic] = 1
    if has(state, user, topic):
        return
    state.messages[LOOK] += 2  # the user asks the topic's channel for its clusters
    cluster = nearest_cluster(state, user, topic)
    if cluster != NONE and joining(state, user, cluster, topic) < 0:
        join(state, user, cluster)
        remember(state, GREW, cluster, NONE)
    else:
        subscribe(state, user, topic)
        remember(state, TOPIC_GREW, topic, topic)
    if state.mode == RECOVERING:
        cover_anew(state, user)
    if state.direct[user, topic]:
        cluster = most_filtered(state, user)
        if cluster != NONE:
            state.messages[NOTICE] += 1
            remember(state, WANTED, cluster, topic)


@kernel
def lose_interest(state: Tamara, user: int, topic: int) -> None:
    """UNSUBSCRIBE, as in the paper's section 4, with what the user would lack as the topics to be considered."""
    state.wants[user, topic] = 0
    if state.direct[user, topic]:
        unsubscribe(state, user, topic)
    else:
        mine = state.mine[user, : state.held[user]].copy()
        for k in range(len(mine)):
            if not state.inside[mine[k], topic]:
                continue
            if leaving(state, user, mine[k], 0.0) < 0:
                go(state, user, mine[k])
            else:
                state.messages[NOTICE] += 1
                remember(state, UNWANTED, mine[k], topic)


@kernel
def cover_anew(state: Tamara, user: int) -> None:
    """The user asks the channels of all its interests for their clusters, and covers itself anew."""
    for topic in range(len(state.rate)):
        state.messages[LOOK] += 2 * state.wants[user, topic]
    recover(state, user)


@kernel
def change_rate(state: Tamara, topic: int, rate: float) -> None:
    """A rate that falls may make it pay to put the topic into a cluster; one that rises, to take it out. The topic's
    channel finds out by counting, and tells its clusters."""
    rises = rate > state.rate[topic]
    if rate < state.rate[topic]:
        remember(state, CHEAPER, topic, topic)
    for cluster in range(len(state.size)):
        if state.width[cluster] and state.inside[cluster, topic]:
            state.messages[NOTICE] += 1
            state.load[cluster] += rate - state.rate[topic]
            if rises:
                remember(state, DEARER, cluster, topic)
    state.rate[topic] = rate


@kernel
def reconsider(state: Tamara, reason: int, channel: int, topic: int) -> None:
    """What a channel does for a reason that a request gave it. It tosses a coin first, except where a rate changed."""
    if reason == TOPIC_GREW or reason == CHEAPER:
        fans = state.fans[channel]
        if fans and (reason == CHEAPER or tossed(state, max(GROWTH * fans, 3.0))):
            consider_pairing(state, channel)
        return
    if state.width[channel] == 0:
        return  # it has ended meanwhile
    if reason == GREW:
        if tossed(state, max(GROWTH * state.size[channel], 3.0)):
            consider_merging(state, channel)
    elif reason == SHRANK:
        if tossed(state, max(GROWTH * state.size[channel], 3.0)):
            consider_shrinking(state, channel)
    elif reason == WANTED:
        if not state.inside[channel, topic] and tossed_for(state, channel, topic):
            consider_adding(state, channel, topic)
    elif state.inside[channel, topic] and (reason == DEARER or tossed_for(state, channel, topic)):
        consider_removing(state, channel, topic)


@kernel
def run(state: Tamara, kinds: Array, users: Array, topics: Array, rates: Array) -> None:
    """Carries out changes one after the other."""
    for i in range(len(kinds)):
        state.pending[0] = 0
        if kinds[i] == RATE:
            change_rate(state, topics[i], rates[i])
        elif kinds[i] == ADD:
            gain_interest(state, users[i], topics[i])
        else:
            lose_interest(state, users[i], topics[i])
        count = state.pending[0]
        for k in range(count):
            reconsider(state, state.reasons[k, 0], state.reasons[k, 1], state.reasons[k, 2])
