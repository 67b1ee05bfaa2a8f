"""The cells of the pruning experiments, small: they run, agree with each other and refuse to compare without need."""

from functools import partial
from inspect import signature

import pytest

from overstory.errors import InfeasibleError, UsageError
from overstory.lab.simulator import pruning, workload
from overstory.lab.simulator.engine import Service
from overstory.lab.simulator.pruning import Numbers, congests, refuse_unless_congested, run_mobile, run_unsubscribe


def small(policy: str, seed: int = 1) -> Numbers:
    return run_unsubscribe(policy, subscriptions=310, unsubscriptions=5, seed=seed)


def number(cell: Numbers, name: str) -> float:
    value = cell[name]
    assert isinstance(value, float)
    return value


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pruning, "PUBLICATIONS_IN_ALL", 560)
    monkeypatch.setattr(pruning, "LEAVE_WITHIN", 60.0)
    monkeypatch.setattr(pruning, "SEEN_BEFORE", 120.0)
    monkeypatch.setattr(pruning, "MEASURE_AFTER", 20.0)
    monkeypatch.setattr(pruning, "MEASURED", 40)
    monkeypatch.setattr(workload, "POOL", 1000)


def test_policies_differ_where_they_should() -> None:
    cells = {policy: small(policy) for policy in ("none", "active", "packing", "selective", "cost")}
    assert len({frozenset(cell) for cell in cells.values()}) == 1  # the same names
    for policy in ("none", "active", "packing"):
        assert cells[policy]["false_positive_share"] == 0.0
    for kind in ("subscriptions_sent", "unsubscriptions_sent", "publications_sent"):
        assert cells["packing"][kind] == cells["active"][kind]
    assert number(cells["packing"], "packets") < number(cells["active"], "packets")
    messages = {policy: number(cell, "messages") for policy, cell in cells.items()}
    parameters = signature(pruning.run_unsubscribe).parameters.keys() | signature(pruning.run_mobile).parameters.keys()
    assert not parameters & cells["cost"].keys()  # rows have both
    assert min(messages, key=lambda policy: messages[policy]) == "cost"
    assert number(cells["selective"], "table_core_end") <= number(cells["active"], "table_core_end")


def test_the_same_settings_give_the_same_numbers() -> None:
    first = small("cost")
    assert first == small("cost")
    assert first != small("cost", seed=2)


def test_without_congestion_nothing_is_reported() -> None:
    calm = small("active")
    assert not congests(calm)
    with pytest.raises(InfeasibleError, match="active covering does not congest"):
        refuse_unless_congested(calm)
    refuse_unless_congested(calm | {"delay_mean": 100.0, "queue_peak": 2000.0})


def test_a_run_is_sampled_until_queues_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publications end 104 s after the first unsubscription; brokers that are this slow have work for much longer."""
    monkeypatch.setattr(pruning, "Service", partial(Service, subscription=5.0))
    cell = run_unsubscribe("active", subscriptions=310, unsubscriptions=10)
    seconds, queues = cell["sample_seconds"], cell["queue_core"]
    assert isinstance(seconds, list)
    assert isinstance(queues, list)
    assert max(queues) > 10
    assert queues[-1] == 0
    assert seconds[-1] > 2 * 104
    assert seconds == [60.0 * sample for sample in range(len(seconds))]


def test_a_monitor_may_be_back_at_once() -> None:
    """Then it covers again what it has uncovered, before that has gone far."""
    later, at_once = (run_mobile("active", subscriptions=100, hours=0.06, move_takes=takes) for takes in (30.0, 0.0))
    assert later == run_mobile("active", subscriptions=100, hours=0.06)
    assert number(at_once, "subscriptions_sent") < number(later, "subscriptions_sent")


def test_monitors_move() -> None:
    still, moving = (run_mobile("active", others, subscriptions=100, hours=0.06) for others in (False, True))
    assert number(still, "subscriptions_sent") < number(moving, "subscriptions_sent")
    assert number(still, "publications_tier_1") > number(still, "publications_tier_4") > 0
    pruned = run_mobile("selective", subscriptions=100, hours=0.06)
    assert number(pruned, "subscriptions_sent") < number(still, "subscriptions_sent")


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(UsageError, match="'eager'"):
        small("eager")
