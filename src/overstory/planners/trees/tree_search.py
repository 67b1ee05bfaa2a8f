"""Ours: the best of several configurations of groups and trees, by what they really cost, on events that none of them
was fitted to.

Configurations come from four starts: one tree for everything; a tree for each filter, around a core; the dendrogram of
filters, cut by dynamic programming; and groups by location. All but the first are improved by leaning their trees
towards links with much traffic, by moving filters between groups, and by exchanging links of each group's tree for its
own events. All of it learns from the part of the log to fit; the part to choose by then says how far that was worth it,
so what merely remembers the sample is not taken. The same part says whether it is cheaper to steer: to give each event
a tree of its own, all of them or some (``steered``).
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overstory.errors import UsageError
from overstory.model.network import Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.decision import Decision, relative_costs
from overstory.planners.steps import CHOOSE, FIT, Steps
from overstory.planners.trees.clusters import Ground, ground_of
from overstory.planners.trees.cores import core_trees, leaning_ground, traffic_of
from overstory.planners.trees.cuts import best_cut
from overstory.planners.trees.demand import Demand, demand_of
from overstory.planners.trees.exchange import one_tree, polished
from overstory.planners.trees.geo_mult import best_groups
from overstory.planners.trees.objective import Objective
from overstory.planners.trees.parameters import count_of, truth_of
from overstory.planners.trees.spanning import Tree, as_tables, priced
from overstory.planners.trees.steered import ONE_TREE, WHOLE, How, Making, cheapest, has_to_be_tried, whole
from overstory.planners.trees.steering import steered_costs

MOST_LINKS = 6_000_000  # in the trees of a plan
GEOGRAPHIC = 64  # groups by location
AUTO = "auto"
HOPELESS = 1.002  # times the cheapest start: not worth improving


class Start(NamedTuple):
    """The group of each filter: one that gets a core of its own, or the number behind them, for the common tree."""

    name: str
    groups: Ints
    cores: int


class Configuration(NamedTuple):
    """The group of each filter, and by group the parent of each broker."""

    name: str
    groups: Ints
    parents: Ints


class Compared(NamedTuple):
    best: Configuration
    one_tree: Ints  # the parents of the brokers in the one that is for everything
    costs: dict[str, float]  # of each configuration, by name


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    rows, most, by = count_of(parameters, "rows"), _most_trees(scenario, parameters), _by(parameters)
    may_steer, ordered = truth_of(parameters, "steered"), truth_of(parameters, "ordered")
    demand = demand_of(scenario, pipeline, base, rows)
    known = compared(demand, scenario.settings.coalesce, most, by, seed)
    tables = as_tables(scenario, demand, *_trees_of(demand, known.best))
    if not may_steer or parameters["trees"] != AUTO:
        return Decision(tables, relative_costs(known.costs))
    part = CHOOSE if by == "choose" and len(demand.choose.roots) else FIT
    making = Making(scenario, pipeline, base, How(None, ordered, part, regions=None))
    return _steered_or_not(making, demand, known, tables)


def _steered_or_not(making: Making, demand: Demand, known: Compared, tables: dict[str, pa.Table]) -> Decision:
    """The trees that were found, or what is cheaper than they are; of equally cheap plans the trees."""
    scenario, found = making.scenario, known.best
    if has_to_be_tried(scenario):
        tree = priced(demand.network, known.one_tree)
        tried = cheapest(making, demand, tree, {} if found.name == ONE_TREE else {found.name: tables})
        return Decision(tried.tables, relative_costs(tried.costs), steering=tried.steering)
    rows = demand.choose if making.how.part == CHOOSE else demand.fit
    costs = known.costs | {WHOLE: float(steered_costs(demand, rows).sum())}
    if costs[WHOLE] >= costs[found.name]:
        return Decision(tables, relative_costs(costs))
    saved = 1 - costs[WHOLE] / costs[ONE_TREE]
    return Decision(making.tables(whole(scenario, making.how)), relative_costs(costs), steering={"saved": saved})


def _trees_of(demand: Demand, found: Configuration) -> tuple[Ints, list[Tree]]:
    """The group of each item, and the trees of the groups."""
    used, groups = np.unique(found.groups, return_inverse=True)
    return groups[demand.item_predicate], [priced(demand.network, parent) for parent in found.parents[used]]


def search(demand: Demand, coalesce: bool, most: int, by: str, seed: int = 0) -> Configuration:
    """The cheapest configuration on the part of the sample that is named; of equally cheap ones the first."""
    return compared(demand, coalesce, most, by, seed).best


def compared(demand: Demand, coalesce: bool, most: int, by: str, seed: int = 0) -> Compared:
    """The configuration that ``search`` finds, and by name what each one costs on the part that is named."""
    ground = ground_of(demand, demand.fit)
    fit, choose = Objective(demand, demand.fit, coalesce), Objective(demand, demand.choose, coalesce)
    judge = choose if by == "choose" and len(demand.choose.roots) else fit
    best, one, costs = None, None, dict[str, float]()
    for each in configurations(ground, demand, fit, most, seed):
        costs[each.name] = judge.cost(each.groups, each.parents)
        one = each.parents[0] if each.name == ONE_TREE else one
        if best is None or costs[each.name] < costs[best.name]:
            best = each
    assert best is not None
    assert one is not None
    return Compared(best, one, costs)


def configurations(ground: Ground, demand: Demand, fit: Objective, most: int, seed: int) -> Iterator[Configuration]:
    """One tree takes longest to search for, so that is done beside the others."""
    filters = len(fit.weights)
    with ThreadPoolExecutor(1) as beside:
        searching = beside.submit(one_tree, ground, demand)
        starts = list(_starts(ground, demand, fit, most, seed)) if most > 1 and filters > 1 else []
        trees = [_core_trees(ground, demand, start) for start in starts]
        if starts and fit.coalesce:
            trees.append(_leaning_trees(ground, demand, starts[0], trees[0]))
            starts.append(starts[0]._replace(name=f"{starts[0].name}, leaning"))
        common = searching.result()[None]
    yield Configuration(ONE_TREE, np.zeros(filters, np.int64), common)
    begun = [
        Configuration(start.name, start.groups, np.concatenate([cores, common]))
        for start, cores in zip(starts, trees, strict=True)
    ]
    costs = [fit.cost(configuration.groups, configuration.parents) for configuration in begun]
    for configuration, cost in zip(begun, costs, strict=True):
        yield configuration
        if cost <= HOPELESS * min(costs):
            yield from _improved(configuration, ground, demand, fit)


def _improved(start: Configuration, ground: Ground, demand: Demand, fit: Objective) -> Iterator[Configuration]:
    """Filters go where their events cost least; then each group's tree is fitted to its own events."""
    groups = fit.moved(start.groups, start.parents)
    yield Configuration(f"{start.name}, moved", groups, start.parents)
    parents = polished(ground, demand, groups[demand.item_predicate], start.parents)
    yield Configuration(f"{start.name}, moved, polished", groups, parents)


