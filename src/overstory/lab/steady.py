"""A client with a session that outlives its connections, without I/O: it resends what MQTT 5 has it resend.

It publishes numbered events with QoS 1 and 2, and keeps the numbers of the events that come. What it knows is its own
half of the session: whether the broker kept the other half is what CONNACK says. Where it did not, the client begins
anew, as MQTT 5 has it: ``new_sessions`` counts that, and events of QoS 2 that were under way are published again under
new packet identifiers (``republished``), so that they may arrive twice.
"""

import msgspec

from overstory.wire.decode import decode, packet_size
from overstory.wire.encode import encode
from overstory.wire.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Ack,
    Asked,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    Publish,
    SubAck,
    Subscribe,
)

EXPIRY = 100_000  # seconds
MOST_IDS = 65_535
NUMBER_BYTES = 8


class Outgoing(msgspec.Struct):
    """An event that is not acknowledged in full."""

    number: int
    packet: Publish
    is_released: bool = False  # PUBREC has come, and PUBREL has gone


class Steady:
    """One client that connects again and again.

    ``receive`` takes what a broker sends and returns what it is to be sent.
    """

    def __init__(self, name: str, wishes: tuple[Asked, ...] = (), keep_alive: int = 0) -> None:
        self.name, self.wishes, self._keep_alive = name, wishes, keep_alive
        self.is_connected = self.is_subscribed = False
        self.new_sessions = 0  # connections whose CONNACK said that there is no session
        self.acknowledged: list[tuple[int, int]] = []  # QoS and number, in the order of the acknowledgements
        self.came: list[tuple[str, int]] = []  # topic and number of events, in the order in which they came
        self.republished: set[int] = set()
        self.sent_to: str | None = None  # the broker that it was told to go to
        self.inflight: dict[int, Outgoing] = {}
        self._received: set[int] = set()  # packet identifiers of QoS 2 that came and are not released
        self._next_id = 1
        self._data = bytearray()

    def connect(self) -> bytes:
        """What a new connection begins with."""
        self.is_connected = False
        self._data.clear()
        properties = {"session_expiry_interval": EXPIRY}
        return encode(Connect(self.name, clean_start=False, keep_alive=self._keep_alive, properties=properties))

    def publish(self, topic: str, number: int, qos: int) -> bytes:
        """An event to be published. If there is no connection, it is sent when there is one."""
        packet = Publish(topic, number.to_bytes(NUMBER_BYTES, "big"), qos, packet_id=self._free_id())
        self.inflight[packet.packet_id] = Outgoing(number, packet)
        return encode(packet) if self.is_connected else b""

    def _free_id(self) -> int:
        while self._next_id in self.inflight:
            self._next_id = self._next_id % MOST_IDS + 1
        return self._next_id

    def receive(self, data: bytes) -> bytes:
        """Handles what has come. Returns what is to be answered."""
        self._data += data
        answers: list[Packet] = []
        while (size := packet_size(self._data)) is not None and size <= len(self._data):
            packet = decode(bytes(self._data[:size]))
            del self._data[:size]
            if isinstance(packet, ConnAck):
                answers += self._begin(packet)
            elif isinstance(packet, SubAck):
                self.is_subscribed = True
            elif isinstance(packet, Publish):
                answers += self._take(packet)
            elif isinstance(packet, Disconnect):
                self.sent_to = packet.properties.get("server_reference")
            elif isinstance(packet, Ack):
                answers += self._answered(packet)
        return b"".join(map(encode, answers))

    def _begin(self, answer: ConnAck) -> list[Packet]:
        """The broker takes the connection: what is under way is sent again."""
        self.is_connected = answer.code == 0
        again = list(self.inflight.values())
        if answer.session_present:
            return [
                Ack(PUBREL, one.packet.packet_id)
                if one.is_released
                else msgspec.structs.replace(one.packet, duplicate=True)
                for one in again
            ]
        self.new_sessions += 1
        self._received.clear()
        self.is_subscribed = False
        asked: list[Packet] = [Subscribe(1, self.wishes)] if self.wishes else []
        self.republished |= {one.number for one in again if one.packet.qos == 2 and not one.is_released}
        for one in [one for one in again if one.is_released]:  # the broker had it: it knows nothing of a release
            del self.inflight[one.packet.packet_id]
        return [*asked, *(one.packet for one in self.inflight.values())]

    def _take(self, packet: Publish) -> list[Packet]:
        """An event has come; one of QoS 2 counts once for each packet identifier."""
        if packet.qos != 2 or packet.packet_id not in self._received:
            self.came.append((packet.topic, int.from_bytes(packet.payload[:NUMBER_BYTES], "big")))
        if packet.qos == 2:
            self._received.add(packet.packet_id)
            return [Ack(PUBREC, packet.packet_id)]
        return [Ack(PUBACK, packet.packet_id)] if packet.qos else []

    def _answered(self, ack: Ack) -> list[Packet]:
        if ack.kind == PUBREL:
            self._received.discard(ack.packet_id)
            return [Ack(PUBCOMP, ack.packet_id)]
        one = self.inflight.get(ack.packet_id)
        if one is None:
            return []
        if ack.kind == PUBREC:
            if not one.is_released:
                self.acknowledged.append((2, one.number))
                one.is_released = True
            return [Ack(PUBREL, ack.packet_id)]
        if ack.kind == PUBACK:
            self.acknowledged.append((1, one.number))
        del self.inflight[ack.packet_id]
        return []
