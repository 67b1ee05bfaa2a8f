"""Distributed migration in the simulator: brokers that move users, while users join, leave and change.

Time goes by turns; in each turn brokers act in random order, each on what it knows. An *epoch* is some changes of users
and the turns that follow them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.overlay_state import Given, State, access_and_core, move, new_state
from overstory.routing.knowledge import Seen
from overstory.routing.migration import CONNECT, Message, Migration, migrate_once

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Turn:
    """What one turn did."""

    moves: int
    declined: int
    messages: int
    cost: float


def new_brokers(count: int, hysteresis: float) -> list[Migration]:
    return [Migration(broker, hysteresis) for broker in range(count)]


def turn(
    state: State, brokers: list[Migration], knows: NDArray[np.bool_], declining: float, draw: np.random.Generator
) -> Turn:
    """Every broker once, in random order; a user declines with this probability."""
    given = state.given

    def connect(message: Message) -> None:
        place = int(np.flatnonzero(given.brokers[message.user] == message.foreign)[0])
        move(state, message.user, message.foreign, float(given.costs[message.user, place]))

    order = [brokers[at] for at in draw.permutation(len(brokers)).tolist()]
    sent = migrate_once(order, Seen(state, knows), lambda _: bool(draw.random() >= declining), connect)
    moves = sum(message.verb == CONNECT for message in sent)
    declined = sum(message.verb == "decline" for message in sent)
    return Turn(moves, declined, len(sent), float(sum(access_and_core(state))))


def until_quiet(
    state: State, brokers: list[Migration], draw: np.random.Generator, most: int = 1000, declining: float = 0.0
) -> list[Turn]:
    """Turns until no broker has moved anybody for as long as its patience; at most so many."""
    knows = np.ones(state.given.brokers.shape, bool)
    turns: list[Turn] = []
    quiet = 0
    while len(turns) < most and quiet <= max(broker.patience for broker in brokers):
        turns.append(turn(state, brokers, knows, declining, draw))
        quiet = 0 if turns[-1].moves else quiet + 1
    return turns


def churned(given: Given, is_away: NDArray[np.bool_], share: float, draw: np.random.Generator) -> Given:
    """Some users change: a third come or go (``is_away`` is changed), a third publish at other rates, a third take the
    subscriptions of somebody else. Away users send and want nothing, and cost nothing."""
    users = len(given.kind)
    changing = draw.permutation(users)[: max(int(share * users), 3)]
    away, rates, kinds = np.array_split(changing, 3)
    is_away[away] = ~is_away[away]
    factor = np.ones(users)
    factor[rates] = draw.uniform(0.25, 4.0, len(rates))
    kind = given.kind.copy()
    kind[kinds] = given.kind[draw.integers(users, size=len(kinds))]
    sender = np.repeat(np.arange(users), np.diff(given.send_offsets))
    sent = given.rates * factor[sender]
    total = np.bincount(given.sends, np.where(is_away[sender], 0.0, sent), len(given.total))
    return given._replace(kind=kind, rates=sent, total=total)


def present(given: Given, is_away: NDArray[np.bool_], prices: Floats) -> Given:
    """The instance of those who are there: access costs their traffic times ``prices``, by user and place."""
    users, kinds = len(given.kind), len(given.want_offsets) - 1
    sender = np.repeat(np.arange(users), np.diff(given.send_offsets))
    rates = np.where(is_away[sender], 0.0, given.rates)
    by_kind = np.bincount(np.repeat(np.arange(kinds), np.diff(given.want_offsets)), given.total[given.wants], kinds)
    demand = np.where(is_away, 0.0, by_kind[given.kind] + np.bincount(sender, rates, users))
    nothing = np.append(given.want_offsets, given.want_offsets[-1])  # a kind that wants nothing, for those away
    kind = np.where(is_away, kinds, given.kind)
    return given._replace(kind=kind, want_offsets=nothing, rates=rates, demand=demand, costs=prices * demand[:, None])


def carried_on(given: Given, at: Ints) -> State:
    """Users where they were, under what is true now."""
    places = (given.brokers == at[:, None]).argmax(axis=1)
    return new_state(given, at, given.costs[np.arange(len(at)), places])
