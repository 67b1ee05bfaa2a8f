"""The clusters of the base plan stay as they are; users choose among them anew, and subscribe directly to the rest."""

from collections.abc import Mapping

import pyarrow as pa

from overstory.filters import parse_filter
from overstory.filters.cuts import intervals
from overstory.filters.value_sets import Strings
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.model.topics import TOPIC
from overstory.planners.steps import Steps
from overstory.planners.topics.clustering import covered
from overstory.planners.topics.demand import asked_in
from overstory.planners.topics.planning import planned


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    asked = asked_in(scenario, pipeline)
    number = {name: at for at, name in enumerate(asked.interests.names)}
    clusters = []
    for text, topics in zip(*(base["flows"][name].to_pylist() for name in ("events", "associations")), strict=True):
        known = [number[name] for name in topics_of(text) if name in number] if topics else []
        if len(known) > 1:
            clusters.append(known)
    found = covered(asked.demand, asked.costs, clusters)
    return planned(scenario, pipeline, base, asked, found, "static-clusters")


def topics_of(text: str) -> list[str]:
    """The topics that a predicate names; nothing of one that says anything else."""
    found = []
    for box in parse_filter(text).boxes:
        allowed = box.sets.get(TOPIC)
        if isinstance(allowed, Strings) and len(box.sets) == 1 and not box.residuals:
            found += [start for start, stop in intervals(allowed.cuts) if stop is not None and isinstance(start, str)]
    return found
