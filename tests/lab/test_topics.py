"""The workload of topics is what it says; its history leads to it; and the experiments give what claims ask for."""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from overstory import cli
from overstory.cli import clusters
from overstory.errors import UsageError
from overstory.lab.claims import CLAIMS
from overstory.lab.experiments import EXPERIMENTS
from overstory.lab.topic_packages import drawn_index, package_demand, watched
from overstory.lab.topics import MODELS, Topics, draw_rates, draw_workload, make_topics
from overstory.lab.topics_calibration import static
from overstory.model.plan import Header, Plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.history import problems_of_changes, timeline_of
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.planners.topics.adapting import MEMORY, Adapting
from overstory.planners.topics.clustering import alone, covered, overall
from overstory.planners.topics.costs import linear
from overstory.planners.topics.demand import asked_in
from overstory.planners.topics.history import changes_in
from overstory.planners.topics.reading import clustering_in
from overstory.planners.topics.replaying import ADD, DROP, RATE

SMALL = Topics(users=60, topics=24, natural_clusters=3, interests=9, intervals=40, noise=0.1)


@pytest.mark.parametrize("noise", [0.1, 0.25, 0.5])
def test_users_have_as_many_interests_as_they_should(noise: float) -> None:
    work = draw_workload(Topics(noise=noise), 1)
    counts = np.diff(work.demand.offsets)
    assert counts.mean() == pytest.approx(25, abs=0.8)
    wants = work.demand.wants()
    own = np.array([[wants[user, work.block == each].mean() for each in range(10)] for user in range(300)])
    assert np.sort(own, axis=1)[:, -2:].mean() == pytest.approx(1 - noise, abs=0.06)


def test_rates_have_the_shares_of_the_table() -> None:
    for model, bands in MODELS.items():
        rates = draw_rates(model, 1000, np.random.default_rng(1))
        for low, high, share in bands:
            assert np.mean((rates >= low) & (rates <= high)) * 100 == pytest.approx(share, abs=0.2)
    means = {model: draw_rates(model, 20_000, np.random.default_rng(2)).mean() for model in MODELS}
    assert means["average"] == pytest.approx(0.1556, abs=0.003)
    assert means["printed"] == pytest.approx(0.1706, abs=0.003)
    assert means["frequent"] == pytest.approx(0.411, abs=0.006)
    assert means["infrequent"] == pytest.approx(0.040, abs=0.001)


def test_opposed_clusters_have_no_common_users() -> None:
    work = draw_workload(Topics(users=400, noise=0.2, opposed=True), 1)
    wants = work.demand.wants()
    shares = np.stack([wants[:, work.block == each].mean(axis=1) > 0.5 for each in range(10)], axis=1)
    assert not (shares & np.roll(shares, 5, axis=1)).any()


@pytest.mark.parametrize("shift", ["none", "interests", "uniform"])
def test_the_history_leads_to_the_interests(shift: str, tmp_path: Path) -> None:
    what = Topics(**{name: getattr(SMALL, name) for name in SMALL.__struct_fields__ if name != "shift"}, shift=shift)  # type: ignore[arg-type]
    events = make_topics(tmp_path / "s", what, seed=2)
    scenario = read_scenario(tmp_path / "s")
    assert problems_of_changes(scenario) == []
    assert timeline_of(scenario).churn == ()
    assert pq.read_metadata(scenario.events).num_rows == events
    asked = asked_in(scenario, Workbench(scenario))
    changes = changes_in(scenario, asked)
    assert changes is not None
    wants = np.zeros((asked.demand.users, len(asked.demand.rates)), bool)
    for kind, user, topic in zip(*(column.tolist() for column in changes[1:4]), strict=True):
        assert wants[user, topic] == (kind == DROP)
        wants[user, topic] = kind == ADD
    assert (wants == asked.demand.wants()).all()
    assert (np.diff(changes.times) >= 0).all()
    if shift != "none":
        assert (changes.kinds == DROP).any()


def test_rates_shift_to_those_of_the_end() -> None:
    work = draw_workload(Topics(users=30, topics=20, natural_clusters=2, interests=5, shift="rates"), 1)
    assert work.before is not None
    rates = work.before.rates.copy()
    for kind, topic, rate in zip(work.changes.kinds, work.changes.topics, work.changes.rates, strict=True):
        assert kind == RATE
        rates[topic] = rate
    assert rates == pytest.approx(work.demand.rates)
    assert not np.array_equal(rates, work.before.rates)


def test_a_plan_is_read_back_as_the_clusters_that_it_was_made_of(tmp_path: Path) -> None:
    make_topics(tmp_path / "s", SMALL, seed=2)
    scenario = read_scenario(tmp_path / "s")
    bench = Workbench(scenario)
    plan = make_plan("tamara-literal", scenario, bench, {}, seed=1)
    asked = asked_in(scenario, bench)
    found = clustering_in(scenario, plan, asked)
    intervals = scenario.settings.intervals
    counts = np.zeros(len(asked.demand.rates))
    names = {name: at for at, name in enumerate(asked.interests.names)}
    for topic in pq.read_table(scenario.events)["topic"].to_pylist():
        counts[names[topic]] += 1
    exact = asked.demand._replace(rates=counts / intervals)
    assert overall(exact, asked.costs, found).cost * intervals == pytest.approx(bench.score(plan).cost)
    assert found.clusters > 0
    none = clustering_in(scenario, Plan.of(Header("none", ""), {}), asked)
    assert none.clusters == 0


class Here(Workbench):
    """A workbench in the place of Spark."""

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *_: object) -> None: ...


