"""SteinLib's files: what is read from them, what is wrong with them in one line, and how close we come."""

from pathlib import Path

import numpy as np
import pytest

from overstory.errors import DataError, UsageError
from overstory.kernels.steiner import BEST, EFFORTS, PLAN
from overstory.lab.experiments.steinlib import METHODS, read_optima, solve, totals
from overstory.lab.measuring import number
from overstory.lab.running import run_experiment
from overstory.lab.stp import read_stp

from .engines import Here

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
    assert [solve(folder, problem, method, 4)[:2] for method in METHODS] == [(4.5, 4.5)] * 5


@pytest.mark.parametrize("first", ["", "\ufeff", "\n\n", "STP File\n", "33d32945 stp file\n"])
def test_the_first_line_of_steinlib_may_be_missing(folder: Path, first: str) -> None:
    path = folder / "square.stp"
    expected = read_stp(path)
    path.write_text(first + FILE[FILE.index("SECTION") :], encoding="utf-8")
    assert read_stp(path) == expected


@pytest.mark.parametrize("text", ["", "nodes,edges\n5,6\n", "33D32945 STP File, STP Format Version 1.0\n"])
def test_what_has_no_section_is_no_stp_file(folder: Path, text: str) -> None:
    path = folder / "square.stp"
    path.write_text(text)
    with pytest.raises(DataError) as raised:
        read_stp(path)
    assert str(raised.value) == f"{path} line 1: no SECTION begins here or below, so it is no STP file"


def test_arcs_lead_one_way(folder: Path) -> None:
    text = FILE.replace("E 1 5", "A 1 5").replace("E 3 5", "A 3 5").replace("T 1\n", "Root 1\nT 1\n")
    (folder / "square.stp").write_text(text.lower())
    problem = read_stp(folder / "square.stp")
    assert problem.root == 0
    assert [solve(folder, problem, effort, 4)[:2] for effort in EFFORTS] == [(6, 6)] * 3
    with pytest.raises(DataError, match="lead one way"):
        solve(folder, problem, "kou", 4)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
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
    for method in METHODS:
        with pytest.raises(DataError, match="no way from node 1"):
            solve(path := folder / "square.stp", read_stp(path), method, 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "--set dir="),
        ({"dir": "nowhere"}, "no such folder"),
        ({"dir": ".", "color": 1}, "no parameter 'color'"),
        ({"dir": ".", "roots": 0}, "roots=0"),
        ({"dir": ".", "methods": "plan,luck"}, "methods=plan,luck"),
    ],
)
def test_wrong_parameters(tmp_path: Path, given: dict[str, str | int], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run_experiment("steinlib", dict(given), tmp_path, Here())


def test_optima(folder: Path, tmp_path: Path) -> None:
    assert read_optima(folder) == {}
    (folder / "optima.csv").write_text(f"group,filename,opt\n{folder.name},square.stp,4.5\n")
    rows = run_experiment("steinlib", {"dir": str(folder)}, tmp_path / "store", Here()).rows
    names = ("name", "nodes", "edges", "terminals", "cost", "bound", "optimum", "ratio")
    assert [row["method"] for row in rows] == list(METHODS)
    assert {tuple(row[name] for name in names) for row in rows} == {("square", 5, 7, 2, 4.5, 4.5, 4.5, 1.0)}
    found = totals(rows)
    assert (found["mean_ratio"], found["mean_cost_to_bound"]) == (1, 1)
    for method in METHODS:
        line = str(found[f"{folder.name}, {method}"])
        assert line.startswith("mean 0.000 %, worst 0.00 % above the optimum, ")
        assert line.endswith(" ms, bound 0.000 % below it, 1 instances")
    (folder / "optima.csv").write_text(f"group,filename,opt\n{folder.name},square.stp,low\n")
    with pytest.raises(DataError, match=r"optima\.csv line 2: the optimum 'low'"):
        read_optima(folder)
    (folder / "optima.csv").write_text("name,opt\n")
    with pytest.raises(DataError, match="line 1"):
        read_optima(folder)


@pytest.mark.parametrize("row", ["{},square.stp,5,7,2,,3,5", "{},square.stp,5,7,2, ,3,5", "{},square.stp,5,7,2"])
def test_an_optimum_that_nobody_knows_is_an_empty_cell(folder: Path, tmp_path: Path, row: str) -> None:
    (folder / "round.stp").write_text(FILE)
    lines = ["group,filename,n,m,t,opt,lower,upper", row.format(folder.name), f"{folder.name},round.stp,5,7,2,4.5,4,5"]
    (folder / "optima.csv").write_text("\n".join(lines))
    run = run_experiment("steinlib", {"dir": str(folder)}, tmp_path / "store", Here())
    assert {row["name"]: row["ratio"] for row in run.rows} == {"square": None, "round": 1.0}
    assert (totals(run.rows)["mean_ratio"], totals(run.rows)["mean_cost_to_bound"]) == (1, 1)
    (figure,) = run.experiment.figures(run.rows)
    assert [len(line.x) for line in figure.lines] == [1, 1]


def test_files_of_pace_are_of_the_same_format(folder: Path, tmp_path: Path) -> None:
    """They have no first line, the ending .gr, and in one track a tree decomposition behind the terminals."""
    text = FILE[FILE.index("SECTION Graph") :].replace(
        "EOF", "SECTION Tree Decomposition\ns td 1 5 5\nb 1 1 2\nEND\nEOF"
    )
    (folder / "square.stp").unlink()
    (folder / "instance001.gr").write_text(text)
    rows = run_experiment("steinlib", {"dir": str(folder), "methods": PLAN}, tmp_path / "store", Here()).rows
    assert [(row["name"], row["cost"], row["terminals"]) for row in rows] == [("instance001", 4.5, 2)]
    assert "no optimum is known" in str(totals(rows)[f"{folder.name}, {PLAN}"])


@pytest.mark.skipif(not STEINLIB.exists(), reason="SteinLib is not beside the project")
@pytest.mark.parametrize("series", ["B", "C"])
def test_close_to_the_optimum(series: str, tmp_path: Path) -> None:
    given = {"dir": str(STEINLIB / series), "methods": f"{PLAN},{BEST}"}
    rows = run_experiment("steinlib", given, tmp_path, Here()).rows
    assert len(rows) >= 36
    assert 1 <= number(totals(rows), "mean_ratio") < 1.005
    assert 1 <= number(totals([row for row in rows if row["method"] == BEST]), "mean_ratio") < 1.0015
    for row in rows:
        assert np.all(np.diff([number(row, name) for name in ("bound", "optimum", "cost")]) >= 0)
        assert row["ratio"] is not None
