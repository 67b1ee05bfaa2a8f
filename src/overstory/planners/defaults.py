"""What a plan says where no planner has decided: attachments as the scenario has them, one flow for everything."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overstory.errors import InfeasibleError
from overstory.model.access import access_of
from overstory.model.network import Ints
from overstory.model.plan import EVERYTHING
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import ATTACHMENTS, FILTERS, FLOWS, LINKS, MEMBERS, REGIONS, TREE, TREES

CLIENTS_AT_ONCE = 1 << 14


def tables(scenario: Scenario) -> dict[str, pa.Table]:
    return {
        "attachments": attachments(scenario),
        "filters": FILTERS.schema.empty_table(),
        "regions": REGIONS.schema.empty_table(),
        **one_flow(scenario, *minimum_spanning_tree(scenario.network)),
    }


def attachments(scenario: Scenario) -> pa.Table:
    """A client without a broker takes the one with the cheapest access, of several the one with the lowest id."""
    clients = scenario.clients["id"].to_numpy()
    open_ones = np.asarray(scenario.clients["broker"].is_null())
    brokers = scenario.clients["broker"].fill_null(-1).to_numpy().copy()
    brokers[open_ones] = cheapest_brokers(scenario, clients[open_ones])
    missing = clients[brokers < 0]
    if len(missing):
        raise InfeasibleError(
            f"client {missing[0]} has no broker and no link to one that takes clients ({len(missing):,} such clients); "
            "give it a broker, links, or a metric in scenario.toml"
        )
    return pa.table({"client": clients, "broker": brokers}, schema=ATTACHMENTS.schema)


def cheapest_brokers(scenario: Scenario, clients: Ints, present: Ints | None = None) -> Ints:
    """By client the broker with the cheapest access, both ways together, of those that take clients; -1 where no link
    leads to one. Of several the ``present`` one of the client, else the one with the lowest id."""
    taking = brokers_that_take(scenario)
    if scenario.settings.access.metric == "none":
        return _cheapest_listed(scenario, taking, clients, present)
    links = access_of(scenario)
    found = np.full(len(clients), -1, np.int64)
    for start in range(0, len(clients) if len(taking) else 0, CLIENTS_AT_ONCE):
        some = clients[start : start + CLIENTS_AT_ONCE]
        prices = links.up(some[:, None], taking).prices + links.down(some[:, None], taking).prices
        best = prices.argmin(axis=1)
        least = prices[np.arange(len(some)), best]
        chosen = taking[best]
        if present is not None:
            now = present[start : start + len(some)]
            stays = np.isin(now, taking) & (links.up(some, now).prices + links.down(some, now).prices <= least)
            chosen = np.where(stays, now, chosen)
        found[start : start + len(some)] = np.where(np.isfinite(least), chosen, -1)
    return found


def brokers_that_take(scenario: Scenario) -> Ints:
    """The ids of brokers, ascending, without those whose share of the clients is 0."""
    refuses = pc.fill_null(pc.equal(scenario.brokers["share"], 0.0), False)
    return np.sort(scenario.brokers["id"].filter(pc.invert(refuses)).to_numpy())


def _cheapest_listed(scenario: Scenario, taking: Ints, clients: Ints, present: Ints | None) -> Ints:
    """Only links in the table lead anywhere; a direction that it lacks is free."""
    source, target = (scenario.links[name].to_numpy() for name in LINKS.schema.names[:2])
    outward = np.isin(source, scenario.network.ids)
    pairs = np.unique(np.stack([np.where(outward, target, source), np.where(outward, source, target)]), axis=1)
    client, broker = pairs[:, np.isin(pairs[0], clients) & np.isin(pairs[1], taking)]
    links = access_of(scenario)
    price = links.up(client, broker).prices + links.down(client, broker).prices
    moves = broker != looked_up_in(client, clients, present) if present is not None else np.ones(len(broker), bool)
    order = np.lexsort((broker, moves, price, client))
    known, first = np.unique(client[order], return_index=True)
    return looked_up_in(clients, known, broker[order][first])


def looked_up_in(wanted: Ints, keys: Ints, values: Ints) -> Ints:
    """The value of each key that is wanted, -1 where there is none; keys are different, and in any order."""
    if not len(keys):
        return np.full(len(wanted), -1, np.int64)
    order = np.argsort(keys)
    at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)]
    found: Ints = np.where(keys[at] == wanted, values[at], -1)
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
