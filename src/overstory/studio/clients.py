"""Which clients a plan attaches to each broker, in a few words."""

from collections.abc import Mapping, Sequence

import numpy as np

from overstory.model.naming import told_apart
from overstory.model.network import Ints
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.studio.text import plain, shortened

FEW = 3  # clients of a broker that are named


def clients_at(scenario: Scenario, plan: Plan) -> tuple[str, ...]:
    """The clients of each broker, by its position. Nothing if no client has a name: numbers say nothing to people."""
    named = told_apart(scenario.client_names)
    if not named:
        return ()
    found: list[list[int]] = [[] for _ in scenario.network.ids]
    ordered = plan.attachments.sort_by("client")
    places = scenario.network.positions(ordered["broker"].to_numpy())
    for client, place in zip(ordered["client"].to_pylist(), places.tolist(), strict=True):
        found[place].append(client)
    return tuple(some_clients(clients, named, FEW) for clients in found)


def hosts_of(scenario: Scenario, plan: Plan) -> Ints:
    """How many clients each broker has, by its position."""
    places = scenario.network.positions(plan.attachments["broker"].to_numpy())
    return np.bincount(places, minlength=len(scenario.network))


def some_clients(clients: Sequence[int], named: Mapping[int, str], most: int) -> str:
    """Those with a name first, and how many more there are."""
    with_names = [shortened(plain(named[client])) for client in clients if client in named][:most]
    left = len(clients) - len(with_names)
    if not with_names:
        return f"{left:,} client{'' if left == 1 else 's'}" if left else ""
    return ", ".join(with_names) + (f" and {left:,} more" if left else "")
