"""One turn of the autopilot: a window's sample and the present plan in, decisions and perhaps a better plan out.

It is the same code for a live network and for the lab's experiments. It prices the window under the present plan, asks
``deciding`` whether to plan, plans, prices what the planner found on events that it did not see, and asks whether to
apply it. It changes nothing itself.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from overstory.control.changing import changed_flows, messages_of, moves_between, price_of, with_clients_staying
from overstory.control.deciding import (
    APPLY,
    KEEP,
    PLAN,
    Decision,
    Past,
    Proposal,
    Rules,
    Window,
    drift_of,
    judge,
    look,
    staying,
)
from overstory.control.estimating import Sampled, estimate, saving
from overstory.control.placing import with_late
from overstory.errors import InfeasibleError
from overstory.model.plan import Plan, Value
from overstory.model.scenario import Scenario
from overstory.planners.chains import make_plan
from overstory.planners.steps import Steps

PLANNER = "tree-search"


class Planning(NamedTuple):
    """How plans are made."""

    planner: str = PLANNER
    parameters: Mapping[str, Value] = {}
    seed: int = 0


class Seen(NamedTuple):
    """What the last planning went by."""

    subscriptions: frozenset[int] = frozenset()
    over_bound: float | None = None  # under the plan that was in use when the planning was done


class Turn(NamedTuple):
    """What one turn came to."""

    window: Window
    decisions: tuple[Decision, ...]
    plan: Plan | None  # the one to be applied
    proposal: Proposal | None
    seen: Seen
    bound: float  # what no plan with today's attachments undercuts in this window, on the core


class Look(NamedTuple):
    """A window as it is given to the autopilot: a sample in which each event stands for ``scale`` events."""

    number: int
    time: float
    scenario: Scenario
    scale: float
    present: Plan


def turn(at: Look, steps: Steps, past: Past, seen: Seen, rules: Rules, planning: Planning) -> Turn:
    """Looks at a window, and decides."""
    sampled = Sampled(at.scenario, at.scale)
    present = with_late(at.present, at.scenario)
    now = frozenset(at.scenario.subscriptions["id"].to_pylist())
    core, bound = sampled.core_and_bound(present)
    ratio = core / bound if bound > 0 else None
    churn = len(now ^ seen.subscriptions) / max(len(now | seen.subscriptions), 1)
    drift = drift_of(churn, ratio, seen.over_bound)
    window = Window(at.number, at.time, len(sampled), estimate(sampled.costs(present)), drift, ratio)
    first = look(window, past, rules)
    if first.action != PLAN:
        return Turn(window, (first,), None, None, seen, bound)
    seen = Seen(now, ratio)
    try:
        plan = _planned(at, present, steps, past, rules, planning)
    except InfeasibleError as error:
        failed = Decision(window.number, window.time, KEEP, f"no plan was found: {error}", first.numbers)
        return Turn(window, (first, failed), None, None, seen, bound)
    proposal = _proposal(at, sampled, present, plan, rules)
    second = judge(window, proposal, past, rules)
    return Turn(window, (first, second), plan if second.action == APPLY else None, proposal, seen, bound)


def _planned(at: Look, present: Plan, steps: Steps, past: Past, rules: Rules, planning: Planning) -> Plan:
    """What the planner finds, with those clients staying who must."""
    base = present if present.attachments.num_rows else None
    plan = make_plan(planning.planner, at.scenario, steps, planning.parameters, planning.seed, base)
    stay = staying(moves_between(present, plan), past, at.number, rules)
    publishers = np.asarray(steps.publishers(at.scenario))
    return with_clients_staying(at.scenario, present, plan, sorted(stay), publishers)


def _proposal(at: Look, sampled: Sampled, present: Plan, plan: Plan, rules: Rules) -> Proposal:
    moves = moves_between(present, plan)
    found = saving(sampled.costs(present, held_out=True), sampled.costs(plan, held_out=True))
    flows = changed_flows(present, plan) if rules.pinned_flows else frozenset()
    messages = messages_of(sampled.messages(plan), plan) if rules.price_of_message else 0
    price = price_of(messages, len(moves), rules)
    return Proposal(plan.header.planner, found, price, moves, flows)
