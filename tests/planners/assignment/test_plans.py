"""Every planner of assignment gives lawful plans; those that promise to keep the limits do, by the meter."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from overstory.errors import UsageError
from overstory.filters import parse_filter
from overstory.lab.subscribers import Subscribers
from overstory.model.plan import Header, Plan, Value
from overstory.model.scenario import Scenario
from overstory.model.tables import PLAN_TABLES
from overstory.pipeline.workbench import Workbench
from overstory.planners import defaults
from overstory.planners.assignment.blind import last_hops
from overstory.planners.assignment.filters import fitted
from overstory.planners.assignment.listing import LISTED
from overstory.planners.assignment.outcome import decision_of
from tests.planners.assignment.worlds import HOTSPOTS, LEVELS, RSS, SMALL, leaves_of, planned, problem, world

QUICK: dict[str, dict[str, Value]] = {"assignment-search": {"effort": 1}}
WORLDS = {"google-groups": SMALL, "several levels": LEVELS, "rss": RSS, "hotspots": HOTSPOTS}
KEEPS = ("assignment-search", "balance", "slp1", "slp")


@pytest.mark.parametrize(("world", "name"), [(world, each.name) for world in WORLDS for each in LISTED])
def test_plans_are_lawful_and_cost_what_the_planner_thinks(world: str, name: str) -> None:
    what = WORLDS[world]
    plan, card = planned(name, what, QUICK.get(name))
    mine = problem(what)
    leaf = leaves_of(plan, mine)
    assert (leaf >= 0).all()
    assert plan.filters.num_rows <= len(mine.brokers.nodes)
    assert all(len(parse_filter(text).boxes) <= mine.boxes for text in plan.filters["filter"].to_pylist())
    if name in KEEPS:
        assert card.exceeded == ()
        assert mine.mask[mine.which, leaf].all()
    if name in ("gr", "gr-star"):
        assert mine.mask[mine.which, leaf].all()


@pytest.mark.parametrize("world", WORLDS)
def test_gr_star_with_the_residual_check_keeps_all_limits(world: str) -> None:
    assert planned("gr-star", WORLDS[world], {"residual": True})[1].exceeded == ()


def test_the_search_is_at_most_as_dear_as_its_start() -> None:
    for what in (SMALL, LEVELS):
        found = planned("assignment-search", what, {"effort": 1})[1]
        start = planned("gr-star", what, {"residual": True})[1]
        visible = found.cost - found.cost_held_out
        assert visible <= start.cost - start.cost_held_out


def test_cost_is_that_of_events_in_filters() -> None:
    """Into each broker goes just what its filter lets through: the meter's core is the sum of filters' weights."""
    from overstory.planners.assignment.greedy import gr_star
    from overstory.planners.assignment.outcome import bandwidth

    for what in (SMALL, LEVELS):
        card = planned("gr-star", what)[1]
        assert card.core - card.cost_held_out == bandwidth(problem(what), gr_star(problem(what)).filters)


def test_balance_has_the_least_load_of_all() -> None:
    least = problem(SMALL).least
    assert planned("balance", SMALL)[1].load == pytest.approx(least)
    for name in ("gr-star", "assignment-search"):
        assert planned(name, SMALL, QUICK.get(name))[1].load >= least - 1e-9


def test_evictions_move_subscribers_and_lose_none() -> None:
    for evict in ("next", "later"):
        plan, _ = planned("gr", SMALL, {"evict": evict})
        assert plan.attachments.num_rows == SMALL.subscribers + 1


def hops(plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """By subscriber the milliseconds of its access link, and of the shortest one."""
    mine = problem(SMALL)
    far = last_hops(world(SMALL)[0], mine)
    return far[np.arange(len(far)), leaves_of(plan, mine)], far.min(axis=1)


def test_the_closest_broker_is_the_closest() -> None:
    mine, least = hops(planned("closest-unbalanced", SMALL)[0])
    assert np.array_equal(mine, least)
    capped, _ = planned("closest", SMALL)
    loads = np.bincount(leaves_of(capped, problem(SMALL)), minlength=8)
    assert (loads <= problem(SMALL).capacity(problem(SMALL).most)).all()
    assert (hops(capped)[0] == least).mean() > 0.5


def test_fewer_boxes_cost_more() -> None:
    costs = [planned("gr-star", SMALL, {"boxes": boxes})[1].cost for boxes in (1, 3)]
    assert costs[0] > costs[1]


def test_a_limit_of_the_last_hop_is_kept() -> None:
    mine = problem(SMALL)
    far = np.where(mine.mask[mine.which], last_hops(world(SMALL)[0], mine), np.inf)
    limit = float(far.min(axis=1).max()) + 0.01  # so that everyone has a broker
    assert hops(planned("gr-star", SMALL)[0])[0].max() > limit
    assert hops(planned("gr-star", SMALL, {"last_hop": limit})[0])[0].max() <= limit
    with pytest.raises(UsageError, match="last_hop"):
        planned("gr-star", SMALL, {"last_hop": "soon"})


def test_the_same_seed_gives_the_same_plan() -> None:
    for name in ("gr", "assignment-search", "slp1"):
        first, second = (planned(name, SMALL, QUICK.get(name))[0] for _ in range(2))
        assert first.attachments.equals(second.attachments)
        assert first.filters.equals(second.filters)


def test_processing_at_brokers_counts_as_delay() -> None:
    slow = Subscribers(subscribers=200, brokers=6, events=1000, processing=5.0, load=6.0)
    plan, card = planned("gr-star", slow, {"residual": True})
    assert card.exceeded == ()
    assert plan.filters.num_rows > 0


def test_who_is_in_time_is_so_by_the_meter_too() -> None:
    """Everybody allows just what the way by one leaf takes: as links are rounded to microseconds, some are late."""
    scenario, _ = world(LEVELS)
    mine = problem(LEVELS)
    draw = np.random.default_rng(3)
    leaf = np.array([draw.choice(np.flatnonzero(mine.mask[which])) for which in mine.which])
    tree, ways = mine.brokers, last_hops(scenario, mine)[np.arange(len(leaf)), leaf]
    for node in (leaf, tree.parent[leaf]):
        above = np.where(tree.parent[node] < 0, tree.root, tree.nodes[tree.parent[node]])
        below = np.maximum(node, 0)
        link = scenario.network.link_between(above, tree.nodes[below])
        ways = ways + np.where(node >= 0, scenario.network.delays[link], 0.0)
    rows = np.searchsorted(scenario.clients["id"].to_numpy(), mine.clients)
    latest = np.full(scenario.clients.num_rows, np.inf)
    latest[rows] = ways
    found = Workbench(allowing(scenario, latest)).candidates(allowing(scenario, latest), None, tree.before).words
    position = tree.leaves[leaf]
    in_time = (found[rows, position // 64] >> (position % 64).astype(np.uint64) & np.uint64(1)).astype(bool)
    assert 0 < in_time.sum() < len(in_time)

    tables = decision_of(scenario, defaults.tables(scenario), mine, leaf, fitted(mine, leaf))
    plan = Plan.of(Header("", ""), {name: PLAN_TABLES[name].completed(table) for name, table in tables.items()})

    def late(whom: np.ndarray) -> list[str]:
        """What the meter says if only these allow no more than that."""
        some = latest.copy()
        some[rows[~whom]] = np.inf
        exceeded = Workbench(allowing(scenario, some)).score(plan).exceeded
        return [one for one in exceeded if one.startswith("delay")]

    assert late(in_time) == []
    assert late(~in_time) == late(np.ones(len(in_time), bool)) != []


def allowing(scenario: Scenario, latest: np.ndarray) -> Scenario:
    """The scenario with other limits of its clients."""
    place = scenario.clients.column_names.index("latest")
    return replace(scenario, clients=scenario.clients.set_column(place, "latest", pa.array(latest)))
