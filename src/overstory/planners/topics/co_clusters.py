"""Spectral co-clustering of users and topics (Dhillon, 2001): clusters of topics from the leading singular vectors of
the interests, scaled by how much each user and each topic has of them."""

import numpy as np

from overstory.planners.topics.clustering import Clustering
from overstory.planners.topics.demand import Asked, Demand
from overstory.planners.topics.k_means import KS, STARTS, best_of, disjoint, lloyd
from overstory.planners.topics.planning import Parameters, planner_by


def find(asked: Asked, parameters: Parameters, seed: int) -> Clustering:
    return best_of(asked, (co_clusters(asked.demand, k, seed) for k in KS))


def co_clusters(demand: Demand, k: int, seed: int) -> list[list[int]]:
    from scipy.sparse import csr_matrix

    users, topics = demand.users, len(demand.rates)
    of_user = np.maximum(np.diff(demand.offsets), 1) ** -0.5
    of_topic = np.maximum(demand.popularity, 1) ** -0.5
    values = np.repeat(of_user, np.diff(demand.offsets)) * of_topic[demand.topics]
    scaled = csr_matrix((values, demand.topics, demand.offsets), shape=(users, topics))
    _squares, vectors = np.linalg.eigh((scaled.T @ scaled).toarray())
    dimensions = min(int(np.ceil(np.log2(max(k, 2)))) + 1, topics)
    places = of_topic[:, None] * vectors[:, ::-1][:, 1:dimensions]
    draw = np.random.default_rng([seed, k])
    tries = [lloyd(places, min(k, topics), draw) for _ in range(STARTS)]
    return disjoint(min(tries, key=lambda found: found[1])[0])


plan = planner_by(find, "topics-co-clusters")
