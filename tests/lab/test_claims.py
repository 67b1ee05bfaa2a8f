"""Claims, registry and documents cannot drift apart; verdicts follow from numbers alone."""

import re
from pathlib import Path

import msgspec
import pytest

from overstory.lab import claims
from overstory.lab.claims import CLAIMS, PAPERS, Claim, Kind, Verdict, judged, kind_of, leaves_open
from overstory.lab.drawing import png_of, svg_of
from overstory.lab.experiment import Figure, Line, Row
from overstory.lab.experiments import EXPERIMENTS
from overstory.lab.experiments.trees_cost import EXPERIMENT as TREES_COST
from overstory.lab.measuring import Estimate, estimate, lines, quotients, relative
from overstory.lab.report import _claim, write_report
from overstory.lab.running import run_experiment
from overstory.lab.stored_runs import stored_runs

from .engines import Here

ABOUT = msgspec.structs.replace(CLAIMS[0], relation="about", number=10.0, tolerance=0.1, better="lower")


def test_claims_name_what_there_is() -> None:
    assert len({claim.name for claim in CLAIMS}) == len(CLAIMS)
    for claim in CLAIMS:
        assert claim.paper in PAPERS
        if claim.experiment in EXPERIMENTS:
            experiment = EXPERIMENTS[claim.experiment]
            assert {claim.measure, *claim.others.values()} <= experiment.measures.keys(), claim.name
            assert experiment.paper in (claim.paper, None)
    assert {claim.paper for claim in CLAIMS} == set(PAPERS)


def test_every_experiment_of_a_paper_is_claimed_by_it() -> None:
    for experiment in EXPERIMENTS.values():
        assert experiment.paper is None or experiment.paper in PAPERS
        if experiment.paper:
            assert any(claim.experiment == experiment.name for claim in CLAIMS), experiment.name


def test_each_experiment_has_cells_and_names_of_its_own() -> None:
    figures = []
    for experiment in EXPERIMENTS.values():
        if None in experiment.parameters.values():
            continue
        quick, full = (list(experiment.cells(experiment.parameters, each)) for each in (True, False))
        assert 0 < len(quick) <= len(full)
        assert quick != full
        assert all("seed" in cell for cell in (*quick, *full))
        figures += [figure.name for figure in experiment.figures([])]
    assert len(set(figures)) == len(figures)


@pytest.mark.parametrize(
    ("claim", "mean", "spread", "kind"),
    [
        (ABOUT, 10.5, 0.1, "reproduced"),
        (ABOUT, 12.0, 0.1, "not reproduced"),
        (ABOUT, 7.0, 0.1, "better"),
        (ABOUT, 8.5, 1.0, "not reproduced"),
        (msgspec.structs.replace(ABOUT, better="neither"), 7.0, 0.1, "not reproduced"),
        (msgspec.structs.replace(ABOUT, better="higher"), 13.0, None, "better"),
        (msgspec.structs.replace(ABOUT, relation="at least", better="neither"), 30.0, None, "reproduced"),
        (msgspec.structs.replace(ABOUT, relation="at least"), 9.1, None, "reproduced"),
        (msgspec.structs.replace(ABOUT, relation="at most", better="neither"), 1.0, None, "reproduced"),
        (msgspec.structs.replace(ABOUT, relation="at most"), 11.5, None, "not reproduced"),
        (msgspec.structs.replace(ABOUT, number=0.0, tolerance=5.0, better="neither"), 4.0, None, "reproduced"),
    ],
)
def test_verdicts(claim: Claim, mean: float, spread: float | None, kind: str) -> None:
    assert kind_of(claim, Estimate(mean, spread, 3)) == kind


@pytest.mark.parametrize(
    ("claim", "mean", "spread", "is_open"),
    [
        (ABOUT, 10.5, 0.1, False),
        (ABOUT, 10.5, 1.0, True),
        (ABOUT, 20.0, 5.0, False),
        (ABOUT, 20.0, 50.0, True),
        (ABOUT, 5.0, 2.0, False),
        (msgspec.structs.replace(ABOUT, relation="at most"), 11.5, 1.0, True),
        (msgspec.structs.replace(ABOUT, relation="at least", better="neither"), 30.0, 15.0, False),
    ],
)
def test_an_interval_may_leave_it_open(claim: Claim, mean: float, spread: float, is_open: bool) -> None:
    assert leaves_open(claim, Estimate(mean, spread, 3)) == is_open


def test_estimates() -> None:
    assert estimate([]) is None
    assert estimate([3.0]) == Estimate(3.0, None, 1)
    found = estimate([1.0, 2.0, 3.0])
    assert found is not None
    assert found.mean == 2.0
    assert found.spread == pytest.approx(4.302652729911275 / 3**0.5)  # Student's t for two degrees of freedom


