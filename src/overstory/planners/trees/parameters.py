"""What planners of trees are told with ``--set``."""

from collections.abc import Mapping

from overstory.errors import UsageError
from overstory.model.plan import Value


def count_of(parameters: Mapping[str, Value], name: str) -> int:
    value = parameters[name]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{name}={value}: it is a number from 1 on")
    return value


def seeds_of(parameters: Mapping[str, Value], seed: int) -> range:
    """As many as there are ``trials``, none of them another seed's."""
    trials = count_of(parameters, "trials")
    return range(seed * trials, (seed + 1) * trials)


def truth_of(parameters: Mapping[str, Value], name: str) -> bool:
    value = parameters[name]
    if not isinstance(value, bool):
        raise UsageError(f"{name}={value}: it is true or false")
    return value
