"""Whether a plan whose flows serve everybody is surely lawful, told without a row for each flow and subscription.

With ``members = all`` what a flow serves follows from filters alone. So distinct filters are compared with the flows'
predicates, in columns, and clients only say which filters there are at which broker. A no is no verdict: the plan may
break the law, or it takes the filters themselves to tell; then everything is written out and looked at row by row.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overstory.kernels.holding import all_apart, all_held, hosts_of, meetings
from overstory.model.plan import EVERYTHING, Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import ALL, STEERED, WHOLE
from overstory.pipeline.boxes import Boxes, boxes_of, joined
from overstory.pipeline.entering import may_enter
from overstory.pipeline.predicates import distinct
from overstory.pipeline.space import Space
from overstory.pipeline.tree_links import TreeLinks
from overstory.pipeline.wanted import broker_of

Ints = NDArray[np.int64]
Truths = NDArray[np.bool_]
MOST_PAIRS = 1 << 30  # of flows and filters, which are told apart by a byte each


def serves_everybody(plan: Plan) -> bool:
    """Whether every flow has everybody for members, and nothing is said of single clients or links."""
    flows = plan.flows
    every = pc.all(pc.fill_null(pc.equal(flows["members"], ALL), False)).as_py()
    whole = pc.any(pc.fill_null(pc.equal(flows["access"], WHOLE), False)).as_py()
    return bool(flows.num_rows and every and not whole and not plan.filters.num_rows)


def surely_lawful(scenario: Scenario, plan: Plan, publishers: Ints, boxes: Boxes) -> bool:
    """``boxes`` are those of the distinct filters of the subscriptions, in the order in which they are first named."""
    entering = np.unique(broker_of(plan, publishers)).tolist()
    events: list[str] = plan.flows["events"].to_pylist()
    if len(events) * len(boxes.offsets) > MOST_PAIRS:
        return False
    everything = [number for number, text in enumerate(events) if text == EVERYTHING]
    filters = distinct(scenario.subscriptions["filter"])[1]
    if len(everything) == 1 and len(events) == 1:
        meet = np.ones((1, max(len(boxes.offsets) - 1, 1)), bool)
    else:
        known = joined([boxes, boxes_of(pa.array(events, pa.string()))])
        space = Space(known, scenario.attributes, entering)
        pool, wanted = space.pool(), np.arange(len(boxes.offsets) - 1)
        shares = len(wanted) + np.arange(len(events))
        if not all_apart(pool, shares):
            return False
        meet = meetings(pool, shares, wanted)
        if not all_held(pool, space.domains, wanted, shares, meet):
            return False
    return _trees_hold(scenario, plan, entering, _hosts(scenario, plan, filters, meet))


def _hosts(scenario: Scenario, plan: Plan, filters: Ints, meet: Truths) -> Truths:
    size = len(scenario.network)
    broker = scenario.network.positions(broker_of(plan, scenario.subscriptions["client"].to_numpy()))
    pairs = np.unique(filters * size + broker)
    found: Truths = hosts_of(meet, *np.divmod(pairs, size), size)
    return found


def _trees_hold(scenario: Scenario, plan: Plan, entering: list[int], hosts: Truths) -> bool:
    """Whether each flow's links are a tree of all brokers that want some of it or where some of it is published."""
    network, links, flow_ids = scenario.network, TreeLinks(plan.trees), plan.flows["flow"].to_numpy()
    steered = np.isin(np.array(plan.flows["kind"].to_pylist()), STEERED)
    if np.isin(links.flows, flow_ids[steered]).any() or len(links.strangers(network)):
        return False
    offsets, wanted = [0], [np.empty(0, np.int64)]
    for number in np.flatnonzero(~steered).tolist():
        needed = np.flatnonzero(hosts[number])
        if len(needed) or int(flow_ids[number]) in links:
            there = may_enter(plan.flows["events"][number].as_py(), entering)
            needed = np.union1d(needed, network.positions(np.array(there, np.int64)))
        offsets.append(offsets[-1] + len(needed))
        wanted.append(needed)
    faults = links.faults(network, flow_ids[~steered], np.array(offsets, np.int64), np.concatenate(wanted))
    return not faults.any()