def test_quotients_and_lines() -> None:
    rows: list[Row] = [
        {"seed": seed, "kind": kind, "size": size, "cost": cost * size * seed}
        for seed in (1, 2)
        for size in (1, 10)
        for kind, cost in (("a", 3.0), ("b", 2.0))
    ]
    assert quotients(rows, "cost", {"kind": "a"}, {"kind": "b"}) == {1: 1.5, 2: 1.5}
    (line, other) = lines(rows, "size", "cost", "kind", ("b", "a", "c"))
    assert (line.label, line.x, line.y) == ("b", [1.0, 10.0], [3.0, 30.0])
    assert other.spread[0] > 0
    shares = relative(rows, "cost", {"kind": "b"}, ("seed", "size"))
    assert {row["cost"] for row in shares if row["kind"] == "a"} == {1.5}


def test_pictures_are_the_same_each_time() -> None:
    bars = [Line("mult, coalesced", [0.0], [1.2], [0.1]), Line("other", [0.0], [1.1], [0.0])]
    for figure in (
        Figure("f", "title <&>", "x", "y", [Line("opt", [1.0, 2.0], [3.0, 4.0], [0.0, 0.1])], log_x=True, log_y=True),
        Figure("b", "bars", "", "y", bars, bars=True),
        Figure("l", "bars, logarithmic", "", "y", bars, log_y=True, bars=True),
        Figure("e", "empty", "x", "y", []),
    ):
        assert svg_of(figure) == svg_of(figure)
        assert svg_of(figure).startswith("<svg")
        assert png_of(figure)[:4] == b"\x89PNG"


def test_the_report_has_it_all(tmp_path: Path) -> None:
    store = tmp_path / "store"
    run_experiment("trees-cost", {}, store, Here(), only={"brokers": 80, "seed": 1, "data": "Localized1"})
    runs = stored_runs(store)
    verdicts = {verdict.claim.name: verdict for verdict in judged(runs)}
    write_report(tmp_path / "page.html", store, runs, list(verdicts.values()))
    page = (tmp_path / "page.html").read_text()
    assert len(verdicts) == len(CLAIMS)
    assert verdicts["trees-single-tenfold"].measured is not None
    assert verdicts["trees-best-count"].kind == "not yet run"
    assert all(f'id="claim-{claim.name}"' in page for claim in CLAIMS)
    assert "overstory lab run trees-cost --quick --only brokers=80 --only seed=1 --only data=Localized1" in page
    assert page.count("<svg") == len(TREES_COST.figures(runs[0].rows))
    assert "http://" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )
    assert (tmp_path / "page" / "trees-cost-localized1-in-sample.png").exists()
    assert (tmp_path / "page" / "trees-cost.parquet").exists()


def shown(kind: Kind, quick: bool, experiment: str = "trees-cost") -> str:
    """The row of a claim on the page."""
    measured = Estimate(1.0, None, 2) if kind not in ("not yet run", "not built") else None
    claim = msgspec.structs.replace(CLAIMS[0], experiment=experiment)
    return _claim(Verdict(claim, kind, measured, "because", {}, quick))


def test_verdicts_of_quick_runs_are_grey() -> None:
    assert '<span class="verdict reproduced">reproduced</span>' in shown("reproduced", quick=False)
    assert '<span class="verdict reproduced quick">reproduced</span>' in shown("reproduced", quick=True)
    assert "a quick run" in shown("reproduced", quick=True)
    assert " quick" not in shown("not yet run", quick=True)


def test_what_is_not_built_is_not_merely_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {verdict.claim.built: verdict.kind for verdict in judged([])}
    assert kinds.get(True) == "not yet run"
    absent = msgspec.structs.replace(CLAIMS[0], experiment="there-is-none")
    monkeypatch.setattr(claims, "CLAIMS", (absent,))
    (verdict,) = judged([])
    assert (verdict.kind, verdict.why) == ("not built", "the part that there-is-none would try is not built yet")


def test_flooding_has_axes_of_its_own() -> None:
    """And the legend stands beside the axes: no text of it is left of their right edge."""
    low, high = Line("spt", [1.0, 2.0], [3.0, 4.0], [0.0, 0.0]), Line("flood", [1.0, 2.0], [900.0, 950.0], [0.0, 0.0])
    both, alone = (Figure("a", "A", "x", "y", each) for each in ([low, high], [low]))
    only = Figure("b", "B", "x", "y", [high])
    assert [svg_of(figure).count('<g id="axes_') for figure in (both, alone, only)] == [2, 1, 1]
    words = re.findall(r'<text [^>]*\bx="([\d.]+)"[^>]*>(spt|flood)</text>', svg_of(both))
    edges = [float(x) for x in re.findall(r'<g id="patch_2">\s*<path d="M [\d.]+ [\d.]+ \s*L ([\d.]+)', svg_of(both))]
    assert {name for _, name in words} == {"spt", "flood"}
    assert edges
    assert min(float(x) for x, _ in words) > max(edges)
