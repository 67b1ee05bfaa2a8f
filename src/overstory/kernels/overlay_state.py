"""Users at brokers, and what their traffic costs: the state that overlay planners search in, with exact differences.

1. The cost of a state is access plus core. Access is what each user's traffic costs at its broker. The core of a
   channel is the traffic that is published into it, on a minimum spanning tree of the brokers that want it (times
   ``steiner_ratio``, what Steiner points save on such trees), and from each publishing broker to the nearest of them.
2. ``differences`` tells what moving a user to each broker within its reach would change, and ``move`` does it. Both are
   exact: the plain twin adds everything up anew.
3. A move only touches channels that gain or lose a broker, and rates, which are linear.

A tree is kept in the order in which Prim's method found its nodes, so that a node's parent stands before it; adding a
node to it takes one pass from the leaves (Chin and Houck). Removing a leaf removes its link; else the tree is made
anew. Whatever is asked about one broker is worked out for all brokers at once: the innermost loops go along rows, and
compilers make vectors of them.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE as NOBODY

FEW_OF = 4  # times as many brokers as are within reach: then to go along all of them takes longer


class Given(NamedTuple):
    """What does not change: the instance."""

    far: Array  # by two brokers: what a byte costs from the one to the other
    near: Array  # the same both ways, for trees
    steiner_ratio: Array  # one number
    kind: Array  # by user
    want_offsets: Array  # by kind
    wants: Array  # channels, ascending
    send_offsets: Array  # by user
    sends: Array  # channels, ascending
    rates: Array  # bytes
    brokers: Array  # by user: those within reach, the cheapest first, then -1
    costs: Array  # of access there
    demand: Array  # by user
    capacity: Array  # by broker
    total: Array  # by channel: bytes that are published


class State(NamedTuple):
    given: Given
    at: Array  # by user: its broker
    paid: Array  # by user: its access
    load: Array  # by broker
    users: Array  # by broker: how many
    count: Array  # by channel and broker: users who want it
    rate: Array  # by channel and broker: bytes that are published
    size: Array  # by channel: brokers that want it
    node: Array  # by channel and place: those brokers, in the order of the tree
    parent: Array  # the place of the parent
    edge: Array  # the price of the link to it
    length: Array  # by channel: of its tree
    first: Array  # by channel and broker: the price of the way to the nearest broker that wants the channel
    second: Array  # to the second nearest
    nearest: Array  # which is the nearest
    is_known: Array  # by channel: whether the next one is of the brokers that want it now
    join: Array  # by channel and broker: by how much the core grows if the broker joins
    head: Array  # by broker: the first of its users
    after: Array  # by user: the next one at its broker
    before: Array
    desk: "Desk"


class Desk(NamedTuple):
    """Room to work in."""

    back: Array  # ``far`` the other way round: it does not change
    node: Array
    parent: Array
    edge: Array
    key: Array
    via: Array
    way: Array
    first: Array  # by broker
    replacing: Array  # by broker
    least: Array  # by place and broker
    ways: Array  # by broker


@kernel
def new_desk(far: Array) -> Desk:
    brokers = len(far)
    return Desk(
        far.T.copy(),
        np.empty(brokers, np.int64),
        np.empty(brokers, np.int64),
        np.empty(brokers),
        np.empty(brokers),
        np.empty(brokers, np.int64),
        np.empty(brokers),
        np.empty(brokers),
        np.empty(brokers),
        np.empty((brokers, brokers)),
        np.empty(brokers),
    )


@kernel
def new_state(given: Given, at: Array, paid: Array) -> State:
    """Everybody at the broker that ``at`` says, with the access that ``paid`` says."""
    users, brokers, channels = len(given.kind), len(given.far), len(given.total)
    state = State(
        given,
        at.astype(np.int64),
        paid.copy(),
        np.zeros(brokers),
        np.zeros(brokers, np.int64),
        np.zeros((channels, brokers), np.int32),
        np.zeros((channels, brokers)),
        np.zeros(channels, np.int64),
        np.zeros((channels, brokers), np.int32),
        np.zeros((channels, brokers), np.int32),
        np.zeros((channels, brokers)),
        np.zeros(channels),
        np.zeros((channels, brokers)),
        np.zeros((channels, brokers)),
        np.zeros((channels, brokers), np.int32),
        np.zeros(channels, np.bool_),
        np.zeros((channels, brokers)),
        np.full(brokers, NOBODY, np.int64),
        np.full(users, NOBODY, np.int64),
        np.full(users, NOBODY, np.int64),
        new_desk(given.far),
    )
    for user in range(users):
        broker = state.at[user]
        _seat(state, user, broker)
        for i in range(given.want_offsets[given.kind[user]], given.want_offsets[given.kind[user] + 1]):
            state.count[given.wants[i], broker] += 1
        for i in range(given.send_offsets[user], given.send_offsets[user + 1]):
            state.rate[given.sends[i], broker] += given.rates[i]
    for channel in range(channels):
        rebuild(state, channel)
    return state


@kernel
def _seat(state: State, user: int, broker: int) -> None:
    state.load[broker] += state.given.demand[user]
    state.users[broker] += 1
    following = state.head[broker]
    state.after[user], state.before[user], state.head[broker] = following, NOBODY, user
    if following != NOBODY:
        state.before[following] = user


@kernel
def _unseat(state: State, user: int) -> None:
    broker = state.at[user]
    state.load[broker] -= state.given.demand[user]
    state.users[broker] -= 1
    if state.before[user] == NOBODY:
        state.head[broker] = state.after[user]
    else:
        state.after[state.before[user]] = state.after[user]
    if state.after[user] != NOBODY:
        state.before[state.after[user]] = state.before[user]


@kernel
def rebuild(state: State, channel: int) -> None:
    """The tree of a channel and the ways to it, from who wants it."""
    found = 0
    for broker in range(len(state.given.far)):
        if state.count[channel, broker] > 0:
            state.desk.via[found] = broker
            found += 1
    state.size[channel] = found
    state.length[channel] = grow(
        state.given.near,
        state.desk.via,
        found,
        state.desk.key,
        state.node[channel],
        state.parent[channel],
        state.edge[channel],
        state.desk.way,
    )
    state.is_known[channel] = False
    _look_around(state, channel)


@kernel
def grow(
    near: Array, members: Array, size: int, key: Array, node: Array, parent: Array, edge: Array, from_: Array
) -> float:
    """Prim's method: a minimum spanning tree of the first ``size`` members, in the order in which it finds them."""
    length = 0.0
    for i in range(size):
        key[i], from_[i] = np.inf, 0.0
    if size:
        key[0] = 0.0
    for place in range(size):
        best = place
        least = np.inf
        # Members that are not in the tree stand behind ``place`` in ``members``
        for i in range(place, size):
            if key[i] < least:
                least, best = key[i], i
        chosen = members[best]
        node[place], edge[place], parent[place] = chosen, key[best], int(from_[best])
        if place == 0:
            edge[place], parent[place] = 0.0, -1
        length += edge[place]
        members[best], key[best], from_[best] = members[place], key[place], from_[place]
        row = near[chosen]
        for i in range(place + 1, size):
            if row[members[i]] < key[i]:
                key[i], from_[i] = row[members[i]], place
    return length


