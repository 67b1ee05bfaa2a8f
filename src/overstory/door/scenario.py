"""A scenario in Python: what is in it, and plans for it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from overstory.cli.engine import check_made_for, planned, sizes_of
from overstory.door.checking import check_numbers
from overstory.door.engine import pipeline_for
from overstory.door.graphs import Graph, network_of
from overstory.door.planning import Plan, read_in
from overstory.model import scenario as model
from overstory.model.plan import Value
from overstory.pipeline.profile import warnings_of
from overstory.planners.chains import check_parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Scenario:
    """Brokers, links, clients, what they want and a log of events. The tables are those of docs/scenarios.md."""

    def __init__(self, scenario: model.Scenario, notes: tuple[str, ...] = ()) -> None:
        self._model = scenario
        self.notes = notes  # what was inferred, left out or left to chance when it was made, in words

    def __repr__(self) -> str:
        sizes = ", ".join(f"{value:,} {name}" for name, value in self.sizes.items())
        return f"<scenario {self._model.settings.name}: {sizes}>"

    @property
    def model(self) -> model.Scenario:
        """The scenario as planners get it: tables of pyarrow, and the network as arrays."""
        return self._model

    @property
    def folder(self) -> Path:
        """The folder that holds its tables."""
        return self._model.folder

    @property
    def fingerprint(self) -> str:
        """A hash of everything in it, by which a plan says which scenario it was made for."""
        return self._model.fingerprint

    @property
    def sizes(self) -> dict[str, int]:
        """How many brokers, links, clients and subscriptions it has."""
        return sizes_of(self._model)

    @property
    def brokers(self) -> pd.DataFrame:
        """The brokers, with their names, places, capacities and shares."""
        return self._model.brokers.to_pandas()

    @property
    def clients(self) -> pd.DataFrame:
        """The clients, with the broker that each is attached to, where the scenario says so."""
        return self._model.clients.to_pandas()

    @property
    def subscriptions(self) -> pd.DataFrame:
        """The subscriptions, with their filters."""
        return self._model.subscriptions.to_pandas()

    @property
    def network(self) -> Graph:
        """The links between brokers: ``scenario.network.to_networkx()``."""
        return network_of(self._model)

    def validate(self) -> list[str]:
        """Raises a ``DataError`` with all that is wrong; gives what only looks wrong, in words."""
        pipeline = pipeline_for(self._model)
        pipeline.validate(self._model)
        return warnings_of(pipeline, self._model)

    def plan(
        self, planner: str = "tree-search", *, seed: int = 0, base: Plan | None = None, **parameters: Value
    ) -> Plan:
        """A plan by a planner or a chain of them (``nearest+tree-search``), with parameters of these. What a planner
        does not decide comes from ``base``, or from the defaults."""
        check_numbers(seed=seed)
        check_parameters(planner, parameters)
        scenario = self._model
        if base is not None:
            check_made_for(base._plan, scenario, base._called)
        pipeline = pipeline_for(scenario)
        pipeline.validate(scenario)
        watch = pipeline.clock.watch()
        made = planned(planner, scenario, pipeline, parameters, seed, None if base is None else base._plan)
        return Plan(scenario, made, f"of {planner}", watch())

    def read_plan(self, folder: str | Path) -> Plan:
        """A plan that was written before. Raises a ``StalePlanError`` if it is of another scenario."""
        return read_in(Path(folder), self._model)

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draws the scenario's brokers and links with matplotlib."""
        from overstory.door.plotting import plot_network

        return plot_network(self._model, axes, title=self._model.settings.name)


def read_scenario(folder: str | Path) -> Scenario:
    """The scenario in a folder. Raises a ``DataError`` with all that is wrong with its tables."""
    return Scenario(model.read_scenario(Path(folder)))


def read_plan(folder: str | Path, scenario: Scenario) -> Plan:
    """The plan in a folder. Raises a ``StalePlanError`` if it was made for another scenario."""
    return scenario.read_plan(folder)
