"""What brokers know when they migrate users: a state of users at brokers, with exact differences of its cost."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.overlay_search import has_room
from overstory.kernels.overlay_state import State, differences


@dataclass
class Seen:
    """The state itself, as far as users know brokers. It is ``migration.Knowledge``."""

    state: State
    knows: NDArray[np.bool_]  # by user and place within its reach
    room: NDArray[np.float64] = field(init=False)

    def __post_init__(self) -> None:
        self.room = np.empty(self.state.given.brokers.shape[1])

    def users_of(self, broker: int) -> list[tuple[float, int]]:
        mine = np.flatnonzero(self.state.at == broker)
        demand = self.state.given.demand[mine]
        return [(float(size), user) for size, user in zip(demand, mine.tolist(), strict=True) if size > 0]

    def savings(self, user: int) -> Mapping[int, float]:
        differences(self.state, user, self.room)
        brokers = self.state.given.brokers[user]
        return {
            int(broker): -float(self.room[place])
            for place, broker in enumerate(brokers.tolist())
            if broker >= 0 and self.knows[user, place] and has_room(self.state, user, broker)
        }

    def cost_of(self, user: int) -> float:
        return float(self.state.paid[user])
