"""The kernels of Zhao and Wu's planners: greedy packing (Algorithm 1), clustering (Algorithm 2), Steiner-tree mixing.

Prices are by user and broker. ``wants`` and ``sends`` are compressed rows by user: channels, ascending.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.overlay_state import grow

JOINED = -1.0  # instead of the price of a way, of users that have joined a tree
SMALL = 1e-12  # instead of a price of 0, where something is divided by it


@kernel
def pack(order: Array, brokers: Array, demand: Array, capacity: Array, load: Array) -> Array:
    """Algorithm 1: one user after the other takes the cheapest broker that has room, of those within its reach. NONE
    where none of them has."""
    found = np.full(len(brokers), NONE, np.int64)
    for user in order:
        for broker in brokers[user]:
            if broker >= 0 and load[broker] + demand[user] <= capacity[broker]:
                found[user] = broker
                load[broker] += demand[user]
                break
    return found


@kernel
def seed_clusters(
    prices: Array, sent: Array, wants: Array, rates: Array, demand: Array, capacity: Array, load: Array, at: Array
) -> None:
    """The first stage of Algorithm 2: each broker takes the two users with the most traffic between them for the price
    of their links. No two users have more of it than the better one sends for the price of its link: so users go in
    this order, and the search ends when the best pair that was found is better than what the next one can have."""
    users, brokers = prices.shape
    for broker in range(brokers):
        score = np.where(at == NONE, sent / (prices[:, broker] + SMALL), -1.0)
        order = np.argsort(-score)
        best, one, other = 0.0, NONE, NONE
        for place in range(users):
            first = order[place]
            if score[first] <= best or score[first] <= 0:
                break
            for behind in range(place + 1, users):
                second = order[behind]
                if score[second] < 0:
                    break
                price = prices[first, broker] + prices[second, broker] + SMALL
                if (sent[first] + sent[second]) / price <= best:
                    continue
                if load[broker] + demand[first] + demand[second] > capacity[broker]:
                    continue
                ratio = _between(wants, rates, first, second) / price
                if ratio > best:
                    best, one, other = ratio, first, second
        if one != NONE:
            at[one] = at[other] = broker
            load[broker] += demand[one] + demand[other]


@kernel
def _between(wants: Array, rates: Array, one: int, other: int) -> float:
    traffic = 0.0
    for channel in range(wants.shape[1]):
        traffic += rates[one, channel] * wants[other, channel] + rates[other, channel] * wants[one, channel]
    return traffic


@kernel
def join_clusters(
    prices: Array, wants: Array, rates: Array, demand: Array, capacity: Array, load: Array, at: Array, smallest: bool
) -> int:
    """The second stage of Algorithm 2: each user joins the broker with which it has the largest ratio of traffic to
    price, as the text says, or the smallest, as the pseudocode is printed. Returns how many found no room."""
    users, brokers = prices.shape
    channels = wants.shape[1]
    wanting, sending = np.zeros((brokers, channels)), np.zeros((brokers, channels))
    for user in range(users):
        if at[user] != NONE:
            wanting[at[user]] += wants[user]
            sending[at[user]] += rates[user]
    lost = 0
    for user in range(users):
        if at[user] != NONE:
            continue
        chosen, least_price, best = NONE, np.inf, 0.0
        for broker in range(brokers):
            if load[broker] + demand[user] > capacity[broker] or not np.isfinite(prices[user, broker]):
                continue
            traffic = 0.0
            for channel in range(channels):
                traffic += (
                    rates[user, channel] * wanting[broker, channel] + wants[user, channel] * sending[broker, channel]
                )
            ratio = traffic / (prices[user, broker] + SMALL)
            better = ratio < best if smallest else ratio > best
            if chosen == NONE or better or (ratio == best and prices[user, broker] < least_price):
                chosen, best, least_price = broker, ratio, prices[user, broker]
        if chosen == NONE:
            lost += 1
            continue
        at[user] = chosen
        load[chosen] += demand[user]
        wanting[chosen] += wants[user]
        sending[chosen] += rates[user]
    return lost


@kernel
def entries_of_publishers(prices: Array, far: Array, users: Array, publishers: Array) -> Array:
    """By publisher: the broker where its cheapest way to another user of a channel begins. The way leads over that
    broker, perhaps over links between brokers, and down to the user."""
    brokers = len(far)
    least, second = np.full(brokers, np.inf), np.full(brokers, np.inf)
    who = np.full(brokers, NONE, np.int64)
    for user in users:
        for broker in range(brokers):
            price = prices[user, broker]
            if price < least[broker]:
                second[broker] = least[broker]
                least[broker], who[broker] = price, user
            elif price < second[broker]:
                second[broker] = price
    down, down_who, other = _cheapest_ends(far, least, who, second)
    found = np.full(len(publishers), NONE, np.int64)
    for i in range(len(publishers)):
        best = np.inf
        for broker in range(brokers):
            rest = other[broker] if down_who[broker] == publishers[i] else down[broker]
            way = prices[publishers[i], broker] + rest
            if way < best:
                best, found[i] = way, broker
    return found


@kernel
def _cheapest_ends(far: Array, least: Array, who: Array, second: Array) -> tuple[Array, Array, Array]:
    """From each broker the cheapest way to a user and who that is, and the cheapest way to another user."""
    brokers = len(far)
    down, down_who, other = np.full(brokers, np.inf), np.full(brokers, NONE, np.int64), np.full(brokers, np.inf)
    for broker in range(brokers):
        for end in range(brokers):
            way = far[broker, end] + least[end]
            if way < down[broker]:
                if who[end] != down_who[broker]:
                    other[broker] = down[broker]
                down[broker], down_who[broker] = way, who[end]
            elif way < other[broker] and who[end] != down_who[broker]:
                other[broker] = way
        for end in range(brokers):
            way = far[broker, end] + (second[end] if who[end] == down_who[broker] else least[end])
            other[broker] = min(other[broker], way)
    return down, down_who, other


@kernel
def grow_to_users(prices: Array, far: Array, root: int, found: Array, room: Array) -> int:
    """Algorithm 3, from a publisher's broker: the nearest user joins, over the broker that makes its way cheapest, and
    that broker is then part of the tree. Writes each user's broker, and returns how many brokers the tree has.
    ``prices`` are by broker and user.

    Users whose broker is in the tree already change nothing for the others, so only the next user with another broker
    is looked for; whoever is nearer than that one has joined before."""
    value, way = room, far[root].copy()
    value[:] = np.inf
    for broker in range(len(far)):
        _come_closer(prices[broker], way[broker], broker, value, found)
    size = 1
    while True:
        following, least = NONE, np.inf
        for i in range(len(value)):
            if value[i] < least and value[i] != JOINED and way[found[i]] > 0:
                following, least = i, value[i]
        if following == NONE:
            return size
        for i in range(len(value)):
            if value[i] <= least and way[found[i]] == 0:
                value[i] = JOINED
        joined = found[following]
        value[following] = JOINED
        size += 1
        for broker in range(len(far)):
            if far[joined, broker] < way[broker]:
                way[broker] = far[joined, broker]
                _come_closer(prices[broker], way[broker], broker, value, found)


@kernel
def _come_closer(prices: Array, way: float, broker: int, value: Array, found: Array) -> None:
    """A way of this length leads to a broker: users to whom it is cheaper from there change to it."""
    for i in range(len(value)):
        total = prices[i] + way
        nearer = total < value[i]
        value[i] = total if nearer else value[i]
        found[i] = broker if nearer else found[i]


@kernel
def vote(
    prices: Array,
    far: Array,
    users: Array,
    publishers: Array,
    rates: Array,
    votes: Array,
) -> None:
    """Phase 1 of mixing, for one channel: trees of all its publishers, and on each link between a user and a broker the
    traffic that crosses it. Publishers that enter at the same broker have the same tree from there on."""
    entered = entries_of_publishers(prices, far, users, publishers)
    weight = np.zeros(len(far))
    for i in range(len(publishers)):
        if entered[i] != NONE:
            votes[publishers[i], entered[i]] += rates[i]
            weight[entered[i]] += rates[i]
    theirs = np.empty((len(far), len(users)))
    for i in range(len(users)):
        for broker in range(len(far)):
            theirs[broker, i] = prices[users[i], broker]
    found, room = np.empty(len(users), np.int64), np.empty(len(users))
    for root in range(len(far)):
        if weight[root] > 0:
            grow_to_users(theirs, far, root, found, room)
            for i in range(len(users)):
                votes[users[i], found[i]] += weight[root]


@kernel
def draw_brokers(votes: Array, draws: Array) -> Array:
    """Phase 2: a broker for each user, with the probability that its votes have; NONE where there are none."""
    found = np.full(len(votes), NONE, np.int64)
    for user in range(len(votes)):
        total = votes[user].sum()
        if total <= 0:
            continue
        left = draws[user] * total
        for broker in range(votes.shape[1]):
            if votes[user, broker] > 0:
                found[user] = broker
                left -= votes[user, broker]
                if left < 0:
                    break
    return found


@kernel
def span_participants(
    near: Array, before: Array, roots: Array, channel: Array, members: Array, offsets: Array, links: Array
) -> Array:
    """For each root and channel a minimum spanning tree of the channel's brokers and the root, its links laid along
    cheapest paths. ``links`` has room for the ends of all links; returns where those of each tree begin."""
    size = len(near)
    found = np.zeros(len(roots) + 1, np.int64)
    key, from_ = np.empty(size), np.empty(size)
    parent, node, edge, inside = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size), np.empty(size)
    some = np.empty(size, np.int64)
    at = 0
    for i in range(len(roots)):
        count = 1
        some[0] = roots[i]
        for j in range(offsets[channel[i]], offsets[channel[i] + 1]):
            if members[j] != roots[i]:
                some[count] = members[j]
                count += 1
        inside[:] = 0.0
        inside[roots[i]] = 1.0
        grow(near, some, count, key, node, parent, edge, from_)
        for place in range(1, count):
            # The way is known backwards, from the new broker towards the one that is in the tree
            source, here = node[parent[place]], node[place]
            while inside[here] == 0.0:
                inside[here] = 1.0
                back = before[source, here]
                links[at, 0], links[at, 1] = back, here
                at += 1
                here = back
        found[i + 1] = at
    return found