def test_the_operator_sees_clusters_and_a_timeline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*arguments: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            assert cli.main([*arguments]) == 0
        return out.getvalue()

    folder, plan = str(tmp_path / "s"), str(tmp_path / "p")
    options = ["--users", "40", "--topics", "12", "--natural-clusters", "2", "--interests", "6", "--intervals", "20"]
    run("scenario", "make", "topics", folder, *options, "--noise", "0.1", "--seed", "1")
    scenario = read_scenario(Path(folder))
    make_plan("topic-search", scenario, Workbench(scenario), {}, seed=1).write(Path(plan))
    monkeypatch.setattr(clusters, "pipeline_for", lambda _: Here(scenario))
    told = json.loads(run("clusters", folder, plan, "--timeline", "--json"))
    assert told["bound"] <= told["cost"] < told["without"]
    assert told["saved"] == pytest.approx(1 - told["cost"] / told["without"])
    assert {"clients", "topics", "thrown away", "which"} <= told["clusters"][0].keys()
    assert told["timeline"][-1]["without"] == pytest.approx(told["without"], abs=1)
    assert sum(row["paired"] for row in told["timeline"]) > 0
    assert 0 < told["tco-gm"] < told["without"]
    assert sorted(row["client"] for row in told["clients"]) == np.unique(scenario.subscriptions["client"]).tolist()
    copies = sum(row["events"] for row in told["clients"])
    thrown = [row["thrown away"] for row in told["clients"]]
    assert thrown == sorted(thrown, reverse=True)
    assert copies - sum(thrown) == pytest.approx(_wanted(scenario), abs=0.1)
    words = run("clusters", folder, plan)
    assert "less than without clusters" in words
    assert "who throws most away" in words
    for wrong in (["--own", "t00"], ["--own", "t00=0"], ["--own", "elsewhere=60"], ["--interval", "0"]):
        assert cli.main(["clusters", folder, plan, *wrong]) == 64


def _wanted(scenario: Scenario) -> float:
    """Events in an interval, of those whom someone wants, times who does."""
    asked = asked_in(scenario, Workbench(scenario))
    return float(np.sum(asked.demand.rates[asked.demand.topics]))


def test_rates_that_a_log_tells_change_clusters(tmp_path: Path) -> None:
    """Every topic falls silent but one, which the clusters then let go."""
    make_topics(tmp_path / "s", SMALL, seed=2)
    scenario = read_scenario(tmp_path / "s")
    asked = asked_in(scenario, Workbench(scenario))
    found = covered(asked.demand, asked.costs, [list(range(8)), list(range(8, 16))])
    adapting = Adapting(asked, found, seed=1)
    names = asked.interests.names
    quiet = pa.table({"topic": [names[0]], "window": [0], "bytes": [0]})
    loud = pa.table({"topic": [names[0], "unheard"] * 900, "window": range(1, 1801), "bytes": [40] * 1800})
    assert adapting.take(quiet)[0] == 0
    changed, done = adapting.take(loud)
    assert changed == len({0, *np.flatnonzero(asked.demand.rates).tolist()})
    assert adapting.intervals == pytest.approx(1801)
    halves = Adapting(asked, found, seed=1, seconds=360.0, own={names[0]: 180.0})
    halves.take(loud.filter(pc.equal(loud["topic"], names[0])))
    assert halves.intervals == pytest.approx(1799 / 2)
    assert adapting.known[0] == pytest.approx(20 * 1800 / (1800 + MEMORY), rel=0.02)  # events of every other window
    assert halves.known[0] == pytest.approx(40 * 899.5 / (899.5 + MEMORY), rel=0.02)
    assert done.updates["removed"] + done.updates["destroyed"] > 0
    assert not adapting.state.inside[:, 0].any()
    assert done.timeline.costs[-1].cost <= done.timeline.scribe[-1] + 1e-9


@pytest.mark.parametrize("name", [name for name in EXPERIMENTS if name.startswith("topics-")])
def test_every_claim_has_its_measure(name: str) -> None:
    """On the quick cells of one seed, each measure that a claim names gives a number."""
    experiment = EXPERIMENTS[name]
    sizes = {
        "topics-packages": {"users": 60, "packages": 60, "looks": 8},
        "topics-sizes": {},
        "topics-nats": {"subscribers": 12, "topics": 12},
    }
    small = sizes.get(name, {"users": 60, "topics": 24})
    cells = [cell | small for cell in experiment.cells(experiment.parameters, True)]
    rows = [row for cell in cells for row in experiment.run(cell)]
    for claim in CLAIMS:
        if claim.experiment == name:
            for measure in (claim.measure, *claim.others.values()):
                assert list(experiment.measures[measure](rows)), measure
    for measured in experiment.measures.values():
        assert isinstance(measured(rows), dict)
    assert all(line.x for figure in experiment.figures(rows) for line in figure.lines)


def test_packages_come_with_what_they_depend_on(tmp_path: Path) -> None:
    index = drawn_index(50, np.random.default_rng(1))
    for package in range(50):
        installed = index.installed(package)
        assert package in installed
        assert set(index.depends.get(package, ())) <= installed
    demand = package_demand("drawn", "", 20, 50, 24.0, 1)
    assert demand.users == 20
    assert (np.diff(demand.offsets) > 0).all()
    with pytest.raises(UsageError, match="give the folder with the data"):
        watched(tmp_path, 3)


def test_static_clusters_never_change() -> None:
    work = draw_workload(SMALL, 3)
    blocks = [np.flatnonzero(work.block == each).tolist() for each in range(3)]
    costs = linear(SMALL.users, SMALL.topics)
    assert static(work.demand, [], work.changes).cost == pytest.approx(
        overall(work.demand, costs, alone(work.demand)).cost
    )
    assert static(work.demand, blocks, work.changes).cost < overall(work.demand, costs, alone(work.demand)).cost
