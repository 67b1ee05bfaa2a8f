"""The command line. One file per command; this one parses arguments and turns errors into exit codes.

Exit codes: 0 ok, 1 failed, 3 stale plan, 4 infeasible, 64 usage. Errors are one line on standard error, with a caret
below where there is text to point into, or one line for each problem of a scenario; with ``--json`` they are one JSON
object on standard output.
"""

import argparse
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, NoReturn

from overstory.cli import apply as apply_command
from overstory.cli import bench as bench_command
from overstory.cli import broker as broker_command
from overstory.cli import bursts as bursts_command
from overstory.cli import clusters as clusters_command
from overstory.cli import coordinate as coordinate_command
from overstory.cli import demo as demo_command
from overstory.cli import diff as diff_command
from overstory.cli import explain as explain_command
from overstory.cli import filter as filter_command
from overstory.cli import lab as lab_command
from overstory.cli import observe as observe_command
from overstory.cli import operate as operate_command
from overstory.cli import plan as plan_command
from overstory.cli import pub as pub_command
from overstory.cli import scenario as scenario_command
from overstory.cli import sub as sub_command
from overstory.cli import top as top_command
from overstory.cli import topics as topics_command
from overstory.cli import trace as trace_command
from overstory.cli import up as up_command
from overstory.cli.output import print_error
from overstory.errors import InfeasibleError, OverstoryError, StalePlanError, UsageError
from overstory.model.naming import near_words

OK, FAILED, STALE, INFEASIBLE, USAGE = 0, 1, 3, 4, 64
CODES = ((UsageError, USAGE), (StalePlanError, STALE), (InfeasibleError, INFEASIBLE), (OverstoryError, FAILED))
COMMANDS = (
    demo_command,
    scenario_command,
    plan_command,
    diff_command,
    explain_command,
    bursts_command,
    clusters_command,
    topics_command,
    lab_command,
    filter_command,
    broker_command,
    up_command,
    observe_command,
    coordinate_command,
    apply_command,
    operate_command,
    top_command,
    trace_command,
    pub_command,
    sub_command,
    bench_command,
)


class Arguments(argparse.ArgumentParser):
    """The parser of a command. A wrong command line is our own kind of error. Options are written in full, since a part
    of a name could mean another option in the next version."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Says at the command itself, which alone knows its options, what it does not know."""
        known, unknown = super().parse_known_args(args, namespace)
        if unknown and unknown[0].startswith("-"):
            name = unknown[0].partition("=")[0]
            self.error(f"there is no option {name}{near_words(name, self._option_string_actions)}")
        if unknown:
            self.error(f"'{unknown[0]}' is one argument too many")
        return known, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Of several words one must be meant: a command, an action, a kind."""
        if action.choices is not None and value not in action.choices:
            known = ", ".join(map(str, action.choices))
            what = "/".join(action.option_strings) or action.metavar
            self.error(f"{what} '{value}' is not known{near_words(str(value), action.choices)}; there are {known}")

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see '{self.prog} --help'")


def parser() -> argparse.ArgumentParser:
    arguments = Arguments(prog="overstory", description="Publish/subscribe that plans its own trees.")
    arguments.add_argument("--version", action="version", version=f"overstory {version('overstory')}", help="print it")
    commands = arguments.add_subparsers(metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(commands)
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a character is no reason to fail
    given = sys.argv[1:] if argv is None else list(argv)
    as_json = "--json" in given
    try:
        arguments = parser().parse_args(given)
        code: int | None = arguments.run(arguments)
        sys.stdout.flush()
    except OverstoryError as error:
        print_error(error, as_json)
        return next(code for kind, code in CODES if isinstance(error, kind))
    except BrokenPipeError:  # the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        print("overstory: interrupted", file=sys.__stderr__)
        return FAILED
    return code or OK
