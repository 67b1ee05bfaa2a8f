"""What a plan costs on the whole log."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pandas as pd

from overstory.cli.engine import Scored, write_page
from overstory.cli.plan import score_lines
from overstory.door.graphs import Graph, traffic_of
from overstory.errors import UsageError
from overstory.model.scenario import Scenario
from overstory.model.scorecard import Scorecard

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Score:
    """The scorecard of a plan or a reference: ``score.cost``, ``score.gap`` and all other numbers by their names."""

    def __init__(self, scenario: Scenario, result: Scored) -> None:
        self._scenario, self._result = scenario, result

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in Scorecard.__struct_fields__:
            raise AttributeError(f"a score has no '{name}'; it has {', '.join(Scorecard.__struct_fields__)}")
        return getattr(self.card, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *Scorecard.__struct_fields__]

    def __repr__(self) -> str:
        lines = [self._result.view.name, *score_lines(self.card, self._scenario.settings.currency)]
        return "\n".join(lines)

    @property
    def planner(self) -> str:
        """The name of the planner, chain or reference."""
        return self._result.name

    @property
    def card(self) -> Scorecard:
        """The scorecard with all numbers of the plan. docs/scenarios.md defines them."""
        return self._result.view.scorecard

    @property
    def seconds(self) -> float:
        """What planning and counting took, without what plans share."""
        return self._result.view.seconds

    @property
    def links(self) -> Graph:
        """Every directed link with its frames, its bytes and what they cost. A reference has none."""
        if self._result.plan is None:
            raise UsageError(f"{self.planner} is a reference: it has a score, and no links to look at")
        return traffic_of(self._scenario, self._result.view.traffic)

    def to_pandas(self) -> "pd.Series[Any]":
        """The numbers, by their names."""
        return pd.Series(msgspec.to_builtins(self.card), name=self.planner, dtype=object)

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draws the network with traffic as the width of its links."""
        from overstory.door.plotting import plot_network

        return plot_network(self._scenario, axes, self.links.edges["bytes"].to_numpy(), title=self.planner)

    def report(self, path: str | Path) -> Path:
        """Writes the page that shows the plan."""
        write_page(Path(path), self._scenario, [self._result.view], f"ov.read_scenario({str(self._scenario.folder)!r})")
        return Path(path)
