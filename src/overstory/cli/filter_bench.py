"""overstory filter bench: try the index on your own filters and events."""

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from overstory.cli.input import events_in, lines_of
from overstory.cli.output import print_json
from overstory.errors import FilterError, OverstoryError, UsageError
from overstory.filters import DIALECTS, Filter, parse_filter

if TYPE_CHECKING:
    from overstory.matching.trial import Trial


class WrongMatchError(OverstoryError):
    """The index and the reference do not agree: a fault of Overstory itself."""


def add_to(verbs: Any) -> None:
    bench = verbs.add_parser("bench", help="try the index on filters and events of your own")
    bench.add_argument("filters", metavar="FILTERS", help="a file with one filter a line")
    bench.add_argument(
        "--events", metavar="FILE", required=True, help="one JSON object a line ('-' for standard input)"
    )
    bench.add_argument("--dialect", choices=sorted(DIALECTS), default="sql", help="of the filters (default: sql)")
    bench.add_argument("--json", action="store_true", help="print one JSON object")
    bench.set_defaults(run=run_bench)


def run_bench(arguments: argparse.Namespace) -> None:
    filters = list(filters_in(arguments.filters, arguments.dialect))
    events = list(events_in(arguments.events))
    if not filters or not events:
        what, path = ("events", arguments.events) if filters else ("filters", arguments.filters)
        raise UsageError(f"there are no {what} in {path}; write one on each line")
    # Loads the kernels, which other commands need not wait for.
    from overstory.kernels.compiling import MUST_COMPILE
    from overstory.matching.trial import run_trial

    if MUST_COMPILE:
        print("compiling the kernels, a minute or two, this once …", file=sys.stderr)
    print(f"building an index of {len(filters):,} filters …", file=sys.stderr)
    trial = run_trial(filters, events)
    if trial.wrong_events:
        raise WrongMatchError(f"{trial.wrong_events} events have wrong matches; please report this with the two files")
    if arguments.json:
        print_json({**msgspec.to_builtins(trial), "times_faster": trial.times_faster})
    else:
        print("\n".join(f"{name:<10} {text}" for name, text in report(trial)))


def report(trial: "Trial") -> Iterator[tuple[str, str]]:
    index = trial.index
    yield "filters", f"{index.filters:,}: {index.boxes:,} boxes, {index.residuals:,} with a residual"
    yield "index", f"{index.bytes / 1e6:,.1f} MB, {index.bins:,} bins, {trial.build_microseconds:,.1f} µs a filter"
    yield "events", f"{trial.events:,}, with {trial.matches / trial.events:,.1f} matches each"
    yield "in batch", f"{trial.batch_microseconds:,.1f} µs an event, for {index.candidates_per_match:,.1f} candidates"
    yield "singly", f"{trial.single_microseconds:,.1f} µs an event"
    yield "reference", f"{trial.reference_microseconds:,.1f} µs an event, {trial.times_faster:,.1f} times as long"
    yield "checked", f"{trial.checked_events:,} events against the reference: all are right"


def filters_in(path: str, dialect: str) -> Iterator[Filter]:
    for number, line in lines_of(path):
        try:
            yield parse_filter(line, dialect)
        except FilterError as error:
            error.problem = f"line {number} of {path}: {error.problem}"
            raise
