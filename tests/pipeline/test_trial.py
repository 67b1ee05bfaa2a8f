"""Trials: the meter on some events, against the score of a log of just these."""

import dataclasses
import random
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory.model.scenario import Scenario
from overstory.pipeline.trial import some_of, tried
from overstory.pipeline.workbench import Workbench

from ..plans import random_plan, random_scenario
from .meter import meter, with_parts


@pytest.mark.parametrize("seed", range(20))
def test_a_trial_on_all_events_is_the_score(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    scenario = random_scenario(dice, tmp_path / "scenario")
    plan, log = random_plan(dice, scenario), pq.read_table(scenario.events).combine_chunks()
    publishers = np.unique(log["$publisher"].to_numpy())
    if not log.num_rows:
        return
    found = tried(scenario, plan, publishers, with_parts(log), 3 * log.num_rows)
    card, _ = meter(scenario, plan)
    assert found.cost == pytest.approx(3 * (card.core + card.access) + card.upkeep)
    assert found.core == pytest.approx(3 * card.core)
    assert found.upkeep == pytest.approx(card.upkeep)
    assert (found.frames, found.entries) == (3 * card.frames, card.entries_core)
    bare, _ = meter(without_headers(scenario), plan)
    assert found.header_bytes == 3 * (card.core_bytes - bare.core_bytes)


def without_headers(scenario: Scenario) -> Scenario:
    return dataclasses.replace(scenario, settings=msgspec.structs.replace(scenario.settings, headers=False))


def test_some_events_of_a_part(tmp_path: Path) -> None:
    ids = pa.array(np.arange(100)[::-1])
    log = pa.RecordBatch.from_arrays([ids, pa.array(np.arange(100) % 3)], ["$id", "$part"])
    few, more = (some_of(log, 1, most) for most in (5, 20))
    assert few.num_rows == 5
    assert set(few.column("$part").to_pylist()) == {1}
    assert set(few.column("$id").to_pylist()) < set(more.column("$id").to_pylist())
    assert few.column("$id").to_pylist() == sorted(few.column("$id").to_pylist())
    assert some_of(log, 1, 1000).num_rows == 33


def test_without_events_a_plan_costs_its_upkeep(tmp_path: Path) -> None:
    scenario = random_scenario(random.Random(1), tmp_path / "scenario")
    plan = random_plan(random.Random(1), scenario)
    events = Workbench(scenario).some_events(scenario, 0, 10).slice(0, 0)
    found = tried(scenario, plan, Workbench(scenario).publishers(scenario), events, 10)
    assert found.cost == found.upkeep > 0 == found.core
