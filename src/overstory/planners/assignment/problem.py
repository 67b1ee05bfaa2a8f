"""The problem of subscriber assignment as arrays: who wants which rectangle, who may be served by which leaf broker.

Only this file knows tables. Brokers stand on the tree of the base's one flow, below the broker of the publishers, which
takes no subscribers. The *leaves* do; all brokers but the root are *nodes*, leaves first, each before its parent. A
subscriber is a client with subscriptions: its rectangle is the smallest that holds them. Clients with equal sets of
leaves in time are of one *class*. Clients that want nothing stay where they are.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import InfeasibleError, UsageError
from overstory.model.access import access_of
from overstory.model.network import Floats, Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.planners.assignment.balancing import capacities, least_load_factor
from overstory.planners.assignment.event_space import EventSpace, event_space
from overstory.planners.assignment.trees import Brokers, brokers_of
from overstory.planners.steps import Steps

Words = NDArray[np.uint64]
Truths = NDArray[np.bool_]
USUAL_BOXES = 3
CLIENTS_AT_ONCE = 1 << 14
TOLERATED = 1e-6  # of the sum of shares, which are rounded


class Pairs(NamedTuple):
    """Subscribers with the same rectangle and class."""

    rectangle: Ints
    which: Ints
    size: Ints
    of_subscriber: Ints


@dataclass(frozen=True, eq=False)
class Problem:
    brokers: Brokers
    space: EventSpace
    clients: Ints  # the subscribers, by id
    rectangle: Ints  # of each subscriber
    which: Ints  # the class of each subscriber
    words: Words  # by class: the leaves that are in time, as bits
    fair: Floats  # by leaf: clients that it has under a load factor of one
    others: Ints  # by leaf: clients that want nothing and stay there
    boxes: int  # of a filter, at most
    wanted: float  # the load factor to stay within, if possible
    most: float  # the largest load factor

    @cached_property
    def mask(self) -> Truths:
        """By class and leaf: whether it is in time."""
        return as_truths(self.words, len(self.fair))

    @cached_property
    def counts(self) -> Ints:
        """Subscribers of each class."""
        return np.bincount(self.which, minlength=len(self.words))

    @cached_property
    def pairs(self) -> Pairs:
        """Subscribers by rectangle and class, in this order."""
        keys = self.rectangle * len(self.words) + self.which
        distinct, found, size = np.unique(keys, return_inverse=True, return_counts=True)
        return Pairs(*np.divmod(distinct, len(self.words)), size, found.reshape(-1))

    @cached_property
    def least(self) -> float:
        """The least load factor of any assignment in time."""
        return least_load_factor(self.mask, self.counts, self.fair, self.others)

    def capacity(self, factor: float) -> Ints:
        """Subscribers that each leaf may have under a load factor."""
        return np.asarray(np.maximum(capacities(self.fair, factor) - self.others, 0), np.int64)

    @cached_property
    def factor(self) -> float:
        """The load factor to plan with: what is wanted, or the least possible one if that is more. Where not even the
        largest is possible it is the largest."""
        return self.wanted if self.least <= self.wanted else min(self.least, self.most)


def problem_of(
    scenario: Scenario,
    pipeline: Steps,
    base: Mapping[str, pa.Table],
    parameters: Mapping[str, Value],
    more_time: float = 0.0,
) -> Problem:
    """The problem that a scenario poses on the tree of the base. ``more_time`` is how many milliseconds everybody
    allows beyond what the scenario says."""
    brokers = brokers_of(scenario, pipeline, base)
    clients, rectangle, space = _wants(scenario, pipeline)
    words = _in_time(scenario, pipeline, brokers, parameters.get("last_hop", 0.0), more_time)
    every = scenario.clients["id"].to_numpy()
    order = np.argsort(every, kind="stable")
    mine = words[order[np.searchsorted(every[order], clients)]]
    distinct, which = distinct_rows(mine)
    _check_reach(clients, distinct, which)
    limits = scenario.settings.limits
    most = limits.load if limits.load is not None else np.inf
    wanted = limits.load_wanted if limits.load_wanted is not None else most
    return Problem(
        brokers,
        space,
        clients,
        rectangle,
        which,
        distinct,
        _shares(scenario, brokers) * scenario.clients.num_rows,
        _others(base, brokers, clients),
        _boxes(parameters, limits.boxes),
        float(min(wanted, most, len(brokers.leaves))),
        float(min(most, len(brokers.leaves))),
    )


def _boxes(parameters: Mapping[str, Value], limit: int | None) -> int:
    given = parameters.get("boxes", "auto")
    if given == "auto":
        return limit or USUAL_BOXES
    if not isinstance(given, int) or isinstance(given, bool) or given < 1:
        raise UsageError(f"boxes={given}: a filter has 1 box or more")
    return given


def _wants(scenario: Scenario, pipeline: Steps) -> tuple[Ints, Ints, EventSpace]:
    """The subscribers, the number of each one's rectangle, and event space with all rectangles."""
    clients = scenario.subscriptions["client"].to_numpy()
    filters = pipeline.predicates(scenario)
    subscribers, which, counts = np.unique(clients, return_inverse=True, return_counts=True)
    if not len(subscribers):
        raise UsageError("nobody subscribes to anything, so there is nobody to assign")
    if counts.max() == 1:
        rectangle = np.empty(len(subscribers), np.int64)
        rectangle[which.reshape(-1)] = filters
        return subscribers, rectangle, event_space(scenario, pipeline, np.arange(filters.max() + 1)[:, None])
    order = np.argsort(which.reshape(-1), kind="stable")
    keys = np.full((len(subscribers), int(counts.max())), -1)
    keys[which.reshape(-1)[order], np.arange(len(order)) - (np.cumsum(counts) - counts)[which.reshape(-1)[order]]] = (
        filters[order]
    )
    sets, rectangle = np.unique(np.sort(keys, axis=1), axis=0, return_inverse=True)
    return subscribers, rectangle.reshape(-1), event_space(scenario, pipeline, sets)


