"""overstory lab list|run"""

import argparse
from typing import Any

from overstory.cli.engine import parameters_in
from overstory.cli.output import print_json
from overstory.cli.tables import shown, table
from overstory.lab.experiments import EXPERIMENTS, run_experiment


def add_to(commands: Any) -> None:
    command = commands.add_parser("lab", help="run experiments")
    actions = command.add_subparsers(metavar="ACTION", required=True)
    every = actions.add_parser("list", help="the experiments that there are")
    every.add_argument("--json", action="store_true", help="print one JSON object")
    every.set_defaults(run=run_list)
    run = actions.add_parser("run", help="run one of them")
    run.add_argument("name", metavar="NAME", help=", ".join(EXPERIMENTS))
    run.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of the experiment")
    run.add_argument("--json", action="store_true", help="print one JSON object")
    run.set_defaults(run=run_run)


def run_list(arguments: argparse.Namespace) -> None:
    if arguments.json:
        listed = [
            {"name": each.name, "summary": each.summary, "parameters": each.parameters} for each in EXPERIMENTS.values()
        ]
        print_json({"experiments": listed})
        return
    for each in EXPERIMENTS.values():
        told = ", ".join(f"{key}={'…' if value is None else value}" for key, value in each.parameters.items())
        print(f"{each.name}: {each.summary} ({told})")


def run_run(arguments: argparse.Namespace) -> None:
    given = parameters_in(arguments.set)
    result = run_experiment(arguments.name, given)
    if arguments.json:
        rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
        print_json({"experiment": arguments.name, "parameters": given, "rows": rows, **result.totals})
        return
    print(table(result.columns, result.rows))
    for name, value in result.totals.items():
        print(f"{name.replace('_', ' ')}: {f'{value:.4f}' if isinstance(value, float) else shown(value)}")
