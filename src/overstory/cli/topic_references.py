"""What plans of topics are compared with: the least that anything could cost, and links among the users themselves."""

from collections.abc import Mapping, Sequence

from overstory.cli.engine import Scored
from overstory.cli.tables import percent
from overstory.control.observing import TODAY
from overstory.model.scenario import Scenario
from overstory.pipeline.pipeline import Pipeline
from overstory.planners.chains import chain_named
from overstory.planners.registry import TOPICS
from overstory.planners.topics.demand import asked_in, lower_bound
from overstory.planners.topics.overlay import MOST_USERS, overlay_cost

BOUND, OVERLAY = "topics_bound", "tco_gm"


def of_topics(result: Scored) -> bool:
    """Whether a result is that of a planner of topics."""
    if result.plan is None or result.name == TODAY:  # the plan of a running network is nobody's
        return False
    return any(planner.problem == TOPICS for planner in chain_named(result.name))


def topic_references(results: Sequence[Scored], scenario: Scenario, pipeline: Pipeline) -> dict[str, float]:
    """For the whole log, at the rates that planners see; nothing where no planner of topics was compared. The overlay
    looks at all pairs of users, so it is left out where there are many."""
    if not any(of_topics(result) for result in results):
        return {}
    asked = asked_in(scenario, pipeline)
    intervals = float(scenario.settings.intervals or 1.0)
    found = {BOUND: lower_bound(asked.demand, asked.costs) * intervals}
    if asked.demand.users <= MOST_USERS:
        found[OVERLAY] = overlay_cost(asked.demand, asked.costs).cost * intervals
    return found


def about_references(results: Sequence[Scored], told: Mapping[str, float]) -> list[str]:
    """The references in words, with how far each plan of topics is above the bound."""
    if not told:
        return []
    bound = told[BOUND]
    gaps = [
        f"{result.view.name} {percent(result.view.scorecard.cost / bound - 1)}"
        for result in results
        if bound > 0 and of_topics(result)
    ]
    above = f"; above it: {', '.join(gaps)}" if gaps else ""
    lines = [f"no clusters of topics cost less than {bound:,.0f}, at the rates that planners see{above}"]
    if OVERLAY in told:
        lines.append(f"links among the users themselves (TCO-GM, a reference without a plan) cost {told[OVERLAY]:,.0f}")
    return lines
