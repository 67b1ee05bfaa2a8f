"""What the cheapest plan saves, in one sentence, and which plan stands beside it in the picture."""

import math
from collections.abc import Sequence

from overstory.studio.text import aligned, escaped
from overstory.studio.views import PlanView

LEAST_TOLD = 0.001  # of a gap, as 0.0% would say that there is none
FLOOD = "flood"  # nobody runs that, so it is no plan to save against if there is another


def cheapest_of(plans: Sequence[PlanView]) -> PlanView | None:
    """Of those that keep the limits and can be installed: a reference has no flows. Of several the last."""
    real = [plan for plan in plans if not plan.is_reference]
    allowed = [plan for plan in real if not plan.scorecard.exceeded and math.isfinite(plan.scorecard.cost)]
    return min(reversed(allowed), key=lambda plan: plan.scorecard.cost, default=None)


def before_of(plans: Sequence[PlanView], after: PlanView | None) -> PlanView | None:
    """The plan to compare with: the dearest, but for flooding. None if there is no other."""
    others = [plan for plan in plans if plan is not after and math.isfinite(plan.scorecard.cost)]
    usual = [plan for plan in others if plan.name != FLOOD] or others
    return max(usual, key=lambda plan: plan.scorecard.cost, default=None)


def sentence(plans: Sequence[PlanView], cheapest: PlanView | None, currency: str) -> str:
    """What is saved against the dearest plan and the second cheapest, and how far the least possible is."""
    if cheapest is None:
        return "No plan keeps the limits." if plans else "There is no plan."
    real = sorted((plan for plan in plans if not plan.is_reference), key=lambda plan: plan.scorecard.cost)
    before = before_of(real, cheapest)
    dearer = [plan for plan in real if plan.scorecard.cost > cheapest.scorecard.cost and plan is not before]
    second = next((plan for plan in dearer if not plan.scorecard.exceeded), None)
    name = f"<strong>{escaped(cheapest.name)}</strong>"
    if before is None:
        cost = f"{aligned([cheapest.scorecard.cost])[0]} {escaped(currency)}".rstrip()
        return f"{name} costs {cost}{_above(cheapest)}."
    also = f", and {_against(cheapest, second)}" if second is not None else ""
    return f"{name} {_against(cheapest, before)}{also}{_above(cheapest)}."


def _against(plan: PlanView, other: PlanView) -> str:
    mine, theirs = plan.scorecard.cost, other.scorecard.cost
    if mine == theirs or theirs <= 0:
        return f"costs as much as {escaped(other.name)}"
    share = 1 - mine / theirs
    if share > 0:
        return f"saves <strong>{share:.1%}</strong> of the cost of {escaped(other.name)}"
    return f"costs {-share:.1%} more than {escaped(other.name)}"


def _above(plan: PlanView) -> str:
    gap = plan.scorecard.gap
    if gap is None:
        return ""
    what = "it" if plan.scorecard.core == plan.scorecard.cost else "its core"
    if gap <= 0:
        return f"; {what} is the least possible"
    far = "less than 0.1%" if gap < LEAST_TOLD else f"at most {gap:.1%}"
    return f"; {what} is {far} above the least possible"
