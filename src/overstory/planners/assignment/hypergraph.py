"""Interests as a hypergraph: rectangles are nodes, parts of event space are edges around all who want them.

With any number of boxes, one level and no limit of delay, bandwidth *is* connectivity: the weight of each edge times
the parts that it reaches into. So a partition of few such crossings (Mt-KaHyPar) says what is possible without latency;
as a plan everyone takes a leaf of its part that is in time and has room, else the nearest.
"""

from typing import NamedTuple

import numpy as np

from overstory.model.network import Floats, Ints
from overstory.planners.assignment.bounds import blocks_of
from overstory.planners.assignment.problem import Problem
from overstory.planners.assignment.relaxation import weights_of

MOST_BLOCKS = 96  # along each dimension
PARTS_OF_A_LEAF = 4  # a rectangle that very many want is several nodes, so that parts can be balanced


class Hypergraph(NamedTuple):
    nodes: Ints  # the rectangle of each
    sizes: Ints  # subscribers
    edges: list[list[int]]
    weights: Ints


def hypergraph_of(problem: Problem) -> Hypergraph:
    rectangles = problem.space.rectangles
    counts = np.bincount(problem.rectangle, minlength=len(rectangles))
    largest = max(int(problem.fair.min()) // PARTS_OF_A_LEAF, 1)
    pieces = -(-counts // largest)
    nodes = np.repeat(np.arange(len(rectangles)), pieces)
    first = np.repeat(np.cumsum(pieces) - pieces, pieces)
    order = np.arange(len(nodes)) - first
    sizes = counts[nodes] // pieces[nodes] + (order < counts[nodes] % pieces[nodes])
    blocks = blocks_of(rectangles, problem.space.sums.shape, MOST_BLOCKS)
    weights = np.rint(weights_of(problem.space.sums, blocks)).astype(np.int64)
    meets = np.ones((len(blocks), len(rectangles)), bool)
    for at in (0, 2):
        meets &= rectangles[None, :, at] < blocks[:, None, at + 1]
        meets &= rectangles[None, :, at + 1] > blocks[:, None, at]
    wanted = meets[:, nodes]
    kept = np.flatnonzero((wanted.sum(axis=1) > 1) & (weights > 0))
    return Hypergraph(nodes, sizes, [np.flatnonzero(wanted[each]).tolist() for each in kept.tolist()], weights[kept])


def partition(graph: Hypergraph, parts: int, imbalance: float, seed: int) -> Ints:
    """The part of each node."""
    import mtkahypar

    mtkahypar.set_seed(seed)
    library = mtkahypar.initialize(1)
    context = library.context_from_preset(mtkahypar.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(parts, imbalance, mtkahypar.Objective.KM1)
    context.logging = False
    made = library.create_hypergraph(
        context, len(graph.nodes), len(graph.edges), graph.edges, graph.sizes.tolist(), graph.weights.tolist()
    )
    found = made.partition(context)
    return np.array([found.block_id(node) for node in range(len(graph.nodes))])


def connectivity(graph: Hypergraph, part: Ints) -> float:
    """The weight of edges times the parts that each reaches into."""
    return float(sum(weight * len(set(part[edge])) for edge, weight in zip(graph.edges, graph.weights, strict=True)))


def distances_by_part(problem: Problem, seed: int) -> Floats:
    """By rectangle and leaf: 0 where a node of it is in the leaf's part, else how far their middles are apart."""
    graph, leaves = hypergraph_of(problem), len(problem.fair)
    part = (
        partition(graph, leaves, max(problem.factor - 1.0, 0.05), seed)
        if leaves > 1
        else np.zeros(len(graph.nodes), np.int64)
    )
    rectangles = problem.space.rectangles
    middles = (rectangles[:, 0::2] + rectangles[:, 1::2]) / 2
    counts = np.maximum(np.bincount(part, graph.sizes, leaves), 1)
    centres = np.stack(
        [np.bincount(part, graph.sizes * middles[graph.nodes, axis], leaves) / counts for axis in range(2)], axis=1
    )
    far = 1 + np.linalg.norm(middles[:, None] - centres[None], axis=2)
    far[graph.nodes, part] = 0.0
    return np.asarray(far)
