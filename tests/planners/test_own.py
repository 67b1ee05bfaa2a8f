"""Planners of others: registered by a decorator or an entry point, looked at, and used by name."""

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from overstory import cli
from overstory.errors import UsageError
from overstory.lab.experiments import experiment_named
from overstory.lab.running import parameters_of
from overstory.model.scenario import Scenario
from overstory.planners import own
from overstory.planners.chains import make_plan
from overstory.planners.own import code_of, known_planners, planner
from overstory.planners.registry import OWN, PLANNERS, planner_named

from .scenarios import line_of_brokers
from .steps import Steps


@pytest.fixture(autouse=True)
def nobody() -> Iterator[None]:
    """Nothing that a test registers stays."""
    own.installed.cache_clear()
    before = dict(OWN)
    yield
    OWN.clear()
    OWN.update(before)
    own.installed.cache_clear()


def copied(scenario: Scenario, steps: Any, tables: Mapping[str, pa.Table], parameters: Any, seed: int) -> Any:
    """The tables of the base.

    What follows is told in full by the help alone."""
    return {name: tables[name] for name in ("flows", "members", "trees")}


@pytest.fixture
def scenario(tmp_path: Path) -> Scenario:
    return line_of_brokers(tmp_path / "net", 4, {"a": [1, 3], "b": [2]}, [(0, "ab"), (2, "a")])


def test_a_function_becomes_a_planner(scenario: Scenario) -> None:
    assert planner("copied", parameters={"depth": 3}, guarantee="none")(copied) is copied
    found = planner_named("copied")
    assert (found.summary, found.problem, found.parameters) == ("The tables of the base", "trees", {"depth": 3})
    plan = make_plan("copied", scenario, Steps(), {"depth": 5}, 7)
    assert plan.header.parameters == {"depth": 5}
    assert plan.trees.equals(make_plan("mst", scenario, Steps(), {}, 7).trees)
    assert make_plan("nearest+copied", scenario, Steps(), {}).header.planner == "nearest+copied"
    with pytest.raises(UsageError, match="planner copied has no parameter 'width'; it has depth"):
        make_plan("copied", scenario, Steps(), {"width": 1})
    with pytest.raises(UsageError, match="no planner 'copid'; near to it: copied"):
        planner_named("copid")


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("spt", {}, "there is a planner 'spt' already"),
        ("opt", {}, "there is a planner 'opt' already"),
        ("a+b", {}, "'a\\+b' cannot be the name of a planner"),
        ("mine", {"problem": "roads"}, "there is no problem 'roads'; there are trees"),
        ("mine", {"writes": ("roads",)}, "a plan has no table 'roads'; there are attachments"),
        ("mine", {"writes": ()}, "decides on at least one table"),
    ],
)
def test_what_cannot_be_registered(name: str, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        planner(name, **options)(copied)
    assert name not in OWN


def test_a_planner_says_what_it_does() -> None:
    with pytest.raises(UsageError, match="the planner 'mute' has no docstring"):
        planner("mute")(lambda *given: {})


def gives(found: Any) -> Any:
    def plan(*given: Any) -> Any:
        """Gives something."""
        if isinstance(found, Exception):
            raise found
        return found

    return plan


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "planner bad gives NoneType, where it has to give the tables flows, members, trees"),
        ({"roads": 1}, "planner bad gives roads, where"),
        ({"trees": [1]}, "planner bad gives a list for the table trees, not one of pyarrow"),
        ({"trees": pa.table({"flow": [1]})}, "planner bad gives a table trees without the column 'source'"),
        (ValueError("no way"), r"planner bad failed in test_own\.py, line \d+: ValueError: no way$"),
        (UsageError("as it is"), "^as it is$"),
    ],
)
def test_what_a_planner_gives_is_looked_at(scenario: Scenario, found: Any, words: str) -> None:
    planner("bad")(gives(found))
    with pytest.raises(UsageError, match=words):
        make_plan("bad", scenario, Steps(), {})


def test_packages_bring_planners(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """One that cannot be imported breaks nothing but itself, nor does one with a name that is taken."""
    points = [
        EntryPoint("copied", f"{__name__}:copied", own.GROUP),
        EntryPoint("broken", "there_is_no_such_module:plan", own.GROUP),
        EntryPoint("spt", f"{__name__}:copied", own.GROUP),
    ]
    monkeypatch.setattr(own, "entry_points", lambda group: [point for point in points if point.group == group])
    assert list(known_planners()) == [*PLANNERS, "copied"]
    with pytest.raises(SystemExit):
        cli.main(["plan", "--help"])
    words = " ".join(capsys.readouterr().out.split())
    assert (
        "copied (installed) The tables of the base. What follows is told in full by the help alone. guarantee: none"
        in words
    )
    assert "broken cannot be loaded: ModuleNotFoundError: No module named 'there_is_no_such_module'" in words
    assert cli.main(["compare", "net", "--planners", "broken"]) == cli.USAGE
    assert "the planner 'broken' cannot be loaded: ModuleNotFoundError" in capsys.readouterr().err


def test_the_lab_tries_it_beside_the_others() -> None:
    planner("copied")(copied)
    experiment = experiment_named("trees-cost")
    cells = list(experiment.cells(parameters_of(experiment, {"also": "copied, mst"}), True))
    mine = [cell for cell in cells if cell["planner"] in ("copied", "mst")]
    assert {(cell["planner"], cell["code"]) for cell in mine} == {("copied", code_of("copied")), ("mst", "")}
    assert len(code_of("copied")) == 16  # another file would be another cell
    assert all("code" not in cell for cell in cells if cell not in mine)
    small = {"brokers": 20, "events": 50}
    (row,) = experiment.run(next(cell for cell in mine if cell["planner"] == "copied") | small)
    assert row["planner"] == "copied"
    assert isinstance(row["cost"], float)
    with pytest.raises(UsageError, match="there is no planner 'nobody'"):
        list(experiment.cells(parameters_of(experiment, {"also": "nobody"}), True))
