"""Publish/subscribe that plans its own trees.

``import overstory as ov`` opens on everything, and loads nothing: each name comes with what it needs when it is first
used. docs/python.md shows how.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from overstory.client import Event, connect, connect_sync
    from overstory.door.comparing import Comparison, compare
    from overstory.door.engine import engine
    from overstory.door.kinds import make_scenario
    from overstory.door.making import from_networkx, import_log, localized, sites
    from overstory.door.planning import Plan
    from overstory.door.scenario import Scenario, read_plan, read_scenario
    from overstory.door.scoring import Score
    from overstory.errors import (
        DataError,
        DisconnectedError,
        DistributionError,
        EngineError,
        EventError,
        FilterError,
        FilterLimitError,
        FilterSyntaxError,
        InfeasibleError,
        OverstoryError,
        StalePlanError,
        UsageError,
    )
    from overstory.filters import Discrete, Filter, Limits, Uniform, parse_filter, parse_publication
    from overstory.model.values import Untyped
    from overstory.planners.own import planner

_HOMES = {
    "overstory.client": "Event connect connect_sync",
    "overstory.door.comparing": "Comparison compare",
    "overstory.door.engine": "engine",
    "overstory.door.kinds": "make_scenario",
    "overstory.door.making": "from_networkx import_log localized sites",
    "overstory.door.planning": "Plan",
    "overstory.door.scenario": "Scenario read_plan read_scenario",
    "overstory.door.scoring": "Score",
    "overstory.errors": "DataError DisconnectedError DistributionError EngineError EventError FilterError "
    "FilterLimitError FilterSyntaxError InfeasibleError OverstoryError StalePlanError UsageError",
    "overstory.filters": "Discrete Filter Limits Uniform parse_filter parse_publication",
    "overstory.model.values": "Untyped",
    "overstory.planners.own": "planner",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Comparison",
    "DataError",
    "DisconnectedError",
    "Discrete",
    "DistributionError",
    "EngineError",
    "Event",
    "EventError",
    "Filter",
    "FilterError",
    "FilterLimitError",
    "FilterSyntaxError",
    "InfeasibleError",
    "Limits",
    "OverstoryError",
    "Plan",
    "Scenario",
    "Score",
    "StalePlanError",
    "Uniform",
    "Untyped",
    "UsageError",
    "compare",
    "connect",
    "connect_sync",
    "engine",
    "from_networkx",
    "import_log",
    "localized",
    "make_scenario",
    "parse_filter",
    "parse_publication",
    "planner",
    "read_plan",
    "read_scenario",
    "sites",
]


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'overstory' has no attribute '{name}'")
    found = getattr(import_module(_HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
