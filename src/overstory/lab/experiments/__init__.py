"""The registry of experiments. Commands, claims and documents read it."""

from overstory.errors import UsageError
from overstory.lab.experiment import Experiment
from overstory.lab.experiments import (
    pruning_clustered,
    pruning_count,
    pruning_degree,
    pruning_mobile,
    pruning_sparse,
    pruning_unsubscribe,
    steered_cost,
    steered_drift,
    steered_failures,
    steered_state,
    steinlib,
    trees_bound,
    trees_coalesced,
    trees_cost,
    trees_count,
    trees_flooding,
    trees_keywords,
    trees_readings,
    trees_sampling,
    trees_time,
    trees_topology,
    worth,
)
from overstory.model.naming import near_words

EVERY: tuple[Experiment, ...] = (
    trees_sampling.EXPERIMENT,
    trees_cost.EXPERIMENT,
    trees_count.EXPERIMENT,
    trees_time.EXPERIMENT,
    steinlib.EXPERIMENT,
    pruning_unsubscribe.EXPERIMENT,
    pruning_count.EXPERIMENT,
    pruning_degree.EXPERIMENT,
    pruning_clustered.EXPERIMENT,
    pruning_mobile.EXPERIMENT,
    pruning_sparse.EXPERIMENT,
    trees_bound.EXPERIMENT,
    trees_coalesced.EXPERIMENT,
    trees_flooding.EXPERIMENT,
    trees_topology.EXPERIMENT,
    trees_keywords.EXPERIMENT,
    trees_readings.EXPERIMENT,
    worth.EXPERIMENT,
    steered_cost.EXPERIMENT,
    steered_drift.EXPERIMENT,
    steered_failures.EXPERIMENT,
    steered_state.EXPERIMENT,
)
EXPERIMENTS = {experiment.name: experiment for experiment in EVERY}


def experiment_named(name: str) -> Experiment:
    if name not in EXPERIMENTS:
        near = near_words(name, EXPERIMENTS) or f"; there are {', '.join(EXPERIMENTS)}"
        raise UsageError(f"there is no experiment '{name}'{near}")
    return EXPERIMENTS[name]
