"""One client's session, without I/O: its subscriptions, and the messages that are on their way to it.

The rules that a maintainer may rely on:

1. At most ``receive_max`` messages of QoS 1 and 2 are in flight. What comes beyond that waits in ``queue``, in order.
2. A message in flight is kept until the client has acknowledged it, and is sent again when the client comes back.
3. A session that outlives its connection is noted in the journal, each change before anybody is told of it.
4. While nothing is queued and only QoS 1 is in flight, kernels may count the identifiers of a session that ends with
   its connection (``kernels.slots``). ``settle`` takes the count back, whenever something else is to be done.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from overstory.broker.journal import Journal
from overstory.broker.link import Link
from overstory.broker.message import Message
from overstory.broker.pressure import Limits, Losses
from overstory.broker.promises import Promise
from overstory.broker.slots import Slots
from overstory.filters import Filter
from overstory.kernels.nothing import NONE
from overstory.kernels.slots import COUNTED, MOST_IDS, OPEN
from overstory.wire.encode import encode
from overstory.wire.packets import PUBACK, PUBCOMP, PUBREC, PUBREL, Ack, Asked, Code, Will

FOR_EVER = 0xFFFFFFFF  # the session expiry that means never
SENT, RELEASED = 0, 1  # states of a message in flight; RELEASED: it has come, and only its identifier is left


class Subscription(msgspec.Struct, gc=False):
    """A subscription of a session, under the text that the client gave."""

    holder: Any  # the ``Session`` or, of a shared one, the ``Group`` that has it
    number: int  # the router's
    version: int
    asked: Asked
    filter: Filter
    identifier: int = 0
    group: str | None = None
    where: str | None = None


class Delivery(msgspec.Struct, array_like=True):
    """A message on its way to one client."""

    message: Message | None  # None: kernels sent it, and it need not be sent again
    qos: int
    retain: bool
    ids: tuple[int, ...] = ()
    sequence: int = 0  # in the journal
    state: int = SENT
    group: str | None = None  # the shared subscription that it is for
    event: int = -1  # the number of the event, if it was routed
    entry: int = -1  # the broker that it was published at, which gave it that number
    numbers: tuple[int, ...] = ()  # of an event that was published with QoS 2: the subscriptions that it is for


class House(msgspec.Struct, frozen=True):
    """What all sessions of a broker share."""

    limits: Limits
    journal: Journal
    losses: Losses
    slots: Slots[Any]


class Session:
    """One client's session as MQTT defines it, without any I/O."""

    def __init__(self, client_id: str, number: int, house: "House") -> None:
        self.client_id, self.number = client_id, number
        self._limits, self._journal, self._losses = house.limits, house.journal, house.losses
        self._slots = house.slots
        self.place = house.slots.take(number, self)  # of this session's row in the table of slots
        self.link: Link | None = None
        self.expiry = 0  # seconds that the session outlives its connection
        self.ends: float | None = None  # when it ends, if the client is away
        self.will: Will | None = None
        self.subscriptions: dict[str, Subscription] = {}
        self.received: set[int] = set()  # packet ids of QoS 2 messages that came and are not released yet
        self.promised: dict[int, Promise] = {}  # of those, the ones that are not safe yet
        # Of those, the events from before a restart: nobody knows whether they got anywhere
        self.uncertain: dict[int, int] = {}
        self.numbered: dict[int, int] = {}  # of those, the events that a crash would make uncertain
        self.inflight: dict[int, Delivery] = {}
        self.queue: deque[Delivery] = deque()
        self.next_id = 1
        self._sequence = 0
        self.is_counted = False  # kernels count the identifiers: the slot's flag COUNTED, where it is read faster
        self.overflowed = False  # more came than may wait: the session has to end
        # Of a session that has moved to another broker: the way there. Of one that has just come: what came twice
        self.forward: Callable[[Delivery], Promise | None] | None = None
        self.seen: set[tuple[int, int]] | None = None  # publishing brokers, and numbers of events
        self.tee: Callable[[Delivery], Promise | None] | None = None  # to the other broker that has the session, too
        self.heir = NONE  # the broker that a session that has moved is at
        self.copies = 0  # how many versions of its subscriptions copies have used

    @property
    def slot(self) -> Any:
        """This session's row of the table of slots."""
        return self._slots.rows[self.place]

    @property
    def is_kept(self) -> bool:
        """Whether the session is in the journal."""
        return self._journal.keeps and self.expiry > 0

    @property
    def numbers(self) -> set[int]:
        """The router's numbers of its subscriptions, but for shared ones."""
        return {one.number for one in self.subscriptions.values() if one.group is None}

    # Messages to the client

    def deliver(self, delivery: Delivery, now: float) -> Promise | None:
        """Sends a message, or keeps it for later. QoS 0 is for those who are there and read. Returns a promise if the
        session is at another broker, which does not have the message yet."""
        message = delivery.message
        assert message is not None
        if self.forward is not None:
            return self.forward(delivery)
        if self.seen is not None and delivery.event >= 0:
            if (delivery.entry, delivery.event) in self.seen:
                return None
            self.seen.add((delivery.entry, delivery.event))
        promise = self.tee(delivery) if self.tee is not None and delivery.qos else None
        if delivery.qos == 0:
            self._send_once(delivery, now)
        else:
            self._send_or_keep(delivery, now)
        return promise

    def _send_once(self, delivery: Delivery, now: float) -> None:
        """Sends a message of QoS 0, if the client is there and reads."""
        link, message = self.link, delivery.message
        assert message is not None
        if link is None or link.closed:
            return
        if link.congested:
            self._losses.slow += 1
            return
        data = link.encoded(message.to_publish(now, 0, delivery.retain, delivery.ids))
        if data is not None:
            link.outgoing.append(data)

    def _send_or_keep(self, delivery: Delivery, now: float) -> None:
        """Sends a message of QoS 1 or 2, or keeps it until the client takes it."""
        self.settle()
        self._sequence += 1
        delivery.sequence = self._sequence
        if len(self.queue) >= self._limits.queued:
            self.overflowed = True
            self._losses.overflowed += 1
            return
        if self._may_send():
            self._send(delivery, now, is_new=True)
        else:
            self._keep(delivery, 0)
            self.queue.append(delivery)

    def _may_send(self) -> bool:
        link = self.link
        return (
            link is not None
            and not link.congested
            and not link.closed
            and not self.queue
            and len(self.inflight) < min(link.receive_max, self._limits.inflight)
        )

    def _keep(self, delivery: Delivery, packet_id: int) -> None:
        """Notes a message that has come for the client; under a packet identifier if it is in flight already."""
        if self.is_kept:
            self._journal.note("deliver", self.number, delivery.sequence, packet_id, msgspec.msgpack.encode(delivery))

    def _send(self, delivery: Delivery, now: float, is_new: bool = False) -> None:
        """Puts a message in flight. ``is_new`` says that it is not noted yet."""
        message, link = delivery.message, self.link
        assert message is not None
        assert link is not None
        if message.is_expired(now):
            self._losses.expired += 1
            self._forget(delivery, is_new)
            return
        packet_id = self._free_id()
        data = link.encoded(message.to_publish(now, delivery.qos, delivery.retain, delivery.ids, packet_id))
        if data is None:  # too large for this client: as if it had got it
            self._forget(delivery, is_new)
            return
        self.inflight[packet_id] = delivery
        if is_new:
            self._keep(delivery, packet_id)
        elif self.is_kept:
            self._journal.note("send", packet_id, SENT, self.number, delivery.sequence)
        self._journal.send(link, data)

    def _free_id(self) -> int:
        while self.next_id in self.inflight:
            self.next_id = self.next_id % MOST_IDS + 1
        found, self.next_id = self.next_id, self.next_id % MOST_IDS + 1
        return found

    def _forget(self, delivery: Delivery, is_new: bool = False) -> None:
        if self.is_kept and not is_new:
            self._journal.note("done", self.number, delivery.sequence)

    def send_waiting(self, now: float) -> None:
        """Sends what waits, as far as the client takes it."""
        waiting, self.queue = self.queue, deque()
        while waiting and self._may_send():
            self._send(waiting.popleft(), now)
        self.queue = waiting
        self.count()

    # Acknowledgements from the client

    def acknowledge_many(self, packet_ids: Iterable[int], now: float) -> None:
        """Many PUBACKs have come, one behind the other, none of which refuses its message."""
        self.settle()
        for packet_id in packet_ids:
            delivery = self.inflight.get(packet_id)
            if delivery is not None and delivery.qos == 1:
                del self.inflight[packet_id]
                self._forget(delivery)
        self._go_on(now)

    def _go_on(self, now: float) -> None:
        """Some messages are not in flight any more: others may follow."""
        if self.queue:
            self.send_waiting(now)
        elif not self.inflight:
            self.count()

    def acknowledge(self, ack: Ack, now: float) -> None:
        """A PUBACK, PUBREC or PUBCOMP has come."""
        self.settle()
        delivery = self.inflight.get(ack.packet_id)
        if ack.kind == PUBREC:
            self._received(ack, delivery)
            return
        right = delivery is not None and (
            (ack.kind == PUBACK and delivery.qos == 1) or (ack.kind == PUBCOMP and delivery.qos == 2)
        )
        if right and delivery is not None:
            del self.inflight[ack.packet_id]
            self._forget(delivery)
        self._go_on(now)

    def _received(self, ack: Ack, delivery: Delivery | None) -> None:
        """The client has received a message of QoS 2, or has refused it: then that was all."""
        link = self.link
        assert link is not None
        if delivery is not None and delivery.qos == 2 and ack.code >= Code.UNSPECIFIED:
            del self.inflight[ack.packet_id]
            self._forget(delivery)
            return
        known = delivery is not None and delivery.qos == 2
        if known and delivery is not None and delivery.state == SENT:
            delivery.state, delivery.message = RELEASED, None
            if self.is_kept:
                self._journal.note("send", ack.packet_id, RELEASED, self.number, delivery.sequence)
        if ack.code < Code.UNSPECIFIED:
            # After a crash the message would be sent again, to a client that has forgotten its identifier: so that the
            # message has come is on disk first
            release = Ack(PUBREL, ack.packet_id, Code.SUCCESS if known else Code.ID_NOT_FOUND)
            self._journal.send(link, encode(release, link.version))

    # Messages from the client, of QoS 2

    def receive_once(self, packet_id: int, event: int = NONE) -> bool:
        """Whether this is the first time that a message of QoS 2 comes. ``event`` is its number, which a journal
        keeps."""
        if packet_id in self.received:
            return False
        self.received.add(packet_id)
        if self.is_kept:
            self._journal.note("received", self.number, packet_id, event)
            if event != NONE:
                self.numbered[packet_id] = event
        return True

    def release(self, packet_id: int) -> bool:
        """The client has released a message of QoS 2. Returns whether it was known."""
        if packet_id not in self.received:
            return False
        self.received.discard(packet_id)
        self.uncertain.pop(packet_id, None)
        self.numbered.pop(packet_id, None)
        if self.is_kept:
            self._journal.note("released", self.number, packet_id)
        return True

    def note_all(self) -> None:
        """Notes all messages of a session that has come from another broker."""
        for packet_id, delivery in [*self.inflight.items(), *((0, delivery) for delivery in self.queue)]:
            self._keep(delivery, packet_id)
            if delivery.state != SENT:
                self._journal.note("send", packet_id, delivery.state, self.number, delivery.sequence)
        for packet_id in sorted(self.received):
            self._journal.note("received", self.number, packet_id, NONE)

    def restore(self, delivery: Delivery, packet_id: int) -> None:
        """Takes back a message from the journal: in flight if it has a packet id, else waiting."""
        self._sequence = max(self._sequence, delivery.sequence)
        if packet_id:
            self.inflight[packet_id] = delivery
        else:
            self.queue.append(delivery)

    # Connections

    def attach(self, link: Link, now: float) -> None:
        """The client is here. What is in flight is sent again, and then what waits."""
        self.link, self.ends, link.session = link, None, self
        for packet_id, delivery in list(self.inflight.items()):
            if delivery.state == RELEASED:
                link.send(Ack(PUBREL, packet_id))
                continue
            assert delivery.message is not None
            packet = delivery.message.to_publish(now, delivery.qos, delivery.retain, delivery.ids, packet_id)
            data = link.encoded(msgspec.structs.replace(packet, duplicate=True))
            if data is None:
                del self.inflight[packet_id]
                self._forget(delivery)
            else:
                link.outgoing.append(data)
        self.open()
        self.send_waiting(now)

    def remember(self, seen: Iterable[tuple[int, int]] = ()) -> None:
        """Remembers from now on which events come: these have come, and those that wait or are in flight."""
        waiting = [*self.inflight.values(), *self.queue]
        self.seen = {*seen, *((one.entry, one.event) for one in waiting if one.event >= 0)}
        self.open()

    def detach(self) -> None:
        """The client is away."""
        self.settle()
        self.link = None
        self.open()

    # What kernels may do

    def open(self) -> None:
        """Says in the slot whether kernels may write to this client."""
        link, slot = self.link, self.slot
        self._slots.changes += 1
        open_ = link is not None and not link.closed and not link.congested and not link.most_aliases_out
        open_ = open_ and self.seen is None
        slot["flags"] = OPEN if open_ else 0
        self.is_counted = False
        self._slots.writes[self.place] = link.write if open_ and link is not None else None
        if link is not None:
            slot["version"] = link.version
            slot["largest"] = min(link.largest, 2**31 - 1)

    def count(self) -> None:
        """Lets kernels count identifiers, if nothing else is in flight and the session ends with its connection."""
        link, slot = self.link, self.slot
        if link is None or self.expiry or self.inflight or self.queue or not int(slot["flags"]) & OPEN:
            return
        slot["head"] = slot["next"] = self.next_id
        slot["room"] = min(link.receive_max, self._limits.inflight)
        slot["flags"] |= COUNTED
        self.is_counted = True

    def settle(self) -> None:
        """Takes back the count from the kernels."""
        if not self.is_counted:
            return
        self.is_counted = False
        slot = self.slot
        head, self.next_id = int(slot["head"]), int(slot["next"])
        while head != self.next_id:
            self.inflight[head] = Delivery(None, 1, False)
            head = head % MOST_IDS + 1
        slot["flags"] &= ~COUNTED
