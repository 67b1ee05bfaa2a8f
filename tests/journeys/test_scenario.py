"""The journey of a scenario, by the commands that a user types: made, shown, planned, scored, compared."""

import contextlib
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory.cli import main

MAKE = "scenario make localized net --brokers 30 --keywords 40 --events 2000 --locality 0.2 --seed 1".split()


class Result(NamedTuple):
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


def overstory(folder: Path, *arguments: str) -> Result:
    """The command, run in this process: Java then starts only once."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    return Result(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a scenario, and two plans for it. It stays, as Java may have been started in it, and works from there."""
    place = tmp_path_factory.mktemp("journey")
    assert overstory(place, *MAKE).code == 0
    for planner in ("spt", "mst"):
        made = overstory(place, "plan", "net", "--planner", planner, "-o", planner, "--json", "--seed", "3")
        assert made.code == 0, made.err
    return place


def test_the_same_seed_makes_the_same_scenario_and_plan(folder: Path, tmp_path: Path) -> None:
    assert overstory(tmp_path, *MAKE).code == 0
    again = overstory(tmp_path, "plan", "net", "--planner", "spt", "-o", "spt", "--seed", "3")
    assert again.code == 0, again.err
    for name in ("net", "spt"):
        files, others = (sorted(path.name for path in (place / name).iterdir()) for place in (folder, tmp_path))
        files, others = ([file for file in each if file != ".cache"] for each in (files, others))
        assert files == others
        for file in files:
            assert (folder / name / file).read_bytes() == (tmp_path / name / file).read_bytes(), file


def test_compare_prints_what_programs_expect(folder: Path) -> None:
    result = overstory(folder, "compare", "net", "--planners", "spt,mst", "--json", "--report", "page.html")
    assert result.code == 0, result.err
    found = result.json()
    assert found["format_version"] == 1
    assert {plan["planner"] for plan in found["plans"]} == {"spt", "mst"}
    for plan in found["plans"]:
        assert plan["lower_bound"] <= plan["cost"] <= plan["flood"]
        assert plan["gap"] == pytest.approx(plan["cost"] / plan["lower_bound"] - 1)
        assert plan["cost_fit"] + plan["cost_held_out"] < plan["cost"]
        assert plan["events"] == 2000
        assert plan["seconds"] > 0
    held_out = [plan["cost_held_out"] for plan in found["plans"]]
    assert held_out == sorted(held_out)
    shown = json.loads((folder / "page.html").read_text().partition('id="data">')[2].partition("</script>")[0])
    assert {plan["name"] for plan in shown["plans"]} == {"spt", "mst"}
    subscriptions = pq.read_metadata(folder / "net" / "subscriptions.parquet").num_rows
    assert [tree["members"] for plan in shown["plans"] for tree in plan["trees"]] == [subscriptions] * 2


def test_what_plans_share_is_said_once_and_not_in_their_seconds(folder: Path) -> None:
    result = overstory(folder, "compare", "net", "--planners", "spt,mst,opt", "--no-cache")
    assert result.code == 0, result.err
    header, _, *rows, last = result.out.splitlines()
    assert header.split()[-1] == "seconds"
    assert all(f" {name} " in header for name in ("bound", "core gap", "bounded"))
    assert any(row.startswith("opt (reference) ") for row in rows)
    steps = ("starting Spark", "checking events", "matching events", "bounding the least traffic")
    assert last.startswith("once for all plans: ")
    assert all(last.count(step) == 1 for step in steps[1:])  # Spark may have been started by another test
    told = [line.removesuffix(" …") for line in result.err.splitlines()]
    assert told.index("matching events") < told.index("counting traffic") < told.index("bounding the least traffic")
    assert "planning with mst" in told


def test_the_second_compare_does_not_match_again(folder: Path) -> None:
    compare = ("compare", "net", "--planners", "spt,mst", "--json")
    _, second, without = (overstory(folder, *compare, *options) for options in ((), (), ("--no-cache",)))
    told = [line.removesuffix(" …") for line in second.err.splitlines()]
    work = {"checking events", "matching events", "bounding the least traffic", "counting matches"}
    assert not work & set(told)
    assert work <= {line.removesuffix(" …") for line in without.err.splitlines()}
    for result in (found := [second.json(), without.json()]):
        del result["set_up"]
        for plan in result["plans"]:
            del plan["seconds"]
    assert found[0] == found[1]