def _in_time(scenario: Scenario, pipeline: Steps, brokers: Brokers, last_hop: Value, more_time: float) -> Words:
    """By client: the leaves through which events reach it in time, as bits."""
    limit = scenario.settings.limits.delay
    found = pipeline.candidates(scenario, limit=limit, before=brokers.before - more_time)
    words = _columns(found.words, brokers.leaves)
    if isinstance(last_hop, bool) or not isinstance(last_hop, int | float) or last_hop < 0:
        raise UsageError(f"last_hop={last_hop}: it is a number of milliseconds, 0 for no limit")
    if last_hop:
        words &= _near(scenario, brokers, last_hop)
    return words


def _columns(words: Words, leaves: Ints) -> Words:
    """The bits of some brokers, moved together."""
    width = -(-len(leaves) // 64)
    found = np.zeros((len(words), width), np.uint64)
    step = leaves[1:] - leaves[:-1]
    if len(leaves) and (step == 1).all() and leaves[0] < 64:  # one shift moves them all
        shift = np.uint64(leaves[0])
        for word in range(width):
            found[:, word] = words[:, word] >> shift
            if shift and word + 1 < words.shape[1]:
                found[:, word] |= words[:, word + 1] << (np.uint64(64) - shift)
        if len(leaves) % 64:
            found[:, -1] &= (np.uint64(1) << np.uint64(len(leaves) % 64)) - np.uint64(1)
        return found
    for at, broker in enumerate(leaves.tolist()):
        bit = words[:, broker // 64] >> np.uint64(broker % 64) & np.uint64(1)
        found[:, at // 64] |= bit << np.uint64(at % 64)
    return found


def _near(scenario: Scenario, brokers: Brokers, last_hop: float) -> Words:
    """By client: the leaves whose access link takes at most so many milliseconds."""
    links, clients = access_of(scenario), scenario.clients["id"].to_numpy()
    ids = scenario.network.ids[brokers.leaves]
    found = np.zeros((len(clients), -(-len(ids) // 64) * 64), bool)
    for start in range(0, len(clients), CLIENTS_AT_ONCE):
        some = clients[start : start + CLIENTS_AT_ONCE]
        found[start : start + len(some), : len(ids)] = links.down(some[:, None], ids).delays <= last_hop
    return np.packbits(found, axis=1, bitorder="little").view(np.uint64)


def distinct_rows(words: Words) -> tuple[Words, Ints]:
    """Distinct rows, and which of them each row is."""
    mixed = np.zeros(len(words), np.uint64)
    with np.errstate(over="ignore"):
        for column in words.T:
            mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
    _, first, which = np.unique(mixed, return_index=True, return_inverse=True)
    which = which.reshape(-1)
    if not np.array_equal(words[first][which], words):  # two rows have the same hash
        _, first, which = np.unique(words, axis=0, return_index=True, return_inverse=True)
    return np.ascontiguousarray(words[first]), which.reshape(-1).astype(np.int64)


def as_truths(words: Words, leaves: int) -> Truths:
    bits = np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, bitorder="little")
    return bits[:, :leaves].astype(bool)


def as_words(mask: Truths) -> Words:
    bits = np.zeros((len(mask), -(-mask.shape[1] // 64) * 64), bool)
    bits[:, : mask.shape[1]] = mask
    return np.packbits(bits, axis=1, bitorder="little").view(np.uint64)


def _check_reach(clients: Ints, words: Words, which: Ints) -> None:
    lonely: Truths = np.asarray(words.max(axis=1) == 0)
    if lonely.any():
        mine = clients[lonely[which]]
        more = f" ({len(mine):,} such clients)" if len(mine) > 1 else ""
        raise InfeasibleError(
            f"no leaf broker can serve client {mine[0]} within the delay that it allows{more}; "
            "allow more (latest in clients, delay in scenario.toml), or add a broker near it"
        )


def _shares(scenario: Scenario, brokers: Brokers) -> Floats:
    """Of leaves, as the meter has them: those that say nothing have equal parts of what the others leave."""
    shares: Floats = scenario.brokers.sort_by("id")["share"].to_numpy().copy()
    open_ones = np.isnan(shares)
    if not open_ones.any() and abs(shares.sum() - 1) > TOLERATED:
        raise UsageError(f"the shares of all brokers add up to {shares.sum():g}, not to 1; see share in brokers")
    shares[open_ones] = max(1.0 - np.nansum(shares), 0.0) / max(int(open_ones.sum()), 1)
    if not shares[brokers.leaves].sum() > 0:
        raise UsageError("all leaf brokers have a share of 0, so that none takes subscribers; see share in brokers")
    return shares[brokers.leaves]


def _others(base: Mapping[str, pa.Table], brokers: Brokers, clients: Ints) -> Ints:
    attached = base["attachments"]
    idle = ~np.isin(attached["client"].to_numpy(), clients)
    at = brokers.leaf_of[brokers.network.positions(attached["broker"].to_numpy()[idle])]
    return np.bincount(at[at >= 0], minlength=len(brokers.leaves))
