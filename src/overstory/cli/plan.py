"""overstory plan, score, compare, diff and explain"""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from overstory.cli.engine import (
    Scored,
    about_set_up,
    add_options,
    parameters_in,
    pipeline_for,
    plan_for,
    planned,
    scored,
    scored_reference,
    set_up_of,
    write_page,
)
from overstory.cli.output import print_json
from overstory.cli.tables import WIDTH, percent, shown, shown_down, table
from overstory.errors import InfeasibleError, UsageError
from overstory.model.network import Network
from overstory.model.plan import Header, Plan, Value, read_plan
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.scorecard import Scorecard, Traffic
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.profile import warnings_of
from overstory.planners.references import REFERENCES, Reference
from overstory.planners.registry import PLANNERS, Planner, planner_named

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
)
SPARE = ("duplicates", "trees", "in sample", "core", "bound")  # of these, which go first where there is no room


LINK_COLUMNS = ("source", "target", "price", "frames", "bytes")
CERTIFIED = ("lower_bound", "lower_bound_held_out")
BOUNDS = (*CERTIFIED, "lower_bound_estimate", "bounded")


def add_to(commands: Any) -> None:
    plan = commands.add_parser("plan", help="decide how events travel", description=_about_planners())
    plan.add_argument("scenario", metavar="DIR", type=Path)
    plan.add_argument("--planner", required=True, metavar="NAME", help=", ".join(PLANNERS))
    plan.add_argument("-o", "--output", required=True, metavar="PLAN", type=Path, help="the folder of the plan")
    plan.add_argument("--base", metavar="PLAN", type=Path, help="a plan that decides what this planner does not")
    plan.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a parameter of the planner")
    plan.add_argument("--seed", type=int, default=0)
    add_options(plan, report=True)
    plan.set_defaults(run=run_plan)
    score = commands.add_parser("score", help="measure what a plan costs, on the whole log")
    score.add_argument("scenario", metavar="DIR", type=Path)
    score.add_argument("plan", metavar="PLAN", type=Path)
    score.add_argument("--links", action="store_true", help="also list the traffic on each directed link")
    add_options(score, report=True)
    score.set_defaults(run=run_score)
    compare = commands.add_parser("compare", help="plan and score with several planners")
    compare.add_argument("scenario", metavar="DIR", type=Path)
    compare.add_argument("--planners", required=True, metavar="A,B,…", help=", ".join([*PLANNERS, *REFERENCES]))
    compare.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for planners that have it")
    compare.add_argument("--seed", type=int, default=0)
    add_options(compare, report=True)
    compare.set_defaults(run=run_compare)
    diff = commands.add_parser("diff", help="what differs between two plans")
    diff.add_argument("plans", metavar="PLAN", type=Path, nargs=2)
    diff.add_argument("--json", action="store_true", help="print one JSON object")
    diff.set_defaults(run=run_diff)
    explain = commands.add_parser("explain", help="what a plan decides, in words")
    explain.add_argument("plan", metavar="PLAN", type=Path)
    explain.add_argument("--json", action="store_true", help="print one JSON object")
    explain.set_defaults(run=run_explain)


def _about_planners() -> str:
    return "Planners. " + " ".join(f"{planner.name}: {planner.summary}." for planner in PLANNERS.values())


def run_plan(arguments: argparse.Namespace) -> None:
    planner_named(arguments.planner)
    scenario = read_scenario(arguments.scenario)
    base = plan_for(arguments.base, scenario) if arguments.base is not None else None
    with pipeline_for(arguments) as pipeline:
        pipeline.validate(scenario)
        watch = pipeline.clock.watch()
        plan = planned(arguments.planner, scenario, pipeline, parameters_in(arguments.set), arguments.seed, base)
        result = scored(arguments.planner, scenario, plan, pipeline, arguments.bound_effort, watch)
        set_up = set_up_of(pipeline)
    card = result.view.scorecard
    if card.exceeded:
        raise InfeasibleError(f"the plan of {arguments.planner} exceeds a limit: {'; '.join(card.exceeded)}")
    _with_predictions(plan, card).write(arguments.output)
    if arguments.report is not None:
        write_page(arguments.report, scenario, [result.view], command_line())
    if arguments.json:
        print_json({"plan": str(arguments.output), **result_as_dict(result), "set_up": set_up})
    else:
        print(results_table([result]))
        print(about_results([result], set_up))
        print(f"written to {arguments.output}")


