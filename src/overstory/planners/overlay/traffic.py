"""What users send and want, by sub-channel, in compressed rows. There is never a table of users times users.

A *kind* of user is the users with equal sets of filters (the paper's uniform subscriber groups): what they want is held
once. Rates are bytes of the whole log, scaled up from the parts that a planner may see (``traffic=log``); or what the
table ``densities`` says (``density``), or what clients have announced (``advertisements``).
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.model.scenario import Scenario
from overstory.planners.overlay.channels import Covers, covers_of, grid_for, texts_of
from overstory.planners.steps import Rates, Steps

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
SEEN = 0.8  # the share of the log that planners may look at
LOG, DENSITY, ADVERTISEMENTS = SOURCES = ("log", "density", "advertisements")
AUTO, MADE_BY, USUAL = "auto", "channels", 20
FINE, FINEST, FEW_PAIRS = 128, 512, 200_000  # sub-channels; the finest for up to so many pairs of a user and a broker


class Rows(NamedTuple):
    """Of row i the entries between offsets i and i + 1, ascending, each with a weight."""

    offsets: Ints
    items: NDArray[np.int32]
    weights: Floats


class Traffic(NamedTuple):
    users: Ints  # their ids, ascending
    kind: Ints  # by user
    wants: Rows  # by kind: channels, and how much of each
    sends: Rows  # by user: channels, and bytes
    sent: Floats  # by user: bytes in all
    got: Floats  # by user
    total: Floats  # by channel: bytes that are published
    texts: list[str]  # by channel: its predicate
    seen: int | None  # events of the log that all this is estimated from; None: densities are given
    unwanted: int  # channels that are published into and nobody wants; they cost access alone, and are left out

    @property
    def demand(self) -> Floats:
        """By user: what it sends and gets."""
        return self.sent + self.got

    @property
    def channels(self) -> int:
        return len(self.total)

    @property
    def pins(self) -> int:
        """How many pairs there are of a user and a channel that it wants."""
        return int(np.diff(self.wants.offsets)[self.kind].sum())


class Counted(NamedTuple):
    """Rates from a log."""

    publisher: Ints
    channel: Ints
    bytes: Floats


def traffic_of(
    scenario: Scenario, pipeline: Steps, channels: object, fine: bool = False, source: object = LOG
) -> Traffic:
    """``channels`` is how many there are to be, or ``auto``: then as many as the scenario was made for, else some; or,
    where they are to be ``fine``, as many as filters have ends, up to a limit."""
    if source not in SOURCES:
        raise UsageError(f"traffic={source}: it is one of {', '.join(SOURCES)}")
    boxes = pipeline.boxes(scenario)
    grid = grid_for(boxes, _how_many(scenario, channels, fine), even=not fine)
    covers = covers_of(boxes, grid)
    asked = {name: edges.tolist() for name, edges in grid.items()}
    seen: int | None = None
    if source != DENSITY:
        histogram = pipeline.histograms(scenario, asked or ["TRUE"])
        seen = int(histogram.events.sum())
    if source == LOG:
        rates: Rates = Counted(histogram.publisher, histogram.channel, histogram.bytes / SEEN)
    else:
        rates = pipeline.rates(scenario, asked, str(source))
    return traffic_from(scenario, pipeline.predicates(scenario), covers, rates, grid, seen)


def _how_many(scenario: Scenario, channels: object, fine: bool) -> int:
    if isinstance(channels, int):
        return channels
    made = scenario.settings.made_by.get(MADE_BY)
    made = made if isinstance(made, int) and made > 0 else USUAL
    if not fine:
        return made
    few = scenario.clients.num_rows * scenario.brokers.num_rows <= FEW_PAIRS
    return max(FINEST if few else FINE, made)


def traffic_from(
    scenario: Scenario, predicates: Ints, covers: Covers, rates: Rates, grid: Mapping[str, Floats], seen: int | None
) -> Traffic:
    users = np.sort(scenario.clients["id"].to_numpy())
    kind, wants = _kinds(scenario.subscriptions, users, predicates, covers)
    size = max(int(rates.channel.max(initial=0)), int(wants.items.max(initial=0))) + 1
    wanted = np.zeros(size, bool)
    wanted[wants.items] = True
    published = np.bincount(rates.channel, rates.bytes, size).astype(np.float64)
    used = np.flatnonzero(wanted)
    number = np.full(size, -1, np.int64)
    number[used] = np.arange(len(used))
    publisher = np.searchsorted(users, rates.publisher)
    sent = np.bincount(publisher, rates.bytes, len(users)).astype(np.float64)
    sends = _summed(publisher, number[rates.channel], rates.bytes, len(users))
    wants = _kept(wants, number)
    total = published[used]
    by_kind = np.bincount(_row_of(wants), wants.weights * total[wants.items], len(wants.offsets) - 1)
    got = by_kind[kind] - _own(scenario.subscriptions, users, kind, wants, sends)
    idle = int(((published > 0) & ~wanted).sum())
    return Traffic(users, kind, wants, sends, sent, np.maximum(got, 0.0), total, texts_of(grid, used), seen, idle)


def _kinds(subscriptions: pa.Table, users: Ints, predicates: Ints, covers: Covers) -> tuple[Ints, Rows]:
    """The kind of each user, and what each kind wants; users who want nothing are of a kind, too."""
    client = np.searchsorted(users, subscriptions["client"].to_numpy())
    pairs = np.unique(client * (int(predicates.max(initial=0)) + 1) + predicates)
    client, predicate = np.divmod(pairs, int(predicates.max(initial=0)) + 1)
    codes = _codes(client, predicate, len(users))
    _, first, kind = np.unique(codes, return_index=True, return_inverse=True)
    starts = np.searchsorted(client, np.arange(len(users) + 1))
    count = np.diff(starts)[first]
    entries = np.repeat(starts[first] - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(count.sum())
    row, filter_ = np.repeat(np.arange(len(first)), count), predicate[entries]
    many = np.diff(covers.offsets)[filter_]
    at = np.repeat(covers.offsets[filter_] - np.concatenate([[0], np.cumsum(many)[:-1]]), many) + np.arange(many.sum())
    return kind.reshape(-1), _summed(np.repeat(row, many), covers.channels[at], covers.parts[at], len(first), 1.0)


def _codes(client: Ints, predicate: Ints, count: int) -> Ints:
    """A number for each user's set of filters: two users have the same if their sets are the same."""
    starts = np.searchsorted(client, np.arange(count + 1))
    order = np.arange(len(client)) - starts[client]
    codes = np.zeros(count, np.int64)
    for place in range(int(np.diff(starts).max(initial=0))):
        there = order == place
        column = np.full(count, -1, np.int64)
        column[client[there]] = predicate[there]
        codes = np.unique(np.stack([codes, column]), axis=1, return_inverse=True)[1].reshape(-1)
        if place > 64:  # users with very many filters are kinds of their own
            return np.where(np.diff(starts) > 64, count + np.arange(count), codes)
    return codes


