"""A subscription joins where the law says that it costs least, leaves no trace, and plans do not take turns."""

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from overstory.kernels.coalesced import Trees
from overstory.model.network import Network
from overstory.model.plan import EVERYTHING, LATE, Header, Plan
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import FILTERS, FLOWS, MEMBERS, PLAN_TABLES, TREE, TREES
from overstory.pipeline.validate import problems_of_plan
from overstory.planners import defaults
from overstory.planners.chains import make_plan
from overstory.planners.trees.change import (
    Joined,
    Newcomer,
    Window,
    cost_of,
    enter,
    join,
    leave,
    plan_with,
    plan_without,
    replan,
    window_of,
)
from overstory.planners.trees.demand import Demand, demand_of
from overstory.planners.trees.spanning import Tree, as_tables, priced, tree_of
from overstory.routing import messages
from overstory.routing.law import Law
from overstory.routing.share import shares_of

from ..plans import events_of
from ..tables import table_of
from .scenarios import law_is_kept, line_of_brokers, random_scenarios
from .steps import Steps

GROUPS = 4


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> list[Scenario]:
    drawn = random_scenarios(tmp_path_factory.mktemp("scenarios"), 16)
    return [
        replace(scenario, settings=msgspec.structs.replace(scenario.settings, coalesce=coalesce))
        for scenario in drawn
        if scenario.subscriptions.num_rows
        for coalesce in (True, False)
    ]


def demand(scenario: Scenario) -> Demand:
    return demand_of(scenario, Steps(), defaults.tables(scenario))


def random_plan(scenario: Scenario, seed: int = 0) -> Plan:
    """Groups and trees by chance: there is something to choose from."""
    asked, dice = demand(scenario), random.Random(seed)
    groups = np.array([dice.randrange(GROUPS) for _ in range(asked.items)], np.int64)
    trees = [random_tree(asked.network, dice) for _ in range(GROUPS)]
    tables = {**defaults.tables(scenario), **as_tables(scenario, asked, groups, trees)}
    return Plan.of(Header("chance", scenario.fingerprint), tables)


def random_tree(network: Network, dice: random.Random) -> Tree:
    links = list(zip(network.sources.tolist(), network.targets.tolist(), strict=True))
    dice.shuffle(links)
    piece = list(range(len(network)))
    taken = []
    for one, other in links:
        if piece[one] != piece[other] and network.link_between(np.array([other]), np.array([one]))[0] >= 0:
            taken.append((one, other))
            piece = [piece[one] if each == piece[other] else each for each in piece]
    return tree_of(network, *np.array(taken, np.int64).reshape(-1, 2).T)


def changes(scenario: Scenario) -> Iterator[tuple[int, Plan, Window, Newcomer]]:
    """Each subscription as a newcomer, with the plan and the window in which it is missing."""
    plan, asked = random_plan(scenario), demand(scenario)
    row = np.repeat(np.arange(len(asked.fit.roots)), np.diff(asked.fit.offsets))
    for subscription, item in zip(scenario.subscriptions["id"].to_pylist(), asked.item_of.tolist(), strict=True):
        present = plan_without(plan, subscription)
        newcomer = Newcomer(int(asked.item_broker[item]), row[asked.fit.items == item])
        yield subscription, present, window_of(scenario, asked, asked.fit, present), newcomer


def with_the_late_flow(scenario: Scenario, plan: Plan, subscriptions: list[int]) -> Plan:
    """As a flow of the plan, with these members: what routers do with subscriptions that they do not find in it."""
    source, target = (scenario.network.ids[each] for each in minimum_spanning_tree(scenario.network))
    tables = {
        "flows": table_of(FLOWS, [(LATE, TREE, EVERYTHING, 0)]),
        "members": table_of(MEMBERS, [(LATE, subscription, None) for subscription in subscriptions]),
        "trees": table_of(TREES, [(LATE, *ends) for ends in zip(source.tolist(), target.tolist(), strict=True)]),
    }
    return replace(
        plan,
        **{
            name: pa.concat_tables([PLAN_TABLES[name].completed(table), getattr(plan, name)])
            for name, table in tables.items()
        },
    )


