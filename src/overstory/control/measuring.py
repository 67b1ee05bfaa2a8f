"""What links of a running network carry, and what that costs: measured over a while, to be held against a plan."""

import asyncio
from collections.abc import Mapping

import msgspec

from overstory.broker.links import Traffic
from overstory.broker.reports import Report
from overstory.control.brokers import Brokers
from overstory.model.scenario import Scenario

Link = tuple[int, int]


class Measured(msgspec.Struct, frozen=True):
    """What was measured over a while."""

    seconds: float
    events: int  # that clients published
    bytes: int  # of events on links between brokers; with headers of steered ones, where the scenario prices these
    cost: float  # of these bytes, at the prices of their links

    @property
    def per_event(self) -> float | None:
        """The cost of one published event; None if there was none."""
        return self.cost / self.events if self.events else None


class Verdict(msgspec.Struct, frozen=True):
    """What was measured after a change beside what was predicted, as ratios to what was before."""

    measured: float | None
    predicted: float | None

    def exceeds(self, limit: float, partly: bool = False) -> bool:
        """Whether the measured cost is above the predicted one, or without a prediction above the one before, by more
        than this share. ``partly``: some clients are still to be moved, so that it need not be below the one before."""
        expected = 1.0 if self.predicted is None else self.predicted
        expected = max(expected, 1.0) if partly else expected
        return self.measured is not None and self.measured > expected * (1 + limit)


async def measure(brokers: Brokers, scenario: Scenario, seconds: float) -> Measured:
    """Measures for a while."""
    first = await brokers.reports()
    await asyncio.sleep(seconds)
    return between(first, await brokers.reports(), prices_of(scenario), seconds, scenario.settings.headers)


def between(
    first: Mapping[int, Report],
    last: Mapping[int, Report],
    prices: Mapping[Link, float],
    seconds: float,
    headers: bool = False,
) -> Measured:
    """What happened between two looks, at the brokers that answered both times and did not restart."""
    events = bytes_ = 0
    cost = 0.0
    for broker in sorted(first.keys() & last.keys()):
        before, after = first[broker], last[broker]
        events += max(0, after.messages_in - before.messages_in)
        known = {link.peer: _bytes(link.traffic, headers) for link in before.links}
        for link in after.links:
            carried = max(0, _bytes(link.traffic, headers) - known.get(link.peer, 0))
            bytes_ += carried
            cost += carried * prices.get((broker, link.peer), 0.0)
    return Measured(seconds, events, bytes_, cost)


def _bytes(traffic: Traffic, headers: bool) -> int:
    """The bytes of events that a link has carried, as the scenario prices them: with headers or without."""
    return traffic.event_bytes + (traffic.header_bytes if headers else 0)


def prices_of(scenario: Scenario) -> dict[Link, float]:
    """The prices of the links between brokers."""
    network = scenario.network
    sources, targets = network.ids[network.sources].tolist(), network.ids[network.targets].tolist()
    return dict(zip(zip(sources, targets, strict=True), network.prices.tolist(), strict=True))


def verdict(before: Measured, after: Measured, costs: tuple[float | None, float | None]) -> Verdict:
    """Holds what was measured against what two plans predict."""
    one, other = before.per_event, after.per_event
    return Verdict(_ratio(one, other), _ratio(*costs))


def _ratio(before: float | None, after: float | None) -> float | None:
    """What is after as a ratio to what was before: infinite if there was nothing and is something now."""
    if before is None or after is None:
        return None
    if before:
        return after / before
    return float("inf") if after else 1.0