@kernel
def _look_around(state: State, channel: int) -> None:
    """The nearest and the second nearest broker that want a channel, seen from each broker."""
    first, second, nearest = state.first[channel], state.second[channel], state.nearest[channel]
    first[:], second[:], nearest[:] = np.inf, np.inf, -1
    for place in range(state.size[channel]):
        other = state.node[channel, place]
        row = state.desk.back[other]
        for broker in range(len(first)):
            way, before = row[broker], first[broker]
            second[broker] = min(second[broker], max(way, before))
            nearest[broker] = other if way < before else nearest[broker]
            first[broker] = min(way, before)


@kernel
def _insertions(near: Array, node: Array, parent: Array, edge: Array, size: int, least: Array, out: Array) -> None:
    """The length of a tree that one more broker joins, for each broker."""
    out[:] = 0.0
    for place in range(size):
        least[place] = near[node[place]]
    for place in range(size - 1, 0, -1):
        link, ways, above = edge[place], least[place], least[parent[place]]
        for broker in range(len(out)):
            way = ways[broker]
            out[broker] += min(link, way)
            above[broker] = min(above[broker], max(link, way))
    if size:
        out += least[0]


@kernel
def _closer(far: Array, rate: Array, first: Array, out: Array) -> None:
    """Adds what publishing brokers save, as a negative number, if a broker joins to which they have had ``first``."""
    for other in range(len(far)):
        if rate[other] > 0:
            row, so_far, bytes_ = far[other], first[other], rate[other]
            for broker in range(len(out)):
                out[broker] += bytes_ * min(row[broker] - so_far, 0.0)


