"""Cells of experiments with the coordinator: the autopilot through an hour of windows, beside a reference that knows
each window in advance.

1. Everybody begins with the plan of the window before the first. In each window late subscriptions are placed where
   they cost least, and those that ended are gone.
2. The autopilot sees a sample of each window when it is over; what it decides counts from the next window on.
3. The reference may change at the beginning of any window to a plan that was made with all events of that window, or
   of that and the next ones; it places subscriptions by the events of the window itself. It pays for its changes as
   the autopilot does. A dynamic programme over windows and plans finds its cheapest way.
4. ``never`` keeps the first plan and places subscriptions as the autopilot does.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from overstory.control.changing import messages_of
from overstory.control.deciding import APPLY, Change, Decision, Past, Rules
from overstory.control.estimating import Sampled
from overstory.control.piloting import Look, Planning, Seen, turn
from overstory.control.placing import placed, with_late, without
from overstory.lab.drifting_hours import Hour
from overstory.lab.experiment import Row, Settings
from overstory.lab.localized import Localized
from overstory.lab.steered_cells import network_of
from overstory.lab.tree_cells import DATA_SETS
from overstory.model.network import Floats
from overstory.model.plan import Plan, Value
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan

USUAL: Settings = {"network": "waxman", "data": "Localized2", "bytes": 200, "message": 6.0, "share": 0.3}
PLANNING = Planning("tree-search", {"steered": False})
ROWS = 600  # of a window, by which late subscriptions are placed
AHEAD = 5  # windows that some plans of the reference are made for
MEMORY = 2  # windows in the autopilot's sliding window
SECONDS = 3600.0


@dataclass(frozen=True)
class Driven:
    """What an hour came to under somebody's decisions."""

    traffic: float
    changes: float  # what they cost
    decisions: tuple[Decision, ...]
    applied: tuple[int, ...]  # the windows after which a plan was changed

    @property
    def total(self) -> float:
        return self.traffic + self.changes


class Candidate(NamedTuple):
    """A plan that the reference may change to, by its cost in each window, from the first in which there is it."""

    first: int
    costs: Floats  # by window; infinite before the first
    prices: Floats  # of changing to it, by window


def sizes(quick: bool) -> Settings:
    """How large an hour is."""
    if quick:
        return USUAL | {"brokers": 24, "keywords": 20, "events": 600, "windows": 6}
    return USUAL | {"brokers": 60, "keywords": 50, "events": 3000, "windows": 12}


def hour_of(settings: Settings) -> Hour:
    """The hour that a cell's settings describe."""
    number = {name: int(str(settings[name])) for name in ("brokers", "keywords", "events", "windows", "seed")}
    what = Localized(
        keywords=number["keywords"],
        locality=DATA_SETS[str(settings["data"])],
        events=number["events"],
        bytes=int(str(settings["bytes"])),
    )
    made = network_of(str(settings["network"]), number["brokers"], number["seed"])
    price = float(str(settings["message"]))
    return Hour(made, what, str(settings["shape"]), number["windows"], number["seed"], price)


def plan_of(bench: Workbench) -> Plan:
    """What the planner finds with all that it may see of a scenario."""
    return make_plan(PLANNING.planner, bench.scenario, bench, PLANNING.parameters, PLANNING.seed)


def first_plan(hour: Hour) -> Plan:
    """The plan of the window before the first."""
    return plan_of(hour.bench(-1, [-1]))


