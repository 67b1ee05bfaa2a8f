"""Python's door: thin, lazy, and with the words of the command line. Nothing here starts Spark."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import networkx as nx
import numpy as np
import pytest
from matplotlib import pyplot

import overstory as ov
from overstory import cli
from overstory.cli.engine import Scored
from overstory.door import engine as engines
from overstory.door.comparing import Comparison
from overstory.door.planning import Plan
from overstory.errors import DataError, EngineError, OverstoryError, StalePlanError, UsageError
from overstory.model.plan import Header
from overstory.model.plan import Plan as PlanTables
from overstory.model.scorecard import Traffic
from overstory.planners import defaults
from overstory.studio.views import PlanView

from ..studio.test_report import SCORE

mpl.use("Agg")
LOADED = "import sys, json, time; began = time.process_time(); import {}; took = time.process_time() - began\n"
LOADED += "print(json.dumps([took, sorted(name for name in sys.modules)]))"


def loaded(module: str) -> tuple[float, list[str]]:
    """The seconds of computing that an import takes in a Python of its own, and the modules that are there then."""
    found = subprocess.run([sys.executable, "-c", LOADED.format(module)], capture_output=True, text=True, check=True)
    took, names = json.loads(found.stdout)
    return took, names


def test_the_door_is_lazy() -> None:
    took, names = loaded("overstory")
    assert [name for name in names if name.startswith("overstory")] == ["overstory"]
    assert not {"numpy", "pandas", "pyspark", "numba", "matplotlib", "msgspec"} & set(names)
    assert took < 0.2
    assert not [name for name in loaded("overstory.filters")[1] if name.startswith(("overstory.door", "pandas"))]


@pytest.fixture
def scenario() -> ov.Scenario:
    return ov.localized(brokers=12, keywords=10, events=20, seed=3)


def made(scenario: ov.Scenario) -> Plan:
    """One tree for everything, without any pipeline."""
    tables = defaults.tables(scenario.model)
    return Plan(scenario.model, PlanTables.of(Header("hand", scenario.fingerprint), tables), "of hand")


def same_words(call: Callable[[], object], kind: type[OverstoryError], command: list[str], capsys: Any) -> None:
    """A call raises an error that says just what the command line prints."""
    with pytest.raises(kind) as caught:
        call()
    assert cli.main(command) != 0
    printed = capsys.readouterr().err.splitlines()
    assert f"overstory: {caught.value}" in printed


def test_an_unknown_planner_is_refused_in_the_same_words(scenario: ov.Scenario, capsys: Any) -> None:
    folder = str(scenario.folder)
    same_words(
        lambda: scenario.plan("tre-search"),
        UsageError,
        ["plan", folder, "--planner", "tre-search", "-o", f"{folder}-plan"],
        capsys,
    )
    same_words(lambda: ov.compare(scenario, ["best"]), UsageError, ["compare", folder, "--planners", "best"], capsys)
    same_words(
        lambda: scenario.plan("spt", trees=3),
        UsageError,
        ["plan", folder, "--planner", "spt", "-o", f"{folder}-plan", "--set", "trees=3"],
        capsys,
    )
    same_words(lambda: ov.compare(scenario, []), UsageError, ["compare", folder, "--planners", ","], capsys)


def test_numbers_are_refused_before_the_work(scenario: ov.Scenario, capsys: Any) -> None:
    folder = str(scenario.folder)
    calls: list[tuple[Callable[[], object], list[str]]] = [
        (lambda: scenario.plan("spt", seed=-1), ["plan", folder, "--planner", "spt", "-o", "p", "--seed=-1"]),
        (lambda: ov.compare(scenario, ["spt"], seed=-1), ["compare", folder, "--planners", "spt", "--seed=-1"]),
        (
            lambda: ov.compare(scenario, ["spt"], bound_effort=-1),
            ["compare", folder, "--planners", "spt", "--bound-effort=-1"],
        ),
        (lambda: made(scenario).score(bound_effort=-1), ["score", folder, "plan", "--bound-effort=-1"]),
    ]
    for call, command in calls:
        with pytest.raises(UsageError) as caught:
            call()
        assert cli.main(command) == cli.USAGE
        assert str(caught.value).partition(": ")[2] in capsys.readouterr().err
    with pytest.raises(UsageError, match=r"a str is no scenario; give one of ov\.read_scenario\(folder\)"):
        ov.compare(folder, ["spt"])  # type: ignore[arg-type]


def test_scenarios_of_any_kind_are_made(tmp_path: Path, capsys: Any) -> None:
    """With the options of the command line: the same folder, the same notes, the same words where they are wrong."""
    options = ["--users", "30", "--topics", "8", "--natural-clusters", "2", "--opposed", "--seed", "3"]
    assert cli.main(["scenario", "make", "topics", str(tmp_path / "theirs"), *options]) == 0
    ours = ov.make_scenario("topics", users=30, topics=8, natural_clusters=2, opposed=True, seed=3)
    assert ours.fingerprint == ov.read_scenario(tmp_path / "theirs").fingerprint
    assert ov.make_scenario("overlay-example").notes
    command = ["scenario", "make"]
    for kind, wrong, written in (("topics", {"users": -3}, "--users=-3"), ("topics", {"user": 3}, "--user=3")):
        folder = tmp_path / "wrong"
        words = [*command, kind, str(folder), written]
        same_words(lambda: ov.make_scenario(kind, folder, **wrong), UsageError, words, capsys)  # noqa: B023
    same_words(lambda: ov.make_scenario("topic", "x"), UsageError, [*command, "topic", "x"], capsys)
    with pytest.raises(UsageError, match="'--help' is no kind of scenario"):
        ov.make_scenario("--help")
    with pytest.raises(UsageError, match="there is no option 'help' of a scenario"):
        ov.make_scenario("topics", help=True)


def test_a_plan_of_another_scenario_is_refused_in_the_same_words(scenario: ov.Scenario, capsys: Any) -> None:
    plan = made(scenario)
    folder = scenario.folder.with_name("plan")
    plan._plan.write(folder)
    other = ov.localized(brokers=12, keywords=10, events=20, seed=4)
    assert repr(ov.read_plan(folder, scenario)) == "<plan of hand: 1 flow, 1 with a tree>"
    with pytest.raises(StalePlanError, match=r"the plan of hand was not made for the scenario .* plan again$"):
        plan.score(other)
    with pytest.raises(StalePlanError):
        other.plan("spt", base=plan)
    same_words(lambda: ov.read_plan(folder, other), StalePlanError, ["score", str(other.folder), str(folder)], capsys)


def test_without_java_the_same_words(scenario: ov.Scenario, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    engines._engine.close()
    command = ["compare", str(scenario.folder), "--planners", "spt"]
    same_words(lambda: ov.compare(scenario, ["spt"]), EngineError, command, capsys)


def test_a_scenario_that_is_none_is_refused_in_the_same_words(tmp_path: Path, capsys: Any) -> None:
    same_words(lambda: ov.read_scenario(tmp_path), OverstoryError, ["scenario", "show", str(tmp_path)], capsys)


def test_the_engine_is_shared_and_chosen(scenario: ov.Scenario) -> None:
    shared = engines.pipeline_for(scenario.model)
    assert engines.warm() is shared
    assert (shared.master, shared.caches) == ("local[*]", True)
    with ov.engine(master="local[1]", cache=False):
        inner = engines.warm()
        assert (inner.master, inner.caches) == ("local[1]", False)
        with ov.engine(master="local[1]", cache=False):
            assert engines.warm() is inner
        assert engines.warm() is inner
    assert engines.warm() is not inner
    assert engines.warm().master == "local[*]"


def test_a_folder_that_holds_another_scenario_is_not_mistaken(tmp_path: Path) -> None:
    """The warm pipeline remembers what it has matched by the folder."""
    first = ov.localized(tmp_path / "net", brokers=12, keywords=10, events=20, seed=1)
    before = engines.pipeline_for(first.model)
    assert engines.pipeline_for(ov.read_scenario(tmp_path / "net").model) is before
    (tmp_path / "net").rename(tmp_path / "old")
    second = ov.localized(tmp_path / "net", brokers=12, keywords=10, events=20, seed=2)
    assert engines.pipeline_for(second.model) is not before


def test_networks_and_trees_are_graphs(scenario: ov.Scenario) -> None:
    network = scenario.network.to_networkx()
    assert (len(network), network.number_of_edges()) == (12, 2 * scenario.sizes["links"])
    assert network.edges[next(iter(network.edges))].keys() == {"price", "delay"}
    trees = made(scenario).trees
    assert list(trees) == [0]
    assert nx.is_tree(trees[0].to_networkx())
    rust = trees[0].to_rustworkx()
    assert (rust.num_nodes(), rust.num_edges(), rust.nodes()[3]["id"]) == (12, 11, 3)
    with pytest.raises(KeyError, match="flow 4 has no tree"):
        trees[4]
    with pytest.raises(UsageError, match="flow 4 has no tree"):
        made(scenario).plot(4)


def compared(scenario: ov.Scenario) -> Comparison:
    links = len(scenario.model.network.targets)
    carried = Traffic(np.arange(links), 10 * np.arange(links))
    plan = Scored("hand", made(scenario)._plan, PlanView("hand", 1.0, SCORE, carried))
    none = np.empty(0, np.int64)
    reference = Scored("opt", None, PlanView("opt (reference)", 2.0, SCORE, Traffic(none, none)))
    return Comparison(scenario, [reference, plan], [])


def test_a_comparison_is_a_table(scenario: ov.Scenario) -> None:
    table = compared(scenario)
    head = "planner cost core bound core gap bounded trees duplicates in sample held out"
    assert str(table).splitlines()[0].split() == head.split()
    assert "<table" in table._repr_html_()
    frame = table.to_pandas()
    assert frame.loc["hand", "cost"] == table["hand"].cost == SCORE.cost
    assert frame["reference"].tolist() == [True, False]
    assert table.best.planner == "hand"
    assert table["hand"].links.to_pandas()["bytes"].tolist() == (10 * np.arange(len(table["hand"].links))).tolist()
    assert table["hand"].to_pandas()["gap"] == SCORE.gap
    assert repr(table["hand"]).splitlines()[1].split() == ["cost", "1.23457e+06"]
    assert ("hand" in table, "spt" in table, list(table), len(table)) == (True, False, ["opt", "hand"], 2)
    with pytest.raises(UsageError, match="'flood' was not compared; there are opt, hand"):
        table["flood"]
    for no_plan in (lambda: table["opt"].links, lambda: table.plan("opt")):
        with pytest.raises(UsageError, match="opt is a reference"):
            no_plan()
    with pytest.raises(AttributeError, match="a score has no 'price'; it has cost"):
        _ = table["hand"].price


def test_plans_are_told_in_the_words_of_the_command_line(scenario: ov.Scenario, tmp_path: Path, capsys: Any) -> None:
    table = compared(scenario)
    one, other = table.plan("hand"), table.plan("hand")
    for plan, name in ((one, "one"), (other, "other")):
        plan._score = table["hand"]
        plan.write(tmp_path / name)
    folder = str(scenario.folder)
    assert cli.main(["explain", str(tmp_path / "one"), "--scenario", folder]) == 0
    assert capsys.readouterr().out == f"{one.explain()}\n"
    assert cli.main(["diff", str(tmp_path / "one"), str(tmp_path / "other"), "--scenario", folder]) == 0
    assert capsys.readouterr().out == f"{one.diff(other)}\n"
    with pytest.raises(StalePlanError):
        one.diff(made(ov.localized(brokers=12, keywords=10, events=20, seed=4)))


def test_pictures_are_drawn(scenario: ov.Scenario) -> None:
    table = compared(scenario)
    for drawn in (scenario.plot(), table["hand"].plot(), made(scenario).plot(), table.plot()):
        assert drawn.has_data()
        pyplot.close("all")
    axes = pyplot.subplots()[1]
    assert scenario.plot(axes) is axes
    pyplot.close("all")


def test_a_page_is_written(scenario: ov.Scenario, tmp_path: Path) -> None:
    assert compared(scenario).report(tmp_path / "page.html").stat().st_size > 10_000


def test_a_graph_of_networkx_becomes_a_scenario() -> None:
    graph = nx.Graph()
    graph.add_node("a", pos=(0.0, 0.0), name="Oslo")
    graph.add_node("b", x=1.0, y=2.0)
    graph.add_node("c", x=1.0, y=3.0)
    graph.add_weighted_edges_from([("a", "b", 2.5), ("b", "c", 1.0), ("c", "c", 7.0)])
    scenario = ov.from_networkx(graph, keywords=3, events=5, locality=1.0)
    assert scenario.brokers["name"].tolist() == ["Oslo", "b", "c"]
    assert scenario.brokers["y"].tolist() == [0.0, 2.0, 3.0]
    links = scenario.network.to_pandas()
    assert links["price"].tolist() == [2.5, 2.5, 1.0, 1.0]
    assert links["delay"].tolist() == [1.0] * 4
    assert any("from a node to itself" in note for note in scenario.notes)


def test_directions_have_their_own_prices() -> None:
    graph = nx.DiGraph([("a", "b", {"toll": 1.0}), ("b", "a", {"toll": 4.0})])
    links = ov.from_networkx(graph, price="toll", keywords=3, events=5, locality=1.0).network.to_pandas()
    assert links["price"].tolist() == [1.0, 4.0]


@pytest.mark.parametrize(
    ("graph", "options", "kind", "words"),
    [
        (nx.Graph(), {}, UsageError, "the graph has no nodes"),
        (nx.Graph([("a", "b"), ("c", "d")]), {}, DataError, "the graph is not connected"),
        (nx.Graph([("a", "b", {"weight": -1})]), {}, DataError, "the edge from a to b has the price -1"),
        (nx.Graph([("a", "b")]), {"price": "toll"}, UsageError, "no edge of the graph has an attribute 'toll'"),
        (nx.DiGraph([("a", "b")]), {}, DataError, "the graph is directed, and events have to come back"),
        ({"a": ["b"]}, {}, UsageError, "a dict is no NetworkX graph"),
        (nx.Graph([("a", "b")]), {"keyword": 3}, UsageError, "there is no option 'keyword' .*; near to it: keywords"),
    ],
)
def test_graphs_that_will_not_do(graph: Any, options: dict[str, Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        ov.from_networkx(graph, **options)


def test_options_of_an_import_are_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no option 'publishers' of an import; near to it: publisher"):
        ov.import_log("log.csv", "zoo:Geant2012", tmp_path / "net", publishers="who")
    with pytest.raises(UsageError, match="more than one line"):
        ov.import_log("log.csv", "zoo:Geant2012", tmp_path / "net", subscriptions=["a > 1\nb > 2"])
