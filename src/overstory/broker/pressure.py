"""How much the broker keeps for whom, and what it does when that is full.

- A subscriber that does not read loses messages of QoS 0, which are counted. Those of QoS 1 and 2 wait in its session;
  a session in which too many wait is ended, and its client told why.
- A publisher is not read while too many of its events, or of all events, wait until they may be acknowledged
  (``Window``), or while too much of what has come waits to be handled. A client of MQTT 5 knows how many events it may
  send without waiting; one that sends more is hung up on.
"""

import msgspec

from overstory.errors import ProtocolError
from overstory.wire.packets import Code


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds on what is kept. All may be set in the configuration."""

    packet: int = 1 << 20  # bytes of a packet that a client may send
    receive_max: int = 1024  # messages of a client that may be unacknowledged
    inflight: int = 16384  # unacknowledged messages to one client, if it takes so many
    queued: int = 10_000  # messages of QoS 1 and 2 that wait in one session
    write_buffer: int = 1 << 20  # bytes that wait to be read by one client, before it counts as slow
    read_ahead: int = 4 << 20  # bytes that have come and wait to be handled, before nobody is read
    uncommitted: int = 10_000  # messages that wait for the disk, before nobody is read
    unacknowledged: int = 65_536  # events of all clients that wait for an acknowledgement, before no publisher is read
    keep_alive: int = 0  # seconds, the most that a client may ask for; 0: any
    session_expiry: int = 0xFFFFFFFF  # seconds, the most that a session may outlive its connection
    topic_aliases: int = 64  # that a client may use towards us
    connections: int = 0  # at a time; 0: as many as the system allows
    subscriptions: int = 0  # of one session; 0: any number


class LinkLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds of a link. All may be set in the configuration."""

    full: int = 1 << 20  # bytes that neighbours have not handled, before publishing clients are not read
    buffer: int = 64 << 20  # bytes that wait for one neighbour, before events of QoS 0 are dropped
    spool: int = 1 << 28  # bytes on disk for neighbours that are down, before acknowledgements wait
    heartbeat: float = 0.5  # seconds between pings
    silence: float = 3.0  # seconds without a word, before the connection counts as lost
    grace: float = 1.0  # seconds without a connection, before the neighbour counts as down
    retry: float = 0.05  # seconds before the first attempt to connect again; twice as long before each further one
    most_retry: float = 2.0


class MoveLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds on clients that are asked to go to another broker. All may be set in the configuration."""

    rate: float = 50.0  # clients that are asked in a second
    leaving: int = 5  # clients that are on their way from here at once
    arriving: int = 50  # sessions that are copied here at once, before their clients come


class Losses(msgspec.Struct):
    """What was not delivered, and why: counted since the start."""

    slow: int = 0  # messages of QoS 0 to clients that did not read
    overflowed: int = 0  # sessions that were ended since too much waited in them
    expired: int = 0  # messages whose time had passed
    retained_refused: int = 0


class Window:
    """The events of QoS 1 and 2 of one publisher that are not acknowledged yet; or those of all publishers together.

    An event is entered when it comes. It is answered when it is safe, with the disk and with all others that it has to
    wait for, so that its PUBACK or PUBREC may be sent. A publisher of which too many events wait for that is not read.

    What a publisher may have sent before it knew of any acknowledgement is more: of QoS 1 also the events whose PUBACK
    is not written yet, and of QoS 2 those that it has not released. These may not exceed the receive maximum.
    """

    __slots__ = ("_answered", "_once", "_unwritten", "above", "limit", "pending")

    def __init__(self, limit: int, above: "Window | None" = None) -> None:
        self.limit = limit
        self.above = above  # the window of all publishers, which counts these events too
        self.pending = 0  # events that may not be acknowledged yet
        self._unwritten = 0  # events whose acknowledgement is not written yet
        self._answered = 0  # those of them that may be acknowledged
        self._once: set[int] = set()  # packet identifiers of QoS 2 that this connection has sent and not released

    @property
    def is_full(self) -> bool:
        """Whether the publisher is not to be read for now."""
        return self.pending >= self.limit or (self.above is not None and self.above.is_full)

    @property
    def is_exceeded(self) -> bool:
        """Whether the publisher has sent more than it may without waiting for acknowledgements."""
        return self._unwritten + len(self._once) > self.limit

    def too_many(self) -> ProtocolError:
        """What a publisher is told that has sent more than it may."""
        return ProtocolError(Code.RECEIVE_MAXIMUM, f"more than {self.limit:,} messages are unacknowledged")

    def enter(self, count: int) -> None:
        """Events of QoS 1 have come."""
        self._unwritten += count
        self._wait(count)

    def enter_once(self, packet_id: int) -> None:
        """An event of QoS 2 has come."""
        self._once.add(packet_id)
        self._wait(1)

    def answer(self, count: int, once: int = 0) -> None:
        """So many events of QoS 1 and 2 are safe, and their acknowledgements are about to be written."""
        self._answered += count
        self._wait(-count - once)

    def _wait(self, count: int) -> None:
        self.pending += count
        if self.above is not None:
            self.above.pending += count

    def leave(self) -> None:
        """The connection is gone, and its events do not count among those of all publishers any more."""
        if self.above is not None:
            self.above.pending -= self.pending
            self.above = None

    def written(self) -> None:
        """All acknowledgements that might be are written."""
        self._unwritten -= self._answered
        self._answered = 0

    def release(self, packet_id: int) -> None:
        """The publisher has released an event of QoS 2."""
        self._once.discard(packet_id)
