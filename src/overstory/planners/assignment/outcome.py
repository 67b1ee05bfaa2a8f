"""From an assignment and its filters to the tables of a plan."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from overstory.kernels.enlarging import Filters
from overstory.model.network import Ints
from overstory.model.plan import EVERYTHING
from overstory.model.scenario import Scenario
from overstory.model.tables import ATTACHMENTS, FILTERS, FLOWS, MEMBERS, TREE
from overstory.planners.assignment.problem import Problem
from overstory.planners.decision import Decision


def decision_of(
    scenario: Scenario,
    base: Mapping[str, pa.Table],
    problem: Problem,
    leaf: Ints,
    filters: Filters,
    told: Mapping[str, float] | None = None,
) -> Decision:
    """``leaf`` is that of each subscriber. One flow for all, on the tree, with a filter on each link down."""
    brokers, flow = problem.brokers, int(base["trees"]["flow"][0].as_py())
    attached, present = (base["attachments"][name].to_numpy() for name in ("client", "broker"))
    chosen = present.copy()
    order = np.argsort(attached)
    chosen[order[np.searchsorted(attached, problem.clients, sorter=order)]] = brokers.network.ids[brokers.leaves[leaf]]
    subscriptions = scenario.subscriptions["id"]
    size = len(subscriptions)
    members = {"flow": np.full(size, flow), "subscription": subscriptions, "part": pa.nulls(size, pa.string())}
    flows = {"flow": [flow], "kind": [TREE], "events": [EVERYTHING], "associations": [0]}
    tables = {
        "attachments": pa.table({"client": attached, "broker": chosen}, schema=ATTACHMENTS.schema),
        "flows": pa.table(flows, schema=pa.schema([FLOWS.schema.field(name) for name in flows])),
        "members": pa.table(members, schema=MEMBERS.schema),
        "trees": base["trees"],
        "filters": _filter_rows(problem, flow, filters),
    }
    return Decision(tables, told or {})


def _filter_rows(problem: Problem, flow: int, filters: Filters) -> pa.Table:
    brokers, ids = problem.brokers, problem.brokers.network.ids
    used = np.flatnonzero(filters.counts > 0)
    above = np.where(brokers.parent < 0, brokers.root, brokers.nodes[brokers.parent])
    rows = {
        "flow": np.full(len(used), flow),
        "source": ids[above[used]],
        "target": ids[brokers.nodes[used]],
        "filter": [problem.space.filter_of(filters.boxes[node, : filters.counts[node]]) for node in used.tolist()],
    }
    return pa.table(rows, schema=FILTERS.schema)


def bandwidth(problem: Problem, filters: Filters) -> float:
    """Bytes that planners may see into all brokers, times the prices of their links."""
    return float(problem.brokers.prices @ filters.weights)