def _with_predictions(plan: Plan, card: Scorecard) -> Plan:
    """Seconds are not among them: the same inputs give the same plan, byte for byte."""
    known = {name: value for name, value in msgspec.to_builtins(card).items() if isinstance(value, (int, float))}
    bounds = {name: known.pop(name) for name in BOUNDS if name in known}
    header = msgspec.structs.replace(plan.header, predicted=known, bounds=bounds)
    return Plan(header, plan.attachments, plan.flows, plan.members, plan.trees, plan.filters)


def run_score(arguments: argparse.Namespace) -> None:
    scenario = read_scenario(arguments.scenario)
    plan = plan_for(arguments.plan, scenario)
    with pipeline_for(arguments) as pipeline:
        pipeline.validate(scenario)
        watch = pipeline.clock.watch()
        result = scored(plan.header.planner, scenario, plan, pipeline, arguments.bound_effort, watch)
        set_up = set_up_of(pipeline)
    card, traffic = result.view.scorecard, result.view.traffic
    if arguments.report is not None:
        write_page(arguments.report, scenario, [result.view], command_line())
    if arguments.json:
        links = {"links": links_as_dicts(scenario.network, traffic)}
        print_json({"plan": str(arguments.plan), **result_as_dict(result), "set_up": set_up, **links})
    else:
        _print_score(card)
        print(about_results([result], set_up))
        if arguments.links:
            print(f"\n{links_table(scenario.network, traffic)}")
    if card.exceeded:
        raise InfeasibleError(f"the plan {arguments.plan} exceeds a limit: {'; '.join(card.exceeded)}")


def _print_score(card: Scorecard) -> None:
    for name, value in msgspec.to_builtins(card).items():
        if name == "exceeded":
            value = "; ".join(value) or "nothing"
        if name in CERTIFIED:
            value = shown_down(value, 6)
        if isinstance(value, float):
            value = percent(value) if name == "gap" else f"{value:.1%}" if name == "bounded" else f"{value:,.6g}"
        print(f"  {name:<22} {'–' if value is None else f'{value:,}' if isinstance(value, int) else value}")


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
    if not names:
        raise UsageError("--planners: name at least one")
    planners: list[Planner | Reference] = [REFERENCES.get(name) or planner_named(name) for name in names]
    given = parameters_in(arguments.set)
    unknown = given.keys() - {key for planner in planners for key in planner.parameters}
    if unknown:
        raise UsageError(f"none of these planners has a parameter '{min(unknown)}'")
    scenario = read_scenario(arguments.scenario)
    with pipeline_for(arguments) as pipeline:
        pipeline.validate(scenario)
        results = [_compared(planner, scenario, pipeline, given, arguments) for planner in planners]
        set_up = set_up_of(pipeline)
        warnings = warnings_of(pipeline, scenario)
    results.sort(key=lambda result: result.view.scorecard.cost_held_out)
    if arguments.report is not None:
        write_page(arguments.report, scenario, [result.view for result in results], command_line())
    if arguments.json:
        plans = [result_as_dict(result) for result in results]
        print_json({"scenario": str(arguments.scenario), "plans": plans, "set_up": set_up, "warnings": warnings})
    else:
        print(results_table(results))
        print(about_results(results, set_up))
        for warning in warnings:
            print(f"  ! {warning}")
        for result in results:
            for limit in result.view.scorecard.exceeded:
                print(f"{result.name} exceeds a limit: {limit}", file=sys.stderr)


def _compared(
    planner: Planner | Reference,
    scenario: Scenario,
    pipeline: Pipeline,
    given: dict[str, Value],
    arguments: argparse.Namespace,
) -> Scored:
    watch, effort = pipeline.clock.watch(), arguments.bound_effort
    mine = {key: value for key, value in given.items() if key in planner.parameters}
    if isinstance(planner, Reference):
        return scored_reference(planner.name, scenario, pipeline, mine, effort, watch)
    plan = planned(planner.name, scenario, pipeline, mine, arguments.seed)
    return scored(planner.name, scenario, plan, pipeline, effort, watch)


def result_as_dict(result: Scored) -> dict[str, object]:
    card = msgspec.to_builtins(result.view.scorecard)
    return {
        "planner": result.name,
        "reference": result.plan is None,
        **card,
        "seconds": round(result.view.seconds, 3),
    }


