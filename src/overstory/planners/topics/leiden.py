"""Communities of topics that are wanted together, by the Leiden algorithm (Traag, Waltman and van Eck, 2019)."""

import numpy as np

from overstory.planners.topics.clustering import Clustering
from overstory.planners.topics.demand import Asked, Demand
from overstory.planners.topics.k_means import best_of, co_interest, disjoint
from overstory.planners.topics.planning import Parameters, planner_by

RESOLUTIONS = (0.5, 1.0, 1.5, 2.0, 3.0)


def find(asked: Asked, parameters: Parameters, seed: int) -> Clustering:
    return best_of(asked, (communities(asked.demand, each, seed) for each in RESOLUTIONS))


def communities(demand: Demand, resolution: float, seed: int) -> list[list[int]]:
    """Topics are joined by what they have in common beyond what their popularity alone would give."""
    import random

    import igraph

    common = co_interest(demand)
    sources, targets = np.nonzero(np.triu(common, 1))
    graph = igraph.Graph(n=len(common), edges=np.stack([sources, targets], axis=1).tolist())
    igraph.set_random_number_generator(random.Random(seed))
    found = graph.community_leiden(
        objective_function="modularity",
        weights=common[sources, targets].tolist(),
        resolution=resolution,
        n_iterations=10,
    )
    return disjoint(np.array(found.membership, np.int64))


plan = planner_by(find, "topics-leiden")
