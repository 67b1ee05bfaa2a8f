"""SteinLib's files: what is read from them, what is wrong with them in one line, and how close we come."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest

from overstory.cli import main
from overstory.errors import DataError, UsageError
from overstory.lab.experiments import EXPERIMENTS, run_experiment
from overstory.lab.steinlib import read_optima, solve
from overstory.lab.stp import read_stp

STEINLIB = Path(__file__).parents[3] / "shared" / "data" / "steinlib"
FILE = """33D32945 STP File, STP Format Version 1.0

SECTION Comment
Name "A square with a way across"
T 99
END

SECTION Graph
Nodes 5
Edges 6
E 1 2 3
E 2 3 3
E 3 4 3
E 4 1 3
E 1 5 2
E 3 5 2.5
E 5 5 1
END

SECTION Terminals
Terminals 2
T 1
T 3
END

EOF
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "square.stp").write_text(FILE)
    return tmp_path


def test_a_file_is_read(folder: Path) -> None:
    problem = read_stp(folder / "square.stp")
    assert (problem.name, problem.nodes, problem.edges, problem.terminals) == ("square", 5, 7, [0, 2])
    assert len(problem.network().targets) == 12
    assert solve(folder, problem, 4, 4) == (4.5, 4.5)


def test_arcs_lead_one_way(folder: Path) -> None:
    text = FILE.replace("E 1 5", "A 1 5").replace("E 3 5", "A 3 5").replace("T 1\n", "Root 1\nT 1\n")
    (folder / "square.stp").write_text(text.lower())
    problem = read_stp(folder / "square.stp")
    assert problem.root == 0
    assert solve(folder, problem, 4, 4) == (6, 6)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("33D32945 ", "", 1, "33D32945"),
        ("E 2 3 3", "E 2 6 3", 12, "no node 6"),
        ("E 2 3 3", "E 2 0 3", 12, "no node 0"),
        ("E 2 3 3", "E 2 3", 12, "'E 2 3' cannot be read"),
        ("E 2 3 3", "E 2 3 cheap", 12, "cannot be read"),
        ("E 2 3 3", "E 2 3 -1", 12, "-1"),
        ("E 2 3 3", "E 2 3 nan", 12, "nan"),
        ("Nodes 5", "Nodes", 9, "cannot be read"),
        ("T 3", "T x", 23, "cannot be read"),
        ("T 1\nT 3\n", "", 24, "without a terminal"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(folder: Path, old: str, new: str, line: int, words: str) -> None:
    path = folder / "square.stp"
    path.write_text(FILE.replace(old, new, 1))
    with pytest.raises(DataError) as raised:
        read_stp(path)
    assert str(raised.value).startswith(f"{path} line {line}: ")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_no_way_to_a_terminal(folder: Path) -> None:
    (folder / "square.stp").write_text(FILE.replace("Nodes 5", "Nodes 6").replace("T 3", "T 6"))
    with pytest.raises(DataError, match="no way from node 1"):
        run_experiment("steinlib", {"dir": str(folder)})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "--set dir="),
        ({"dir": "nowhere"}, "no .stp files"),
        ({"dir": ".", "color": 1}, "no parameter 'color'"),
        ({"dir": ".", "starts": 0}, "starts=0"),
    ],
)
def test_wrong_parameters(given: dict[str, str | int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run_experiment("steinlib", dict(given))
    with pytest.raises(UsageError, match="there are steinlib"):
        run_experiment("nothing", {})


def test_optima(folder: Path) -> None:
    assert read_optima(folder) == {}
    (folder / "optima.csv").write_text(f"group,filename,opt\n{folder.name},square.stp,4.5\n")
    result = run_experiment("steinlib", {"dir": str(folder)})
    assert result.rows[0][:8] == ("square", 5, 7, 2, 4.5, 4.5, 4.5, 1.0)
    assert result.totals == {"mean_ratio": 1.0, "mean_cost_to_bound": 1.0}
    (folder / "optima.csv").write_text(f"group,filename,opt\n{folder.name},square.stp,low\n")
    with pytest.raises(DataError, match=r"optima\.csv line 2: the optimum 'low'"):
        read_optima(folder)
    (folder / "optima.csv").write_text("name,opt\n")
    with pytest.raises(DataError, match="line 1"):
        read_optima(folder)


def printed(*arguments: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main(arguments) == 0
    return out.getvalue()


def test_commands(folder: Path) -> None:
    assert all(name in printed("lab", "list") for name in EXPERIMENTS)
    listed = json.loads(printed("lab", "list", "--json"))["experiments"]
    assert [each["name"] for each in listed] == list(EXPERIMENTS)
    table = printed("lab", "run", "steinlib", "--set", f"dir={folder}")
    assert "square" in table
    assert "mean cost to bound: 1.0000" in table
    found = json.loads(printed("lab", "run", "steinlib", "--set", f"dir={folder}", "--json"))
    assert found["format_version"] == 1
    assert (found["mean_ratio"], found["rows"][0]["cost"], found["rows"][0]["optimum"]) == (None, 4.5, None)


@pytest.mark.skipif(not STEINLIB.exists(), reason="SteinLib is not beside the project")
@pytest.mark.parametrize("series", ["B", "C"])
def test_two_per_cent_above_the_optimum(series: str) -> None:
    result = run_experiment("steinlib", {"dir": str(STEINLIB / series)})
    assert len(result.rows) >= 18
    assert 1 <= float(str(result.totals["mean_ratio"])) < 1.02
    for _, _, _, _, cost, bound, optimum, ratio, _ in result.rows:
        assert bound is not None
        assert np.all(np.diff([float(bound), float(str(optimum)), float(str(cost))]) >= 0)
        assert ratio is not None
