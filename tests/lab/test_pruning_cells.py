"""What is said of runs of the simulator: measures of the pruning experiments, on numbers that are easy to check."""

import json
from pathlib import Path

import pytest

from overstory.lab.claims import CLAIMS
from overstory.lab.drawing import svg_of
from overstory.lab.experiment import Row, Settings
from overstory.lab.experiments import EXPERIMENTS
from overstory.lab.pruning_cells import POLICIES, _rows, cost_over_best_other, delays, not_congested
from overstory.lab.simulator.pruning import Numbers
from overstory.lab.store import Store

DELAY = {"none": 0.2, "active": 100.0, "lazy": 40.0, "packing": 20.0, "paced": 5.0, "selective": 0.4, "cost": 0.3}


def numbers_of(policy: str) -> Numbers:
    place = float(POLICIES.index(policy))
    return {
        "delay_mean": DELAY[policy],
        "delay_p10": DELAY[policy] / 2,
        "delay_p90": DELAY[policy] * 3,
        "delay_before": 0.2,
        "queue_peak": 2000.0 if policy == "active" else 50.0,
        "table_core_end": 1000.0 - 100 * place,
        "false_positive_share": 0.004,
        "false_positive_share_core": 0.0001,
        "messages": 1000.0 - 10 * place,
        "triggered_core": [10.0, 8.0, 6.0, 4.0, 0.0 if policy == "selective" else 80.0],
        "sample_seconds": [0.0, 60.0, 7200.0, 7260.0],
        "queue_core": [1.0, 900.0, 30.0, 1.0],
        "table_core": [1.0, 2.0, 3.0, 4.0],
        **{f"publications_tier_{tier}": value for tier, value in ((1, 9.0), (2, 3.0), (3, 2.0))},
        **{f"false_positives_tier_{tier}": value for tier, value in ((1, 1.0), (2, 2.0), (3, 1.0))},
    }


def rows_of(settings: Settings) -> list[Row]:
    return [row for policy in POLICIES for row in _rows(settings | {"policy": policy, "seed": 1}, numbers_of(policy))]


UNSUBSCRIBED = rows_of({"unsubscriptions": 300, "degree": 30})
SPARSE = [
    *rows_of({"unsubscriptions": 300, "degree": 30, "threshold": 0.9, "workload": "dense"}),
    *(
        row | {"false_positive_share": 0.4}
        for row in rows_of({"unsubscriptions": 300, "degree": 30, "threshold": 0.9, "workload": "sparse"})
    ),
]
EXPECTED = {
    "active_hours_to_settle": 2.0,
    "table_saved_percent": 100 * (1 - 500 / 900),
    "table_saved_percent_lazy": 100 * (1 - 500 / 800),
    "slower_baseline_over_active_delay": 0.4,
    "selective_delay_percent": 0.4,
    "selective_delay_ratio": 2.0,
    "active_last_over_first_messages": 8.0,
    "selective_messages_vanished_percent": 100.0,
    "false_positive_percent": 0.4,
    "false_positive_percent_core": 0.01,
    "cost_over_best_other": 940 / 950,
}


def test_measures_of_the_unsubscribe_experiment() -> None:
    measures = EXPERIMENTS["pruning-unsubscribe"].measures
    assert measures.keys() == EXPECTED.keys()
    for name, expected in EXPECTED.items():
        assert measures[name](UNSUBSCRIBED) == {1: pytest.approx(expected)}, name


def test_other_measures() -> None:
    counted = [*rows_of({"unsubscriptions": 100, "degree": 30}), *UNSUBSCRIBED]
    assert EXPERIMENTS["pruning-count"].measures["selective_delay_300_over_100"](counted) == {1: 1.0}
    assert EXPERIMENTS["pruning-degree"].measures["selective_longest_queue"](counted) == {1: 50.0}
    moved = [row for others in (False, True) for row in rows_of({"others_move": others, "move_takes": 30.0})]
    mobile = EXPERIMENTS["pruning-mobile"].measures
    assert mobile["active_queue_all_over_monitors"](moved) == {1: 1.0}
    assert mobile["active_longest_queue_all_over_monitors"](moved) == {1: 1.0}
    assert mobile["light_tiers_false_positive_percent"](moved) == {1: 75.0}
    assert mobile["lower_tiers_false_positive_percent"](moved) == {1: 25.0}
    assert mobile["active_longest_queue_monitors"](moved) == {1: 2000.0}
    assert mobile["active_longest_queue_monitors_at_once"](moved) == {}


