"""A broker follows the coordinator with the highest number, and no other."""

import pytest

from overstory.broker.journal import Journal
from overstory.broker.leading import LEASE, Lead, RefusedError


def test_who_comes_with_a_lower_number_is_refused() -> None:
    lead = Lead(Journal(keeps=False))
    lead.take(5, "one", 0.0)
    lead.take(6, "two", 0.0, force=True)
    with pytest.raises(RefusedError, match="two leads with number 6, and one has 5"):
        lead.follow(5, "one", 0.0)
    lead.follow(6, "two", 1.0)


def test_two_with_the_same_number_cannot_both_lead() -> None:
    lead = Lead(Journal(keeps=False))
    lead.take(5, "one", 0.0)
    with pytest.raises(RefusedError):
        lead.follow(5, "two", 0.0)


def test_who_is_at_work_is_not_pushed_aside() -> None:
    lead = Lead(Journal(keeps=False))
    lead.take(1, "one", 0.0)
    with pytest.raises(RefusedError, match="one is at work"):
        lead.take(2, "two", LEASE / 2)
    lead.take(2, "two", LEASE + 1)
    lead.release()
    lead.take(3, "three", LEASE + 1)
    assert lead.leader == "three"


def test_an_operator_who_pauses_a_coordinator_does_not_keep_it_alive() -> None:
    lead = Lead(Journal(keeps=False))
    lead.take(1, "one", 0.0)
    lead.follow(1, "one", LEASE + 1, works=False)
    assert lead.heard == 0.0
    lead.take(2, "two", LEASE + 1)  # the first one has died


def test_the_number_is_on_disk_before_it_counts() -> None:
    journal = Journal(keeps=True)
    Lead(journal).take(7, "one", 0.0)
    batch = journal.take()
    assert batch is not None
    assert ("fence", (7,)) in batch.changes
