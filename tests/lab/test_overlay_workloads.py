"""Workloads of the overlay problem: what the paper's section VI asks for, and sub-channels against a plain count."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory.errors import UsageError
from overstory.filters import parse_filter
from overstory.lab.overlay_example import TIMES, TRAFFIC, make_example
from overstory.lab.quadratic import Quadratic, core_prices, intervals, make_quadratic
from overstory.model.access import access_of
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.pipeline.validate import problems_of_plan
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.planners.overlay.channels import covers_of, grid_for, texts_of
from overstory.planners.overlay.traffic import SEEN, traffic_of


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    folder = tmp_path_factory.mktemp("quadratic") / "scenario"
    make_quadratic(folder, Quadratic(users=150, brokers=8, events=3000, access_core_ratio=2.0, grid=50), 3)
    return read_scenario(folder)


def test_prices_have_the_ratio_and_capacities_twice_the_traffic(scenario: Scenario) -> None:
    core = scenario.links["price"].to_numpy().mean()
    users, brokers = scenario.clients["id"].to_numpy(), scenario.brokers["id"].to_numpy()
    access = access_of(scenario).up(users[:, None], brokers).prices.mean()
    assert np.isclose(access / core, 2.0, rtol=0.02)
    values = pq.read_table(scenario.events)["value"].to_numpy()
    filters = [parse_filter(text) for text in scenario.subscriptions["filter"].to_pylist()]
    got = sum(each.matches({"value": value}) for each in filters for value in values[:300].tolist())
    capacity = scenario.brokers["capacity"].to_numpy().sum()
    assert np.isclose(capacity / 2, len(values) + got * len(values) / 300, rtol=0.1)


def test_core_prices_are_mutual_and_metric_ones_obey_the_triangle_inequality() -> None:
    draw = np.random.default_rng(1)
    places = draw.random((12, 2))
    for law in ("metric", "independent"):
        prices = core_prices(places, law, draw)
        assert np.array_equal(prices, prices.T)
        assert not np.diag(prices).any()
        if law == "metric":
            assert (prices[:, None, :] <= prices[:, :, None] + prices[None, :, :] + 1e-12).all()


def test_correlated_interests_follow_places() -> None:
    draw = np.random.default_rng(1)
    places = draw.random((500, 2))
    low, high = intervals(Quadratic(users=500, correlation=1.0, width=0.05), places, draw)
    assert np.corrcoef((low + high) / 2, places[:, 0])[0, 1] > 0.95
    assert (low < high).all()


@pytest.mark.parametrize("wrong", [{"users": 0}, {"width": 0.0}, {"prices": "free"}, {"correlation": 2.0}])
def test_parameters_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Quadratic(**wrong)  # type: ignore[arg-type]


def test_sub_channels_are_a_partition_and_covers_the_smallest(scenario: Scenario) -> None:
    bench = Workbench(scenario)
    boxes = bench.boxes(scenario)
    draw = np.random.default_rng(2)
    values = draw.random(200)
    for count, even in ((7, True), (7, False), (10_000, False)):
        grid = grid_for(boxes, count, even)
        size = len(grid["value"]) + 2
        channels = [parse_filter(text) for text in texts_of(grid, np.arange(size))]
        inside = np.array([[each.matches({"value": value}) for each in channels] for value in values.tolist()])
        assert (inside.sum(axis=1) == 1).all()
        covers = covers_of(boxes, grid)
        texts = list(dict.fromkeys(scenario.subscriptions["filter"].to_pylist()))
        for number, text in enumerate(texts[:40]):
            mine = covers.channels[covers.offsets[number] : covers.offsets[number + 1]].tolist()
            wanted = parse_filter(text)
            assert mine == [at for at, channel in enumerate(channels) if wanted.intersects(channel)]
            if count == 10_000:
                assert (covers.parts[covers.offsets[number] : covers.offsets[number + 1]] == 1).all()


def test_rates_are_those_of_the_log_without_a_table_of_users_times_users(scenario: Scenario) -> None:
    """With all ends of filters as edges, what a user gets is what it matches, user by user."""
    bench = Workbench(scenario)
    traffic = traffic_of(scenario, bench, 10_000, fine=True)
    events, part = pq.read_table(scenario.events), np.asarray(bench._events.column("$part"))
    shown = events.filter(part < 2)
    values, publishers = shown["value"].to_numpy(), shown["$publisher"].to_numpy()
    filters = dict(zip(*(scenario.subscriptions[name].to_pylist() for name in ("client", "filter")), strict=True))
    for at in range(0, len(traffic.users), 7):
        user = int(traffic.users[at])
        wanted = parse_filter(filters[user])
        assert np.isclose(traffic.sent[at] * SEEN, (publishers == user).sum())
        assert np.isclose(traffic.got[at] * SEEN, sum(wanted.matches({"value": value}) for value in values.tolist()))


def with_weight(scenario: Scenario, folder: Path) -> Scenario:
    """The same with a second attribute, which filters speak of, too."""
    draw = np.random.default_rng(4)
    events = pq.read_table(scenario.events)
    events = events.append_column("weight", pa.array(draw.integers(0, 100, events.num_rows).astype(np.float64)))
    texts = [
        f"{text} AND weight >= {low}"
        for text, low in zip(scenario.subscriptions["filter"].to_pylist(), draw.integers(0, 8, 150) * 10.0, strict=True)
    ]
    subscriptions = scenario.subscriptions.set_column(2, "filter", pa.array(texts))
    tables = {name: getattr(scenario, name) for name in ("brokers", "links", "clients")}
    write_scenario(folder, scenario.settings, tables | {"subscriptions": subscriptions}, events)
    return read_scenario(folder)


def test_a_content_space_of_two_dimensions(scenario: Scenario, tmp_path: Path) -> None:
    wide = with_weight(scenario, tmp_path / "wide")
    bench = Workbench(wide)
    traffic = traffic_of(wide, bench, 10_000, fine=True)
    assert all("weight" in text and "value" in text for text in traffic.texts)
    shown = bench._shown
    rows = [
        dict(zip(("value", "weight"), row, strict=True))
        for row in zip(*(shown.column(name).to_pylist() for name in ("value", "weight")), strict=True)
    ]
    filters = dict(zip(*(wide.subscriptions[name].to_pylist() for name in ("client", "filter")), strict=True))
    for at in range(0, len(traffic.users), 29):
        wanted = parse_filter(filters[int(traffic.users[at])])
        assert np.isclose(traffic.got[at] * SEEN, sum(wanted.matches(row) for row in rows))
    costs = {}
    for name in ("greedy-packing", "overlay-search"):
        plan = make_plan(name, wide, bench, {"core": "steiner", "channels": 30}, 1)
        assert problems_of_plan(wide, plan, bench.publishers(wide)) == []
        costs[name] = bench.score(plan).cost
    assert costs["overlay-search"] <= costs["greedy-packing"]


@pytest.mark.parametrize("channels", [10_000, 7])
def test_filters_that_name_single_values_get_what_they_match(channels: int, tmp_path: Path) -> None:
    """Exactly where each value has a channel of its own; of a wider channel an equal part of the values in it."""
    make_example(tmp_path / "example")
    scenario = read_scenario(tmp_path / "example")
    traffic = traffic_of(scenario, Workbench(scenario), channels, fine=True)
    everything = sum(map(sum, TRAFFIC)) * TIMES
    assert np.isclose(traffic.sent.sum(), everything, rtol=0.05)
    assert np.isclose(traffic.got.sum(), traffic.sent.sum(), rtol=1e-9 if channels > 100 else 0.5)


def test_the_example_is_the_same_every_time(tmp_path: Path) -> None:
    for name in ("one", "other"):
        make_example(tmp_path / name)
    one, other = (read_scenario(tmp_path / name) for name in ("one", "other"))
    assert one.fingerprint == other.fingerprint
    assert len(one.network) == 3
