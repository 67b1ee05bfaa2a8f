"""A greedy cover by stars: a broker and some users, again and again the star with the least price for each user.

A broker pays for each channel that its users want once; users pay their access. Of a broker, users are looked at by
their access, the cheapest first, so that one pass finds its best star (Jain, Mahdian and Saberi).
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE


class Choice(NamedTuple):
    """Users and brokers; of kind k the channels between offsets k and k + 1."""

    kind: Array  # by user
    want_offsets: Array
    wants: Array
    opening: Array  # by channel and broker: what it costs to bring the channel there
    demand: Array  # by user
    capacity: Array  # by broker


class Lists(NamedTuple):
    """By broker the users that have it within reach, the cheapest first, and their access."""

    offsets: Array
    order: Array
    price: Array


class Taken(NamedTuple):
    """What is decided so far."""

    at: Array  # by user
    has: Array  # by channel and broker
    load: Array  # by broker
    new: Array  # by channel: the broker that is looked at, if the channel would be new there


@kernel
def cover_by_stars(brokers: Array, costs: Array, choice: Choice, load: Array) -> Array:
    """By user its broker; NONE where none within reach has room."""
    size = choice.opening.shape[1]
    taken = Taken(
        np.full(len(brokers), NONE, np.int64),
        np.zeros(choice.opening.shape, np.bool_),
        load,
        np.full(choice.opening.shape[0], NONE, np.int64),
    )
    lists = _by_broker(brokers, costs, size)
    while True:
        best, least, length = NONE, np.inf, 0
        for broker in range(size):
            ratio, so_far = _best_star(broker, choice, lists, taken)
            if ratio < least:
                best, least, length = broker, ratio, so_far
        if best == NONE:
            return taken.at
        _take(best, length, choice, lists, taken)


@kernel
def _by_broker(brokers: Array, costs: Array, size: int) -> Lists:
    offsets = np.zeros(size + 1, np.int64)
    for user in range(len(brokers)):
        for broker in brokers[user]:
            if broker >= 0:
                offsets[broker + 1] += 1
    for broker in range(size):
        offsets[broker + 1] += offsets[broker]
    order, price, place = np.empty(offsets[size], np.int64), np.empty(offsets[size]), offsets[:-1].copy()
    for user in range(len(brokers)):
        for k in range(brokers.shape[1]):
            broker = brokers[user, k]
            if broker >= 0:
                order[place[broker]], price[place[broker]] = user, costs[user, k]
                place[broker] += 1
    for broker in range(size):
        first, last = offsets[broker], offsets[broker + 1]
        sorted_ = np.argsort(price[first:last])
        order[first:last] = order[first:last][sorted_]
        price[first:last] = price[first:last][sorted_]
    return Lists(offsets, order, price)


@kernel
def _best_star(broker: int, choice: Choice, lists: Lists, taken: Taken) -> tuple[float, int]:
    """The least price for each user of a broker's stars, and how far down its list that star goes."""
    cost, count, room = 0.0, 0, choice.capacity[broker] - taken.load[broker]
    best, length = np.inf, 0
    for i in range(lists.offsets[broker], lists.offsets[broker + 1]):
        user = lists.order[i]
        if taken.at[user] != NONE or choice.demand[user] > room:
            continue
        room -= choice.demand[user]
        cost += lists.price[i]
        count += 1
        kind = choice.kind[user]
        for j in range(choice.want_offsets[kind], choice.want_offsets[kind + 1]):
            channel = choice.wants[j]
            if not taken.has[channel, broker] and taken.new[channel] != broker:
                taken.new[channel] = broker
                cost += choice.opening[channel, broker]
        if cost / count < best:
            best, length = cost / count, i + 1 - lists.offsets[broker]
    taken.new[:] = NONE
    return best, length


@kernel
def _take(broker: int, length: int, choice: Choice, lists: Lists, taken: Taken) -> None:
    for i in range(lists.offsets[broker], lists.offsets[broker] + length):
        user = lists.order[i]
        if taken.at[user] == NONE and taken.load[broker] + choice.demand[user] <= choice.capacity[broker]:
            taken.at[user] = broker
            taken.load[broker] += choice.demand[user]
            kind = choice.kind[user]
            for j in range(choice.want_offsets[kind], choice.want_offsets[kind + 1]):
                taken.has[choice.wants[j], broker] = True
