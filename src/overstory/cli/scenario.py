"""overstory scenario make|import|show"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow.parquet as pq

from overstory.cli.engine import add_options, pipeline_for, sizes_of
from overstory.cli.options import SEED, share, whole
from overstory.cli.output import print_json
from overstory.cli.profiles import profile_for_programs, profile_in_words
from overstory.cli.scenario_overlay import OVERLAY_KINDS
from overstory.cli.subscriber_kinds import kinds as subscriber_kinds
from overstory.cli.tables import table
from overstory.cli.topic_options import add_topics, make_topics_from
from overstory.errors import UsageError
from overstory.lab.localized import Localized, make_localized
from overstory.lab.sites import make_sites
from overstory.lab.topologies import GENERATORS, topology
from overstory.model.folders import check_can_be_made, parts_of
from overstory.model.scenario import read_scenario
from overstory.pipeline.log_types import WORDS, types_in
from overstory.pipeline.profile import profile_of, warnings_of

if TYPE_CHECKING:
    from overstory.lab.importing import Import, Imported

MOST_BROKERS, MOST_EVENTS = 1_000_000, 10**9
MOST_WORDS = 70  # characters that tell the values of an attribute
# What a generated scenario can have: how it is read, and what it means
PARAMETERS: dict[str, tuple[Any, str]] = {
    "keywords": (whole(1, 10**8), "different keywords"),
    "subscribers_per_keyword": (whole(1, MOST_BROKERS), "brokers that want a keyword, at most"),
    "locality": (share("all brokers", with_one=True), "the share of brokers around its home that may want a keyword"),
    "events": (whole(0, MOST_EVENTS), "events in the log"),
    "keywords_per_event": (whole(1, 1000), "keywords of an event, at most"),
    "event_neighbourhood": (whole(1, MOST_BROKERS), "brokers near each other whose keywords an event draws from"),
    "bytes": (whole(0, 2**40), "the size of an event"),
}


def add_to(commands: Any) -> None:
    command = commands.add_parser("scenario", help="make, import or look at a scenario")
    kinds = command.add_subparsers(metavar="ACTION", required=True)
    _add_make(kinds)
    _add_import(kinds)
    show = kinds.add_parser("show", help="check a scenario, and tell what is in it")
    show.add_argument("scenario", metavar="DIR", type=Path, help="the folder of the scenario")
    add_options(show)
    show.set_defaults(run=run_show)


def _add_make(actions: Any) -> None:
    make = actions.add_parser("make", help="generate a scenario", description=f"Kinds: {', '.join(KINDS)}.")
    kinds = make.add_subparsers(metavar="KIND", required=True)
    for name, (what, add_options_of, function) in KINDS.items():
        kind = kinds.add_parser(name, help=what, description=f"{name}: {what}.")
        kind.add_argument("folder", metavar="DIR", type=Path, help="the folder to make")
        add_options_of(kind)
        kind.add_argument("--seed", type=SEED, default=0, metavar="N", help="of all that is drawn (default: 0)")
        kind.add_argument("--json", action="store_true", help="print one JSON object")
        kind.set_defaults(run=run_make, make=function)


def _add_localized(kind: argparse.ArgumentParser) -> None:
    known = ", ".join(GENERATORS)
    kind.add_argument(
        "--topology",
        default="transit-stub",
        help=f"{known}, zoo:NAME, topohub:KEY or FILE.graphml (default: %(default)s)",
    )
    _add_brokers(kind)
    usual = Localized()
    for name, (read, what) in PARAMETERS.items():
        option, default = f"--{name.replace('_', '-')}", getattr(usual, name)
        kind.add_argument(option, type=read, default=default, metavar="N", help=f"{what} (default: %(default)s)")
    kind.add_argument(
        "--per-broker", action="store_true", help="one subscription to any of a broker's keywords, not one for each"
    )


def _add_sites(kind: argparse.ArgumentParser) -> None:
    read, what = PARAMETERS["events"]
    kind.add_argument("--events", type=read, default=10_000, metavar="N", help=f"{what} (default: %(default)s)")


def _add_brokers(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--brokers", type=whole(1, MOST_BROKERS), metavar="N", help="how many, for a generated topology (default: 500)"
    )


def run_make(arguments: argparse.Namespace) -> None:
    check_can_be_made(arguments.folder)
    notes = arguments.make(arguments)
    scenario = read_scenario(arguments.folder)
    sizes = sizes_of(scenario) | {"events": events_in(scenario.events)}
    if arguments.json:
        print_json({"scenario": str(arguments.folder), **sizes, "notes": notes})
        return
    _print_sizes(arguments.folder, sizes)
    _print_lines(notes)


def _make_localized(arguments: argparse.Namespace) -> list[str]:
    parameters = Localized(**{name: getattr(arguments, name) for name in (*PARAMETERS, "per_broker")})
    network = topology(arguments.topology, arguments.brokers, arguments.seed)
    make_localized(arguments.folder, network, parameters, arguments.seed)
    return list(network.notes)


def _make_sites(arguments: argparse.Namespace) -> list[str]:
    make_sites(arguments.folder, arguments.events, arguments.seed)
    return []


KINDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], list[str]]]] = {
    "localized": (
        "keywords wanted by brokers near each other, as in the routing-trees paper",
        _add_localized,
        _make_localized,
    ),
    "topics": (
        "users who want topics, in natural clusters, as in the topics paper",
        add_topics,
        make_topics_from,
    ),
    "sites": ("telemetry, orders and alerts of sites across Europe, as in the demo", _add_sites, _make_sites),
    **OVERLAY_KINDS,
    **subscriber_kinds(),
}


def events_in(log: Path) -> int:
    """How many events a log has, by its files' own account."""
    return sum(pq.read_metadata(part).num_rows for part in parts_of(log))


