"""overstory demo: the whole story on one machine. A network, a million events, two plans, and which is cheaper."""

import argparse
import shutil
import textwrap
from math import floor
from pathlib import Path
from typing import Any

from overstory.cli.engine import Scored, add_options, pipeline_for, planned, scored, set_up_of, sizes_of, write_page
from overstory.cli.output import print_json
from overstory.cli.plan import about_results, command_line, result_as_dict, results_table
from overstory.cli.tables import WIDTH
from overstory.errors import UsageError
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import topology
from overstory.model.scenario import SETTINGS_FILE, read_scenario

PLANNERS = ("spt", "mst")
WORKLOAD = Localized(keywords=300, events=1_000_000, locality=0.1)


def add_to(commands: Any) -> None:
    command = commands.add_parser("demo", help="the whole story on one machine, in a minute or two")
    command.add_argument(
        "--folder", type=Path, default=Path("overstory-demo"), help="where it goes (default: %(default)s)"
    )
    command.add_argument("--brokers", type=int, default=100)
    command.add_argument("--events", type=int, default=WORKLOAD.events)
    command.add_argument("--seed", type=int, default=1)
    add_options(command, report=True)
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    def say(text: str) -> None:
        if not arguments.json:
            print(text, flush=True)

    folder = _fresh(arguments.folder)
    say("A network of brokers, with clients that want keywords which others near them want, too:")
    parameters = Localized(keywords=WORKLOAD.keywords, events=arguments.events, locality=WORKLOAD.locality)
    network = topology("transit-stub", arguments.brokers, arguments.seed)
    make_localized(folder / "scenario", network, parameters, arguments.seed)
    scenario = read_scenario(folder / "scenario")
    sizes = sizes_of(scenario) | {"events": parameters.events}
    say("    " + ", ".join(f"{value:,} {name}" for name, value in sizes.items()))
    say("\nSpark matches the events, and every plan is priced by the same meter on the whole log:")
    results, set_up = _results(arguments, folder)
    report = arguments.report or folder / "report.html"
    write_page(report, scenario, [result.view for result in results], command_line())
    if arguments.json:
        print_json(
            {"scenario": sizes, "plans": list(map(result_as_dict, results)), "set_up": set_up, "report": str(report)}
        )
        return
    say(textwrap.indent(f"{results_table(results, WIDTH - 4)}\n{about_results(results, set_up)}", "    "))
    say(f"\n{_verdict(results[0], results[-1])}")
    say(f"\nWhere the traffic runs, drawn: {report}")


def _verdict(best: Scored, other: Scored) -> str:
    cost, card = best.view.scorecard.cost, best.view.scorecard
    text = (
        f"{best.name} is {1 - cost / other.view.scorecard.cost:.1%} cheaper than {other.name}, and flooding would cost "
        f"{card.flood / cost:.1f} times as much. No plan can cost less than {floor(card.lower_bound):,}: that is "
        f"certified, so {best.name} is at most {card.gap or 0:.1%} above the least possible."
    )
    return textwrap.fill(text, 100)


def _fresh(folder: Path) -> Path:
    """An old demo makes room for a new one; anything else stays."""
    if folder.exists():
        if not (folder / "scenario" / SETTINGS_FILE).exists():
            raise UsageError(f"{folder} exists, and is no earlier demo; give another one with --folder")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def _results(arguments: argparse.Namespace, folder: Path) -> tuple[list[Scored], dict[str, float]]:
    """And the seconds of what both plans share."""
    scenario = read_scenario(folder / "scenario")
    results = []
    with pipeline_for(arguments) as pipeline:
        pipeline.validate(scenario)
        for name in PLANNERS:
            watch = pipeline.clock.watch()
            plan = planned(name, scenario, pipeline, {}, arguments.seed)
            results.append(scored(name, scenario, plan, pipeline, arguments.bound_effort, watch))
            plan.write(folder / name)
        set_up = set_up_of(pipeline)
    return sorted(results, key=lambda result: result.view.scorecard.cost), set_up
