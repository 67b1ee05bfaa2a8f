"""Covering-based routing on a cyclic overlay: a flow for each publishing broker, on its tree of cheapest paths.

Li, Muthusamy and Jacobsen (2008) let every advertisement span a tree of its own, and subscriptions follow the
advertisements that they intersect back to the publisher. Here the tree of an advertisement is that of the cheapest
paths from its broker, and its events are those that are published there. What brokers publish that were silent so far
travels along the first of these trees, in a flow of its own.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from overstory.errors import InfeasibleError
from overstory.model.network import Ints
from overstory.model.plan import EVERYTHING, Value
from overstory.model.scenario import Scenario
from overstory.model.tables import ALL, FLOWS, MEMBERS, TREE, TREES
from overstory.planners.steps import Steps
from overstory.planners.trees.spt import ROOTS_AT_ONCE, paths_from

MOST_LINKS = 12_000_000  # in the trees of a plan


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    network = scenario.network
    attached, brokers = (base["attachments"][name].to_numpy() for name in ("client", "broker"))
    order = np.argsort(attached)
    publishers = brokers[order][np.searchsorted(attached, pipeline.publishers(scenario), sorter=order)]
    roots = network.positions(np.unique(publishers))
    if len(roots) * len(network) > MOST_LINKS:
        raise InfeasibleError(
            f"covering-cyclic needs a tree for each of {len(roots):,} brokers that publish, with more than "
            f"{MOST_LINKS:,} links in all; medym sends events along the same paths without trees"
        )
    events = [f"$broker = {broker}" for broker in network.ids[roots].tolist()]
    if len(roots) < len(network):
        roots = np.append(roots, roots[:1] if len(roots) else [0])
        silent = f"$broker NOT IN ({', '.join(map(str, network.ids[roots[:-1]].tolist()))})"
        events.append(silent if events else EVERYTHING)
    flows = {
        "flow": np.arange(len(events)),
        "kind": [TREE] * len(events),
        "events": events,
        "associations": np.zeros(len(events), np.int64),
    }
    members = pa.array([ALL] * len(events), pa.string())
    return {
        "flows": pa.table(flows, schema=FLOWS.schema).append_column("members", members),
        "members": MEMBERS.schema.empty_table(),
        "trees": _trees(scenario, roots),
    }


def _trees(scenario: Scenario, roots: Ints) -> pa.Table:
    """The tree of cheapest paths from each root, to all brokers."""
    ids, found = scenario.network.ids, []
    for start in range(0, len(roots), ROOTS_AT_ONCE):
        _, before = paths_from(scenario.network, roots[start : start + ROOTS_AT_ONCE])
        flow, below = np.nonzero(before >= 0)
        rows = {"flow": flow + start, "source": ids[before[flow, below]], "target": ids[below]}
        found.append(pa.table(rows, schema=TREES.schema))
    return pa.concat_tables(found).combine_chunks() if found else TREES.schema.empty_table()
