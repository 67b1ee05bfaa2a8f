"""A Steiner tree for each event: counted link by link, the same however rows are cut, and a reference for plans."""

import random
from pathlib import Path

import numpy as np
import pytest

from overstory import parse_filter
from overstory.kernels.steiner import BEST, PLAN, steiner_trees
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import topology
from overstory.model.plan import Header, Plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.bound import bound_here
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.rules import metered
from overstory.pipeline.steiner import card_of, crossed, crossings_of, ground_of, without_links
from overstory.planners import defaults
from overstory.planners.chains import make_plan
from overstory.planners.references import score_reference

from ..plans import events_of, random_plan, random_scenario
from .meter import counted_here, meter


@pytest.mark.parametrize("seed", range(24))
def test_every_event_takes_its_tree(seed: int, tmp_path: Path) -> None:
    """Counted once more, one event after the other."""
    dice = random.Random(seed)
    scenario = random_scenario(dice, tmp_path / "net")
    plan = without_links(scenario, random_plan(dice, scenario).attachments)
    known, rows, _ = counted_here(scenario, plan)
    ground = ground_of(scenario.network, known.rules)
    found = crossed([rows], known.rules, known.publishers, *ground, PLAN)
    brokers = dict(zip(*(plan.attachments[name].to_pylist() for name in ("client", "broker")), strict=True))
    wanted = [
        (parse_filter(row["filter"]), brokers[row["client"]], row["client"] if row["no_local"] else None)
        for row in scenario.subscriptions.to_pylist()
    ]
    frames, sizes = np.zeros_like(found.frames), np.zeros_like(found.bytes)
    for event in events_of(scenario):
        attributes = {**event.attributes, "$broker": brokers[event.publisher]}
        there = {broker for each, broker, own in wanted if own != event.publisher and each.matches(attributes)}
        ends = scenario.network.positions(np.array([brokers[event.publisher], *sorted(there)]))
        tree = steiner_trees(*ground, ends[:1], np.array([0, len(there)]), ends[1:], PLAN)
        frames[event.id % 3, tree.links] += 1
        sizes[event.id % 3, tree.links] += event.bytes
    assert np.array_equal(found.frames, frames)
    assert np.array_equal(found.bytes, sizes)


@pytest.mark.parametrize("seed", range(24))
def test_a_reference_costs_no_less_than_the_bound_and_no_upkeep(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    scenario = random_scenario(dice, tmp_path / "net")
    tables = defaults.tables(scenario) | {"attachments": random_plan(dice, scenario).attachments}
    base = Plan.of(Header("", scenario.fingerprint), tables)
    known, rows, totals = counted_here(scenario, base)
    ground = ground_of(scenario.network, known.rules)
    crossings = crossed([rows], known.rules, known.publishers, *ground, PLAN)
    card = card_of(scenario, base, known, totals, crossings, bound_here(rows, known, scenario.network))
    whole, _ = meter(scenario, base)
    assert card.lower_bound <= card.core
    assert card.lower_bound_held_out <= card.cost_held_out
    assert (card.access, card.deliveries, card.lower_bound) == (whole.access, whole.deliveries, whole.lower_bound)
    assert card.cost == pytest.approx(card.core + card.access)
    assert (card.upkeep, card.flows, card.duplicates, card.mean_delay, card.exceeded) == (0, 0, 0, None, ())
    assert card.core == pytest.approx(
        scenario.settings.prices.core * (crossings.bytes.sum(axis=0) * scenario.network.prices).sum()
    )


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    folder = tmp_path_factory.mktemp("steiner") / "net"
    make_localized(folder, topology("waxman", 25, 1), Localized(keywords=30, events=2000, locality=0.3), seed=4)
    return read_scenario(folder)


def test_crossings_do_not_depend_on_partitions(pipeline: Pipeline, scenario: Scenario, tmp_path: Path) -> None:
    attachments = defaults.attachments(scenario)
    known = metered(scenario, without_links(scenario, attachments), pipeline.publishers(scenario))
    rows = pipeline.reduce(scenario, known.predicates)
    expected = pipeline.steiner(scenario, attachments, PLAN)
    again = crossings_of(rows.repartition(7, "low"), known, scenario.network, PLAN, tmp_path)
    assert np.array_equal(again.bytes, expected.bytes)
    assert np.array_equal(again.frames, expected.frames)
    assert np.array_equal(pipeline.multiplicities(scenario, attachments, PLAN), expected.bytes[0])


def test_no_plan_is_as_cheap_as_a_tree_for_each_event(pipeline: Pipeline, scenario: Scenario) -> None:
    card = score_reference("opt", scenario, pipeline, {}, 10**8)
    plan = pipeline.score(scenario, make_plan("spt", scenario, pipeline, {})).card
    assert plan.lower_bound == card.lower_bound <= card.core < plan.core
    assert card.cost_fit < plan.cost_fit
    assert card.cost_held_out < plan.cost_held_out
    more = score_reference("opt", scenario, pipeline, {"effort": BEST}, 10**8)
    assert card.lower_bound <= more.core <= card.core
