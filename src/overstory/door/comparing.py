"""Several planners on one scenario, under one cost."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pandas as pd

from overstory.cli.engine import Control, Scored, write_page
from overstory.cli.plan import Asked, Failed, about_limits, check_compared, ranked, results_table, tried_with
from overstory.door.checking import check_numbers
from overstory.door.engine import pipeline_for
from overstory.door.planning import Plan
from overstory.door.scenario import Scenario
from overstory.door.scoring import Score
from overstory.errors import UsageError
from overstory.lab.replay import POLICY
from overstory.model.naming import near_words
from overstory.model.plan import Value
from overstory.pipeline.bound import EFFORT
from overstory.routing.policies import make_policy

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Comparison:
    """The scores of several planners by their names, the cheapest on events that no planner saw first."""

    def __init__(self, scenario: Scenario, results: Sequence[Scored], failed: Sequence[Failed]) -> None:
        self.scenario, self._results, self._failed = scenario, {each.name: each for each in results}, failed

    def __getitem__(self, planner: str) -> Score:
        return Score(self.scenario.model, self._result(planner))

    def __contains__(self, planner: object) -> bool:
        return planner in self._results

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __repr__(self) -> str:
        results = list(self._results.values())
        table = results_table(results, failed=self._failed, without=("seconds",))
        return "\n".join([table, *(f"  ! {line}" for line in about_limits(results, self._failed))])

    def _repr_html_(self) -> str:
        return str(
            self.to_pandas()[["cost", "core", "lower_bound", "gap", "flows", "cost_held_out", "seconds"]]._repr_html_()
        )

    def _result(self, planner: str) -> Scored:
        if planner not in self._results:
            near = near_words(planner, self._results) or f"; there are {', '.join(self._results)}"
            raise UsageError(f"'{planner}' was not compared{near}")
        return self._results[planner]

    @property
    def best(self) -> Score:
        """The score of the cheapest plan; references are no plans."""
        plans = [name for name, result in self._results.items() if result.plan is not None]
        if not plans:
            raise UsageError("only references were compared; name a planner as well")
        return self[plans[0]]

    def plan(self, planner: str) -> Plan:
        """The plan that was compared. A reference has none."""
        result = self._result(planner)
        if result.plan is None:
            raise UsageError(f"{planner} is a reference: it has a score, and no plan")
        return Plan(self.scenario.model, result.plan, f"of {planner}", result.view.seconds)

    def to_pandas(self) -> pd.DataFrame:
        """A row for each planner, with all numbers of its score."""
        rows = {
            name: {
                "reference": result.plan is None,
                **msgspec.structs.asdict(result.view.scorecard),
                "seconds": result.view.seconds,
            }
            for name, result in self._results.items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("planner")

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draws the costs with their parts, and the lower bound."""
        from overstory.door.plotting import plot_costs

        return plot_costs([(name, result.view.scorecard) for name, result in self._results.items()], axes)

    def report(self, path: str | Path) -> Path:
        """Writes the page that shows the plans, their traffic and their trees."""
        scenario, names = self.scenario.model, list(self._results)
        views = [result.view for result in self._results.values()]
        write_page(Path(path), scenario, views, f"ov.compare(ov.read_scenario({str(scenario.folder)!r}), {names})")
        return Path(path)


def compare(
    scenario: Scenario,
    planners: Sequence[str],
    *,
    seed: int = 0,
    bound_effort: int = EFFORT,
    control: bool = False,
    policy: str = POLICY,
    **parameters: Value,
) -> Comparison:
    """Plans and scores with each planner, chain or reference. A parameter is for the planners that have it."""
    if not isinstance(scenario, Scenario):
        raise UsageError(f"a {type(scenario).__name__} is no scenario; give one of ov.read_scenario(folder)")
    check_numbers(seed=seed, bound_effort=bound_effort)
    names = [planners] if isinstance(planners, str) else list(planners)
    asked = Asked(parameters, seed, bound_effort, Control(make_policy(policy), always=control))
    check_compared(names, parameters)
    pipeline = pipeline_for(scenario.model)
    pipeline.validate(scenario.model)
    return Comparison(scenario, *ranked([tried_with(name, scenario.model, pipeline, asked) for name in names]))