def results_table(results: Sequence[Scored], width: int = WIDTH) -> str:
    """The gap is that of core above the bound. Core stands beside the cost where anything else is priced."""
    cards = [result.view.scorecard for result in results]
    left_out = COLUMNS.index("core") if all(card.core == card.cost for card in cards) else None
    rows = [_row(result) for result in results]
    header, *kept = ([cell for at, cell in enumerate(row) if at != left_out] for row in (COLUMNS, *rows))
    return table([str(name) for name in header], kept, [name for name in SPARE if name in header], width)


def about_results(results: Sequence[Scored], set_up: Mapping[str, float]) -> str:
    """What a table cannot hold: how far the bound may be from what more effort would give, and the set-up."""
    lines = []
    for result in results:
        card = result.view.scorecard
        if card.bounded < 1:
            lines.append(
                f"{result.view.name}: dual ascent bounds {card.bounded:.1%} of the log and distance the rest, so the "
                f"bound is weak{_estimated(card)}; more --bound-effort makes it better"
            )
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
    ]


def command_line() -> str:
    return shlex.join(["overstory", *sys.argv[1:]])


def run_diff(arguments: argparse.Namespace) -> None:
    one, other = map(read_plan, arguments.plans)
    found = {
        "clients moved": _moved(one, other),
        "flows": [one.flows.num_rows, other.flows.num_rows],
        "tree links only in the first": len(_links(one) - _links(other)),
        "tree links only in the second": len(_links(other) - _links(one)),
        "tree links in both": len(_links(one) & _links(other)),
        "filter rows": [one.filters.num_rows, other.filters.num_rows],
    }
    costs = {
        name: [one.header.predicted.get(name), other.header.predicted.get(name)]
        for name in ("cost", "core", "access", "upkeep", "cost_held_out", "duplicates", "mean_delay")
    }
    same = one.header.scenario == other.header.scenario
    if arguments.json:
        print_json({"same_scenario": same, "predicted": costs, "changes": found})
        return
    if not same:
        print("these plans are for different scenarios", file=sys.stderr)
    rows: list[list[object]] = [[name, *values] for name, values in costs.items()]
    print(table(("predicted", *[f"{plan.header.planner}" for plan in (one, other)]), rows))
    print()
    for name, value in found.items():
        print(f"{name}: {' → '.join(map(str, value)) if isinstance(value, list) else f'{value:,}'}")


def _moved(one: Plan, other: Plan) -> int:
    rows = [plan.attachments.sort_by("client") for plan in (one, other)]
    if not rows[0]["client"].equals(rows[1]["client"]):
        return len(np.setxor1d(rows[0]["client"].to_numpy(), rows[1]["client"].to_numpy()))
    return int((rows[0]["broker"].to_numpy() != rows[1]["broker"].to_numpy()).sum())


def _links(plan: Plan) -> set[tuple[int, int]]:
    one, other = plan.trees["source"].to_numpy(), plan.trees["target"].to_numpy()
    return set(zip(np.minimum(one, other).tolist(), np.maximum(one, other).tolist(), strict=True))


def run_explain(arguments: argparse.Namespace) -> None:
    plan = read_plan(arguments.plan)
    header: Header = plan.header
    planner = PLANNERS.get(header.planner)
    members = np.unique(plan.members["flow"].to_numpy(), return_counts=True)[1]
    facts: dict[str, object] = {
        "planner": header.planner,
        "what it does": planner.summary if planner else "not a planner of this version",
        "guarantee": planner.guarantee if planner else "",
        "decides": list(planner.writes) if planner else [],
        "seed": header.seed,
        "parameters": header.parameters,
        "clients attached": plan.attachments.num_rows,
        "flows": plan.flows.num_rows,
        "members of the largest flow": int(members.max()) if len(members) else 0,
        "tree links": plan.trees.num_rows,
        "filter rows": plan.filters.num_rows,
        "predicted": header.predicted,
        "bounds": header.bounds,
    }
    if arguments.json:
        print_json({"plan": str(arguments.plan), **facts})
        return
    for name, value in facts.items():
        text = ", ".join(f"{key} {each}" for key, each in value.items()) if isinstance(value, dict) else value
        print(f"{name}: {', '.join(text) if isinstance(text, list) else text}")