def drive(hour: Hour, rules: Rules, share: float, first: Plan, replans: bool = True, places: bool = True) -> Driven:
    """The hour under the autopilot, or without any new plan; without ``places``, late subscriptions stay late."""
    plan, past, seen = first, Past(), Seen()
    traffic = changes = 0.0
    decisions: list[Decision] = []
    applied: list[int] = []
    for window in range(hour.windows):
        recent = hour.bench(window, _recent(window - 1), share)  # what is known when newcomers are placed
        plan = placed(plan, recent.scenario, recent, ROWS).plan if places else _without_gone(plan, recent)
        now = hour.bench(window, [window])
        traffic += now.score(with_late(plan, now.scenario)).cost
        if not replans:
            continue
        sample = hour.bench(window, _recent(window), share)
        scale = 1 / (share * len(_recent(window)))
        at = Look(window, (window + 1) * SECONDS / hour.windows, sample.scenario, scale, plan)
        done = turn(at, sample, past, seen, rules, PLANNING)
        seen = done.seen
        decisions += done.decisions
        if done.plan is not None and done.proposal is not None and done.decisions[-1].action == APPLY:
            plan = done.plan
            changes += done.proposal.price
            past = past.after(Change(window, done.proposal.plan, done.proposal.moves), rules.returns)
            applied.append(window)
    return Driven(traffic, changes, tuple(decisions), tuple(applied))


def _without_gone(plan: Plan, bench: Workbench) -> Plan:
    known, now = plan.members["subscription"].to_numpy(), bench.scenario.subscriptions["id"].to_numpy()
    return without(plan, np.setdiff1d(known, now))


def _recent(window: int) -> list[int]:
    """The windows of the sliding one."""
    return list(range(max(window - MEMORY + 1, -1), window + 1))


def reference(hour: Hour, rules: Rules, first: Plan) -> Driven:
    """The cheapest way through the hour for somebody who knows it."""
    candidates = [_carried(hour, rules, first, 0, free=True)]
    for window in range(hour.windows):
        ahead = list(range(window, min(window + AHEAD, hour.windows)))
        for of in ([window], ahead) if window % AHEAD == 0 else ([window],):
            candidates.append(_carried(hour, rules, plan_of(hour.bench(window, of)), window))
    return cheapest_way(candidates, hour.windows)


def _carried(hour: Hour, rules: Rules, plan: Plan, first: int, free: bool = False) -> Candidate:
    """What a plan costs from a window on, while subscriptions come and go."""
    costs, prices = np.full(hour.windows, np.inf), np.full(hour.windows, np.inf)
    for window in range(first, hour.windows):
        bench = hour.bench(window, [window])
        plan = placed(plan, bench.scenario, bench, ROWS).plan
        whole = with_late(plan, bench.scenario)
        costs[window] = bench.score(whole).cost
        prices[window] = _messages(hour, window, whole) * rules.price_of_message
    return Candidate(-1 if free else first, costs, prices)


def _messages(hour: Hour, window: int, plan: Plan) -> int:
    """The messages that installing a plan takes."""
    return messages_of(Sampled(hour.bench(window, [window]).scenario).messages(plan), plan)


def cheapest_way(candidates: list[Candidate], windows: int) -> Driven:
    """The dynamic programme: by window and plan the least cost so far, with this plan in use in the window. Nobody pays
    for the first candidate before the first window."""
    costs = np.stack([each.costs for each in candidates])
    prices = np.stack([each.prices for each in candidates])
    best = np.where(np.arange(len(candidates)) == 0, 0.0, np.inf)
    before: list[list[int]] = []
    for window in range(windows):
        source = int(best.argmin())
        changing = best[source] + prices[:, window]
        came = np.where(best <= changing, np.arange(len(candidates)), source)
        best = np.minimum(best, changing) + costs[:, window]
        before.append(came.tolist())
    at, applied, paid = int(best.argmin()), [], 0.0
    total = float(best[at])
    for window in reversed(range(windows)):
        came_from = before[window][at]
        if came_from != at:
            applied.append(window)
            paid += float(prices[at, window])
        at = came_from
    return Driven(total - paid, paid, (), tuple(reversed(applied)))


def told(settings: Settings, way: str, driven: Driven, **more: Value) -> Row:
    """A row of an experiment."""
    return settings | {
        "way": way,
        "total": driven.total,
        "traffic": driven.traffic,
        "changes": driven.changes,
        "count": len(driven.applied),
        "a_window": len(driven.applied) / int(str(settings["windows"])),
        "planned": sum(decision.action == "plan" for decision in driven.decisions),
        **more,
    }
