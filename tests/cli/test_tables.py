"""Tables for people: aligned, and no wider than a line."""

from typing import Any

import msgspec
import numpy as np

from overstory.cli.engine import Scored
from overstory.cli.plan import COLUMNS, results_table
from overstory.cli.tables import WIDTH, table
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


def result(name: str, cost: float, **changed: float) -> Scored:
    card = msgspec.structs.replace(NOTHING, cost=cost, gap=0.25, **changed)
    return Scored(name, None, PlanView(name, 1.5, card, Traffic(np.zeros(0, np.int64), np.zeros(0, np.int64))))


def test_a_comparison_shows_what_there_is_room_for() -> None:
    head, _, row = results_table([result("semcast-filtered", 1e9, cost_fit=6e8, cost_held_out=2e8)]).splitlines()
    assert [head.index(name) for name in COLUMNS] == sorted(head.index(name) for name in COLUMNS)
    assert row.split()[2:] == ["0", "+25.0%", "–", "–", "600,000,000", "200,000,000", "1.5"]
    huge = results_table([result("opt", 1e30, cost_fit=6e29, cost_held_out=2e29)]).splitlines()
    assert max(map(len, huge)) <= WIDTH
    assert {"planner", "cost", "gap", "held", "seconds"} <= set(huge[0].split())
