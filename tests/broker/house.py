"""A broker without sockets, and clients that talk to it in packets."""

from collections.abc import Mapping, Sequence
from typing import Any

from overstory.broker.config import Config
from overstory.broker.core import Core
from overstory.broker.link import Link
from overstory.broker.pressure import Limits
from overstory.broker.state import State
from overstory.broker.tick import Tick
from overstory.wire.decode import decode, packet_size
from overstory.wire.encode import encode, varint
from overstory.wire.packets import (
    MQTT_5,
    Ack,
    Asked,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    Publish,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
)


class House:
    """A broker. ``kernels`` says whether messages go through kernels or, one by one, the router's plain way."""

    def __init__(self, kernels: bool = True, keeps: bool = False, types: dict[str, str] | None = None, **limits: Any):
        config = Config(types=types or {}, limits=Limits(**limits))
        self.logged: list[tuple[str, Mapping[str, object]]] = []
        self.state = State(config, keeps, 1000.0, log=lambda event, fields: self.logged.append((event, fields)))
        self.core = Core(self.state)
        self.tick = Tick(self.core) if kernels else None

    def connect(self, name: str = "", version: int = MQTT_5, **given: Any) -> "Client":
        """A client that has connected."""
        client = Client(self, version)
        client.send(Connect(name, version, **given))
        client.connack = client.take(ConnAck)
        return client

    def deliver(self, link: Link, data: bytes) -> None:
        """Bytes come in, and all that follows is done."""
        if self.tick is None:
            link.buffer += data
            self.core.receive(link)
            while link.work is not None and not link.closed:
                self.core.receive(link)
        else:
            if not self.tick.passed_on(link, data):
                self.tick.add(link, data)
            while self.tick.pending:
                self.tick.run()
        self.settle()

    def together(self, sent: Sequence[tuple["Client", bytes]]) -> None:
        """Bytes of many clients come in one turn."""
        if self.tick is None:
            for client, data in sent:
                self.deliver(client.link, data)
            return
        for client, data in sent:
            self.tick.add(client.link, data)
        while self.tick.pending:
            self.tick.run()
        self.settle()

    def settle(self) -> None:
        """Does the chores."""
        while self.core.chores:
            self.core.tidy(100)
        self.state.dirty.clear()

    def pass_time(self, seconds: float) -> None:
        self.core.tick(self.state.now + seconds)
        self.settle()


class Client:
    """One connection."""

    def __init__(self, house: House, version: int = MQTT_5) -> None:
        self.house, self.version = house, version
        self.link = Link(house.state.limits.packet, house.state.now)
        self.connack: Any = None
        self._data = bytearray()

    def send(self, *packets: Packet) -> None:
        self.house.deliver(self.link, b"".join(write(packet, self.version) for packet in packets))

    def received(self) -> list[Packet]:
        """All packets that have come since the last time."""
        self._data += self.link.data_to_send()
        found = []
        while (size := packet_size(self._data)) is not None and size <= len(self._data):
            found.append(decode(bytes(self._data[:size]), self.version))
            del self._data[:size]
        return found

    def take(self, kind: type) -> Any:
        """The only packet that has come, which is of this kind."""
        (packet,) = self.received()
        assert isinstance(packet, kind), packet
        return packet

    def subscribe(self, *filters: str, qos: int = 2, where: str | None = None, identifier: int = 0, **more: Any) -> Any:
        """Subscribes, and returns the codes."""
        properties: dict[str, Any] = {} if where is None else {"user_properties": [("$where", where)]}
        if identifier:
            properties["subscription_ids"] = [identifier]
        self.send(Subscribe(7, tuple(Asked(text, qos, **more) for text in filters), properties))
        packets = self.received()
        (answer,) = [packet for packet in packets if isinstance(packet, SubAck)]
        self._data[:0] = b"".join(encode(packet, self.version) for packet in packets if packet is not answer)
        return answer

    def unsubscribe(self, *filters: str) -> Any:
        self.send(Unsubscribe(8, filters))
        return self.take(UnsubAck)

    def publish(self, topic: str, payload: bytes = b"x", qos: int = 0, packet_id: int = 1, **more: Any) -> None:
        self.send(Publish(topic, payload, qos, packet_id=packet_id if qos else 0, **more))

    def messages(self) -> list[Publish]:
        """The messages that have come; acknowledgements of our own are left out."""
        return [packet for packet in self.received() if isinstance(packet, Publish)]

    def lose(self) -> None:
        """The connection breaks."""
        if self.house.tick is not None:
            self.house.tick.forget(self.link)
        self.house.core.lost(self.link)
        self.house.settle()

    def leave(self, code: int = 0, **properties: Any) -> None:
        self.send(Disconnect(code, properties))
        self.lose()

    def told_why(self) -> int:
        """The reason code with which the broker has hung up."""
        assert self.link.closed
        last = self.received()[-1]
        assert isinstance(last, Disconnect | ConnAck)
        return last.code

    def answer(self, *acks: Ack) -> None:
        self.send(*acks)


def write(packet: Packet, version: int) -> bytes:
    """The bytes of a packet as a client sends it, those of MQTT 3.1.1 and expressions behind a filter by hand."""
    if isinstance(packet, Subscribe | Unsubscribe):
        return request(packet, version)
    if version == MQTT_5 or isinstance(packet, Publish | Ack | PingReq):
        return encode(packet, version if not isinstance(packet, PingReq) else MQTT_5)
    if isinstance(packet, Disconnect):
        return b"\xe0\x00"
    assert isinstance(packet, Connect)
    assert packet.will is None
    head = b"\0\4MQTT" + bytes([version, 2 if packet.clean_start else 0]) + packet.keep_alive.to_bytes(2, "big")
    return framed(0x10, head + text(packet.client_id))


def request(packet: Subscribe | Unsubscribe, version: int) -> bytes:
    """A SUBSCRIBE or UNSUBSCRIBE. That of MQTT 3.1.1 has no properties."""
    data = encode(packet)
    if version == MQTT_5:
        return data
    body = data[data.index(packet.packet_id.to_bytes(2, "big"), 2) :]
    at = 3 + body[2]  # behind the properties, which are few
    return framed(data[0], body[:2] + body[at:])


def framed(first: int, body: bytes) -> bytes:
    return bytes([first]) + varint(len(body)) + body


def text(value: str) -> bytes:
    return len(value.encode()).to_bytes(2, "big") + value.encode()
