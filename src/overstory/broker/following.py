"""Steered events of QoS 0 that come from a neighbour: where their headers send them, and which of them stay here.

It says what ``Router.publish`` says of the same frames, for as long as nothing is out of the ordinary: every header can
be followed, every next hop is up, no event has come before, and flows are not ordered. Nothing is read of the events
themselves but what they were sent with.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from overstory.kernels.forwarding import Forwarded, forward
from overstory.routing.epoch import Epoch
from overstory.routing.frames import Steered
from overstory.routing.steered_flows import Here, SteeredFlows
from overstory.wire.frames import Events, Flows, Same, Steering, are_alike, are_same, constant, some_of

Ints = NDArray[np.int64]


class Following:
    """Events of one frame, as their headers say."""

    def __init__(self, events: Events, here: Here, steered: SteeredFlows, forwarded: Forwarded) -> None:
        self._events, self.here, self._steered, self._forwarded = events, here, steered, forwarded
        self.staying: Ints = here.frames[here.stays]  # the events that stay, ascending

    @classmethod
    def of(cls, epoch: Epoch, events: Events) -> "Following | None":
        """What becomes of the events of a frame; None if that is for the plain way. This changes nothing."""
        steering, steered = events.steering, epoch.steered
        if steering is None or not steered.is_plain or events.marks.any():
            return None
        if (steering.counts != 1).any() or not _have_one_flow_each(events.flows):  # of several each may stay or go on
            return None
        ends = np.zeros(len(events) + 1, np.int64)
        np.cumsum(steering.sizes, out=ends[1:])
        here = steered.read(Steered(np.arange(len(events) + 1), steering.flows, ends, steering.data))
        if len(here.wrong) or epoch.arrivals.have_come(here, events.ids, events.entries):
            return None
        first, degree = steered.ports_here
        onward, sizes = here.onward, np.ascontiguousarray(events.sizes)
        packets = np.frombuffer(events.publishes, np.uint8)
        forwarded = forward(degree, onward.link - first, onward.tree, onward.offsets, onward.data, sizes, packets)
        found = cls(events, here, steered, forwarded)
        return found if all(peer in steered.links.up for _, peer in found._ports) else None

    @property
    def _ports(self) -> Iterator[tuple[int, int]]:
        """The ports by which events go on, and the neighbours there."""
        ends = self._forwarded.offsets.tolist()
        for port, peer in enumerate(self._steered.beside):
            if ends[port] < ends[port + 1]:
                yield port, peer

    def together(self, by_broker: bool) -> Iterator[tuple[Ints, Flows]]:
        """The events that stay, those that one decision is about together: of one flow and, if asked, one broker."""
        rows, events = self.staying, self._events
        if are_alike(events.flows) and (not by_broker or are_same(events.entries)):  # most often
            yield rows, events.flows[0]
            return
        flows = [events.flows[row] for row in rows.tolist()]
        entries = events.entries[rows] if by_broker else np.zeros(len(rows), np.int64)
        differs = [at for at in range(1, len(rows)) if flows[at] != flows[at - 1] or entries[at] != entries[at - 1]]
        for begin, end in pairwise([0, *differs, len(rows)]):
            yield rows[begin:end], flows[begin]

    def onward(self) -> Iterator[tuple[int, Events]]:
        """What each neighbour gets."""
        events, found = self._events, self._forwarded
        assert events.steering is not None
        alike = events.flows[0] if are_alike(events.flows) else None
        for port, peer in self._ports:
            copies = slice(found.offsets[port], found.offsets[port + 1])
            packets = slice(found.packet_offsets[port], found.packet_offsets[port + 1])
            headers = slice(found.header_offsets[port], found.header_offsets[port + 1])
            rows = found.rows[copies]
            flows = [events.flows[row] for row in rows.tolist()] if alike is None else Same(alike, len(rows))
            yield (
                peer,
                Events(
                    events.epoch,
                    found.packets[packets].data,
                    found.sizes[copies],
                    some_of(events.marks, rows),
                    some_of(events.ids, rows),
                    some_of(events.publishers, rows),
                    some_of(events.entries, rows),
                    flows,
                    events.statistics_of(rows),
                    Steering(
                        constant(1, len(rows)),
                        some_of(events.steering.flows, rows),
                        found.header_sizes[copies],
                        found.headers[headers],
                    ),
                ),
            )


def _have_one_flow_each(flows: Sequence[Flows]) -> bool:
    """Whether each event is for one flow."""
    return len(flows[0]) == 1 if are_alike(flows) else all(len(one) == 1 for one in set(flows))
