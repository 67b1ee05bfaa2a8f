"""A network recovers by itself, live and in the simulator: kill -9 and restart, a cut link, a broker that hangs, a slow
link, a storm of subscriptions. What was acknowledged arrives, what is to come once comes once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from overstory.broker.stranding import Stranding
from overstory.lab.failing_live import Line
from overstory.lab.failing_virtual import NotQuietError, VirtualLine, simulated
from overstory.lab.failures import CUT, KILLED, KINDS, TOPICS, Outcome, Schedule, judged
from overstory.lab.lines import written_line
from overstory.lab.steady import Steady
from overstory.routing.flow import Flow
from overstory.wire.encode import encode
from overstory.wire.packets import PUBACK, Ack, ConnAck, Publish

BROKERS_IN_LINE = 4
STORM = 500
MOST_GROWTH = 64 << 20  # bytes


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return written_line(tmp_path_factory.mktemp("line"), BROKERS_IN_LINE)


def test_real_processes_keep_every_promise(line: tuple[Path, Path], tmp_path: Path) -> None:
    schedules = [
        Schedule.drawn(seed, BROKERS_IN_LINE, durable=True, events=60, longest=1.0)
        for seed in range(len(KINDS), 2 * len(KINDS))
    ]
    ends = [Schedule(KILLED, victim, 0.5, 60, 30) for victim in (0, BROKERS_IN_LINE - 1)]
    assert {schedule.kind for schedule in schedules} == set(KINDS)

    async def run() -> list[Outcome]:
        live = Line(*line, tmp_path / "logs", {"store": ""})
        try:
            await live.start()
            return [await live.run(schedule, STORM) for schedule in [*schedules, *ends]]
        finally:
            await live.stop()

    outcomes = asyncio.run(run())
    assert all(outcome.is_right for outcome in outcomes), outcomes
    assert [outcome.acknowledged for outcome in outcomes] == [120] * len(outcomes)
    assert max(outcome.memory_growth for outcome in outcomes) < MOST_GROWTH
    assert not any(outcome.excused for outcome in outcomes)


@pytest.mark.parametrize("seed", range(30))
def test_the_same_schedules_in_the_simulator(seed: int) -> None:
    schedule, outcome = simulated(seed)
    assert outcome.is_right, (schedule, outcome)
    assert outcome.acknowledged == 2 * schedule.events


@pytest.mark.parametrize("seed", [*range(15), 70])
def test_the_same_schedules_with_steered_events(seed: int) -> None:
    """Where no way leads on, events wait: those of a line that is cut, and those for a broker that is killed. In
    schedule 70 the broker restarts that numbers the events."""
    schedule, outcome = simulated(seed, steered=True)
    assert outcome.is_right, (schedule, outcome)
    assert outcome.acknowledged == 2 * schedule.events


def test_steered_events_that_are_dropped_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are missing, or those behind them wait for ever."""
    monkeypatch.setattr(Stranding, "hold", lambda *_: None)
    monkeypatch.setattr("overstory.lab.failing_virtual.PATIENCE", 20.0)

    def is_noticed(seed: int) -> bool:
        try:
            return simulated(seed, steered=True)[1].missing > 0
        except NotQuietError:
            return True

    assert any(is_noticed(seed) for seed in (1, 5, 9))


def test_a_network_that_loses_what_it_promised_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was before entries of a neighbour that restarts were kept until it has settled."""
    monkeypatch.setattr(Flow, "restarted", forget_at_once)
    outcomes = [simulated(seed)[1] for seed in (10, 25)]
    assert any(outcome.missing for outcome in outcomes)
    assert not all(outcome.is_right for outcome in outcomes)


def forget_at_once(flow: Flow, peer: int) -> None:
    flow._make_void(peer, list(flow.heard[peer].keys))


def test_a_network_that_never_mends_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overstory.lab.failing_virtual.PATIENCE", 5.0)
    monkeypatch.setattr(VirtualLine, "_mend", lambda *_: None)
    with pytest.raises(NotQuietError):
        VirtualLine(3, 1, durable=False).run(Schedule(CUT, 0, 1.0, 20, 5))


def client(came: Sequence[tuple[int, int]], presents: Sequence[bool] = (False,)) -> Steady:
    """A subscriber to whom these events came: QoS and number."""
    made = Steady("s")
    for present in presents:
        made.receive(encode(ConnAck(0, present)))
    for packet_id, (qos, number) in enumerate(came, 1):
        made.receive(encode(Publish(TOPICS[qos], number.to_bytes(8, "big"), qos, packet_id=packet_id)))
    return made


@pytest.mark.parametrize(
    ("came", "presents", "expected"),
    [
        ([(1, 0), (2, 0), (1, 0)], [False], (0, 0, 0, 0)),
        ([(1, 0)], [False], (1, 0, 0, 0)),
        ([(1, 0)], [False, True], (1, 0, 0, 0)),
        ([(1, 0)], [False, False], (1, 1, 0, 0)),
        ([(1, 0), (2, 0), (2, 0)], [False], (0, 0, 1, 0)),
        ([(1, 1), (1, 0), (2, 0)], [False], (0, 0, 0, 1)),
    ],
)
def test_how_outcomes_are_judged(
    came: list[tuple[int, int]], presents: list[bool], expected: tuple[int, int, int, int]
) -> None:
    publisher = Steady("p")
    publisher.receive(encode(ConnAck()))
    publisher.acknowledged += [(1, 0), (2, 0)]
    outcome = judged(publisher, client(came, presents), False, 0)
    assert (outcome.missing, outcome.excused, outcome.repeated_once, outcome.disordered) == expected
    assert outcome.is_right == (expected[0] == expected[1] and not any(expected[2:]))


def test_a_steady_client_sends_again_what_was_not_acknowledged() -> None:
    made = Steady("p")
    made.connect()
    made.receive(encode(ConnAck()))
    packet = made.publish("x", 7, 2)
    assert made.receive(encode(ConnAck(0, True))) == encode(Publish("x", (7).to_bytes(8, "big"), 2, False, 1, True))
    assert made.receive(encode(ConnAck(0, False))) == packet  # as a new one: the broker knows nothing of it
    assert made.republished == {7}
    made.publish("x", 8, 1)
    made.receive(encode(Ack(PUBACK, 2)))
    assert made.acknowledged == [(1, 8)]
