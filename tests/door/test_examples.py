"""The README's ten lines, the pages' examples, the notebook, and a planner that is installed: all of them run."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest

from .examples import ten_lines

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
README = (ROOT / "README.md").read_text()
EXAMPLE = ROOT / "examples" / "hub"
PAGES = ("python.md", "planners.md")
NOTEBOOK = "tour.ipynb"
HURRIED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # Java lives too short to gain by compiling well


def environment(*folders: Path) -> dict[str, str]:
    """That of a process which finds these folders, and draws on no screen."""
    quiet = {"MPLBACKEND": "Agg", "IPYTHONDIR": tempfile.gettempdir(), "JAVA_TOOL_OPTIONS": HURRIED}
    return os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*folders, ROOT / "src"))), **quiet}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the example planner."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--target", str(folder), str(EXAMPLE)], check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="module")
def printed(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What all examples print, the last of them a comparison with the planner that is installed."""
    folder = tmp_path_factory.mktemp("examples")
    make = [sys.executable, "-m", "overstory.cli", "scenario", "make", "localized", "net", "--brokers", "12"]
    some = ["--keywords", "5", "--events", "50"]
    env = environment(installed)
    subprocess.run([*make, *some], cwd=folder, env=env, check=True, capture_output=True)
    pages = [str(ROOT / "README.md"), *(str(ROOT / "docs" / page) for page in PAGES)]
    pages.append(str(ROOT / "examples" / NOTEBOOK))
    command = [sys.executable, str(HERE / "examples.py"), *pages, "--", "compare", "net", "--planners", "hub,spt"]
    found = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert (folder / "my-plan" / "plan.json").exists()
    assert (folder / "compare.html").stat().st_size > 10_000
    return found.stdout


def test_the_ten_lines_print_what_the_readme_says(printed: str) -> None:
    (shown,) = re.findall(r"```text\n(.*?)```", README, re.DOTALL)
    assert printed.startswith(shown)
    assert len([line for line in ten_lines(README).splitlines() if line]) <= 10


def test_the_examples_of_the_pages_hold(printed: str) -> None:
    for page in PAGES:
        assert f"# {page}: 0 failed\n" in printed, printed


def test_an_installed_planner_is_compared(printed: str) -> None:
    rows = printed.rpartition("planner ")[2].splitlines()[2:4]
    assert sorted(row.split()[0] for row in rows) == ["hub", "spt"]


def test_an_installed_planner_is_in_the_help(installed: Path) -> None:
    command = [sys.executable, "-m", "overstory.cli", "plan", "--help"]
    shown = subprocess.run(command, env=environment(installed), capture_output=True, text=True, check=True).stdout
    words = " ".join(shown.split())
    about = "hub (installed) One tree of cheapest paths around the broker with most subscriptions."
    assert f"{about} guarantee: the cheapest path between the hub and every broker" in words


def test_the_example_has_twenty_lines_and_stands_on_the_page() -> None:
    lines = (EXAMPLE / "hub.py").read_text().splitlines()
    assert len([line for line in lines if line.strip()]) <= 20
    page = (ROOT / "docs" / "planners.md").read_text()
    for line in lines[lines.index("def hub(scenario, steps, tables, parameters, seed):") + 1 :]:
        assert line.replace(", strict=True", "").strip() in page


def test_the_notebook_runs(printed: str) -> None:
    """And it is kept without what it shows, which is made anew."""
    notebook = nbformat.read(ROOT / "examples" / NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    assert not any(cell.get("outputs") for cell in notebook.cells)
    assert len([cell for cell in notebook.cells if cell.cell_type == "code"]) > 5
    assert f"# {NOTEBOOK}: 0 failed\n" in printed
    assert re.search(r"^tree-search saves [\d.]+% of the cost of one tree$", printed, re.MULTILINE)
