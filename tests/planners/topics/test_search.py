"""Topic search beside the optimum of an integer programme on small instances, and the parts that it is made of."""

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from overstory.kernels.co_interest import partners_of
from overstory.kernels.covering_users import covers_of_users
from overstory.kernels.topic_overlay import greedy_links
from overstory.pipeline.interests import partners_here
from overstory.planners.topics.clustering import alone, covered, overall
from overstory.planners.topics.demand import Demand, lower_bound
from overstory.planners.topics.exchange import exchanged
from overstory.planners.topics.overlay import overlay_cost
from overstory.planners.topics.topic_search import searched

from .instances import costs_for, random_demand

UNIT = 1000  # a cost of one, as whole numbers: rates have three digits


def least_cost(demand: Demand) -> float:
    """The optimum by CP-SAT: which of all sets of topics are clusters, and what each user is subscribed to."""
    from ortools.sat.python import cp_model

    topics, rates = len(demand.rates), [round(rate * UNIT) for rate in demand.rates.tolist()]
    subsets = [mask for mask in range(1 << topics) if mask.bit_count() > 1]
    load = {mask: sum(rates[t] for t in range(topics) if mask >> t & 1) for mask in subsets}
    model = cp_model.CpModel()
    opened = {mask: model.new_bool_var(f"o{mask}") for mask in subsets}
    cost = [(mask.bit_count() * UNIT + load[mask]) * opened[mask] for mask in subsets]
    for user in range(demand.users):
        wanted = demand.topics[demand.offsets[user] : demand.offsets[user + 1]].tolist()
        mine = sum(1 << t for t in wanted)
        useful = [mask for mask in subsets if (mask & mine).bit_count() > 1]
        held = {mask: model.new_bool_var(f"h{user}.{mask}") for mask in useful}
        direct = {t: model.new_bool_var(f"d{user}.{t}") for t in wanted}
        for mask in useful:
            model.add_implication(held[mask], opened[mask])
        for t in wanted:
            model.add_bool_or([direct[t], *(held[mask] for mask in useful if mask >> t & 1)])
        cost += [(UNIT + load[mask]) * held[mask] for mask in useful]
        cost += [(UNIT + rates[t]) * direct[t] for t in wanted]
    model.minimize(sum(cost))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.random_seed = 1, 1
    solver.parameters.linearization_level = 2  # covering by open clusters has a tight relaxation
    assert solver.solve(model) == cp_model.OPTIMAL
    return float(solver.objective_value + sum(rates)) / UNIT  # each event is told to its topic's channel


def small_demand(seed: int, users: int, topics: int) -> Demand:
    """Two groups of topics, of which a user wants most of one and some of the other."""
    draw = np.random.default_rng(seed)
    group = draw.integers(2, size=users)
    wants = draw.random((users, topics)) < np.where((np.arange(topics) % 2) == group[:, None], 0.85, 0.2)
    user, topic = np.nonzero(wants)
    rates = np.round(draw.uniform(0.01, 0.5, topics), 3)
    return Demand(np.searchsorted(user, np.arange(users + 1)), topic.astype(np.int32), rates)


def any_demand(seed: int) -> Demand:
    """At most 12 users and 8 topics, in two groups or without any likeness."""
    draw = np.random.default_rng(seed)
    users, topics = int(draw.integers(6, 13)), int(draw.integers(4, 9))
    if seed % 2:
        return small_demand(seed, users, topics)
    user, topic = np.nonzero(draw.random((users, topics)) < draw.uniform(0.3, 0.8))
    rates = np.round(draw.uniform(0.005, 0.6, topics), 3)
    return Demand(np.searchsorted(user, np.arange(users + 1)), topic.astype(np.int32), rates)


@pytest.mark.parametrize("seed", [0, 1, 5, 6, 12, 23, 30, 31, 34, 37, "large"])
def test_the_search_is_within_three_percent_of_the_optimum(seed: int | str) -> None:
    demand = small_demand(6, 12, 8) if seed == "large" else any_demand(int(seed))
    costs = costs_for(demand)
    found = overall(demand, costs, searched(demand, costs, partners_here(demand.both_ways(), 8))).cost
    least = least_cost(demand)
    assert lower_bound(demand, costs) <= least + 1e-6
    assert least - 1e-6 <= found <= 1.03 * least


@settings(max_examples=30, deadline=None)
@given(seed=some.integers(0, 10**6))
def test_the_search_never_costs_more_than_no_clusters(seed: int) -> None:
    demand, _ = random_demand(np.random.default_rng(seed), 15, 7)
    costs = costs_for(demand)
    found = searched(demand, costs, partners_here(demand.both_ways(), 6))
    assert overall(demand, costs, found).cost <= overall(demand, costs, alone(demand)).cost + 1e-9
    inside = [set(each) for each in found.sets()]
    assert all(len(each) > 1 for each in inside)
    assert (found.sizes > 0).all()


