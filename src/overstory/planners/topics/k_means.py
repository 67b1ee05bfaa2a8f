"""K-means on topics, each a vector over users: disjoint clusters, for the K that costs least.

The vectors are reduced by an exact decomposition first, which keeps all distances between topics: there are fewer
topics than users. Users then choose the clusters that save them most (generous: the paper's users do not).
"""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from overstory.planners.topics.clustering import Clustering, covered, overall
from overstory.planners.topics.demand import Asked, Demand
from overstory.planners.topics.planning import Parameters, planner_by

Floats = NDArray[np.float64]
KS = (5, 8, 10, 15, 20, 30)
ROUNDS, STARTS = 40, 4
MOST_TOPICS = 4000  # whose common interests are kept as one matrix


def find(asked: Asked, parameters: Parameters, seed: int) -> Clustering:
    ks = KS if parameters["clusters"] == "auto" else (int(str(parameters["clusters"])),)
    return best_of(asked, (disjoint(labels) for labels in labellings(asked.demand, ks, seed)))


def best_of(asked: Asked, clusters: Iterable[list[list[int]]]) -> Clustering:
    """Of several sets of clusters the one that costs least once every user has chosen."""
    found = [covered(asked.demand, asked.costs, each) for each in clusters]
    return min(found, key=lambda each: overall(asked.demand, asked.costs, each).cost)


def labellings(demand: Demand, ks: Iterable[int], seed: int) -> Iterator[NDArray[np.int64]]:
    """For each K the cluster of each topic, with the least sum of squares of a few starts."""
    places = embedded(demand)
    for k in ks:
        draw = np.random.default_rng([seed, k])
        tries = [lloyd(places, min(k, len(places)), draw) for _ in range(STARTS)]
        yield min(tries, key=lambda found: found[1])[0]


def embedded(demand: Demand) -> Floats:
    """Points with the distances that the topics' vectors over users have."""
    common = co_interest(demand)
    values, vectors = np.linalg.eigh(common)
    kept = values > 1e-9 * max(values[-1], 1.0) if len(values) else values > 0
    found: Floats = vectors[:, kept] * np.sqrt(values[kept])
    return found


def co_interest(demand: Demand) -> Floats:
    """How many users want both of two topics."""
    from scipy.sparse import csr_matrix

    matrix = csr_matrix(
        (np.ones(len(demand.topics)), demand.topics, demand.offsets), shape=(demand.users, len(demand.rates))
    )
    found: Floats = (matrix.T @ matrix).toarray()
    return found


def lloyd(places: Floats, k: int, draw: np.random.Generator) -> tuple[NDArray[np.int64], float]:
    centres = _spread_out(places, k, draw)
    labels = np.zeros(len(places), np.int64)
    for _ in range(ROUNDS):
        squares = _squares(places, centres)
        new = squares.argmin(axis=1)
        if (new == labels).all():
            break
        labels = new
        for each in range(k):
            if (labels == each).any():
                centres[each] = places[labels == each].mean(axis=0)
    return labels, float(_squares(places, centres)[np.arange(len(places)), labels].sum())


def _squares(places: Floats, centres: Floats) -> Floats:
    found: Floats = (places**2).sum(1)[:, None] - 2 * places @ centres.T + (centres**2).sum(1)[None]
    return found


def _spread_out(places: Floats, k: int, draw: np.random.Generator) -> Floats:
    """The first centres, far from each other (k-means++)."""
    chosen = [int(draw.integers(len(places)))]
    for _ in range(k - 1):
        far = np.maximum(_squares(places, places[chosen]).min(axis=1), 0)
        total = far.sum()
        chosen.append(int(draw.choice(len(places), p=far / total)) if total > 0 else int(draw.integers(len(places))))
    return places[chosen].copy()


def disjoint(labels: NDArray[np.int64]) -> list[list[int]]:
    """The clusters of two topics or more."""
    groups = [np.flatnonzero(labels == each).tolist() for each in np.unique(labels)]
    return [group for group in groups if len(group) > 1]


plan = planner_by(find, "topics-k-means")
