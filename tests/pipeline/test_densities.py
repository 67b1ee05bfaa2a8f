"""What publishers publish, where it is said instead of counted: against a lattice of values, and against the log."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from overstory.errors import DataError, UsageError
from overstory.lab.quadratic import Quadratic, make_quadratic
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.tables import CHANGES, DENSITIES
from overstory.pipeline.boxes import boxes_of
from overstory.pipeline.densities import ADVERTISEMENTS, DENSITY, spread
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.planners.overlay.traffic import traffic_of

from ..planners.steps import Steps

GRID = {"value": [at / 10 for at in range(1, 10)]}


def quadratic(folder: Path, seed: int = 1, **given: object) -> Scenario:
    usual: dict[str, object] = {"users": 30, "brokers": 4, "channels": 10, "events": 3000, "grid": 20}
    make_quadratic(folder, Quadratic(**(usual | given)), seed)  # type: ignore[arg-type]
    return read_scenario(folder)


def saying(scenario: Scenario, rows: list[tuple[int, str, float]]) -> Scenario:
    columns = dict(zip(DENSITIES.schema.names, map(list, zip(*rows, strict=True)), strict=True))
    return replace(scenario, densities=pa.table(columns, DENSITIES.schema))


def announcing(scenario: Scenario, said: dict[int, str]) -> Scenario:
    count = len(said)
    columns = {
        "time": [-1.0] * count,
        "operation": ["announce"] * count,
        "client": list(said),
        "subscription": [None] * count,
        "filter": list(said.values()),
        "broker": [None] * count,
    }
    return replace(scenario, changes=pa.table(columns, CHANGES.schema))


def drawn_filter(draw: random.Random) -> str:
    """Ranges with ends on the lattice, one or two of them that do not overlap."""
    ends = sorted(draw.sample(range(41), 4))
    low, high, lower, higher = (end / 40 for end in ends)
    one = f"value >= {low} AND value < {high}"
    return one if draw.random() < 0.5 else f"({one}) OR (value > {lower} AND value <= {higher})"


@pytest.mark.parametrize("seed", range(5))
def test_densities_equal_counting_on_a_lattice(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    scenario = quadratic(tmp_path / "scenario", events=50)
    clients = scenario.clients["id"].to_pylist()
    scenario = saying(scenario, [(draw.choice(clients), drawn_filter(draw), draw.uniform(0, 9)) for _ in range(40)])
    found, plain = (steps.rates(scenario, GRID, DENSITY) for steps in (Workbench(scenario), Steps()))
    assert found.publisher.tolist() == plain.publisher.tolist()
    assert found.channel.tolist() == plain.channel.tolist()
    assert np.allclose(found.bytes, plain.bytes)
    assert np.isclose(found.bytes.sum(), scenario.densities["bytes"].to_numpy().sum())


def shares(text: str, grid: dict[str, list[float]], whole: frozenset[str] = frozenset()) -> dict[int, float]:
    _, channel, share = spread(boxes_of(pa.array([text])), grid, whole)
    return dict(zip(channel.tolist(), np.round(share, 9).tolist(), strict=True))


def test_what_even_means() -> None:
    two = {"a": [0.0, 1.0, 2.0], "b": [0.0, 1.0]}  # bins 0 to 4, and 0 to 3
    assert shares("a >= 0.5 AND a < 1.5 AND b >= 0.0 AND b < 1.0", two) == {1 * 4 + 1: 0.5, 2 * 4 + 1: 0.5}
    assert shares("a >= 1.0 AND a < 2.0", two) == {2 * 4 + 1: 1.0}  # of b it says nothing: all that filters speak of
    assert shares("a IS NULL AND b = 0.5", two) == {4 * 4 + 1: 1.0}
    one = {"a": [0.0, 1.0, 2.0]}
    assert shares("a >= 1.0", one) == {2: 1.0}  # no filter tells a value above 2 from another
    assert shares("a > 5.0", one) == {3: 1.0}
    assert shares("TRUE", one) == {1: 0.5, 2: 0.5}
    assert shares("a = 0.5 OR a = 1.5 OR a = 1.7", one) == {1: 0.333333333, 2: 0.666666667}
    assert shares("a = 0.5 OR (a >= 1.0 AND a < 2.0)", one) == {2: 1.0}
    assert shares("b > 3", {}) == {0: 1.0}


def test_whole_numbers_count_alike() -> None:
    grid = {"n": [2.0, np.nextafter(4.0, 5.0)]}  # the ends of the filter n >= 2 AND n <= 4
    assert shares("n >= 1 AND n <= 6", grid, frozenset({"n"})) == {0: 0.166666667, 1: 0.5, 2: 0.333333333}
    assert shares("n > 1 AND n < 5", grid, frozenset({"n"})) == {1: 1.0}
    assert shares("n IN (4, 5)", grid, frozenset({"n"})) == {1: 0.5, 2: 0.5}


def test_a_given_density_is_what_long_logs_come_to(tmp_path: Path) -> None:
    scenario = quadratic(tmp_path / "long", events=60_000, densities=40)
    bench = Workbench(scenario)
    log, said = (traffic_of(scenario, bench, 20, source=source) for source in ("log", DENSITY))
    assert log.texts == said.texts
    assert (log.seen, said.seen) == (bench._shown.num_rows, None)
    assert np.allclose(log.total, said.total, rtol=0.05)
    assert np.allclose(log.demand, said.demand, rtol=0.15)
    assert np.abs(log.sent - said.sent).sum() < 0.05 * said.sent.sum()


def test_plans_by_a_density_are_as_good_as_by_a_long_log(tmp_path: Path) -> None:
    """Scored by the meter on the same log. A density has no noise, a log of a few events much of it."""
    scenario = quadratic(tmp_path / "long", events=20_000, densities=40, width=0.05, capacity=0.0)
    bench, little = Workbench(scenario), Workbench(scenario, share=0.001)
    log, said = (
        bench.score(make_plan("overlay-search", scenario, bench, {"traffic": source}, 1)).cost
        for source in ("log", DENSITY)
    )
    poor = bench.score(make_plan("overlay-search", scenario, little, {}, 1)).cost
    assert said <= 1.02 * log
    assert said < poor, "a thousandth of the log tells less"


def test_advertisements_say_where_and_the_log_says_how_much(tmp_path: Path) -> None:
    scenario = quadratic(tmp_path / "scenario", publishers=0.5)
    bench = Workbench(scenario)
    counted = bench.histograms(scenario, GRID)
    loud, other = np.unique(counted.publisher)[:2].tolist()
    silent = min(set(scenario.clients["id"].to_pylist()) - set(counted.publisher.tolist()))
    announced = announcing(scenario, {loud: "value >= 0.2 AND value < 0.4", silent: "value < 0.1", other: "FALSE"})
    found = Workbench(announced).rates(announced, GRID, ADVERTISEMENTS)
    mine = found.publisher == loud
    assert found.channel[mine].tolist() == [2, 3]
    assert np.allclose(found.bytes[mine], counted.bytes[counted.publisher == loud].sum() / 0.8 / 2)
    usual = counted.bytes.sum() / 0.8 / len(np.unique(counted.publisher))
    assert np.allclose(found.bytes[found.publisher == silent].sum(), usual)
    assert other not in found.publisher
    kept = ~np.isin(counted.publisher, [loud, other])
    others = ~np.isin(found.publisher, [loud, silent])
    sums = {part: counted.bytes[kept & (counted.part == part)].sum() for part in (0, 1)}
    assert np.isclose(found.bytes[others].sum(), sum(sums.values()) / 0.8)
    assert set(found.publisher[others].tolist()) == set(counted.publisher[kept].tolist())


def test_advertisements_that_tell_nothing_new_change_nothing(tmp_path: Path) -> None:
    """Every publisher announces one sub-channel, the only one that it publishes in."""
    scenario = quadratic(tmp_path / "scenario")
    bench = Workbench(scenario)
    plain = traffic_of(scenario, bench, 1)
    said = dict.fromkeys(scenario.clients["id"].to_pylist(), "value >= 0.0 AND value < 1.0")
    told = announcing(scenario, said)
    assert np.allclose(traffic_of(told, Workbench(told), 1, source=ADVERTISEMENTS).sent, plain.sent)


def test_the_pipeline_says_the_same(pipeline: Pipeline, tmp_path: Path) -> None:
    scenario = quadratic(tmp_path / "scenario", densities=12)
    scenario = announcing(scenario, {4: "value < 0.5", 5: "value >= 0.3 AND value <= 0.35"})
    for source in (DENSITY, ADVERTISEMENTS):
        for grid in (GRID, {}):
            one, other = (steps.rates(scenario, grid, source) for steps in (pipeline, Workbench(scenario)))
            assert all(np.array_equal(left, right) for left, right in zip(one, other, strict=True))


def test_mistakes_are_named(pipeline: Pipeline, tmp_path: Path) -> None:
    scenario = quadratic(tmp_path / "scenario", events=50)
    bench = Workbench(scenario)
    for source, what in ((DENSITY, "has no table densities"), (ADVERTISEMENTS, "no client has announced anything")):
        with pytest.raises(UsageError, match=what):
            make_plan("greedy-packing", scenario, bench, {"traffic": source})
    with pytest.raises(UsageError, match="traffic=guess: it is one of log, density, advertisements"):
        make_plan("greedy-packing", scenario, bench, {"traffic": "guess"})
    nothing = saying(scenario, [(4, "value > 0.5", 1.0), (5, "value > 1 AND value < 0", 1.0)])
    with pytest.raises(DataError, match="densities row 2 column filter: no event can match it"):
        Workbench(nothing).rates(nothing, GRID, DENSITY)
    wrong = saying(scenario, [(4, "value >", 1.0)])
    with pytest.raises(DataError, match="densities row 1 column filter"):
        pipeline.validate(replace(wrong, folder=scenario.folder))
