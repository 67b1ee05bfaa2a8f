"""Tamara, replayed: changes of interests in, clusters of topics and who is subscribed to what out, in one pass.

The law of this file:

1. Every interest of every user is covered, after every change: by a direct subscription or by a cluster of the user.
2. A local update is made only if its survey says that the overall cost falls. Where surveys ask everyone, it does fall.
3. Decisions are those of the state machines in ``planners.topics.core``, draw by draw; a test compares the two.

Costs are tables: ``maintain[n]`` and ``deliver[n]`` of a channel with n subscribers, ``associate[k]`` of a cluster of k
topics, ``notify`` of telling a channel of one event. So linear costs and Scribe's measured curves run the same code.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE

ADD, DROP, RATE = 0, 1, 2  # changes: a user gains or loses an interest, a topic's rate becomes another
# What messages are counted as
SUBSCRIBE, UNSUBSCRIBE, LOOK, NOTICE, ASK, ANSWER, UPDATE, LOCK = range(8)
KINDS = ("subscribe", "unsubscribe", "look", "notice", "ask", "answer", "update", "lock")
# What local updates are counted as
PAIRED, ADDED, REMOVED, MERGED, DESTROYED = range(5)
UPDATES = ("paired", "added", "removed", "merged", "destroyed")
COCHRAN = 384.16  # answers that tell a share within 5 %, 19 times of 20, of any number of subscribers
GROWTH = 0.25  # the share of its subscribers that a channel lets change before it surveys them anew, about
LITERAL, RECOVERING = 0, 1


class Tamara(NamedTuple):
    """The state. Lists of subscribers are unordered: the last takes the place of one that leaves."""

    wants: Array  # by user and topic
    direct: Array  # by user and topic: whether the user is subscribed to the topic's own channel
    listed: Array  # by topic: its direct subscribers, the first ``fans`` of the row
    spot: Array  # by user and topic: where the user stands in that row
    fans: Array  # by topic: how many direct subscribers it has
    own: Array  # by user: the topics that it is directly subscribed to, the first ``owns`` of the row
    own_place: Array  # by user and topic: where the topic stands in that row
    owns: Array  # by user
    inside: Array  # by cluster and topic
    topics: Array  # by cluster: its topics, ascending, the first ``width`` of the row
    about: Array  # by topic: the clusters that hold it, the first ``abouts`` of the row
    abouts: Array  # by topic
    mine: Array  # by user: its clusters, ascending, the first ``held`` of the row
    held: Array  # by user
    member: Array  # by cluster and user
    rows: Array  # by cluster: its subscribers
    place: Array  # by cluster and user: where the user stands in that row
    size: Array  # by cluster: how many subscribers it has; none: the number is free
    width: Array  # by cluster: how many topics it has
    load: Array  # by cluster: the sum of its topics' rates
    rate: Array  # by topic: events in a maintenance interval
    maintain: Array
    deliver: Array
    associate: Array
    notify: float
    phi: float  # the probability that at least one coin wins before a threshold is reached
    sampled: float  # answers of a survey of very many; infinite: everyone is asked
    mode: int
    draws: Array  # how many numbers have been drawn, and the seed
    messages: Array  # by kind
    updates: Array  # by kind


@kernel
def uniform(draws: Array) -> float:
    """The next number between 0 and 1, by splitmix64 of the seed and of how many there were before."""
    draws[0] += np.uint64(1)
    value = draws[1] + draws[0] * np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((value ^ (value >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0


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


# Benefit estimates: what an update adds to the overall cost, from sizes alone


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
def at(table: Array, place: float) -> float:
    """The value of a table between two of its places, which an estimated number of subscribers may be."""
    if place <= 0:
        return table[0]
    low = int(place)
    if low >= len(table) - 1:
        return table[len(table) - 1]
    return table[low] + (place - low) * (table[low + 1] - table[low])


@kernel
def add_threshold(state: Tamara, cluster: int, topic: int) -> float:
    """The fewest common subscribers that make adding the topic to the cluster pay."""
    low, high = 0, state.fans[topic]
    if adding(state, state.size[cluster], state.width[cluster], state.rate[topic], high, float(high)) >= 0:
        rate = state.rate[topic]  # not even all of them: what it would take if more came
        step = state.associate[state.width[cluster] + 1] - state.associate[state.width[cluster]]
        needed = step + rate * (state.notify + state.deliver[state.size[cluster]])
        each = state.maintain[1] - state.maintain[0] + rate * (state.deliver[1] - state.deliver[0])
        return max(needed / max(each, 1e-12), 1.0)
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


# Subscriptions


@kernel
def _step(table: Array, size: int) -> float:
    """What one more subscriber of a channel adds."""
    return table[size + 1] - table[size]


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
    insert(state.topics[cluster], state.width[cluster], topic)
    state.width[cluster] += 1
    state.load[cluster] += state.rate[topic]
    state.about[topic, state.abouts[topic]] = cluster
    state.abouts[topic] += 1


@kernel
def take_topic(state: Tamara, cluster: int, topic: int) -> None:
    state.inside[cluster, topic] = 0
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


@kernel
def joining(state: Tamara, user: int, cluster: int, topic: int) -> float:
    """What it adds if the user joins the cluster instead of being subscribed directly to those of its topics that it
    is, and to ``topic``."""
    found = _step(state.maintain, state.size[cluster]) + state.load[cluster] * _step(state.deliver, state.size[cluster])
    for i in range(state.width[cluster]):
        each = state.topics[cluster, i]
        if state.direct[user, each] or each == topic:
            fans = state.fans[each] - (1 if state.direct[user, each] else 0)
            found -= _step(state.maintain, fans) + state.rate[each] * _step(state.deliver, fans)
    return found


@kernel
def leaving(state: Tamara, user: int, cluster: int) -> float:
    """What it adds if the user leaves the cluster, and subscribes directly to what it then lacks."""
    size = state.size[cluster] - 1
    found = -_step(state.maintain, size) - state.load[cluster] * _step(state.deliver, size)
    for i in range(state.width[cluster]):
        topic = state.topics[cluster, i]
        if state.wants[user, topic] and not brings(state, user, topic, cluster):
            found += _step(state.maintain, state.fans[topic])
            found += state.rate[topic] * _step(state.deliver, state.fans[topic])
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


# Re-covering: ours


@kernel
def worth_of(state: Tamara, user: int, topic: int) -> float:
    """What a direct subscription of the user to the topic costs."""
    fans = state.fans[topic] - (1 if state.direct[user, topic] else 0)
    return _step(state.maintain, fans) + state.rate[topic] * _step(state.deliver, fans)


@kernel
def price_of(state: Tamara, user: int, cluster: int) -> float:
    """What a subscription of the user to the cluster costs."""
    size = state.size[cluster] - (1 if state.member[cluster, user] else 0)
    return _step(state.maintain, size) + state.load[cluster] * _step(state.deliver, size)


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
    for i in range(len(before)):
        if not among(chosen, before[i]):
            leave(state, user, before[i])
            if state.size[before[i]] == 0:
                destroy(state, before[i])
    return True


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
    for i in range(len(interests)):
        worth[i] = worth_of(state, user, interests[i])
        for k in range(state.abouts[interests[i]]):
            cluster = state.about[interests[i], k]
            if saved[cluster] == 0.0:
                seen[near] = cluster
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


# Local updates


@kernel
def tell_topics(state: Tamara, cluster: int) -> None:
    """The channels of the cluster's topics hear of a change, and tell the other clusters that hold them."""
    state.messages[UPDATE] += state.width[cluster]


