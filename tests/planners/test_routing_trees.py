"""The algorithms of Majumder et al. against the paper's example, and against plain versions of themselves."""

import random
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from overstory.errors import UsageError
from overstory.model.network import Ints, Network
from overstory.model.plan import Plan, Value
from overstory.model.scenario import Scenario
from overstory.model.settings import Settings
from overstory.pipeline.validate import problems_of_plan
from overstory.planners.chains import make_plan
from overstory.planners.trees.clusters import Cluster, Ground, clusters_of, ground_of, join
from overstory.planners.trees.compute_tree import compute_tree, spanning
from overstory.planners.trees.configuration import with_trees
from overstory.planners.trees.demand import Demand, Rows
from overstory.planners.trees.dendrogram import dendrogram
from overstory.planners.trees.hybrid import most_similar
from overstory.planners.trees.mult import compute_multiple_trees_2
from overstory.planners.trees.mult2 import compute_multiple_trees_1
from overstory.planners.trees.single import single_tree
from overstory.planners.trees.spanning import Tree, cost_on, tree_of

from ..plans import random_scenario
from ..tables import events_table, scenario_of, scenario_tables
from .steps import Steps
from .test_planners import stranded

NAMES = ("single", "mult", "mult2", "hybrid")
SEEDS = range(2)


def network_of(size: int, edges: dict[tuple[int, int], tuple[float, float]]) -> Network:
    ends = [link for u, v in edges for link in ((u, v), (v, u))]
    prices = np.array([price for both in edges.values() for price in both], np.float64)
    columns = np.array(ends, np.int64).reshape(-1, 2)
    return Network.between(np.arange(size), columns[:, 0], columns[:, 1], prices, prices)


def demand_for(network: Network, items: list[tuple[int, int]], events: list[tuple[int, set[int], int]]) -> Demand:
    """Items of filter and broker, ascending; events of root, filters and bytes."""
    predicate, broker = np.array(items, np.int64).reshape(-1, 2).T
    wanted = [[item for item, (each, _) in enumerate(items) if each in filters] for _, filters, _ in events]
    rows = Rows(
        np.array([root for root, _, _ in events], np.int64),
        np.cumsum([0, *map(len, wanted)]),
        np.array([item for each in wanted for item in each], np.int64),
        np.array([size for _, _, size in events], np.int64),
    )
    return Demand(network, np.arange(len(items)), broker.copy(), predicate.copy(), rows, rows)


def random_demand(dice: random.Random, filters: int = 5) -> Demand:
    """On a connected network with prices per direction, often equal ones; some events match a single filter."""
    size = dice.randint(2, 12)
    pairs = {(dice.randrange(node), node) for node in range(1, size)}
    pairs |= {tuple(sorted(dice.sample(range(size), 2))) for _ in range(dice.randint(0, size))}  # type: ignore[misc]
    prices = dice.choice([[1.0], [1.0, 2.0], [0.25, 1.0, 7.5]])
    network = network_of(size, {pair: (dice.choice(prices), dice.choice(prices)) for pair in sorted(pairs)})
    items = sorted({(dice.randrange(filters), dice.randrange(size)) for _ in range(dice.randint(1, 3 * filters))})
    known = sorted({each for each, _ in items})
    events = [
        (dice.randrange(size), set(dice.sample(known, dice.randint(1, min(3, len(known))))), dice.choice([1, 1, 5]))
        for _ in range(dice.randint(0, 20))
    ]
    return demand_for(network, items, events)


def cost_of(demand: Demand, group: Ints, trees: list[Tree]) -> float:
    instances = demand.instances(demand.fit, group, len(trees))
    return sum(cost_on(tree, demand.fit, instances, number) for number, tree in enumerate(trees))


# Example I.3


def cycle(size: int) -> Demand:
    """Half of it wants one event, the other half, with the broker in the middle, the other."""
    network = network_of(size, {(node, (node + 1) % size): (1.0, 1.0) for node in range(size)})
    half = size // 2
    items = [(0, node) for node in range(1, half + 1)] + [(1, node) for node in range(half, size)]
    return demand_for(network, items, [(0, {0}, 1), (0, {1}, 1)])


@pytest.mark.parametrize("size", [4, 8, 20])
def test_one_tree_on_a_cycle(size: int) -> None:
    """Whichever edge it lacks."""
    demand = cycle(size)
    edges = [(node, (node + 1) % size) for node in range(size)]
    nothing = np.zeros(demand.items, np.int64)
    for lacking in edges:
        sources, targets = np.array([edge for edge in edges if edge != lacking]).T
        assert cost_of(demand, nothing, [tree_of(demand.network, sources, targets)]) == 3 * size / 2 - 1