@kernel
def core_of(state: State, channel: int) -> float:
    given = state.given
    if not state.size[channel]:
        return 0.0
    cost = given.total[channel] * given.steiner_ratio[0] * state.length[channel]
    for broker in range(len(given.far)):
        if state.rate[channel, broker] > 0:
            cost += state.rate[channel, broker] * state.first[channel, broker]
    return cost


@kernel
def access_and_core(state: State) -> tuple[float, float]:
    core = 0.0
    for channel in range(len(state.given.total)):
        core += core_of(state, channel)
    return state.paid.sum(), core


@kernel
def joining(state: State, channel: int) -> Array:
    """By broker that does not want a channel yet: by how much its core grows if the broker joins."""
    given, join = state.given, state.join[channel]
    if not state.is_known[channel]:
        state.is_known[channel] = True
        node, parent, edge = state.node[channel], state.parent[channel], state.edge[channel]
        _insertions(given.near, node, parent, edge, state.size[channel], state.desk.least, join)
        weight, length = given.total[channel] * given.steiner_ratio[0], state.length[channel]
        for broker in range(len(join)):
            join[broker] = weight * (join[broker] - length)
        _closer(given.far, state.rate[channel], state.first[channel], join)
    return join


@kernel
def without(state: State, channel: int, broker: int) -> float:
    """The tree of a channel if a broker leaves it, on the desk. Returns its length."""
    desk, size = state.desk, state.size[channel]
    place = 0
    while state.node[channel, place] != broker:
        place += 1
    is_leaf = True
    for other in range(place + 1, size):
        if state.parent[channel, other] == place:
            is_leaf = False
            break
    if not is_leaf:
        found = 0
        for other in range(size):
            if other != place:
                desk.via[found] = state.node[channel, other]
                found += 1
        return grow(state.given.near, desk.via, found, desk.key, desk.node, desk.parent, desk.edge, desk.way)
    for other in range(size - 1):
        there = other + (other >= place)
        above = state.parent[channel, there]
        desk.node[other], desk.edge[other] = state.node[channel, there], state.edge[channel, there]
        desk.parent[other] = above - (above > place)
    if place == 0 and size > 1:  # the root, which has no child: then it stands alone
        desk.parent[0], desk.edge[0] = -1, 0.0
    return state.length[channel] - state.edge[channel, place]


@kernel
def leaving(state: State, channel: int, broker: int) -> float:
    """By how much the core of a channel changes if a broker leaves it that wants it; ways on the desk."""
    given, desk = state.given, state.desk
    length = without(state, channel, broker)
    further = 0.0
    for other in range(len(given.far)):
        desk.first[other] = state.first[channel, other]
        if state.nearest[channel, other] == broker:
            desk.first[other] = state.second[channel, other]
            if state.rate[channel, other] > 0 and state.size[channel] > 1:
                further += state.rate[channel, other] * (state.second[channel, other] - state.first[channel, other])
    return given.total[channel] * given.steiner_ratio[0] * (length - state.length[channel]) + further


@kernel
def _replacing(state: State, channel: int, left: float) -> Array:
    """After ``leaving``, which gave ``left``: by broker the change if it joins in the place of the one that left."""
    given, desk, size = state.given, state.desk, state.size[channel] - 1
    found = desk.replacing
    if size == 0:
        found[:] = 0.0
        for other in range(len(found)):
            if state.rate[channel, other] > 0:
                row, before, bytes_ = given.far[other], state.first[channel, other], state.rate[channel, other]
                for broker in range(len(found)):
                    found[broker] += bytes_ * (row[broker] - before)
        return found
    length = 0.0
    for place in range(size):
        length += desk.edge[place]
    _insertions(given.near, desk.node, desk.parent, desk.edge, size, desk.least, found)
    weight = given.total[channel] * given.steiner_ratio[0]
    for broker in range(len(found)):
        found[broker] = left + weight * (found[broker] - length)
    _closer(given.far, state.rate[channel], desk.first, found)
    return found


@kernel
def own_rate(given: Given, user: int, channel: int) -> float:
    low, high = given.send_offsets[user], given.send_offsets[user + 1]
    while low < high:
        middle = (low + high) // 2
        if given.sends[middle] < channel:
            low = middle + 1
        else:
            high = middle
    if low < given.send_offsets[user + 1] and given.sends[low] == channel:
        return float(given.rates[low])
    return 0.0


@kernel
def is_wanted(given: Given, user: int, channel: int) -> bool:
    low, high = given.want_offsets[given.kind[user]], given.want_offsets[given.kind[user] + 1]
    last = high
    while low < high:
        middle = (low + high) // 2
        if given.wants[middle] < channel:
            low = middle + 1
        else:
            high = middle
    return bool(low < last and given.wants[low] == channel)


