"""overstory filter: evaluate, compare and explain filters, and try the index on many."""

import argparse
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

import pyarrow as pa

from overstory.cli.filter_bench import add_to as add_bench_to
from overstory.cli.input import event_in, events_in
from overstory.cli.output import print_json
from overstory.errors import UsageError
from overstory.filters import DIALECTS, Filter, parse_filter, parse_publication
from overstory.filters.printing import print_parts
from overstory.model.values import Untyped, number_face
from overstory.pipeline.doubts import Columns

TRUTHS = {True: "true", False: "false", None: "unknown"}


def add_to(commands: Any) -> None:
    command = commands.add_parser("filter", help="evaluate, compare and explain filters, try the index on many")
    verbs = command.add_subparsers(metavar="VERB", required=True)

    evaluate = verbs.add_parser("eval", help="evaluate a filter on an event: true, false or unknown")
    evaluate.add_argument("filter", metavar="FILTER", help="the filter, in quotes")
    evaluate.add_argument(
        "event", metavar="EVENT", nargs="?", help="the event's attributes, a JSON object; none if left out"
    )
    evaluate.add_argument("--events", metavar="FILE", help="one JSON object a line ('-' for standard input)")
    evaluate.add_argument("--publication", metavar="TEXT", help="the event as a PADRES publication")
    evaluate.add_argument(
        "--property",
        metavar="NAME=TEXT",
        action="append",
        default=[],
        help="an untyped attribute, as an MQTT user property is; may be repeated",
    )
    evaluate.set_defaults(run=run_eval)

    covers = verbs.add_parser("covers", help="whether the first filter matches all that the second matches")
    covers.add_argument("filter", metavar="FILTER", help="the filter, in quotes")
    covers.add_argument("other", metavar="OTHER", help="the filter that may be covered")
    covers.set_defaults(run=run_covers)

    explain = verbs.add_parser("explain", help="show a filter's normal form")
    explain.add_argument("filter", metavar="FILTER", help="the filter, in quotes")
    explain.set_defaults(run=run_explain)

    for verb in (evaluate, covers, explain):
        verb.add_argument("--dialect", choices=sorted(DIALECTS), default="sql", help="of the filters (default: sql)")
        verb.add_argument("--json", action="store_true", help="print one JSON object")
    add_bench_to(verbs)


def run_eval(arguments: argparse.Namespace) -> None:
    wanted = parse_filter(arguments.filter, arguments.dialect)
    properties = dict(map(untyped_property, arguments.property))
    if arguments.events is not None:
        run_eval_lines(wanted, arguments, properties)
        return
    event = {**single_event(arguments), **properties}
    result = wanted.evaluate(event)
    reasons = why_unknown(arguments.filter, arguments.dialect, event) if result is None else []
    if arguments.json:
        print_json({"result": result, "matches": result is True, "reasons": reasons})
    else:
        print(TRUTHS[result] + (f": {'; '.join(reasons)}" if reasons else ""))


def why_unknown(text: str, dialect: str, event: Mapping[str, object]) -> list[str]:
    """Which attributes the event lacks, or has of another type than they are compared with."""
    nested = [name for name, value in event.items() if isinstance(value, dict)]
    known = {name: _type(value) for name, value in event.items() if value is not None and name not in nested}
    reasons = [
        f"'{name}' is an object, which no attribute can be; name its parts with dots: '{name}.…'" for name in nested
    ]
    if dialect == "sql":
        doubts = Columns(known, {}).doubts(text)
        asked = [doubt for doubt in doubts if not any(f"'{name}'" in doubt for name in nested)]
        reasons += [_of_one_event(doubt) for doubt in asked]
    if not reasons and '"' in text:
        reasons.append("double quotes are for names of attributes; a string stands in single quotes")
    return reasons


def _of_one_event(doubt: str) -> str:
    name = doubt.removeprefix("no event has ")
    return f"the event has no {name}" if name != doubt else doubt


def _type(value: object) -> pa.DataType:
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, Untyped):
        return pa.float64() if number_face(value) is not None else pa.string()
    if isinstance(value, list):
        return pa.list_(pa.string())
    return pa.string() if isinstance(value, str) else pa.float64()


def run_eval_lines(wanted: Filter, arguments: argparse.Namespace, properties: dict[str, Untyped]) -> None:
    if arguments.event is not None or arguments.publication is not None:
        raise UsageError("give one of EVENT, --events and --publication")
    results = (wanted.evaluate({**event, **properties}) for event in events_in(arguments.events))
    if arguments.json:
        known = list(results)
        print_json({"results": known, "matches": known.count(True)})
    else:
        for result in results:
            print(TRUTHS[result])


def run_covers(arguments: argparse.Namespace) -> None:
    first, second = (parse_filter(text, arguments.dialect) for text in (arguments.filter, arguments.other))
    covers, covered, intersects = first.covers(second), second.covers(first), first.intersects(second)
    exact = first.is_exact_with(second)
    if arguments.json:
        print_json({"covers": covers, "covered": covered, "intersects": intersects, "exact": exact})
        return
    print("yes" if covers else "no")
    if covers and covered:
        print("They match the same events.")
    elif covered:
        print("It is the other way round: the second covers the first.")
    elif not covers:
        print("Some events may match both." if intersects else "No event matches both.")
    if not exact and not covers:
        print("This is the safe answer, not an exact one: see Relations in docs/filters.md.")


def run_explain(arguments: argparse.Namespace) -> None:
    wanted = parse_filter(arguments.filter, arguments.dialect)
    boxes = sorted(map(print_parts, wanted.boxes))
    exact = wanted.is_exact_with(wanted)
    if arguments.json:
        parts = [{"conditions": conditions, "residuals": residuals} for conditions, residuals in boxes]
        print_json({"filter": str(wanted), "exact": exact, "boxes": parts})
        return
    print(f"as SQL     {wanted}")
    if not boxes:
        print("boxes      none: no event matches")
    for number, (conditions, residuals) in enumerate(boxes, 1):
        lines = conditions + [f"{residual}   (residual)" for residual in residuals] or ["every event"]
        for label, line in zip_longest([f"box {number}"], lines, fillvalue=""):
            print(f"{label:<10} {line}")
    print(f"relations  {'exact' if exact else 'safe, not exact: see Relations in docs/filters.md'}")


def untyped_property(text: str) -> tuple[str, Untyped]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"--property wants NAME=TEXT, not {text!r}")
    return name, Untyped(value)


def single_event(arguments: argparse.Namespace) -> dict[str, Any]:
    if arguments.event is not None and arguments.publication is not None:
        raise UsageError("give EVENT or --publication, not both")
    if arguments.publication is not None:
        return dict(parse_publication(arguments.publication))
    return {} if arguments.event is None else event_in(arguments.event, "the event")
