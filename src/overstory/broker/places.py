"""The places of all brokers in a network, from a scenario and a plan: who is next to whom, and who is who."""

import hashlib
from collections.abc import Mapping

import msgspec

from overstory.broker.place import Place
from overstory.broker.state import State
from overstory.model.folders import fingerprint_of
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.routing.messages import LATE
from overstory.routing.share import Share, shares_of
from overstory.routing.written_out import written_out
from overstory.wire.control import known_filter

EPOCH = 1  # of the plan that a network starts with
PLAN_TABLES = "attachments", "flows", "members", "trees", "filters"


class Who(msgspec.Struct, frozen=True):
    """Who is who: the scenario's clients by name, and the plan's subscriptions by client and normal form."""

    clients: dict[str, int]
    subscriptions: dict[int, list[tuple[int, str, bool]]]  # of each client: id, filter, no-local


def places_of(scenario: Scenario, plan: Plan) -> dict[int, Place]:
    """The places of all brokers. Raises a ``DataError`` if the plan cannot be installed."""
    shares = shares_of(scenario, plan, EPOCH)
    fingerprint, linked = _fingerprint(scenario, plan), linked_to(scenario)
    prints = scenario.network_fingerprint, plan_print(plan)
    return {
        broker: Place(
            share, neighbours_of(broker, share) | linked[broker], next_hops(broker, shares), fingerprint, 0, *prints
        )
        for broker, share in shares.items()
    }


def linked_to(scenario: Scenario) -> dict[int, frozenset[int]]:
    """The brokers that each broker has a link to. Each link has a connection, whether or not the first plan uses it:
    another plan may."""
    network = scenario.network
    found: dict[int, set[int]] = {id_: set() for id_ in network.ids.tolist()}
    for source, target in zip(
        network.ids[network.sources].tolist(), network.ids[network.targets].tolist(), strict=True
    ):
        found[source].add(target)
        found[target].add(source)
    return {id_: frozenset(peers) for id_, peers in found.items()}


def plan_print(plan: Plan) -> str:
    """The fingerprint of a plan's tables."""
    digest = hashlib.sha256()
    for name in PLAN_TABLES:
        digest.update(fingerprint_of(getattr(plan, name)))
    return digest.hexdigest()[:32]


def neighbours_of(broker: int, share: Share) -> frozenset[int]:
    """The brokers that a broker has a link to: in a tree or, for steered flows, in the network."""
    near = {peer for flow in share.flows.values() for peer in flow.neighbours}
    return frozenset(near | {end for link in share.prices if broker in link for end in link} - {broker})


def next_hops(broker: int, shares: Mapping[int, Share]) -> dict[int, int]:
    """The neighbour by which each other broker is reached, along the late tree."""
    late = {number: share.flows[LATE].neighbours for number, share in shares.items()}
    found: dict[int, int] = {}
    for first in sorted(late[broker]):
        reached = [(first, broker)]
        while reached:
            here, before = reached.pop()
            found[here] = first
            reached += [(peer, here) for peer in late[here] if peer != before]
    return found


def who_is_who(scenario: Scenario, plan: Plan) -> Who:
    """The names of clients, and the subscriptions that the plan was made for. A client without a name is its number."""
    planned = set(written_out(scenario, plan).members["subscription"].to_pylist())
    clients = {scenario.client_names.get(id_, str(id_)): id_ for id_ in scenario.clients["id"].to_pylist()}
    subscriptions: dict[int, list[tuple[int, str, bool]]] = {}
    for row in scenario.subscriptions.to_pylist():
        if row["id"] in planned:
            subscriptions.setdefault(row["client"], []).append((row["id"], row["filter"], row["no_local"]))
    return Who(clients, subscriptions)


def introduce(state: State, place: Place, who: Who) -> None:
    """Tells a broker who its clients are, and which of their subscriptions the plan knows."""
    state.plan_clients = who.clients
    for client in place.share.clients:
        mine = state.plan_subscriptions.setdefault(client, {})
        for number, text, no_local in who.subscriptions.get(client, ()):
            mine.setdefault((known_filter(text), no_local), []).append(number)


def _fingerprint(scenario: Scenario, plan: Plan) -> str:
    """Two brokers have it in common if they have the same plan for the same network."""
    digest = hashlib.sha256(fingerprint_of(scenario.brokers) + fingerprint_of(scenario.links))
    for name in PLAN_TABLES:
        digest.update(fingerprint_of(getattr(plan, name)))
    return digest.hexdigest()[:32]
