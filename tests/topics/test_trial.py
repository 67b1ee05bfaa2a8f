"""A small schedule with a coordinator in a process of its own, which is killed: what the lab runs at full size."""

from overstory.lab.nats_trial import Schedule, tried


def test_a_schedule_loses_doubles_and_disorders_nothing() -> None:
    found = tried(Schedule(subscribers=12, topics=24, publishers=4, rounds=1, shifting=0.3, pace=60.0, seed=3))
    assert (found.lost, found.doubled, found.disordered) == (0, 0, 0), found.wrong
    assert found.expected > 500
    assert found.changes["formed"] > 0
    assert found.subscriptions < found.interests
