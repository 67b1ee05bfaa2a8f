"""The meter obeys the law: what it counts is what the reference executor counts, event by event."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from overstory.kernels.metering import Totals
from overstory.kernels.travel_together import end_of_run
from overstory.lab.quadratic import Quadratic, make_quadratic
from overstory.model.access import access_of
from overstory.model.scenario import read_scenario
from overstory.pipeline.rows import alike_together, rows_of
from overstory.pipeline.score import counted
from overstory.pipeline.validate import problems_of_plan
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.routing.law import Law
from overstory.routing.written_out import is_short, written_out

from ..plans import events_of, random_plan, random_scenario, random_short_plan
from .meter import counted_here, meter


@pytest.mark.parametrize("seed", range(40))
def test_the_meter_counts_what_the_law_says(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    for number in range(5):
        scenario = random_scenario(dice, tmp_path / str(number))
        events = events_of(scenario)
        if not events:
            continue
        for turn in range(6):
            plan = (random_plan if turn < 4 else random_short_plan)(dice, scenario, regions=(turn % 2) * 0.7)
            law = Law(scenario, plan)
            journeys = [(event, law.travel(event)) for event in events]
            card, traffic = meter(scenario, plan)
            frames: Counter[tuple[int, int]] = Counter()
            sizes: Counter[tuple[int, int]] = Counter()
            access = 0.0
            links = access_of(scenario)
            for event, journey in journeys:
                for crossing in journey.crossings:
                    frames[crossing.source, crossing.target] += 1
                    header = crossing.header if scenario.settings.headers else 0
                    sizes[crossing.source, crossing.target] += event.bytes + header
                client, broker = journey.uplink
                access += event.bytes * float(links.up(np.array([client]), np.array([broker])).prices[0])
                for copy in journey.copies:
                    down = links.down(np.array([copy.client]), np.array([copy.broker])).prices[0]
                    access += event.bytes * float(down)
            network = scenario.network
            ends = list(zip(network.ids[network.sources].tolist(), network.ids[network.targets].tolist(), strict=True))
            assert traffic.frames.tolist() == [frames[link] for link in ends]
            assert traffic.bytes.tolist() == [sizes[link] for link in ends]
            copies = [copy for _, journey in journeys for copy in journey.copies]
            assert card.duplicates == sum(journey.duplicates for _, journey in journeys)
            assert card.false_positives == sum(journey.false_positives for _, journey in journeys)
            assert card.discards == sum(journey.discards for _, journey in journeys)
            assert card.deliveries == sum(len(journey.deliveries) for _, journey in journeys)
            assert card.access == pytest.approx(scenario.settings.prices.access * access)
            assert card.mean_delay == pytest.approx(np.mean([copy.delay for copy in copies]) if copies else 0, abs=1e-3)
            assert card.max_delay == pytest.approx(max((copy.delay for copy in copies), default=0), abs=1e-2)
            assert card.lower_bound <= card.core
            assert card.lower_bound_held_out <= card.cost_held_out


@pytest.mark.parametrize("core", ["tree", "steiner"])
@pytest.mark.parametrize("seed", range(6))
def test_rows_count_together_what_they_count_alone(seed: int, core: str, tmp_path: Path) -> None:
    """Rows that match the same predicates travel together in a flow on one tree; a row that comes alone does not."""
    make_quadratic(tmp_path / "net", Quadratic(users=30, brokers=6, grid=12, events=400, width=0.3), seed)
    scenario = read_scenario(tmp_path / "net")
    if seed % 2:  # somebody leaves out its own events
        local = np.arange(scenario.subscriptions.num_rows) == seed
        at = scenario.subscriptions.schema.get_field_index("no_local")
        scenario = replace(scenario, subscriptions=scenario.subscriptions.set_column(at, "no_local", pa.array(local)))
    plan = make_plan("random", scenario, Workbench(scenario), {"core": core}, seed)
    rules, rows, together = counted_here(scenario, plan)
    assert end_of_run(rows_of(alike_together(rows), rules.publishers), 0) > 1
    one_by_one = [rows.slice(at, 1) for at in range(rows.num_rows)]
    alone = counted(one_by_one, rules.rules, rules.steering, rules.publishers)
    for name, ours, theirs in zip(Totals._fields, together, alone, strict=True):
        assert np.array_equal(ours, theirs), name


@pytest.mark.parametrize("seed", range(6))
def test_rows_sweep_over_a_tree_as_each_follows_it_alone(seed: int, tmp_path: Path) -> None:
    """Few of many brokers want an event, and a link takes longer one way than the other."""
    make_quadratic(tmp_path / "net", Quadratic(users=24, brokers=16, grid=12, events=900, width=0.2), seed)
    scenario = read_scenario(tmp_path / "net")
    draw = np.random.default_rng(seed)
    at = scenario.links.schema.get_field_index("delay")
    delays = pa.array(draw.integers(1, 50, scenario.links.num_rows) / 8)
    scenario = replace(scenario, links=scenario.links.set_column(at, "delay", delays))
    plan = make_plan("random", scenario, Workbench(scenario), {"core": "tree"}, seed)
    rules, rows, together = counted_here(scenario, plan)
    ordered = rows_of(alike_together(rows), rules.publishers)
    assert end_of_run(ordered, 0) * len(np.unique(rules.rules.group_broker)) >= 16
    alone = counted([rows.slice(at, 1) for at in range(rows.num_rows)], rules.rules, rules.steering, rules.publishers)
    assert together.link_bytes.sum() > 0
    for name, ours, theirs in zip(Totals._fields, together, alone, strict=True):
        assert np.array_equal(ours, theirs), name


@pytest.mark.parametrize("seed", range(20))
def test_what_is_said_in_short_counts_as_what_is_written_out(seed: int, tmp_path: Path) -> None:
    dice = random.Random(1000 + seed)
    for number in range(4):
        scenario = random_scenario(dice, tmp_path / str(number))
        if not events_of(scenario):
            continue
        for _ in range(4):
            plan = random_short_plan(dice, scenario)
            publishers = np.array([event.publisher for event in events_of(scenario)])
            assert problems_of_plan(scenario, plan, publishers) == []
            whole = written_out(scenario, plan)
            assert not is_short(whole)
            (card, traffic), (other, same) = meter(scenario, plan), meter(scenario, whole)
            assert card == other
            assert traffic.bytes.tolist() == same.bytes.tolist()
            assert traffic.frames.tolist() == same.frames.tolist()
