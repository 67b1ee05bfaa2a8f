"""The bound on access and core together: what it leaves out for ``no_local``, and what capacities add to it."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from overstory.lab.quadratic import Quadratic, make_quadratic
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan


def made(folder: Path, seed: int, **given: object) -> Scenario:
    make_quadratic(folder, Quadratic(**given), seed)  # type: ignore[arg-type]
    return read_scenario(folder)


def with_no_local(scenario: Scenario) -> Scenario:
    at = scenario.subscriptions.schema.get_field_index("no_local")
    column = pa.array(np.ones(scenario.subscriptions.num_rows, bool))
    return replace(scenario, subscriptions=scenario.subscriptions.set_column(at, "no_local", column))


def test_nobody_pays_for_its_own_events_that_it_does_not_want(tmp_path: Path) -> None:
    """One client that publishes all, wants all and gets nothing: its uplink is all that there is to pay."""
    plain = made(tmp_path / "one", 1, users=1, brokers=3, events=50, capacity=0.0)
    everything = plain.subscriptions.set_column(2, "filter", pa.array(["value >= 0.0"]))
    plain = replace(plain, subscriptions=everything)
    costs = []
    for scenario in (plain, with_no_local(plain)):
        bench = Workbench(scenario)
        cost = bench.score(make_plan("greedy-packing", scenario, bench, {})).cost
        assert 0.999999 * cost <= float(bench.bound_total) <= cost
        costs.append(cost)
    assert costs[1] < costs[0]


@pytest.mark.parametrize("seed", range(6))
def test_capacities_lift_the_bound_and_never_above_an_optimum(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    given = {
        "users": draw.randint(8, 11),
        "brokers": 4,
        "grid": 8,
        "events": 400,
        "width": 0.3,
        "access_core_ratio": draw.choice([0.2, 1.0]),
        "prices": draw.choice(["metric", "independent"]),
    }
    loose, tight = (made(tmp_path / str(part), seed, **given, capacity=part) for part in (0.0, 1.9))
    tight = with_no_local(tight) if seed % 2 else tight
    loose = with_no_local(loose) if seed % 2 else loose
    bench = Workbench(tight)
    free, bound = Workbench(loose).bound_total, bench.bound_total
    assert bound >= free > 0
    card = bench.score(make_plan("overlay-exact", tight, bench, {}))
    assert card.exceeded == ()
    assert float(bound) <= card.cost