@pytest.mark.parametrize("size", [4, 8, 20])
@pytest.mark.parametrize("seed", range(4))
def test_two_trees_on_a_cycle(size: int, seed: int) -> None:
    demand = cycle(size)
    ground = ground_of(demand, demand.fit)
    for cluster in (
        compute_multiple_trees_2(ground, demand, [seed]),
        compute_multiple_trees_1(ground, demand, demand.item_predicate, [seed]),
    ):
        group, trees = with_trees(ground, demand, cluster, [seed])
        assert len(trees) == 2
        assert cost_of(demand, group, trees) == size
    group, trees = with_trees(ground, demand, np.zeros(demand.items, np.int64), [seed])
    assert cost_of(demand, group, trees) == 3 * size / 2 - 1


# Clusters and trees


def as_dict(cluster: Cluster) -> dict[int, tuple[list[int], list[int]]]:
    found = {}
    for i, row in enumerate(cluster.rows.tolist()):
        terminals = cluster.terminals[cluster.terminal_offsets[i] : cluster.terminal_offsets[i + 1]]
        links = cluster.links[cluster.link_offsets[i] : cluster.link_offsets[i + 1]]
        found[row] = terminals.tolist(), links.tolist()
    return found


@pytest.mark.parametrize("seed", range(40))
def test_joined_clusters_are_those_made_at_once(seed: int) -> None:
    demand = random_demand(random.Random(seed))
    ground = ground_of(demand, demand.fit)
    one, other, _ = clusters_of(ground, demand, demand.item_predicate % 3, 3)
    at_once, _ = clusters_of(ground, demand, (demand.item_predicate % 3) // 2, 2)
    assert as_dict(join(ground, one, other)) == as_dict(at_once)


@pytest.mark.parametrize("seed", range(60))
def test_trees_span_and_cost_what_they_say(seed: int) -> None:
    """The forest alone, and with everything else attached; of several seeds the cheapest."""
    demand = random_demand(random.Random(seed))
    ground = ground_of(demand, demand.fit)
    for group in range(3):
        item_group = (demand.item_predicate % 3 != group).astype(np.int64)
        cluster = clusters_of(ground, demand, item_group, 2)[0]
        forest = compute_tree(ground, cluster, SEEDS)
        tree = spanning(ground, forest.edges)
        assert (tree.parent < 0).sum() == 1
        below = np.flatnonzero(tree.parent >= 0)
        again = tree_of(demand.network, tree.parent[below], below)  # raises if it does not span
        instances = demand.instances(demand.fit, item_group, 2)
        assert cost_on(tree, demand.fit, instances) == pytest.approx(forest.cost)
        assert cost_on(again, demand.fit, instances) == pytest.approx(forest.cost)
        assert forest.cost == min(compute_tree(ground, cluster, [each]).cost for each in SEEDS)


def test_links_that_lead_only_there() -> None:
    """They are in no tree, and in no Steiner tree that one is made of."""
    links = {(0, 1): 5.0, (1, 0): 5.0, (1, 2): 5.0, (2, 1): 5.0, (0, 2): 0.0}
    ends, prices = np.array(list(links)), np.array(list(links.values()))
    network = Network.between(np.arange(3), ends[:, 0], ends[:, 1], prices, prices)
    demand = demand_for(network, [(0, 2)], [(0, {0}, 3)])
    ground = ground_of(demand, demand.fit)
    [cluster] = clusters_of(ground, demand, np.zeros(1, np.int64), 1)
    assert compute_tree(ground, cluster, [0]).cost == 30.0
    assert sorted(spanning(ground, compute_tree(ground, cluster, [0]).edges).parent.tolist()) == [-1, 0, 1]


# Algorithm 3


def plain_merges(demand: Demand) -> list[tuple[int, int]]:
    """Of clusters that share something: every similarity anew for every merge, of sets."""
    rows, filters = demand.fit, sorted(set(demand.item_predicate.tolist()))
    matches: dict[int, set[int]] = {number: set() for number in range(len(filters))}
    for row in range(len(rows.roots)):
        for item in rows.items[rows.offsets[row] : rows.offsets[row + 1]]:
            matches[filters.index(int(demand.item_predicate[item]))].add(row)
    merges: list[tuple[int, int]] = []

    def bytes_of(some: set[int]) -> int:
        return int(rows.bytes[sorted(some)].sum())

    def likeness(pair: tuple[int, int]) -> float:
        one, other = (matches[each] for each in pair)
        return bytes_of(one & other) / max(bytes_of(one | other), 1)

    while len(matches) > 1:
        one, other = min(combinations(sorted(matches), 2), key=lambda pair: (-likeness(pair), pair))
        if not matches[one] & matches[other]:
            break
        merges.append((one, other))
        matches[len(filters) + len(merges) - 1] = matches.pop(one) | matches.pop(other)
    return merges


@pytest.mark.parametrize("seed", range(60))
def test_the_dendrogram(seed: int) -> None:
    demand = random_demand(random.Random(seed), filters=8)
    tree, expected = dendrogram(demand), plain_merges(demand)
    assert len(tree.merges) == tree.leaves - 1
    assert [tuple(pair) for pair in tree.merges[: len(expected)].tolist()] == expected
    for merged in range(tree.leaves):
        assert len(set(tree.clusters_after(merged).tolist())) == tree.leaves - merged
    assert (tree.clusters_after(tree.leaves - 1) == 2 * tree.leaves - 2).all()


def test_clusters_that_match_nothing_merge_last() -> None:
    network = network_of(2, {(0, 1): (1.0, 1.0)})
    items = [(each, each % 2) for each in range(6)]
    demand = demand_for(network, items, [(0, {1}, 1), (0, {3}, 1), (1, {5}, 1), (1, {3, 5}, 1)])
    assert dendrogram(demand).merges.tolist() == [[3, 5], [1, 6], [0, 2], [4, 8], [7, 9]]
    assert most_similar(demand, 1).tolist() == [0, 3, 1, 3, 2, 3]
    assert most_similar(demand, 2).tolist() == [0, 1, 2, 4, 3, 4]
    assert most_similar(demand, 9).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("seed", range(30))
def test_of_all_configurations_the_cheapest(seed: int) -> None:
    demand = random_demand(random.Random(seed))
    ground, tree = ground_of(demand, demand.fit), dendrogram(demand)
    found = compute_multiple_trees_2(ground, demand, SEEDS)
    costs = []
    for merged in range(tree.leaves):
        _, group = np.unique(tree.clusters_after(merged)[tree.leaf_of], return_inverse=True)
        trees = [compute_tree(ground, each, SEEDS) for each in clusters_of(ground, demand, group, tree.leaves - merged)]
        costs.append(sum(each.cost for each in trees))
    group, spanned = with_trees(ground, demand, found, SEEDS)
    assert cost_of(demand, group, spanned) == pytest.approx(min(costs))


# Algorithm 2


def plain_mult2(ground: Ground, demand: Demand, seeds: range) -> list[set[int]]:
    """Every pair anew in every round; clusters as sets of filters."""

    def cost(filters: set[int]) -> float:
        others = (~np.isin(demand.item_predicate, sorted(filters))).astype(np.int64)
        return compute_tree(ground, clusters_of(ground, demand, others, 2)[0], seeds).cost

    def shares(one: set[int], other: set[int]) -> bool:
        groups = np.where(np.isin(demand.item_predicate, sorted(one)), 0, 2)
        groups[np.isin(demand.item_predicate, sorted(other))] = 1
        first, second, _ = clusters_of(ground, demand, groups, 3)
        return bool(np.isin(first.rows, second.rows).any())

    clusters = [{each} for each in sorted(set(demand.item_predicate.tolist()))]
    while True:
        gains = []
        for i, j in combinations(range(len(clusters)), 2):
            apart = cost(clusters[i]) + cost(clusters[j])
            if shares(clusters[i], clusters[j]):
                gains.append((-(apart - cost(clusters[i] | clusters[j])) / apart, i, j))
        if not gains or min(gains)[0] > -1e-9:
            return clusters
        _, i, j = min(gains)
        merged = clusters[i] | clusters[j]
        clusters = [each for k, each in enumerate(clusters) if k not in (i, j)] + [merged]


@pytest.mark.parametrize("seed", range(12))
def test_with_caches_as_without(seed: int) -> None:
    demand = random_demand(random.Random(seed), filters=12)
    ground = ground_of(demand, demand.fit)
    _, start = np.unique(demand.item_predicate, return_inverse=True)
    cluster = compute_multiple_trees_1(ground, demand, start, SEEDS)
    found = [set(demand.item_predicate[cluster == each].tolist()) for each in set(cluster.tolist())]
    assert sorted(map(sorted, found)) == sorted(map(sorted, plain_mult2(ground, demand, SEEDS)))


# Plans


def planned(name: str, scenario: Scenario, given: dict[str, Value] | None = None, seed: int = 0) -> Plan:
    return make_plan(name, scenario, Steps(), given or {}, seed)


@pytest.fixture(scope="module")
def scenarios(tmp_path_factory: pytest.TempPathFactory) -> list[Scenario]:
    folder = tmp_path_factory.mktemp("scenarios")
    drawn = [random_scenario(random.Random(seed), folder / str(seed)) for seed in range(40)]
    return [scenario for scenario in drawn if not stranded(scenario)]


@pytest.mark.parametrize("name", NAMES)
def test_plans_are_valid(name: str, scenarios: list[Scenario]) -> None:
    """And the same for the same seed."""
    for scenario in scenarios:
        plan = planned(name, scenario, seed=3)
        assert problems_of_plan(scenario, plan, Steps().publishers(scenario)) == []
        assert sorted(plan.members["subscription"].to_pylist()) == sorted(scenario.subscriptions["id"].to_pylist())
        again = planned(name, scenario, seed=3)
        assert all(getattr(plan, table).equals(getattr(again, table)) for table in ("flows", "members", "trees"))


LINE = [(u, v, 1.0) for u, v in ((1, 2), (2, 1), (2, 3), (3, 2), (3, 4), (4, 3))]


def line(folder: Path, wanted: dict[int, str], topics: list[tuple[int, str]]) -> Scenario:
    """Four brokers, each with a client of ten times its number; what clients want, and who publishes what."""
    access = [link for each in range(1, 5) for link in ((each, 10 * each, 0.0), (10 * each, each, 0.0))]
    subscriptions = [
        (number, client, f"topic = '{topic}'", False) for number, (client, topic) in enumerate(wanted.items())
    ]
    tables = scenario_tables(range(1, 5), LINE + access, [10, 20, 30, 40], subscriptions)
    events = events_table([(client, 1, topic) for client, topic in topics], {"topic": pa.string()})
    return scenario_of(folder / "scenario", Settings(), tables, events)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("wanted", "topics"),
    [
        ({10: "a", 30: "b"}, []),
        ({10: "a", 30: "b"}, [(20, "c")] * 5),
        ({30: "b"}, [(10, "b"), (30, "b")]),
        ({10: "a", 30: "b", 40: "a"}, [(10, "a"), (10, "b"), (30, "b")]),
        ({}, [(10, "a")]),
    ],
    ids=["no events", "nobody wants them", "one member", "brokers without subscribers", "no subscriptions"],
)
def test_little_to_plan(name: str, wanted: dict[int, str], topics: list[tuple[int, str]], tmp_path: Path) -> None:
    scenario = line(tmp_path, wanted, topics)
    plan = planned(name, scenario)
    assert problems_of_plan(scenario, plan, Steps().publishers(scenario)) == []
    assert plan.members.num_rows == len(wanted)
    assert plan.trees.num_rows == 3 * plan.flows.num_rows