def test_score_lists_the_traffic_of_each_directed_link(folder: Path) -> None:
    found = overstory(folder, "score", "net", "spt", "--json").json()
    links = found["links"]
    assert len(links) == pq.read_metadata(folder / "net" / "links.parquet").num_rows
    assert sum(link["bytes"] for link in links) == found["core_bytes"]
    assert sum(link["frames"] for link in links) == found["frames"]
    assert sum(link["bytes"] * link["price"] for link in links) == pytest.approx(found["core"])
    printed = overstory(folder, "score", "net", "spt", "--links").out
    head, _, first, *_ = printed.partition("\n\n")[2].splitlines()
    assert head.split() == ["source", "target", "price", "frames", "bytes"]
    dearest = max(links, key=lambda link: link["bytes"] * link["price"])
    assert first.split()[-1] == f"{dearest['bytes']:,}"
    assert "directed links carry nothing" in printed
    assert "directed links" not in overstory(folder, "score", "net", "spt").out


def test_little_effort_says_what_the_bound_is_worth(folder: Path) -> None:
    """What is scaled up from a sample is never called a bound."""
    result = overstory(folder, "compare", "net", "--planners", "spt", "--bound-effort", "3000")
    assert "of the log and distance the rest, so the bound is weak" in result.out
    assert "an estimate and no bound" in result.out
    (plan,) = overstory(folder, "compare", "net", "--planners", "spt", "--bound-effort", "3000", "--json").json()[
        "plans"
    ]
    (best,) = overstory(folder, "compare", "net", "--planners", "spt", "--json").json()["plans"]
    assert 0 < plan["bounded"] < best["bounded"] == 1
    assert plan["lower_bound"] < best["lower_bound"] <= best["core"]
    assert plan["lower_bound_estimate"] > plan["lower_bound"]
    assert best["lower_bound_estimate"] is None


def test_a_plan_predicts_its_score(folder: Path) -> None:
    result = overstory(folder, "score", "net", "spt", "--json")
    assert result.code == 0, result.err
    header = json.loads((folder / "spt" / "plan.json").read_text())
    assert result.json()["cost"] == header["predicted"]["cost"]
    assert "seconds" not in header["predicted"]


def test_show_explain_and_diff(folder: Path) -> None:
    shown = overstory(folder, "scenario", "show", "net", "--json").json()
    assert (shown["brokers"], shown["events"], shown["attributes"]) == (30, 2000, {"keywords": "list<element: string>"})
    explained = overstory(folder, "explain", "spt", "--json").json()
    assert (explained["planner"], explained["flows"], explained["tree links"]) == ("spt", 1, 29)
    changes = overstory(folder, "diff", "spt", "mst", "--json").json()["changes"]
    assert changes["clients moved"] == 0
    assert changes["tree links in both"] + changes["tree links only in the first"] == 29


def test_the_demo_tells_the_whole_story(tmp_path: Path) -> None:
    result = overstory(tmp_path, "demo", "--events", "3000")
    assert result.code == 0, result.err
    assert re.search(r"tree-search saves \d+\.\d% of the cost of a copy to each\s+broker", result.out)
    assert "certified" in result.out
    (page,) = re.findall(r"drawn: (\S+)", result.out)
    assert (tmp_path / page).read_text().startswith("<!")
    folder = tmp_path / "overstory-demo"
    assert overstory(folder, "score", "scenario", "tree-search").code == 0
    assert overstory(tmp_path, "demo", "--folder", ".").code == 64


# Bad input: one line each that says whose fault and what next, the exit code as documented, nothing half-written


def assert_fails(result: Result, code: int, *words: str) -> None:
    assert result.code == code, result.err
    assert "Traceback" not in result.err
    told = result.err + result.out
    for word in words:
        assert word in told, told


def broken(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder / "net", tmp_path / "net"))


def test_a_corrupt_and_a_missing_table_are_told_at_once(folder: Path, tmp_path: Path) -> None:
    net = broken(folder, tmp_path)
    (net / "links.parquet").write_bytes(b"PAR1 nonsense PAR1")
    (net / "clients.parquet").unlink()
    result = overstory(tmp_path, "scenario", "show", "net")
    assert_fails(
        result, 1, "links: links.parquet is not a Parquet file", "clients: the file clients.parquet is missing"
    )
    assert len(result.err.strip().splitlines()) == 3