@kernel
def create(state: Tamara, topic: int, other: int) -> int:
    """A cluster of two topics, of those who are directly subscribed to both; NONE if there is no room for another."""
    cluster = NONE
    for each in range(len(state.size)):
        if state.width[each] == 0:
            cluster = each
            break
    if cluster == NONE:
        return NONE
    put_topic(state, cluster, topic)
    put_topic(state, cluster, other)
    tell_topics(state, cluster)
    for i in range(state.fans[topic] - 1, -1, -1):  # backwards: those who join leave the list
        user = state.listed[topic, i]
        if state.direct[user, other]:
            state.messages[UPDATE] += 1
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
    tell_topics(state, cluster)
    while state.size[cluster]:
        state.messages[UPDATE] += 1
        leave(state, state.rows[cluster, state.size[cluster] - 1], cluster)
    free(state, cluster)
    state.updates[DESTROYED] += 1


@kernel
def free(state: Tamara, cluster: int) -> None:
    while state.width[cluster]:
        take_topic(state, cluster, state.topics[cluster, state.width[cluster] - 1])
    state.load[cluster] = 0.0


@kernel
def merge(state: Tamara, cluster: int, other: int) -> None:
    """The members of the other move to the first, which takes over its topics."""
    tell_topics(state, other)
    for i in range(state.width[other]):
        if not state.inside[cluster, state.topics[other, i]]:
            put_topic(state, cluster, state.topics[other, i])
    for k in range(state.size[cluster]):
        user = state.rows[cluster, k]
        state.messages[UPDATE] += 1
        for i in range(state.width[other]):
            if state.direct[user, state.topics[other, i]]:
                unsubscribe(state, user, state.topics[other, i])
    while state.size[other]:
        user = state.rows[other, state.size[other] - 1]
        state.messages[UPDATE] += 1
        quit_cluster(state, user, other)
        if not state.member[cluster, user]:
            join(state, user, cluster)
    free(state, other)
    state.updates[MERGED] += 1


