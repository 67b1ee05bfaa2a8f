"""What applying a plan would change, in numbers: what is shown before anybody says yes."""

from typing import Any

import msgspec

from overstory.model.difference import difference
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.routing.written_out import written_out


class Preview(msgspec.Struct, frozen=True):
    """What differs between the plan in use and another one, and what the change costs."""

    moves: int  # clients that are asked to move
    trees: tuple[int, int]  # before and after
    same_trees: int
    changed_trees: int
    filters: int  # rows that differ
    cost: tuple[float | None, float | None]  # predicted, before and after, where the plans say and are for one scenario
    core: tuple[float | None, float | None]  # the same of the links between brokers
    entries: int  # subscriptions that join flows, and so at least once cross a link
    package_bytes: int  # that each broker gets


def preview_of(before: tuple[Scenario, Plan], after: tuple[Scenario, Plan], moves: int, package_bytes: int) -> Preview:
    """Compares the plan in use with another one, each with the scenario that it was made for."""
    one, other = written_out(*before), written_out(*after)
    present, plan = before[1], after[1]
    found = difference(one, other)
    return Preview(
        moves,
        (present.flows.num_rows, plan.flows.num_rows),
        found.same_trees,
        len(found.trees),
        len(found.filters),
        (_said(present, "cost"), _said(plan, "cost")),
        (_said(present, "core"), _said(plan, "core")),
        other.members.num_rows,
        package_bytes,
    )


def _said(plan: Plan, name: str) -> float | None:
    """What a plan was expected to cost, if it says so."""
    cost: Any = plan.header.predicted.get(name)
    return float(cost) if isinstance(cost, int | float) else None
