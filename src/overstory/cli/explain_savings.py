"""overstory explain PLAN --savings: what one more box, one more broker or a little more time would save."""

import argparse
from typing import Any

from overstory.cli.engine import pipeline_for
from overstory.cli.explain_client import binding_in_words
from overstory.cli.words import Names, percents
from overstory.errors import UsageError
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.planners.assignment.savings import MORE_TIME, Savings, savings_of
from overstory.planners.registry import ASSIGNMENT, PLANNERS


def savings_for(scenario: Scenario, plan: Plan, arguments: argparse.Namespace) -> Savings:
    planner = PLANNERS.get(plan.header.planner)
    if planner is None or planner.problem != ASSIGNMENT:
        raise UsageError(f"--savings explains plans of subscriber assignment, and this one is by {plan.header.planner}")
    with pipeline_for(arguments) as pipeline:
        return savings_of(scenario, pipeline, plan)


def savings_in_words(scenario: Scenario, plan: Plan, names: Names, arguments: argparse.Namespace) -> list[str]:
    found = savings_for(scenario, plan, arguments)
    shares = found.shares()
    beside = names.broker(found.beside)
    return [
        *binding_in_words(scenario, plan, names),
        "what a little more would save, beyond what more planning finds:",
        f"  {found.boxes + 1} boxes in every filter instead of {found.boxes}: {_said(shares['box'])}",
        f"  one more broker, as near as {beside}: {_said(shares['broker'])}",
        f"  {MORE_TIME:g} ms more for every subscriber: {_said(shares['milliseconds'])}",
    ]


def _said(share: float) -> str:
    return f"{percents(share)} of the bandwidth" if share > 0 else "nothing that was found"


def savings_for_programs(scenario: Scenario, plan: Plan, arguments: argparse.Namespace) -> dict[str, Any]:
    found = savings_for(scenario, plan, arguments)
    return {**found._asdict(), "saves": found.shares()}
