"""What comes next in an installation follows from what brokers say, and from nothing else."""

import asyncio

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.broker.standing import Address, EpochStanding, Standing
from overstory.control.applying import PAUSE, Installation, Options
from overstory.control.brokers import Brokers
from overstory.control.installing import (
    ABORT,
    ACTIVATE,
    ACTIVATING,
    DRAINING,
    GIVE_UP,
    GIVING_UP,
    HELD,
    LONG,
    PREPARE,
    PREPARING,
    RETIRE,
    STABLE,
    STATES,
    WAITING,
    Course,
    next_epoch,
    next_step,
    under_way,
)

ALL = frozenset({0, 1, 2})


def epoch(number: int, held: bool = True, drained: bool = False, waiting: int = 0, frames: int = 0) -> EpochStanding:
    return EpochStanding(number, f"plan {number}", held, drained, waiting, frames)


def standing(broker: int, active: int, *epochs: EpochStanding, paused: bool = False) -> Standing:
    latest = max(one.epoch for one in epochs)
    return Standing(broker, "network", active, list(epochs), latest, 0, "", 0.0, paused, {}, [], 0, 0)


def network(active: int, *epochs: EpochStanding, but: Standing | None = None) -> dict[int, Standing]:
    found = {broker: standing(broker, active, *epochs) for broker in ALL}
    return found if but is None else {**found, but.broker: but}


def test_one_epoch_everywhere_is_stable() -> None:
    assert next_step(ALL, network(1, epoch(1))).state == STABLE


def test_brokers_that_lack_the_plan_are_given_it() -> None:
    step = next_step(ALL, network(1, epoch(1), epoch(2), but=standing(2, 1, epoch(1))))
    assert (step.state, [(one.kind, one.brokers) for one in step.actions]) == (PREPARING, [(PREPARE, (2,))])


def test_nobody_uses_a_plan_before_all_hold_it() -> None:
    step = next_step(ALL, network(1, epoch(1), epoch(2), but=standing(1, 1, epoch(1), epoch(2, held=False))))
    assert (step.state, step.actions, step.waits_for) == (PREPARING, (), (1,))
    seen = network(1, epoch(1), epoch(2))
    assert next_step(ALL, seen).state == HELD
    del seen[1]
    step = next_step(ALL, seen)
    assert (step.state, step.actions, step.waits_for) == (PREPARING, (), (1,))


def test_once_one_broker_uses_it_there_is_no_way_back() -> None:
    seen = network(1, epoch(1), epoch(2), but=standing(0, 2, epoch(1), epoch(2)))
    for forward in (True, False):
        step = next_step(ALL, seen, forward=forward)
        assert (step.state, [(one.kind, one.brokers) for one in step.actions]) == (ACTIVATING, [(ACTIVATE, (1, 2))])


def test_an_epoch_is_retired_after_two_equal_looks_at_a_drained_network() -> None:
    drained = network(2, epoch(1, drained=True, frames=5), epoch(2))
    assert next_step(ALL, drained).actions == ()
    step = next_step(ALL, drained, drained)
    assert [(one.kind, one.epoch) for one in step.actions] == [(RETIRE, 1)]
    more = network(2, epoch(1, drained=True, frames=6), epoch(2))
    assert next_step(ALL, more, drained).actions == ()
    waiting = network(2, epoch(1, drained=True, waiting=1, frames=5), epoch(2))
    assert next_step(ALL, waiting, waiting).actions == ()


def test_a_broker_that_restarted_between_two_looks_counts_as_a_change() -> None:
    drained = network(2, epoch(1, drained=True), epoch(2))
    again = {**drained, 0: msgspec.structs.replace(drained[0], incarnation=1)}
    assert next_step(ALL, again, drained).actions == ()


def test_only_who_prepared_it_may_give_it_up_while_a_broker_is_silent() -> None:
    seen = network(1, epoch(1), epoch(2))
    del seen[2]
    assert next_step(ALL, seen, forward=False, own=False).state == WAITING
    step = next_step(ALL, seen, forward=False, own=True)
    assert (step.state, [(one.kind, one.brokers) for one in step.actions]) == (GIVING_UP, [(ABORT, (0, 1))])


