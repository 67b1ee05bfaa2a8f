"""How much the broker keeps for whom, and what it does when that is full.

- A subscriber that does not read loses messages of QoS 0, which are counted. Those of QoS 1 and 2 wait in its session;
  a session in which too many wait is ended, and its client told why.
- A publisher is not read while too many of its messages are unacknowledged, or while too much of what has come waits to
  be handled.
"""

import msgspec


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bounds on what is kept. All may be set in the configuration."""

    packet: int = 1 << 20  # bytes of a packet that a client may send
    receive_max: int = 1024  # messages of a client that may be unacknowledged
    inflight: int = 16384  # unacknowledged messages to one client, if it takes so many
    queued: int = 10_000  # messages of QoS 1 and 2 that wait in one session
    write_buffer: int = 1 << 20  # bytes that wait to be read by one client, before it counts as slow
    read_ahead: int = 4 << 20  # bytes that have come and wait to be handled, before nobody is read
    uncommitted: int = 10_000  # messages that wait for the disk, before nobody is read
    keep_alive: int = 0  # seconds, the most that a client may ask for; 0: any
    session_expiry: int = 0xFFFFFFFF  # seconds, the most that a session may outlive its connection
    topic_aliases: int = 64  # that a client may use towards us
    connections: int = 0  # at a time; 0: as many as the system allows
    subscriptions: int = 0  # of one session; 0: any number


class Losses(msgspec.Struct):
    """What was not delivered, and why: counted since the start."""

    slow: int = 0  # messages of QoS 0 to clients that did not read
    overflowed: int = 0  # sessions that were ended since too much waited in them
    expired: int = 0  # messages whose time had passed
    retained_refused: int = 0
