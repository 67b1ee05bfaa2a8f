"""Broad subscriptions leave twenty real processes: what crosses links is what the simulator's routers send, but for the
few messages that depend on which of two roots leaves first at a broker."""

import pytest

from overstory.lab.experiment import Row
from overstory.lab.experiments import network_failures, network_pruning
from overstory.lab.experiments.network_failures import SIMULATED
from overstory.lab.live_pruning import Inputs, Sizes, run_live, twenty_brokers
from overstory.lab.measuring import where

FEW = Sizes(subscriptions=93, degree=30, events=10)


def test_there_are_twenty_brokers_in_a_tree() -> None:
    topology = twenty_brokers()
    assert len(topology.brokers) == 20
    assert len(topology.links) == 19
    assert len(topology.next_hops(0)) == 19


def test_selective_pruning_stops_on_twenty_processes_where_the_simulator_stops() -> None:
    """Brokers where somebody publishes advertise: without that no broker would know where to stop."""
    found = run_live("selective", FEW._replace(events=40), 1)
    assert found["messages"] == pytest.approx(found["predicted_messages"], abs=2)
    assert found["messages"] < 20
    assert found["events_on_links"] == pytest.approx(found["predicted_events_on_links"], rel=0.05)
    assert found["events_on_links"] > 50
    assert found["delay_ms"] > 0


def test_inputs_are_drawn_by_their_seed() -> None:
    one, other = Inputs.drawn(FEW, 1), Inputs.drawn(FEW, 1)
    assert one.values == other.values
    assert one.roots == other.roots
    assert len(one.roots) == 3


def test_measures_of_the_experiments() -> None:
    rows: list[Row] = [
        {"policy": policy, "seed": 1, "messages": count, "predicted_messages": 10, "delay_ms": count}
        for policy, count in (("active", 10), ("selective", 5), ("cost", 2))
    ]
    measures = {name: measure(rows) for name, measure in network_pruning.EXPERIMENT.measures.items()}
    assert measures["selective_over_active_messages"] == {1: 0.5}
    assert measures["cost_over_active_delay"] == {1: 0.2}
    assert measures["active_messages_over_predicted"] == {1: 1.0}


def test_schedules_that_break_a_promise_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = [cell for cell in network_failures.cells({}, quick=True) if cell["where"] == SIMULATED]
    rows = network_failures.run(cells[0] | {"count": 2})
    assert [row["broken"] for row in rows] == [0, 0]
    assert network_failures.broken([*rows, rows[0] | {"broken": 1}], SIMULATED) == {1: pytest.approx(1.0)}
    monkeypatch.setattr("overstory.lab.failing_virtual.PATIENCE", 0.01)
    (row,) = network_failures.run(cells[0] | {"count": 1})
    assert row["broken"] == 1
    assert len(where(rows, where=SIMULATED)) == 2
