"""Events that enter steered flows here, as kernels have decided: which neighbours get them, and with which headers.

Kernels name the *ends* of an event, brokers that may be far away, as they name neighbours. What the router does with
ends (``routing.steered_flows``) is done here for a whole batch: trees, headers, numbers and counts are the router's
own.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.routing.frames import NOBODY_STRANDED, Entering, Steered, Stranded
from overstory.routing.steered_flows import SteeredFlows, Steps
from overstory.wire.frames import Flows, Same, Steering, are_same, distinct

Ints = NDArray[np.int64]


class Copies(NamedTuple):
    """Events that go to brokers, neighbours or ends, each in some flows."""

    events: Ints
    peers: Ints
    masks: Ints  # of each copy: bits of its flows, by their places in the table


class Sent(NamedTuple):
    """What one neighbour gets."""

    events: Ints
    flows: Sequence[Flows]
    steering: Steering | None


class Departing:
    """The events of one batch, on their way to neighbours."""

    def __init__(self, copies: Copies, flows: list[int], steered: SteeredFlows) -> None:
        self._flows = flows
        bits = 0
        if len(steered):
            bits = sum(1 << place for place, flow in enumerate(flows) if flow in steered.place_of)
        self._copies = _some(copies, copies.masks & ~bits) if bits else copies
        self._steps = steered.depart(_entering(_some(copies, copies.masks & bits), flows, steered)) if bits else None

    @property
    def stranded(self) -> Stranded:
        """The ends that no way leads to now."""
        return NOBODY_STRANDED if self._steps is None else self._steps.stranded

    @property
    def peers(self) -> list[int]:
        """The brokers that get something."""
        if self._steps is None:
            return distinct(self._copies.peers)
        return distinct(np.concatenate([self._copies.peers, self._steps.peers]))

    def to(self, peer: int) -> Sent:
        """What goes to one neighbour: one copy of each event, for all flows that share the copy."""
        here = self._copies.peers == peer
        events, masks = self._copies.events, self._copies.masks
        if not here.all():
            events, masks = events[here], masks[here]
        if self._steps is None:
            return Sent(events, self._sets(masks), None)
        steps, mine = self._steps, np.flatnonzero(self._steps.peers == peer)
        mine = mine[np.lexsort((steps.flows[mine], steps.frames[mine]))]
        if not len(mine):
            return Sent(events, self._sets(masks), None)
        all_events = np.union1d(events, steps.frames[mine])
        together = np.zeros(len(all_events), np.int64)
        together[np.searchsorted(all_events, events)] = masks
        at = np.searchsorted(all_events, steps.frames[mine])
        bits = np.array([1 << self._flows.index(flow) for flow in steps.flows[mine].tolist()], np.int64)
        np.bitwise_or.at(together, at, bits)
        return Sent(all_events, self._sets(together), _headers(steps, mine, np.bincount(at, minlength=len(all_events))))

    def _sets(self, masks: Ints) -> Sequence[Flows]:
        """The flows of copies. Equal sets are one object."""
        if len(masks) and are_same(masks):  # most often
            return Same(self._set(masks.item(0)), len(masks))
        distinct, which = np.unique(masks, return_inverse=True)
        sets = [self._set(mask) for mask in distinct.tolist()]
        return [sets[place] for place in which.tolist()]

    def _set(self, mask: int) -> Flows:
        return frozenset(flow for place, flow in enumerate(self._flows) if mask >> place & 1)


def _some(copies: Copies, masks: Ints) -> Copies:
    """Copies for fewer flows; those that are for none are left out."""
    kept = masks != 0
    if kept.all():
        return Copies(copies.events, copies.peers, masks)
    return Copies(copies.events[kept], copies.peers[kept], masks[kept])


def _entering(copies: Copies, flows: list[int], steered: SteeredFlows) -> Entering:
    """The ends of events, by event, then flow, then end."""
    ends = np.searchsorted(steered.ids, copies.peers)
    parts = []
    for place, flow in enumerate(flows):
        mine = copies.masks >> place & 1 == 1
        if mine.any():
            count = int(mine.sum())
            parts.append((copies.events[mine], np.full(count, steered.place_of[flow]), ends[mine]))
    nothing = np.empty(0, np.int64)
    columns = [np.concatenate([nothing, *column]) for column in zip(*parts, strict=True)] or [nothing] * 3
    order = np.lexsort((columns[2], columns[1], columns[0]))
    return Entering(*(column[order] for column in columns))


def _headers(steps: Steps, chosen: Ints, counts: Ints) -> Steering:
    """The headers of some steps, as they travel; ``counts`` says how many each event has."""
    one_by_one = Steered(np.arange(len(steps.flows) + 1), steps.flows, steps.byte_offsets, steps.data).take(chosen)
    return Steering(counts, one_by_one.flows, np.diff(one_by_one.byte_offsets), one_by_one.data)
