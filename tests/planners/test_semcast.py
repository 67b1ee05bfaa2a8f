"""Channels: disjoint at the end, everything delivered once, cheaper with every split, as dear as the meter says."""

import random
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.errors import UsageError
from overstory.filters import parse_filter
from overstory.model.plan import Plan, Value
from overstory.model.scenario import Scenario
from overstory.model.settings import Settings
from overstory.model.tables import CLIENTS
from overstory.pipeline.validate import problems_of_plan
from overstory.planners import defaults
from overstory.planners.chains import make_plan
from overstory.planners.trees import channels as channels_module
from overstory.planners.trees.channels import Cell, Channels
from overstory.planners.trees.demand import demand_of
from overstory.planners.trees.semcast import ground_of, leaders, start_of
from overstory.planners.trees.spelling import Spelling, unions
from overstory.routing.law import Law

from ..plans import events_of
from ..tables import events_table, scenario_of, scenario_tables, table_of
from .scenarios import law_is_kept, line_of_brokers, random_scenarios
from .steps import Steps

WORDS = "pqrstuvw"


def planned(name: str, scenario: Scenario, given: dict[str, Value] | None = None) -> Plan:
    return make_plan(name, scenario, Steps(), given or {})


def keyword_scenario(dice: random.Random, folder: Path) -> Scenario:
    """Filters that overlap, some of which cover others; events with several words, some without any."""
    size = dice.randint(2, 7)
    pairs = sorted({(i, dice.randrange(i)) for i in range(1, size)} | {(size - 1, 0)} - {(0, 0)})
    links = [(u, v, dice.choice([1.0, 1.0, 2.0])) for pair in pairs for u, v in (pair, pair[::-1])]
    wants = [
        *(f"words HAS ANY ('{word}')" for word in WORDS[:5]),
        "words HAS ANY ('p', 'q', 'u')",
        "words HAS ANY ('p') AND words HAS ANY ('q')",
        "words HAS ANY ('r') AND words NOT HAS ANY ('s')",
        "words HAS ANY ('p') AND topic = 'a'",
        "topic IN ('a', 'b')",
        "topic = 'c' OR topic = 'd'",
    ]
    wants = dice.sample(wants, dice.randint(1, len(wants)))
    subscriptions = [(i, 100 + dice.randrange(size), dice.choice(wants), False) for i in range(dice.randint(1, 16))]
    tables = scenario_tables(range(size), links, [], subscriptions)
    tables["clients"] = table_of(CLIENTS, [(100 + at, at, None, None) for at in range(size)])
    rows = [
        (
            100 + dice.randrange(size),
            dice.randint(1, 9),
            dice.choice([None, *[dice.sample(WORDS, dice.randint(0, 4)) for _ in range(5)]]),
            dice.choice([None, "a", "b", "c", "z"]),
        )
        for _ in range(dice.randint(0, 60))
    ]
    events = events_table(rows, {"words": pa.list_(pa.string()), "topic": pa.string()})
    return scenario_of(folder, Settings(coalesce=False), tables, events)


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> list[Scenario]:
    folder = tmp_path_factory.mktemp("scenarios")
    drawn = [keyword_scenario(random.Random(seed), folder / f"words {seed}") for seed in range(40)]
    return [*drawn, *random_scenarios(folder, 30)]


def channels_of(scenario: Scenario) -> tuple[Channels, Spelling]:
    demand = demand_of(scenario, Steps(), defaults.tables(scenario))
    start = start_of(scenario, demand, 1000)
    spelling = Spelling(start.texts)
    return Channels(ground_of(demand, demand.fit, start), spelling.fits), spelling


