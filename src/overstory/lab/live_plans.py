"""Plans for whatever is live on a network: its clients where they are, and all their subscriptions in one flow.

They are for those who switch plans under load: every subscription moves from flow to flow, over other trees or steered.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from overstory.broker.standing import Subscribed
from overstory.model.plan import EVERYTHING, Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import ATTACHMENTS, CLIENTS, FLOWS, MEMBERS, SUBSCRIPTIONS, TREE, TREES, Table


def scenario_of_live(scenario: Scenario, live: Mapping[int, list[Subscribed]]) -> Scenario:
    """The network of a scenario with the clients and subscriptions that are live."""
    found = [one for all_ in live.values() for one in all_ if one.made]
    clients = [{"id": one.client} for one in {one.client: one for one in found}.values()]
    rows = [{"id": one.id, "client": one.client, "filter": one.filter, "no_local": one.no_local} for one in found]
    return replace(scenario, clients=_table(CLIENTS, clients), subscriptions=_table(SUBSCRIPTIONS, rows))


def plan_of_live(scenario: Scenario, live: Mapping[int, list[Subscribed]], kind: str, seed: int) -> Plan:
    """A plan with one flow for everything that is live: on a spanning tree that is drawn, or steered."""
    made = [(broker, one) for broker, all_ in live.items() for one in all_ if one.made]
    homes = {one.client: broker for broker, one in made}
    tables = {
        "attachments": _table(ATTACHMENTS, [{"client": client, "broker": broker} for client, broker in homes.items()]),
        "flows": _table(FLOWS, [{"flow": 0, "kind": kind, "events": EVERYTHING, "associations": 0}]),
        "members": _table(MEMBERS, [{"flow": 0, "subscription": one.id} for _, one in made]),
        "trees": _table(TREES, [{"flow": 0, "source": u, "target": v} for u, v in _tree(scenario, seed)])
        if kind == TREE
        else TREES.schema.empty_table(),
    }
    header = Header(f"drawn {kind}", "", seed, network=scenario.network_fingerprint)
    return Plan.of(header, tables)


def _tree(scenario: Scenario, seed: int) -> list[tuple[int, int]]:
    """The links of a spanning tree that is drawn: of shortest ways from one broker, so that it is no worse than the
    tree that is there. The first seed takes the first broker."""
    network = scenario.network
    brokers = network.ids.tolist()
    pairs = list(zip(network.ids[network.sources].tolist(), network.ids[network.targets].tolist(), strict=True))
    random.Random(seed).shuffle(pairs)
    near: dict[int, list[int]] = {broker: [] for broker in brokers}
    for u, v in pairs:
        near[u].append(v)
    waiting = [brokers[seed % len(brokers)]]
    reached, found = set(waiting), []
    for here in waiting:
        for there in near[here]:
            if there not in reached:
                reached.add(there)
                waiting.append(there)
                found.append((min(here, there), max(here, there)))
    return found


def _table(table: Table, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    return pa.Table.from_pylist(
        [{field.name: row.get(field.name) for field in table.schema} for row in rows], table.schema
    )
