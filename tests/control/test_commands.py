"""overstory observe, coordinate and explain, where something is wrong, and what they tell of decisions."""

import argparse
import json
from pathlib import Path

import msgspec
import pytest

from overstory.broker.watching import Watched
from overstory.cli import FAILED, OK, USAGE, main
from overstory.cli.apply import _say, about_verdict
from overstory.cli.engine import Scored
from overstory.cli.operate import about_window
from overstory.cli.topic_references import of_topics
from overstory.control.coordinating import DECISIONS
from overstory.control.deciding import APPLY, KEEP, Decision
from overstory.control.measuring import Verdict
from overstory.control.observing import TODAY
from overstory.control.steps import Done
from overstory.model.plan import Header, Plan


def test_nobody_at_the_url_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for command in ("observe", "coordinate"):
        assert main([command, "http://127.0.0.1:1", "-o", str(tmp_path / "seen")]) == FAILED
        said = capsys.readouterr().err.strip()
        assert len(said.splitlines()) == 1
        assert "no broker answers at http://127.0.0.1:1" in said


def test_a_folder_with_something_else_is_left_alone(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    assert main(["observe", "http://127.0.0.1:1", "-o", str(tmp_path)]) == USAGE
    assert "holds something else" in capsys.readouterr().err
    assert (tmp_path / "mine").read_text() == "precious"


@pytest.mark.parametrize(
    ("text", "problem"),
    [("threshold = 2", "threshold"), ("treshold = 0.1", "treshold"), ("rest = -1", "rest"), ("= 3", "TOML")],
)
def test_rules_that_cannot_be_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, problem: str
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(text)
    assert main(["coordinate", "http://127.0.0.1:1", "-o", str(tmp_path / "d"), "--rules", str(rules)]) == USAGE
    said = capsys.readouterr().err
    assert "has no rules of a coordinator" in said
    assert problem == "TOML" or problem in said


def test_decisions_are_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    made = [
        Decision(0, 60.0, KEEP, "the window has changed by 0.0%, less than 1.0%", {"cost": 12.5}),
        Decision(1, 120.0, APPLY, "mst saves 9.0% at least", {"price": 3.0}, "mst"),
        Decision(1, 121.0, "installed", "epoch 2 was decided on", {}, "mst"),
    ]
    (tmp_path / DECISIONS).write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in made))
    assert main(["explain", str(tmp_path)]) == OK
    told = capsys.readouterr().out
    assert "window 0: keep the plan, since the window has changed by 0.0%, less than 1.0%\n    cost 12.5" in told
    assert "window 1: apply mst, since mst saves 9.0% at least" in told
    assert "window 1: mst is installed, since epoch 2 was decided on" in told
    assert main(["explain", str(tmp_path), "--json"]) == OK
    found = msgspec.json.decode(capsys.readouterr().out)
    assert [one["action"] for one in found["decisions"]] == ["keep", "apply", "installed"]


def test_the_last_window_is_a_line() -> None:
    watched = Watched(4, 0.0, 120.0, 1.1, 1.25, 100, 2.0, {"a link 1–2": 0.25})
    assert about_window(watched) == (
        "window 4: links carried 1.250 times what no plan undercuts; a link 1–2 would save 25.0%"
    )


def test_todays_plan_is_no_planners_in_a_comparison() -> None:
    """The plan of a running network may be of a planner that is not known here, or of none."""
    assert not of_topics(Scored(TODAY, Plan.of(Header("", ""), {}), view=None))  # type: ignore[arg-type]


def test_a_cost_that_was_nothing_before_is_no_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    assert _say(Done("installed", None, Verdict(float("inf"), None)), argparse.Namespace(json=True)) == OK
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["verdict"]["measured"] is None
    assert about_verdict(Verdict(float("inf"), None)) == ": there was none before, and there is some now"
    assert about_verdict(Verdict(0.5, 0.25)) == ", as a ratio to before: 0.500 measured, 0.250 predicted"
