"""Tamara seeded by topic-search, and corrected by it as interests drift.

The online algorithm begins with the clusters that the search finds for the interests of the beginning. After each part
of the changes but the last the search runs again, and its clusters are taken over if they are cheaper. A new cluster
takes the channel of the old one with which it has most subscribers in common, so that these need not move: who joins or
leaves a channel, who stays and has to hear of its new topics, and every topic that comes or goes is then a message. So
is what the search has to be told: everyone's interests at the beginning, and every change of an interest or of a rate.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from overstory.kernels.tamara_state import NOTICE, UPDATE, Tamara, overall
from overstory.planners.topics.clustering import Clustering
from overstory.planners.topics.costs import Costs
from overstory.planners.topics.demand import Demand
from overstory.planners.topics.replaying import (
    ADD,
    ROOM,
    Changes,
    Replay,
    Rules,
    Timeline,
    empty_state,
    replayed,
    settle,
)

CORRECTIONS = 3  # times that the search runs again, evenly spread over the changes
Floats = NDArray[np.float64]
Search = Callable[[Demand], Clustering]


def seeded(before: Demand, changes: Changes, costs: Costs, rules: Rules, search: Search, looks: int = 1) -> Replay:
    """Replays changes from the clusters that the search finds for those who are there before, with corrections. There
    are ``looks`` at the cost of each part of the changes."""
    state = settled(before, costs, search(before), rules)
    parts: list[Timeline] = []
    told, since = int(np.count_nonzero(np.diff(before.offsets))), 0.0  # messages to the search, and until when
    for number, some in enumerate(_parts(changes, CORRECTIONS + 1)):
        if number:
            state = corrected(state, costs, rules, search)
        part = replayed(state, some, looks, since).timeline
        heard = told + np.searchsorted(some.times, part.times, side="right")
        parts.append(part._replace(messages=part.messages + heard))
        told, since = told + len(some.times), float(part.times[-1])
    state.messages[NOTICE] += told
    return Replay(state, _joined(parts))


def settled(demand: Demand, costs: Costs, found: Clustering, rules: Rules) -> Tamara:
    """A state in which everyone is subscribed as a clustering says."""
    room = found.clusters + 3 * len(demand.rates) + ROOM
    state = empty_state(demand.users, demand.rates, costs, rules, room)
    settle(state, demand, found)
    return state


def corrected(state: Tamara, costs: Costs, rules: Rules, search: Search) -> Tamara:
    """The state with the clusters that the search finds for the interests of now, if these are cheaper."""
    demand = demand_in(state)
    new = settled(demand, costs, search(demand), rules)
    if sum(overall(new)) >= sum(overall(state)):
        return state
    new.messages[:] = state.messages
    new.messages[UPDATE] += takeover(state, new)
    new.updates[:] = state.updates
    new.draws[:] = state.draws
    return new


def takeover(old: Tamara, new: Tamara) -> int:
    """How many messages it takes to get from one state to another, in which the same users want the same."""
    found = int(np.sum(new.direct != old.direct))
    members = [state.member[: _clusters(state)].astype(np.float32) for state in (old, new)]
    common = (members[0] @ members[1].T).astype(np.int64)
    changed = _different(*(state.inside[: _clusters(state)].astype(np.float32) for state in (old, new)))
    same = np.stack(linear_sum_assignment(-common), axis=1)
    kept, taken = np.zeros(len(common), bool), np.zeros(common.shape[1], bool)
    for one, other in same[common[same[:, 0], same[:, 1]] > 0].tolist():
        kept[one] = taken[other] = True
        found += int(old.size[one] + new.size[other] - 2 * common[one, other] + changed[one, other])
        found += int(common[one, other]) if changed[one, other] else 0
    for state, stays in ((old, kept), (new, taken)):
        gone = np.flatnonzero(~stays)
        found += int(state.size[gone].sum() + state.width[gone].sum())
    return found


def _clusters(state: Tamara) -> int:
    """One more than the highest number of a cluster."""
    used = np.flatnonzero(state.width)
    return int(used[-1]) + 1 if len(used) else 0


def _different(old: NDArray[np.float32], new: NDArray[np.float32]) -> NDArray[np.int64]:
    """By old and new cluster how many topics are in one of them only."""
    both = old @ new.T
    found: NDArray[np.int64] = np.rint(old.sum(axis=1)[:, None] + new.sum(axis=1)[None, :] - 2 * both).astype(np.int64)
    return found


def demand_in(state: Tamara) -> Demand:
    """Who wants what, and how often topics have events, at this moment."""
    user, topic = np.nonzero(state.wants)
    offsets = np.searchsorted(user, np.arange(len(state.wants) + 1))
    return Demand(offsets, topic.astype(np.int32), state.rate.copy())


def at_the_beginning(changes: Changes, users: int, rates: Floats) -> tuple[Demand, Changes]:
    """Those interests with which a history begins, all at one time, and the changes that follow."""
    count = int(np.searchsorted(changes.times, changes.times[0], side="right")) if len(changes.times) else 0
    mine = changes.kinds[:count] == ADD
    keys = np.unique(changes.users[:count][mine] * len(rates) + changes.topics[:count][mine])
    user, topic = np.divmod(keys, len(rates))
    first = Demand(np.searchsorted(user, np.arange(users + 1)), topic.astype(np.int32), rates)
    return first, changes.part(count, len(changes.times))


def _parts(changes: Changes, count: int) -> list[Changes]:
    ends = np.linspace(0, len(changes.times), count + 1).astype(int)
    return [changes.part(first, last) for first, last in pairwise(ends.tolist())]


def _joined(parts: Sequence[Timeline]) -> Timeline:
    columns = [np.concatenate([part[at] for part in parts]) for at in (0, 2, 3, 4, 5)]
    return Timeline(columns[0], tuple(cost for part in parts for cost in part.costs), *columns[1:])
