"""The journey of an experiment, by the commands that a user types: listed, run on Spark, gone on with, reported."""

import json
from pathlib import Path

import pytest

from overstory.lab.claims import CLAIMS
from overstory.lab.experiments import EXPERIMENTS

from .test_scenario import overstory

RUN = "lab run trees-cost --quick --only brokers=80 --only seed=1 --only data=Localized1".split()


def test_experiments_are_listed(tmp_path: Path) -> None:
    listed = overstory(tmp_path, "lab", "list", "--json").json()["experiments"]
    assert [each["name"] for each in listed] == list(EXPERIMENTS)
    assert {"name", "paper", "figure", "summary", "parameters", "claims"} <= listed[0].keys()
    shown = overstory(tmp_path, "lab", "list").out
    assert all(name in shown for name in EXPERIMENTS)


def test_run_and_report(tmp_path: Path) -> None:
    first = overstory(tmp_path, *RUN, "--master", "local[2]", "--json")
    assert first.code == 0, first.err
    found = first.json()
    assert (found["cells"], found["computed"], found["failed"]) == (10, 10, [])
    cost = {row["planner"]: row["cost_fit"] for row in found["rows"]}
    assert min(cost, key=lambda planner: cost[planner]) == "opt"
    again = overstory(tmp_path, *RUN)
    assert "10 cells, 0 of them computed now" in again.out
    report = overstory(tmp_path, "lab", "report", "page.html", "--json").json()
    assert len(report["claims"]) == len(CLAIMS)
    assert report["experiments"] == [{"name": "trees-cost", "cells": 10, "there": 10, "failed": 0, "stale": 0}]
    assert "<svg" in (tmp_path / "page.html").read_text()


def test_a_folder_of_problems(tmp_path: Path) -> None:
    (tmp_path / "square.stp").write_text(
        "33D32945 STP File, STP Format Version 1.0\nSECTION Graph\nNodes 3\nEdges 3\nE 1 2 1\nE 2 3 1\nE 1 3 5\nEND\n"
        "SECTION Terminals\nTerminals 2\nT 1\nT 3\nEND\nEOF\n"
    )
    (tmp_path / "broken.stp").write_text("33D32945 STP File, STP Format Version 1.0\nSECTION Graph\nNodes none\n")
    result = overstory(tmp_path, "lab", "run", "steinlib", "--set", "dir=.", "--json", "--master", "local[2]")
    assert result.code == 1
    found = result.json()
    assert {(row["name"], row["cost"], row["bound"], row["optimum"]) for row in found["rows"]} == {
        ("square", 2.0, 2.0, None)
    }
    assert found["failed"]
    assert all("broken.stp line 3" in failed["failure"] for failed in found["failed"])
    page = overstory(tmp_path, "lab", "report")
    assert page.code == 0, page.err
    assert "A cell failed" in (tmp_path / "overstory-lab" / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("lab run nothing", "there is no experiment 'nothing'; there are trees-sampling"),
        ("lab run steinlib", "must be told 'dir': --set dir=…"),
        ("lab report --store none", "there is no store none; first run"),
        ("lab run trees-cost --only color=1", "no setting 'color'"),
    ],
)
def test_mistakes_are_told_in_a_line(tmp_path: Path, arguments: str, words: str) -> None:
    result = overstory(tmp_path, *arguments.split())
    assert result.code == 64
    assert words in result.err
    assert result.err.count("\n") == 1
    assert json.dumps(result.out) == '""'
