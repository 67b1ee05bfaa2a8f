"""The report: what the papers claim beside what was measured here, then every experiment. One file, nothing to load.

Beside the page a folder of the same name has each figure as PNG, and the rows of each experiment as Parquet.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from overstory.lab.claims import PAPERS, Verdict
from overstory.lab.drawing import png_of, svg_of
from overstory.lab.experiment import Figure, Row
from overstory.lab.measuring import Estimate
from overstory.lab.store import put_file, table_of
from overstory.lab.stored_runs import StoredRun

KINDS = ("reproduced", "better", "not reproduced", "not yet run", "not built")
UNSEEN = KINDS[3:]
STYLE = Path(__file__).with_name("report.css")
MOST_TOLD = 10  # failures and changes of an experiment


def write_report(page: Path, store: Path, runs: Sequence[StoredRun], verdicts: Sequence[Verdict]) -> None:
    beside = page.with_suffix("")
    figures = {run.experiment.name: _figures(run) for run in runs}
    for run in runs:
        for figure in figures[run.experiment.name]:
            put_file(beside / f"{figure.name}.png", png_of(figure))
        if run.rows:
            put_file(beside / f"{run.experiment.name}.parquet", _parquet(run.rows))
    put_file(page, _page(store, runs, verdicts, figures).encode())


def _figures(run: StoredRun) -> list[Figure]:
    shown = bool(run.rows) and run.experiment.refuses(run.rows) is None
    return run.experiment.figures(run.rows) if shown else []


def _parquet(rows: Sequence[Row]) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(table_of(rows), out)
    return bytes(out.getvalue().to_pybytes())


def _page(store: Path, runs: Sequence[StoredRun], verdicts: Sequence[Verdict], figures: dict[str, list[Figure]]) -> str:
    counts = "".join(_count(kind, verdicts) for kind in KINDS)
    links = "".join(f'<a href="#{run.experiment.name}">{run.experiment.name}</a>' for run in runs)
    claims = "".join(
        _claims(paper, [verdict for verdict in verdicts if verdict.claim.paper == paper]) for paper in PAPERS
    )
    sections = "".join(_section(run, figures[run.experiment.name]) for run in runs)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Overstory: the lab</title>
<style>{STYLE.read_text("utf-8")}</style>
</head>
<body>
<header>
<div class="brand">Overstory · the lab</div>
<h1>What the papers claim, and what was measured</h1>
<p class="soft">Verdicts are computed from stored results: the mean over seeds against the number claimed, with its
tolerance. Intervals are of 95 % confidence.</p>
<div class="counts">{counts}</div>
<nav>{links}</nav>
</header>
<main>
{claims}
<h2>Experiments</h2>
{sections or '<p class="soft">None has been run.</p>'}
</main>
</body>
</html>
"""


def _badge(kind: str, quick: bool = False) -> str:
    """A verdict; that of a quick run is grey, since it says little."""
    return f'<span class="verdict {kind.replace(" ", "-")}{" quick" * quick}">{kind}</span>'


def _count(kind: str, verdicts: Sequence[Verdict]) -> str:
    """How many claims have a verdict, and how many of these have it from a quick run."""
    mine = [verdict for verdict in verdicts if verdict.kind == kind]
    quick = sum(_is_quick(verdict) for verdict in mine)
    told = f", {quick} by quick runs" if quick else ""
    return f"<span>{_badge(kind, quick == len(mine) > 0)} {len(mine)}{told}</span>"


def _is_quick(verdict: Verdict) -> bool:
    return verdict.quick and verdict.measured is not None


def _claims(paper: str, verdicts: Sequence[Verdict]) -> str:
    rows = "".join(map(_claim, verdicts))
    table = f"""<div class="card"><table class="claims">
<thead><tr><th>claim</th><th>verdict</th><th>measured</th><th>claimed</th><th>figure</th></tr></thead>
<tbody>{rows}</tbody></table></div>"""
    if all(verdict.kind in UNSEEN for verdict in verdicts):
        built = sum(verdict.kind == UNSEEN[0] for verdict in verdicts)
        told = (
            "none of them run yet" if built == len(verdicts) else f"{len(verdicts) - built} of parts that are not built"
        )
        table = f"<details><summary>{len(verdicts)} claims, {told}</summary>{table}</details>"
    return f"<h2>{escape(PAPERS[paper])}</h2>{table}"


