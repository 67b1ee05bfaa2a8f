"""What is said of runs of the simulator: measures of the pruning experiments, on numbers that are easy to check."""

import pytest

from overstory.lab.drawing import svg_of
from overstory.lab.experiment import Row, Settings
from overstory.lab.experiments import EXPERIMENTS
from overstory.lab.pruning_cells import POLICIES, _rows, cost_over_best_other, delays, not_congested
from overstory.lab.simulator.pruning import Numbers

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
    moved = [*rows_of({"others_move": False}), *rows_of({"others_move": True})]
    mobile = EXPERIMENTS["pruning-mobile"].measures
    assert mobile["active_queue_all_over_monitors"](moved) == {1: 1.0}
    assert mobile["active_longest_queue_all_over_monitors"](moved) == {1: 1.0}
    assert mobile["light_tiers_false_positive_percent"](moved) == {1: 75.0}
    assert mobile["lower_tiers_false_positive_percent"](moved) == {1: 25.0}


def test_nothing_is_reported_without_congestion() -> None:
    assert not_congested(UNSUBSCRIBED) is None
    calm = [row | {"queue_peak": 3.0} if "queue_peak" in row else row for row in UNSUBSCRIBED]
    assert "does not congest" in str(not_congested(calm))
    moved = [row | {"queue_peak": 3.0} if "queue_peak" in row else row for row in rows_of({"others_move": False})]
    assert "does not congest" in str(EXPERIMENTS["pruning-mobile"].refuses(moved))


def test_the_best_of_all_others() -> None:
    assert cost_over_best_other([]) == {}
    assert cost_over_best_other([row for row in UNSUBSCRIBED if row["policy"] == "cost"]) == {}


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("pruning-")])
def test_figures(name: str) -> None:
    rows = [
        *rows_of({"unsubscriptions": 300, "degree": 30, "others_move": False}),
        *rows_of({"unsubscriptions": 100, "degree": 10, "others_move": True}),
    ]
    figures = EXPERIMENTS[name].figures(rows)
    assert figures
    assert all(len(figure.lines) == len(POLICIES) for figure in figures)


def test_delays_are_drawn_from_the_tenth_to_the_ninetieth_percentile() -> None:
    figure = delays(UNSUBSCRIBED, "some")
    spans = [line.span for line in figure.lines]
    assert [line.label for line in figure.lines] == list(DELAY)
    assert spans == [(delay / 2, delay * 3) for delay in DELAY.values()]
    assert svg_of(figure).startswith("<svg")
