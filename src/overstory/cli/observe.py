"""overstory observe: write a running network as a scenario."""

import argparse
import asyncio
import sys
import time
from pathlib import Path
from typing import Any

from overstory.cli.options import share, whole
from overstory.cli.output import print_json
from overstory.control.brokers import Brokers
from overstory.control.observing import OBSERVED, TODAY, Collecting, Observer
from overstory.errors import UsageError
from overstory.model.folders import KNOWN_BY, SCENARIO
from overstory.model.scenario import Scenario, read_scenario

SECONDS, WINDOW = 10, 6


def add_to(commands: Any) -> None:
    command = commands.add_parser(
        "observe",
        help="write a running network as a scenario",
        description="Writes the brokers, links, clients and subscriptions of a running network and a sample of its "
        "events as a scenario, with today's plan in it: plan, compare and score work on it like on any other.",
    )
    command.add_argument("url", metavar="URL", help="of the HTTP endpoint of any broker")
    command.add_argument("-o", "--output", required=True, metavar="DIR", type=Path, help="the folder of the scenario")
    command.add_argument(
        "--seconds",
        type=whole(0, 10**9),
        default=SECONDS,
        metavar="N",
        help="between two looks (default: %(default)s)",
    )
    command.add_argument(
        "--looks", type=whole(0, 10**9), default=1, metavar="N", help="how many; 0: until interrupted (default: 1)"
    )
    command.add_argument(
        "--window",
        type=whole(1, 10**6),
        default=WINDOW,
        metavar="N",
        help="looks whose events are kept (default: %(default)s)",
    )
    command.add_argument(
        "--rate",
        type=share("all messages", with_one=True, with_zero=True),
        metavar="SHARE",
        help="that brokers sample from now on (default: as they are configured)",
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    check_output(arguments.output)
    try:
        observer = asyncio.run(observe(arguments))
    except KeyboardInterrupt:
        observer = Observer(arguments.output, arguments.window)
    told = about(observer)
    if arguments.json:
        print_json(told)
        return
    print(
        f"{arguments.output}: {told['brokers']} brokers, {told['clients']:,} clients, {told['subscriptions']:,} "
        f"subscriptions, {told['events']:,} events, each of which stands for {told['scale']:,.1f}"
    )
    print(
        f"today's plan is in {arguments.output / TODAY}; compare it: overstory compare {arguments.output} --planners …"
    )


def check_output(folder: Path) -> None:
    """Raises a ``UsageError`` if the folder holds something else than an observed scenario."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file; give another name")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / OBSERVED).exists():
        what = "a scenario that was not observed" if (folder / KNOWN_BY[SCENARIO]).exists() else "something else"
        raise UsageError(f"{folder} exists already, and holds {what}; give another name, or remove it first")


async def observe(arguments: argparse.Namespace) -> Observer:
    """Looks as often as was asked for."""
    brokers = Brokers(arguments.url)
    await brokers.meet()
    if arguments.rate is not None:
        await brokers.sample_at(arguments.rate)
    collecting, observer = Collecting(brokers), Observer(arguments.output, arguments.window)
    done = 0
    while not arguments.looks or done < arguments.looks:
        await asyncio.sleep(arguments.seconds)
        scenario = observer.look(await collecting.look(), time.time())
        done += 1
        if arguments.looks != 1:
            print(_line(observer, scenario), file=sys.stderr)
    return observer


def _line(observer: Observer, scenario: Scenario) -> str:
    log = observer.log
    return (
        f"{log.published[-1]:,} events were published, {log.sampled[-1]:,} sampled; "
        f"{scenario.clients.num_rows:,} clients, {scenario.subscriptions.num_rows:,} subscriptions"
    )


def about(observer: Observer) -> dict[str, Any]:
    """What is in the folder, in a few numbers."""
    scenario = read_scenario(observer.folder)
    return {
        "scenario": str(observer.folder),
        "today": str(observer.folder / TODAY) if (observer.folder / TODAY).exists() else None,
        "brokers": scenario.brokers.num_rows,
        "clients": scenario.clients.num_rows,
        "subscriptions": scenario.subscriptions.num_rows,
        "events": sum(observer.log.sampled),
        "published": sum(observer.log.published),
        "scale": observer.log.scale,
    }
