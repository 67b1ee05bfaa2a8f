"""Shadow prices: what one link more, one broker more, or 10 ms more of delay would save, as shares of the core's cost.

A link or a broker is tried where it promises most, and priced as the median link of the network is. What it saves is
the difference of two networks on which every event takes a Steiner tree of its own, so that it does not depend on
today's plan. More delay is tried by planning with it, where there is a limit.
"""

from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
from scipy.sparse.csgraph import dijkstra

from overstory.control.piloting import Planning
from overstory.model.network import Floats
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import BROKERS, LINKS
from overstory.pipeline.bound import EFFORT
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan

TRIED = 4  # links
BUSIEST = 3  # brokers that a new one is linked to
MILLISECONDS = 10.0
ROUTE = "route"  # the effort of a tree


def savings_of(scenario: Scenario, plan: Plan) -> dict[str, float]:
    """What a link and a broker would save, by what they would be."""
    demand = _demand(scenario, plan)
    if demand is None or len(scenario.network) < BUSIEST:
        return {}
    before = _core(scenario, plan)
    if before <= 0:
        return {}
    found: dict[str, float] = {}
    for one, other in _far_pairs(scenario, demand):
        saved = 1 - _core(with_links(scenario, [(one, other)]), plan) / before
        found[f"a link {one}–{other}"] = max(saved, 0.0)
    best = dict(sorted(found.items(), key=lambda item: -item[1])[:1])
    hub, others = _hub(scenario, demand)
    linked = with_links(_with_broker(scenario, hub), [(hub, other) for other in others])
    name = f"a broker linked to {', '.join(map(str, others))}"
    return best | {name: max(1 - _core(linked, plan) / before, 0.0)}


def saving_of_delay(scenario: Scenario, planning: Planning) -> dict[str, float]:
    """What the planner's plan would cost less with 10 ms more of delay; nothing where there is no limit."""
    more = with_more_delay(scenario, MILLISECONDS)
    if more is None:
        return {}
    costs = []
    for each in (scenario, more):
        plan = make_plan(planning.planner, each, Workbench(each), planning.parameters, planning.seed)
        costs.append(Workbench(scenario).score(plan).cost)
    return {f"{MILLISECONDS:g} ms more": max(1 - costs[1] / costs[0], 0.0)} if costs[0] > 0 else {}


def with_links(scenario: Scenario, pairs: list[tuple[int, int]]) -> Scenario:
    """The scenario with further links between brokers, in both directions, at the median price."""
    network = scenario.network
    price, delay = float(np.median(network.prices)), float(np.median(network.delays))
    both = [*pairs, *((other, one) for one, other in pairs)]
    rows = {
        "source": [one for one, _ in both],
        "target": [other for _, other in both],
        "price": [price] * len(both),
        "delay": [delay] * len(both),
    }
    links = pa.concat_tables([scenario.links, pa.table(rows, schema=LINKS.schema)]).combine_chunks()
    return replace(scenario, links=links)


def with_more_delay(scenario: Scenario, milliseconds: float) -> Scenario | None:
    """The scenario with a higher limit of delay; None where it has none."""
    limits = scenario.settings.limits
    if limits.delay is None:
        return None
    more = msgspec.structs.replace(limits, delay=limits.delay + milliseconds)
    return replace(scenario, settings=msgspec.structs.replace(scenario.settings, limits=more))


def _with_broker(scenario: Scenario, number: int) -> Scenario:
    row = {"id": number, "name": None, "x": None, "y": None, "capacity": None, "share": 0.0, "place": None}
    brokers = pa.concat_tables([scenario.brokers, pa.Table.from_pylist([row], schema=BROKERS.full_schema)])
    return replace(scenario, brokers=brokers.combine_chunks())


def _core(scenario: Scenario, plan: Plan) -> float:
    """What the core costs if every event takes a Steiner tree of its own."""
    return Workbench(scenario).score_steiner(scenario, plan, ROUTE, EFFORT).core


def _demand(scenario: Scenario, plan: Plan) -> Floats | None:
    """Bytes from each broker to each that wants them, by position."""
    sample = Workbench(scenario).sample(scenario, plan.attachments, 1 << 20)
    if not len(sample.broker):
        return None
    network = scenario.network
    predicates = Workbench(scenario).predicates(scenario)
    client, broker = (plan.attachments[name].to_numpy() for name in ("client", "broker"))
    order = np.argsort(client)
    home = broker[order][np.searchsorted(client[order], scenario.subscriptions["client"].to_numpy())]
    wants = np.zeros((int(predicates.max(initial=0)) + 1, len(network)), bool)
    wants[predicates, network.positions(home)] = True
    found = np.zeros((len(network), len(network)))
    for row, root in enumerate(sample.broker.tolist()):
        mine = sample.predicates[sample.offsets[row] : sample.offsets[row + 1]]
        found[root] += sample.bytes[row] * wants[mine].any(axis=0)
    np.fill_diagonal(found, 0.0)
    return found


def _far_pairs(scenario: Scenario, demand: Floats) -> list[tuple[int, int]]:
    """Brokers without a link between them that pay most for their distance."""
    network = scenario.network
    distances = dijkstra(network.weighted(network.prices))
    gain = (demand + demand.T) * np.maximum(distances - np.median(network.prices), 0.0)
    order = np.argsort(-np.triu(gain, 1), axis=None, kind="stable")[:TRIED]
    pairs = np.column_stack(np.unravel_index(order, gain.shape))
    return [(int(network.ids[one]), int(network.ids[other])) for one, other in pairs.tolist() if gain[one, other] > 0]


def _hub(scenario: Scenario, demand: Floats) -> tuple[int, list[int]]:
    """The number of a new broker, and the brokers that send and want most."""
    taken = [scenario.brokers["id"].to_numpy().max(), *scenario.clients["id"].to_numpy()]
    busiest = np.argsort(-(demand.sum(axis=0) + demand.sum(axis=1)), kind="stable")[:BUSIEST]
    return int(max(taken)) + 1, sorted(int(scenario.network.ids[at]) for at in busiest.tolist())