@kernel
def differences(state: State, user: int, found: Array) -> None:
    """By broker within a user's reach: what the cost changes if the user moves there. Infinite behind the last one."""
    given = state.given
    brokers, here = given.brokers[user], state.at[user]
    for k in range(len(brokers)):
        found[k] = given.costs[user, k] - state.paid[user] if brokers[k] >= 0 else np.inf
    for i in range(given.want_offsets[given.kind[user]], given.want_offsets[given.kind[user] + 1]):
        _add_wanted(state, user, given.wants[i], found)
    ways = _ways_of_sent(state, user)
    for k in range(len(brokers)):
        if brokers[k] >= 0:
            found[k] += ways[brokers[k]] - ways[here]
        if brokers[k] == here:
            found[k] = 0.0


@kernel
def _ways_of_sent(state: State, user: int) -> Array:
    """By broker: what it costs to carry from there to the nearest brokers what a user sends and does not want. If few
    brokers are within reach, only these and the user's own are told."""
    given, ways = state.given, state.desk.ways
    brokers, here = given.brokers[user], state.at[user]
    are_few = FEW_OF * len(brokers) < len(ways)
    ways[:] = 0.0
    wanted, end = given.want_offsets[given.kind[user]], given.want_offsets[given.kind[user] + 1]
    for i in range(given.send_offsets[user], given.send_offsets[user + 1]):
        channel, rate = given.sends[i], given.rates[i]
        while wanted < end and given.wants[wanted] < channel:
            wanted += 1
        if state.size[channel] == 0 or (wanted < end and given.wants[wanted] == channel):
            continue  # nobody wants it; or its own broker does, and this is told with what it wants
        first = state.first[channel]
        if are_few:
            ways[here] += rate * first[here]
            for broker in brokers:
                if broker >= 0 and broker != here:
                    ways[broker] += rate * first[broker]
        else:
            for broker in range(len(ways)):
                ways[broker] += rate * first[broker]
    return ways


@kernel
def _add_wanted(state: State, user: int, channel: int, found: Array) -> None:
    """What a channel that the user wants adds to the differences."""
    given = state.given
    brokers, here = given.brokers[user], state.at[user]
    alone = state.count[channel, here] == 1
    if given.total[channel] == 0:
        return
    if not alone and state.size[channel] == len(given.far):
        return
    if not alone:
        join = joining(state, channel)
        for k in range(len(brokers)):
            if brokers[k] >= 0 and state.count[channel, brokers[k]] == 0:
                found[k] += join[brokers[k]]
        return
    left, mine = leaving(state, channel, here), own_rate(given, user, channel)
    back = state.second[channel, here] if state.nearest[channel, here] == here else state.first[channel, here]
    replacing = _replacing(state, channel, left)
    for k in range(len(brokers)):
        there = brokers[k]
        if there < 0 or there == here:
            continue
        if state.count[channel, there] > 0:
            found[k] += left - mine * back
        else:
            found[k] += replacing[there] - mine * min(back, given.far[here, there])


@kernel
def move(state: State, user: int, broker: int, cost: float) -> None:
    """A user to a broker where its access costs so much."""
    given, here = state.given, state.at[user]
    if broker == here:
        return
    _unseat(state, user)
    state.at[user], state.paid[user] = broker, cost
    _seat(state, user, broker)
    for i in range(given.send_offsets[user], given.send_offsets[user + 1]):
        _carry(state, given.sends[i], here, broker, given.rates[i])
    for i in range(given.want_offsets[given.kind[user]], given.want_offsets[given.kind[user] + 1]):
        channel = given.wants[i]
        state.count[channel, here] -= 1
        state.count[channel, broker] += 1
        changed = state.count[channel, here] == 0 or state.count[channel, broker] == 1
        if changed and given.total[channel] > 0:
            rebuild(state, channel)


@kernel
def _carry(state: State, channel: int, here: int, there: int, rate: float) -> None:
    """A rate from one broker to another, and what is known of brokers that might join."""
    state.rate[channel, here] = max(state.rate[channel, here] - rate, 0.0)
    state.rate[channel, there] += rate
    if not state.is_known[channel]:
        return
    far, join = state.given.far, state.join[channel]
    now, then = state.first[channel, there], state.first[channel, here]
    for broker in range(len(far)):
        join[broker] += rate * (min(far[there, broker] - now, 0.0) - min(far[here, broker] - then, 0.0))
