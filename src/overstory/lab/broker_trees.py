"""Trees of brokers below a publisher: one level, or several by clustering places, with few children each."""

from typing import NamedTuple

import numpy as np

from overstory.model.network import Floats, Ints

DEGREE = 15  # children of a broker, at most


class Tree(NamedTuple):
    """Brokers by number, the publisher's first; of it the parent is -1."""

    parent: Ints
    places: Floats
    before: Floats  # milliseconds from the publisher's broker to each

    @property
    def leaves(self) -> Ints:
        inner = np.zeros(len(self.parent), bool)
        inner[self.parent[1:]] = True
        inner[0] = True
        return np.flatnonzero(~inner)


def tree_of(places: Floats, publisher: Floats, several_levels: bool, processing: float) -> Tree:
    """Brokers at some places below the publisher's; ``processing`` is milliseconds at each."""
    parent = np.zeros(len(places) + 1, np.int64)
    parent[0] = -1
    every = np.concatenate([publisher[None], places])
    if several_levels:
        _hang(0, np.arange(1, len(every)), every, parent)
    before = np.zeros(len(every))
    for broker in _downwards(parent).tolist():
        above = parent[broker]
        before[broker] = before[above] + np.linalg.norm(every[broker] - every[above]) + processing
    return Tree(parent, every, before)


def _downwards(parent: Ints) -> Ints:
    """All but the root, each after its parent."""
    depth = np.zeros(len(parent), np.int64)
    above = parent.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    return np.argsort(depth, kind="stable")[1:]


def _hang(root: int, brokers: Ints, places: Floats, parent: Ints) -> None:
    """Brokers below a root: itself if they are few, else below the medoids of clusters."""
    if len(brokers) <= DEGREE:
        parent[brokers] = root
        return
    medoids = _medoids(places[brokers])
    near = np.linalg.norm(places[brokers][:, None] - places[brokers[medoids]], axis=2)
    cluster = near.argmin(axis=1)
    cluster[medoids] = np.arange(len(medoids))
    for number, medoid in enumerate(medoids.tolist()):
        parent[brokers[medoid]] = root
        mine = brokers[(cluster == number) & (np.arange(len(brokers)) != medoid)]
        _hang(int(brokers[medoid]), mine, places, parent)


def _medoids(places: Floats) -> Ints:
    """As many as a broker may have children: the farthest from all before, then moved to the middle of their own."""
    far = np.linalg.norm(places[:, None] - places[None], axis=2)
    chosen = [int(far.sum(axis=1).argmin())]
    while len(chosen) < DEGREE:
        chosen.append(int(far[:, chosen].min(axis=1).argmax()))
    medoids = np.array(chosen)
    for _ in range(10):
        cluster = far[:, medoids].argmin(axis=1)
        cluster[medoids] = np.arange(DEGREE)
        members = [np.flatnonzero(cluster == number) for number in range(DEGREE)]
        medoids = np.array([mine[far[np.ix_(mine, mine)].sum(axis=1).argmin()] for mine in members])
    return medoids
