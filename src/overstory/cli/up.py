"""overstory up: run a scenario's network on this machine, and see that links carry what the meter predicts."""

import argparse
import asyncio
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.live import Live

from overstory.cli.engine import add_options, pipeline_for, plan_for, planned
from overstory.cli.options import whole
from overstory.cli.output import print_json
from overstory.cli.tables import table
from overstory.cli.watching import HOST, Watch, network_file, write_network
from overstory.errors import OverstoryError
from overstory.lab.live import Network
from overstory.lab.rehearsal import Rehearsal, Rehearsed, plan_for_sized, rehearse, sized, types_of, wanted
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.scorecard import Traffic
from overstory.pipeline.pipeline import Pipeline
from overstory.routing.policies import SUMMARIES

ONE_TREE = "spt"  # the planner, where no plan is given
LINK_COLUMNS = ("from", "to", "events", "predicted", "bytes", "predicted", "control", "framing")
MOST_ROWS = 20
FOREVER = 0
FAILED = 1  # the exit code


class MeasuredOtherwiseError(OverstoryError):
    """The network did something else than the plan says."""


def add_to(commands: Any) -> None:
    command = commands.add_parser("up", help="run a scenario's network of brokers on this machine")
    command.add_argument("scenario", type=Path, metavar="DIR", help="the folder of the scenario")
    command.add_argument(
        "plan", type=Path, metavar="PLAN", nargs="?", help="its plan (default: one tree for everything)"
    )
    command.add_argument("--replay", action="store_true", help="publish the scenario's events, compare, and end")
    command.add_argument(
        "--policy", default="active", choices=sorted(SUMMARIES), metavar="NAME", help="of pruning (default: active)"
    )
    command.add_argument("--folder", type=Path, help="for logs and addresses, made anew (default: a temporary one)")
    command.add_argument("--durable", action="store_true", help="keep sessions and spooled events on disk")
    command.add_argument(
        "--seconds", type=whole(0, 10**9), default=FOREVER, metavar="N", help="to run (default: until interrupted)"
    )
    add_options(command)
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    scenario = read_scenario(arguments.scenario)
    given = None if arguments.plan is None else plan_for(arguments.plan, scenario)
    with _folder(arguments.folder) as folder:
        if arguments.replay or given is None:
            with pipeline_for(arguments) as pipeline:
                plan, scenario = _prepared(scenario, given, pipeline, folder)
                predicted = pipeline.score(scenario, plan, 0, lambda: None)[1] if arguments.replay else None
        else:
            plan, predicted = given, None
            scenario = sized(scenario, folder / "scenario")
            plan = plan_for_sized(plan, scenario)
        plan.write(folder / "plan")
        settings: dict[str, Any] = {"policy": arguments.policy, "types": types_of(scenario)}
        if arguments.durable:
            settings["store"] = ""
        started = time.monotonic()
        with Network(folder / "scenario", folder / "plan", folder / "logs", settings) as network:
            write_network(network, folder)
            print(f"{len(network.ports)} brokers run, after {time.monotonic() - started:.1f} s", file=sys.stderr)
            if predicted is not None:
                return _replay(network, scenario, plan, predicted, arguments)
            _watch(network, scenario, arguments, folder)
    return 0


def _prepared(scenario: Scenario, given: Plan | None, pipeline: Pipeline, folder: Path) -> tuple[Plan, Scenario]:
    """The plan, and the scenario with the sizes of real packets."""
    pipeline.validate(scenario)
    plan = planned(ONE_TREE, scenario, pipeline, {}, 0) if given is None else given
    scenario = sized(scenario, folder / "scenario")
    return plan_for_sized(plan, scenario), scenario


@contextmanager
def _folder(asked: Path | None) -> Iterator[Path]:
    """The folder for all that the network writes."""
    if asked is not None:
        asked.mkdir(parents=True, exist_ok=True)
        for name in ("scenario", "plan", "logs"):
            shutil.rmtree(asked / name, ignore_errors=True)
        yield asked
        return
    with tempfile.TemporaryDirectory(prefix="overstory-up-") as made:
        yield Path(made)