def _print_sizes(folder: Path, sizes: dict[str, int]) -> None:
    print(f"{folder}: " + ", ".join(f"{value:,} {name}" for name, value in sizes.items()))


def _print_lines(lines: Any, sign: str = "") -> None:
    for line in lines:
        print(f"  {sign}{line}")


def _add_import(kinds: Any) -> None:
    read = kinds.add_parser("import", help="make a scenario of files: CSV, JSON lines, Parquet, GraphML")
    read.add_argument("folder", metavar="DIR", type=Path, help="the folder to make")
    read.add_argument(
        "--events",
        required=True,
        type=Path,
        metavar="LOG",
        help="the log: .csv, .jsonl, .json (also .gz or .zst) or .parquet; or a folder of such files, or a pattern",
    )
    read.add_argument("--topology", required=True, help="as for 'make', or a folder or file of links")
    _add_brokers(read)
    read.add_argument("--publisher", metavar="COLUMN", help="the column that tells who published (default: by chance)")
    read.add_argument(
        "--broker", metavar="COLUMN", help="the column that tells where the publisher is (default: broker)"
    )
    read.add_argument("--attach", metavar="FILE", type=Path, help="a file with columns client and broker")
    read.add_argument("--time", metavar="COLUMN", help="the column with the time (default: none)")
    read.add_argument(
        "--time-unit", choices=("s", "ms", "us", "ns"), help="of times that are numbers (default: by their size)"
    )
    read.add_argument("--bytes", metavar="COLUMN", help="the column with the size (default: 1 byte each)")
    read.add_argument("--columns", metavar="A,B,…", help="the attributes to keep (default: all)")
    words = ", ".join(kind[0] for kind in WORDS.values())
    read.add_argument(
        "--type", action="append", default=[], metavar="COLUMN=TYPE", help=f"read a column as {words} (repeatable)"
    )
    read.add_argument(
        "--bad-values", choices=("refuse", "null"), default="refuse", help="what does not convert (default: refuse)"
    )
    read.add_argument("--flatten", action="store_true", help="make columns such as device.fw of objects in objects")
    read.add_argument(
        "--subscriptions",
        metavar="FILE|N",
        help="a file with columns client and filter, a text with one filter a line, or a number to generate",
    )
    read.add_argument(
        "--selectivity",
        type=share("all events", with_one=False),
        default=0.01,
        metavar="SHARE",
        help="of the events that a generated subscription matches (default: %(default)s)",
    )
    read.add_argument("--seed", type=SEED, default=0, metavar="N", help="of all that is left to chance (default: 0)")
    add_options(read)
    read.set_defaults(run=run_import)