def test_exchanges_find_what_single_steps_miss() -> None:
    """With more topics than all sets can be tried of, candidates are what users want and share."""
    demand = any_demand(30)
    more = demand._replace(rates=np.concatenate([demand.rates, np.full(6, 0.1)]))  # topics that nobody wants
    costs = costs_for(more)
    found = exchanged(more, costs, alone(more))
    assert found.clusters > 0
    assert overall(more, costs, found).cost < 0.97 * overall(more, costs, alone(more)).cost
    again = exchanged(more, costs, found)
    assert again.sets() == found.sets()


@settings(max_examples=30, deadline=None)
@given(seed=some.integers(0, 10**6))
def test_a_cover_is_the_plain_greedy_one(seed: int) -> None:
    draw = np.random.default_rng(seed)
    demand, _ = random_demand(draw, 12, 7)
    clusters = [sorted(draw.choice(7, draw.integers(2, 5), replace=False).tolist()) for _ in range(4)]
    offsets = np.concatenate([[0], np.cumsum([len(each) for each in clusters])])
    topics = np.array([topic for each in clusters for topic in each], np.int32)
    given_ = (1 + demand.rates, 1.0, demand.rates)
    held_offsets, held = covers_of_users(demand.offsets, demand.topics, offsets, topics, *given_)
    for user in range(demand.users):
        wanted = demand.topics[demand.offsets[user] : demand.offsets[user + 1]].tolist()
        taken = plain_cover(wanted, clusters, demand.rates)
        assert held[held_offsets[user] : held_offsets[user + 1]].tolist() == taken


def plain_cover(wanted: list[int], clusters: list[list[int]], rates: np.ndarray) -> list[int]:
    price = [1 + sum(rates[topic] for topic in each) for each in clusters]
    left, taken = set(wanted), []
    while True:
        gains = [sum(1 + rates[t] for t in left & set(each)) - price[at] for at, each in enumerate(clusters)]
        best = int(np.argmax(gains)) if gains else 0
        if not gains or gains[best] <= 1e-9:
            break
        taken.append(best)
        left -= set(clusters[best])
    for each in list(taken):
        others = set().union(*(clusters[other] for other in taken if other != each))
        alone_ = set(wanted) & set(clusters[each]) - others
        if sum(1 + rates[t] for t in alone_) < price[each]:
            taken.remove(each)
    return sorted(taken)


@settings(max_examples=30, deadline=None)
@given(seed=some.integers(0, 10**6))
def test_partners_are_those_with_most_common_users(seed: int) -> None:
    demand, _ = random_demand(np.random.default_rng(seed), 15, 7)
    found, shared = partners_of(np.arange(7), *demand.both_ways(), 3)
    wants = demand.wants().astype(int)
    common = wants.T @ wants
    np.fill_diagonal(common, 0)
    for topic in range(7):
        best = sorted(range(7), key=lambda other, topic=topic: (-common[topic, other], other))[:3]  # type: ignore[misc]
        expected = [other if common[topic, other] else -1 for other in best]
        assert found[topic].tolist() == expected
        assert shared[topic].tolist() == [common[topic, other] for other in best]
    assert overall(demand, costs_for(demand), covered(demand, costs_for(demand), [])).cost >= 0


@settings(max_examples=25, deadline=None)
@given(seed=some.integers(0, 10**6))
def test_an_overlay_joins_those_who_want_a_topic(seed: int) -> None:
    """By links among themselves; each link joined something when it was taken, the best one first."""
    demand, _ = random_demand(np.random.default_rng(seed), 12, 6)
    links = greedy_links(demand.offsets, demand.topics).tolist()
    wants = demand.wants()
    graphs = [networkx.Graph() for _ in range(6)]
    for topic, graph in enumerate(graphs):
        graph.add_nodes_from(np.flatnonzero(wants[:, topic]).tolist())

    def worth(one: int, other: int) -> int:
        shared = np.flatnonzero(wants[one] & wants[other]).tolist()
        return sum(not networkx.has_path(graphs[topic], one, other) for topic in shared)

    for one, other in links:
        best = max(worth(a, b) for a in range(12) for b in range(a + 1, 12))
        assert worth(one, other) == best > 0
        for topic in np.flatnonzero(wants[one] & wants[other]).tolist():
            graphs[topic].add_edge(one, other)
    assert all(networkx.is_connected(graph) for graph in graphs if len(graph))
    cost = overlay_cost(demand, costs_for(demand))
    assert cost.maintenance == len(links)
