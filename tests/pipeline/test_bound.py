"""A bound is never rounded up: with hostile numbers, and without any tolerance."""

import random
from dataclasses import replace
from fractions import Fraction
from itertools import count
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory.lab.quadratic import Quadratic, make_quadratic
from overstory.model.plan import Header, Plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.bound import Scaled, bound_from, bound_here, bounded, instances_of, scaled
from overstory.pipeline.effort import ALL, NONE, Chosen
from overstory.pipeline.steiner import card_of, crossed, ground_of
from overstory.pipeline.workbench import Workbench
from overstory.planners import defaults
from overstory.planners.chains import make_plan

from ..planners.steps import Steps
from ..plans import events_of, random_plan, random_scenario
from .meter import counted_here, meter

PRICES = {
    "not dyadic": (0.1, 0.3, 1 / 3, 0.7),
    "of egress, in dollars": (9e-11, 8.7e-11, 2.1e-11),
    "huge": (2e6, 3e6 + 0.1, 1e12 / 7),
    "of all sizes": (5e-324, 1e-300, 9e-11, 0.1, 1.0, 2e6, 1e200),
    "nearly one": (1.0, 1 + 2**-52, 1 - 2**-53),
}
SIZES = (1, 7, 10**6 + 3, 30 * 10**12, 3 * 10**15 + 1)
CORES = (0.1, 1.0, 9e-11, 1 / 3, 2e6, 0.0)


def drawn(dice: random.Random, folder: Path) -> Scenario:
    """One with events."""
    made = (random_scenario(dice, folder / str(number)) for number in count())
    return next(scenario for scenario in made if events_of(scenario))


def hostile(scenario: Scenario, dice: random.Random, prices: tuple[float, ...]) -> Scenario:
    """The same with other prices, and with other sizes of events."""
    drawn = pa.array([dice.choice(prices) for _ in range(scenario.links.num_rows)])
    links = scenario.links.set_column(scenario.links.schema.get_field_index("price"), "price", drawn)
    settings = msgspec.structs.replace(
        scenario.settings, prices=msgspec.structs.replace(scenario.settings.prices, core=dice.choice(CORES))
    )
    events = pq.read_table(scenario.events)
    sizes = pa.array([dice.choice(SIZES) for _ in range(events.num_rows)], pa.int64())
    pq.write_table(events.set_column(events.schema.get_field_index("$bytes"), "$bytes", sizes), scenario.events)
    return replace(scenario, links=links, settings=settings)


@pytest.mark.parametrize("seed", range(16))
@pytest.mark.parametrize("prices", PRICES)
def test_no_bound_is_above_the_cost(seed: int, prices: str, tmp_path: Path) -> None:
    dice = random.Random(f"{seed} {prices}")
    scenario = hostile(drawn(dice, tmp_path), dice, PRICES[prices])
    plans = [
        random_plan(dice, scenario),
        make_plan("spt", scenario, Steps(), {}),
        make_plan("direct", scenario, Steps(), {}),
    ]
    for plan in plans:
        card, traffic = meter(scenario, plan)
        assert 0 <= card.lower_bound <= card.core <= card.cost
        assert 0 <= card.lower_bound_held_out <= card.cost_held_out
        assert card.gap is None or card.gap >= 0
        links = zip(traffic.bytes.tolist(), scenario.network.prices.tolist(), strict=True)
        core = Fraction(scenario.settings.prices.core) * sum(size * Fraction(price) for size, price in links)
        assert card.core == float(core)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("prices", PRICES)
def test_neither_a_tree_for_each_event_nor_a_bound_by_distance_breaks_it(
    seed: int, prices: str, tmp_path: Path
) -> None:
    dice = random.Random(f"{seed} {prices}")
    scenario = hostile(drawn(dice, tmp_path), dice, PRICES[prices])
    base = Plan.of(Header("", scenario.fingerprint), defaults.tables(scenario))
    known, rows, totals = counted_here(scenario, base)
    ground = ground_of(scenario.network, known.rules)
    crossings = crossed([rows], known.rules, known.publishers, *ground, "plan")
    for chosen in (ALL, NONE, Chosen(2**63 - 1, 2**31)):
        bound = bound_here(rows, known, scenario.network, chosen)
        card = card_of(scenario, base, known, totals, crossings, bound)
        assert 0 <= card.lower_bound <= card.core <= card.cost
        assert 0 <= card.lower_bound_held_out <= card.cost_held_out