def _claim(verdict: Verdict) -> str:
    claim = verdict.claim
    reading = f'<span class="more">Read as: {escape(claim.reading)}</span>' if claim.reading else ""
    others = "; ".join(f"{name}: {_number(value)}" for name, value in verdict.others.items() if value is not None)
    other = f'<span class="more">Otherwise: {escape(others)}</span>' if others else ""
    quick = '<span class="more">a quick run</span>' if _is_quick(verdict) else ""
    where = f'<a href="#{claim.experiment}">{claim.experiment}</a>' if verdict.measured else escape(claim.experiment)
    return f"""<tr id="claim-{claim.name}">
<td>{escape(claim.statement)}{reading}{other}</td>
<td data-head="verdict">{_badge(verdict.kind, _is_quick(verdict))}<span class="more">{escape(verdict.why)}</span></td>
<td data-head="measured" class="number">{_number(verdict.measured)}{quick}</td>
<td data-head="claimed">{escape(claim.spoken())}</td>
<td data-head="figure">{escape(claim.figure)}<span class="more">{where}</span></td>
</tr>"""


def _number(value: Estimate | None) -> str:
    if value is None:
        return "–"
    return f"{value.mean:,.3g}" + (f" ± {value.spread:.2g}" if value.spread is not None else "")


def _section(run: StoredRun, figures: Sequence[Figure]) -> str:
    experiment = run.experiment
    source = f"{experiment.figure} of {PAPERS[experiment.paper]}" if experiment.paper else "a question of ours"
    there = f"{len(run.results):,} of {run.cells:,}"
    computed = sum(stored.seconds for stored in run.results)
    seeds = f"{len(run.seeds)}: {', '.join(map(str, run.seeds))}" if run.seeds else "none"
    facts = {
        "from": source,
        "cells": f"{there}, {'quick' if run.last.quick else 'full'}, {computed:,.0f} s of computing",
        "seeds": seeds,
        "parameters": ", ".join(f"{key}={value}" for key, value in run.last.parameters.items() if value != "")
        or "none",
    }
    listed = "".join(f"<dt>{key}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())
    drawn = "".join(_drawn(figure) for figure in figures)
    totals = experiment.totals(run.rows) if run.rows else {}
    sums = "".join(f"<dt>{escape(key.replace('_', ' '))}</dt><dd>{_text(value)}</dd>" for key, value in totals.items())
    return f"""<section id="{experiment.name}">
<h3>{experiment.name}</h3>
<p>{escape(experiment.summary[0].upper() + experiment.summary[1:])}.</p>
{_problems(run)}
<div class="figures">{drawn}</div>
<dl>{listed}{sums}<dt>again</dt><dd><code>{escape(run.command())}</code></dd></dl>
</section>"""


def _drawn(figure: Figure) -> str:
    note = f"<figcaption>{escape(figure.note)}</figcaption>" if figure.note else ""
    values = "".join(
        f"<tr><th>{escape(line.label)}</th>"
        + "".join(
            f'<td class="number">{"" if figure.bars else f"{x:g}: "}{y:,.4g}</td>'
            for x, y in zip(line.x, line.y, strict=True)
        )
        + "</tr>"
        for line in figure.lines
    )
    return f"""<figure>{svg_of(figure)}{note}
<details><summary>numbers</summary><div class="card"><table><tbody>{values}</tbody></table></div></details></figure>"""


def _problems(run: StoredRun) -> str:
    found = []
    refused = run.experiment.refuses(run.rows)
    if refused:
        found.append(f'<div class="problem">Nothing is reported: {escape(refused)}</div>')
    for failed in run.failed[:MOST_TOLD]:
        again = f"<code>{escape(run.command(failed.settings))}</code>"
        found.append(f'<div class="problem">A cell failed: {escape(str(failed.failure))}<br>{again}</div>')
    if len(run.failed) > MOST_TOLD:
        found.append(f'<div class="problem">{len(run.failed) - MOST_TOLD} more cells failed.</div>')
    if run.stale:
        found.append(
            f'<div class="problem">{run.stale} cells have results of other code alone, which are not shown.</div>'
        )
    for changed in run.changed[:MOST_TOLD]:
        found.append(f'<div class="problem">Other than before, with other code: {escape(str(changed.changed))}</div>')
    return "".join(found)


def _text(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else escape(str(value))
