"""The report draws what moving clients saves, and says whose moves save most and which capacities bind."""

import msgspec
import numpy as np

from overstory.model.network import Network
from overstory.model.plan import Header, Plan
from overstory.model.scorecard import Traffic
from overstory.studio.moves import moves_of
from overstory.studio.views import PlanView

from .test_report import SCORE

NOTHING = np.zeros(0, np.int64)
NETWORK = Network.between(np.array([4, 7]), NOTHING, NOTHING, np.zeros(0), np.zeros(0))
TOLD = {
    "clients": [12.0, 13.0],
    "from": [4.0, 7.0],
    "to": [7.0, 4.0],
    "saved": [0.25, 0.05],
    "moves": [0.0, 1.0, 2.0],
    "cost": [1.0, 0.75, 0.7],
    "full": [7.0],
}


def view(attaching: dict[str, list[float]]) -> PlanView:
    header = msgspec.structs.replace(Header("overlay-search", ""), attaching=attaching)
    return PlanView("ours", 1.0, SCORE, Traffic(NOTHING, NOTHING), plan=Plan.of(header, {}))


def test_the_curve_falls_with_moves_and_names_are_escaped() -> None:
    page = moves_of(view(TOLD), NETWORK, ["<Oslo>", "Rome"])
    assert "2 clients move" in page
    assert "client 12: &lt;Oslo&gt; → Rome, saves 25.00%" in page
    assert "capacity binds at Rome" in page
    points = page.split('points="')[1].split('"')[0].split()
    heights = [float(point.split(",")[1]) for point in points]
    assert len(heights) == 3
    assert heights == sorted(heights)  # downwards, as costs fall
    assert "100.0%" in page
    assert "70.0%" in page


def test_nothing_is_said_where_nobody_told_and_little_where_nobody_moves() -> None:
    assert moves_of(view({}), NETWORK, ["a", "b"]) == ""
    still = moves_of(view({"full": [4.0]}), NETWORK, ["a", "b"])
    assert "no client moves" in still
    assert "polyline" not in still
    assert "capacity binds at a" in still
