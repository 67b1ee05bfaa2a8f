"""overstory apply, rollback: install a plan on a running network, or go back to the one before."""

import argparse
import asyncio
import math
import sys
from pathlib import Path
from typing import Any

import msgspec

from overstory.cli.options import whole
from overstory.cli.output import print_json
from overstory.cli.priority import behind_brokers
from overstory.cli.words import many, percents
from overstory.errors import OverstoryError, UsageError

FAILED = 1  # the exit code
WATCH = 5.0  # seconds
LIMIT = 0.10


class GivenUpError(OverstoryError):
    """The plan was not installed, and the network is as it was."""


def add_to(commands: Any) -> None:
    apply = commands.add_parser(
        "apply",
        help="install a plan on a running network, after showing what changes",
        description="Shows what a plan changes on a running network, asks, installs just that on all brokers at once, "
        "moves clients, and says what was measured against what was predicted. See docs/control.md.",
    )
    apply.add_argument("plan", metavar="PLAN", type=Path, help="the folder of the plan")
    add_network(apply)
    apply.add_argument(
        "--scenario", type=Path, metavar="DIR", help="that the plan was made for (default: the running one)"
    )
    apply.add_argument("--dry-run", action="store_true", help="only show what would change")
    apply.add_argument("--moves", type=whole(0, 10**9), metavar="K", help="move the best K clients only (default: all)")
    apply.add_argument(
        "--canary",
        type=_share,
        metavar="SHARE",
        help="move this share of the clients first, such as 5%%, and go back "
        "by itself if what is measured exceeds what was predicted",
    )
    apply.add_argument(
        "--limit", type=_share, default=LIMIT, metavar="SHARE", help="by which it may exceed it (default: 10%%)"
    )
    apply.add_argument(
        "--at-once",
        type=whole(1, 10**9),
        default=100,
        metavar="N",
        help="clients on their way in the whole network at a time (default: 100)",
    )
    add_installing(apply)
    apply.set_defaults(run=run_apply)
    rollback = commands.add_parser("rollback", help="go back to the plan that a running network had before")
    add_network(rollback)
    add_installing(rollback)
    rollback.set_defaults(run=run_rollback)


def add_network(command: argparse.ArgumentParser) -> None:
    """The options of all commands that talk to a running network."""
    command.add_argument("--to", required=True, metavar="URL", help="of any broker's HTTP endpoint, http://HOST:PORT")
    command.add_argument(
        "--history", type=Path, metavar="DIR", help="of the network (default: in the user's state folder)"
    )
    command.add_argument("--json", action="store_true", help="print one JSON object")


def add_installing(command: argparse.ArgumentParser) -> None:
    """The options of commands that install a plan."""
    command.add_argument("--yes", action="store_true", help="do not ask")
    command.add_argument(
        "--patience", type=float, default=60.0, metavar="SECONDS", help="for brokers to hold the plan (default: 60)"
    )
    command.add_argument(
        "--watch", type=float, default=WATCH, metavar="SECONDS", help="to measure before and after (default: 5)"
    )


def _share(text: str) -> float:
    try:
        value = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no share; write it as 5%% or 0.05")
    return value


def run_apply(arguments: argparse.Namespace) -> int:
    from overstory.broker.admin import files_in
    from overstory.control.applying import Options
    from overstory.control.brokers import Brokers
    from overstory.control.steps import Asked, carry_out
    from overstory.model.plan import read_plan
    from overstory.model.scenario import read_scenario

    plan = read_plan(arguments.plan)
    scenario = None if arguments.scenario is None else read_scenario(arguments.scenario)
    options = Options(
        scenario=scenario,
        files=files_in(str(arguments.plan)),
        moves=arguments.moves,
        history=arguments.history,
        patience=arguments.patience,
        at_once=arguments.at_once,
    )
    asked = Asked(arguments.watch, arguments.canary, arguments.limit, arguments.dry_run)
    brokers = Brokers(arguments.to)
    with behind_brokers():
        done = asyncio.run(carry_out(plan, brokers, options, asked, lambda found: _agreed(found, arguments), tell))
    return _say(done, arguments)


