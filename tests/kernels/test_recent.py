"""Events that have come lately, against a dictionary that is kept in order."""

from hypothesis import given
from hypothesis import strategies as st

from overstory.kernels.recent import FREE
from overstory.routing.recent import RecentEvents

SMALL = 4  # events that there is room for at first
Event = tuple[int, int, int]
events = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 40))
steps = st.lists(st.one_of(events, st.floats(-1, 60), st.integers(0, 20)), max_size=120)


@given(steps)
def test_each_is_added_once_and_the_oldest_go_first(given: list[Event | float | int]) -> None:
    recent, plain = RecentEvents(SMALL), dict[Event, float]()
    for now, step in enumerate(given):
        if isinstance(step, tuple):
            assert recent.add(*step, float(now)) == (step not in plain)
            plain.setdefault(step, float(now))
        elif isinstance(step, int):
            recent.forget(step)
            while len(plain) > step:
                del plain[next(iter(plain))]
        else:
            recent.forget(len(plain), step)
            while plain and next(iter(plain.values())) < step:
                del plain[next(iter(plain))]
        assert len(recent) == len(plain) == int((recent.arrays.table != FREE).sum())
    assert not any(recent.add(*event, 0.0) for event in plain)
