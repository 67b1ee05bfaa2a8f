"""Experiments with steered delivery: quick versions, and the arithmetic that spares them most scoring."""

from pathlib import Path

import pytest

from overstory.lab.experiment import Row, Settings
from overstory.lab.experiments import EXPERIMENTS, steered_cost, steered_drift, steered_failures, steered_state
from overstory.lab.localized import Localized, make_localized
from overstory.lab.measuring import number, where
from overstory.lab.steered_cells import DEFAULT, MANY_TREES, ONE_TREE, STEERED, Cost, costs_of, planned, with_headers
from overstory.lab.topologies import topology
from overstory.model.scenario import read_scenario
from overstory.pipeline.workbench import Workbench

SMALL: Settings = {"network": "transit-stub", "brokers": 24, "data": "Localized2", "events": 200, "seed": 1}


def test_costs_of_payloads_are_those_that_are_scored(tmp_path: Path) -> None:
    cards = {}
    for size in (1, 50):
        what = Localized(keywords=60, locality=0.2, events=300, bytes=size)
        make_localized(tmp_path / str(size), topology("transit-stub", 30, 1), what, 1)
        scenario = read_scenario(tmp_path / str(size))
        plan = planned(scenario, STEERED, 1)
        if size == 1:
            costs, _ = costs_of(scenario, {STEERED: plan})
        cards[size] = Workbench(with_headers(scenario)).score(plan)
    assert cards[50].cost_held_out == pytest.approx(50 * costs[STEERED].of(50))
    assert cards[1].cost_held_out == pytest.approx(costs[STEERED].of(1))


def test_the_payload_from_which_on_steering_is_cheaper() -> None:
    ours, tree = Cost(10.0, 40.0), Cost(12.0, 0.0)
    even = ours.cheaper_from(tree)
    assert even == 20.0
    assert ours.of(even) == tree.of(even)
    assert ours.of(21) < tree.of(21)
    assert ours.cheaper_from(Cost(10.0, 0.0)) is None
    assert tree.cheaper_from(Cost(13.0, 5.0)) == 0.0


def test_costs_by_payload() -> None:
    rows = steered_cost.run(SMALL | {"kind": "network", "subscribers": 10})
    by = {(str(row["way"]), int(number(row, "payload"))): number(row, "ratio") for row in rows}
    assert all(ratio >= 1 for ratio in by.values())
    assert by[STEERED, 20_000] < by[STEERED, 20]
    assert by[ONE_TREE, 20_000] == by[ONE_TREE, 20]
    if rows[0]["cheaper_from"] is not None:
        even = number(rows[0], "cheaper_from")
        sizes = {int(number(row, "payload")) for row in rows}
        assert all((by[STEERED, size] < by[ONE_TREE, size]) == (size > even) for size in sizes)
    assert steered_cost.figures(rows)
    cheapest = min(number(row, "bare") for row in rows if row["way"] != DEFAULT)
    mine = number(where(rows, way=DEFAULT)[0], "bare")
    assert steered_cost.default_above(rows)[1] == pytest.approx(100 * (mine / cheapest - 1))


def test_steering_does_not_age() -> None:
    rows = steered_drift.run(SMALL | {"brokers": 40, "events": 600})
    assert {row["way"] for row in rows} == {STEERED, ONE_TREE, MANY_TREES}
    worse = {way: steered_drift.worse(rows, way)[1] for way in (STEERED, ONE_TREE, MANY_TREES)}
    assert worse[STEERED] < min(worse[ONE_TREE], worse[MANY_TREES])
    assert all(number(row, "bare") < 1.05 for row in where(rows, way=STEERED))
    assert steered_drift.figures(rows)


