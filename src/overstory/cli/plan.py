"""overstory plan, score and compare"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from overstory.cli.engine import (
    Control,
    Scored,
    about_set_up,
    add_options,
    check_report,
    parameters_in,
    pipeline_for,
    plan_for,
    planned,
    scored,
    scored_reference,
    set_up_of,
    write_page,
)
from overstory.cli.options import SEED
from overstory.cli.output import print_json
from overstory.cli.planner_list import planner_list
from overstory.cli.tables import WIDTH, percent, shown, shown_down, table
from overstory.cli.topic_references import about_references, topic_references
from overstory.control.observing import TODAY
from overstory.errors import InfeasibleError, UsageError
from overstory.model.folders import check_can_be_made
from overstory.model.network import Network
from overstory.model.plan import DearLink, Plan, Value
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.scorecard import Scorecard, Traffic
from overstory.pipeline.bound import EFFORT
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.profile import warnings_of
from overstory.planners.chains import chain_named, check_parameters, parameters_of
from overstory.planners.own import known_planners
from overstory.planners.references import REFERENCES
from overstory.planners.registry import PROBLEMS, TREES, planner_for
from overstory.studio.text import plain

COLUMNS = (
    "planner",
    "cost",
    "core",
    "bound",
    "core gap",
    "bounded",
    "trees",
    "duplicates",
    "in sample",
    "held out",
    "seconds",
    "exceeded",
)
SPARE = ("duplicates", "trees", "in sample", "core", "bound")  # of these, which go first where there is no room


LINK_COLUMNS = ("source", "target", "price", "frames", "bytes")
CERTIFIED = ("lower_bound", "lower_bound_held_out")
BOUND_COSTS = (*CERTIFIED, "lower_bound_estimate")
BOUNDS = (*BOUND_COSTS, "bounded")
MONEY = ("cost", "core", "access", "upkeep", "control", "cost_fit", "cost_held_out", "flood", *BOUND_COSTS)
MOST_LINKS = 10  # whose predicted traffic a plan tells


def add_to(commands: Any) -> None:
    plan = commands.add_parser(
        "plan",
        help="decide how events travel",
        description="Decides how events travel, by one of the planners below, and says what that costs.",
        epilog=f"planners, by what they decide on:\n\n{planner_list()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    plan.add_argument("scenario", metavar="DIR", type=Path, help="the folder of the scenario")
    plan.add_argument(
        "--planner",
        metavar="NAME",
        help="one of those below, or several, as nearest+tree-search (default: that of --problem)",
    )
    problems = f"what to decide on: {', '.join(PROBLEMS)} (default: {TREES})"
    plan.add_argument("--problem", metavar="NAME", help=problems)
    plan.add_argument("-o", "--output", required=True, metavar="PLAN", type=Path, help="the folder of the plan")
    plan.add_argument("--base", metavar="PLAN", type=Path, help="a plan that decides what this planner does not")
    plan.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of the planner")
    plan.add_argument("--seed", type=SEED, default=0, metavar="N", help="of all that is drawn (default: %(default)s)")
    add_options(plan, report=True)
    plan.set_defaults(run=run_plan)
    score = commands.add_parser("score", help="measure what a plan costs, on the whole log")
    score.add_argument("scenario", metavar="DIR", type=Path, help="the folder of the scenario")
    score.add_argument("plan", metavar="PLAN", type=Path, help="the folder of the plan")
    score.add_argument("--links", action="store_true", help="also list the traffic on each directed link")
    add_options(score, report=True)
    score.set_defaults(run=run_score)
    compare = commands.add_parser("compare", help="plan and score with several planners")
    compare.add_argument("scenario", metavar="DIR", type=Path, help="the folder of the scenario")
    compare.add_argument("--planners", required=True, metavar="A,B,…", help=", ".join([*known_planners(), *REFERENCES]))
    compare.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for planners that have it")
    compare.add_argument(
        "--seed", type=SEED, default=0, metavar="N", help="of all that is drawn (default: %(default)s)"
    )
    add_options(compare, report=True)
    compare.set_defaults(run=run_compare)


def run_plan(arguments: argparse.Namespace) -> None:
    given = parameters_in(arguments.set)
    name = arguments.planner or planner_for(arguments.problem or TREES)
    if arguments.problem is not None:
        planner_for(arguments.problem)  # which must be one
    if arguments.problem not in (None, *(planner.problem for planner in chain_named(name))):
        raise UsageError(f"--problem {arguments.problem}: {name} solves another; leave out one of the two")
    check_parameters(name, given)
    check_can_be_made(arguments.output)
    check_report(arguments)
    control = Control.asked(arguments)
    scenario = read_scenario(arguments.scenario)
    base = plan_for(arguments.base, scenario) if arguments.base is not None else None
    with pipeline_for(arguments) as pipeline:
        pipeline.validate(scenario)
        watch = pipeline.clock.watch()
        plan = planned(name, scenario, pipeline, given, arguments.seed, base)
        result = scored(name, scenario, plan, pipeline, arguments.bound_effort, watch, control)
        set_up = set_up_of(pipeline)
    card = result.view.scorecard
    if card.exceeded:
        raise InfeasibleError(f"the plan of {name} exceeds a limit: {'; '.join(card.exceeded)}")
    with_predictions(plan, scenario, card, result.view.traffic).write(arguments.output)
    if arguments.report is not None:
        write_page(arguments.report, scenario, [result.view], command_line())
    if arguments.json:
        print_json({"plan": str(arguments.output), **result_as_dict(result), "set_up": set_up})
    else:
        print(results_table([result]))
        print(about_results([result], set_up, scenario.settings.currency))
        print(f"written to {arguments.output}")


def with_predictions(plan: Plan, scenario: Scenario, card: Scorecard, traffic: Traffic) -> Plan:
    """Seconds are not among them: the same inputs give the same plan, byte for byte."""
    known = {name: value for name, value in msgspec.to_builtins(card).items() if isinstance(value, (int, float))}
    bounds = {name: known.pop(name) for name in BOUNDS if name in known}
    links = dearest_links(scenario, traffic)
    header = msgspec.structs.replace(plan.header, predicted=known, bounds=bounds, dearest_links=links)
    return plan.headed(header)


def dearest_links(scenario: Scenario, traffic: Traffic, most: int = MOST_LINKS) -> tuple[DearLink, ...]:
    """The links with the largest parts of core, the dearest first and by their ends on ties; idle ones are not told."""
    network = scenario.network
    costs = traffic.bytes * network.prices * scenario.settings.prices.core
    order = np.argsort(-costs, kind="stable")
    order = order[traffic.bytes[order] > 0][:most]
    ends = network.ids[network.sources[order]].tolist(), network.ids[network.targets[order]].tolist()
    rows = zip(*ends, traffic.bytes[order].tolist(), costs[order].tolist(), strict=True)
    return tuple(DearLink(*row) for row in rows)


def run_score(arguments: argparse.Namespace) -> None:
    check_report(arguments)
    control = Control.asked(arguments)
    scenario = read_scenario(arguments.scenario)
    plan = plan_for(arguments.plan, scenario)
    with pipeline_for(arguments) as pipeline:
        pipeline.validate(scenario)
        watch = pipeline.clock.watch()
        result = scored(plan.header.planner, scenario, plan, pipeline, arguments.bound_effort, watch, control)
        set_up = set_up_of(pipeline)
    card, traffic = result.view.scorecard, result.view.traffic
    if arguments.report is not None:
        write_page(arguments.report, scenario, [result.view], command_line())
    if arguments.json:
        links = {"links": links_as_dicts(scenario.network, traffic)}
        print_json({"plan": str(arguments.plan), **result_as_dict(result), "set_up": set_up, **links})
    else:
        print_score(card, scenario.settings.currency)
        print(about_results([result], set_up))
        if arguments.links:
            print(f"\n{links_table(scenario.network, traffic)}")
    if card.exceeded:
        raise InfeasibleError(f"the plan {arguments.plan} exceeds a limit: {'; '.join(card.exceeded)}")


def print_score(card: Scorecard, currency: str) -> None:
    print("\n".join(score_lines(card, currency)))


def score_lines(card: Scorecard, currency: str) -> list[str]:
    """A scorecard, a number a line."""
    lines = []
    for name, value in msgspec.to_builtins(card).items():
        unit = "" if value is None else unit_of(name, currency)
        if name == "exceeded":
            value = "; ".join(value) or "nothing"
        if name in CERTIFIED:
            value = shown_down(value, 6)
        if isinstance(value, float):
            value = percent(value) if name == "gap" else f"{value:.1%}" if name == "bounded" else f"{value:,.6g}"
        text = "–" if value is None else f"{value:,}" if isinstance(value, int) else value
        lines.append(f"  {name:<22} {text}{f' {unit}' if unit else ''}")
    return lines


def unit_of(name: str, currency: str) -> str:
    """Of a number of a scorecard; costs have one if the scenario says in which currency its prices are."""
    if name in MONEY:
        return plain(currency)
    return "bytes" if name in ("core_bytes", "access_bytes") else "ms" if name in ("mean_delay", "max_delay") else ""


def links_as_dicts(network: Network, traffic: Traffic) -> list[dict[str, object]]:
    """All directed links, in the order of the network."""
    ends = network.ids[network.sources].tolist(), network.ids[network.targets].tolist()
    columns = (*ends, network.prices.tolist(), traffic.frames.tolist(), traffic.bytes.tolist())
    return [dict(zip(LINK_COLUMNS, row, strict=True)) for row in zip(*columns, strict=True)]


def links_table(network: Network, traffic: Traffic) -> str:
    """The links that carry something, the dearest first."""
    rows = [list(row.values()) for row in links_as_dicts(network, traffic)]
    order = np.argsort(-(traffic.bytes * network.prices), kind="stable")
    used = [rows[link] for link in order.tolist() if traffic.frames[link]]
    idle = len(rows) - len(used)
    return f"{table(LINK_COLUMNS, used)}\n{idle:,} of {len(rows):,} directed links carry nothing"


def run_compare(arguments: argparse.Namespace) -> None:
    names = [name.strip() for name in arguments.planners.split(",") if name.strip()]
    given = parameters_in(arguments.set)
    Control.asked(arguments)  # a policy that there is not is refused now
    check_compared(names, given)
    check_report(arguments)
    scenario = read_scenario(arguments.scenario)
    with pipeline_for(arguments) as pipeline:
        pipeline.validate(scenario)
        tried = [_compared(name, scenario, pipeline, given, arguments) for name in names]
        tried += [_as_it_is(scenario, pipeline, arguments)] if (scenario.folder / TODAY).is_dir() else []
        set_up = set_up_of(pipeline)
        warnings = warnings_of(pipeline, scenario)
        results, failed = ranked(tried)
        references = topic_references(results, scenario, pipeline)
    if arguments.report is not None:
        write_page(arguments.report, scenario, [result.view for result in results], command_line())
    if arguments.json:
        plans: list[object] = [result_as_dict(result) for result in results]
        plans += [{"planner": each.name, "exceeded": [each.reason]} for each in failed]
        told: dict[str, object] = {
            "scenario": str(arguments.scenario),
            "plans": plans,
            "set_up": set_up,
            "warnings": warnings,
        }
        print_json(told | ({"references": references} if references else {}))
    else:
        print(results_table(results, failed=failed))
        for line in about_references(results, references):
            print(line)
        print(about_results(results, set_up, scenario.settings.currency))
        for line in [*warnings, *about_limits(results, failed)]:
            print(f"  ! {line}")


def check_compared(names: Sequence[str], given: Mapping[str, Value]) -> None:
    """Raises a ``UsageError`` if these cannot be compared: none, one twice, or parameters that none has."""
    if not names:
        raise UsageError(f"--planners: name at least one of {', '.join([*known_planners(), *REFERENCES])}")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"--planners: '{twice}' is named twice; name it once")
    known = {key for name in names for key in parameters_of(name)}
    unknown = given.keys() - known
    if unknown:
        has = f"they have {', '.join(sorted(known))}" if known else "they have none"
        raise UsageError(f"none of these planners has a parameter '{min(unknown)}'; {has}")
    for name in names:
        check_parameters(name, parameters_for(name, given))


class Failed(NamedTuple):
    """A planner that has no plan at all to show."""

    name: str
    reason: str


def ranked(tried: Sequence["Scored | Failed"]) -> tuple[list[Scored], list[Failed]]:
    """The results, the cheapest on events that no planner saw first, and who has none. Raises an ``InfeasibleError`` if
    nobody has any."""
    results = sorted((each for each in tried if isinstance(each, Scored)), key=_held_out)
    failed = [each for each in tried if isinstance(each, Failed)]
    if not results:
        raise InfeasibleError("; ".join(f"{each.name}: {each.reason}" for each in failed))
    return results, failed


def about_limits(results: Sequence[Scored], failed: Sequence[Failed]) -> list[str]:
    """Who exceeds a limit, and who found no plan, in words."""
    lines = [f"{each.name} exceeds a limit: {limit}" for each in results for limit in each.view.scorecard.exceeded]
    return lines + [f"{each.name} found no plan: {each.reason}" for each in failed]


def _held_out(result: Scored) -> tuple[bool, float]:
    """Plans that exceed a limit stand behind all others, whatever they cost."""
    card = result.view.scorecard
    return bool(card.exceeded), card.cost_held_out


def _compared(
    name: str, scenario: Scenario, pipeline: Pipeline, given: dict[str, Value], arguments: argparse.Namespace
) -> Scored | Failed:
    asked = Asked(given, arguments.seed, arguments.bound_effort, Control.asked(arguments))
    return tried_with(name, scenario, pipeline, asked)


def _as_it_is(scenario: Scenario, pipeline: Pipeline, arguments: argparse.Namespace) -> Scored:
    """The plan that a running network used when it was observed."""
    plan, watch = plan_for(scenario.folder / TODAY, scenario), pipeline.clock.watch()
    return scored(TODAY, scenario, plan, pipeline, arguments.bound_effort, watch, Control.asked(arguments))


class Asked(NamedTuple):
    """What the planners that are compared are asked with."""

    parameters: Mapping[str, Value]  # for those that have them
    seed: int = 0
    effort: int = EFFORT
    control: Control | None = None


def tried_with(name: str, scenario: Scenario, pipeline: Pipeline, asked: Asked) -> Scored | Failed:
    """Plans and scores with one planner or chain, or scores a reference."""
    watch, mine = pipeline.clock.watch(), parameters_for(name, asked.parameters)
    try:
        if name in REFERENCES:
            return scored_reference(name, scenario, pipeline, mine, asked.effort, watch)
        plan = planned(name, scenario, pipeline, mine, asked.seed)
        return scored(name, scenario, plan, pipeline, asked.effort, watch, asked.control)
    except InfeasibleError as error:
        return Failed(name, str(error))


def parameters_for(name: str, given: Mapping[str, Value]) -> dict[str, Value]:
    """The parameters that this planner, chain or reference has."""
    return {key: value for key, value in given.items() if key in parameters_of(name)}


def result_as_dict(result: Scored) -> dict[str, object]:
    card = msgspec.to_builtins(result.view.scorecard)
    return {
        "planner": result.name,
        "reference": result.plan is None,
        **card,
        "seconds": round(result.view.seconds, 3),
    }


def results_table(
    results: Sequence[Scored], width: int = WIDTH, failed: Sequence[Failed] = (), without: Sequence[str] = ()
) -> str:
    """The gap is that of core above the bound. Core stands beside the cost where anything else is priced, and the
    limits that plans exceed where they do."""
    cards = [result.view.scorecard for result in results]
    left_out = {*without, "core"} if all(card.core == card.cost for card in cards) else {*without}
    if not failed and not any(card.exceeded for card in cards):
        left_out.add("exceeded")
    rows = [_row(result) for result in results]
    rows += [[each.name, *[None] * (len(COLUMNS) - 2), "no plan"] for each in failed]
    kept_columns = [at for at, name in enumerate(COLUMNS) if name not in left_out]
    header, *kept = ([row[at] for at in kept_columns] for row in (COLUMNS, *rows))
    return table([str(name) for name in header], kept, [name for name in SPARE if name in header], width)


def about_results(results: Sequence[Scored], set_up: Mapping[str, float], currency: str = "") -> str:
    """What a table cannot hold: the unit, how far the bound may be from what more effort would give, the set-up."""
    lines = [f"costs and bounds are in {plain(currency)}"] if currency else []
    for result in results:
        card = result.view.scorecard
        if card.bounded < 1:
            lines.append(
                f"{result.view.name}: dual ascent bounds {card.bounded:.1%} of the log and distance the rest, so the "
                f"bound is weak{_estimated(card)}; more --bound-effort makes it better"
            )
    least = max((result.view.scorecard.bound_total for result in results), default=0.0)
    if least > 0:
        gaps = ", ".join(f"{result.view.name} {percent(result.view.scorecard.gap_total)}" for result in results)
        lines.append(f"wherever clients are attached, no plan costs less than {shown_down(least)}; above it: {gaps}")
    return "\n".join([*lines, about_set_up(set_up)])


def _estimated(card: Scorecard) -> str:
    estimate = card.lower_bound_estimate
    if not estimate:
        return ""
    return f" (of all: about {shown(estimate)}, core {percent(card.core / estimate - 1)}, an estimate and no bound)"


def _row(result: Scored) -> list[object]:
    card = result.view.scorecard
    return [
        result.view.name,
        card.cost,
        card.core,
        shown_down(card.lower_bound),
        percent(card.gap),
        f"{card.bounded:.0%}" if card.bounded in (0, 1) else f"{min(card.bounded, 0.999):.1%}",
        card.flows if result.plan is not None else None,
        card.duplicates if result.plan is not None else None,
        card.cost_fit,
        card.cost_held_out,
        f"{result.view.seconds:.1f}",
        ", ".join(limit.partition(":")[0] for limit in card.exceeded) or None,
    ]


def command_line() -> str:
    return shlex.join(["overstory", *sys.argv[1:]])
