"""Plans of a few flows that share the subscriptions or the events among them: some on trees, some steered."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.model.plan import EVERYTHING
from overstory.model.scenario import Scenario
from overstory.model.tables import FLOWS, MEMBERS, STEERED, TREES
from overstory.planners.trees.spanning import Tree

Truths = NDArray[np.bool_]


class Part(NamedTuple):
    """A flow before it has a number. One without subscriptions becomes none."""

    kind: str
    subscriptions: Truths  # by row of the scenario's table: whether it is a member
    events: str = EVERYTHING
    tree: Tree | None = None  # of a flow that is not steered; it spans the network
    ordered: bool = False


def tables_of(scenario: Scenario, parts: Sequence[Part]) -> dict[str, pa.Table]:
    """The tables ``flows``, ``members`` and ``trees``, of parts that are worth a flow."""
    kept = with_members(parts)
    flows = {
        "flow": np.arange(len(kept)),
        "kind": [part.kind for part in kept],
        "events": [part.events for part in kept],
        "associations": np.zeros(len(kept), np.int64),
    }
    table = pa.table(flows, schema=FLOWS.schema)
    if any(part.ordered for part in kept):
        ordered = [part.ordered if part.kind in STEERED else None for part in kept]
        table = table.append_column("ordered", pa.array(ordered, pa.bool_()))
    return {"flows": table, "members": _members(scenario, kept), "trees": _trees(scenario, kept)}


def with_members(parts: Sequence[Part]) -> list[Part]:
    """The parts that become flows, in the order of their numbers. If nobody subscribes, the first stands alone."""
    return [part for part in parts if part.subscriptions.any()] or [*parts[:1]]


def _members(scenario: Scenario, parts: Sequence[Part]) -> pa.Table:
    ids = scenario.subscriptions["id"].to_numpy()
    rows = {
        "flow": np.repeat(np.arange(len(parts)), [int(part.subscriptions.sum()) for part in parts]),
        "subscription": np.concatenate([ids[:0], *(ids[part.subscriptions] for part in parts)]),
        "part": pa.nulls(sum(int(part.subscriptions.sum()) for part in parts), pa.string()),
    }
    return pa.table(rows, schema=MEMBERS.schema)


def _trees(scenario: Scenario, parts: Sequence[Part]) -> pa.Table:
    ids, none = scenario.network.ids, np.empty(0, np.int64)
    below = [none if part.tree is None else np.flatnonzero(part.tree.parent >= 0) for part in parts]
    above = [none if part.tree is None else part.tree.parent[ends] for part, ends in zip(parts, below, strict=True)]
    rows = {
        "flow": np.repeat(np.arange(len(parts)), [len(ends) for ends in below]),
        "source": ids[np.concatenate([none, *above])],
        "target": ids[np.concatenate([none, *below])],
    }
    return pa.table(rows, schema=TREES.schema)


def every_subscription(scenario: Scenario) -> Truths:
    return np.ones(scenario.subscriptions.num_rows, bool)
