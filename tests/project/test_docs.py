"""Documents that cannot drift: commands run, examples hold, links lead somewhere, tables say what the code says."""

import doctest
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from overstory import cli
from overstory.broker.config import Config
from overstory.broker.pressure import Limits as BrokerLimits
from overstory.broker.pressure import LinkLimits, MoveLimits
from overstory.filters import DIALECTS, Limits
from overstory.filters.operators import (
    COMPARISON_TOKENS,
    FUNCTIONS,
    PADRES_PATTERN_OPERATORS,
    PADRES_PRESENCE,
    PADRES_STRING_OPERATORS,
    RESERVED,
)
from overstory.lab.experiments import EXPERIMENTS
from overstory.model.scorecard import Scorecard
from overstory.model.settings import Access, Curves, Prices, Settings
from overstory.model.settings import Limits as Limits_
from overstory.model.tables import PLAN_TABLES, SCENARIO_TABLES
from overstory.planners.references import REFERENCES
from overstory.planners.registry import PLANNERS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("tests/**/*.md")])
SPARK = {"python.md", "planners.md"}
README = (ROOT / "README.md").read_text()
FILTERS = (ROOT / "docs" / "filters.md").read_text()
SCENARIOS = (ROOT / "docs" / "scenarios.md").read_text()
BROKER = (ROOT / "docs" / "broker.md").read_text()
LAB = (ROOT / "docs" / "lab.md").read_text()


def commands(page: str) -> Iterator[tuple[str, str]]:
    """Each ``$ command`` of the page's shell blocks with the output shown below it."""
    for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


@pytest.mark.parametrize(("command", "output"), list(commands(README)))
def test_commands_of_the_readme_print_what_it_shows(command: str, output: str) -> None:
    result = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.stdout + result.stderr == output


def test_the_readme_opens_with_the_two_commands() -> None:
    """What they would do; the demo itself is run elsewhere, smaller, and ``make test`` is what runs this."""
    assert re.findall(r"^(make \w+)", README, re.MULTILINE) == ["make demo", "make test"]
    quiet = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    for goal, wanted in (("demo", ".venv/bin/overstory demo"), ("test", "pytest")):
        dry = subprocess.run(["make", "-n", goal], cwd=ROOT, env=quiet, capture_output=True, text=True, check=True)
        assert wanted in dry.stdout


# Examples that need Spark run in a process of their own: see tests/door
@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in SPARK], ids=lambda page: page.name)
def test_examples_hold(page: Path) -> None:
    assert doctest.testfile(str(page), module_relative=False).failed == 0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_limit_is_documented_with_its_default() -> None:
    table = dict(re.findall(r"^\| `(\w+)` \| (\d+)", FILTERS, re.MULTILINE))
    assert table == {f.name: str(f.default) for f in msgspec.structs.fields(Limits)}


def test_every_operator_is_documented() -> None:
    padres = [*PADRES_STRING_OPERATORS, *PADRES_PATTERN_OPERATORS, PADRES_PRESENCE]
    for word in [*COMPARISON_TOKENS, *FUNCTIONS, *RESERVED, *padres, *DIALECTS]:
        assert re.search(rf"`[^`]*{re.escape(word)}[^`]*`", FILTERS), word


def test_every_command_is_documented() -> None:
    written = README + SCENARIOS
    for command in cli.parser()._subparsers._group_actions[0].choices:  # type: ignore[union-attr]
        assert f"overstory {command}" in written, command
    for verb in ("eval", "covers", "explain", "bench"):
        assert f"overstory filter {verb}" in written, verb


def test_every_setting_of_the_broker_is_documented_with_its_default() -> None:
    table = dict(re.findall(r"^\| `([\w.]+)` \| `?([^|`]+)`? \|", BROKER, re.MULTILINE))
    settings = {field.name: field.default for field in msgspec.structs.fields(Config)}
    del settings["limits"], settings["window"], settings["moves"]
    settings |= {f"limits.{field.name}": field.default for field in msgspec.structs.fields(BrokerLimits)}
    settings |= {f"window.{field.name}": field.default for field in msgspec.structs.fields(LinkLimits)}
    settings |= {f"moves.{field.name}": field.default for field in msgspec.structs.fields(MoveLimits)}
    settings["types"] = settings["neighbours"] = None
    assert {name: table.get(name) for name in settings} == {
        name: "none" if default is None else f'"{default}"' if isinstance(default, str) else str(default)
        for name, default in settings.items()
    }


def test_every_column_and_planner_is_documented() -> None:
    for table in (SCENARIO_TABLES | PLAN_TABLES).values():
        assert f"`{table.name}`: {table.meaning}." in SCENARIOS
        for column in table.columns:
            assert f"| `{column.name}` | {column.type}" in SCENARIOS, column.name
            assert column.meaning in SCENARIOS
    for planner in PLANNERS.values():
        assert f"| `{planner.name}` | {planner.summary} | {planner.guarantee} |" in SCENARIOS
    for reference in REFERENCES.values():
        assert f"| `{reference.name}` | {reference.summary} | {reference.guarantee} |" in SCENARIOS
    for experiment in EXPERIMENTS.values():
        assert f"| `{experiment.name}` | {experiment.summary} |" in LAB
        assert all(f"`{name}" in LAB for name in experiment.parameters)


def test_every_number_is_defined() -> None:
    section = SCENARIOS.partition("## The numbers")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ", section, re.MULTILINE)
    defined = {name for names in rows for name in re.findall(r"`(\w+)`", names)}
    assert defined == {*Scorecard.__struct_fields__, "seconds", "set_up", "links"}


def test_the_settings_shown_are_all_there_are() -> None:
    (shown,) = re.findall(r"```toml\n(.*?)```", SCENARIOS, re.DOTALL)
    settings = msgspec.toml.decode(shown.encode(), type=Settings)
    named = set(re.findall(r"^(\w+) =", shown, re.MULTILINE))
    kinds = (Settings, Prices, Limits_, Access, Curves)
    known = {field.name for kind in kinds for field in msgspec.structs.fields(kind)}
    assert known - named == {"prices", "limits", "curves", "made_by"}
    limits = Limits_(delay=50.0, load=1.5, load_wanted=1.2, boxes=3)
    assert settings == Settings(limits=limits, curves=Curves(((0.0, 0.0), (10.0, 5.0), (100.0, 20.0))))
