"""overstory coordinate: the autopilot of a running network."""

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Any

import msgspec

from overstory.cli.engine import parameters_in
from overstory.cli.options import SEED, share, whole
from overstory.cli.output import print_json
from overstory.cli.priority import behind_brokers
from overstory.control.brokers import Brokers
from overstory.control.coordinating import DECISIONS, Coordinator, Setting, decisions_in
from overstory.control.deciding import Decision, Rules
from overstory.control.piloting import PLANNER, Planning
from overstory.errors import UsageError
from overstory.planners.chains import check_parameters


def add_to(commands: Any) -> None:
    command = commands.add_parser(
        "coordinate",
        help="keep a running network on the best plan",
        description="Observes a running network window by window, moves late subscriptions to the flows where they "
        "cost least, plans when the window has changed enough, and applies a plan that saves more than a threshold and "
        "pays for its change. Every decision is written down; 'overstory explain DIR' tells them.",
    )
    command.add_argument("url", metavar="URL", help="of the HTTP endpoint of any broker")
    command.add_argument("-o", "--output", required=True, metavar="DIR", type=Path, help="for decisions and plans")
    command.add_argument("--rules", metavar="FILE.toml", type=Path, help="thresholds, limits and pins")
    command.add_argument("--planner", default=PLANNER, metavar="NAME", help="(default: %(default)s)")
    command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of the planner")
    command.add_argument("--seed", type=SEED, default=0, metavar="N", help="of all that is drawn (default: 0)")
    command.add_argument("--seconds", type=float, default=60.0, metavar="S", help="of a window (default: %(default)s)")
    command.add_argument(
        "--window", type=whole(1, 1000), default=2, metavar="N", help="windows that are looked at (default: 2)"
    )
    command.add_argument("--windows", type=whole(1, 10**9), metavar="N", help="to go on for (default: for ever)")
    command.add_argument(
        "--rate",
        type=share("all messages", with_one=True, with_zero=True),
        metavar="SHARE",
        help="that brokers sample (default: as they are configured)",
    )
    command.add_argument("--master", help="where Spark runs (default: Spark only for large samples, on this machine)")
    command.add_argument("--dry-run", action="store_true", help="decide, and change nothing")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    given = parameters_in(arguments.set)
    check_parameters(arguments.planner, given)
    if not arguments.seconds > 0:
        raise UsageError("--seconds: a window is longer than 0 seconds")
    setting = Setting(
        rules_in(arguments.rules),
        Planning(arguments.planner, given, arguments.seed),
        arguments.seconds,
        arguments.window,
        arguments.rate,
        arguments.dry_run,
        arguments.master,
    )
    coordinator = Coordinator(Brokers(arguments.url), arguments.output, setting, _tell)
    before = len(decisions_in(arguments.output)) if (arguments.output / DECISIONS).exists() else 0
    try:
        with behind_brokers():
            asyncio.run(coordinator.run(arguments.windows))
    except KeyboardInterrupt:
        pass
    finally:
        coordinator.close()
    if arguments.json:
        made = decisions_in(arguments.output)[before:] if (arguments.output / DECISIONS).exists() else []
        print_json({"decisions": msgspec.to_builtins(made)})


def rules_in(path: Path | None) -> Rules:
    """The rules of a file. Raises a ``UsageError`` that says what is wrong with it."""
    if path is None:
        return Rules()
    try:
        return msgspec.toml.decode(path.read_bytes(), type=Rules)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; give the path of a TOML file") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} has no rules of a coordinator: {error}; see docs/control.md") from None


def _tell(decision: Decision) -> None:
    print(decision.told(), file=sys.stderr, flush=True)
