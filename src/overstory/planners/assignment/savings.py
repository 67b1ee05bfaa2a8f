"""What a little more would save: one more box in every filter, one more broker, or more milliseconds for everybody.

Each answer goes on from the plan that there is, with the search of ``assignment-search`` and the same work for each. It
is compared with what that work finds under the limits as they are, so that a saving is of the change, not of the
search. Costs are of the events that planners see.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overstory.filters import parse_filter
from overstory.filters.value_sets import Numbers
from overstory.kernels.enlarging import Filters, no_filters
from overstory.kernels.volumes import union_weight
from overstory.model.network import Floats, Ints
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.planners.assignment.greedy import ground_of
from overstory.planners.assignment.outcome import bandwidth
from overstory.planners.assignment.problem import Problem, as_words, problem_of
from overstory.planners.assignment.search import improved, work_of
from overstory.planners.steps import Steps

MORE_TIME = 10.0  # milliseconds
TWINS = 3  # leaves beside which one more broker is tried
EFFORT = 2  # of the search, for each answer


class Savings(NamedTuple):
    """What the search finds from the plan on, and what it finds with a little more."""

    now: float  # under the limits as they are
    more_boxes: float
    more_time: float
    more_brokers: float
    beside: int  # the id of the broker beside which one more is best
    boxes: int  # of a filter, now

    def shares(self) -> dict[str, float]:
        """How much less each is than now; 0 where nothing less was found."""
        every = {"box": self.more_boxes, "broker": self.more_brokers, "milliseconds": self.more_time}
        return {name: max(1 - cost / self.now, 0.0) if self.now else 0.0 for name, cost in every.items()}


def savings_of(scenario: Scenario, pipeline: Steps, plan: Plan, effort: int = EFFORT, seed: int = 0) -> Savings:
    """Of a plan of subscriber assignment, under the parameters that it was made with."""
    parameters = {name: value for name, value in plan.header.parameters.items() if name in ("boxes", "last_hop")}
    base = {"attachments": plan.attachments, "trees": plan.trees}
    problem = problem_of(scenario, pipeline, base, parameters)
    leaf = leaves_of(problem, plan.attachments)
    had = filters_of(problem, plan.filters)
    later = problem_of(scenario, pipeline, base, parameters, MORE_TIME)

    def cost(changed: Problem, filters: Filters) -> float:
        return bandwidth(changed, _continued(changed, leaf, filters, effort, seed))

    twins = np.argsort(-had.weights[: len(problem.fair)], kind="stable")[:TWINS].tolist()
    with_twin = {
        twin: bandwidth(wider, _continued(wider, leaf, _with_leaf(had, len(problem.fair)), effort, seed))
        for twin in twins
        for wider in [with_twin_of(problem, twin)]
    }
    best = min(with_twin, key=lambda twin: (with_twin[twin], twin))
    wide = replace(problem, boxes=problem.boxes + 1)
    return Savings(
        cost(problem, had),
        cost(wide, _with_room(had)),
        cost(later, had),
        with_twin[best],
        int(problem.brokers.network.ids[problem.brokers.leaves[best]]),
        problem.boxes,
    )


def _continued(problem: Problem, leaf: Ints, filters: Filters, effort: int, seed: int) -> Filters:
    """The filters that a search from this assignment on ends with. Brokers that are too full stay so, at worst."""
    ground = ground_of(problem, problem.factor)
    load = np.bincount(leaf, minlength=len(problem.fair))
    ground = ground._replace(capacity=np.maximum(ground.capacity, load))
    _, after = improved(problem, ground, leaf, filters, work_of(effort), seed)
    return after


def leaves_of(problem: Problem, attachments: pa.Table) -> Ints:
    """The number of each subscriber's leaf in a plan."""
    clients, brokers = (attachments[name].to_numpy() for name in ("client", "broker"))
    order = np.argsort(clients)
    mine = brokers[order][np.searchsorted(clients, problem.clients, sorter=order)]
    return np.asarray(problem.brokers.leaf_of[problem.brokers.network.positions(mine)])


def filters_of(problem: Problem, rows: pa.Table) -> Filters:
    """The filters of a plan, as boxes of the grid: the inverse of ``EventSpace.filter_of``."""
    number = np.full(len(problem.brokers.network), -1)
    number[problem.brokers.nodes] = np.arange(len(problem.brokers.nodes))
    found = no_filters(len(problem.brokers.nodes), problem.boxes)
    targets = number[problem.brokers.network.positions(rows["target"].to_numpy())]
    for node, text in zip(targets.tolist(), rows["filter"].to_pylist(), strict=True):
        boxes = np.array([_cells(problem, box.sets) for box in parse_filter(text).boxes], np.int64)
        found.boxes[node, : len(boxes)], found.counts[node] = boxes, len(boxes)
        found.weights[node] = union_weight(problem.space.sums, boxes, len(boxes))
    return found


def _cells(problem: Problem, sets: Mapping[str, object]) -> list[int]:
    """A box of a filter as cells of the grid."""
    found: list[int] = []
    for name, edges in zip(problem.space.names, problem.space.edges, strict=True):
        mine = sets.get(name)
        if isinstance(mine, Numbers):
            found += _range(mine, edges)
        else:  # it may be absent, or anything that is there
            found += [0, len(edges) + (2 if mine is None else 1)]
    return found if len(problem.space.names) > 1 else [*found, 0, 1]


def _range(mine: Numbers, edges: Floats) -> list[int]:
    first, last = float(mine.cuts[0][0]), float(mine.cuts[-1][0])
    low = int(np.searchsorted(edges, first, "right"))
    high = len(edges) + 1 if len(mine.cuts) % 2 else int(np.searchsorted(edges, last, "left")) + 1
    return [low, high]


def _with_room(filters: Filters) -> Filters:
    """The same filters, with room for one more box in each."""
    nodes, alpha = filters.boxes.shape[:2]
    found = no_filters(nodes, alpha + 1)
    found.boxes[:, :alpha] = filters.boxes
    return Filters(found.boxes, filters.counts.copy(), filters.weights.copy())


def _with_leaf(filters: Filters, leaves: int) -> Filters:
    """The same filters, with an empty one for one more leaf."""
    return Filters(
        np.insert(filters.boxes, leaves, 0, axis=0),
        np.insert(filters.counts, leaves, 0),
        np.insert(filters.weights, leaves, 0.0),
    )


def with_twin_of(problem: Problem, leaf: int) -> Problem:
    """The problem with one more leaf at the place of another one, and with its delays; all have equally less to do."""
    leaves, brokers = len(problem.fair), problem.brokers
    parent = np.where(brokers.parent >= 0, brokers.parent + 1, -1)
    mask = np.concatenate([problem.mask, problem.mask[:, leaf : leaf + 1]], axis=1)
    fair = np.append(problem.fair, problem.fair[leaf])
    wider = brokers._replace(
        nodes=np.insert(brokers.nodes, leaves, brokers.nodes[leaf]),
        parent=np.insert(parent, leaves, parent[leaf]),
        prices=np.insert(brokers.prices, leaves, brokers.prices[leaf]),
        leaves=np.append(brokers.leaves, brokers.leaves[leaf]),
    )
    return replace(
        problem,
        brokers=wider,
        words=as_words(mask),
        fair=fair * problem.fair.sum() / fair.sum(),
        others=np.append(problem.others, 0),
    )
