"""Tables for people: aligned, and no wider than a line."""

from typing import Any

import msgspec
import numpy as np
import pytest

from overstory.cli.engine import Scored
from overstory.cli.plan import COLUMNS, Failed, about_results, print_score, results_table
from overstory.cli.tables import MOST_DRAWN, WIDTH, aligned, drawn, shown_down, table
from overstory.model.scorecard import Scorecard, Traffic
from overstory.studio.views import PlanView

ROWS: list[list[object]] = [["one", 1234567, 0.12345], ["another", None, 12.0]]
ZEROS: dict[str, Any] = dict.fromkeys(Scorecard.__struct_fields__, 0) | {"exceeded": ()}
NOTHING = Scorecard(**ZEROS)


def test_numbers_stand_to_the_right() -> None:
    assert table(("name", "many", "much"), ROWS).splitlines() == [
        "name          many   much",
        "───────  ─────────  ─────",
        "one      1,234,567  0.123",
        "another          –     12",
    ]


def test_spare_columns_go_in_their_order_and_only_as_far_as_needed() -> None:
    wide = ("name", "many", "much")
    assert table(wide, ROWS, spare=("many", "much"), width=25) == table(wide, ROWS)
    assert table(wide, ROWS, spare=("many", "much"), width=24).splitlines()[0] == "name      much"
    assert table(wide, ROWS, spare=("many", "much"), width=10).splitlines()[0] == "name"


def result(name: str, cost: float, **changed: Any) -> Scored:
    card = msgspec.structs.replace(NOTHING, cost=cost, gap=0.25, **({"bounded": 1.0} | changed))
    return Scored(name, None, PlanView(name, 1.5, card, Traffic(np.zeros(0, np.int64), np.zeros(0, np.int64))))


def test_a_comparison_shows_what_there_is_room_for() -> None:
    head, _, row = results_table([result("semcast", 1e9, core=9e8, cost_fit=6e8, cost_held_out=2e8)]).splitlines()
    *names, last = COLUMNS
    assert [head.index(name) for name in names] == sorted(head.index(name) for name in names)
    assert last == "exceeded"  # which stands there if there is any
    assert last not in head
    cells = ["1,000,000,000", "900,000,000", "0", "+25.0%", "100%", "–", "–", "600,000,000", "200,000,000", "1.5"]
    assert row.split()[1:] == cells
    huge = results_table([result("opt", 1e30, cost_fit=6e29, cost_held_out=2e29)]).splitlines()
    assert max(map(len, huge)) <= WIDTH
    assert {"planner", "cost", "gap", "held", "seconds", "bounded"} <= set(huge[0].split())


def test_limits_that_are_exceeded_and_planners_without_a_plan_have_rows() -> None:
    fine, not_fine = (
        result("spt", 1000.0),
        result("mst", 900.0, exceeded=("delay: 9 ms, where 1 ms is the limit", "load: 2")),
    )
    head, _, *rows = results_table([fine, not_fine], failed=[Failed("nearest", "nobody is near")]).splitlines()
    assert head.split()[-1] == "exceeded"
    assert [row.split()[0] for row in rows] == ["spt", "mst", "nearest"]
    assert rows[0].split()[-1] == "–"
    assert rows[1].endswith("delay, load")
    assert rows[2].endswith("no plan")


def test_core_stands_beside_the_cost_where_anything_else_is_priced() -> None:
    """So that the gap, which is that of core above the bound, can be worked out from what is shown."""
    alone, beside = result("spt", 1000.0, core=1000.0), result("mst", 1200.0, core=900.0)
    assert "core" not in results_table([alone]).splitlines()[0].replace("core gap", "").split()
    assert "core" in results_table([alone, beside]).splitlines()[0].replace("core gap", "").split()


def test_a_bound_is_never_shown_rounded_up() -> None:
    values = [0.0, 9.999, 0.99999, 999.99, 1000.7, 123456.9, 7.22925e-08, 1e300, 12345.678]
    for value in values:
        for digits in (3, 6):
            text = shown_down(value, digits).replace(",", "")
            assert float(text) <= value
            assert float(text) >= value * (1 - 10.0 ** (1 - digits))
    assert shown_down(8_313_190.9) == "8,313,190"


def test_a_bound_of_a_part_says_so_and_names_its_estimate() -> None:
    card = {"core": 1000.0, "lower_bound": 400.0, "lower_bound_estimate": 800.0}
    weak, whole = result("spt", 1000.0, bounded=0.25, **card), result("mst", 1000.0)
    said = about_results([weak, whole], {"starting Spark": 5.25}).splitlines()
    assert len(said) == 2
    assert said[0].startswith("spt: dual ascent bounds 25.0% of the log")
    assert "about 800, core +25.0%, an estimate and no bound" in said[0]
    assert said[1] == "once for all plans: starting Spark 5.2 s"


def test_costs_have_the_currency_of_the_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes and milliseconds have their units with and without it."""
    card = msgspec.structs.replace(
        NOTHING, cost=1234.5, lower_bound=9.5, core_bytes=4000, max_delay=1.5, mean_delay=None
    )
    print_score(card, "EUR")
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (lines["cost"], lines["lower_bound"], lines["flood"]) == ("1,234.5 EUR", "9.5 EUR", "0 EUR")
    assert (lines["core_bytes"], lines["max_delay"], lines["mean_delay"]) == ("4,000 bytes", "1.5 ms", "–")
    assert {name for name, value in lines.items() if "EUR" in value} == {
        *("cost", "core", "access", "upkeep", "control", "cost_fit", "cost_held_out", "flood"),
        *("lower_bound", "lower_bound_held_out", "lower_bound_estimate"),
    }
    print_score(card, "")
    bare = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert (bare["cost"], bare["core_bytes"]) == ("1,234.5", "4,000 bytes")
    assert about_results([result("spt", 1.0)], {}, "EUR").splitlines()[0] == "costs and bounds are in EUR"
    assert "costs" not in about_results([result("spt", 1.0)], {})


def test_very_long_tables_look_like_others() -> None:
    """Rich lays out the short ones; what is quicker must give the same lines."""
    texts = [["name", "many"], ["────────", "──────"], ["[b]bold[", "12"], ["日本", "3"], ["", ":smile:"[:6]]]
    assert drawn(texts, [8, 6]) == aligned(texts, [8, 6])
    assert aligned(texts, [8, 6]).splitlines()[2:] == ["[b]bold[      12", "日本           3", "          :smile"]
    rows = [["row", number % 100] for number in range(MOST_DRAWN + 1)]
    assert table(("name", "many"), rows).splitlines()[:-1] == table(("name", "many"), rows[:-1]).splitlines()


def test_a_table_is_plain_text_however_narrow_the_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = table(("name", "many", "much"), ROWS)
    monkeypatch.setenv("COLUMNS", "10")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert table(("name", "many", "much"), ROWS) == usual
    assert "\x1b" not in usual
