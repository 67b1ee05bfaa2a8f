"""The policies by name. Each is a file with the same names inside: NAME, SUMMARY and Policy."""

from overstory.errors import UsageError
from overstory.routing.policies import active, cost, lazy, none, paced, packing, selective
from overstory.routing.policy import Policy

MODULES = (none, active, lazy, packing, selective, paced, cost)
SUMMARIES = {each.NAME: each.SUMMARY for each in MODULES}


def make_policy(name: str, threshold: float | None = None) -> Policy:
    """``threshold`` is for the policies that have one."""
    for each in MODULES:
        if name == each.NAME:
            return each.Policy() if threshold is None or name != selective.NAME else selective.Policy(threshold)
    raise UsageError(f"there is no routing policy '{name}'; there are {', '.join(SUMMARIES)}")