def run_rollback(arguments: argparse.Namespace) -> int:
    from overstory.control.applying import Options
    from overstory.control.brokers import Brokers
    from overstory.control.operating import rollback
    from overstory.control.steps import Done

    if not arguments.yes and not _yes("go back to the plan before?"):
        raise UsageError("nothing was changed")
    options = Options(history=arguments.history, patience=arguments.patience)
    with behind_brokers():
        outcome = asyncio.run(rollback(Brokers(arguments.to), options, tell))
    return _say(Done(outcome.state, outcome), arguments)


def _agreed(found: Any, arguments: argparse.Namespace) -> bool:
    """Shows what would be done, and asks."""
    print(shown(found), file=sys.stderr)
    return bool(arguments.dry_run or arguments.yes or _yes("apply it?"))


def _yes(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here; say --yes, or --dry-run to look only")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def shown(found: Any) -> str:
    """What would be done, in a few lines."""
    preview, rebased = found.preview, found.rebased
    lines = [
        f"epoch {found.previous} → {found.epoch}, planned by {found.planner or 'nobody'}",
        f"trees      {preview.trees[0]} → {preview.trees[1]}, {preview.same_trees} as before",
        f"filters    {many(preview.filters, 'row')} of the plan differ",
        f"clients    {many(preview.moves, 'client')} to be moved",
        f"cost       {_costs(preview.cost)}",
        f"change     {many(preview.entries, 'member')} join flows, {preview.package_bytes:,} bytes for each broker",
    ]
    if rebased.differs or rebased.elsewhere:
        lines.append(
            f"rebased    since the plan was made: {rebased.late} subscriptions are new, {rebased.changed} are others, "
            f"{rebased.ended} have ended; {rebased.elsewhere} are of clients that are elsewhere"
        )
    return "\n".join(lines)


def _costs(cost: tuple[float | None, float | None]) -> str:
    if cost[0] is None or cost[1] is None:
        return "not predicted by both plans"
    saved = f" ({percents(cost[1] / cost[0] - 1)})" if cost[0] else ""
    return f"{cost[0]:,.0f} → {cost[1]:,.0f}{saved} predicted"


def tell(_: str, step: Any) -> None:
    from overstory.control.operating import as_step

    print(as_step(step.state, step), file=sys.stderr)


def about_verdict(verdict: Any) -> str:
    """What was measured after a change beside what was predicted, in words."""
    if verdict.measured == math.inf:
        return ": there was none before, and there is some now"
    predicted = "none" if verdict.predicted is None else f"{verdict.predicted:.3f}"
    return f", as a ratio to before: {verdict.measured:.3f} measured, {predicted} predicted"


def _say(done: Any, arguments: argparse.Namespace) -> int:
    """Says what came of it. Raises a ``GivenUpError`` if the plan is not in use."""
    outcome = done.outcome
    if arguments.json:
        told = {"state": done.state, "outcome": outcome, "verdict": done.verdict, "note": done.note}
        print_json(msgspec.json.decode(msgspec.json.encode(told)))  # which writes null for a ratio to nothing
        return 0 if done.state in ("installed", "rolled back", "shown", "declined") and not done.note else FAILED
    if outcome is None:
        print(done.state)
        return 0
    print(
        f"{done.state}: epoch {outcome.epoch}; all held it after {outcome.seconds.get('prepared', 0):.2f} s, used it "
        f"{outcome.seconds.get('activated', 0):.2f} s later, and the old one had drained "
        f"{outcome.seconds.get('drained', 0):.2f} s after that"
    )
    if outcome.asked:
        print(f"clients: {outcome.asked} asked to move, {outcome.moved} moved, {outcome.stayed} stay where they are")
    if done.verdict is not None and done.verdict.measured is not None:
        print(f"core cost of an event{about_verdict(done.verdict)}")
    if done.note:
        raise GivenUpError(done.note)
    return 0
