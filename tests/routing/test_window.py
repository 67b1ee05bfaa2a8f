"""The window of statistics: what is in it, one by one or many at once, and that it does not grow for ever."""

import numpy as np

from overstory.routing.window import MOST_APART, NOBODY_ELSE, Window


def test_one_by_one_is_as_many_at_once() -> None:
    rows = [(1, 5, [10, 11], 2, 1), (2, 6, [10], 0, 3), (3, 5, [12, 10, 13], 4, 0)]
    single, batch = Window(100.0), Window(100.0)
    for publication, advertisement, subscriptions, distance, count in rows:
        single.record_one(1.0, publication, advertisement, np.array(subscriptions), distance, count)
        size = len(subscriptions)
        columns = [np.full(size, each) for each in (publication, advertisement, distance, count)]
        batch.record(1.0, columns[0], columns[1], np.array(subscriptions), columns[2], columns[3])
    assert single.rows(1.0).tolist() == batch.rows(1.0).tolist()
    for window in (single, batch):
        assert len(window) == 6
        seen = window.take(10, 1.0)
        assert seen.advertisements.tolist() == [5, 6, 5]
        assert seen.distances.tolist() == [2, 0, NOBODY_ELSE]  # a count of 0: nobody else wanted it
        assert seen.counts.tolist() == [1, 3, 0]


def test_rows_go_with_their_subscription() -> None:
    """The others stay, in order, and run out when it is time."""
    window = Window(10.0)
    for now in (0.0, 5.0, 12.0):
        window.record_one(now, int(now), 1, np.array([7, 8]), 1, 1)
    assert window.take(7, 12.0).counts.tolist() == [1, 1]
    assert len(window) == 2
    assert window.rows(12.0)[:3].tolist() == [[5, 12], [1, 1], [8, 8]]
    assert window.rows(16.0)[0].tolist() == [12]
    assert len(window.take(7, 12.0).counts) == 0


def test_rows_run_out() -> None:
    window = Window(10.0)
    for now in (0.0, 5.0, 12.0):
        window.record_one(now, int(now), 1, np.array([7, 8]), 1, 1)
    assert window.rows(12.0)[0].tolist() == [5, 5, 12, 12]


def test_it_does_not_grow_while_nobody_asks() -> None:
    window = Window(10.0)
    for now in range(3 * MOST_APART):
        window.record_one(float(now), now, 1, np.array([7]), 1, 1)
    assert len(window) <= MOST_APART + 11
