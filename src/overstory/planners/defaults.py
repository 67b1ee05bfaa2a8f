"""What a plan says where no planner has decided: attachments as the scenario has them, one flow for everything."""

import numpy as np
import pyarrow as pa

from overstory.errors import InfeasibleError
from overstory.model.access import access_of
from overstory.model.network import Ints
from overstory.model.plan import EVERYTHING
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import ATTACHMENTS, FILTERS, FLOWS, LINKS, MEMBERS, TREE, TREES

CLIENTS_AT_ONCE = 1 << 14


def tables(scenario: Scenario) -> dict[str, pa.Table]:
    return {
        "attachments": attachments(scenario),
        "filters": FILTERS.schema.empty_table(),
        **one_flow(scenario, *minimum_spanning_tree(scenario.network)),
    }


def attachments(scenario: Scenario) -> pa.Table:
    """A client without a broker takes the one with the cheapest access, of several the one with the lowest id."""
    clients = scenario.clients["id"].to_numpy()
    open_ones = np.asarray(scenario.clients["broker"].is_null())
    brokers = scenario.clients["broker"].fill_null(-1).to_numpy().copy()
    brokers[open_ones] = _cheapest(scenario, clients[open_ones])
    return pa.table({"client": clients, "broker": brokers}, schema=ATTACHMENTS.schema)


def _cheapest(scenario: Scenario, clients: Ints) -> Ints:
    ids, links = scenario.network.ids, access_of(scenario)
    found = np.empty(len(clients), np.int64)
    if not len(clients):
        return found
    if scenario.settings.access.metric == "none":
        return _cheapest_listed(scenario, clients)
    for start in range(0, len(clients), CLIENTS_AT_ONCE):
        some = clients[start : start + CLIENTS_AT_ONCE]
        prices = links.up(some[:, None], ids).prices + links.down(some[:, None], ids).prices
        found[start : start + len(some)] = ids[prices.argmin(axis=1)]
    return found


def _cheapest_listed(scenario: Scenario, clients: Ints) -> Ints:
    """Only links in the table lead anywhere; a direction that it lacks is free."""
    source, target = (scenario.links[name].to_numpy() for name in LINKS.schema.names[:2])
    ids, links = scenario.network.ids, access_of(scenario)
    outward = np.isin(source, ids)
    pairs = np.unique(np.stack([np.where(outward, target, source), np.where(outward, source, target)]), axis=1)
    client, broker = pairs[:, np.isin(pairs[0], clients) & np.isin(pairs[1], ids)]
    price = links.up(client, broker).prices + links.down(client, broker).prices
    order = np.lexsort((broker, price, client))
    known, first = np.unique(client[order], return_index=True)
    missing = np.setdiff1d(clients, known)
    if len(missing):
        raise InfeasibleError(
            f"client {missing[0]} has no broker and no link to one ({len(missing):,} such clients); "
            "give it a broker, links, or a metric in scenario.toml"
        )
    found: Ints = broker[order][first][np.searchsorted(known, clients)]
    return found


def one_flow(scenario: Scenario, sources: Ints, targets: Ints) -> dict[str, pa.Table]:
    """All subscriptions on one tree, given by both ends of its links, by position."""
    ids = scenario.network.ids
    subscriptions = scenario.subscriptions["id"]
    size = len(subscriptions)
    flow = {"flow": [0], "kind": [TREE], "events": [EVERYTHING], "associations": [0]}
    members = {"flow": np.zeros(size, np.int64), "subscription": subscriptions, "part": pa.nulls(size, pa.string())}
    tree = {"flow": np.zeros(len(sources), np.int64), "source": ids[sources], "target": ids[targets]}
    return {
        "flows": pa.table(flow, schema=FLOWS.schema),
        "members": pa.table(members, schema=MEMBERS.schema),
        "trees": pa.table(tree, schema=TREES.schema),
    }