def test_moves_of_30_s_and_of_0_s_are_told_apart() -> None:
    cells = list(EXPERIMENTS["pruning-mobile"].cells({}, True))
    assert {cell["move_takes"] for cell in cells} == {30.0, 0.0}
    moved = [
        row | {"queue_peak": (others + 1) * (takes + 1)} if "queue_peak" in row else row
        for others in (False, True)
        for takes in (30.0, 0.0)
        for row in rows_of({"others_move": others, "move_takes": takes})
    ]
    mobile = EXPERIMENTS["pruning-mobile"].measures
    assert mobile["active_longest_queue_monitors"](moved) == {1: 31.0}
    assert mobile["active_longest_queue_monitors_at_once"](moved) == {1: 1.0}
    assert mobile["active_longest_queue_all_over_monitors_at_once"](moved) == {1: 2.0}
    (claim,) = (each for each in CLAIMS if each.name == "pruning-mobile-monitors")
    assert "30 s" in claim.reading
    assert "active_queue_all_over_monitors_at_once" in claim.others.values()


def test_both_workloads_with_every_policy() -> None:
    cells = list(EXPERIMENTS["pruning-sparse"].cells({}, False))
    for workload in ("dense", "sparse"):
        mine = [cell for cell in cells if cell["workload"] == workload]
        assert {cell["policy"] for cell in mine if cell["threshold"] == 0.9} == set(POLICIES)
        assert {cell["threshold"] for cell in mine if cell["policy"] == "selective"} == {0.5, 0.7, 0.8, 0.9, 0.95, 1.0}
    assert len({json.dumps(cell, sort_keys=True) for cell in cells}) == len(cells)
    rows = [*SPARSE, *({**row, "threshold": 0.5, "false_positive_share": 0.5} for row in SPARSE)]
    measures = EXPERIMENTS["pruning-sparse"].measures
    assert measures["false_positive_percent_sparse"](rows) == {1: pytest.approx(40.0)}
    assert measures["false_positive_percent_dense"](rows) == {1: pytest.approx(0.4)}
    assert measures["cost_messages_over_selective_sparse"](rows) == {1: pytest.approx(940 / 950)}


def test_the_cells_of_three_experiments_are_the_same_and_are_found_once(tmp_path: Path) -> None:
    """Seed 1 of 300 unsubscriptions with a covering degree of 30."""
    first = EXPERIMENTS["pruning-unsubscribe"]
    (cell,) = (cell for cell in first.cells({}, True) if cell["policy"] == "active")
    Store(tmp_path, first).put(cell, [{"seed": 1, "value": 7.0}], 0.0)
    for name in ("pruning-count", "pruning-degree", "pruning-sparse"):
        assert cell in list(EXPERIMENTS[name].cells({}, True))
        stored = Store(tmp_path, EXPERIMENTS[name]).get(cell)
        assert stored is not None
        assert stored.rows == [{"seed": 1, "value": 7.0}]


def test_nothing_is_reported_without_congestion() -> None:
    assert not_congested(UNSUBSCRIBED) is None
    calm = [row | {"queue_peak": 3.0} if "queue_peak" in row else row for row in UNSUBSCRIBED]
    assert "does not congest" in str(not_congested(calm))
    for takes, refused in ((30.0, True), (0.0, False)):
        moved = [row | {"queue_peak": 3.0} for row in rows_of({"others_move": False, "move_takes": takes})]
        assert ("does not congest" in str(EXPERIMENTS["pruning-mobile"].refuses(moved))) == refused


def test_the_best_of_all_others() -> None:
    assert cost_over_best_other([]) == {}
    assert cost_over_best_other([row for row in UNSUBSCRIBED if row["policy"] == "cost"]) == {}


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("pruning-")])
def test_figures(name: str) -> None:
    few: Settings = {"unsubscriptions": 100, "degree": 10, "others_move": False, "workload": "dense"}
    many: Settings = {"unsubscriptions": 300, "degree": 30, "others_move": True, "workload": "sparse"}
    rows = [
        row
        for settings in (few, many)
        for takes in (30.0, 0.0)
        for row in rows_of(settings | {"threshold": 0.9, "move_takes": takes})
    ]
    figures = EXPERIMENTS[name].figures(rows)
    assert figures
    assert len({figure.name for figure in figures}) == len(figures)
    sizes = {2 * len(POLICIES), 2} if name == "pruning-sparse" else {len(POLICIES)}
    assert {len(figure.lines) for figure in figures} == sizes
    assert all(svg_of(figure).startswith("<svg") for figure in figures)


def test_bars_of_both_workloads_stand_beside_each_other() -> None:
    figure = EXPERIMENTS["pruning-sparse"].figures(SPARSE)[2]
    assert [line.label for line in figure.lines[:3]] == ["none, dense", "none, sparse", "active, dense"]
    assert [line.y for line in figure.lines[:2]] == [[pytest.approx(0.4)], [pytest.approx(40.0)]]


def test_delays_are_drawn_from_the_tenth_to_the_ninetieth_percentile() -> None:
    figure = delays(UNSUBSCRIBED, "some")
    spans = [line.span for line in figure.lines]
    assert [line.label for line in figure.lines] == list(DELAY)
    assert spans == [(delay / 2, delay * 3) for delay in DELAY.values()]
    assert svg_of(figure).startswith("<svg")
