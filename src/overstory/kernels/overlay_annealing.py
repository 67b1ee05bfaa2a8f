"""Simulated annealing among the states of ``overlay_state``: a heat bath of relocations, under soft capacities.

In a pass each user looks at all brokers within its reach and takes one by chance, the cheaper the more probable, as the
temperature says (the least of differences with Gumbel noise is drawn by Boltzmann's law). Where brokers are full,
relocations alone could not go anywhere; so bytes above a capacity are allowed and pay a penalty, which grows while the
temperature falls. ``relieve`` then takes users out of brokers that are still too full.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.nothing import NONE as NOBODY
from overstory.kernels.overlay_state import State, differences, move


@kernel
def excess(state: State, broker: int, more: float) -> float:
    """The bytes above a broker's capacity, if its users had so many more."""
    return max(state.load[broker] + more - state.given.capacity[broker], 0.0)


@kernel
def heat_pass(state: State, order: Array, noise: Array, temperature: float, penalty: float) -> int:
    """Each user in turn to a broker by chance; ``noise`` has as many Gumbel draws as a user has brokers, and each user
    begins at another one. A byte above a capacity costs the penalty. Returns how many users moved."""
    given = state.given
    found = np.empty(given.brokers.shape[1])
    moves, drawn = 0, 0
    for user in order:
        demand, here = given.demand[user], state.at[user]
        differences(state, user, found)
        relief = penalty * (excess(state, here, 0.0) - excess(state, here, -demand))
        best, least = -1, np.inf
        for place in range(len(found)):
            broker = given.brokers[user, place]
            if broker < 0:
                break
            value = found[place]
            if broker != here:
                value += penalty * (excess(state, broker, demand) - excess(state, broker, 0.0)) - relief
            drawn = (drawn + 1) % len(noise)
            value -= temperature * noise[drawn]
            if value < least:
                best, least = place, value
        if best >= 0 and given.brokers[user, best] != here:
            moves += 1
            move(state, user, given.brokers[user, best], given.costs[user, best])
    return moves


@kernel
def relieve(state: State) -> int:
    """Users out of brokers that have more than their capacity, each time the one that costs least for its bytes.
    Returns how many brokers are still too full."""
    given = state.given
    found, left = np.empty(given.brokers.shape[1]), 0
    for broker in range(len(given.far)):
        while excess(state, broker, 0.0) > 0:
            who, where, least = NOBODY, -1, np.inf
            user = state.head[broker]
            while user != NOBODY:
                demand = given.demand[user]
                if demand > 0:
                    differences(state, user, found)
                    for place in range(len(found)):
                        other = given.brokers[user, place]
                        if other < 0 or other == broker or excess(state, other, demand) > 0:
                            continue
                        if found[place] / demand < least:
                            who, where, least = user, place, found[place] / demand
                user = state.after[user]
            if who == NOBODY:
                left += 1
                break
            move(state, who, given.brokers[who, where], given.costs[who, where])
    return left
