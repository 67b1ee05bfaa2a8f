"""A live network of processes and sockets: what is measured on links is what the meter predicts, and clients get
exactly what they want."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory.filters import parse_filter
from overstory.lab.live import Network
from overstory.lab.markets import Size, make_market
from overstory.lab.rehearsal import Log, Rehearsal, Rehearsed, plan_for_sized, rehearse, sized, types_of
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.tables import FILTERS
from overstory.model.topics import topic_attributes
from overstory.pipeline.pipeline import Pipeline
from overstory.planners.chains import make_plan

SIZE = Size(brokers=6, clients=24, subscriptions=150, events=600)
PLANS: dict[str, tuple[str, dict[str, Any]]] = {
    "one tree": ("spt", {}),
    "many trees": ("covering-cyclic", {}),
    "paths": ("medym", {}),
    "steiner": ("steered", {"steer": "all"}),
}


class Market(NamedTuple):
    scenario: Scenario
    pipeline: Pipeline


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Market]:
    folder = tmp_path_factory.mktemp("live")
    make_market(folder / "market", SIZE)
    _ask_twice(folder / "market" / "subscriptions.parquet")
    with Pipeline("local[1]", cache=False) as pipeline:
        yield Market(sized(read_scenario(folder / "market"), folder / "sized"), pipeline)


def _ask_twice(path: Path) -> None:
    """Some clients have a filter twice, once of each kind: which MQTT would take for a change of options."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    again = [{**row, "id": row["id"] + 1000, "no_local": not row["no_local"]} for row in rows[:20]]
    pq.write_table(pa.Table.from_pylist([*rows, *again], table.schema), path)


def played(scenario: Scenario, plan: Plan, folder: Path) -> tuple[Rehearsed, Log]:
    """What a live network does with the scenario's log under a plan."""
    plan.write(folder / "plan")
    with Network(scenario.folder, folder / "plan", folder / "logs", {"types": types_of(scenario)}) as network:
        rehearsal = Rehearsal(scenario, plan, network)
        return asyncio.run(rehearse(rehearsal)), rehearsal.log


def brute_force(scenario: Scenario, log: Log) -> dict[int, set[int]]:
    """The events that each client should get, filter by filter and event by event."""
    found: dict[int, set[int]] = {}
    events = [{**attributes, **topic_attributes(attributes["topic"])} for attributes in log.attributes]
    for row in scenario.subscriptions.to_pylist():
        wanted = parse_filter(row["filter"])
        mine = found.setdefault(row["client"], set())
        for id_, publisher, attributes in zip(log.ids, log.publishers, events, strict=True):
            if wanted.matches(attributes) and not (row["no_local"] and publisher == row["client"]):
                mine.add(id_)
    return found


@pytest.mark.parametrize("name", PLANS)
def test_measured_is_predicted(name: str, market: Market, tmp_path: Path) -> None:
    planner, parameters = PLANS[name]
    scenario, pipeline = market
    plan = plan_for_sized(make_plan(planner, scenario, pipeline, parameters, 0), scenario)
    _, predicted = pipeline.score(scenario, plan, 0, lambda: None)
    result, log = played(scenario, plan, tmp_path)
    assert (plan.flows.num_rows > 1) == (name == "many trees")
    assert predicted.frames.sum() > 100
    np.testing.assert_array_equal(result.events, predicted.frames)
    np.testing.assert_array_equal(result.bytes, predicted.bytes)
    should = brute_force(scenario, log)
    assert {id_: set(got.tolist()) for id_, got in result.got.items()} == {
        id_: should.get(id_, set()) for id_ in result.got
    }
    if len(plan.flows) == 1:  # else a client gets a copy of each frame
        assert all(len(got) == len(set(got.tolist())) for got in result.got.values())
    assert not any(report.lost or link.traffic.lost for report in result.reports.values() for link in report.links)


def test_a_link_filter_that_lets_more_through_is_noticed(market: Market, tmp_path: Path) -> None:
    scenario, pipeline = market
    plan = plan_for_sized(make_plan("spt", scenario, pipeline, {}, 0), scenario)
    _, predicted = pipeline.score(scenario, plan, 0, lambda: None)
    tree = plan.trees.to_pylist()[0]
    row = {"flow": tree["flow"], "source": tree["source"], "target": tree["target"], "filter": "price > 20"}
    wider = replace(plan, filters=pa.Table.from_pylist([row], schema=FILTERS.schema))
    result, log = played(scenario, wider, tmp_path)
    network = scenario.network
    at = [
        place
        for place, link in enumerate(zip(network.ids[network.sources], network.ids[network.targets], strict=True))
        if link == (tree["source"], tree["target"])
    ]
    assert np.flatnonzero(result.events != predicted.frames).tolist() == at
    assert result.events[at] > predicted.frames[at]
    should = brute_force(scenario, log)
    assert all(set(got.tolist()) == should.get(id_, set()) for id_, got in result.got.items())
