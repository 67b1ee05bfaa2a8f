"""Planners that attach clients against oracles: SteinLib's optima, assignment by scipy, and cases that can be told."""

import csv
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy.optimize import linear_sum_assignment

from overstory.errors import UsageError
from overstory.lab.overlay_example import make_example
from overstory.lab.overlay_steinlib import EVENTS_, make_reduction
from overstory.lab.quadratic import Quadratic, make_quadratic
from overstory.lab.real_overlays import RealOverlay, make_real
from overstory.lab.stp import read_stp
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.workbench import Workbench, parts_of
from overstory.planners.chains import make_plan
from overstory.planners.overlay.instance import Instance
from overstory.planners.overlay.mixing import votes_of
from overstory.planners.overlay.search import searched
from overstory.planners.overlay.traffic import SEEN

STEINLIB = Path(__file__).parents[4] / "shared" / "data" / "steinlib"


def optima() -> dict[str, float]:
    with (STEINLIB / "optima.csv").open(newline="") as file:
        return {row["filename"]: float(row["opt"]) for row in csv.DictReader(file) if row["group"] == "B"}


@pytest.mark.parametrize("name", ["b01.stp", "b04.stp", "b07.stp"])
def test_exact_equals_known_optima(name: str, tmp_path: Path) -> None:
    if not STEINLIB.exists():
        pytest.skip("SteinLib is not there")
    make_reduction(tmp_path / "steinlib", read_stp(STEINLIB / "B" / name))
    scenario = read_scenario(tmp_path / "steinlib")
    bench = Workbench(scenario)
    exact, ours = (
        bench.score(make_plan(planner, scenario, bench, {})) for planner in ("overlay-exact", "overlay-search")
    )
    assert exact.cost == EVENTS_ * optima()[name] == exact.core
    assert exact.cost <= ours.cost <= 1.05 * exact.cost


def test_minimum_cost_flow_is_optimal_where_core_is_free_and_capacities_are_tight(tmp_path: Path) -> None:
    """Twenty clients with the same traffic, five brokers with room for four each: an assignment problem."""
    scenario = _with_equal_clients(tmp_path / "equal", 20, 5)
    instance = Instance(scenario, Workbench(scenario), "auto", fine=True)
    instance.capacity = np.full(5, 4.0 * instance.traffic.demand[0])
    price = scenario.settings.prices
    assert np.ptp(instance.traffic.demand) == 0 == price.core
    at = searched(instance, 8, 1).at
    assert (np.bincount(at, minlength=5) == 4).all()
    access = np.stack([instance.access_at(np.full(20, broker)) for broker in range(5)], axis=1)
    slots = np.repeat(access, 4, axis=1)
    rows, columns = linear_sum_assignment(slots)
    assert np.isclose(instance.access_at(at).sum(), slots[rows, columns].sum(), rtol=1e-5)
    nearest = access.min(axis=1).sum()
    assert nearest < 0.999 * slots[rows, columns].sum()  # capacities do bind


