"""Tamara's state machines: the kernel decides the same; interests stay covered; where surveys ask everyone no update
raises the cost; and what comes to nothing, or comes wrongly, loses nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from overstory.errors import UsageError
from overstory.kernels import tamara as kernel
from overstory.planners.topics.core.entities import Cluster, Topic, User
from overstory.planners.topics.core.formulas import tables_of
from overstory.planners.topics.core.messages import Address, Ask, Join, Lock
from overstory.planners.topics.core.system import System
from overstory.planners.topics.costs import SCRIBE_AVERAGE, Costs, linear, on_curve
from overstory.planners.topics.replaying import (
    ADD,
    DROP,
    EVERYONE,
    LITERAL,
    RATE,
    RECOVERING,
    Changes,
    Rules,
    empty_state,
    replayed,
)

USERS, TOPICS, ROOM = 40, 14, 60


def random_changes(draw: np.random.Generator, count: int) -> Changes:
    """Users gain and lose interests, in groups that like the same, and rates change now and then."""
    wants = np.zeros((USERS, TOPICS), bool)
    rows = []
    for _ in range(count):
        if draw.random() < 0.02:
            rows.append((RATE, 0, int(draw.integers(TOPICS)), float(draw.uniform(0.01, 1.5))))
            continue
        user = int(draw.integers(USERS))
        near = draw.random() < 0.8
        topic = int(draw.integers(TOPICS // 2) + (user % 2) * (TOPICS // 2)) if near else int(draw.integers(TOPICS))
        rows.append((DROP if wants[user, topic] else ADD, user, topic, 0.0))
        wants[user, topic] ^= True
    kinds, users, topics, rates = zip(*rows, strict=True)
    times = np.arange(count, dtype=float)
    return Changes(times, np.array(kinds), np.array(users), np.array(topics), np.array(rates))


def carried_out(system: System, changes: Changes) -> None:
    for kind, user, topic, rate in zip(*(column.tolist() for column in changes[1:]), strict=True):
        if kind == RATE:
            system.change_rate(topic, rate)
        elif kind == ADD:
            system.gain_interest(user, topic)
        else:
            system.lose_interest(user, topic)


def costs_of(curved: bool) -> Costs:
    found = linear(USERS, TOPICS)
    return found._replace(maintain=on_curve(SCRIBE_AVERAGE, np.arange(USERS + 3.0))) if curved else found


@settings(max_examples=25, deadline=None)
@given(
    seed=some.integers(0, 10**6),
    mode=some.sampled_from([LITERAL, RECOVERING]),
    sampled=some.sampled_from([4.0, EVERYONE]),
    curved=some.booleans(),
)
def test_the_kernel_decides_as_the_state_machines(seed: int, mode: int, sampled: float, curved: bool) -> None:
    draw = np.random.default_rng(seed)
    rates, rules = draw.uniform(0.01, 0.6, TOPICS), Rules(mode, sampled=sampled, seed=seed)
    changes, costs = random_changes(draw, 400), costs_of(curved)
    system = System(USERS, rates.tolist(), tables_of(costs), rules, ROOM)
    carried_out(system, changes)
    state = replayed(empty_state(USERS, rates, costs, rules, ROOM), changes).state
    assert {number: sorted(each.topics) for number, each in system.clusters.items()} == {
        number: state.topics[number, : state.width[number]].tolist() for number in np.flatnonzero(state.width).tolist()
    }
    for user in system.users:
        assert sorted(user.wants) == np.flatnonzero(state.wants[user.number]).tolist()
        assert sorted(user.direct) == np.flatnonzero(state.direct[user.number]).tolist()
        assert sorted(user.clusters) == state.mine[user.number, : state.held[user.number]].tolist()
        assert user.wants <= user.direct.union(*user.clusters.values())  # every interest is covered
    assert system.sent == state.messages.tolist()
    assert list(system.updates.values()) == state.updates.tolist()
    assert system.draws.count == int(state.draws[0])
    assert system.overall() == pytest.approx(kernel.overall(state))


@settings(max_examples=15, deadline=None)
@given(seed=some.integers(0, 10**6), mode=some.sampled_from([LITERAL, RECOVERING]))
def test_no_update_raises_the_cost_where_everyone_is_asked(seed: int, mode: int) -> None:
    """After each change the cost is at most what it was, and what the change itself asks for on top: a direct
    subscription, or nothing."""
    draw = np.random.default_rng(seed)
    rates = draw.uniform(0.01, 0.6, TOPICS)
    system = System(USERS, rates.tolist(), tables_of(costs_of(False)), Rules(mode, sampled=EVERYONE), ROOM)
    changes = random_changes(draw, 250)
    for kind, user, topic, _ in zip(*(column.tolist() for column in changes[1:]), strict=True):
        if kind == RATE:
            continue
        before = sum(system.overall())
        if kind == ADD:
            allowed = before if system.users[user].has(topic) else before + 1 + rates[topic]
            system.gain_interest(user, topic)
        else:
            allowed = before
            system.lose_interest(user, topic)
        assert sum(system.overall()) <= allowed + 1e-9
        for one in system.users:
            assert one.wants <= one.direct.union(*one.clusters.values())


def test_every_event_reaches_whoever_wants_it_once() -> None:
    draw = np.random.default_rng(4)
    rates = draw.uniform(0.01, 0.3, TOPICS)
    system = System(USERS, rates.tolist(), tables_of(costs_of(False)), Rules(), ROOM)
    carried_out(system, random_changes(draw, 600))
    thrown_away = 0
    for topic in range(TOPICS):
        got = system.publish(topic)
        for user in system.users:
            copies, shown = got.get(user.number, (0, 0))
            assert shown == (topic in user.wants)
            thrown_away += copies - shown
    assert thrown_away > 0


def test_what_comes_to_nothing_loses_nothing() -> None:
    """A topic without subscribers, a user without interests, an unknown topic, and a cluster that empties."""
    system = System(4, [0.1, 0.1, 0.1], tables_of(linear(4, 3)), Rules(LITERAL, sampled=EVERYONE), 8)
    assert system.publish(2) == {}
    with pytest.raises(UsageError, match="there is no topic 7"):
        system.publish(7)
    cluster = system.clusters[0] = Cluster(0)
    system._put(cluster, 0)
    system._put(cluster, 1)
    for user in (0, 1):
        system.users[user].wants |= {0, 1}
        system.join(system.users[user], cluster)
    system.gain_interest(0, 2)
    for topic in (0, 1):
        for user in (0, 1):
            system.lose_interest(user, topic)
    assert system.clusters == {}
    assert system.publish(0) == system.publish(1) == {}
    assert system.publish(2) == {0: (1, 1)}
    assert not system.users[1].wants
    assert not system.users[1].clusters


def test_an_entity_takes_only_what_is_for_it() -> None:
    with pytest.raises(UsageError, match="user 3 was sent a Lock"):
        User(3).receive(Lock(Address("topic", 1), 2.0))
    with pytest.raises(UsageError, match="cluster 1 was sent a Ask"):
        Cluster(1).receive(Ask(None))
    topic = Topic(0, 0.5)
    topic.receive(Join(7))
    assert topic.members.rows == [7]


def test_a_channel_gives_its_lock_to_one_at_a_time() -> None:
    cluster = Cluster(0)
    assert cluster.lock(Address("cluster", 1))
    assert cluster.lock(Address("cluster", 1))
    assert not cluster.lock(Address("cluster", 2))
    cluster.unlock(Address("cluster", 2))
    assert not cluster.lock(Address("cluster", 2))
    cluster.unlock(Address("cluster", 1))
    assert cluster.lock(Address("cluster", 2))
    system = System(6, [0.01, 0.01], tables_of(linear(6, 2)), Rules(LITERAL, phi=0.0, sampled=EVERYONE), 8)
    for user in range(6):
        for each in range(2):
            system.gain_interest(user, each)
    system.topics[1].lock(Address("cluster", 9))
    assert not system.consider_pairing(system.topics[0])
    system.topics[1].unlock(Address("cluster", 9))
    assert system.consider_pairing(system.topics[0])
