"""Steered events of QoS 0 that come from a neighbour: where their headers send them, and which of them stay here.

It says what ``Router.publish`` says of the same frames, for as long as nothing is out of the ordinary: every header can
be followed, every next hop is up, no event has come before, and flows are not ordered. Nothing is read of the events
themselves but what they were sent with.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from overstory.routing.epoch import Epoch
from overstory.routing.frames import NOTHING_ENTERS, Steered
from overstory.routing.steered_flows import Here, Steps
from overstory.wire.frames import Events, Flows, Steering, distinct

Ints = NDArray[np.int64]


class Following:
    """Events of one frame, as their headers say."""

    def __init__(self, events: Events, here: Here, steps: Steps) -> None:
        self._events, self.here, self._steps = events, here, steps
        self.staying: Ints = here.frames[here.stays]  # the events that stay, ascending

    @classmethod
    def of(cls, epoch: Epoch, events: Events) -> "Following | None":
        """What becomes of the events of a frame; None if that is for the plain way. This changes nothing."""
        steering, steered = events.steering, epoch.steered
        if steering is None or events.marks.any() or not len(steered) or steered.ordered.any() or steered.turns:
            return None
        if (steering.counts != 1).any():  # of several flows each may stay or go on
            return None
        if any(len(flows) != 1 for flows in set(events.flows)):
            return None
        ends = np.concatenate([[0], np.cumsum(steering.sizes)])
        here = steered.read(Steered(np.arange(len(events) + 1), steering.flows, ends, steering.data))
        if len(here.wrong) or epoch.arrivals.have_come(here, events.ids, events.entries):
            return None
        steps = steered.steps(here, NOTHING_ENTERS)
        return None if len(steps.stranded.frames) else cls(events, here, steps)

    def together(self, by_broker: bool) -> Iterator[tuple[Ints, Flows]]:
        """The events that stay, those that one decision is about together: of one flow and, if asked, one broker."""
        rows, events = self.staying, self._events
        flows = [events.flows[row] for row in rows.tolist()]
        entries = events.entries[rows] if by_broker else np.zeros(len(rows), np.int64)
        differs = [at for at in range(1, len(rows)) if flows[at] != flows[at - 1] or entries[at] != entries[at - 1]]
        for begin, end in pairwise([0, *differs, len(rows)]):
            yield rows[begin:end], flows[begin]

    def onward(self) -> Iterator[tuple[int, Events]]:
        """What each neighbour gets."""
        events, steps = self._events, self._steps
        starts = np.concatenate([[0], np.cumsum(events.sizes)]).tolist()
        one_by_one = Steered(np.arange(len(steps.flows) + 1), steps.flows, steps.byte_offsets, steps.data)
        for peer in distinct(steps.peers):
            mine = np.flatnonzero(steps.peers == peer)
            mine = mine[np.argsort(steps.frames[mine], kind="stable")]
            rows, headers = steps.frames[mine], one_by_one.take(mine)
            packets = b"".join(events.publishes[starts[row] : starts[row + 1]] for row in rows.tolist())
            yield (
                peer,
                Events(
                    events.epoch,
                    packets,
                    events.sizes[rows],
                    events.marks[rows],
                    events.ids[rows],
                    events.publishers[rows],
                    events.entries[rows],
                    [events.flows[row] for row in rows.tolist()],
                    events.statistics_of(rows),
                    Steering(np.ones(len(rows), np.int64), headers.flows, np.diff(headers.byte_offsets), headers.data),
                ),
            )
