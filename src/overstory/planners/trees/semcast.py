"""SemCast (reconstructed): events are partitioned into channels, each with a tree of its own.

The paper by Papaemmanouil and Çetintemel is known to us by its outline alone; what is built here is our reading of it
and of what Majumder et al. tell. In the beginning every filter that no other covers is a channel, with the brokers
that want it or something that it covers; then pairs are split (see ``channels``) while the traffic of the sample falls.
Nothing is filtered between brokers: every event of a channel reaches all its members.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.filters import parse_filter
from overstory.kernels.channels import channel_tree, counts_below
from overstory.matching import CoveringIndex
from overstory.model.network import Ints, Network
from overstory.model.plan import EVERYTHING, Value
from overstory.model.scenario import Scenario
from overstory.model.tables import FILTERS, FLOWS, MEMBERS, TREE, TREES
from overstory.planners.steps import Steps
from overstory.planners.trees.channels import Channels, Ground, Owners, brokers_of, links_of
from overstory.planners.trees.demand import Demand, Rows, demand_of
from overstory.planners.trees.spelling import NOTHING, Spelling, unions

MOST_LINKS = 6_000_000  # of all trees together

Flags = NDArray[np.bool_]
Tables = dict[str, pa.Table]


class Start(NamedTuple):
    """Channels at the beginning, each a filter that no other covers: it *owns* itself and what it covers."""

    texts: list[str]  # by owner
    owner_of: Ints  # by filter. The last owner has no text: it is for all that is more than there may be channels
    whole: Flags  # by filter: whether it wants all of its owner's events


class Flow(NamedTuple):
    events: str
    owners: Owners
    open: bool  # whether all of its events go to all members


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> Tables:
    demand = demand_of(scenario, pipeline, base)
    most = _most(parameters["channels"], demand.network)
    start = start_of(scenario, demand, most)
    spelling = Spelling(start.texts)
    channels = Channels(ground_of(demand, demand.fit, start), spelling.fits)
    channels.merge(most)
    return _tables(scenario, demand, start, flows_of(channels, spelling))


def plan_filtered(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> Tables:
    """The same channels, but each link carries only what is wanted behind it."""
    tables = plan(scenario, pipeline, base, parameters, seed)
    return tables | {"filters": tables["filters"].slice(0, 0)}


def _most(wanted: Value, network: Network) -> int:
    if wanted == "auto":
        return max(MOST_LINKS // len(network), 1)
    if type(wanted) is not int or wanted < 1:
        raise UsageError(f"channels={wanted}: it is auto or a number from 1 on")
    return wanted


# The beginning


def start_of(scenario: Scenario, demand: Demand, most: int) -> Start:
    """If there are more than ``most`` filters that no other covers, those with most bytes become channels."""
    _, first = np.unique(demand.item_predicate[demand.item_of], return_index=True)
    texts = scenario.subscriptions["filter"].take(pa.array(first)).to_pylist()
    pairs = _row_predicates(demand, demand.fit)
    weight = np.bincount(pairs[1], demand.fit.bytes[pairs[0]], len(texts))
    leader, whole = leaders(texts, weight.tolist())
    leading = np.flatnonzero(leader == np.arange(len(texts)))
    if len(leading) > most:
        leading = np.sort(leading[np.lexsort((leading, -weight[leading]))][: most - 1])
    owner = np.full(len(texts), len(leading))
    owner[leading] = np.arange(len(leading))
    return Start([texts[number] for number in leading.tolist()], owner[leader], whole)


def leaders(texts: list[str], weight: list[float]) -> tuple[Ints, Flags]:
    """For each filter the one that stands for it: of those that cover it and that no other covers, the one with the
    fewest bytes; of equal filters the first. And whether the two are equal."""
    filters = [parse_filter(text) for text in texts]
    index = CoveringIndex(filters)
    above = [index.covering(wanted) for wanted in filters]
    equal = [{other for other in above[number] if number in above[other]} | {number} for number in range(len(texts))]
    top = [set(above[number]) <= equal[number] and min(equal[number]) == number for number in range(len(texts))]
    leader = [
        min((other for other in above[number] if top[other]), key=lambda other: (weight[other], other), default=number)
        for number in range(len(texts))
    ]
    whole = [leader[number] in equal[number] for number in range(len(texts))]
    return np.array(leader, np.int64), np.array(whole, bool)


def _row_predicates(demand: Demand, rows: Rows) -> tuple[Ints, Ints]:
    """Rows and the filters that they match, each pair once, by row."""
    row = np.repeat(np.arange(len(rows.roots)), np.diff(rows.offsets))
    width = int(demand.item_predicate.max(initial=0)) + 1
    keys = np.unique(row * width + demand.item_predicate[rows.items])
    return keys // width, keys % width


def ground_of(demand: Demand, rows: Rows, start: Start) -> Ground:
    row, predicate = _row_predicates(demand, rows)
    owner = start.owner_of[predicate]
    kept = start.whole[predicate] & (owner < len(start.texts))
    ends = np.searchsorted(row[kept], np.arange(len(rows.roots) + 1))
    matched = [frozenset(owner[kept][a:b].tolist()) for a, b in pairwise(ends)]
    members = _members(demand, start, np.ones(len(start.whole), bool))
    return Ground(demand.network, members[:-1], matched, rows.roots.tolist(), rows.bytes.tolist())


def _members(demand: Demand, start: Start, wanted: Flags) -> list[Ints]:
    """By owner, the brokers of filters that are wanted."""
    owner = np.where(wanted[demand.item_predicate], start.owner_of[demand.item_predicate], -1)
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], np.arange(len(start.texts) + 2))
    brokers = demand.item_broker[order]
    return [np.unique(brokers[a:b]) for a, b in pairwise(ends)]


# The end


def flows_of(channels: Channels, spelling: Spelling) -> list[Flow]:
    """Channels with the same members become one flow, if one predicate can say what is in them."""
    by_owners: dict[Owners, list[str]] = {}
    for channel in channels.alive.values():
        text = spelling.text(channel.cell)
        assert text is not None, "no channel is made that cannot be written down"
        if text != NOTHING:
            by_owners.setdefault(channel.owners, []).append(text)
    every = sorted(by_owners.items(), key=lambda pair: sorted(pair[0]))
    return [Flow(text, owners, True) for owners, texts in every for text in unions(texts)]


def _tables(scenario: Scenario, demand: Demand, start: Start, flows: list[Flow]) -> Tables:
    members, whole = (_members(demand, start, flags) for flags in (np.ones(len(start.whole), bool), start.whole))
    if len(members[-1]):
        flows = [*flows, Flow(EVERYTHING, frozenset([len(start.texts)]), False)]
    owner = start.owner_of[demand.item_predicate[demand.item_of]]
    subscriptions = [np.flatnonzero(owner == number) for number in range(len(members))]
    joined, trees, filters = _Columns(), _Columns(), _Columns()
    for number, flow in enumerate(flows):
        brokers = brokers_of(members, flow.owners)
        parent = tree_of(demand.network, brokers)
        ends = np.flatnonzero(parent >= 0)
        trees.add(number, parent[ends], ends)
        joined.add(number, np.sort(np.concatenate([subscriptions[owner] for owner in flow.owners])))
        if flow.open:
            filters.add(number, *_open_links(parent, brokers, brokers_of(whole, flow.owners)))
    ids, subscription_ids = demand.network.ids, scenario.subscriptions["id"].to_numpy()
    joining, subscription = joined.columns(2)
    no_part = pa.nulls(len(joining), pa.string())
    return {
        "flows": pa.table(
            {
                "flow": np.arange(len(flows)),
                "kind": pa.array([TREE] * len(flows), pa.string()),
                "events": pa.array([flow.events for flow in flows], pa.string()),
                "associations": np.zeros(len(flows), np.int64),
            },
            schema=FLOWS.schema,
        ),
        "members": pa.table([joining, subscription_ids[subscription], no_part], schema=MEMBERS.schema),
        "trees": _links(trees, ids, TREES.schema),
        "filters": _links(filters, ids, FILTERS.schema, [EVERYTHING]),
    }


class _Columns:
    """The columns of a table, which is put together flow by flow."""

    def __init__(self) -> None:
        self.parts: list[tuple[Ints, ...]] = []

    def add(self, flow: int, *columns: Ints) -> None:
        self.parts.append((np.full(len(columns[0]), flow), *columns))

    def columns(self, width: int) -> list[Ints]:
        none = np.empty(0, np.int64)
        return [np.concatenate([none, *(part[i] for part in self.parts)]) for i in range(width)]


def _links(columns: _Columns, ids: Ints, schema: pa.Schema, more: list[str] | None = None) -> pa.Table:
    flow, source, target = columns.columns(3)
    same = [pa.array(value * len(flow), pa.string()) for value in ([more] if more else [])]
    return pa.table([flow, ids[source], ids[target], *same], schema=schema)


def tree_of(network: Network, members: Ints) -> Ints:
    """The parent of each broker."""
    parent, total = np.empty(len(network), np.int64), np.empty(len(network))
    channel_tree(links_of(network), members, parent, total)
    return parent


def _open_links(parent: Ints, members: Ints, whole: Ints) -> tuple[Ints, Ints]:
    """Directed links with members behind, none of whom wants all: only these need be told to let everything through."""
    some_of_it, all_of_it = counts_below(parent, members), counts_below(parent, whole)
    down = np.flatnonzero((parent >= 0) & (some_of_it > 0) & (all_of_it == 0))
    up = np.flatnonzero((parent >= 0) & (some_of_it < len(members)) & (all_of_it == len(whole)))
    return np.concatenate([parent[down], up]), np.concatenate([down, parent[up]])
