"""Groups by location: k medoids among the brokers, and for each group the tree of cheapest paths from its medoid.

What is put into a group is a subscription, by where it is, or a filter with all its subscriptions, by where these are
on the whole. The former keeps groups small in space; the latter sends an event that matches one filter in one flow.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import csr_array

from overstory.errors import UsageError
from overstory.kernels.distances import distances_to
from overstory.model.network import Ints, Network
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.steps import Steps
from overstory.planners.trees.demand import Demand, Rows, demand_of
from overstory.planners.trees.spanning import Tree, as_tables, cost_on, priced
from overstory.planners.trees.spt import paths_from

MOST_GROUPS = 256  # that are tried, each time twice as many
ROUNDS = 5
TOO_DEAR = 1.08  # times the best so far: still more groups would only cost more
WAYS = ("subscription", "filter")

Singles = NDArray[np.float32]


class Things(NamedTuple):
    """What is put into groups."""

    of_item: Ints
    weights: csr_array  # by thing and broker: what goes there


class Groups(NamedTuple):
    centres: Ints
    of_item: Ints
    distance: float  # from the centres to their things, weighted


class Try(NamedTuple):
    cost: float
    groups: Groups


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    sizes, ways = _sizes(parameters["groups"]), _ways(parameters["by"])
    demand = demand_of(scenario, pipeline, base)
    best = best_groups(demand, ways, sizes, seed)
    return as_tables(scenario, demand, best.of_item, trees_of(demand.network, best.centres))


def best_groups(demand: Demand, ways: Sequence[str], sizes: Sequence[int], seed: int) -> Groups:
    """Fitted on one part of the sample, chosen on the other."""
    far = distances_between(demand.network)
    tried = [attempt for way in ways for attempt in _tries(demand, things_of(demand, way), far, sizes, seed)]
    return min(tried, key=lambda each: each.cost).groups


def _sizes(wanted: Value) -> list[int]:
    if wanted == "auto":
        return [1 << power for power in range(MOST_GROUPS.bit_length())]
    if type(wanted) is not int or wanted < 1:
        raise UsageError(f"groups={wanted}: it is auto or a number from 1 on")
    return [wanted]


def _ways(wanted: Value) -> tuple[str, ...]:
    if wanted == "both":
        return WAYS
    if wanted not in WAYS:
        raise UsageError(f"by={wanted}: it is {', '.join(WAYS)} or both")
    return (str(wanted),)


def distances_between(network: Network) -> Singles:
    """By target, then by source; over links that lead both ways, as those of trees do."""
    prices = np.where(network.back >= 0, network.prices, np.inf)
    return distances_to(network.offsets, network.targets, prices, np.arange(len(network))).far.astype(np.float32)


def things_of(demand: Demand, way: str) -> Things:
    """Weighted by bytes of the fit rows, and one byte more: what nobody has published yet has a place too."""
    rows = demand.fit
    heavy = np.repeat(rows.bytes, np.diff(rows.offsets))
    weight = 1.0 + np.bincount(rows.items, heavy, demand.items)
    of_item = np.arange(demand.items) if way == "subscription" else demand.item_predicate
    shape = (int(of_item.max(initial=-1)) + 1, len(demand.network))
    return Things(of_item, csr_array((weight.astype(np.float32), (of_item, demand.item_broker)), shape=shape))


def _tries(demand: Demand, things: Things, far: Singles, sizes: Sequence[int], seed: int) -> Iterator[Try]:
    least = np.inf
    for size in sizes:
        groups = k_medoids(things, far, size, seed)
        cost = cost_of(demand, demand.choose, groups)
        yield Try(cost, groups)
        least = min(cost, least)
        if cost > TOO_DEAR * least or len(groups.centres) < size:
            return


def k_medoids(things: Things, far: Singles, size: int, seed: int, rounds: int = ROUNDS) -> Groups:
    """Lloyd's rounds: each thing to the nearest medoid, and each group's medoid to where it is nearest to its things.
    No round raises the sum of distances; it ends when one does not lower it."""
    medoids = _spread(things, far, size, seed)
    group, least = _nearest(things, far, medoids)
    for _ in range(rounds):
        moved = _medoids(things, far, group, medoids)
        regrouped, distance = _nearest(things, far, moved)
        if distance >= least:
            break
        medoids, group, least = moved, regrouped, distance
    return Groups(medoids, group[things.of_item], least)


def _spread(things: Things, far: Singles, size: int, seed: int) -> Ints:
    """A first medoid where it is best for everything; each further one is drawn among the brokers of things, the more
    probably the farther they are from all medoids so far and the heavier."""
    dice = np.random.default_rng(seed)
    load = things.weights.sum(axis=0)
    medoids = [int((load @ far).argmin())]
    near = far[:, medoids[0]]
    while len(medoids) < size:
        away = np.cumsum(load * near, dtype=np.float64)
        if not away[-1] > 0:
            break  # every thing stands on a medoid
        medoids.append(int(np.searchsorted(away, dice.random() * away[-1], side="right")))
        near = np.minimum(near, far[:, medoids[-1]])
    return np.array(medoids)


def _nearest(things: Things, far: Singles, medoids: Ints) -> tuple[Ints, float]:
    distances = things.weights @ far[:, medoids]
    group = distances.argmin(axis=1)
    return group, float(distances[np.arange(len(group)), group].sum(dtype=np.float64))


def _medoids(things: Things, far: Singles, group: Ints, medoids: Ints) -> Ints:
    """A group without things keeps its medoid."""
    size = len(group)
    grouping = csr_array((np.ones(size, np.float32), (group, np.arange(size))), shape=(len(medoids), size))
    distances = (grouping @ things.weights).toarray() @ far
    alone = np.bincount(group, minlength=len(medoids)) == 0
    return np.where(alone, medoids, distances.argmin(axis=1))


def trees_of(network: Network, centres: Ints) -> list[Tree]:
    return [priced(network, parent) for parent in paths_from(network, centres)[1]]


def cost_of(demand: Demand, rows: Rows, groups: Groups) -> float:
    """With one copy for each flow."""
    instances = demand.instances(rows, groups.of_item, len(groups.centres))
    trees = trees_of(demand.network, groups.centres)
    return sum(cost_on(tree, rows, instances, group) for group, tree in enumerate(trees))
