"""The policies by name. Each policy is a file with the same names inside: NAME, SUMMARY and Policy."""

from overstory.errors import UsageError
from overstory.routing.policies import active, cost, lazy, none, paced, packing, selective
from overstory.routing.policy import Policy

MODULES = (none, active, lazy, packing, selective, paced, cost)
SUMMARIES = {module.NAME: module.SUMMARY for module in MODULES}


def make_policy(name: str, threshold: float | None = None) -> Policy:
    """The policy of this name. ``threshold`` is for ``selective``; the other policies ignore it."""
    for module in MODULES:
        if name == module.NAME:
            return module.Policy() if threshold is None or name != selective.NAME else selective.Policy(threshold)
    raise UsageError(f"there is no routing policy '{name}'; there are {', '.join(SUMMARIES)}")
