"""docs/routing.md names every policy as the code does, and every input of a router."""

from pathlib import Path

from overstory.routing.policies import SUMMARIES
from overstory.routing.router import Router

PAGE = (Path(__file__).parents[2] / "docs" / "routing.md").read_text()
NOT_INPUTS = {"statistics", "filters", "is_waiting", "is_moving", "match", "decide", "note", "came_in_vain"}


def test_every_policy_is_documented() -> None:
    for name, summary in SUMMARIES.items():
        assert f"| `{name}` | {summary} |" in PAGE


def test_every_input_is_documented() -> None:
    inputs = {name for name in vars(Router) if not name.startswith("_")} - NOT_INPUTS
    for name in inputs:
        assert f"`{name}`" in PAGE, name
