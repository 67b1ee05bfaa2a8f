"""Under every pruning policy, after subscriptions have left, brokers send what the simulator's routers send."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from overstory.broker.places import places_of, who_is_who
from overstory.lab.counting import CountingWiring
from overstory.lab.markets import Size, make_market
from overstory.lab.rehearsal import Log, log_of, sized, types_of
from overstory.model.plan import Header, Plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import ATTACHMENTS, FLOWS, MEMBERS, PLAN_TABLES, TREES, Table
from overstory.model.topics import topic_attributes
from overstory.routing.policies import SUMMARIES, make_policy
from overstory.routing.share import shares_of
from overstory.wire.packets import Unsubscribe

from .nets import Net

SIZE = Size(brokers=6, clients=30, subscriptions=400, events=300)
LEAVING = 300
LATER = 1e6  # seconds, when whatever waits is let go


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scenario, Plan, Log]:
    folder = tmp_path_factory.mktemp("pruning")
    make_market(folder / "market", SIZE)
    scenario = sized(read_scenario(folder / "market"), folder / "sized")
    return scenario, one_tree(scenario), log_of(scenario)


def one_tree(scenario: Scenario) -> Plan:
    """A plan of one flow, on the minimum spanning tree."""
    network = scenario.network
    ends = [network.ids[side].tolist() for side in minimum_spanning_tree(network)]
    rows: dict[Table, list[dict[str, object]]] = {
        ATTACHMENTS: [{"client": row["id"], "broker": row["broker"]} for row in scenario.clients.to_pylist()],
        FLOWS: [{"flow": 0, "kind": "tree", "events": "TRUE", "associations": 0}],
        MEMBERS: [{"flow": 0, "subscription": id_} for id_ in scenario.subscriptions["id"].to_pylist()],
        TREES: [{"flow": 0, "source": u, "target": v} for u, v in zip(*ends, strict=True)],
    }
    tables = {name: table.schema.empty_table() for name, table in PLAN_TABLES.items()}
    for table, items in rows.items():
        whole = [{field.name: item.get(field.name) for field in table.schema} for item in items]
        tables[table.name] = pa.Table.from_pylist(whole, table.schema)
    return Plan.of(Header("", scenario.fingerprint), tables)


def simulated(scenario: Scenario, plan: Plan, log: Log, policy: str) -> tuple[list[int], list[int]]:
    """Events and bytes on each link, with routers alone."""
    wiring = CountingWiring(scenario.network, shares_of(scenario, plan, 1), make_policy(policy))
    home = {row["client"]: row["broker"] for row in plan.attachments.to_pylist()}
    for row in scenario.subscriptions.to_pylist()[:LEAVING]:
        broker = home[row["client"]]
        wiring.do(broker, wiring.routers[broker].unsubscribe(row["client"], row["id"], 0))
        wiring.settle()
    for broker, router in wiring.routers.items():
        wiring.do(broker, router.tick(LATER))
    wiring.settle()
    for id_, publisher, packet, values in zip(*log, strict=True):
        wiring.size = len(packet)
        wiring.publish(home[publisher], publisher, id_, {**values, **topic_attributes(values["topic"])})
        wiring.settle()
    return wiring.frames, wiring.bytes


@pytest.mark.parametrize("policy", sorted(SUMMARIES))
def test_measured_is_simulated(policy: str, market: tuple[Scenario, Plan, Log], tmp_path: Path) -> None:
    scenario, plan, log = market
    net = Net(places_of(scenario, plan), who_is_who(scenario, plan), types=types_of(scenario), policy=policy)
    home = {row["client"]: row["broker"] for row in plan.attachments.to_pylist()}
    clients = {id_: net.brokers[broker].connect(str(id_)) for id_, broker in home.items()}
    rows = scenario.subscriptions.to_pylist()
    for row in rows:
        clients[row["client"]].subscribe(f"#?{row['filter']}", qos=0, no_local=row["no_local"])
    assert sum(len(broker.state.subscriptions) for broker in net.brokers.values()) == len(rows)
    net.settle()
    for row in rows[:LEAVING]:
        clients[row["client"]].send(Unsubscribe(8, (f"#?{row['filter']}",)))
        net.settle()
    for broker in net.brokers.values():
        broker.fabric.act(broker.state.router.tick(LATER))
    net.settle()
    for publisher, packet in zip(log.publishers, log.packets, strict=True):
        net.brokers[home[publisher]].deliver(clients[publisher].link, packet)
        net.settle()
    frames, sizes = simulated(scenario, plan, log, policy)
    network = scenario.network
    links = list(zip(network.ids[network.sources].tolist(), network.ids[network.targets].tolist(), strict=True))
    counted = [net.brokers[u].fabric.neighbours[v].traffic if v in net.places[u].neighbours else None for u, v in links]
    np.testing.assert_array_equal([0 if one is None else one.events for one in counted], frames)
    np.testing.assert_array_equal([0 if one is None else one.event_bytes for one in counted], sizes)
    assert sum(frames) > 100