def run_import(arguments: argparse.Namespace) -> None:
    from overstory.lab.importing import import_scenario

    what = _what_to_import(arguments)
    with pipeline_for(arguments) as pipeline:
        made = import_scenario(arguments.folder, what, pipeline)
        warnings = warnings_of(pipeline, read_scenario(arguments.folder))
    if arguments.json:
        attributes = [msgspec.to_builtins(about) for about in made.log.attributes]
        found: dict[str, Any] = {"scenario": str(arguments.folder), **made.sizes, "attributes": attributes}
        notes = [*made.log.notes, *made.notes]
        print_json(found | {"attached": made.attached, "notes": notes, "warnings": warnings})
        return
    _print_import(arguments.folder, made, warnings)


def _what_to_import(arguments: argparse.Namespace) -> "Import":
    from overstory.lab.importing import Import

    same = ("events", "topology", "brokers", "publisher", "broker", "attach", "time", "time_unit", "bytes", "seed")
    further = ("subscriptions", "selectivity", "bad_values", "flatten")
    return Import(
        **{name: getattr(arguments, name) for name in (*same, *further)},
        columns=_columns(arguments.columns),
        types=types_in(arguments.type),
    )


def _columns(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    names = tuple(name for part in text.split(",") if (name := part.strip()))
    if not names:
        raise UsageError("--columns: name at least one, or leave it out to keep them all")
    return names


def _print_import(folder: Path, made: "Imported", warnings: list[str]) -> None:
    _print_sizes(folder, made.sizes)
    print(attribute_table(made.log.attributes))
    for about in made.log.attributes:
        if about.odd:
            named = ", ".join(f"{odd.value!r} ({odd.events:,}, first on {odd.place})" for odd in about.odd_values)
            print(f"  '{about.name}': {about.odd:,} values did not convert and are absent: {named}")
    _print_lines([*made.log.notes, *made.notes])
    _print_lines(warnings, "! ")


def attribute_table(attributes: Any) -> str:
    words = [about.in_words()[:MOST_WORDS] for about in attributes]
    width = max(map(len, words), default=0)
    rows = [
        (about.name, about.type, about.absent, text.ljust(width)) for about, text in zip(attributes, words, strict=True)
    ]
    return table(("attribute", "type", "absent", "values".ljust(width)), rows)


def run_show(arguments: argparse.Namespace) -> None:
    scenario = read_scenario(arguments.scenario)
    with pipeline_for(arguments) as pipeline:
        about = pipeline.summary(scenario)
        profile = profile_of(pipeline, scenario)
    sizes = sizes_of(scenario) | about
    if arguments.json:
        found = {"scenario": str(arguments.scenario), "fingerprint": scenario.fingerprint, **sizes}
        attributes = {name: str(kind) for name, kind in scenario.attributes.items()}
        print_json(found | {"attributes": attributes, **profile_for_programs(scenario, profile)})
        return
    print(f"{scenario.settings.name}  {scenario.fingerprint}")
    for name, value in sizes.items():
        print(f"  {name:<16} {value:>14,}")
    print()
    if profile.attributes:
        print(f"{attribute_table(profile.attributes)}\n")
    _print_lines(profile_in_words(scenario, profile))
    _print_lines(profile.warnings, "! ")
