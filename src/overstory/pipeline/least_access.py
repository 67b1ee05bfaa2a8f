"""A certified lower bound on the whole cost with attachments free: the cheapest access of everyone.

Whatever a plan does, a publisher sends each of its events to its broker, and a client gets each event that it wants
at least once. Each at the broker that makes both together cheapest is what no plan undercuts. It says nothing of core:
with everybody at one broker there is none.
"""

import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from overstory.kernels.metering import Totals
from overstory.model.access import ClientLinks, access_of
from overstory.model.plan import EVERYTHING, Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import ALL, ATTACHMENTS, FLOWS, TREE
from overstory.pipeline.rules import Metered

Ints = NDArray[np.int64]
AT_ONCE = 1 << 24  # pairs of a client and a broker that are priced together
SAFE = Fraction(1) - Fraction(1, 1 << 40)  # more than sums of floats can err by


def together(scenario: Scenario) -> Plan:
    """Everybody at one broker, so that each client gets just what it wants, once."""
    clients = scenario.clients["id"].to_numpy()
    attached = {"client": clients, "broker": np.full(len(clients), scenario.network.ids[0])}
    flow = {"flow": [0], "kind": [TREE], "events": [EVERYTHING], "associations": [0], "members": [ALL]}
    flows = FLOWS.completed(pa.table(flow))
    tables = {"attachments": pa.table(attached, schema=ATTACHMENTS.schema), "flows": flows}
    return Plan.of(Header("", scenario.fingerprint), tables)


def least_access(scenario: Scenario, known: Metered, totals: Totals) -> Fraction:
    """Without the price of access; ``known`` and ``totals`` are those of the plan ``together``."""
    clients = np.union1d(known.clients, known.publishers)
    got, sent = np.zeros(len(clients)), np.zeros(len(clients))
    got[np.searchsorted(clients, known.clients)] = totals.group_bytes.sum(axis=0)[known.client_group]
    sent[np.searchsorted(clients, known.publishers)] = totals.publisher_bytes.sum(axis=0)
    links, brokers = access_of(scenario), scenario.network.ids
    nearest = _nearest(links, clients, brokers)
    if nearest is not None:
        prices = links.up(clients, nearest).prices * sent + links.down(clients, nearest).prices * got
        return Fraction(math.fsum(prices)) * SAFE
    least, step = [], max(AT_ONCE // len(brokers), 1)
    for start in range(0, len(clients), step):
        some = clients[start : start + step, None]
        prices = links.up(some, brokers).prices * sent[start : start + step, None]
        prices = prices + links.down(some, brokers).prices * got[start : start + step, None]
        least.append(math.fsum(np.nanmin(prices, axis=1)))
    return Fraction(math.fsum(least)) * SAFE


def _nearest(links: ClientLinks, clients: Ints, brokers: Ints) -> Ints | None:
    """By client its nearest broker, where that is the cheapest one, by a search tree: to price all pairs of a million
    clients and a thousand brokers takes a minute. What the tree rounds otherwise is far less than ``SAFE`` allows."""
    if links.metric.metric != "euclidean" or len(links.keys):
        return None
    at_client, at_broker = (links.places[np.searchsorted(links.ids, ids)] for ids in (clients, brokers))
    if not (np.isfinite(at_client).all() and np.isfinite(at_broker).all()):
        return None
    found: Ints = brokers[cKDTree(at_broker).query(at_client)[1]]
    return found