def planned(scenario: Scenario, plan: Plan, subscription: int, flow: int) -> Plan:
    """The plan with this subscription in a flow, if only the late one."""
    if flow == LATE:
        return with_the_late_flow(scenario, plan, [subscription])
    return plan_with(plan, subscription, flow)


def lawful_cost(scenario: Scenario, plan: Plan) -> float:
    """Of the part of the log to fit, on links between brokers."""
    network, law = scenario.network, Law(scenario, plan)
    ends = zip(network.ids[network.sources].tolist(), network.ids[network.targets].tolist(), strict=True)
    price = dict(zip(ends, network.prices.tolist(), strict=True))
    total: float = sum(
        event.bytes * price[each.source, each.target]
        for event in events_of(scenario)
        if event.id % 5 < 3
        for each in law.travel(event).crossings
    )
    return total


def test_the_flow_that_the_law_finds_cheapest(scenarios: list[Scenario]) -> None:
    chosen = set()
    for scenario in scenarios:
        for subscription, plan, window, newcomer in changes(scenario):
            before = lawful_cost(scenario, plan)
            flows = [LATE, *sorted(plan.flows["flow"].to_pylist())]
            added = [lawful_cost(scenario, planned(scenario, plan, subscription, flow)) - before for flow in flows]
            found = join(window, newcomer)
            assert found == Joined(flows[int(np.argmin(added))], min(added))  # prices are quarters: sums are exact
            assert cost_of(window) == before
            chosen.add(found.flow)
    assert chosen == {LATE, *range(GROUPS)}


