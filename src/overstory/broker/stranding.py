"""Events of steered flows that no way leads on for: they wait here, and go on when links have changed.

1. An event of QoS 1 or 2 waits until it has been sent towards all its ends. On disk it counts as safe, as events for a
   neighbour that is down do. Without a disk, or if the spool is full, its acknowledgement waits: so publishers bound
   what is kept in memory.
2. Events of QoS 0 wait in so many bytes at most as for one neighbour; the others are dropped, and counted.
3. All that waits is tried again whenever a link has changed, as far as is known here, and every ``PAUSE`` seconds: a
   frame that has made its last detour waits, too, and nothing need change here for it to find a way.
"""

from collections import deque
from collections.abc import Callable

import msgspec
import numpy as np

from overstory.broker.promises import Promise, Promises, kept_elsewhere
from overstory.broker.spool import Spool
from overstory.routing.frames import Ints, Stranded
from overstory.routing.router import Router
from overstory.routing.steered_flows import SteeredFlows, Steps
from overstory.wire.frames import Events, Steering, decode_events, encode_events

PAUSE = 2.0  # seconds
TRIED = 50  # events that are tried again in one turn
Row = Callable[[int, int], tuple[Events, Promise | None]]  # of a frame, in a flow


class Waiting(msgspec.Struct):
    """One event in one flow, and the ends that it has not been sent to."""

    events: Events  # this one alone, without a header
    flow: int
    ends: Ints  # brokers
    numbers: Ints  # of the event at these ends, in ordered flows
    promise: Promise | None  # None: of QoS 0
    key: int = 0  # in the spool; 0: it is not there


class Written(msgspec.Struct, array_like=True):
    """The same on disk."""

    flow: int
    ends: list[int]
    numbers: list[int]
    body: bytes


class Stranding:
    """The events that wait at one broker for a way."""

    def __init__(
        self,
        router: Router,
        send: Callable[[int, Events, Promises], None],
        spool: Spool,
        most_bytes: int,
    ) -> None:
        self._router, self._send, self._spool, self._most = router, send, spool, most_bytes
        self._waiting: deque[Waiting] = deque()
        self._to_try = 0  # of those that wait, from the first
        self._changes, self._tried = 0, 0.0
        self.bytes = 0  # of events of QoS 0
        self.lost = 0  # events of QoS 0 for which there was no room

    def __len__(self) -> int:
        """How many events wait."""
        return len(self._waiting)

    def hold(self, stranded: Stranded, ids: Ints, row: Row) -> None:
        """Keeps what is stranded of a batch. ``ids`` are the brokers by position; ``row`` gives one of its events."""
        places: dict[tuple[int, int], list[int]] = {}
        for place, key in enumerate(zip(stranded.frames.tolist(), stranded.flows.tolist(), strict=True)):
            places.setdefault(key, []).append(place)
        for (frame, flow), mine in sorted(places.items()):
            events, promise = row(frame, flow)
            order = np.array(mine)[np.argsort(stranded.ends[mine])]
            self._keep(Waiting(events, flow, ids[stranded.ends[order]], stranded.numbers[order], promise))

    def _keep(self, one: Waiting) -> None:
        promise, size = one.promise, len(one.events.publishes)
        if promise is None:
            if self.bytes + size > self._most:
                self.lost += 1
                return
            self.bytes += size
        else:
            promise.wait()
            written = Written(one.flow, one.ends.tolist(), one.numbers.tolist(), encode_events(one.events))
            one.key = self._spool.keep(self._router.state.broker, msgspec.msgpack.encode(written), promise.kept)
            if one.key:
                one.promise = kept_elsewhere()
        self._waiting.append(one)

    def recall(self, key: int, body: bytes) -> None:
        """An event has been in the spool since before this broker restarted."""
        written = msgspec.msgpack.decode(body, type=Written)
        events, ends = decode_events(written.body), np.array(written.ends, np.int64)
        numbers = np.array(written.numbers, np.int64)
        self._waiting.append(Waiting(events, written.flow, ends, numbers, kept_elsewhere(), key))

    def try_again(self, now: float) -> bool:
        """Sends on what a way leads on for now, of ``TRIED`` events. Returns whether others are to be tried."""
        changes = self._router.state.links.changes
        if changes != self._changes or now - self._tried > PAUSE:
            self._changes, self._tried, self._to_try = changes, now, len(self._waiting)
        reach: dict[int, np.ndarray] = {}
        for _ in range(min(TRIED, self._to_try)):
            self._to_try -= 1
            one = self._waiting.popleft()
            steered = self._steered(one.events.epoch)
            if steered is not None:
                if one.events.epoch not in reach:
                    reach[one.events.epoch] = steered.within_reach
                if reach[one.events.epoch][np.searchsorted(steered.ids, one.ends)].any():
                    self._send_on(one, steered)
            if len(one.ends):
                self._waiting.append(one)
            else:
                self._gone(one)
        return self._to_try > 0

    def _steered(self, epoch: int) -> SteeredFlows | None:
        """The steered flows of an epoch. A plan that is not in use yet takes no events."""
        state = self._router.state
        return state.epochs[epoch].steered if epoch in state.epochs and state.active is not None else None

    def _send_on(self, one: Waiting, steered: SteeredFlows) -> None:
        """Sends an event towards the ends that a way leads to."""
        steps = steered.again(one.flow, np.searchsorted(steered.ids, one.ends), one.numbers)
        for at, peer in enumerate(steps.peers.tolist()):
            events = one.events.steered_by(_header(steps, at))
            self._send(peer, events, [] if one.promise is None else [one.promise])
        one.ends, one.numbers = steered.ids[steps.stranded.ends], steps.stranded.numbers

    def _gone(self, one: Waiting) -> None:
        """An event waits no longer. On disk it stays until all next hops have it."""
        if one.promise is None:
            self.bytes -= len(one.events.publishes)
            return
        if one.key:
            one.promise.then(lambda: self._spool.forget(one.key))
        one.promise.kept()


def _header(steps: Steps, at: int) -> Steering:
    """The header of one step, as it travels."""
    data = steps.data[steps.byte_offsets[at] : steps.byte_offsets[at + 1]]
    return Steering(np.ones(1, np.int64), steps.flows[at : at + 1], np.array([len(data)]), data)
