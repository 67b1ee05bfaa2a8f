"""What a planner may tell beside its tables: what the alternatives cost that it compared, and what it did not reach."""

from collections.abc import Mapping

import pyarrow as pa

DIGITS = 6  # of a relative cost; more would only tell how sums were rounded


class Decision(dict[str, pa.Table]):
    """The tables that a planner decides on, and by name the cost of each alternative, where that of its choice is 1.

    Costs are relative because planners see a sample, in which only ratios tell. A planner that finds no plan within the
    limits gives the best that it has, and says in words what is ``unmet``. ``steering`` tells by name what steering
    saves and takes, if something is steered; ``attaching`` what moving clients saves.
    """

    def __init__(
        self,
        tables: Mapping[str, pa.Table],
        alternatives: Mapping[str, float],
        unmet: tuple[str, ...] = (),
        steering: Mapping[str, float] | None = None,
        attaching: Mapping[str, list[float]] | None = None,
    ) -> None:
        super().__init__(tables)
        self.alternatives, self.unmet, self.steering = dict(alternatives), unmet, dict(steering or {})
        self.attaching = dict(attaching or {})


def relative_costs(costs: Mapping[str, float]) -> dict[str, float]:
    """Relative to the least; nothing where that is 0."""
    least = min(costs.values(), default=0.0)
    return {name: float(f"{cost / least:.{DIGITS}g}") for name, cost in costs.items()} if least > 0 else {}
