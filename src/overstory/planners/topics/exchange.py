"""Exchanges of whole clusters, for small scenarios: one is opened, closed, or replaced by another, wherever that saves.

Steps that change one cluster at a time miss what only pays at once: a cluster of many topics that few users each want
most of. Here every candidate is tried with all users covering themselves anew, so it is for few users and topics.
Candidates are all sets of topics where there are few, else the interests of users and what two users share.
"""

from collections.abc import Iterator
from itertools import combinations, pairwise

from overstory.planners.topics.clustering import Clustering, covered, overall
from overstory.planners.topics.costs import Costs
from overstory.planners.topics.demand import Demand

MOST_CELLS = 600  # users times topics
ALL_SETS = 8  # topics of which all sets are candidates
MOST_CANDIDATES = 300
Set = frozenset[int]


def exchanged(demand: Demand, costs: Costs, start: Clustering) -> Clustering:
    """The clusters after as many exchanges as save anything, the best one first."""
    best, cost = start, overall(demand, costs, start).cost
    candidates = _candidates(demand)
    while True:
        now_open = [frozenset(each) for each in best.sets()]
        tried = (covered(demand, costs, each) for each in _neighbours(now_open, candidates))
        found, least = best, cost - 1e-9
        for each in tried:
            now = overall(demand, costs, each).cost
            if now < least:
                found, least = each, now
        if found is best:
            return best
        best, cost = found, least


def _neighbours(open_: list[Set], candidates: list[Set]) -> Iterator[list[Set]]:
    """Without one of the clusters, with another one, and with another one instead."""
    fewer = [open_[:at] + open_[at + 1 :] for at in range(len(open_))]
    yield from fewer
    for candidate in candidates:
        if candidate not in open_:
            for some in (open_, *fewer):
                yield [*some, candidate]


def _candidates(demand: Demand) -> list[Set]:
    topics = range(len(demand.rates))
    if len(topics) <= ALL_SETS:
        return [frozenset(some) for size in range(2, len(topics) + 1) for some in combinations(topics, size)]
    offsets = demand.offsets.tolist()
    rows = [frozenset(demand.topics[a:b].tolist()) for a, b in pairwise(offsets)]
    shared = {one & other for one, other in combinations(sorted(set(rows), key=sorted), 2)}
    every = {each for each in {*rows, *shared} if len(each) > 1}
    return sorted(every, key=lambda each: (-sum(each <= row for row in rows), sorted(each)))[:MOST_CANDIDATES]
