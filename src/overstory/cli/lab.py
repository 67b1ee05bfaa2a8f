"""overstory lab list|run|report"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from overstory.cli.engine import parameters_in
from overstory.cli.lab_progress import LabProgress
from overstory.cli.output import print_json
from overstory.cli.tables import shown, table
from overstory.errors import UsageError
from overstory.lab.claims import CLAIMS, judged
from overstory.lab.experiment import Experiment, Row
from overstory.lab.experiments import EXPERIMENTS, experiment_named
from overstory.lab.measuring import estimate
from overstory.lab.report import write_report
from overstory.lab.running import Run, run_experiment
from overstory.lab.stored_runs import stored_runs
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.session import LOCAL

STORE = Path("overstory-lab")
MOST_ROWS = 40  # that are printed as they are
MOST_COLUMNS = 12


def add_to(commands: Any) -> None:
    command = commands.add_parser("lab", help="run experiments, and judge the papers' claims")
    actions = command.add_subparsers(metavar="ACTION", required=True)
    every = actions.add_parser("list", help="the experiments that there are")
    every.add_argument("--json", action="store_true", help="print one JSON object")
    every.set_defaults(run=run_list)
    run = actions.add_parser("run", help="run some of them: what has been computed before is not computed again")
    run.add_argument("names", metavar="NAME", nargs="+", help=f"{', '.join(EXPERIMENTS)}, or all")
    size = run.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few and small cells, a minute at most (the default)")
    size.add_argument("--full", action="store_true", help="as many and as large as the paper has")
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of the experiment")
    run.add_argument("--only", action="append", default=[], metavar="KEY=VALUE", help="only cells with this setting")
    run.add_argument("--master", default=LOCAL, help="where Spark runs (default: %(default)s)")
    _add_store(run)
    run.set_defaults(run=run_run)
    report = actions.add_parser("report", help="write a page with the claims, what was measured, and every figure")
    report.add_argument("page", metavar="FILE.html", nargs="?", type=Path, help="default: report.html in the store")
    _add_store(report)
    report.set_defaults(run=run_report)


def _add_store(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--store", type=Path, default=STORE, metavar="DIR", help="where results are kept (default: %(default)s)"
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")


def run_list(arguments: argparse.Namespace) -> None:
    listed = [_described(experiment) for experiment in EXPERIMENTS.values()]
    if arguments.json:
        print_json({"experiments": listed})
        return
    for experiment in EXPERIMENTS.values():
        told = ", ".join(f"{key}={'…' if value is None else value}" for key, value in experiment.parameters.items())
        source = f"{experiment.figure} of {experiment.paper}" if experiment.paper else experiment.figure
        print(f"{experiment.name}: {experiment.summary} ({'; '.join(part for part in (source, told) if part)})")


def _described(experiment: Experiment) -> dict[str, Any]:
    return {
        "name": experiment.name,
        "paper": experiment.paper,
        "figure": experiment.figure,
        "summary": experiment.summary,
        "parameters": dict(experiment.parameters),
        "measures": list(experiment.measures),
        "claims": [claim.name for claim in CLAIMS if claim.experiment == experiment.name],
    }


def run_run(arguments: argparse.Namespace) -> int:
    """1 if a cell failed: what the others gave is printed all the same."""
    given, only = parameters_in(arguments.set), parameters_in(arguments.only)
    names = arguments.names
    if names == ["all"]:  # those that need nothing to be told
        names = [experiment.name for experiment in EXPERIMENTS.values() if None not in experiment.parameters.values()]
    for name in names:
        experiment_named(name)
    with Pipeline(arguments.master) as pipeline:
        runs = []
        for name in names:
            with LabProgress(name) as progress:
                run = run_experiment(
                    name, given, arguments.store, pipeline, not arguments.full, only, progress.watch, progress.tell
                )
            runs.append(run)
            if not arguments.json:
                _print_run(run)
    if arguments.json:
        found = [_as_json(run, given) for run in runs]
        print_json(found[0] if len(found) == 1 else {"runs": found})
    return int(any(run.failed for run in runs))


def _as_json(run: Run, given: Row) -> dict[str, Any]:
    return {
        "experiment": run.experiment.name,
        "parameters": given,
        "cells": len(run.results),
        "computed": run.computed,
        "failed": [{"settings": result.settings, "failure": result.failure} for result in run.failed],
        "changed": [{"settings": result.settings, "changed": result.changed} for result in run.changed],
        "rows": run.rows,
        **run.experiment.totals(run.rows),
    }


def _print_run(run: Run) -> None:
    """All rows if they are few, else what they come to."""
    print(f"{run.experiment.name}: {len(run.results)} cells, {run.computed} of them computed now")
    rows = run.rows
    if len(rows) > MOST_ROWS:
        _print_measures(run)
    elif rows:
        names = _telling(rows)
        print(table(names, [tuple(row.get(name) for name in names) for row in rows]))
    for name, value in run.experiment.totals(rows).items():
        print(f"{name.replace('_', ' ')}: {f'{value:.4f}' if isinstance(value, float) else shown(value)}")
    for result in run.failed:
        print(f"failed: {result.settings}: {result.failure}", file=sys.stderr)
    for result in run.changed[:5]:
        print(f"other than before, with other code: {result.settings}: {result.changed}", file=sys.stderr)


def _telling(rows: Sequence[Row]) -> list[str]:
    """Columns; where there are many, only those that are not the same in all rows."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if len(names) <= MOST_COLUMNS:
        return names
    return [name for name in names if len({row.get(name) for row in rows}) > 1]


def _print_measures(run: Run) -> None:
    refused = run.experiment.refuses(run.rows)
    if refused:
        print(f"nothing is reported: {refused}")
        return
    found = []
    for name, measure in run.experiment.measures.items():
        value = estimate(list(measure(run.rows).values()))
        if value is not None:
            found.append((name, value.mean, value.spread, value.seeds))
    if found:
        print(table(("measure", "mean", "±", "seeds"), found))
    print(f"{len(run.rows):,} rows: see --json, or 'overstory lab report' for figures and claims")


def run_report(arguments: argparse.Namespace) -> None:
    if not arguments.store.is_dir():
        raise UsageError(f"there is no store {arguments.store}; first run 'overstory lab run NAME'")
    runs = stored_runs(arguments.store)
    if not runs:
        raise UsageError(f"nothing has been run into the store {arguments.store}; first run 'overstory lab run NAME'")
    verdicts = judged(runs)
    page = arguments.page or arguments.store / "report.html"
    write_report(page, arguments.store, runs, verdicts)
    if arguments.json:
        print_json(
            {
                "page": str(page),
                "experiments": [
                    {
                        "name": run.experiment.name,
                        "cells": run.cells,
                        "there": len(run.results),
                        "failed": len(run.failed),
                        "stale": run.stale,
                    }
                    for run in runs
                ],
                "claims": [verdict.as_json() for verdict in verdicts],
            }
        )
        return
    print(f"{page}: {len(runs)} experiments, {len(verdicts)} claims")
    for kind in dict.fromkeys(verdict.kind for verdict in verdicts):
        print(f"  {kind}: {sum(verdict.kind == kind for verdict in verdicts)}")
