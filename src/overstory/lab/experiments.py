"""The registry of experiments: what each is called, shows and may be told. Commands and documents read it."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from overstory.errors import UsageError
from overstory.lab import steinlib, worth
from overstory.lab.results import Result
from overstory.model.plan import Value

Parameters = Mapping[str, Value]


class Experiment(NamedTuple):
    name: str
    summary: str
    parameters: dict[str, Value]  # and their defaults; one that has none must be given
    run: Callable[[Parameters], Result]


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "steinlib",
            "Steiner trees and their bounds, on a folder of .stp files, against known optima",
            {"dir": None, "starts": 16, "roots": 4},
            steinlib.run,
        ),
        Experiment(
            "worth",
            "unicast, one tree and many against the least possible, on real networks, cloud regions and real logs",
            {"data": None, "events": 10_000, "networks": len(worth.NETWORKS)},
            worth.run,
        ),
    )
}


def run_experiment(name: str, given: Parameters) -> Result:
    if name not in EXPERIMENTS:
        raise UsageError(f"there is no experiment '{name}'; there are {', '.join(EXPERIMENTS)}")
    experiment = EXPERIMENTS[name]
    unknown = given.keys() - experiment.parameters.keys()
    if unknown:
        raise UsageError(
            f"experiment {name} has no parameter '{min(unknown)}'; it has {', '.join(experiment.parameters)}"
        )
    parameters = experiment.parameters | dict(given)
    missing = [key for key, value in parameters.items() if value is None]
    if missing:
        raise UsageError(f"experiment {name} must be told '{missing[0]}': --set {missing[0]}=…")
    return experiment.run(parameters)