# Surveys and what they trigger


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
    common = found / max(len(asked), 1) * state.size[cluster]
    if common > state.fans[topic]:
        common = float(state.fans[topic])
    if adding(state, state.size[cluster], state.width[cluster], state.rate[topic], state.fans[topic], common) >= 0:
        return False
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
    fans = state.fans[topic]
    gain = state.associate[state.width[cluster]] - state.associate[state.width[cluster] - 1]
    gain += state.rate[topic] * (state.notify + state.deliver[state.size[cluster]])
    gain -= at(state.maintain, fans + wanted) - state.maintain[fans]
    gain -= state.rate[topic] * (at(state.deliver, fans + wanted) - state.deliver[fans])
    if gain <= 0:
        return False
    remove_topic(state, cluster, topic)
    return True


@kernel
def consider_pairing(state: Tamara, topic: int) -> bool:
    """The topic's channel surveys its direct subscribers for the cluster and for the topic that most of them have, and
    enters the one or pairs with the other if that pays."""
    asked = sample(state, state.listed[topic, : state.fans[topic]])
    topics, clusters = len(state.rate), len(state.size)
    shared, joint = np.zeros(topics, np.int64), np.zeros(clusters, np.int64)
    for i in range(len(asked)):
        for k in range(state.owns[asked[i]]):
            shared[state.own[asked[i], k]] += 1
        for k in range(state.held[asked[i]]):
            joint[state.mine[asked[i], k]] += 1
    shared[topic] = -1
    scale = state.fans[topic] / max(len(asked), 1)
    best = int(np.argmax(joint))
    if joint[best] and not state.inside[best, topic]:
        state.messages[LOCK] += 2
        common = min(joint[best] * scale, float(state.size[best]))
        size, width = state.size[best], state.width[best]
        if adding(state, size, width, state.rate[topic], state.fans[topic], common) < 0:
            add_topic(state, best, topic)
            return True
    other = int(np.argmax(shared))
    if shared[other] < 1:
        return False
    state.messages[LOCK] += 2
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
    state.messages[LOCK] += 2
    common = min(joint[other] * state.size[cluster] / max(len(asked), 1), float(state.size[other]))
    if merging_two(state, cluster, other, common) >= 0:
        return False
    merge(state, cluster, other)
    return True


@kernel
def merging_two(state: Tamara, cluster: int, other: int, common: float) -> float:
    width, load = state.width[cluster], state.load[cluster]
    for i in range(state.width[other]):
        if not state.inside[cluster, state.topics[other, i]]:
            width += 1
            load += state.rate[state.topics[other, i]]
    sizes = np.array([float(state.size[cluster]), float(state.size[other])])
    widths = np.array([float(state.width[cluster]), float(state.width[other]), float(width)])
    return merging(state, sizes, widths, np.array([state.load[cluster], state.load[other], load]), common)


@kernel
def tossed(state: Tamara, threshold: float) -> bool:
    return uniform(state.draws) < coin(state.phi, threshold)