def test_a_course_gives_up_when_a_broker_does_not_hold_the_plan_in_time() -> None:
    course = Course(ALL, 2, patience=10.0)
    seen = network(1, epoch(1), epoch(2), but=standing(1, 1, epoch(1), epoch(2, held=False)))
    assert course.turn(seen, 0.0).state == PREPARING
    course.turn(seen, 11.0)
    assert course.note == "broker 1 did not hold the plan in time"
    assert course.turn(seen, 12.0).state == GIVING_UP
    course.turn(network(1, epoch(1)), 13.0)
    assert course.is_over


def test_a_course_does_not_activate_while_it_is_paused() -> None:
    seen = {broker: standing(broker, 1, epoch(1), epoch(2), paused=True) for broker in ALL}
    step = Course(ALL, 2, patience=10.0).turn(seen, 0.0)
    assert (step.state, step.actions) == (HELD, ())


def test_what_is_in_use_and_gets_on_no_more_is_stuck_and_lost_events_are_given_up_before() -> None:
    course = Course(ALL, 2, patience=60.0)
    seen = network(2, epoch(1), epoch(2))
    assert course.turn(seen, 0.0).state == DRAINING
    step = course.turn(seen, LONG + 1)
    assert [(one.kind, one.epoch, one.brokers) for one in step.actions] == [(GIVE_UP, 1, (0, 1, 2))]
    course.turn(seen, 61.0)
    assert course.is_stuck


def test_events_that_wait_somewhere_are_not_given_up() -> None:
    course = Course(ALL, 2, patience=60.0)
    seen = network(2, epoch(1, waiting=1), epoch(2))
    course.turn(seen, 0.0)
    assert course.turn(seen, LONG + 1).actions == ()


EPOCHS = st.builds(epoch, st.integers(1, 3), st.booleans(), st.booleans(), st.integers(0, 1), st.integers(0, 2))


@st.composite
def standings(draw: st.DrawFn) -> dict[int, Standing]:
    """What brokers may say, also what they never would."""
    found = {}
    for broker in draw(st.sets(st.sampled_from(sorted(ALL)), min_size=1)):
        epochs = draw(st.lists(EPOCHS, min_size=1, max_size=3, unique_by=lambda one: one.epoch))
        active = draw(st.sampled_from([0, *(one.epoch for one in epochs)]))
        found[broker] = standing(broker, active, *epochs)
    return found


@given(standings(), standings(), st.booleans(), st.booleans())
def test_whatever_brokers_say_the_rules_hold(
    seen: dict[int, Standing], before: dict[int, Standing], forward: bool, own: bool
) -> None:
    step = next_step(ALL, seen, before, forward, own)
    assert step.state in STATES
    latest = under_way(seen)
    in_use = any(one.active >= latest for one in seen.values())
    for action in step.actions:
        assert set(action.brokers) <= seen.keys()
        if action.kind == ACTIVATE and not in_use:
            assert seen.keys() == ALL
            assert all(one.held for s in seen.values() for one in s.epochs if one.epoch == action.epoch)
        if action.kind == ABORT:
            assert not in_use
            assert own or seen.keys() == ALL
        if action.kind == RETIRE:
            assert action.epoch < min(one.active for one in seen.values())
            assert seen.keys() == ALL
    assert next_epoch(seen) > latest


class Paused(Brokers):
    """A network that holds a plan and is paused, until it has been asked a few times: then it uses the plan."""

    def __init__(self) -> None:
        super().__init__("")
        self.addresses, self.asked = dict.fromkeys(ALL, Address("", "")), 0

    async def status(self) -> dict[int, Standing]:
        self.asked += 1
        if self.asked > 3:
            return network(2, epoch(2))
        return {broker: standing(broker, 1, epoch(1), epoch(2), paused=True) for broker in ALL}


def test_a_paused_network_that_holds_a_plan_is_not_asked_without_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses = list[float]()

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    assert asyncio.run(Installation(Paused(), None, Options()).run(2)) == ""
    assert pauses == [PAUSE] * 3
