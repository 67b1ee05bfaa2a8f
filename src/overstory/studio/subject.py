"""What a page is about: a scenario, as people know it."""

from collections.abc import Mapping, Sequence

import msgspec
from numpy.typing import ArrayLike

from overstory.model.naming import told_apart
from overstory.model.network import Network
from overstory.model.scenario import Scenario


class Subject(msgspec.Struct, frozen=True):
    """Brokers without a name go by their ids; without coordinates they stand in a layout of ours; without a currency
    costs are bare numbers."""

    title: str
    network: Network
    facts: Mapping[str, str] = {}  # that stand under the title
    names: Sequence[str | None] = ()  # of brokers by position; none if nobody named any
    x: ArrayLike | None = None
    y: ArrayLike | None = None
    currency: str = ""


def subject_of(scenario: Scenario, facts: Mapping[str, str]) -> Subject:
    brokers, named = scenario.brokers.sort_by("id"), told_apart(scenario.broker_names)
    known = {axis: brokers[axis].to_numpy() for axis in ("x", "y") if not brokers[axis].null_count}
    return Subject(
        title=scenario.settings.name,
        network=scenario.network,
        facts=facts,
        names=[named.get(broker) for broker in scenario.network.ids.tolist()],
        x=known.get("x"),
        y=known.get("y"),
        currency=scenario.settings.currency,
    )
