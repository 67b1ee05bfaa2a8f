"""Tamara as a planner sees it: changes of interests go through the kernel, and clusters come out."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.tamara import run
from overstory.kernels.tamara_channels import has, join, put_topic, subscribe
from overstory.kernels.tamara_state import (
    ADD,
    COCHRAN,
    DROP,
    KINDS,
    LITERAL,
    RATE,
    RECOVERING,
    UPDATES,
    Tamara,
    overall,
)
from overstory.planners.topics.clustering import Clustering, Overall
from overstory.planners.topics.costs import Costs
from overstory.planners.topics.demand import Demand

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
PHI = 0.99  # the probability that an update that pays is tried before its threshold is reached
EVERYONE = np.inf  # as the size of a sample: surveys ask all subscribers
ROOM = 64  # clusters beside three for each topic
__all__ = ["ADD", "DROP", "LITERAL", "RATE", "RECOVERING", "Changes", "Rules", "Timeline", "replayed"]


class Changes(NamedTuple):
    """In order: when, which kind (ADD, DROP or RATE), whose, of which topic, and the rate that it then has."""

    times: Floats
    kinds: Ints
    users: Ints
    topics: Ints
    rates: Floats

    def part(self, first: int, last: int) -> "Changes":
        some = slice(first, last)
        return Changes(self.times[some], self.kinds[some], self.users[some], self.topics[some], self.rates[some])


class Rules(NamedTuple):
    mode: int = RECOVERING
    phi: float = PHI
    sampled: float = COCHRAN
    seed: int = 0


class Timeline(NamedTuple):
    """What it cost in an interval at some times, how many messages had been sent, and how many clusters there were."""

    times: Floats
    costs: tuple[Overall, ...]
    messages: Ints
    clusters: Ints
    scribe: Floats  # what a tree for each topic would cost
    updates: Ints  # by look and kind: how many local updates there had been


class Replay(NamedTuple):
    state: Tamara
    timeline: Timeline

    @property
    def messages(self) -> dict[str, int]:
        return dict(zip(KINDS, self.state.messages.tolist(), strict=True))

    @property
    def updates(self) -> dict[str, int]:
        return dict(zip(UPDATES, self.state.updates.tolist(), strict=True))


def empty_state(users: int, rates: Floats, costs: Costs, rules: Rules, clusters: int | None = None) -> Tamara:
    """Nobody wants anything, and there are no clusters."""
    topics = len(rates)
    room = 3 * topics + ROOM if clusters is None else clusters

    def small(*shape: int) -> NDArray[np.uint8]:
        return np.zeros(shape, np.uint8)

    def numbers(*shape: int) -> NDArray[np.int32]:
        return np.zeros(shape, np.int32)

    def counts(*shape: int) -> Ints:
        return np.zeros(shape, np.int64)

    return Tamara(
        wants=small(users, topics),
        direct=small(users, topics),
        listed=numbers(topics, users),
        spot=numbers(users, topics),
        fans=counts(topics),
        own=numbers(users, topics),
        own_place=numbers(users, topics),
        owns=counts(users),
        inside=small(room, topics),
        topics=numbers(room, topics),
        about=numbers(topics, room),
        abouts=counts(topics),
        mine=numbers(users, room),
        held=counts(users),
        member=small(room, users),
        rows=numbers(room, users),
        place=numbers(room, users),
        size=counts(room),
        width=counts(room),
        load=np.zeros(room),
        rate=np.array(rates, np.float64),
        maintain=costs.maintain.astype(np.float64),
        deliver=costs.deliver.astype(np.float64),
        associate=costs.associate.astype(np.float64),
        notify=float(costs.notify),
        phi=float(rules.phi),
        sampled=float(rules.sampled),
        mode=int(rules.mode),
        draws=np.array([0, rules.seed], np.uint64),
        messages=counts(len(KINDS)),
        updates=counts(len(UPDATES)),
        patience=numbers(room, topics),
        reasons=counts(2 * room + 8, 3),
        pending=counts(1),
    )


def settle(state: Tamara, demand: Demand, found: Clustering) -> None:
    """Puts everyone into the state as a clustering has them, without messages."""
    for cluster, topics in enumerate(found.sets()):
        for topic in topics:
            put_topic(state, cluster, topic)
    state.wants[demand.user_of, demand.topics] = 1
    for user in range(demand.users):
        for cluster in found.held[found.held_offsets[user] : found.held_offsets[user + 1]].tolist():
            join(state, user, cluster)
        for topic in demand.topics[demand.offsets[user] : demand.offsets[user + 1]].tolist():
            if not has(state, user, topic):
                subscribe(state, user, topic)
    state.messages[:] = 0


def clustering_of(state: Tamara) -> Clustering:
    """The clusters that there are, and who is subscribed to which."""
    used = np.flatnonzero(state.width)
    number = np.zeros(len(state.width), np.int32)
    number[used] = np.arange(len(used))
    offsets = np.concatenate([[0], np.cumsum(state.width[used])])
    topics = [state.topics[each, : state.width[each]] for each in used]
    held = [number[state.mine[user, : state.held[user]]] for user in range(len(state.held))]
    nothing = np.empty(0, np.int32)
    return Clustering(
        offsets,
        np.concatenate([nothing, *topics]),
        np.concatenate([[0], np.cumsum(state.held)]),
        np.concatenate([nothing, *held]),
    )


def replayed(state: Tamara, changes: Changes, looks: int = 1, since: float = 0.0) -> Replay:
    """Runs all changes, and looks at what it costs so many times, evenly spread from ``since`` to the last change."""
    ends = _looks_at(changes, looks, since)
    costs, messages, clusters, scribe, times, updates = [], [], [], [], [], []
    start = 0
    for end, time in ends:
        some = slice(start, end)
        run(
            state,
            changes.kinds[some].astype(np.int64),
            changes.users[some].astype(np.int64),
            changes.topics[some].astype(np.int64),
            changes.rates[some].astype(np.float64),
        )
        start = end
        costs.append(Overall(*overall(state)))
        messages.append(int(state.messages.sum()))
        clusters.append(int(np.count_nonzero(state.width)))
        popularity = state.wants.sum(axis=0, dtype=np.int64)
        alone = state.maintain[popularity].sum()
        alone += np.sum(state.rate * (state.notify + state.deliver[popularity]))
        scribe.append(float(alone))
        times.append(time)
        updates.append(state.updates.copy())
    counts = np.array(messages, np.int64), np.array(clusters, np.int64)
    return Replay(state, Timeline(np.array(times), tuple(costs), *counts, np.array(scribe), np.array(updates)))


def _looks_at(changes: Changes, looks: int, since: float) -> list[tuple[int, float]]:
    """How many changes have come by each look, and its time."""
    last = float(changes.times[-1]) if len(changes.times) else since
    times = since + (last - since) * np.arange(1, looks + 1) / looks
    ends = np.searchsorted(changes.times, times, side="right")
    ends[-1] = len(changes.times)
    return list(zip(ends.tolist(), times.tolist(), strict=True))