def _starts(ground: Ground, demand: Demand, fit: Objective, most: int, seed: int) -> Iterator[Start]:
    filters = len(fit.weights)
    kept = np.sort(np.argsort(-fit.weights, kind="stable")[: most - 1])
    groups = np.full(filters, len(kept))
    groups[kept] = np.arange(len(kept))
    yield Start("a tree for each filter", groups, len(kept))
    if filters < most:
        groups = best_cut(ground, demand)
        yield Start("the dendrogram, cut", groups, int(groups.max()) + 1)
    groups = np.zeros(filters, np.int64)
    groups[demand.item_predicate] = best_groups(demand, ("filter",), [min(GEOGRAPHIC, most - 1)], seed).of_item
    used, groups = np.unique(groups, return_inverse=True)
    yield Start("by location", groups, len(used))


def _core_trees(ground: Ground, demand: Demand, start: Start) -> Ints:
    size = len(demand.network)
    keys = np.unique(start.groups[demand.item_predicate] * size + demand.item_broker)
    offsets = np.searchsorted(keys // size, np.arange(start.cores + 1))
    return core_trees(ground, offsets, keys[: offsets[-1]] % size)


def _leaning_trees(ground: Ground, demand: Demand, start: Start, trees: Ints) -> Ints:
    item_group = start.groups[demand.item_predicate]
    return _core_trees(leaning_ground(ground, traffic_of(ground, demand, item_group, trees)), demand, start)


def _most_trees(scenario: Scenario, parameters: Mapping[str, Value]) -> int:
    if parameters["trees"] == AUTO:
        return max(2, MOST_LINKS // max(len(scenario.network) - 1, 1))
    return count_of(parameters, "trees")


def _by(parameters: Mapping[str, Value]) -> str:
    value = parameters["by"]
    if value not in ("choose", "fit"):
        raise UsageError(f"by={value}: it is choose or fit, the part of the log that says which configuration is best")
    return str(value)