@pytest.mark.parametrize("unit", [9e-11, 2e6, 2.0**-500, 2.0**400])
@pytest.mark.parametrize("seed", range(10))
def test_the_bound_does_not_depend_on_the_unit_of_money(seed: int, unit: float, tmp_path: Path) -> None:
    dice = random.Random(seed)
    scenario = drawn(dice, tmp_path)
    prices = scenario.links["price"].to_numpy()
    dearer = scenario.links.set_column(scenario.links.schema.get_field_index("price"), "price", pa.array(prices * unit))
    plan = Plan.of(Header("", scenario.fingerprint), defaults.tables(scenario))
    one, other = (meter(each, plan)[0] for each in (scenario, replace(scenario, links=dearer)))
    assert other.lower_bound == pytest.approx(one.lower_bound * unit, rel=1e-12, abs=0)
    assert other.lower_bound_held_out == pytest.approx(one.lower_bound_held_out * unit, rel=1e-12, abs=0)


@pytest.mark.parametrize("price", [0.1, 9e-11, 2e6, 1e-300])
def test_the_only_way_is_bounded_by_its_price(price: float, tmp_path: Path) -> None:
    """On a tree every plan that sends nothing in vain is cheapest: the bound is its core, but for the unit."""
    for seed in range(20):
        dice = random.Random(seed)
        scenario = hostile(drawn(dice, tmp_path / str(seed)), dice, (price, price * 3, price / 7))
        bare = only(scenario, make_plan("mst", scenario, Steps(), {}))
        card, _ = meter(bare, make_plan("mst", bare, Steps(), {}))
        assert card.lower_bound <= card.core
        assert card.lower_bound >= card.core * (1 - 1e-13)
        assert card.core == 0 or np.isfinite(card.gap or 0)


@pytest.mark.parametrize("core", [0.1, 0.7, 1 / 3, 9e-11])
def test_a_price_of_core_that_is_not_dyadic_lifts_no_bound(core: float, tmp_path: Path) -> None:
    """Dyadic prices on a tree: the bound is the cost, to the last bit, so that one more would show."""
    for seed in range(20):
        dice = random.Random(seed)
        drawn_here = drawn(dice, tmp_path / str(seed))
        plan = make_plan("mst", drawn_here, Steps(), {})
        prices = msgspec.structs.replace(drawn_here.settings.prices, core=core)
        settings = msgspec.structs.replace(drawn_here.settings, prices=prices)
        scenario = replace(only(drawn_here, plan), settings=settings)
        card, _ = meter(scenario, make_plan("mst", scenario, Steps(), {}))
        assert card.lower_bound <= card.core
        assert card.lower_bound_held_out <= card.cost_held_out
        assert card.lower_bound in (card.core, np.nextafter(card.core, 0))


def only(scenario: Scenario, plan: Plan) -> Scenario:
    """Without the links between brokers that are in no tree of the plan."""
    ends = ("source", "target")
    kept = {frozenset(pair) for pair in zip(*(plan.trees[name].to_pylist() for name in ends), strict=True)}
    brokers = set(scenario.network.ids.tolist())
    pairs = [frozenset(pair) for pair in zip(*(scenario.links[name].to_pylist() for name in ends), strict=True)]
    return replace(
        scenario, links=scenario.links.filter(pa.array([not pair <= brokers or pair in kept for pair in pairs]))
    )


def test_publishers_among_those_who_want_an_event_share_its_bound(tmp_path: Path) -> None:
    """Where links cost the same both ways, one root stands for all of them; the sums of rows stay."""
    make_quadratic(tmp_path / "net", Quadratic(users=40, brokers=8, grid=12, events=900, width=0.4), 1)
    scenario = read_scenario(tmp_path / "net")
    known, rows, totals = counted_here(scenario, make_plan("random", scenario, Workbench(scenario), {}, 1))
    graph = scaled(scenario.network)
    assert graph.is_mutual
    shared, apart = (instances_of(rows, known.rules, known.publishers, given) for given in (graph, one_way(graph)))
    assert shared.num_rows < apart.num_rows < rows.num_rows
    for name in ("events", "bytes"):
        sums = [np.asarray(some.column(name)).sum() for some in (rows, shared, apart)]
        assert sums[0] == sums[1] == sums[2]
    lower, other = (
        bound_from(bounded([some], known.rules, known.publishers, graph), graph.unit) for some in (shared, apart)
    )
    core = scenario.network.prices @ totals.link_bytes.sum(axis=0)
    assert 0.9 * other.whole < lower.whole <= core


def one_way(graph: Scaled) -> Scaled:
    return graph._replace(is_mutual=False)
