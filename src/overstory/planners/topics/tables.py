"""Clusters of topics as a plan: a flow for each topic and for each cluster, which gives its subscribers all of it.

1. Flow t carries topic t to those who are directly subscribed; flow ``topics + c`` carries cluster c. A flow without
   subscribers still costs what it takes to tell its channel, so a topic's flow is always there.
2. Where a user gets a topic through several flows, the first of its clusters serves it, and ``part`` says so. A cluster
   that serves a user nothing, but to which it is subscribed, has a row of ``filters`` to it: all that comes is thrown
   away.
3. All flows share one spanning tree. Where one broker alone publishes, every event goes from it to all others in each
   of its flows, wanted or not, as on a platform whose channels do not look into events.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.filters.printing import print_choice, print_literal
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import root_forest
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import FILTERS, FLOWS, MEMBERS, TREE, TREES, WHOLE
from overstory.model.topics import TOPIC
from overstory.planners.steps import Steps
from overstory.planners.topics.clustering import Clustering, serving
from overstory.planners.topics.demand import Asked

Ints = NDArray[np.int64]
Tables = dict[str, pa.Table]


def said(names: list[str]) -> str:
    """The filter of some topics."""
    return print_choice(TOPIC, [print_literal(name) for name in names])


def as_tables(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], asked: Asked, found: Clustering
) -> Tables:
    names, topics = asked.interests.names, len(asked.interests.names)
    events = [said([name]) for name in names] + [said([names[topic] for topic in each]) for each in found.sets()]
    flows = {
        "flow": np.arange(len(events)),
        "kind": [TREE] * len(events),
        "events": events,
        "associations": np.concatenate([np.zeros(topics, np.int64), found.widths]),
    }
    table = pa.table(flows, schema=FLOWS.schema).append_column("access", pa.array([WHOLE] * len(events), pa.string()))
    members, idle = _members(scenario, asked, found)
    return {
        "flows": table,
        "members": members,
        "trees": _trees(scenario, len(events)),
        "filters": pa.concat_tables([_from_publisher(scenario, pipeline, base, events), _to(base, idle, events)]),
    }


def _serving(asked: Asked, found: Clustering) -> Ints:
    """By interest of a user, the flow that serves it: the first of its clusters that has the topic, else its own."""
    cluster = serving(asked.demand, found).astype(np.int64)
    return np.where(cluster == NONE, asked.demand.topics, len(asked.demand.rates) + cluster)


def _members(scenario: Scenario, asked: Asked, found: Clustering) -> tuple[pa.Table, tuple[Ints, Ints]]:
    """A row for each subscription and flow that serves it something; and pairs of a client and a flow that serves it
    nothing although it is subscribed."""
    demand, interests, topics = asked.demand, asked.interests, len(asked.demand.rates)
    serving = _serving(asked, found)
    owner = np.repeat(np.arange(len(interests.offsets) - 1), np.diff(interests.offsets))
    keys = demand.user_of * max(topics, 1) + demand.topics
    flow = serving[np.searchsorted(keys, asked.user_of[owner] * max(topics, 1) + interests.topics)]
    flows = topics + found.clusters
    rows, row, counts = np.unique(owner * flows + flow, return_inverse=True, return_counts=True)
    subscription, flow_of = np.divmod(rows, flows)
    parts = _parts(asked, found, (subscription, flow_of, counts), row)
    table = {"flow": flow_of, "subscription": scenario.subscriptions["id"].to_numpy()[subscription], "part": parts}
    held = np.repeat(np.arange(demand.users), np.diff(found.held_offsets)) * flows + topics + found.held
    used = np.unique(asked.user_of[subscription] * flows + flow_of)
    user, idle = np.divmod(np.setdiff1d(held, used), flows)
    clients = np.unique(scenario.subscriptions["client"].to_numpy())
    return pa.table(table, schema=MEMBERS.schema), (clients[user], idle)


def _parts(asked: Asked, found: Clustering, rows: tuple[Ints, Ints, Ints], row: Ints) -> pa.Array:
    """What a flow serves of a subscription, where that is not all that the subscription wants of it."""
    interests, topics = asked.interests, len(asked.demand.rates)
    subscription, flow, counts = rows
    inside = [set(each) for each in found.sets()]
    parts: list[str | None] = [None] * len(flow)
    clustered = np.flatnonzero(flow >= topics)
    if found.clusters and _overlap(found, topics):
        mine = np.split(interests.topics[np.argsort(row, kind="stable")], np.cumsum(counts)[:-1])
        for at in clustered.tolist():
            first, last = interests.offsets[subscription[at] : subscription[at] + 2]
            shared = inside[flow[at] - topics].intersection(interests.topics[first:last].tolist())
            if len(shared) != counts[at]:
                parts[at] = said([interests.names[topic] for topic in mine[at].tolist()])
    return pa.array(parts, pa.string())


def _overlap(found: Clustering, topics: int) -> bool:
    """Whether a topic is in several clusters."""
    return bool(np.bincount(found.topics, minlength=topics).max(initial=0) > 1)


def _trees(scenario: Scenario, flows: int) -> pa.Table:
    network = scenario.network
    sources, targets = (network.ids[side] for side in minimum_spanning_tree(network))
    links = len(sources)
    rows = {
        "flow": np.repeat(np.arange(flows), links),
        "source": np.tile(sources, flows),
        "target": np.tile(targets, flows),
    }
    return pa.table(rows, schema=TREES.schema)


def _from_publisher(scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], events: list[str]) -> pa.Table:
    """All events of a flow along all links away from the broker that publishes; nothing if there are several."""
    attached, brokers = (base["attachments"][name].to_numpy() for name in ("client", "broker"))
    roots = np.unique(brokers[np.isin(attached, pipeline.publishers(scenario))])
    network = scenario.network
    if len(roots) != 1:
        return FILTERS.schema.empty_table()
    sources, targets = minimum_spanning_tree(network)
    away = _away_from(int(network.positions(roots)[0]), sources, targets, len(network))
    flows = len(events)
    rows = {
        "flow": np.repeat(np.arange(flows), len(away[0])),
        "source": np.tile(network.ids[away[0]], flows),
        "target": np.tile(network.ids[away[1]], flows),
        "filter": [text for text in events for _ in range(len(away[0]))],
    }
    return pa.table(rows, schema=FILTERS.schema)


def _away_from(root: int, sources: Ints, targets: Ints, brokers: int) -> tuple[Ints, Ints]:
    """The links of a tree, from the root outwards."""
    one, other = np.concatenate([sources, targets]), np.concatenate([targets, sources])
    swapped = np.arange(brokers)
    swapped[[0, root]] = root, 0  # the forest is rooted at 0
    one, other = swapped[one], swapped[other]
    order = np.lexsort((other, one))
    parent, depth = np.empty(brokers, np.int64), np.empty(brokers, np.int64)
    root_forest(np.searchsorted(one[order], np.arange(brokers + 1)), other[order], parent, depth)
    below = np.flatnonzero(parent >= 0)
    return swapped[parent[below]], swapped[below]


def _to(base: Mapping[str, pa.Table], idle: tuple[Ints, Ints], events: list[str]) -> pa.Table:
    """A row for each client and flow that serves it nothing."""
    attached, brokers = (base["attachments"][name].to_numpy() for name in ("client", "broker"))
    order = np.argsort(attached)
    client, flow = idle
    rows = {
        "flow": flow,
        "source": brokers[order][np.searchsorted(attached, client, sorter=order)],
        "target": client,
        "filter": [events[each] for each in flow.tolist()],
    }
    return pa.table(rows, schema=FILTERS.schema)
