"""python -m overstory.planners: compiles the kernels of planners, so that the first plan does not have to wait."""

from typing import NamedTuple

import numpy as np

from overstory.kernels.overlay_exact import Small, branch, polish
from overstory.kernels.overlay_state import Given, new_state
from overstory.model.network import Ints, Network
from overstory.planners.assignment import trial
from overstory.planners.overlay.search import improved
from overstory.planners.topics.costs import linear
from overstory.planners.topics.demand import Demand as Interests
from overstory.planners.topics.replaying import RECOVERING, Rules
from overstory.planners.topics.tamara import joins, online
from overstory.planners.topics.topic_search import searched
from overstory.planners.trees.clusters import ground_of
from overstory.planners.trees.demand import Demand, Rows
from overstory.planners.trees.geo_mult import best_groups
from overstory.planners.trees.mult import compute_multiple_trees_2
from overstory.planners.trees.mult2 import compute_multiple_trees_1
from overstory.planners.trees.summaries import Summarising
from overstory.planners.trees.tree_search import search


def small_demand() -> Demand:
    """A ring of four brokers, two filters, two events."""
    here, there = np.arange(4), np.roll(np.arange(4), -1)
    ends = np.concatenate([here, there]), np.concatenate([there, here])
    network = Network.between(here, *ends, np.ones(8), np.ones(8))
    rows = Rows(np.array([0, 1]), np.array([0, 2, 4]), np.array([0, 1, 1, 2]), np.array([1, 1]))
    items = np.arange(3)
    return Demand(network, items, np.array([1, 2, 3]), np.array([0, 0, 1]), rows, rows)


class Partners(NamedTuple):
    """By topic those others that most of its users want as well, and how many do."""

    topics: Ints
    shared: Ints


def small_interests() -> Interests:
    """Two users who want the same two topics."""
    return Interests(np.array([0, 2, 4]), np.array([0, 1, 0, 1], np.int32), np.array([0.5, 0.25]))


def small_overlay() -> Given:
    """Two users at two brokers, one channel."""
    far = np.array([[0.0, 1.0], [1.0, 0.0]])
    rows, items = np.array([0, 1, 2]), np.zeros(2, np.int32)
    reach, costs = np.array([[0, 1], [1, 0]], np.int32), np.array([[0.0, 1.0], [0.0, 1.0]])
    one, two = np.ones(1), np.ones(2)
    return Given(far, far, one, np.arange(2), rows, items, rows, items, two, reach, costs, two, 9 * two, 2 * one)


if __name__ == "__main__":
    Summarising([{"x": 1.0}], 1).summary(["x < 1", "y < 1"])
    overlay = small_overlay()
    improved(new_state(overlay, np.arange(2), np.zeros(2)), np.random.default_rng(0), 1)
    wants, few = np.ones((2, 1), np.int64), np.arange(2)
    small = Small(np.zeros((4, 2)), overlay.costs, wants, np.ones((2, 1)), overlay.demand, overlay.capacity)
    polish(small, few)
    branch(small, np.arange(2), few, np.inf)
    demand = small_demand()
    ground = ground_of(demand, demand.fit)
    search(demand, True, 10, "choose")
    compute_multiple_trees_2(ground, demand, [0])
    compute_multiple_trees_1(ground, demand, demand.item_predicate, [0])
    best_groups(demand, ("filter", "subscription"), [1, 2], 0)
    trial.compile_kernels()
    interests = small_interests()
    costs = linear(interests.users, len(interests.rates))
    searched(interests, costs, Partners(np.array([[1], [0]]), np.array([[2], [2]])))
    online(interests, costs, joins(interests, 0), Rules(RECOVERING))