@kernel
def after_joining(state: Tamara, cluster: int) -> None:
    """A cluster that grew may merge with another."""
    if tossed(state, max(GROWTH * state.size[cluster], 3.0)):
        consider_merging(state, cluster)


@kernel
def after_subscribing(state: Tamara, user: int, topic: int) -> None:
    """A direct subscription may make it pay to add the topic to a cluster of the user, or to pair it."""
    cluster = most_filtered(state, user)
    if cluster != NONE:
        state.messages[NOTICE] += 1
        if tossed(state, add_threshold(state, cluster, topic)) and consider_adding(state, cluster, topic):
            return
    if state.fans[topic] and tossed(state, max(GROWTH * state.fans[topic], 3.0)):
        consider_pairing(state, topic)


# Changes


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
        after_joining(state, cluster)
    else:
        subscribe(state, user, topic)
        after_subscribing(state, user, topic)


@kernel
def lose_interest(state: Tamara, user: int, topic: int) -> None:
    """UNSUBSCRIBE, as in the paper's section 4, with what the user would lack as the topics to be considered."""
    state.wants[user, topic] = 0
    if state.direct[user, topic]:
        unsubscribe(state, user, topic)
        return
    mine = state.mine[user, : state.held[user]].copy()
    for k in range(len(mine)):
        cluster = mine[k]
        if not state.inside[cluster, topic] or not state.member[cluster, user]:
            continue
        if leaving(state, user, cluster) < 0:
            leave(state, user, cluster)
            if state.size[cluster] == 0:
                destroy(state, cluster)
                continue
        state.messages[NOTICE] += 1
        if tossed(state, add_threshold(state, cluster, topic)):
            consider_removing(state, cluster, topic)


@kernel
def change_rate(state: Tamara, topic: int, rate: float) -> None:
    """A rate that falls may make it pay to put the topic into a cluster; one that rises, to take it out."""
    fell = rate < state.rate[topic]
    for cluster in range(len(state.size)):
        if state.width[cluster] and state.inside[cluster, topic]:
            state.load[cluster] += rate - state.rate[topic]
    state.rate[topic] = rate
    if fell:
        if state.fans[topic]:
            consider_pairing(state, topic)
        return
    for cluster in range(len(state.size)):
        if state.width[cluster] and state.inside[cluster, topic]:
            consider_removing(state, cluster, topic)


@kernel
def recover_and_follow(state: Tamara, user: int) -> None:
    """The user asks the channels of all its interests for their clusters, and covers itself anew."""
    for topic in range(len(state.rate)):
        state.messages[LOOK] += 2 * state.wants[user, topic]
    before = state.member[:, user].copy()
    if recover(state, user):
        for cluster in range(len(before)):
            if state.width[cluster] and state.member[cluster, user] and not before[cluster]:
                after_joining(state, cluster)


@kernel
def overall(state: Tamara) -> tuple[float, float]:
    """MC and DC, from scratch."""
    maintenance, dissemination = 0.0, 0.0
    for topic in range(len(state.rate)):
        maintenance += state.maintain[state.fans[topic]]
        dissemination += state.rate[topic] * (state.notify + state.deliver[state.fans[topic]])
    for cluster in range(len(state.size)):
        if state.width[cluster]:
            maintenance += state.maintain[state.size[cluster]] + state.associate[state.width[cluster]]
            for topic in range(len(state.rate)):
                if state.inside[cluster, topic]:
                    dissemination += state.rate[topic] * (state.notify + state.deliver[state.size[cluster]])
    return maintenance, dissemination


@kernel
def run(state: Tamara, kinds: Array, users: Array, topics: Array, rates: Array) -> None:
    """Carries out changes one after the other."""
    for i in range(len(kinds)):
        if kinds[i] == RATE:
            change_rate(state, topics[i], rates[i])
            continue
        served = kinds[i] == ADD and has(state, users[i], topics[i])
        if kinds[i] == ADD:
            gain_interest(state, users[i], topics[i])
        else:
            lose_interest(state, users[i], topics[i])
        if state.mode == RECOVERING and not served:
            recover_and_follow(state, users[i])
