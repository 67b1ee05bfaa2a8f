"""The regions of steered flows: which brokers there are in each, and what can be wrong with them.

A region is known by its *gateway*, one of its brokers. Events from other regions go to the gateway, which matches them
again and steers them on to the hosts of its region. So a publishing broker needs to know the summaries of the hosts of
its own region alone, and one summary of each other region. The summaries of hosts travel along the late flow's tree,
and must not leave the region on their way: so a region has to be in one piece of that tree.
"""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from overstory.errors import Problem
from overstory.model.network import Ints, Network
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import STEERED

Gateways = Mapping[int, int]  # of each broker


def regions_of(plan: Plan) -> dict[int, dict[int, int]]:
    """The gateway of each broker, in each flow that has regions."""
    found: dict[int, dict[int, int]] = defaultdict(dict)
    for flow, broker, gateway in zip(*(column.to_pylist() for column in plan.regions.columns), strict=True):
        found[flow][broker] = gateway
    return dict(found)


def problems_of_regions(scenario: Scenario, plan: Plan) -> list[Problem]:
    """What is wrong with the regions of a plan; whether summaries cover their hosts is said elsewhere."""
    if not plan.regions.num_rows:
        return []
    brokers = set(scenario.brokers["id"].to_pylist())
    kinds = dict(zip(*(plan.flows[name].to_pylist() for name in ("flow", "kind")), strict=True))
    ordered = set(plan.flows["flow"].filter(plan.flows["ordered"]).to_pylist())
    found, said = list[Problem](), set[tuple[int, int]]()
    for number, row in enumerate(plan.regions.to_pylist(), start=1):
        flow, broker = row["flow"], row["broker"]
        for column in ("broker", "gateway"):
            if row[column] not in brokers:
                found.append(Problem("regions", number, column, f"there is no broker {row[column]}"))
        if kinds.get(flow) not in STEERED:
            what = f"flow {flow} is not steered, and has no regions" if flow in kinds else f"there is no flow {flow}"
            found.append(Problem("regions", number, "flow", what))
        elif flow in ordered:
            what = f"flow {flow} is ordered: events that change at a gateway come in no order, so it has no regions"
            found.append(Problem("regions", number, "flow", what))
        if (flow, broker) in said:
            found.append(Problem("regions", number, "broker", f"broker {broker} is in two regions of flow {flow}"))
        said.add((flow, broker))
    return found or _problems_of_flows(scenario, plan, brokers)


def _problems_of_flows(scenario: Scenario, plan: Plan, brokers: set[int]) -> list[Problem]:
    found = []
    ids = scenario.network.ids
    tree = [ids[side].tolist() for side in minimum_spanning_tree(scenario.network)]
    summarised: dict[int, set[int]] = defaultdict(set)
    for flow, source, target in zip(
        *(plan.filters[name].to_pylist() for name in plan.filters.column_names[:3]), strict=True
    ):
        if source == target:
            summarised[flow].add(source)
    for flow, gateway_of in regions_of(plan).items():
        missing = sorted(brokers - gateway_of.keys())
        if missing:
            more = f" ({len(missing):,} such ones)" if len(missing) > 1 else ""
            found.append(
                Problem("regions", None, "broker", f"broker {missing[0]} is in no region of flow {flow}{more}")
            )
            continue
        gateways = sorted(set(gateway_of.values()))
        outside = [each for each in gateways if gateway_of[each] != each]
        for gateway in outside[:5]:
            what = f"gateway {gateway} of flow {flow} is in the region of {gateway_of[gateway]}, outside its own"
            found.append(Problem("regions", None, "gateway", what))
        if outside:
            continue
        for gateway in _in_pieces(gateway_of, zip(*tree, strict=True))[:5]:
            what = f"the region of gateway {gateway} in flow {flow} is in several pieces of the late flow's tree"
            found.append(Problem("regions", None, "gateway", what))
        unsaid = sorted({gateway_of[host] for host in summarised[flow]} - summarised[flow])
        for gateway in unsaid[:5]:
            what = f"hosts in the region of gateway {gateway} have summaries in flow {flow}, but the region has none"
            found.append(Problem("filters", None, "source", what))
    return found


def _in_pieces(gateway_of: Gateways, tree: "zip[tuple[int, int]]") -> list[int]:
    """The gateways of regions that the tree does not join: a tree joins n brokers by n - 1 links."""
    left: dict[int, int] = defaultdict(int)
    for gateway in gateway_of.values():
        left[gateway] += 1
    for u, v in tree:
        if gateway_of[u] == gateway_of[v]:
            left[gateway_of[u]] -= 1
    return sorted(gateway for gateway, pieces in left.items() if pieces > 1)


def gateway_positions(network: Network, gateway_of: Gateways) -> Ints:
    """By position of a broker, the position of its gateway."""
    ids = network.ids.tolist()
    return network.positions(np.array([gateway_of[broker] for broker in ids], np.int64))
