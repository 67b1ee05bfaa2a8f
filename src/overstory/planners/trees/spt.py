"""One flow on a tree of cheapest paths from a root: the centre (from which the farthest broker is nearest), a random
broker as in the paper, or one that is named."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from overstory.errors import UsageError
from overstory.kernels.paths import cheapest_paths
from overstory.model.network import Floats, Ints, Network
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.defaults import one_flow
from overstory.planners.steps import Steps

ROOTS_AT_ONCE = 64


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    network = scenario.network
    root = _root(network, parameters["root"], seed)
    _, before = paths_from(network, np.array([root]))
    reached = np.flatnonzero(before[0] >= 0)
    return one_flow(scenario, before[0, reached], reached)


def paths_from(network: Network, roots: Ints) -> tuple[Floats, Ints]:
    distances = np.empty((len(roots), len(network)))
    before = np.empty((len(roots), len(network)), np.int64)
    prices = np.where(network.back >= 0, network.prices, np.inf)  # a tree's links lead both ways
    cheapest_paths(network.offsets, network.targets, prices, roots, distances, before)
    return distances, before


def _root(network: Network, wanted: Value, seed: int) -> int:
    if wanted == "random":
        return int(np.random.default_rng(seed).integers(len(network)))
    if wanted == "centre":
        return _centre(network)
    if not isinstance(wanted, int) or wanted not in network.ids:
        raise UsageError(f"root={wanted}: it is centre, random, or the id of a broker")
    return int(network.positions(np.array([wanted]))[0])


def _centre(network: Network) -> int:
    farthest = np.empty(len(network))
    for start in range(0, len(network), ROOTS_AT_ONCE):
        roots = np.arange(start, min(start + ROOTS_AT_ONCE, len(network)))
        farthest[roots] = paths_from(network, roots)[0].max(axis=1)
    return int(farthest.argmin())