def _replay(network: Network, scenario: Scenario, plan: Plan, predicted: Traffic, arguments: argparse.Namespace) -> int:
    """Publishes the log, and compares. Raises a ``MeasuredOtherwiseError`` if something differs. With ``--json`` one
    object says so, and the exit code is returned."""
    rehearsal = Rehearsal(scenario, plan, network)
    began = time.monotonic()
    result = asyncio.run(rehearse(rehearsal))
    seconds = time.monotonic() - began
    links = links_of(scenario, result, predicted)
    summary = summary_of(result, wanted(scenario, rehearsal.log), links, len(rehearsal.log.ids), seconds)
    wrong, differ = summary["clients_with_other_deliveries"], summary["links_with_other_traffic"]
    problem = (
        f"{differ} links carried other traffic than predicted, and {wrong} clients got other events than they want; "
        "'overstory trace' shows the way of an event"
    )
    if arguments.json:
        error = {"error": {"kind": MeasuredOtherwiseError.__name__, "problem": problem}} if differ or wrong else {}
        print_json({**summary, "links": links, **error})
        return FAILED if error else 0
    print(links_table(links))
    print(about(summary))
    if differ or wrong:
        raise MeasuredOtherwiseError(problem)
    return 0


def summary_of(
    result: Rehearsed, should: dict[int, set[int]], links: list[dict[str, int]], events: int, seconds: float
) -> dict[str, Any]:
    """What was measured, in a few numbers."""
    return {
        "brokers": len(result.reports),
        "events": events,
        "deliveries": sum(map(len, result.got.values())),
        "clients_with_other_deliveries": wrong_clients(result, should),
        "links_with_other_traffic": sum(not is_as_predicted(row) for row in links),
        "seconds": round(seconds, 2),
        "memory_bytes": sum(report.memory_bytes for report in result.reports.values()),
        "busiest_cpu_seconds": max(report.cpu_seconds for report in result.reports.values()),
    }


def wrong_clients(result: Rehearsed, should: dict[int, set[int]]) -> int:
    """How many clients got other events than they want."""
    return sum(set(result.got[id_].tolist()) != should.get(id_, set()) for id_ in result.got)


def is_as_predicted(row: dict[str, int]) -> bool:
    """Whether a link carried what was predicted."""
    return row["events"] == row["predicted_events"] and row["bytes"] == row["predicted_bytes"]


def links_of(scenario: Scenario, result: Rehearsed, predicted: Traffic) -> list[dict[str, int]]:
    """What was measured on each directed link, beside what was predicted."""
    network = scenario.network
    columns = {
        "from": network.ids[network.sources],
        "to": network.ids[network.targets],
        "events": result.events,
        "predicted_events": predicted.frames,
        "bytes": result.bytes,
        "predicted_bytes": predicted.bytes,
        "control_bytes": result.control,
        "framing_bytes": result.framing,
    }
    rows = np.column_stack(list(columns.values())).tolist()
    return [dict(zip(columns, row, strict=True)) for row in rows]


def links_table(links: list[dict[str, int]]) -> str:
    """The links with most bytes, the first of them first."""
    rows = sorted((list(row.values()) for row in links), key=lambda row: -row[4])
    shown: list[list[object]] = [list(row) for row in rows[:MOST_ROWS]]
    rest = f"\n… and {len(rows) - MOST_ROWS:,} more links" if len(rows) > MOST_ROWS else ""
    return f"{table(LINK_COLUMNS, shown)}{rest}"


def about(summary: dict[str, Any]) -> str:
    """What was measured, in words."""
    return (
        f"{summary['events']:,} events through {summary['brokers']} brokers in {summary['seconds']:,.1f} s: "
        f"{summary['deliveries']:,} deliveries, {summary['clients_with_other_deliveries']} clients with others than "
        f"they want, {summary['links_with_other_traffic']} links with other traffic than predicted; "
        f"{summary['memory_bytes'] / 1e6:,.0f} MB in all"
    )


def _watch(network: Network, scenario: Scenario, arguments: argparse.Namespace, folder: Path) -> None:
    """Shows the network until it is interrupted."""
    names = scenario.broker_names
    addresses = {str(broker): "{}:{}".format(*network.address(broker)) for broker in network.ports}
    url = f"http://{HOST}:{next(iter(network.ports.values())).monitor}"
    if arguments.json:
        print_json({"brokers": addresses, "network": str(network_file(folder)), "url": url})
    else:
        print(f"see it with: overstory top {folder}\napply another plan with: overstory apply PLAN --to {url}")
    sys.stdout.flush()
    watch, ends = Watch(names), time.monotonic() + arguments.seconds if arguments.seconds else float("inf")
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(1))
    try:
        with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
            while time.monotonic() < ends and not stopped:
                live.update(watch.table(network.reports(), time.monotonic()), refresh=True)
                time.sleep(min(1.0, max(0.0, ends - time.monotonic())))
    except KeyboardInterrupt:
        pass
