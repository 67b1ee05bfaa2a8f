"""The tables of plans: what they cost and how they behave."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from overstory.studio.text import NOTHING, aligned, escaped
from overstory.studio.views import PlanView


class Measure(NamedTuple):
    """A column of a table of plans."""

    name: str
    meaning: str
    of: Callable[[PlanView], float | None]
    percent: bool = False


COSTS = (
    Measure("Cost", "the one cost on the whole log", lambda plan: plan.scorecard.cost),
    Measure("Core", "bytes × price on links between brokers", lambda plan: plan.scorecard.core),
    Measure("Access", "bytes × price between clients and brokers", lambda plan: plan.scorecard.access),
    Measure("Upkeep", "entries in routing tables, renewed each interval", lambda plan: plan.scorecard.upkeep),
    Measure("Control", "messages for changes of subscriptions", lambda plan: plan.scorecard.control),
    Measure("Lower bound", "certified: no core costs less", lambda plan: plan.scorecard.lower_bound),
    Measure("Core gap", "how far core is above the lower bound", lambda plan: plan.scorecard.gap, percent=True),
    Measure(
        "Bounded",
        "the share of the log's bytes that dual ascent bounds; distance bounds the rest",
        lambda plan: plan.scorecard.bounded,
        percent=True,
    ),
    Measure(
        "Of flooding",
        "core, relative to every event going to every broker",
        lambda plan: plan.scorecard.core / plan.scorecard.flood if plan.scorecard.flood > 0 else None,
        percent=True,
    ),
    Measure("Cost, fit", "of the events that the planner learned from", lambda plan: plan.scorecard.cost_fit),
    Measure("Cost, held out", "of events that it never saw", lambda plan: plan.scorecard.cost_held_out),
    Measure("Bound, held out", "on the core of those", lambda plan: plan.scorecard.lower_bound_held_out),
)
BEHAVIOUR = (
    Measure("Flows", "each with a tree of its own", lambda plan: plan.scorecard.flows),
    Measure("Deliveries", "matches of an event and a subscription, served", lambda plan: plan.scorecard.deliveries),
    Measure("Frames", "that crossed a link between brokers", lambda plan: plan.scorecard.frames),
    Measure("Duplicates", "frames beyond an event's first at a broker", lambda plan: plan.scorecard.duplicates),
    Measure("False positives", "frames nobody behind the link wanted", lambda plan: plan.scorecard.false_positives),
    Measure("Discards", "copies that a client threw away", lambda plan: plan.scorecard.discards),
    Measure("Mean delay, ms", "from publisher to subscriber", lambda plan: plan.scorecard.mean_delay),
    Measure("Max delay, ms", "from publisher to subscriber", lambda plan: plan.scorecard.max_delay),
    Measure("Load", "of the fullest broker, 1 is an equal share", lambda plan: plan.scorecard.load),
    Measure("Seconds", "of planning and counting, without what plans share", lambda plan: plan.seconds),
)
PARTS = ("core", "access", "upkeep", "control")


def plan_table(
    name: str,
    caption: str,
    measures: Sequence[Measure],
    plans: Sequence[PlanView],
    cheapest: PlanView | None,
    bars: bool = False,
) -> str:
    """Plans, and below them references, which cannot be installed. Columns without anything in them are left out."""
    shown = [each for at, each in enumerate(measures) if not (at or bars) or not _says_nothing(each, plans)]
    heads = [f'<th scope="col" title="{escaped(each.meaning)}">{escaped(each.name)}</th>' for each in shown]
    scale = max((sum(_parts(plan)) for plan in plans), default=0.0)
    columns = [_column(each, plans, scale if bars else None) for each in shown]
    rows: dict[bool, list[str]] = {False: [], True: []}
    for at, plan in enumerate(plans):
        cells = [f"<td>{column[at]}</td>" for column in columns]
        if bars:
            cells.insert(1, f'<td class="bars">{_bar(plan, scale)}</td>')
        row = ' class="best"' if plan is cheapest else ""
        rows[plan.is_reference].append(
            f'<tr{row}><th scope="row">{_label(plan, plan is cheapest)}</th>{"".join(cells)}</tr>'
        )
    if bars:
        heads.insert(1, '<th scope="col" class="bars">Parts and bound</th>')
    head = f'<thead><tr><th scope="col">Plan</th>{"".join(heads)}</tr></thead>'
    bodies = f"<tbody>{''.join(rows[False])}</tbody>"
    if rows[True]:
        wide = len(heads) + 1
        about = (
            f'<tr class="group"><th colspan="{wide}" scope="rowgroup">References, which cannot be installed</th></tr>'
        )
        bodies += f"<tbody>{about}{''.join(rows[True])}</tbody>"
    return f'<table id="{name}"><caption>{caption}</caption>{head}{bodies}</table>'


def _says_nothing(measure: Measure, plans: Sequence[PlanView]) -> bool:
    """Whether a column has no number but 0, or is the cost once more."""
    values = [measure.of(plan) for plan in plans]
    again = measure.name == "Core" and values == [plan.scorecard.cost for plan in plans]
    return measure.name != "Cost" and (again or not any(values))


def _label(plan: PlanView, best: bool) -> str:
    exceeded = "".join(f' <span class="exceeded">exceeds {escaped(limit)}</span>' for limit in plan.scorecard.exceeded)
    return escaped(plan.name) + (' <span class="badge">cheapest</span>' if best else "") + exceeded


def _column(measure: Measure, plans: Sequence[PlanView], most: float | None) -> list[str]:
    values = [measure.of(plan) for plan in plans]
    if measure.percent:
        return [NOTHING if value is None or not math.isfinite(value) else f"{value:.1%}" for value in values]
    return aligned(values, most)


def _parts(plan: PlanView) -> list[float]:
    values = [float(getattr(plan.scorecard, part)) for part in PARTS]
    return [value if math.isfinite(value) and value > 0 else 0.0 for value in values]


def _bar(plan: PlanView, scale: float) -> str:
    """The parts of the cost end to end, and a tick at the bound on the first of them."""
    shares = [100 * part / scale if scale else 0.0 for part in _parts(plan)]
    bound = 100 * min(plan.scorecard.lower_bound / scale, 1.0) if scale else 0.0
    starts = np.cumsum([0.0, *shares])
    pieces = "".join(
        f'<rect class="{part}" x="{start:.2f}" y="4" width="{share:.2f}" height="10"/>'
        for part, start, share in zip(PARTS, starts, shares, strict=False)
        if share > 0
    )
    tick = f'<path class="bound" d="M{bound:.2f} 0V18"/>' if bound > 0 else ""
    return (
        '<svg class="bar" viewBox="0 0 100 18" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="track" x="0" y="4" width="100" height="10"/>{pieces}{tick}</svg>'
    )
