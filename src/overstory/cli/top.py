"""overstory top: watch a running network."""

import argparse
import time
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.live import Live

from overstory.cli.output import print_json
from overstory.cli.watching import Watch, read_network, reports_of
from overstory.errors import DisconnectedError


def add_to(commands: Any) -> None:
    command = commands.add_parser("top", help="watch a network that 'overstory up' runs")
    command.add_argument("folder", type=Path, metavar="FOLDER", help="the one that was given to 'overstory up'")
    command.add_argument("--once", action="store_true", help="print it once")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    places = read_network(arguments.folder)
    reports = reports_of(places)
    if not reports:
        raise DisconnectedError(f"no broker of {arguments.folder} answers; is the network still running?")
    if arguments.json:
        print_json({"brokers": msgspec.to_builtins(list(reports.values()))})
        return
    watch = Watch({})
    if arguments.once:
        Console().print(watch.table(reports, time.monotonic()))
        return
    try:
        with Live(auto_refresh=False) as live:
            while reports:
                live.update(watch.table(reports, time.monotonic()), refresh=True)
                time.sleep(1.0)
                reports = reports_of(places)
    except KeyboardInterrupt:
        pass
