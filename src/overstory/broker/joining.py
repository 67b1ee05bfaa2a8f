"""How a broker is joined to others: its place in the plan, and the addresses of its neighbours."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from overstory.broker.config import Config
from overstory.broker.fabric import Fabric, Place
from overstory.broker.migrating import Migrating
from overstory.broker.pacing import Pace
from overstory.broker.peers import Peers
from overstory.broker.places import Who, introduce, places_of, who_is_who
from overstory.broker.state import State
from overstory.broker.terrain import Terrain, terrain_of
from overstory.errors import UsageError
from overstory.model.plan import read_plan
from overstory.model.scenario import read_scenario
from overstory.routing.policies import make_policy
from overstory.routing.router import FOR_EVER, Router

BEGINNING = 1_700_000_000  # seconds since 1970: before any broker started
QUARTERS = 4  # incarnations in a second


class Joining(msgspec.Struct, frozen=True):
    """What a broker has to know to join a network."""

    place: Place
    who: Who
    addresses: Mapping[int, str]
    terrain: Terrain | None = None  # if clients migrate

    def router(self, config: Config, now: float) -> Router:
        """The router of the broker, which knows nothing yet."""
        lease = config.lease or FOR_EVER
        policy, incarnation = make_policy(config.policy), self.place.incarnation
        return Router(config.number, policy, lease, now=now, incarnation=incarnation, tells_served=True)

    def peers(self, state: State, wake: Callable[[], None], log: Any) -> Peers:
        """Installs the plan, and makes the broker ready to find its neighbours."""
        fabric = state.fabric = Fabric(state, self.place, state.config.window)
        fabric.preparing.pace = Pace(state.config.preparing)
        if self.terrain is not None:
            fabric.moving.migrating = Migrating(fabric, self.terrain, state.config.migrate)
        introduce(state, self.place, self.who)
        assert state.config.link is not None
        return Peers(fabric, state.config.link, self.addresses, wake, log)


def joining_of(config: Config) -> Joining | None:
    """How a broker is joined to others, as its configuration says; None if it is alone."""
    if config.scenario is None or config.plan is None:
        return None
    scenario, plan = read_scenario(Path(config.scenario)), read_plan(Path(config.plan))
    places = places_of(scenario, plan)
    if config.number not in places:
        raise UsageError(f"the scenario {config.scenario} has no broker {config.number}")
    place = msgspec.structs.replace(places[config.number], incarnation=new_incarnation())
    addresses = {int(number): address for number, address in config.neighbours.items()}
    terrain = terrain_of(scenario) if config.migrate else None
    return Joining(place, who_is_who(scenario, plan), addresses, terrain)


def new_incarnation() -> int:
    """A number that is higher at each start of a broker, by the clock of its own machine."""
    return int((time.time() - BEGINNING) * QUARTERS)
