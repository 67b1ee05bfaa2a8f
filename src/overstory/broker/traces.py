"""The hops of single events that somebody wants to follow: where each matched, where it went, where it stopped and why.

An event is followed if it is published with QoS 2 and the user property ``$trace``, whose value is the name of the
trace. Such events go the plain way at every broker, so that nothing has to be remembered of others.
"""

from collections.abc import Mapping

import msgspec
import numpy as np

from overstory.broker.message import Message
from overstory.broker.session import Session
from overstory.broker.state import State
from overstory.routing.frames import NOWHERE, Frames, Routed

TRACE = "$trace"
MOST = 100  # traces that are remembered
NOT_WANTED = "nobody behind it wants the event"
NOT_ON_ITS_TREE = "it is not on the event's tree"


class Step(msgspec.Struct, frozen=True):
    """A copy of the event that a broker sent to a neighbour."""

    peer: int
    flows: list[int]
    header_bytes: int


class Hop(msgspec.Struct, frozen=True):
    """The event at one broker."""

    broker: int
    origin: int | None  # the neighbour that it came from; None: it was published here
    flows: list[int]  # that it serves
    matched: list[int]  # subscriptions here
    clients: list[str]  # that got it
    steps: list[Step]
    stopped: dict[int, str]  # neighbours that did not get it, and why


class Traces:
    """What one broker remembers of events that are followed."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._hops: dict[str, list[Hop]] = {}

    def hops(self, name: str) -> list[Hop]:
        """The hops of a trace at this broker."""
        return self._hops.get(name, [])

    def note(
        self, message: Message, frames: Frames, row: int, routed: Routed, neighbours: Mapping[int, object]
    ) -> None:
        """Remembers one event, if it is followed."""
        pairs = message.properties.get("user_properties", ())
        name = next((value for key, value in pairs if key == TRACE), None)
        if name is None:
            return
        self._hops.setdefault(name, []).append(self._hop(frames, row, routed, neighbours))
        while len(self._hops) > MOST:
            del self._hops[next(iter(self._hops))]

    def _hop(self, frames: Frames, row: int, routed: Routed, neighbours: Mapping[int, object]) -> Hop:
        state, origin = self._state, int(frames.origins[row])
        steps = []
        for place in np.flatnonzero(routed.frames == row).tolist():
            peer = int(routed.peers[place])
            if peer in neighbours:
                header = len(routed.steered.take(np.array([place])).data)
                steps.append(Step(peer, sorted(routed.flows[place]), header))
        matched = routed.delivered[routed.delivered_frames == row].tolist()
        holders = [state.subscriptions[number].holder for number in matched if number in state.subscriptions]
        clients = sorted({one.client_id if isinstance(one, Session) else one.name for one in holders})
        return Hop(
            state.config.number,
            None if origin == NOWHERE else origin,
            sorted(frames.flows[row]),
            matched,
            clients,
            steps,
            self._stopped(frames, row, {origin, *(step.peer for step in steps)}),
        )

    def _stopped(self, frames: Frames, row: int, reached: set[int]) -> dict[int, str]:
        """The neighbours in the event's flows that it did not go to."""
        epoch = self._state.router.state.epochs[frames.epoch]
        found: dict[int, str] = {}
        for number in sorted(frames.flows[row]):
            flow = epoch.share.flows.get(number)
            for peer in sorted(flow.neighbours if flow is not None else ()):
                if peer not in reached:
                    found[peer] = NOT_ON_ITS_TREE if number in epoch.steered.place_of else NOT_WANTED
        return found