def test_windows_follow_plans(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        asked = demand(scenario)
        for subscription, plan, window, newcomer in changes(scenario):
            found = join(window, newcomer)
            entered = enter(window, newcomer, found.flow)
            assert cost_of(entered) == cost_of(window) + found.added
            if found.flow != LATE:
                joined = plan_with(plan, subscription, found.flow)
                assert cost_of(entered) == cost_of(window_of(scenario, asked, asked.fit, joined))
            assert_same(leave(entered, len(window.member_flow)), window)


def assert_same(one: Window, other: Window) -> None:
    assert (one.matches != other.matches).nnz == 0
    for name in ("flows", "member_flow", "member_broker", "roots", "weights"):
        assert np.array_equal(getattr(one, name), getattr(other, name))
    assert all(np.array_equal(*pair) for pair in zip(one.trees, other.trees, strict=True))


def test_members_leave_one_after_the_other(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        plan, asked = random_plan(scenario), demand(scenario)
        window = window_of(scenario, asked, asked.fit, plan)
        kept = [LATE, *plan.flows["flow"].to_pylist()]
        for number in range(len(window.member_flow), 0, -1):
            flow = int(window.flows[window.member_flow[0]])
            alone = int((window.member_flow == window.member_flow[0]).sum()) == 1
            left = leave(window, 0)
            if alone:
                kept.remove(flow)
            assert left.flows.tolist() == kept
            assert len(left.member_flow) == number - 1
            assert np.array_equal(left.flows[left.member_flow], window.flows[window.member_flow][1:])
            assert cost_of(left) <= cost_of(window)
            window = left
        assert window.flows.tolist() == [LATE]
        late = enter(window, Newcomer(0, np.empty(0, np.int64)), LATE)
        assert leave(late, 0).flows.tolist() == [LATE]


def test_plans_stay_lawful(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        publishers = Steps().publishers(scenario)
        for subscription, plan, window, newcomer in changes(scenario):
            joined = planned(scenario, plan, subscription, join(window, newcomer).flow)
            assert problems_of_plan(scenario, joined, publishers) == []
            assert law_is_kept(scenario, joined)
            others = scenario.subscriptions.filter(np.asarray(scenario.subscriptions["id"].to_numpy() != subscription))
            assert problems_of_plan(replace(scenario, subscriptions=others), plan, publishers) == []


def test_joining_and_leaving_gives_the_plan_back(scenarios: list[Scenario], tmp_path: Path) -> None:
    for number, scenario in enumerate(scenarios[:20]):
        subscription, plan, window, _ = next(changes(scenario))
        flow = int(window.flows[-1])
        if flow == LATE:
            continue
        joined = plan_with(plan, subscription, flow)
        folders = [tmp_path / f"{number}-{name}" for name in ("before", "after", "joined", "again")]
        again = plan_with(plan, subscription, flow)
        for folder, each in zip(folders, (plan, plan_without(joined, subscription), joined, again), strict=True):
            each.write(folder)
        before, after, with_it, with_it_again = (
            {path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders
        )
        assert before == after
        assert with_it == with_it_again
        assert before != with_it


def test_a_member_goes_behind_the_others_of_its_flow(tmp_path: Path) -> None:
    scenario = line_of_brokers(tmp_path / "line", 4, {"a": [0, 3], "b": [1, 2], "c": [3]}, [])
    plan = line_plan(scenario, [0, 1, 2])
    assert plan_with(plan_without(plan, 0), 0, 1).members.to_pylist() == [
        {"flow": flow, "subscription": subscription, "part": None}
        for flow, subscription in ((0, 1), (1, 2), (1, 3), (1, 0), (2, 4))
    ]


def line_plan(scenario: Scenario, groups: list[int]) -> Plan:
    """By filter; all on the tree that a line has."""
    asked, tables = demand(scenario), defaults.tables(scenario)
    line = np.arange(len(asked.network) - 1)
    trees = [tree_of(asked.network, line, line + 1)] * (max(groups) + 1)
    groups_of_items = np.array(groups, np.int64)[asked.item_predicate]
    return Plan.of(
        Header("line", scenario.fingerprint), {**tables, **as_tables(scenario, asked, groups_of_items, trees)}
    )


def test_the_last_member_takes_its_flow_along(tmp_path: Path) -> None:
    scenario = line_of_brokers(tmp_path / "line", 4, {"a": [0], "b": [1], "c": [3]}, [])
    plan = line_plan(scenario, [0, 1, 2])
    left = plan_without(plan, 1)
    assert left.flows["flow"].to_pylist() == [0, 2]
    assert set(left.trees["flow"].to_pylist()) == {0, 2}
    assert left.members["subscription"].to_pylist() == [0, 2]
    empty = plan_without(plan_without(left, 2), 0)
    assert empty.flows.num_rows == empty.trees.num_rows == empty.members.num_rows == 0
    nobody = replace(scenario, subscriptions=scenario.subscriptions.slice(0, 0))
    assert problems_of_plan(nobody, empty, np.array([100])) == []


def test_the_late_flow_is_the_routers(tmp_path: Path) -> None:
    """Where a window says that a subscription stays, there it is in every router that has installed the plan."""
    scenario = line_of_brokers(tmp_path / "line", 4, {"a": [0], "b": [1]}, [])
    plan = plan_without(line_plan(scenario, [0, 1]), 0)
    asked = demand(scenario)
    window = window_of(scenario, asked, asked.fit, plan)
    stays = join(window, Newcomer(0, np.empty(0, np.int64))).flow
    assert stays == messages.LATE
    late = window.trees.parent[window.flows.tolist().index(stays)]
    for broker, share in shares_of(scenario, plan, 0).items():
        near = np.flatnonzero((late == broker) | (np.arange(len(late)) == late[broker]))
        assert share.flows[stays].neighbours == set(near.tolist())
        assert stays not in {member.flow for member in share.members}


def test_what_cannot_be(tmp_path: Path) -> None:
    scenario = line_of_brokers(tmp_path / "line", 4, {"a": [0], "b": [1]}, [(3, "a")])
    plan = line_plan(scenario, [0, 1])
    with pytest.raises(ValueError, match="no flow 7"):
        plan_with(plan_without(plan, 0), 0, 7)
    with pytest.raises(ValueError, match="in a flow already"):
        plan_with(plan, 0, 1)
    with pytest.raises(ValueError, match="in no flow"):
        plan_without(plan, 7)
    with pytest.raises(ValueError, match="no tree for all events"):
        plan_with(make_plan("direct", scenario, Steps(), {}, 0), 7, 0)
    with pytest.raises(ValueError, match="while it is late"):
        plan_with(plan_without(plan, 0), 0, LATE)
    narrow, wide = (replace(plan, filters=table_of(FILTERS, [(1, 2, 1, text)])) for text in ("topic = 'b'", EVERYTHING))
    with pytest.raises(ValueError, match="need not cover"):
        plan_with(narrow, 7, 1)
    assert plan_with(narrow, 7, 0).members.num_rows == plan_with(wide, 7, 1).members.num_rows == 3
    window = window_of(scenario, demand(scenario), demand(scenario).fit, plan)
    with pytest.raises(ValueError, match="no flow 7"):
        enter(window, Newcomer(0, np.empty(0, np.int64)), 7)


@pytest.mark.parametrize(("coalesce", "flow"), [(True, LATE), (False, 1)])
def test_copies_that_pass_by(coalesce: bool, flow: int, tmp_path: Path) -> None:
    """What flow 1 brings to broker 3 passes broker 2. Where frames coalesce, it serves all flows."""
    scenario = line_of_brokers(tmp_path / "line", 4, {"b": [0], "a": [3]}, [(0, "a")] * 5, coalesce)
    asked = demand(scenario)
    window = window_of(scenario, asked, asked.fit, line_plan(scenario, [0, 1]))
    assert join(window, Newcomer(2, np.array([0]))) == Joined(flow, 0.0)


def test_nothing_known(tmp_path: Path) -> None:
    silent = line_of_brokers(tmp_path / "silent", 4, {"a": [0, 3], "b": [1]}, [])
    asked = demand(silent)
    window = window_of(silent, asked, asked.fit, line_plan(silent, [0, 1]))
    newcomer = Newcomer(2, np.empty(0, np.int64))
    assert cost_of(window) == 0.0
    assert join(window, newcomer) == Joined(LATE, 0.0)
    assert cost_of(enter(window, newcomer, 1)) == 0.0
    assert not replan(cost_of(window), cost_of(window)).switch
    nobody = line_of_brokers(tmp_path / "nobody", 4, {}, [(1, "b")] * 10)
    asked = demand(nobody)
    assert join(window_of(nobody, asked, asked.fit, line_plan(nobody, [0])), newcomer) == Joined(LATE, 0.0)


def test_equal_up_to_rounding() -> None:
    """0.1 + 0.2 is more than 0.3 in binary, and the same for us."""
    parents = np.array([[-1, 0, 1], [-1, 0, 0]])
    prices = np.array([[0.0, 0.1, 0.2], [0.0, 0.1, 0.3]])
    trees = Trees(parents, prices, prices, np.array([1, 2], np.uint64))
    none = np.empty(0, np.int64)
    window = Window(np.arange(2), trees, none, none, np.array([0]), np.ones(1), csr_array((1, 0)))
    assert join(window, Newcomer(2, np.array([0]))).flow == 0


@st.composite
def windows(draw: st.DrawFn) -> tuple[Window, Newcomer]:
    """Brokers that are all linked, so that any tree is one; prices differ by direction."""
    brokers, flows = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    size, rows = draw(st.integers(0, 6)), draw(st.integers(0, 4))
    at = st.integers(0, brokers - 1)
    source, target = np.nonzero(~np.eye(brokers, dtype=bool))
    prices = np.array(draw(st.lists(st.integers(0, 3), min_size=len(source), max_size=len(source))), float)
    network = Network.between(np.arange(brokers), source, target, prices, np.zeros(len(source)))
    parents = []
    for _ in range(flows):
        order = draw(st.permutations(range(brokers)))
        parent = np.full(brokers, -1)
        for i in range(1, brokers):
            parent[order[i]] = order[draw(st.integers(0, i - 1))]
        parents.append(parent)
    trees = [priced(network, parent) for parent in parents]
    parent, down, up = (np.stack(each) for each in zip(*trees, strict=True))
    coalesce = draw(st.booleans())
    begin = np.ones(flows, np.uint64) if coalesce else np.arange(1, flows + 1, dtype=np.uint64)
    numbers = draw(st.lists(st.integers(0, 9), min_size=flows, max_size=flows, unique=True))
    matched = draw(st.lists(st.booleans(), min_size=size * rows, max_size=size * rows))
    window = Window(
        np.sort(np.array(numbers, np.int64)),
        Trees(parent, down, up, begin),
        ints(draw(st.lists(st.integers(0, flows - 1), min_size=size, max_size=size))),
        ints(draw(st.lists(at, min_size=size, max_size=size))),
        ints(draw(st.lists(at, min_size=rows, max_size=rows))),
        ints(draw(st.lists(st.integers(1, 5), min_size=rows, max_size=rows))).astype(float),
        csr_array(np.array(matched, float).reshape(rows, size)),
    )
    mine = [row for row in range(rows) if draw(st.booleans())]
    return window, Newcomer(draw(at), ints(mine))


def ints(values: list[int]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array(values, np.int64)


def plain_cost(window: Window) -> float:
    """Every way from a row's root to a broker is paid once: by the row, or by each flow of it."""
    total = 0.0
    for row, members in enumerate(window.matches.toarray().tolist()):
        paid: dict[tuple[object, ...], float] = {}
        for member, matched in enumerate(members):
            if matched:
                flow, broker = window.member_flow[member], window.member_broker[member]
                way = way_in(window.trees.parent[flow].tolist(), int(window.roots[row]), int(broker))
                for end in range(1, len(way)):
                    paid[window.trees.begin[flow], *way[: end + 1]] = link_price(
                        window.trees, flow, *way[end - 1 : end + 1]
                    )
        total += sum(paid.values()) * window.weights[row]
    return total


def way_in(parent: list[int], root: int, broker: int) -> list[int]:
    up, down = [root], [broker]
    for climb in (up, down):
        while parent[climb[-1]] >= 0:
            climb.append(parent[climb[-1]])
    while len(up) > 1 and len(down) > 1 and up[-2] == down[-2]:
        up.pop(), down.pop()
    return up + down[-2::-1]


def link_price(trees: Trees, flow: int, source: int, target: int) -> float:
    if trees.parent[flow][target] == source:
        return float(trees.down[flow][target])
    return float(trees.up[flow][source])


@given(windows())
def test_the_least_of_all_full_costs(case: tuple[Window, Newcomer]) -> None:
    window, newcomer = case
    before = plain_cost(window)
    assert cost_of(window) == before
    added = [plain_cost(enter(window, newcomer, flow)) - before for flow in window.flows.tolist()]
    assert join(window, newcomer) == Joined(int(window.flows[int(np.argmin(added))]), min(added))


@pytest.mark.parametrize(
    ("present", "proposed", "switch"),
    [(100.0, 89.0, True), (100.0, 90.0, False), (100.0, 91.0, False), (100.0, 120.0, False), (0.0, 0.0, False)],
)
def test_the_threshold(present: float, proposed: float, switch: bool) -> None:
    found = replan(present, proposed)
    assert (found.present, found.proposed, found.switch) == (present, proposed, switch)
    assert found.gain == pytest.approx((present - proposed) / present if present else 0.0)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 99))
def test_plans_do_not_take_turns(present: int, proposed: int, percent: int) -> None:
    there, back = (replan(float(a), float(b), percent / 100) for a, b in ((present, proposed), (proposed, present)))
    assert there.switch == (100 * (present - proposed) > percent * present)
    assert not (there.switch and back.switch)
