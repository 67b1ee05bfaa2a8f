"""A tiny problem of assignment, made of arrays alone: to compile kernels with."""

import numpy as np

from overstory.model.network import Network
from overstory.planners.assignment.bounds import certified_bound
from overstory.planners.assignment.completing import assign_all
from overstory.planners.assignment.event_space import EventSpace
from overstory.planners.assignment.greedy import gr, ground_of
from overstory.planners.assignment.problem import Problem
from overstory.planners.assignment.search import search
from overstory.planners.assignment.trees import Brokers


def small_problem() -> Problem:
    """Four subscribers, and two leaves below a broker below the root."""
    here, there = np.array([0, 1, 1]), np.array([1, 2, 3])
    ends = np.concatenate([here, there]), np.concatenate([there, here])
    network = Network.between(np.arange(4), *ends, np.ones(6), np.ones(6))
    leaf_of = np.array([-1, -1, 0, 1])
    brokers = Brokers(
        network, 0, np.array([2, 3, 1]), np.array([2, 2, -1]), np.ones(3), np.array([2, 3]), leaf_of, np.zeros(4),
        np.array([0, 1, 2, 2]),
    )  # fmt: skip
    sums = np.ones((3, 3)).cumsum(axis=0).cumsum(axis=1)
    rectangles = np.array([[0, 1, 0, 1], [1, 2, 1, 2]])
    space = EventSpace(("x", "y"), (np.arange(1.0), np.arange(1.0)), sums, rectangles, 4)
    words = np.array([[3], [1]], np.uint64)
    which, rectangle = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    others, fair = np.zeros(2, np.int64), np.full(2, 2.0)
    return Problem(brokers, space, np.arange(4), rectangle, which, words, fair, others, 3, 1.5, 2.0)


def compile_kernels() -> None:
    problem = small_problem()
    gr(problem, 0, "next")
    found = search(problem, 1, 0)
    assign_all(problem, ground_of(problem, problem.factor), found.filters)
    certified_bound(problem)