def _with_equal_clients(folder: Path, users: int, brokers: int) -> Scenario:
    """Everybody publishes as much in each part of the log, and wants everything; core is free."""
    made = Quadratic(users=users, brokers=brokers, events=users, capacity=0.0)
    make_quadratic(folder, made, 3)
    scenario = read_scenario(folder)
    events = pq.read_table(scenario.events)
    whole = pa.concat_tables([events] * 40)
    count = whole.num_rows
    ids = np.arange(count)
    part = parts_of(ids)
    publisher = np.empty(count, np.int64)
    for which in range(3):
        mine = np.flatnonzero(part == which)
        publisher[mine] = brokers + np.arange(len(mine)) % users
    keep = np.concatenate(
        [np.flatnonzero(part == which)[: (part == which).sum() // users * users] for which in range(3)]
    )
    columns = {"$id": ids, "$time": ids.astype(np.float64), "$publisher": publisher}
    for name, values in columns.items():
        whole = whole.set_column(whole.schema.get_field_index(name), name, pa.array(values))
    pq.write_table(whole.take(pa.array(np.sort(keep))), scenario.events)
    everything = pa.array(["value >= 0.0 AND value < 1.0"] * users)
    at = scenario.subscriptions.schema.get_field_index("filter")
    free = scenario.settings.prices.__class__(core=0.0, access=1.0)
    settings = msgspec.structs.replace(scenario.settings, prices=free)
    return replace(
        scenario, settings=settings, subscriptions=scenario.subscriptions.set_column(at, "filter", everything)
    )


def test_mixing_attaches_everybody_to_one_broker_where_prices_are_metric(tmp_path: Path) -> None:
    """With one publisher and one channel all votes are for the broker where it enters: no tree ever leaves it."""
    voted = {}
    for law in ("metric", "independent"):
        made = Quadratic(
            users=30, brokers=5, access_core_ratio=0.5, publishers=1e-9, capacity=0.0, events=200, prices=law
        )
        make_quadratic(tmp_path / law, made, 1)
        scenario = read_scenario(tmp_path / law)
        voted[law] = (votes_of(Instance(scenario, Workbench(scenario), 1)) > 0).any(axis=0).sum()
    assert voted["metric"] == 1 < voted["independent"]


def test_channels_without_subscribers_cost_their_publishers_alone(tmp_path: Path) -> None:
    make_example(tmp_path / "example")
    scenario = read_scenario(tmp_path / "example")
    few = replace(scenario, subscriptions=scenario.subscriptions.slice(0, 1))
    bench = Workbench(few)
    instance = Instance(few, bench, "auto", fine=True)
    assert instance.traffic.unwanted > 0
    assert np.isclose(instance.traffic.sent.sum() * SEEN, (np.asarray(bench._shown.column("$bytes"))).sum())
    for name in ("greedy-packing", "overlay-search", "overlay-exact"):
        card = bench.score(make_plan(name, few, bench, {}))
        assert card.exceeded == ()
        assert card.cost >= float(bench.bound_total)


def test_clients_without_traffic_take_the_broker_where_a_byte_is_cheapest(tmp_path: Path) -> None:
    made = Quadratic(users=30, brokers=4, publishers=1e-9, events=50, width=0.01, capacity=0.0)
    make_quadratic(tmp_path / "idle", made, 2)
    scenario = read_scenario(tmp_path / "idle")
    bench = Workbench(scenario)
    instance = Instance(scenario, bench, "auto", fine=True)
    idle = instance.traffic.demand == 0
    assert idle.any()
    nearest = instance.prices.argmin(axis=1)
    for name in ("greedy-packing", "overlay-search", "overlay-primal-dual"):
        brokers = make_plan(name, scenario, bench, {}).attachments["broker"].to_numpy()
        assert np.array_equal(scenario.network.positions(brokers)[idle], nearest[idle]), name


def test_the_plan_says_which_capacities_bind(tmp_path: Path) -> None:
    make_quadratic(tmp_path / "tight", Quadratic(users=60, brokers=4, events=4000, capacity=1.15), 1)
    scenario = read_scenario(tmp_path / "tight")
    plan = make_plan("overlay-search", scenario, Workbench(scenario), {})
    full = plan.header.attaching["full"]
    load = pc.value_counts(plan.attachments["broker"])
    assert full
    assert set(full) <= {entry["values"].as_py() for entry in load}


def test_whoever_stops_after_so_many_moves_pays_for_it(tmp_path: Path) -> None:
    make_quadratic(
        tmp_path / "moves", Quadratic(users=80, brokers=5, events=4000, width=0.05, access_core_ratio=0.2), 1
    )
    scenario = read_scenario(tmp_path / "moves")
    bench = Workbench(scenario)
    base = make_plan("greedy-packing", scenario, bench, {"core": "steiner"})
    before, costs = base.attachments["broker"].to_numpy(), []
    with pytest.raises(UsageError, match="moves=none: it is all, or a number"):
        make_plan("overlay-search", scenario, bench, {"moves": "none"})
    for most in (1, 10, "all"):
        plan = make_plan("greedy-packing+overlay-search", scenario, bench, {"core": "steiner", "moves": most}, 1)
        moved = int((plan.attachments["broker"].to_numpy() != before).sum())
        assert moved == most or (most == "all" and moved > 10)
        card = bench.score(plan)
        assert card.exceeded == ()
        costs.append(card.cost)
    assert bench.score(base).cost > costs[0] > costs[1] > costs[2]


def test_users_that_know_few_brokers_are_attached_to_these(tmp_path: Path) -> None:
    make_quadratic(tmp_path / "known", Quadratic(users=40, brokers=6, events=400, known=2), 1)
    scenario = read_scenario(tmp_path / "known")
    bench = Workbench(scenario)
    pairs = set(zip(*(scenario.links[name].to_pylist() for name in ("source", "target")), strict=True))
    for name in ("random", "greedy-packing", "overlay-search"):
        plan = make_plan(name, scenario, bench, {}, 1)
        attached = zip(*(plan.attachments[column].to_pylist() for column in ("client", "broker")), strict=True)
        assert all(pair in pairs for pair in attached), name
        assert bench.score(plan).cost >= float(bench.bound_total) > 0


@pytest.mark.parametrize("places", ["aws", "planetlab"])
def test_real_places_and_interests(places: str, tmp_path: Path) -> None:
    data = STEINLIB.parent
    if not (data / "github_watches").exists():
        pytest.skip("the data are not there")
    make_real(tmp_path / places, data, RealOverlay(places=places, users=60, repositories=20, events=400), 1)
    scenario = read_scenario(tmp_path / places)
    prices = scenario.network.weighted(scenario.network.prices).toarray()
    if places == "aws":
        assert not np.allclose(prices, prices.T)
    else:
        three = prices[:, None, :] > prices[:, :, None] + prices[None, :, :]
        assert 0.01 < three.mean() < 0.15  # 5.8 % of the triples of all sites
    bench = Workbench(scenario)
    plans = {name: make_plan(name, scenario, bench, {}) for name in ("greedy-packing", "overlay-search")}
    costs = {name: bench.score(plan).cost for name, plan in plans.items()}
    assert float(bench.bound_total) <= costs["overlay-search"] <= costs["greedy-packing"]
