"""A running network as a scenario: what is observed is what happened."""

import asyncio
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory.broker.sampling import Sample, Taken
from overstory.control.brokers import Brokers
from overstory.control.event_log import EventLog, events_in, table_of
from overstory.control.observing import TODAY, Collecting, Observer
from overstory.lab.crowd import Wish
from overstory.lab.live import Network
from overstory.lab.markets import Size, make_market
from overstory.lab.rehearsal import Rehearsal, Rehearsed, plan_for_sized, sized, types_of
from overstory.model.plan import read_plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.wire.encode import encode
from overstory.wire.packets import Publish

SIZE = Size(brokers=5, clients=16, subscriptions=60, events=300)


def packet(topic: str, payload: bytes = b"", **properties: str) -> bytes:
    return encode(Publish(topic, payload, properties={"user_properties": list(properties.items())}))


def sample_of(*packets: bytes) -> Sample:
    taken = [Taken(at + 1, float(at), 7, 5, data) for at, data in enumerate(packets)]
    return Sample(0, 1, 1.0, len(packets), 0, taken)


def test_types_are_those_of_all_values(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.parquet")
    for batch in (
        [packet("a", n="1", b="true", t="x")],
        [packet("a", n="2.5", b="false", t="1"), packet("b", z="5")],
        [packet("a", n="much")],
    ):
        log.append(table_of(events_in([sample_of(*batch)], {"z": "string"}), log.next_id, {"z": "string"}))
    rows = pa.concat_tables([pq.read_table(part) for part in sorted((tmp_path / "events.parquet").iterdir())])
    assert rows["$id"].to_pylist() == [0, 1, 2, 3]
    assert rows["b"].to_pylist() == [True, False, None, None]
    assert rows["t"].to_pylist() == ["x", "1", None, None]
    assert rows["z"].to_pylist() == [None, None, "5", None]
    assert rows["n"].to_pylist()[3] == "much"  # a number until then, and text from then on
    assert EventLog(tmp_path / "events.parquet").next_id == 4
    log.forget(1)
    assert log.rows() == 1


def test_the_size_of_an_event_is_that_of_its_plain_packet() -> None:
    plain = packet("a/b", b"12345", n="1")
    (event,) = events_in([sample_of(plain)], {})
    assert event.size == len(plain)
    assert event.attributes["topic"] == "a/b"
    assert not any(name.startswith("$") for name in event.attributes)


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    folder = tmp_path_factory.mktemp("observed")
    make_market(folder / "market", SIZE)
    return sized(read_scenario(folder / "market"), folder / "sized")


def test_todays_plan_costs_on_the_observed_log_what_links_measured(market: Scenario, tmp_path: Path) -> None:
    """Everything is sampled, and some subscriptions are late: the meter counts on the observed scenario, byte for byte,
    what crossed the links."""
    plan = plan_for_sized(make_plan("covering-cyclic", market, Workbench(market), {}, 0), market)
    plan.write(tmp_path / "plan")
    settings = {"types": types_of(market), "sample": 1.0}
    with Network(market.folder, tmp_path / "plan", tmp_path / "logs", settings) as network:
        result, scenario = asyncio.run(observed(market, network, tmp_path / "seen"))
    today = read_plan(tmp_path / "seen" / TODAY)
    bench = Workbench(scenario)
    _, traffic = bench.measured(today)
    assert traffic.bytes.tolist() == result.bytes.tolist()
    assert traffic.frames.tolist() == result.events.tolist()
    assert scenario.subscriptions.num_rows == market.subscriptions.num_rows + 1
    assert today.flows["flow"].to_numpy().max() == plan.flows["flow"].to_numpy().max() + 1  # the late flow is the last
    assert np.isin(scenario.subscriptions["id"].to_numpy(), today.members["subscription"].to_numpy()).all()


async def observed(market: Scenario, network: Network, folder: Path) -> tuple[Rehearsed, Scenario]:
    """Plays the log on a live network, where one subscription is late, and observes it."""
    plan = read_plan(network.plan)
    rehearsal = Rehearsal(market, plan, network)
    try:
        await rehearsal.join()
        first = min(rehearsal.crowd.clients)
        await rehearsal.crowd.subscribe(first, [Wish("topic IS NOT NULL", False)])
        await rehearsal.settle()
        await rehearsal.play()
        brokers = Brokers(f"http://127.0.0.1:{next(iter(network.ports.values())).monitor}")
        scenario = Observer(folder).look(await Collecting(brokers).look(), 0.0)
        return rehearsal.result(), scenario
    finally:
        rehearsal.crowd.close()
