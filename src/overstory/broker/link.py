"""One connection, without I/O: what has come and is not handled yet, what is to be sent, and what was agreed on.

The shell gives ``receive`` the bytes that come, and writes what ``data_to_send`` returns. ``closed`` asks it to hang up
once that is written.
"""

from collections.abc import Callable, Iterator
from typing import Any

from overstory.broker.pressure import Window
from overstory.errors import ProtocolError
from overstory.wire.decode import packet_size
from overstory.wire.encode import encode
from overstory.wire.packets import LARGEST, MQTT_5, ConnAck, Disconnect, Packet, Publish

MOST_IDS = 65535
REFERENCE = "server_reference"


class Link:
    """A connection to one client."""

    def __init__(self, largest: int = LARGEST, now: float = 0.0) -> None:
        self.version = MQTT_5
        self.session: Any = None  # the ``Session`` that it carries, once the client has connected
        self.taken = largest  # the most bytes of a packet that we take
        self.buffer = bytearray()  # what has come and is not handled yet
        self.work: Iterator[None] | None = None  # a long answer under way; what comes meanwhile waits
        self.waits = False  # for the session of its client, which is elsewhere
        self.outgoing: list[bytes | memoryview] = []
        self.write: Callable[[bytes | memoryview], None] | None = None  # the shell's way to send at once, if it has one
        self.held = 0  # pieces that wait for the journal
        self.closed = False  # to be hung up
        self.congested = False  # the client does not read
        self.heard = now  # when the last packet came
        self.keep_alive = 0.0  # seconds; 0: for ever
        self.receive_max = MOST_IDS  # messages in flight that the client takes
        self.largest = LARGEST  # bytes of a packet that the client takes
        self.says_problems = True  # the client wants to know reasons
        self.window = Window(MOST_IDS)  # of the client's events that are not acknowledged yet
        self.is_paused = False  # the shell does not read from the client for now
        self.aliases_in: dict[int, str] = {}
        self.aliases_out: dict[str, int] = {}
        self.most_aliases_out = 0

    @property
    def is_plain(self) -> bool:
        """Whether nothing of this link waits: what comes may go to kernels as it is."""
        return not self.buffer and self.work is None and self.session is not None and not self.closed

    def next_packet(self) -> bytes | None:
        """Takes the next whole packet out of the buffer."""
        size = packet_size(self.buffer, 0, self.taken)
        if size is None or size > len(self.buffer):
            return None
        packet = bytes(memoryview(self.buffer)[:size])
        del self.buffer[:size]
        return packet

    def send(self, packet: Packet) -> bool:
        """Sends a packet to the client. Returns false if it is larger than what the client takes."""
        if self.closed:
            return True
        data = encode(self._spoken(packet), self.version)
        if len(data) > self.largest:
            return False
        if data:
            self.outgoing.append(data)
        return True

    def encoded(self, packet: Publish) -> bytes | None:
        """The bytes of a message for this client, by its topic alias if it has one. None if they are too many."""
        alias, is_known = self._alias(packet.topic)
        topic = packet.topic
        if alias:
            properties = {**packet.properties, "topic_alias": alias}
            topic = "" if is_known else topic
            packet = Publish(
                topic, packet.payload, packet.qos, packet.retain, packet.packet_id, packet.duplicate, properties
            )
        data = encode(packet, self.version)
        if len(data) <= self.largest:
            return data
        if alias and not is_known:
            del self.aliases_out[topic]  # the client never hears of it
        return None

    def end(self, error: ProtocolError) -> None:
        """Ends the connection: the client is told why, if it speaks MQTT 5."""
        if self.closed:
            return
        if self.session is not None:
            properties = {"reason_str": error.problem} if self.says_problems else {}
            if not self.send(Disconnect(error.code, properties)):
                self.send(Disconnect(error.code))
        self.closed = True

    def refuse(self, error: ProtocolError) -> None:
        """Refuses the client's connection, with a reason."""
        properties = {"reason_str": error.problem} if self.says_problems else {}
        address = getattr(error, "address", None)  # of the broker that the client is to go to
        self.send(ConnAck(error.code, properties=properties | ({} if address is None else {REFERENCE: address})))
        self.closed = True

    def data_to_send(self) -> bytes | memoryview:
        """All that waits to be written, in one piece."""
        pieces, self.outgoing = self.outgoing, []
        self.window.written()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _spoken(self, packet: Packet) -> Packet:
        """The packet without reasons, where the client wants none."""
        properties = getattr(packet, "properties", None)
        if self.says_problems or not properties or isinstance(packet, Publish | ConnAck | Disconnect):
            return packet
        kept = {name: value for name, value in properties.items() if name not in ("reason_str", "user_properties")}
        return type(packet)(**{**{n: getattr(packet, n) for n in packet.__struct_fields__}, "properties": kept})

    def _alias(self, topic: str) -> tuple[int, bool]:
        """The alias of a topic, 0 for none, and whether the client knows it already."""
        known = self.aliases_out.get(topic)
        if known is not None:
            return known, True
        if len(self.aliases_out) >= self.most_aliases_out:
            return 0, False
        alias = self.aliases_out[topic] = len(self.aliases_out) + 1
        return alias, False
