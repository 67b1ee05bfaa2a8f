"""overstory bursts"""

import argparse
from pathlib import Path
from typing import Any

from overstory.cli.engine import add_options, pipeline_for, plan_for
from overstory.cli.options import share, whole
from overstory.cli.output import print_json
from overstory.cli.tables import table
from overstory.model.plan import Header, Plan
from overstory.model.scenario import read_scenario
from overstory.pipeline.bursts import POLICIES
from overstory.planners import defaults

WIDEST = 26  # characters of a filter that are shown


def add_to(commands: Any) -> None:
    command = commands.add_parser(
        "bursts",
        help="which subscriptions would set off a burst if they were removed",
        description="Ranks subscriptions by the covered ones that their removal would uncover, and predicts what each "
        "routing policy would send: messages on a link, on average, and publications that would cross links in vain.",
    )
    command.add_argument("scenario", metavar="DIR", type=Path, help="the folder of the scenario")
    command.add_argument("--plan", metavar="PLAN", type=Path, help="whose trees to take (default: one spanning tree)")
    command.add_argument(
        "--top", type=whole(1, 10**9), default=20, metavar="N", help="how many to show (default: %(default)s)"
    )
    command.add_argument(
        "--threshold",
        type=share("its events", with_one=True, with_zero=True),
        default=0.9,
        metavar="SHARE",
        help="of selective pruning (default: %(default)s)",
    )
    add_options(command)
    command.set_defaults(run=run_bursts)


def run_bursts(arguments: argparse.Namespace) -> None:
    scenario = read_scenario(arguments.scenario)
    if arguments.plan is not None:
        plan = plan_for(arguments.plan, scenario)
    else:
        plan = Plan.of(Header("defaults", scenario.fingerprint), defaults.tables(scenario))
    with pipeline_for(arguments) as pipeline:
        found = pipeline.bursts(scenario, plan, arguments.top, arguments.threshold)
    if arguments.json:
        print_json({"bursts": [burst.as_json() for burst in found]})
        return
    if not found:
        print("no subscription covers another: removing one uncovers nothing")
        return
    columns = ("id", "broker", "filter", "events", "alike", "links", "new roots", *POLICIES, "in vain")
    rows = [
        (
            burst.subscription,
            burst.broker,
            burst.filter if len(burst.filter) <= WIDEST else f"{burst.filter[: WIDEST - 1]}…",
            burst.events,
            burst.similarity,
            burst.links,
            burst.new_roots,
            *(burst.per_link(policy) for policy in POLICIES),
            burst.false_positives["selective"],
        )
        for burst in found
    ]
    print(table(columns, rows))
    print("alike: the share of its events that others want; new roots: on the link with most of them")
    print("none to cost: messages on a link, on average; in vain: crossings that selective pruning would leave behind")
