"""Plans without a broker, and with it again: pure.

``avoiding`` takes a broker that runs out of the way of others: its clients go elsewhere, and in every tree, also in the
late one, it is a leaf behind which nobody wants anything. ``without`` is for a broker that is lost: the network is
planned as if it were not there. ``regrown`` brings a broker back into the trees that it is not in.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overstory.errors import InfeasibleError
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import STEERED, TREES
from overstory.planners.defaults import cheapest_brokers

DEAR = 1e9  # times the price: nothing takes such a link that has another way
Link = tuple[int, int]


def avoiding(scenario: Scenario, broker: int) -> Scenario:
    """The scenario with links of a broker so dear that nothing passes through it. Raises an ``InfeasibleError`` if
    others can only be reached through it."""
    _checked(scenario, broker)
    ends = pc.or_(pc.equal(scenario.links["source"], broker), pc.equal(scenario.links["target"], broker))
    prices = pc.if_else(
        ends, pc.multiply(pc.max_element_wise(scenario.links["price"], 1.0), DEAR), scenario.links["price"]
    )
    at = scenario.links.schema.get_field_index("price")
    return _on(scenario, scenario.links.set_column(at, scenario.links.schema.field(at), prices), scenario.brokers)


def without(scenario: Scenario, broker: int) -> Scenario:
    """The scenario without a broker and its links. Raises an ``InfeasibleError`` if the rest falls apart."""
    _checked(scenario, broker)
    ends = pc.or_(pc.equal(scenario.links["source"], broker), pc.equal(scenario.links["target"], broker))
    brokers = scenario.brokers.filter(pc.not_equal(scenario.brokers["id"], broker))
    return _on(scenario, scenario.links.filter(pc.invert(ends)), brokers)


def _on(scenario: Scenario, links: pa.Table, brokers: pa.Table) -> Scenario:
    return replace(scenario, links=links, brokers=brokers)


def _checked(scenario: Scenario, broker: int) -> None:
    ids = set(scenario.network.ids.tolist())
    if broker not in ids:
        raise InfeasibleError(f"there is no broker {broker}")
    rest = ids - {broker}
    if not rest:
        raise InfeasibleError(f"broker {broker} is the only one")
    links = [link for link in links_of(scenario) if broker not in link]
    if len(_reached(links, min(rest))) < len(rest):
        raise InfeasibleError(f"broker {broker} cannot be left out: others can only be reached through it")


def left(scenario: Scenario, plan: Plan, broker: int) -> Plan:
    """A plan whose clients are not at a broker, and in whose trees it is a leaf, or not at all. ``scenario`` avoids
    the broker, or is without it."""
    tree = spanning(scenario)
    kept, new = [], []
    for flow, links in _trees(plan).items():
        if any(broker in link for link in links):
            new += [(flow, *link) for link in tree]
        else:
            kept += [(flow, *link) for link in links]
    changed = {flow for flow, _, _ in new}
    columns = list(zip(*(kept + new), strict=True)) or [(), (), ()]
    trees = pa.table([list(column) for column in columns], schema=TREES.schema)
    stays = [flow not in changed for flow in plan.filters["flow"].to_pylist()]
    filters = plan.filters.filter(pa.array(stays, pa.bool_()))
    return replace(plan, attachments=_attached(scenario, plan, broker), trees=trees, filters=filters)


def regrown(scenario: Scenario, plan: Plan, broker: int) -> Plan:
    """The plan with a broker in all its trees: where it is not, every tree is the network's cheapest one again."""
    rows: list[tuple[int, int, int]] = []
    whole = spanning(scenario)
    for flow, links in _trees(plan).items():
        mine = links if any(broker in link for link in links) else whole
        rows += [(flow, *link) for link in mine]
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return replace(plan, trees=pa.table([list(column) for column in columns], schema=TREES.schema))


def targets(scenario: Scenario, plan: Plan, broker: int, clients: Mapping[str, int]) -> dict[str, int]:
    """Where the clients of a broker are to go, by name: where the plan has them, else to a neighbour."""
    homes = dict(zip(*(plan.attachments[name].to_pylist() for name in ("client", "broker")), strict=True))
    near = nearest(scenario, broker)
    return {name: homes.get(number, near) for name, number in clients.items()}


def nearest(scenario: Scenario, broker: int) -> int:
    """The neighbour with the cheapest link to a broker."""
    network = scenario.network
    ids = network.ids.tolist()
    rows = [
        (price, ids[target])
        for source, target, price in zip(network.sources, network.targets, network.prices.tolist(), strict=True)
        if ids[source] == broker
    ]
    return int(min(rows)[1]) if rows else int(min(set(ids) - {broker}))


def _attached(scenario: Scenario, plan: Plan, broker: int) -> pa.Table:
    """The attachments without those to a broker: its clients go where access is cheapest, or to a neighbour."""
    clients, brokers = (plan.attachments[name].to_numpy() for name in ("client", "broker"))
    moving = brokers == broker
    if not moving.any():
        return plan.attachments
    others = without(scenario, broker) if broker in scenario.network.ids.tolist() else scenario
    found = cheapest_brokers(others, clients[moving])
    spare = nearest(scenario, broker) if broker in scenario.network.ids.tolist() else int(scenario.network.ids[0])
    chosen = brokers.copy()
    chosen[moving] = np.where(found < 0, spare, found)
    return plan.attachments.set_column(1, plan.attachments.schema.field(1), pa.array(chosen, pa.int64()))


def spanning(scenario: Scenario) -> list[Link]:
    """The links of the cheapest spanning tree."""
    ends = [scenario.network.ids[side].tolist() for side in minimum_spanning_tree(scenario.network)]
    return list(zip(*ends, strict=True))


def links_of(scenario: Scenario) -> set[Link]:
    """The links between brokers, in both directions."""
    network = scenario.network
    return set(zip(network.ids[network.sources].tolist(), network.ids[network.targets].tolist(), strict=True))


def _reached(links: Iterable[Link], start: int) -> set[int]:
    near: dict[int, set[int]] = {}
    for u, v in links:
        near.setdefault(u, set()).add(v)
        near.setdefault(v, set()).add(u)
    found, rest = {start}, [start]
    while rest:
        for peer in near.get(rest.pop(), set()) - found:
            found.add(peer)
            rest.append(peer)
    return found


def _trees(plan: Plan) -> dict[int, list[Link]]:
    steered = {row["flow"] for row in plan.flows.to_pylist() if row["kind"] in STEERED}
    found: dict[int, list[Link]] = {flow: [] for flow in plan.flows["flow"].to_pylist() if flow not in steered}
    for row in plan.trees.to_pylist():
        found.setdefault(row["flow"], []).append((row["source"], row["target"]))
    return found
