"""A plan in Python: what it decides, what it costs, and its trees."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pandas as pd

from overstory.cli.diff import told_difference
from overstory.cli.engine import Control, check_made_for, plan_for, scored
from overstory.cli.explain import explained
from overstory.cli.plan import with_predictions
from overstory.cli.words import Names
from overstory.door.checking import check_numbers
from overstory.door.engine import pipeline_for
from overstory.door.graphs import Graph, tree_of
from overstory.door.scoring import Score
from overstory.errors import UsageError
from overstory.lab.replay import POLICY
from overstory.model import plan as model
from overstory.model.folders import check_can_be_made
from overstory.model.scenario import Scenario
from overstory.pipeline.bound import EFFORT
from overstory.routing.policies import make_policy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class HasModel(Protocol):
    """A scenario, as this door hands it out."""

    @property
    def model(self) -> Scenario: ...


class Trees(Mapping[int, Graph]):
    """The tree of each flow that has one; a steered flow has none, as each of its events takes a tree of its own."""

    def __init__(self, scenario: Scenario, trees: pd.DataFrame, flows: list[int]) -> None:
        self._scenario, self._rows, self._flows = scenario, trees.groupby("flow"), flows

    def __getitem__(self, flow: int) -> Graph:
        if flow not in self._flows:
            raise KeyError(f"flow {flow} has no tree; those with one are {self._flows}")
        rows = self._rows.get_group(flow)
        return tree_of(self._scenario, rows["source"].to_numpy(), rows["target"].to_numpy())

    def __iter__(self) -> Iterator[int]:
        return iter(self._flows)

    def __len__(self) -> int:
        return len(self._flows)


class Plan:
    """How every event reaches its subscribers. ``attachments``, ``flows``, ``members`` and ``filters`` are tables."""

    def __init__(self, scenario: Scenario, plan: model.Plan, called: str, seconds: float = 0.0) -> None:
        self._scenario, self._plan, self._called, self._seconds = scenario, plan, called, seconds
        self._score: Score | None = None

    def __repr__(self) -> str:
        flows = len(self._plan.flows)
        return f"<plan of {self.planner}: {flows:,} flow{'' if flows == 1 else 's'}, {len(self.trees):,} with a tree>"

    @property
    def planner(self) -> str:
        """The name of the planner, or chain of planners, that made it."""
        return self._plan.header.planner

    @property
    def header(self) -> model.Header:
        """Who made the plan, of what, and what it was expected to cost."""
        return self._plan.header

    @property
    def attachments(self) -> pd.DataFrame:
        """The broker of each client."""
        return self._plan.attachments.to_pandas()

    @property
    def flows(self) -> pd.DataFrame:
        """Each flow, with the events that enter it."""
        return self._plan.flows.to_pandas()

    @property
    def members(self) -> pd.DataFrame:
        """Which subscriptions are served in which flow."""
        return self._plan.members.to_pandas()

    @property
    def filters(self) -> pd.DataFrame:
        """Filters on links that are wider than what is wanted behind them."""
        return self._plan.filters.to_pandas()

    @property
    def trees(self) -> Trees:
        """The tree of each flow, by its number: ``plan.trees[0].to_networkx()``."""
        trees = self._plan.trees.to_pandas()
        return Trees(self._scenario, trees, sorted(trees["flow"].unique().tolist()))

    def score(
        self,
        on: "HasModel | None" = None,
        *,
        bound_effort: int = EFFORT,
        control: bool = False,
        policy: str = POLICY,
    ) -> Score:
        """What it costs on the whole log of its scenario, or of the one that is given, if it was made for that. The
        options are those of ``overstory score``."""
        check_numbers(bound_effort=bound_effort)
        counting = Control(make_policy(policy), always=control)
        scenario = self._scenario if on is None else on.model
        check_made_for(self._plan, scenario, self._called)
        pipeline = pipeline_for(scenario)
        pipeline.validate(scenario)
        counted = pipeline.clock.watch()
        found = scored(
            self.planner, scenario, self._plan, pipeline, bound_effort, lambda: self._seconds + counted(), counting
        )
        self._score = Score(scenario, found)
        return self._score

    def write(self, folder: str | Path) -> Path:
        """Writes the plan as a folder, with its predicted score: the same bytes as ``overstory plan``."""
        check_can_be_made(Path(folder))
        self._predicted().write(Path(folder))
        self._called = str(folder)
        return Path(folder)

    def explain(self, everything: bool = False) -> str:
        """What the plan decides and why, as ``overstory explain`` prints it. ``everything`` cuts no list."""
        return explained(self._predicted(), Names(self._scenario), everything)

    def diff(self, other: "Plan", everything: bool = False) -> str:
        """What the other plan saves and changes, as ``overstory diff`` prints it. ``everything`` cuts no list."""
        check_made_for(other._plan, self._scenario, other._called)
        labels = (self.planner, other.planner) if self.planner != other.planner else (self._called, other._called)
        return told_difference(self._predicted(), other._predicted(), labels, Names(self._scenario), everything)

    def _predicted(self) -> model.Plan:
        """The plan with its score in its header."""
        score = self._score or self.score()
        return with_predictions(self._plan, self._scenario, score.card, score._result.view.traffic)

    def plot(self, flow: int | None = None, axes: "Axes | None" = None) -> "Axes":
        """Draws the network with the tree of a flow, that of the first if none is named."""
        from overstory.door.plotting import plot_tree

        flow = next(iter(self.trees), None) if flow is None else flow
        if flow is not None and flow not in self.trees:
            raise UsageError(f"flow {flow} has no tree: it is steered, or there is none of this number")
        return plot_tree(self._scenario, None if flow is None else self.trees[flow], flow, axes)


def read_in(folder: Path, scenario: Scenario) -> Plan:
    """The plan in a folder, which must have been made for this scenario."""
    return Plan(scenario, plan_for(folder, scenario), str(folder))