def _summed(row: Ints, item: Ints, weight: Floats, count: int, most: float = np.inf) -> Rows:
    """Equal entries become one; those with a negative item are left out."""
    known = item >= 0
    width = int(item.max(initial=0)) + 1
    keys, which = np.unique(row[known] * width + item[known], return_inverse=True)
    weights = np.minimum(np.bincount(which.reshape(-1), weight[known], len(keys)), most)
    return Rows(np.searchsorted(keys, np.arange(count + 1) * width), (keys % width).astype(np.int32), weights)


def _kept(rows: Rows, number: Ints) -> Rows:
    """The same with other numbers for items, without those that have none."""
    return _summed(_row_of(rows), number[rows.items], rows.weights, len(rows.offsets) - 1)


def _row_of(rows: Rows) -> Ints:
    return np.repeat(np.arange(len(rows.offsets) - 1), np.diff(rows.offsets))


def _own(subscriptions: pa.Table, users: Ints, kind: Ints, wants: Rows, sends: Rows) -> Floats:
    """By user: what it publishes and wants itself, but does not get since its subscriptions say no_local."""
    shy = np.zeros(len(users), bool)
    shy[np.searchsorted(users, subscriptions["client"].to_numpy()[subscriptions["no_local"].to_numpy()])] = True
    user = _row_of(sends)
    mine = shy[user]
    width = int(max(wants.items.max(initial=0), sends.items.max(initial=0))) + 1
    keys = _row_of(wants) * width + wants.items
    asked = kind[user[mine]] * width + sends.items[mine]
    if not len(keys) or not len(asked):
        return np.zeros(len(users))
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    taken = np.where(keys[at] == asked, wants.weights[at], 0.0) * sends.weights[mine]
    found: Floats = np.bincount(user[mine], taken, len(users)).astype(np.float64)
    return found