def test_state_beside_trees() -> None:
    rows = steered_state.run(SMALL | {"interest": "ranges", "data": "Uniform", "keywords": 60})
    by = {str(row["way"]): row for row in rows}

    def of(way: str, name: str) -> float:
        return number(by[way], name)

    assert of(steered_state.SUMMARISED, "summaries") == 24 * 4  # hosts and slices
    assert of(steered_state.SUMMARISED, "entries") < of(STEERED, "entries")
    assert of(STEERED, "messages") >= of(ONE_TREE, "messages") > 0
    assert of(STEERED, "false_positives") == 0
    assert of(steered_state.CYCLIC, "entries") > of(ONE_TREE, "entries")
    assert of(steered_state.REGIONS, "held") < of(STEERED, "held")
    assert of(steered_state.REGIONS, "entries") < of(STEERED, "entries")
    assert of(steered_state.REGIONS, "cost") > of(STEERED, "cost")
    assert of(steered_state.REGIONS, "messages") < of(STEERED, "messages")
    assert of(STEERED, "held") * 24 >= of(STEERED, "entries")
    assert by[ONE_TREE]["held"] is None


def test_the_curve_of_churn_crosses_where_one_tree_gets_cheaper() -> None:
    rows: list[Row] = [
        {"way": STEERED, "core": 4.0, "messages": 120.0},
        {"way": ONE_TREE, "core": 5.0, "messages": 20.0},
    ]
    common: Row = {"interest": "keywords", "data": "Localized1", "brokers": 40, "seed": 1, "entries": 1}
    found = steered_state.figures([row | common for row in rows])[-1]
    steered, tree = found.lines
    assert (found.name, steered.label, tree.label) == ("steered-churn", STEERED, ONE_TREE)
    cheaper = [rate for rate, ours, theirs in zip(steered.x, steered.y, tree.y, strict=True) if ours < theirs]
    assert cheaper == [rate for rate in steered_state.RATES if rate < (5.0 - 4.0) / (120 - 20)]


def test_they_are_in_the_registry_with_quick_cells() -> None:
    for name in ("steered-cost", "steered-drift", "steered-state"):
        cells = list(EXPERIMENTS[name].cells({}, True))
        assert 0 < len(cells) < len(list(EXPERIMENTS[name].cells({}, False)))


def test_three_brokers_gain_little() -> None:
    (three,) = [cell for cell in steered_cost.cells({}, True) if cell["brokers"] == 3]
    rows = steered_cost.run(three | {"events": 300})
    found = {str(row["way"]): number(row, "ratio") for row in where(rows, payload=20)}
    assert found[ONE_TREE] < 1.35
    assert found[STEERED] > 1.05  # headers, for next to nothing
    (figure,) = [each for each in steered_cost.figures(rows) if each.name == "steered-three-brokers"]
    assert {line.label: line.y[line.x.index(20)] for line in figure.lines} == found


def test_steering_finds_its_way_around_failed_links() -> None:
    """All that can be reached is, once all know; before, more than on a tree, which loses what lies behind the links
    that failed. Where nobody hears of eight failures, detours run into each other, and some are given up."""
    rows = steered_failures.run(SMALL | {"brokers": 20, "events": 30})
    by = {(row["way"], row["when"], row["failed"]): number(row, "delivered") for row in rows}
    for failed in steered_failures.FAILED:
        assert by[STEERED, steered_failures.KNOWN, failed] == 1.0
        assert by[STEERED, steered_failures.AT_ONCE, failed] >= by[ONE_TREE, steered_failures.AT_ONCE, failed]
    assert by[STEERED, steered_failures.AT_ONCE, 4] == 1.0 > by[ONE_TREE, steered_failures.KNOWN, 4]
    for row in where(rows, failed=0):
        assert (row["delivered"], row["cut_off"]) == (1.0, 0.0)
    detours, around = (
        number(row, "price") for when in ("at once", "known") for row in where(rows, way=STEERED, when=when, failed=1)
    )
    assert detours > around  # who knows of a failure steers around it
    assert steered_failures.figures(rows)


def test_rows_of_a_real_network_keep_their_settings() -> None:
    (real,) = [cell for cell in steered_cost.cells({}, True) if cell["brokers"] == 0]
    settings = real | {"events": 300}
    rows = steered_cost.run(settings)
    assert all(settings.items() <= row.items() for row in rows)
    assert {row["size"] for row in rows} != {0}
