"""Local search among the states of ``overlay_state``: relocations, swaps, and compound moves of many users at once.

1. No step raises the cost: what a compound move did is undone unless all of it together saves something.
2. Capacities hold after each step if they held before.

Single relocations cannot empty a broker: as long as one user who wants a channel stays, the channel's tree still comes.
So brokers are closed (all their users go elsewhere), closed for one channel, and opened (users who are nearer to them
come), and what follows from that is searched before it is judged.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE as NOBODY
from overstory.kernels.overlay_state import State, differences, is_wanted, leaving, move

LEAST = 1e-9  # of the cost: what a step must save
SEVERAL = 4.0  # times what a channel saves, for all channels that its users want
COMING = 64  # users that come when a broker is opened, at most
LOOKED_AT = 64  # users of a full broker with whom a user may change places


class Journal(NamedTuple):
    """The moves of a step that may have to be undone."""

    user: Array
    broker: Array  # where it was
    paid: Array
    used: Array  # one number: how many there are


@kernel
def new_journal(room: int) -> Journal:
    return Journal(np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room), np.zeros(1, np.int64))


@kernel
def _noted(state: State, journal: Journal, user: int, place: int) -> bool:
    """Moves a user to one of the brokers within its reach, and notes where it was. False if the journal is full."""
    at = journal.used[0]
    if at >= len(journal.user):
        return False
    journal.user[at], journal.broker[at], journal.paid[at] = user, state.at[user], state.paid[user]
    journal.used[0] = at + 1
    move(state, user, state.given.brokers[user, place], state.given.costs[user, place])
    return True


@kernel
def _undo(state: State, journal: Journal) -> None:
    for at in range(journal.used[0] - 1, -1, -1):
        move(state, journal.user[at], journal.broker[at], journal.paid[at])
    journal.used[0] = 0


@kernel
def has_room(state: State, user: int, broker: int) -> bool:
    return bool(state.load[broker] + state.given.demand[user] <= state.given.capacity[broker])


@kernel
def best_place(state: State, user: int, found: Array, shut: int) -> int:
    """Of the brokers within reach that have room, other than the user's own and the one that is ``shut``, the place of
    the best; -1 if there is none. ``found`` gets all differences."""
    differences(state, user, found)
    brokers, best = state.given.brokers[user], -1
    for place in range(len(brokers)):
        broker = brokers[place]
        if broker < 0 or broker == state.at[user] or broker == shut or not has_room(state, user, broker):
            continue
        if best < 0 or found[place] < found[best]:
            best = place
    return best


@kernel
def relocate(state: State, order: Array, least: float) -> tuple[float, int]:
    """Each user in turn to its best broker, if that saves more than ``least``. Returns what was saved, and moves."""
    found = np.empty(state.given.brokers.shape[1])
    saved, moves = 0.0, 0
    for user in order:
        place = best_place(state, user, found, NOBODY)
        if place >= 0 and found[place] < -least:
            saved -= found[place]
            moves += 1
            move(state, user, state.given.brokers[user, place], state.given.costs[user, place])
    return saved, moves


@kernel
def swap(state: State, order: Array, least: float, journal: Journal) -> tuple[float, int]:
    """Users whose best broker is full change places with one of its users."""
    given = state.given
    found = np.empty(given.brokers.shape[1])
    saved, moves = 0.0, 0
    for user in order:
        differences(state, user, found)
        best, here = -1, state.at[user]
        for place in range(len(found)):
            full = given.brokers[user, place] >= 0 and not has_room(state, user, given.brokers[user, place])
            if full and given.brokers[user, place] != here and (best < 0 or found[place] < found[best]):
                best = place
        if best < 0 or found[best] >= -least:
            continue
        gain = _exchange(state, user, best, found[best], least, journal)
        if gain > 0:
            saved += gain
            moves += 2
    return saved, moves


@kernel
def _exchange(state: State, user: int, place: int, first: float, least: float, journal: Journal) -> float:
    """A user to a full broker, where it changes the cost by ``first``, and one of those there to wherever it is
    cheapest. Returns what both save, or 0."""
    given = state.given
    there, found = given.brokers[user, place], np.empty(given.brokers.shape[1])
    other, seen = state.head[there], 0
    while other != NOBODY and seen < LOOKED_AT:
        seen += 1
        if state.load[there] - given.demand[other] + given.demand[user] <= given.capacity[there]:
            journal.used[0] = 0
            _noted(state, journal, user, place)
            back = best_place(state, other, found, NOBODY)
            if back >= 0 and first + found[back] < -least:
                gain = first + found[back]
                _noted(state, journal, other, back)
                return -gain
            _undo(state, journal)
        other = state.after[other]
    return 0.0


@kernel
def _loss(state: State, broker: int, channel: int) -> float:
    """What access costs more, at least, if all users of a broker, or all who want a channel, go elsewhere."""
    given, loss = state.given, 0.0
    user = state.head[broker]
    while user != NOBODY:
        if channel < 0 or is_wanted(given, user, channel):
            place = 0
            if given.brokers[user, 0] == broker:
                place = 1
            if place >= given.brokers.shape[1] or given.brokers[user, place] < 0:
                return np.inf
            loss += given.costs[user, place] - state.paid[user]
        user = state.after[user]
    return loss


@kernel
def _worth(state: State, broker: int) -> float:
    """What all trees together would save, at most, without a broker."""
    saved = 0.0
    for channel in range(len(state.given.total)):
        if state.count[channel, broker] > 0 and state.size[channel] > 1 and state.given.total[channel] > 0:
            saved -= min(leaving(state, channel, broker), 0.0)
    return saved


@kernel
def close(state: State, broker: int, channel: int, least: float, journal: Journal, found: Array) -> float:
    """All users of a broker, or all who want a channel, elsewhere. Returns what that saves, or 0 if it is undone."""
    journal.used[0] = 0
    change = 0.0
    user = state.head[broker]
    while user != NOBODY:
        following = state.after[user]
        if channel < 0 or is_wanted(state.given, user, channel):
            place = best_place(state, user, found, broker)
            if place < 0 or not _noted(state, journal, user, place):
                change = np.inf
                break
            change += found[place]
        user = following
    if change < -least:
        return -change
    _undo(state, journal)
    return 0.0


@kernel
def open_broker(state: State, broker: int, least: float, journal: Journal, found: Array, users: Array) -> float:
    """Users who are nearer to a broker than to their own come; then each of them may go where it is best. ``users`` may
    come, those who save most first. Returns what that saves, or 0 if it is undone."""
    given = state.given
    journal.used[0] = 0
    change = 0.0
    for user in users:
        place = 0
        while given.brokers[user, place] != broker:
            place += 1
        if state.at[user] == broker or given.costs[user, place] >= state.paid[user]:
            continue
        if not has_room(state, user, broker):
            continue
        differences(state, user, found)
        cost = found[place]
        if not _noted(state, journal, user, place):
            break
        change += cost
    for i in range(journal.used[0]):
        user = journal.user[i]
        place = best_place(state, user, found, NOBODY)
        if place >= 0 and found[place] < -least:
            cost = found[place]
            if not _noted(state, journal, user, place):
                break
            change += cost
    if change < -least:
        return -change
    _undo(state, journal)
    return 0.0


@kernel
def close_all(state: State, order: Array, most: int, least: float, journal: Journal) -> tuple[float, int]:
    """Tries to close each broker that has users, and no more than ``most``."""
    found = np.empty(state.given.brokers.shape[1])
    saved, moves = 0.0, 0
    for broker in order:
        if 0 < state.users[broker] <= most and _worth(state, broker) > _loss(state, broker, -1):
            gain = close(state, broker, -1, least, journal, found)
            if gain > 0:
                saved += gain
                moves += journal.used[0]
    return saved, moves


@kernel
def close_for_channels(state: State, order: Array, most: int, least: float, journal: Journal) -> tuple[float, int]:
    """Tries to take brokers out of the trees of channels that at most so many of their users want. ``order`` has
    channels and brokers, as one number each."""
    found = np.empty(state.given.brokers.shape[1])
    size = len(state.given.far)
    saved, moves = 0.0, 0
    for key in order:
        channel, broker = key // size, key % size
        count = state.count[channel, broker]
        if not 1 < count <= most or state.size[channel] < 2 or state.given.total[channel] == 0:
            continue
        # Other channels of these users may leave with them: they are given as much again
        if -SEVERAL * leaving(state, channel, broker) <= max(_loss(state, broker, channel), least):
            continue
        gain = close(state, broker, channel, least, journal, found)
        if gain > 0:
            saved += gain
            moves += journal.used[0]
    return saved, moves


@kernel
def who_may_come(brokers: Array, size: int, offsets: Array) -> Array:
    """By broker the users that have it within reach: between offsets i and i + 1 those of broker i."""
    offsets[:] = 0
    for user in range(len(brokers)):
        for broker in brokers[user]:
            if broker >= 0:
                offsets[broker + 1] += 1
    for broker in range(size):
        offsets[broker + 1] += offsets[broker]
    found, place = np.empty(offsets[size], np.int64), offsets[:-1].copy()
    for user in range(len(brokers)):
        for broker in brokers[user]:
            if broker >= 0:
                found[place[broker]] = user
                place[broker] += 1
    return found


@kernel
def open_all(
    state: State, order: Array, offsets: Array, users: Array, least: float, journal: Journal
) -> tuple[float, int]:
    """Tries to open each broker further: by what users would save on access, those who save most first."""
    given = state.given
    found = np.empty(given.brokers.shape[1])
    saved, moves = 0.0, 0
    for broker in order:
        missing = False
        for channel in range(len(given.total)):
            missing = missing or (given.total[channel] > 0 and state.count[channel, broker] == 0)
        if not missing:
            continue  # whoever would save by coming has come
        mine = users[offsets[broker] : offsets[broker + 1]]
        gains, count = np.zeros(len(mine)), 0
        some = np.empty(len(mine), np.int64)
        for user in mine:
            place = 0
            while given.brokers[user, place] != broker:
                place += 1
            if state.at[user] != broker and given.costs[user, place] < state.paid[user]:
                gains[count], some[count] = given.costs[user, place] - state.paid[user], user
                count += 1
        if not count:
            continue
        chosen = some[:count][np.argsort(gains[:count])][:COMING]
        gain = open_broker(state, broker, least, journal, found, chosen)
        if gain > 0:
            saved += gain
            moves += journal.used[0]
    return saved, moves
