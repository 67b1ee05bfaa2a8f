"""The clock: time is the innermost step's, the step that is told is the one that runs, and plans do not pay set-up."""

import pytest

from overstory.pipeline.clock import MATCH, START, Clock


class Hands:
    """A time that only moves when it is told to."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def test_time_is_charged_to_the_innermost_step() -> None:
    told: list[str] = []
    hands = Hands()
    clock = Clock(told.append, hands)
    with clock.step("planning"):
        hands.at += 1
        with clock.step(MATCH):
            hands.at += 10
            with clock.step(START):
                hands.at += 100
            hands.at += 20
        hands.at += 2
    hands.at += 1000
    assert clock.seconds == {"planning": 3, MATCH: 30, START: 100}
    assert clock.set_up() == {START: 100, MATCH: 30}
    assert told == ["planning", MATCH, START, MATCH, "planning"]


def test_no_plan_pays_for_what_all_plans_share() -> None:
    hands = Hands()
    clock = Clock(lambda _: None, hands)
    for shared in (50.0, 0.0):  # the first plan finds nothing kept
        watch = clock.watch()
        with clock.step("planning with spt"):
            hands.at += 3
            if shared:
                with clock.step(MATCH):
                    hands.at += shared
        assert watch() == 3


def test_a_step_that_fails_is_over() -> None:
    told: list[str] = []
    hands = Hands()
    clock = Clock(told.append, hands)
    with pytest.raises(ZeroDivisionError):
        fail_within(clock, hands)
    hands.at += 5
    assert clock.seconds == {MATCH: 0, START: 1}
    assert told == [MATCH, START]


def fail_within(clock: Clock, hands: Hands) -> None:
    with clock.step(MATCH), clock.step(START):
        hands.at += 1
        raise ZeroDivisionError
