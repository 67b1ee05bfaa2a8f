"""What clusters change on real servers is counted by the servers, and is what the model says."""

from overstory.lab.nats_cost import Measured, Size, _events, _in_servers, break_even

SMALL = Size(subscribers=8, topics=12, events=24, pace=400.0, burst=24, calm=1.5)


def test_subscriptions_and_copies_are_the_models() -> None:
    found: Measured = _in_servers(SMALL, True, "", _events)
    assert found.copies == found.copies_model > found.deliveries > 0
    assert found.clusters > 0
    own = 2 * SMALL.subscribers  # of the layer: its own subject, and that for late events
    assert found.subscriptions >= found.subscriptions_model + own


def test_clusters_pay_while_what_they_save_is_more_than_what_they_add() -> None:
    plain = Measured(100, 0, 0, 10, 5, 0, 0, 0, 0.0, 0, 0.0, 0.0, 0, 240, 0, 0, 0)
    layer = plain._replace(subscriptions=20, shifting=45, copies=720)
    found = break_even(SMALL._replace(shifting=0.5), plain, layer)
    assert (found.subscriptions_saved, found.copies_added_an_event) == (80, 20.0)
    assert (found.events_an_interval, found.interest_messages_added_a_change) == (4.0, 10.0)
