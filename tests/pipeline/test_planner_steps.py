"""Histograms and candidates, on Spark and on a workbench, against plain loops."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from overstory.errors import DataError, UsageError
from overstory.model.scenario import Scenario
from overstory.model.settings import Access, Settings
from overstory.model.tables import BROKERS, CLIENTS
from overstory.pipeline import candidates as module
from overstory.pipeline.candidates import limits_of
from overstory.pipeline.match import HELD_OUT
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.workbench import Workbench, parts_of

from ..planners.steps import Steps, plain_channel
from ..plans import events_of
from ..tables import Row, events_table, scenario_of, scenario_tables, table_of

CHANNELS = [
    ["x < 2", "x >= 2 AND kind = 'a'", "x >= 2 AND kind <> 'a'", "x IS NULL OR (x >= 2 AND kind IS NULL)"],
    {"x": [0.0, 1.5, 3.0]},
    {"x": [1.0], "n": [0.0, 5.0]},
]


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    dice = np.random.default_rng(1)
    events: list[Row] = [
        (
            int(dice.integers(10, 14)),
            int(dice.integers(1, 9)),
            None if dice.random() < 0.1 else float(dice.integers(-1, 5)),
            None if dice.random() < 0.1 else int(dice.integers(-1, 9)),
            (None, "a", "b")[int(dice.integers(3))],
        )
        for _ in range(400)
    ]
    types = {"x": pa.float64(), "n": pa.int64(), "kind": pa.string()}
    tables = scenario_tables([1, 2], [(1, 2, 1.0), (2, 1, 1.0)], [10, 11, 12, 13], [(0, 10, "x < 1", False)])
    return scenario_of(tmp_path_factory.mktemp("steps") / "scenario", Settings(), tables, events_table(events, types))


def counted(scenario: Scenario, channels: list[str] | dict[str, list[float]]) -> list[tuple[int, ...]]:
    """Event by event: part, publisher, channel, events, bytes."""
    sums: dict[tuple[int, int, int], list[int]] = {}
    for event in events_of(scenario):
        part = int(parts_of(np.array([event.id]))[0])
        if part < HELD_OUT:
            key = part, event.publisher, plain_channel(channels, event.attributes)
            row = sums.setdefault(key, [0, 0])
            row[0] += 1
            row[1] += event.bytes
    return [(*key, *sums[key]) for key in sorted(sums)]


@pytest.mark.parametrize("channels", CHANNELS)
def test_histograms(channels: list[str] | dict[str, list[float]], scenario: Scenario, pipeline: Pipeline) -> None:
    expected = counted(scenario, channels)
    assert len(expected) > 8
    for cores in (1, 3):
        pipeline.spark.conf.set("spark.sql.shuffle.partitions", cores)
        found = pipeline.histograms(scenario, channels)
        assert list(zip(*(column.tolist() for column in found), strict=True)) == expected
    here = Workbench(scenario).histograms(scenario, channels)
    assert all(np.array_equal(one, other) for one, other in zip(here, found, strict=True))


def test_a_grid_on_an_edge(scenario: Scenario) -> None:
    """A bin begins at its edge; below all edges there is one, and absent values have the last."""
    found = Workbench(scenario).histograms(scenario, {"x": [0.0, 2.0]})
    values = {None: 3, -1.0: 0, 0.0: 1, 1.0: 1, 2.0: 2, 4.0: 2}
    seen = {plain_channel({"x": [0.0, 2.0]}, {} if value is None else {"x": value}) for value in values}
    assert seen == {0, 1, 2, 3} == set(found.channel.tolist())


def test_channels_that_are_no_partition(scenario: Scenario, pipeline: Pipeline) -> None:
    for steps in (pipeline, Workbench(scenario)):
        with pytest.raises(UsageError, match=r"match none of them, and 0 several"):
            steps.histograms(scenario, ["x < 2"])
        with pytest.raises(UsageError, match=r"0 events match none of them, and [0-9]+ several"):
            steps.histograms(scenario, ["TRUE", "x < 2"])


def test_channels_that_are_wrong(scenario: Scenario) -> None:
    workbench = Workbench(scenario)
    with pytest.raises(UsageError, match="'kind' is no attribute that is a number"):
        workbench.histograms(scenario, {"kind": [1.0]})
    with pytest.raises(UsageError, match="'x' do not ascend"):
        workbench.histograms(scenario, {"x": [1.0, 1.0]})
    with pytest.raises(DataError, match="the channels are not right"):
        workbench.histograms(scenario, ["x <"])
    with pytest.raises(DataError, match="broker"):
        workbench.histograms(scenario, ["$broker = 1"])


def placed(folder: Path, brokers: int, clients: int, metric: Access, seed: int, listed: list[Row]) -> Scenario:
    dice = np.random.default_rng(seed)
    ids = list(range(1, brokers + 1))
    links = [link for at in ids[1:] for link in ((at - 1, at, 1.0), (at, at - 1, 1.0))]
    tables = scenario_tables([], [*links, *listed], [], [])
    x, y = dice.integers(0, 5, (2, brokers + clients)).astype(float)
    tables["brokers"] = table_of(BROKERS, [(id_, None, x[id_ - 1], y[id_ - 1]) for id_ in ids])
    homes = [int(dice.integers(1, brokers + 1)) if at % 3 else None for at in range(clients)]
    rows = [(1000 + at, home, x[brokers + at], y[brokers + at]) for at, home in enumerate(homes)]
    tables["clients"] = table_of(CLIENTS, rows)
    return scenario_of(folder, Settings(access=metric), tables, events_table([(1000, 1, 1.0)], {"x": pa.float64()}))


LISTED: list[Row] = [(1000, 1, 5.0), (2, 1000, 1.0), (3, 1001, 2.5), (1002, 3, 9.0)]


@pytest.mark.parametrize("metric", [Access(), Access(metric="euclidean", price=2.0, delay=1.5)])
@pytest.mark.parametrize("brokers", [3, 64, 70])
def test_candidates(metric: Access, brokers: int, tmp_path: Path, pipeline: Pipeline) -> None:
    scenario = placed(tmp_path / "scenario", brokers, 9, metric, brokers, LISTED)
    before = np.arange(brokers) / 8
    for given_ in ({"limit": 3.0}, {"limit": 3.0, "before": before}, {"limit": 4.0, "by": "price"}, {}):
        plain = Steps().candidates(scenario, **given_)
        for steps in (pipeline, Workbench(scenario)):
            found = steps.candidates(scenario, **given_)
            assert np.array_equal(found.clients, plain.clients)
            assert np.array_equal(found.words, plain.words)
    assert plain.words.any()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10, deadline=None)
@given(at_once=st.integers(1, 40))
def test_blocks_of_any_size_give_the_same(at_once: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("blocks") / "scenario"
    scenario = placed(folder, 5, 12, Access(metric="euclidean", delay=1.0), 3, [])
    whole = Workbench(scenario).candidates(scenario, 2.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PAIRS_AT_ONCE", at_once)
        assert np.array_equal(Workbench(scenario).candidates(scenario, 2.0).words, whole.words)


def test_what_a_client_allows_comes_before_the_usual_limit(tmp_path: Path) -> None:
    scenario = placed(tmp_path / "scenario", 3, 3, Access(metric="euclidean", delay=1.0), 1, [])
    assert limits_of(scenario, 2.0).tolist() == [2.0] * 3
    assert limits_of(scenario, None).tolist() == [np.inf] * 3
    names = ("folder", "settings", "brokers", "links", "subscriptions", "changes")
    clients = scenario.clients
    if "latest" in clients.column_names:
        clients = clients.drop_columns(["latest"])
    clients = clients.append_column("latest", pa.array([1.0, None, 7.0]))
    other = Scenario(**{name: getattr(scenario, name) for name in names}, clients=clients)
    assert limits_of(other, 2.0).tolist() == [1.0, 2.0, 7.0]


def test_candidates_that_are_asked_for_in_a_wrong_way(tmp_path: Path) -> None:
    scenario = placed(tmp_path / "scenario", 3, 3, Access(), 1, [])
    with pytest.raises(UsageError, match="by=distance"):
        Workbench(scenario).candidates(scenario, by="distance")
    with pytest.raises(UsageError, match="2 values, and there are 3 brokers"):
        Workbench(scenario).candidates(scenario, before=np.zeros(2))
