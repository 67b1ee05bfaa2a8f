"""What a plan's moves save, told for people: who moves, what each move saves, and what the first so many save together.

Moves are taken in the order of what each would save alone; the savings are exact for that order. So whoever stops after
so many moves knows what that costs.
"""

import numpy as np
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.kernels.overlay_search import has_room
from overstory.kernels.overlay_state import Given, State, access_and_core, differences, move, new_state
from overstory.planners.overlay.instance import Instance

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SHOWN, POINTS = 10, 20
ALL_MOVES = "all"
MOST_MOVES = 50_000
NEARLY_FULL = 0.99  # of what planners may fill


def attaching(instance: Instance, given: Given, before: Ints, after: Ints) -> dict[str, list[float]]:
    """From clients at some brokers to clients at others, by position: see ``model.plan.ATTACHING``."""
    ids, users = instance.network.ids, instance.traffic.users
    load = np.bincount(after, instance.traffic.demand, len(ids))
    full = ids[np.flatnonzero(load >= NEARLY_FULL * instance.capacity)].tolist()
    moving = np.flatnonzero(before != after)
    if not len(moving) or len(moving) > MOST_MOVES:
        return {"full": full}
    state = new_state(given, before, instance.access_at(before))
    cost = float(sum(access_and_core(state)))
    order = moving[np.argsort(_savings(state, moving, after, move_on=False))[::-1]]
    saved = _savings(state, order, after, move_on=True)
    points = np.unique(np.linspace(0, len(order), POINTS).astype(np.int64))
    costs = cost - np.concatenate([[0.0], np.cumsum(saved)])
    best = np.argsort(-saved, kind="stable")[:SHOWN]
    return {
        "clients": users[order[best]].tolist(),
        "from": ids[before[order[best]]].tolist(),
        "to": ids[after[order[best]]].tolist(),
        "saved": (saved[best] / cost).round(6).tolist() if cost else [],
        "moves": points.tolist(),
        "cost": (costs[points] / cost).round(6).tolist() if cost else [],
        "full": full,
    }


def check_moves(moves: object) -> int | None:
    """How many moves are allowed at most; None: all."""
    if moves == ALL_MOVES:
        return None
    if not isinstance(moves, int) or isinstance(moves, bool) or moves < 1:
        raise UsageError(f"moves={moves}: it is {ALL_MOVES}, or a number from 1 on")
    return moves


def first_moves(instance: Instance, given: Given, before: Ints, after: Ints, most: int) -> Ints:
    """Where everybody is after so many moves, those that save most first. Whoever finds no room yet waits for those who
    leave; users whose new broker is beyond their reach stay."""
    state = new_state(given, before, instance.access_at(before))
    moving = np.flatnonzero(before != after)
    waiting = moving[np.argsort(_savings(state, moving, after, move_on=False), kind="stable")[::-1]].tolist()
    left, settled = most, False
    while left > 0 and not settled:
        settled = True
        for user in waiting.copy():
            places = np.flatnonzero(given.brokers[user] == after[user])
            if left > 0 and len(places) and has_room(state, user, int(after[user])):
                move(state, user, int(after[user]), float(given.costs[user, places[0]]))
                waiting.remove(user)
                left, settled = left - 1, False
    return state.at.copy()


def _savings(state: State, users: Ints, after: Ints, move_on: bool) -> Floats:
    """What moving each user saves, alone or after those before it; nothing is known of brokers beyond its reach."""
    brokers, costs = state.given.brokers, state.given.costs
    found, change = np.zeros(len(users)), np.empty(brokers.shape[1])
    for at, user in enumerate(users.tolist()):
        places = np.flatnonzero(brokers[user] == after[user])
        if len(places):
            differences(state, user, change)
            found[at] = -change[places[0]]
            if move_on:
                move(state, user, int(after[user]), float(costs[user, places[0]]))
    return found
