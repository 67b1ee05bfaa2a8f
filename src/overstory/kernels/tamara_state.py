"""Tamara's state as arrays: who wants what, who is subscribed to what, and what each channel costs.

Costs are tables: ``maintain[n]`` and ``deliver[n]`` of a channel with n subscribers, ``associate[k]`` of a cluster of k
topics, ``notify`` of telling a channel of one event. So linear costs and Scribe's measured curves run the same code.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel

ADD, DROP, RATE = 0, 1, 2  # changes: a user gains or loses an interest, a topic's rate becomes another
# What messages are counted as
SUBSCRIBE, UNSUBSCRIBE, LOOK, NOTICE, ASK, ANSWER, UPDATE, LOCK = range(8)
KINDS = ("subscribe", "unsubscribe", "look", "notice", "ask", "answer", "update", "lock")
# What local updates are counted as
PAIRED, ADDED, REMOVED, MERGED, DESTROYED = range(5)
UPDATES = ("paired", "added", "removed", "merged", "destroyed")
# Why a channel may reconsider, once the request that is the reason has been served
TOPIC_GREW, GREW, SHRANK, WANTED, UNWANTED, CHEAPER, DEARER = range(7)
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
    patience: Array  # by cluster and topic: how many more (un)subscriptions the last survey said it would take; 0: none
    reasons: Array  # to reconsider, in order: which, the channel, and the topic in question
    pending: Array  # how many of these wait


@kernel
def uniform(draws: Array) -> float:
    """The next number between 0 and 1, by splitmix64 of the seed and of how many there were before."""
    draws[0] += np.uint64(1)
    value = draws[1] + draws[0] * np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.float64((value ^ (value >> np.uint64(31))) >> np.uint64(11)) / 9007199254740992.0


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
def step(table: Array, size: int) -> float:
    """What one more subscriber of a channel adds."""
    return table[size + 1] - table[size]


@kernel
def remember(state: Tamara, reason: int, channel: int, topic: int) -> None:
    """The channel may reconsider once the request has been served. What there is no room for is forgotten."""
    if state.pending[0] < len(state.reasons):
        row = state.reasons[state.pending[0]]
        row[0], row[1], row[2] = reason, channel, topic
        state.pending[0] += 1


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
