"""What a page shows of a plan: its score, where its traffic runs, and trees."""

import msgspec

from overstory.model.network import Ints
from overstory.model.plan import Plan
from overstory.model.scorecard import Scorecard, Traffic
from overstory.studio.assignments import Assignment
from overstory.studio.trees import FlowTree


class PlanView(msgspec.Struct, frozen=True):
    """A row of the comparison. Traffic without any link is that of a reference that cannot be installed: it has a
    score and no picture."""

    name: str
    seconds: float  # of planning and of counting its traffic, without Spark's start, matching and bounding
    scorecard: Scorecard
    traffic: Traffic
    trees: tuple[FlowTree, ...] = ()  # of its largest flows
    clients: tuple[str, ...] = ()  # in words, by position of the broker that they are attached to; none without names
    hosts: Ints | None = None  # how many clients each broker has, by position
    plan: Plan | None = None  # from which the ways of some events are found
    coalesce: bool = True  # whether copies of an event travel as one while they can
    assignment: Assignment | None = None  # of a plan of subscriber assignment: its delays, loads and rectangles

    @property
    def is_reference(self) -> bool:
        """Whether it is a score that no plan has: only plans have flows."""
        return not self.scorecard.flows