@pytest.mark.parametrize("name", ["semcast", "semcast-filtered"])
@pytest.mark.parametrize("given", [{}, {"channels": 1}, {"channels": 3}])
def test_everything_is_delivered_once(name: str, given: dict[str, Value], scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        plan = planned(name, scenario, given)
        assert problems_of_plan(scenario, plan, Steps().publishers(scenario)) == []
        assert law_is_kept(scenario, plan)


def test_predicted_is_what_the_law_counts(scenarios: list[Scenario]) -> None:
    """In sample, one copy for each flow: bytes times prices of all links between brokers."""
    several = 0
    for scenario in scenarios:
        if scenario.settings.coalesce:
            continue
        channels, _ = channels_of(scenario)
        channels.merge(1000)
        law = Law(scenario, planned("semcast", scenario))
        crossed = [
            event.bytes * law.prices[crossing.source, crossing.target]
            for event in events_of(scenario)
            if event.id % 5 < 3  # what the steps of these tests give to fit on
            for crossing in law.travel(event).crossings
        ]
        assert sum(crossed) == pytest.approx(channels.cost)
        several += channels.made > len(channels.ground.members)
    assert several > 10


def test_filtering_costs_no_more_and_only_then_is_it_exact(scenarios: list[Scenario]) -> None:
    cheaper = 0
    for scenario in scenarios:
        laws = [Law(scenario, planned(name, scenario)) for name in ("semcast", "semcast-filtered")]
        for event in events_of(scenario):
            flooded, filtered = (law.travel(event) for law in laws)
            assert {(each.source, each.target) for each in filtered.crossings} <= {
                (each.source, each.target) for each in flooded.crossings
            }
            assert filtered.false_positives == 0
            cheaper += len(filtered.crossings) < len(flooded.crossings)
    assert cheaper > 0


def test_every_member_gets_all_of_its_channel(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        plan = planned("semcast", scenario)
        law = Law(scenario, plan)
        for event in events_of(scenario):
            for number, flow in law.flows.items():
                if flow.events.matches(event.attributes):
                    places = {law.broker_of[law.subscriptions[each.subscription].client] for each in flow.members}
                    crossings = law.travel(event).crossings
                    reached = {each.target for each in crossings if number in each.flows}
                    assert places <= reached | {law.broker_of[event.publisher]}


def test_no_split_raises_the_cost(scenarios: list[Scenario]) -> None:
    for scenario in scenarios:
        channels, _ = channels_of(scenario)
        owners = len(channels.ground.members)
        costs = [channels.cost]
        for most in range(owners, owners + 12):
            channels.merge(most)
            costs.append(channels.cost)
        assert all(later <= earlier * (1 + 1e-9) for earlier, later in combinations(costs, 2))


def test_channels_are_disjoint_at_the_end(scenarios: list[Scenario]) -> None:
    """But for pairs that no split would make cheaper, and those whose parts cannot be written down. And those of one
    member are disjoint whatever happens."""
    apart = 0
    for scenario in scenarios:
        channels, spelling = channels_of(scenario)
        channels.merge(1000)
        for a, b in combinations(channels.alive.values(), 2):
            if a.owners & b.owners:
                one, other = (spelling.text(each.cell) for each in (a, b))
                assert one is not None
                assert other is not None
                meeting = a.cell.meet(b.cell)
                assert meeting is None or not a.costs.keys() & b.costs.keys()
            shared = sorted(a.costs.keys() & b.costs.keys())
            if shared:
                cells = (*a.cell.outside(b.cell), *b.cell.outside(a.cell))
                now = sum(a.costs[row] + b.costs[row] for row in shared)
                channels._grow({a.owners | b.owners: shared})
                prices = channels.prices[a.owners | b.owners]
                split = sum(channels.ground.bytes[row] * prices[channels.ground.roots[row]] for row in shared)
                assert split >= now - 1e-6 or not all(map(spelling.fits, cells))
            apart += not shared
    assert apart > 100


def test_one_step_by_hand(tmp_path: Path) -> None:
    """On a line of nine, p and q are wanted at both ends of it: together they need one trip, apart two."""
    wanted = {"words HAS ANY ('p')": [0, 4], "words HAS ANY ('q')": [0, 4]}
    scenario = line_of_brokers(tmp_path / "line", 5, wanted, [(2, "pq")] * 5 + [(2, "p")] * 5)
    channels, spelling = channels_of(scenario)
    assert channels.cost == 4 * 3 + 4 * 3 + 4 * 3
    channels.merge(1000)
    assert channels.cost == 4 * 3 + 4 * 3
    found = {str(parse_filter(spelling.text(each.cell) or "")): sorted(each.owners) for each in channels.alive.values()}
    assert found == {
        "words HAS ANY ('p') AND words HAS ANY ('q')": [0, 1],
        "words HAS ANY ('p') AND words NOT HAS ANY ('q')": [0],
        "words HAS ANY ('q') AND words NOT HAS ANY ('p')": [1],
    }


# Cells, and what they are made of

numbers = st.frozensets(st.integers(0, 5), max_size=4)
cells = st.builds(Cell, st.frozensets(numbers.filter(bool), min_size=1, max_size=3), numbers)


@given(cells, cells, numbers)
def test_cells_part_without_rest(one: Cell, other: Cell, filters: frozenset[int]) -> None:
    both, left = one.meet(other), one.outside(other)
    held = (both is not None and both.holds(filters)) + sum(each.holds(filters) for each in left)
    assert held == one.holds(filters)
    assert (both is not None and both.holds(filters)) == (one.holds(filters) and other.holds(filters))


def test_cells_are_written_down_exactly() -> None:
    dice = random.Random(6)
    texts = [f"words HAS ANY ('{word}')" for word in WORDS[:5]] + ["words HAS ANY ('p', 'w')"]
    spelling = Spelling(texts)
    filters = list(map(parse_filter, texts))
    for _ in range(200):
        hits = frozenset(frozenset(dice.sample(range(6), dice.randint(1, 2))) for _ in range(dice.randint(1, 3)))
        cell = Cell(hits, frozenset(dice.sample(range(6), dice.randint(0, 3))))
        text = spelling.text(cell)
        assert text is not None
        for _ in range(20):
            event = {"words": dice.choice([None, "p", dice.sample(WORDS, dice.randint(0, 5))])}
            matched = frozenset(number for number, each in enumerate(filters) if each.matches(event))
            assert parse_filter(text).matches(event) == cell.holds(matched)


def test_leaders() -> None:
    texts = ["price > 5", "price > 3", "price > 3 AND price < 9", "price < 9", "NOT price <= 3", "volume > 1"]
    leader, whole = leaders(texts, [1.0, 5.0, 1.0, 2.0, 9.0, 0.0])
    assert leader.tolist() == [1, 1, 3, 3, 1, 5]
    assert whole.tolist() == [False, True, False, True, True, True]
    assert [each.tolist() for each in leaders([], [])] == [[], []]


def test_predicates_beyond_the_limits() -> None:
    """A cell that cannot be said is not made; a union that cannot be said is several."""
    texts = [f"x{i} = 1 OR y{i} = 1" for i in range(10)]
    assert Spelling(texts).text(Cell(frozenset(frozenset([i]) for i in range(10)))) is None
    many = [f"a{i} = {i}" for i in range(300)]
    assert [len(parse_filter(each).boxes) for each in unions(many)] == [150, 150]
    assert unions(["a = 1"]) == ["a = 1"]


def test_work_is_bounded(monkeypatch: pytest.MonkeyPatch, scenarios: list[Scenario]) -> None:
    monkeypatch.setattr(channels_module, "MOST_TREES", 3)
    monkeypatch.setattr(channels_module, "MOST_TOGETHER", 2)
    for scenario in scenarios[:20]:
        plan = planned("semcast", scenario)
        assert problems_of_plan(scenario, plan, Steps().publishers(scenario)) == []
        assert law_is_kept(scenario, plan)


def test_bad_input(tmp_path: Path) -> None:
    nobody = line_of_brokers(tmp_path / "nobody", 3, {}, [(0, "a")])
    assert planned("semcast", nobody).flows.num_rows == 0
    silent = line_of_brokers(tmp_path / "silent", 3, {"a": [2], "b": [0]}, [])
    assert problems_of_plan(silent, planned("semcast", silent), np.empty(0, np.int64)) == []
    alone = line_of_brokers(tmp_path / "alone", 3, {"a": [2]}, [(0, "a")] * 5)
    plan = planned("semcast", alone)
    assert (plan.flows.num_rows, plan.members.num_rows, plan.trees.num_rows) == (1, 1, 2)
    assert law_is_kept(alone, plan)
    never = line_of_brokers(tmp_path / "never", 2, {"topic = 'a' AND topic = 'b'": [1]}, [(0, "a")])
    assert problems_of_plan(never, planned("semcast", never), np.array([100])) == []


def test_parameters(scenarios: list[Scenario]) -> None:
    wrong: list[Value] = [0, "many", 1.5, True, None]
    for each in wrong:
        with pytest.raises(UsageError, match="auto or a number from 1 on"):
            planned("semcast", scenarios[0], {"channels": each})


def test_the_same_plan_every_time(scenarios: list[Scenario], tmp_path: Path) -> None:
    for number, scenario in enumerate(scenarios[:10]):
        for turn in range(2):
            planned("semcast", scenario).write(tmp_path / f"{number} {turn}")
        first, second = (
            {path.name: path.read_bytes() for path in (tmp_path / f"{number} {turn}").iterdir()} for turn in range(2)
        )
        assert first == second
