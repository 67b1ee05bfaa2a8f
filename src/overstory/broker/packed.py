"""A session as it travels from one broker to another."""

from collections.abc import Callable

import msgspec

from overstory.broker.session import Delivery, Session
from overstory.errors import LinkError
from overstory.wire.packets import Asked

Got = Callable[[set[int]], list[tuple[int, int, list[int]]]]
Wanted = tuple[Asked, str | None, int, int, int]  # with where, identifier, number and version


class Packed(msgspec.Struct, array_like=True):
    """A session on its way."""

    number: int
    expiry: int
    next_id: int
    received: list[int]
    inflight: dict[int, Delivery]
    queue: list[Delivery]
    subscriptions: list[Wanted]  # under versions that no copy of the session has used
    seen: list[tuple[int, int]]
    once: list[tuple[int, int, list[int]]] = []  # events of QoS 2, and the subscriptions that have got them


def packed(session: Session, once: Got, expiry: int | None = None) -> bytes:
    """A session as bytes; with this expiry, if it has another one only for as long as it moves. ``once`` tells which
    events of QoS 2 its subscriptions have got."""
    made = session.subscriptions.values()
    wanted = [(one.asked, one.where, one.identifier, one.number, one.version + session.copies) for one in made]
    received, inflight, queue = sorted(session.received), session.inflight, list(session.queue)
    seen = sorted(session.seen or ())
    lasts = session.expiry if expiry is None else expiry
    got = once(session.numbers)
    content = Packed(session.number, lasts, session.next_id, received, inflight, queue, wanted, seen, got)
    return msgspec.msgpack.encode(content)


def unpacked(data: bytes) -> Packed:
    """The session that bytes stand for. Raises a ``LinkError`` if they stand for none."""
    try:
        return msgspec.msgpack.decode(data, type=Packed)
    except msgspec.MsgspecError as error:
        raise LinkError(f"a session cannot be read: {str(error).splitlines()[0]}") from None


def restore_messages(session: Session, content: Packed) -> None:
    """Gives a session the messages and packet identifiers that it had elsewhere."""
    session.next_id, session.received = content.next_id, set(content.received)
    for packet_id, delivery in content.inflight.items():
        session.restore(delivery, packet_id)
    for delivery in content.queue:
        session.restore(delivery, 0)
    session.remember(content.seen)
