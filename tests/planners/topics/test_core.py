"""Tamara's state machines: the kernel decides the same; interests stay covered; where surveys ask everyone no update
raises the cost; and what comes to nothing, or comes wrongly, loses nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from overstory.errors import UsageError
from overstory.kernels import tamara_state as kernel
from overstory.planners.topics.core.formulas import tables_of
from overstory.planners.topics.core.messages import CLUSTER, TOPIC, USER, Address, Ask, Lock, Open
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
        assert user.wants <= user.direct.keys() | set().union(*user.clusters.values())  # every interest is covered
    assert system.sent == state.messages.tolist()
    assert list(system.world.updates.values()) == state.updates.tolist()
    assert system.world.draws.count == int(state.draws[0])
    assert system.overall() == pytest.approx(kernel.overall(state))


@settings(max_examples=15, deadline=None)
@given(seed=some.integers(0, 10**6), mode=some.sampled_from([LITERAL, RECOVERING]))
def test_no_update_raises_the_cost_where_everyone_is_asked(seed: int, mode: int) -> None:
    """After each change the cost is at most what it was, and what the change itself asks for on top: a direct
    subscription, nothing, or what the new rate makes of the channels that there are."""
    draw = np.random.default_rng(seed)
    rates = draw.uniform(0.01, 0.6, TOPICS)
    system = System(USERS, rates.tolist(), tables_of(costs_of(False)), Rules(mode, sampled=EVERYONE), ROOM)
    changes = random_changes(draw, 250)
    for kind, user, topic, rate in zip(*(column.tolist() for column in changes[1:]), strict=True):
        before = sum(system.overall())
        if kind == RATE:
            holding = [each for each in system.clusters.values() if topic in each.topics]
            copies = sum(1 + len(each.members) for each in (system.topics[topic], *holding))
            allowed = before + (rate - rates[topic]) * copies
            rates[topic] = rate
            system.change_rate(topic, rate)
        elif kind == ADD:
            allowed = before if system.users[user].has(topic) else before + 1 + rates[topic]
            system.gain_interest(user, topic)
        else:
            allowed = before
            system.lose_interest(user, topic)
        assert sum(system.overall()) <= allowed + 1e-9
        for one in system.users:
            assert one.wants <= one.direct.keys() | set().union(*one.clusters.values())


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
    for user in (0, 1):
        for topic in (0, 1):
            system.gain_interest(user, topic)
    assert system.run(system.topics[0].consider_pairing()) == (len(system.clusters) == 1)
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
    system = System(4, [0.1, 0.1], tables_of(linear(4, 2)), Rules(), 8)
    with pytest.raises(UsageError, match="user 3 was sent a Lock, which is not for one"):
        system.deliver(USER, 3, Lock(Address(TOPIC, 1)))
    with pytest.raises(UsageError, match="topic 1 was sent a Ask"):
        system.deliver(TOPIC, 1, Ask())
    with pytest.raises(UsageError, match="there is no cluster 1"):
        system.deliver(CLUSTER, 1, Lock(Address(TOPIC, 1)))
    with pytest.raises(UsageError, match="there is no topic 9"):
        system.gain_interest(0, 9)
    assert system.sent == [0] * len(kernel.KINDS)


def test_a_channel_gives_its_lock_to_one_at_a_time() -> None:
    system = System(6, [0.01, 0.01], tables_of(linear(6, 2)), Rules(LITERAL, phi=0.0, sampled=EVERYONE), 8)
    first, other = Address(CLUSTER, 8), Address(CLUSTER, 9)
    topic = system.topics[1]
    assert topic.lock(first)
    assert topic.lock(first)
    assert not topic.lock(other)
    for user in range(6):
        for each in range(2):
            system.gain_interest(user, each)
    assert not system.run(system.topics[0].consider_pairing())
    assert system.topics[0].locked_by is None
    topic.locked_by = None
    assert system.run(system.topics[0].consider_pairing())
    assert topic.locked_by is None


def test_a_machine_knows_nothing_but_its_messages() -> None:
    """A topic's channel is run by hand: it asks its subscribers, locks its partner, and has a channel opened."""
    system = System(3, [0.01, 0.01], tables_of(linear(3, 2)), Rules(LITERAL, phi=0.0, sampled=EVERYONE), 8)
    for user in range(3):
        for each in range(2):
            system.gain_interest(user, each)
    machine = system.topics[0].consider_pairing()
    envelope, seen = next(machine), []
    while envelope is not None:
        seen.append(envelope[:2] if type(envelope) is tuple else type(envelope))
        answer = None if type(envelope) is Open else system.deliver(*envelope)
        try:
            envelope = machine.send(answer)
        except StopIteration as ended:
            assert ended.value is False  # there was no room for another channel
            break
    assert seen == [("user", 0), ("user", 1), ("user", 2), ("topic", 1), Open, ("topic", 1)]
    assert not system.clusters