def test_what_is_asked_for_wrongly(tmp_path: Path) -> None:
    scenario = line(tmp_path, {10: "a"}, [(30, "a")])
    wrong: list[Value] = [0, -1, 1.5, "many", True, None]
    for value in wrong:
        for name, parameter in (("single", "trials"), ("mult", "rows"), ("mult2", "trials"), ("hybrid", "groups")):
            with pytest.raises(UsageError, match=f"{parameter}=.*: it is a number from 1 on"):
                planned(name, scenario, {parameter: value})


# Algorithm 1


@pytest.mark.parametrize("seed", range(20))
def test_one_tree_from_what_crosses_the_links(seed: int) -> None:
    """As the tree of one cluster that has everything; and any numbers give a tree."""
    dice = random.Random(seed)
    demand = random_demand(dice)
    ground = ground_of(demand, demand.fit)
    group = np.zeros(demand.items, np.int64)
    [everything] = clusters_of(ground, demand, group, 1)
    crossed = np.zeros(len(demand.network.targets), np.int64)
    sizes = np.diff(everything.link_offsets)
    np.add.at(crossed, everything.links, np.repeat(demand.fit.bytes[everything.rows], sizes))
    tree = single_tree(ground, demand, crossed, SEEDS)
    assert cost_of(demand, group, [tree]) == pytest.approx(compute_tree(ground, everything, SEEDS).cost)
    other = single_tree(ground, demand, np.array([dice.choice([0, 0, 3]) for _ in crossed]), SEEDS)
    below = np.flatnonzero(other.parent >= 0)
    tree_of(demand.network, other.parent[below], below)  # raises if it does not span
