"""overstory scenario make|import|show"""

import argparse
from pathlib import Path
from typing import Any

from overstory.cli.engine import add_options, pipeline_for, sizes_of
from overstory.cli.output import print_json
from overstory.errors import UsageError
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import GENERATORS, topology
from overstory.model.scenario import read_scenario

KINDS = {"localized": "keywords wanted by brokers near each other, as in the routing-trees paper"}


def add_to(commands: Any) -> None:
    command = commands.add_parser("scenario", help="make, import or look at a scenario")
    kinds = command.add_subparsers(metavar="ACTION", required=True)
    _add_make(kinds)
    _add_import(kinds)
    show = kinds.add_parser("show", help="check a scenario, and tell what is in it")
    show.add_argument("scenario", metavar="DIR", type=Path)
    add_options(show)
    show.set_defaults(run=run_show)


def _add_make(kinds: Any) -> None:
    make = kinds.add_parser("make", help="generate a scenario", description=f"Kinds: {', '.join(KINDS)}.")
    make.add_argument("kind", metavar="KIND", help="; ".join(f"{name}: {what}" for name, what in KINDS.items()))
    make.add_argument("folder", metavar="DIR", type=Path)
    known = ", ".join(GENERATORS)
    make.add_argument(
        "--topology",
        default="transit-stub",
        help=f"{known}, zoo:NAME, topohub:KEY or FILE.graphml (default: %(default)s)",
    )
    make.add_argument("--brokers", type=int, help="how many, for a generated topology (default: 500)")
    make.add_argument("--seed", type=int, default=0)
    for name, default in _defaults():
        make.add_argument(
            f"--{name.replace('_', '-')}", type=type(default), default=default, help="(default: %(default)s)"
        )
    make.add_argument("--json", action="store_true", help="print one JSON object")
    make.set_defaults(run=run_make)


def _defaults() -> list[tuple[str, Any]]:
    some = Localized()
    return [(name, getattr(some, name)) for name in some.__struct_fields__]


def run_make(arguments: argparse.Namespace) -> None:
    if arguments.kind not in KINDS:
        raise UsageError(f"there is no kind of scenario '{arguments.kind}'; there are {', '.join(KINDS)}")
    network = topology(arguments.topology, arguments.brokers, arguments.seed)
    parameters = Localized(**{name: getattr(arguments, name) for name, _ in _defaults()})
    make_localized(arguments.folder, network, parameters, arguments.seed)
    _tell(arguments, sizes_of(read_scenario(arguments.folder)) | {"events": parameters.events})


def _tell(arguments: argparse.Namespace, sizes: dict[str, int]) -> None:
    if arguments.json:
        print_json({"scenario": str(arguments.folder), **sizes})
        return
    print(f"{arguments.folder}: " + ", ".join(f"{value:,} {name}" for name, value in sizes.items()))


def _add_import(kinds: Any) -> None:
    read = kinds.add_parser("import", help="make a scenario of files: CSV, JSON lines, Parquet, GraphML")
    read.add_argument("folder", metavar="DIR", type=Path)
    read.add_argument("--events", required=True, type=Path, help="the log: .csv, .jsonl, .json or .parquet (also .gz)")
    read.add_argument("--topology", required=True, help="as for 'make', or a folder or file of links")
    read.add_argument("--brokers", type=int, help="how many, for a generated topology")
    read.add_argument("--publisher", metavar="COLUMN", help="the column that tells who published (default: by chance)")
    read.add_argument("--time", metavar="COLUMN", help="the column with the time")
    read.add_argument("--bytes", metavar="COLUMN", help="the column with the size (default: 1 byte each)")
    read.add_argument("--columns", metavar="A,B,…", help="the attributes to keep (default: all)")
    read.add_argument("--subscriptions", help="a file with columns client and filter, or a number to generate")
    read.add_argument(
        "--selectivity", type=float, default=0.01, help="of generated subscriptions (default: %(default)s)"
    )
    read.add_argument("--seed", type=int, default=0)
    add_options(read)
    read.set_defaults(run=run_import)


def run_import(arguments: argparse.Namespace) -> None:
    from overstory.lab.importing import Import, import_scenario

    with pipeline_for(arguments) as pipeline:
        sizes = import_scenario(
            arguments.folder,
            Import(
                events=arguments.events,
                topology=arguments.topology,
                brokers=arguments.brokers,
                publisher=arguments.publisher,
                time=arguments.time,
                bytes=arguments.bytes,
                subscriptions=arguments.subscriptions,
                selectivity=arguments.selectivity,
                columns=tuple(arguments.columns.split(",")) if arguments.columns else None,
                seed=arguments.seed,
            ),
            pipeline,
        )
    _tell(arguments, sizes)


def run_show(arguments: argparse.Namespace) -> None:
    scenario = read_scenario(arguments.scenario)
    with pipeline_for(arguments) as pipeline:
        about = pipeline.summary(scenario)
    attributes = {name: str(kind) for name, kind in scenario.attributes.items()}
    if arguments.json:
        sizes = sizes_of(scenario) | about
        print_json(
            {
                "scenario": str(arguments.scenario),
                "fingerprint": scenario.fingerprint,
                **sizes,
                "attributes": attributes,
            }
        )
        return
    print(f"{scenario.settings.name}  {scenario.fingerprint}")
    for name, value in (sizes_of(scenario) | about).items():
        print(f"  {name:<16} {value:>14,}")
    print("  attributes       " + ", ".join(f"{name} ({kind})" for name, kind in attributes.items()))
