"""Cells of experiments with steered delivery: ways to carry events on one scenario, as ratios to the certified bound.

Headers are as long whatever a frame carries. So with payloads of p bytes a steered way costs p times what it costs
without headers, and what its headers cost; a tree costs p times what it costs. Each way is scored once, without headers
and with them, for payloads of a byte, and that gives its cost for every payload, exactly.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from overstory.lab.experiment import Settings
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import GENERATORS, Topology, topology
from overstory.lab.tree_cells import DATA_SETS
from overstory.model.plan import Plan, Value
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan

PAYLOADS = (20, 200, 2_000, 20_000)
STEERED, MEDYM, ONE_TREE, MANY_TREES, DEFAULT = "steered", "medym", "one tree", "many trees", "default"
WAYS: dict[str, tuple[str, dict[str, Value]]] = {
    STEERED: ("steered", {"steer": "all"}),
    MEDYM: ("medym", {}),
    ONE_TREE: ("tree-search", {"trees": 1}),
    MANY_TREES: ("tree-search", {"steered": False}),
    DEFAULT: ("tree-search", {}),
}


@dataclass(frozen=True)
class Cost:
    """Of the events held out, for payloads of a byte each."""

    bare: float
    headers: float  # beside

    def of(self, payload: float) -> float:
        """For a byte of payload, so that payloads can be compared."""
        return self.bare + self.headers / payload

    def cheaper_from(self, other: "Cost") -> float | None:
        """The payload from which on this costs less than the other: 0 always, None never."""
        if self.bare >= other.bare:
            return None
        return max(self.headers - other.headers, 0.0) / (other.bare - self.bare)


def network_of(name: str, brokers: int, seed: int) -> Topology:
    """Real networks have as many brokers as they have."""
    return topology(name, brokers, seed) if name in GENERATORS else topology(name)


def making(settings: Settings, **more: object) -> Callable[[Path], None]:
    """Writes a scenario of the settings ``network``, ``brokers``, ``data``, ``events`` and ``seed``."""
    what = Localized(locality=DATA_SETS[str(settings["data"])], events=int(str(settings["events"])))
    what = msgspec.structs.replace(what, **more)
    seed = int(str(settings["seed"]))
    made = network_of(str(settings["network"]), int(str(settings["brokers"])), seed)
    return lambda folder: make_localized(folder, made, what, seed)


@contextmanager
def scenario_from(make: Callable[[Path], None]) -> Iterator[Scenario]:
    """A scenario in a folder that goes with it."""
    with tempfile.TemporaryDirectory(prefix="overstory-steered-") as place:
        make(Path(place) / "scenario")
        yield read_scenario(Path(place) / "scenario")


def planned(scenario: Scenario, way: str, seed: int) -> Plan:
    planner, given = WAYS[way]
    return make_plan(planner, scenario, Workbench(scenario), given, seed)


def costs_of(scenario: Scenario, plans: Mapping[str, Plan]) -> tuple[dict[str, Cost], float]:
    """Of each way, and the bound; events are of a byte."""
    bench, bound = Workbench(scenario), 0.0
    counting = Workbench(with_headers(scenario))
    found: dict[str, Cost] = {}
    for way, plan in plans.items():
        card = bench.score(plan, bounded=not found)
        bound = bound or card.lower_bound_held_out
        found[way] = Cost(card.cost_held_out, counting.score(plan).cost_held_out - card.cost_held_out)
    return found, bound


def with_headers(scenario: Scenario) -> Scenario:
    return replace(scenario, settings=msgspec.structs.replace(scenario.settings, headers=True))
