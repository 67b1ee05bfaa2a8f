"""What changes cost, by the commands that a user types: counted by replay, priced, and refused where they are bad."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from overstory.model.settings import Prices, Settings
from overstory.model.tables import CHANGES, CLIENTS

from ..tables import events_table, scenario_of, scenario_tables, table_of
from .test_scenario import overstory

ROW = [0, 1, 2]  # brokers, each linked to the next
ANNA, BEN = 10, 11  # clients, at the two ends
LINKS = [(0, 1, 1.0), (1, 0, 1.0), (1, 2, 1.0), (2, 1, 1.0)]
# A subscription that goes over both links, and one that it covers. Then the first ends and the second is uncovered,
# which takes two messages on each link. Ben moves to the broker in between with the other: his old broker takes back
# what it told over two links, and his new one tells both neighbours.
CHURN = [
    (5.0, "subscribe", BEN, 1, "x > 1", None),
    (6.0, "subscribe", BEN, 2, "x > 2", None),
    (7.0, "unsubscribe", BEN, 1, None, None),
    (8.0, "move", BEN, None, None, 1),
]
MESSAGES = 2 + 0 + 4 + 4


def make(folder: Path, name: str, price: float, changes: Sequence[tuple[Any, ...]]) -> None:
    tables = scenario_tables(ROW, LINKS, [ANNA, BEN], [(7, ANNA, "x > 0", False)])
    clients = table_of(CLIENTS, [(ANNA, 0, None, None), (BEN, 2, None, None)])
    more = {"clients": clients, "changes": table_of(CHANGES, changes)}
    events = events_table([(BEN, 1, 0.5)] * 40, {"x": pa.float64()})
    scenario_of(folder / name, Settings(prices=Prices(control=price)), tables | more, events)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("control")
    make(place, "priced", 0.25, CHURN)
    make(place, "free", 0.0, CHURN)
    make(place, "broken", 0.25, [*CHURN, (9.0, "unsubscribe", BEN, 1, None, None)])
    for name in ("priced", "free"):
        made = overstory(place, "plan", name, "--planner", "spt", "-o", f"{name}-plan")
        assert made.code == 0, made.err
    return place


def test_control_is_the_price_of_the_messages_of_churn(folder: Path) -> None:
    """It is in the cost; parts of the log bear their shares of it."""
    priced = overstory(folder, "score", "priced", "priced-plan", "--json").json()
    free = overstory(folder, "score", "free", "free-plan", "--json").json()
    assert priced["messages"] == MESSAGES
    assert priced["control"] == 0.25 * MESSAGES
    assert priced["cost"] == free["cost"] + priced["control"]
    parts = [priced[name] - free[name] for name in ("cost_fit", "cost_held_out")]
    assert 0 < parts[1] < parts[0] < priced["control"]


def test_what_has_no_price_is_counted_where_asked_for(folder: Path) -> None:
    assert overstory(folder, "score", "free", "free-plan", "--json").json()["messages"] is None
    asked = overstory(folder, "score", "free", "free-plan", "--json", "--control").json()
    assert (asked["messages"], asked["control"]) == (MESSAGES, 0.0)


def test_another_policy_sends_other_messages(folder: Path) -> None:
    """Without covering the second subscription goes over both links, and nothing is uncovered."""
    found = overstory(folder, "compare", "priced", "--planners", "spt,mst", "--policy", "none", "--json").json()
    assert [plan["messages"] for plan in found["plans"]] == [2 + 2 + 2 + 4] * 2
    refused = overstory(folder, "score", "priced", "priced-plan", "--policy", "nonsense")
    assert refused.code == 64
    assert "there is no routing policy 'nonsense'" in refused.err


def test_changes_that_make_no_sense_are_refused(folder: Path) -> None:
    refused = overstory(folder, "compare", "broken", "--planners", "spt")
    assert refused.code == 1
    assert "changes row 5 column subscription: there is no subscription 1 at that time" in refused.err