def test_a_filter_that_does_not_parse_is_named_by_its_row(folder: Path, tmp_path: Path) -> None:
    net = broken(folder, tmp_path)
    rows = pq.read_table(net / "subscriptions.parquet").to_pylist()
    rows[230]["filter"] = "price >"
    pq.write_table(pa.Table.from_pylist(rows), net / "subscriptions.parquet")
    assert_fails(overstory(tmp_path, "scenario", "show", "net"), 1, "subscriptions row 231 column filter", "price >")


def test_a_corrupt_log_fails_in_one_line(folder: Path, tmp_path: Path) -> None:
    net = broken(folder, tmp_path)
    data = bytearray((net / "events.parquet").read_bytes())
    data[8:4000] = bytes(3992)
    (net / "events.parquet").write_bytes(data)
    result = overstory(tmp_path, "compare", "net", "--planners", "spt")
    assert_fails(result, 1, "events")
    assert not list(tmp_path.glob("*.html"))


def test_a_plan_for_another_scenario_is_stale(folder: Path, tmp_path: Path) -> None:
    net = broken(folder, tmp_path)
    rows = pq.read_table(net / "subscriptions.parquet").slice(0, 100)
    pq.write_table(rows, net / "subscriptions.parquet")
    shutil.copytree(folder / "spt", tmp_path / "spt")
    assert_fails(overstory(tmp_path, "score", "net", "spt"), 3, "not made for the scenario", "plan again")


def test_a_plan_that_breaks_the_law_is_refused(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder / "net", tmp_path / "net")
    plan = Path(shutil.copytree(folder / "spt", tmp_path / "spt"))
    pq.write_table(pq.read_table(plan / "trees.parquet").slice(0, 20), plan / "trees.parquet")
    assert_fails(overstory(tmp_path, "score", "net", "spt"), 1, "breaks the law", "trees")


def test_a_limit_that_no_plan_meets_is_infeasible(folder: Path, tmp_path: Path) -> None:
    net = broken(folder, tmp_path)
    text = (net / "scenario.toml").read_text()
    (net / "scenario.toml").write_text(text.replace("[limits]", "[limits]\ndelay = 0.5"))
    result = overstory(tmp_path, "plan", "net", "--planner", "spt", "-o", "spt")
    assert_fails(result, 4, "exceeds a limit", "delay")
    assert not (tmp_path / "spt").exists()


def test_without_java_the_error_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    result = overstory(folder, "compare", "net", "--planners", "spt", "--no-cache")
    assert_fails(result, 1, "Java", "install")
    *steps, last, _ = result.err.strip().splitlines()
    assert last.startswith("starting Spark")
    assert not any(step.startswith("starting Spark") for step in steps)
    assert overstory(folder, "compare", "net", "--planners", "spt", "--json", "--no-cache").code == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["compare", "net", "--planners", "best"], ["no planner 'best'", "spt"]),
        (["compare", "net", "--planners", "spt", "--set", "root"], ["key=value"]),
        (["plan", "net", "--planner", "mst", "-o", "x", "--set", "depth=3"], ["no parameter 'depth'"]),
        (["plan", "net", "--planner", "mst", "-o", "spt"], ["exists already"]),
        (["scenario", "make", "random", "x"], ["localized"]),
        (["scenario", "make", "localized", "x", "--topology", "zoo:Nowhere"], ["Nowhere"]),
        (["scenario", "make", "localized", "net"], ["exists already"]),
        (["scenario", "make", "localized", "x", "--locality", "7"], ["locality"]),
    ],
)
def test_wrong_usage_is_told_in_one_line(folder: Path, arguments: list[str], words: list[str]) -> None:
    before = sorted(folder.iterdir())
    assert_fails(overstory(folder, *arguments), 64, *words)
    assert sorted(folder.iterdir()) == before


def test_a_folder_that_is_not_there(folder: Path) -> None:
    assert_fails(overstory(folder, "scenario", "show", "nowhere"), 1, "no such folder")
    assert_fails(overstory(folder, "explain", "nowhere"), 1, "no such folder")
