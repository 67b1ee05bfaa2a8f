"""Limits: what a plan is not allowed to exceed, whatever it costs.

Delays to clients, clients of a broker relative to its share of all, bytes of its clients relative to its capacity, and
boxes of a filter that the plan gives to a link.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.filters import parse_filter
from overstory.kernels.metering import Totals
from overstory.model.delays import MICRO, in_micros
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.pipeline.rules import Metered

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Measured(NamedTuple):
    """How full the fullest broker is under a plan, and which limits the plan exceeds."""

    load: float  # clients, relative to its share of all clients
    filled: float | None  # bytes, relative to its capacity; None where no broker has one
    exceeded: tuple[str, ...]


def measured(scenario: Scenario, plan: Plan, known: Metered, totals: Totals) -> Measured:
    loads, filled = loads_of(scenario, plan), filled_of(scenario, known, totals)
    load = float(loads.max(initial=0.0))
    full = None if np.isnan(filled).all() else float(np.nanmax(filled))
    found = [
        *_late(scenario, known, totals),
        *_overloaded(scenario, loads, load),
        *_overfilled(scenario, filled),
        *_too_many_boxes(scenario, plan),
    ]
    return Measured(load, full, tuple(found))


def shares_of(scenario: Scenario) -> Floats:
    """By position of the broker: its share of all clients. Those that name none have equal parts of the rest."""
    column = scenario.brokers.sort_by("id")["share"]
    open_ones = np.asarray(column.is_null())
    shares: Floats = column.to_numpy().copy()
    rest = 1.0 - shares[~open_ones].sum()
    shares[open_ones] = max(rest, 0.0) / max(int(open_ones.sum()), 1)
    return shares


def loads_of(scenario: Scenario, plan: Plan) -> Floats:
    """By position of the broker: its clients relative to its share; infinite where it has some and is to have none."""
    network = scenario.network
    clients = np.bincount(network.positions(plan.attachments["broker"].to_numpy()), minlength=len(network))
    if scenario.brokers["share"].null_count == len(network):
        return np.asarray(clients * len(network) / max(clients.sum(), 1))
    wanted = shares_of(scenario) * clients.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(clients > 0, clients / wanted, 0.0)


def filled_of(scenario: Scenario, known: Metered, totals: Totals) -> Floats:
    """By position of the broker: bytes relative to its capacity, NaN where it has none."""
    capacity: Floats = scenario.brokers.sort_by("id")["capacity"].to_numpy()
    if np.isnan(capacity).all():
        return capacity
    carried = bytes_at(scenario, known, totals)
    with np.errstate(divide="ignore", invalid="ignore"):
        filled = carried / capacity
    return np.where(carried == 0, np.where(np.isnan(capacity), np.nan, 0.0), filled)


def bytes_at(scenario: Scenario, known: Metered, totals: Totals) -> Floats:
    """By position of the broker: what its clients send and get; with transit also what crosses its other links."""
    rules, size = known.rules, len(scenario.network)
    found = np.zeros(size)
    found += np.bincount(rules.publisher_broker, totals.publisher_bytes.sum(axis=0), size)
    found += np.bincount(rules.group_broker, totals.group_bytes.sum(axis=0) * rules.group_size, size)
    if scenario.settings.limits.transit:
        crossed = totals.link_bytes.sum(axis=0)
        found += np.bincount(rules.link_source, crossed, size) + np.bincount(rules.link_target, crossed, size)
    return found


def _late(scenario: Scenario, known: Metered, totals: Totals) -> Iterator[str]:
    limit = scenario.settings.limits.delay
    allowed = _allowed(scenario, known.clients)
    got = totals.group_copies.sum(axis=0)[known.client_group] > 0
    last = in_micros(known.down.delays).astype(np.int64)
    delay = (totals.group_latest[known.client_group] + last) / MICRO
    late = np.flatnonzero(got & (delay > allowed))
    if not len(late):
        return
    worst = late[np.argmax(delay[late] - allowed[late])]
    if limit is not None and allowed[worst] == limit:
        yield f"delay: {delay[worst]:g} ms, where {limit:g} ms is the limit"
    else:
        more = f" ({len(late):,} clients get some too late)" if len(late) > 1 else ""
        who = f"client {known.clients[worst]} gets an event after {delay[worst]:g} ms"
        yield f"delay: {who}, and allows {allowed[worst]:g} ms{more}"


def _allowed(scenario: Scenario, clients: Ints) -> Floats:
    """Milliseconds, by client: what the client says, else the limit for all, else anything."""
    limit = scenario.settings.limits.delay
    table = scenario.clients.sort_by("id")
    latest = table["latest"].to_numpy()[np.searchsorted(table["id"].to_numpy(), clients)]
    return np.where(np.isnan(latest), np.inf if limit is None else limit, latest)


def _overloaded(scenario: Scenario, loads: Floats, load: float) -> Iterator[str]:
    limit = scenario.settings.limits.load
    if limit is not None and load > limit:
        shares = "its share" if scenario.brokers["share"].null_count < len(loads) else "an equal share"
        yield f"load: {load:g} times {shares}, where {limit:g} is the limit"


def _overfilled(scenario: Scenario, filled: Floats) -> Iterator[str]:
    full = np.flatnonzero(filled > 1)
    if len(full):
        worst = full[np.argmax(filled[full])]
        more = f" ({len(full):,} brokers are)" if len(full) > 1 else ""
        yield f"capacity: broker {scenario.network.ids[worst]} is at {filled[worst]:.0%} of its capacity{more}"


def _too_many_boxes(scenario: Scenario, plan: Plan) -> Iterator[str]:
    limit = scenario.settings.limits.boxes
    if limit is None or not plan.filters.num_rows:
        return
    texts = plan.filters["filter"].unique()
    wrong = [text for text in texts.to_pylist() if len(parse_filter(text).boxes) > limit]
    if wrong:
        row = plan.filters["filter"].index(wrong[0]).as_py()
        ends = f"{plan.filters['source'][row]} to {plan.filters['target'][row]} in flow {plan.filters['flow'][row]}"
        boxes = len(parse_filter(wrong[0]).boxes)
        yield f"boxes: the filter from {ends} has {boxes}, where {limit} is the limit ({len(wrong):,} such filters)"
