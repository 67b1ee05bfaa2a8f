"""A certified lower bound on access and core together, wherever clients are attached.

Whatever a plan does, each event travels from its publisher over links to brokers, between brokers and down to every
client that wants it. So it costs at least the cheapest tree that does so, if each event could choose the brokers of all
clients anew: a Steiner tree in the *extended* network, whose nodes are brokers and clients and whose links are those
between brokers and all access links within reach. Dual ascent bounds that from below, as it does between brokers
(``bound``). A client has two nodes, one that only publishes and one that only receives, so that no tree passes through
a client. It is a Lagrangian relaxation: a client's traffic in each channel pays its own share of the access link, and
that a client has one broker for all its channels is left out.

The extended network has a link for each client and each broker within reach, so this is for networks with at most
``MOST_PAIRS`` of these; the cheapest access alone bounds larger ones.
"""

from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overstory.model.access import access_of
from overstory.model.network import Network
from overstory.model.plan import EVERYTHING, Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import ALL, ATTACHMENTS, BROKERS, FLOWS, TREE
from overstory.pipeline.candidates import PRICE, reach_of, words_of
from overstory.pipeline.rules import Metered, metered

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
MOST_PAIRS = 20_000


def is_small(scenario: Scenario) -> bool:
    return bool(scenario.clients.num_rows * scenario.brokers.num_rows <= MOST_PAIRS)


def extended(scenario: Scenario, publishers: Ints) -> tuple[Metered, Network]:
    """The extended network, priced by the one cost, and the clients at their own nodes in it."""
    clients, network = np.sort(scenario.clients["id"].to_numpy()), _network(scenario)
    brokers = len(scenario.network)
    receiving = network.ids[brokers : brokers + len(clients)]
    wide = replace(
        scenario,
        settings=msgspec.structs.replace(scenario.settings, access=type(scenario.settings.access)()),
        brokers=_nodes(network.ids),
        links=scenario.links.slice(0, 0),
    )
    wide.__dict__["network"] = network
    flow = {"flow": [0], "kind": [TREE], "events": [EVERYTHING], "associations": [0], "members": [ALL]}
    attached = pa.table({"client": clients, "broker": receiving}, schema=ATTACHMENTS.schema)
    plan = Plan.of(Header("", ""), {"attachments": attached, "flows": FLOWS.completed(pa.table(flow))})
    known = metered(wide, plan, publishers)
    sending = brokers + len(clients) + np.searchsorted(clients, known.publishers)
    return replace(known, rules=known.rules._replace(publisher_broker=sending)), network


def _nodes(ids: Ints) -> pa.Table:
    nothing = pa.nulls(len(ids), pa.float64())
    return BROKERS.completed(pa.table({"id": ids, "name": pa.nulls(len(ids), pa.string()), "x": nothing, "y": nothing}))


def _network(scenario: Scenario) -> Network:
    """Brokers, then clients as they receive, then clients as they publish."""
    known, clients = scenario.network, np.sort(scenario.clients["id"].to_numpy())
    size, count = len(known), len(clients)
    first = int(max(known.ids.max(initial=0), clients.max(initial=0))) + 1
    ids = np.concatenate([known.ids, first + np.arange(2 * count)])
    client, broker = np.nonzero(_within_reach(scenario, clients))
    links, prices = access_of(scenario), scenario.settings.prices
    down = links.down(clients[client], known.ids[broker]).prices * prices.access
    up = links.up(clients[client], known.ids[broker]).prices * prices.access
    source = np.concatenate([known.sources, broker, size + count + client])
    target = np.concatenate([known.targets, size + client, broker])
    price = np.concatenate([known.prices * prices.core, down, up])
    usable = np.isfinite(price)
    return Network.between(ids, source[usable], target[usable], price[usable], np.zeros(int(usable.sum())))


def _within_reach(scenario: Scenario, clients: Ints) -> NDArray[np.bool_]:
    """By client and broker, by position: whether the client may be attached there."""
    size = len(scenario.network)
    if scenario.settings.access.metric == "none":
        words = words_of(reach_of(scenario, None, PRICE), clients, np.full(len(clients), np.inf))
        known = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, :size].astype(bool)
    else:
        known = np.ones((len(clients), size), bool)
    refuses = pc.fill_null(pc.equal(scenario.brokers.sort_by("id")["share"], 0.0), False)
    known &= ~np.asarray(refuses)[None, :]
    return known
