"""overstory demo: what planning saves, on a network and a log that a person understands.

Telemetry, orders and alerts of sites across Europe (``lab.sites``). The two ways that are usual today, a copy to each
broker and one tree for everything, against the default planner, all priced by the same meter on the whole log.
"""

import argparse
import shutil
import textwrap
from dataclasses import replace
from math import floor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from overstory.cli.engine import (
    Scored,
    add_options,
    check_report,
    pipeline_for,
    planned,
    scored,
    set_up_of,
    sizes_of,
    write_page,
)
from overstory.cli.live_demo import LiveDemo, run_live
from overstory.cli.options import SEED, whole
from overstory.cli.output import print_json
from overstory.cli.plan import about_results, command_line, result_as_dict, results_table
from overstory.cli.tables import WIDTH
from overstory.errors import UsageError
from overstory.lab.sites import make_sites
from overstory.model.folders import check_can_be_made
from overstory.model.plan import Plan, Value
from overstory.model.scenario import SETTINGS_FILE, Scenario, read_scenario
from overstory.model.scorecard import Scorecard
from overstory.model.tables import STEERED as STEERED_KINDS
from overstory.pipeline.pipeline import Pipeline

EVENTS = 1_000_000
TEXT_WIDTH = 100
STEERS = "It keeps no trees, as it gives each event one of its own"


class Way(NamedTuple):
    """One way to carry the events."""

    name: str
    planner: str
    coalesce: bool  # whether copies of an event travel as one while they can
    folder: str = ""  # of its plan, if that is kept
    parameters: tuple[tuple[str, Value], ...] = ()


UNICAST = Way("a copy to each broker", "direct", coalesce=False)
ONE_TREE = Way("one tree", "spt", coalesce=True, folder="spt")
TREES = Way("trees alone", "tree-search", coalesce=True, folder="trees", parameters=(("steered", False),))
STEERED = Way("steered", "steered", coalesce=True, folder="steered", parameters=(("steer", "all"),))
OURS = Way("tree-search", "tree-search", coalesce=True, folder="tree-search")
WAYS = (UNICAST, ONE_TREE, TREES, STEERED, OURS)


def add_to(commands: Any) -> None:
    command = commands.add_parser("demo", help="what planning saves, on one machine and in a minute or two")
    command.add_argument(
        "--folder", type=Path, default=Path("overstory-demo"), help="where it goes (default: %(default)s)"
    )
    command.add_argument(
        "--events", type=whole(1, 10**9), default=EVENTS, metavar="N", help="events in the log (default: %(default)s)"
    )
    command.add_argument("--seed", type=SEED, default=1, metavar="N", help="of the log (default: %(default)s)")
    add_options(command, report=True)
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    def say(text: str) -> None:
        if not arguments.json:
            print(text, flush=True)

    check_report(arguments)
    folder = _fresh(arguments.folder)
    say("Sites in 37 countries publish telemetry, orders and alerts. Archives, control rooms, warehouses and")
    say("others subscribe with filters, such as \"kind = 'alert' AND severity >= 4\". Europe's research network:")
    make_sites(folder / "scenario", arguments.events, arguments.seed)
    scenario = read_scenario(folder / "scenario")
    sizes = sizes_of(scenario) | {"events": arguments.events}
    say("    " + ", ".join(f"{value:,} {name}" for name, value in sizes.items()))
    say("\nFive ways to carry the events, priced by the same meter on the whole log (cost: bytes on links):")
    results, set_up, live = _results(arguments, scenario, folder)
    report = arguments.report or folder / "report.html"
    write_page(report, scenario, [result.view for result in results.values()], command_line())
    plans = sorted(results.values(), key=lambda result: result.view.scorecard.cost)
    if arguments.json:
        shown = {"scenario": sizes, "plans": list(map(result_as_dict, plans)), "set_up": set_up, "report": str(report)}
        print_json({**shown, "live": {**live.summary, "links": live.links}})
        return
    say(textwrap.indent(f"{results_table(plans, WIDTH - 4)}\n{about_results(plans, set_up)}", "    "))
    say(f"\n{textwrap.fill(verdict(results), TEXT_WIDTH)}")
    say("\nFive brokers ran, each a process, under a plan of their own; real clients published a log of quotes:")
    say(textwrap.indent(live.text, "    "))
    say(f"\nWhere the traffic runs, drawn: {report}")
    say(f"What the plan does: overstory explain {folder / OURS.planner} --scenario {folder / 'scenario'}")


def verdict(results: dict[Way, Scored]) -> str:
    """What it saves, how far it is from the certified least, and what it costs in state."""
    card, unicast, tree = (results[way].view.scorecard for way in (OURS, UNICAST, ONE_TREE))
    saved = (
        f"{_compared(card.cost, unicast.cost)} a copy to each broker, and {_compared(card.cost, tree.cost)} one tree"
    )
    return (
        f"{OURS.name} {saved}. No plan can cost less than {floor(card.lower_bound):,}, which is certified, so it is at "
        f"most {card.gap or 0:.1%} above the least possible. {_kept(results[OURS].plan)}{_state(card, tree)}."
    )


def _kept(plan: Plan | None) -> str:
    """What brokers have to keep for a plan, apart from entries."""
    kinds = [] if plan is None else plan.flows["kind"].to_pylist()
    trees = sum(kind not in STEERED_KINDS for kind in kinds)
    if trees == len(kinds):
        return f"It keeps {trees} trees"
    return f"It gives each event a tree of its own, beside {trees} that it keeps" if trees else STEERS


def _state(card: Scorecard, tree: Scorecard) -> str:
    """Entries are not counted where they cost nothing and are very many."""
    if card.entries_core is None or tree.entries_core is None:
        return ""
    return f", and {card.entries_core:,} entries in the brokers' tables, where one tree keeps {tree.entries_core:,}"


def _compared(cost: float, other: float) -> str:
    if cost == other:
        return "costs as much as"
    share = 1 - cost / other
    return f"saves {share:.1%} of the cost of" if share > 0 else f"costs {-share:.1%} more than"


def _fresh(folder: Path) -> Path:
    """An old demo makes room for a new one; anything else stays."""
    if folder.is_file() or (folder.exists() and any(folder.iterdir()) and not _is_demo(folder)):
        raise UsageError(f"{folder} exists, and is no earlier demo; give another one with --folder")
    if _is_demo(folder):
        shutil.rmtree(folder)
    check_can_be_made(folder)
    return folder


def _is_demo(folder: Path) -> bool:
    return (folder / "scenario" / SETTINGS_FILE).exists()


def _results(
    arguments: argparse.Namespace, scenario: Scenario, folder: Path
) -> tuple[dict[Way, Scored], dict[str, float], LiveDemo]:
    """The results, the seconds of what all plans share, and what a live network did."""
    with pipeline_for(arguments) as pipeline:
        pipeline.validate(scenario)
        results = {way: _scored(way, scenario, pipeline, arguments, folder) for way in WAYS}
        set_up = set_up_of(pipeline)
        return results, set_up, run_live(pipeline, folder, OURS.planner)


def _scored(way: Way, scenario: Scenario, pipeline: Pipeline, arguments: argparse.Namespace, folder: Path) -> Scored:
    counted = replace(scenario, settings=msgspec.structs.replace(scenario.settings, coalesce=way.coalesce))
    watch = pipeline.clock.watch()
    plan = planned(way.planner, counted, pipeline, dict(way.parameters), arguments.seed)
    if way.folder:
        plan.write(folder / way.folder)
    return scored(way.name, counted, plan, pipeline, arguments.bound_effort, watch)
