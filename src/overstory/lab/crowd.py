"""The clients of a scenario as real MQTT clients: they connect, subscribe, publish the log, and keep what comes.

What comes is kept as bytes, and read when all is over: so that many clients fit into one process and the network, not
they, is what is measured. The payload of an event is its id, in eight bytes.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from overstory.errors import DisconnectedError
from overstory.kernels.mqtt import CHUNK, ODD, frame
from overstory.kernels.slots import SLOT
from overstory.wire.attributes import pairs_of
from overstory.wire.decode import decode, packet_size
from overstory.wire.encode import encode
from overstory.wire.packets import (
    MQTT_5,
    Asked,
    ConnAck,
    Connect,
    Packet,
    PingReq,
    PingResp,
    Publish,
    SubAck,
    Subscribe,
    Unsubscribe,
)
from overstory.wire.topics import TAKES

TOPIC, NO_TOPIC = "topic", "event"  # an event without a topic is published to the latter
ID_BYTES = 8
PIECE = 64  # events that are written in one go
TOGETHER = 50  # subscriptions in one packet
PATIENCE = 60.0
LARGEST = 1 << 28
MOST_IDS = 65535


class Wish(NamedTuple):
    """A subscription of a client."""

    filter: str
    no_local: bool = False
    qos: int = 0


def publish_of(event: int, attributes: Mapping[str, Any], qos: int = 0, packet_id: int = 0) -> bytes:
    """The packet of an event. Attributes that are None are absent."""
    topic = attributes.get(TOPIC) or NO_TOPIC
    present = {name: value for name, value in attributes.items() if value is not None and name != TOPIC}
    properties = {"user_properties": pairs_of(present)} if present else {}
    return encode(Publish(topic, event.to_bytes(ID_BYTES, "big"), qos, False, packet_id, False, properties))


class Client(asyncio.Protocol):
    """One client of the crowd."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.came = bytearray()
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self.is_lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.came += data
        self._changed.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._changed.set()
        self._writable.set()

    def send(self, packet: Packet) -> None:
        """Sends one packet to the broker."""
        self.transport.write(encode(packet))

    async def publish(self, packets: Sequence[bytes]) -> None:
        """Sends the packets of events, as fast as the broker takes them."""
        for at in range(0, len(packets), PIECE):
            await self._writable.wait()
            self.transport.write(b"".join(packets[at : at + PIECE]))
            await asyncio.sleep(0)

    async def hear(self, kind: type, count: int = 1) -> list[Packet]:
        """Waits for so many packets of a kind. What is not an event is taken out of what has come."""
        found: list[Packet] = []
        ends = asyncio.get_running_loop().time() + PATIENCE
        while True:
            others = taken_apart(bytes(self.came))[1]
            found = [packet for packet in others if isinstance(packet, kind)]
            if len(found) >= count:
                return found
            if self.is_lost or asyncio.get_running_loop().time() > ends:
                raise DisconnectedError(f"a client waited for {kind.__name__} in vain")
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), 1.0)
            except TimeoutError:
                continue

    def events(self) -> NDArray[np.int64]:
        """The ids of the events that have come, in order."""
        return taken_apart(bytes(self.came))[0]


def taken_apart(data: bytes) -> tuple[NDArray[np.int64], list[Packet], int]:
    """The ids of events and all other packets among bytes that have come; and how many bytes are left over."""
    array = np.frombuffer(data, np.uint8)
    at, found, others = 0, [np.empty(0, np.int64)], []
    slots = np.zeros(1, SLOT)
    while at < len(data):
        chunks = np.zeros(1, CHUNK)
        chunks[0] = (at, len(data), -1, MQTT_5, -1, 0, 0, 0)
        frames = frame(array, chunks, slots, LARGEST)
        if len(frames):
            ends = frames["end"].astype(np.int64)
            octets = array[ends[:, None] - np.arange(ID_BYTES, 0, -1)]
            found.append(octets.astype(np.int64) @ (1 << (8 * np.arange(ID_BYTES - 1, -1, -1))))
        at = int(chunks[0]["at"])
        if chunks[0]["why"] != ODD:
            break
        size = packet_size(data, at, LARGEST)
        if size is None or at + size > len(data):
            break
        others.append(decode(data[at : at + size]))
        at += size
    return np.concatenate(found), others, len(data) - at


def distinct(filters: Sequence[str]) -> list[str]:
    """Texts of the same filters, no two of them alike: to MQTT, a client that subscribes to the same text again changes
    the options of its subscription, while a scenario may have it twice."""
    times: Counter[str] = Counter()
    found = []
    for text in filters:
        found.append("(" * times[text] + text + ")" * times[text])
        times[text] += 1
    return found


class Crowd:
    """The clients of a scenario, by their ids."""

    def __init__(self, kind: type[Client] = Client, takes_clusters: bool = False) -> None:
        """Clients that take clusters are given all events of theirs, and keep them all."""
        self._kind, self._takes_clusters = kind, takes_clusters
        self.clients: dict[int, Client] = {}
        self._settled = 0

    async def connect(self, id_: int, name: str, address: tuple[str, int]) -> Client:
        """Connects one more client of the crowd."""
        loop = asyncio.get_running_loop()
        try:
            _, client = await loop.create_connection(self._kind, *address)
        except OSError as error:
            raise DisconnectedError(f"client {name} cannot connect to {address[0]}:{address[1]}: {error}") from None
        properties = {"user_properties": [TAKES]} if self._takes_clusters else {}
        client.send(Connect(name, properties=properties))
        await client.hear(ConnAck)
        self.clients[id_] = client
        return client

    async def subscribe(self, id_: int, wishes: Sequence[Wish]) -> None:
        """Makes the subscriptions of one client. Raises a ``DisconnectedError`` if one is refused."""
        client, packets = self.clients[id_], 0
        each = [
            Asked(f"#?{text}", wish.qos, wish.no_local)
            for text, wish in zip(distinct([wish.filter for wish in wishes]), wishes, strict=True)
        ]
        for at in range(0, len(each), TOGETHER):
            packets += 1
            client.send(Subscribe(packets, tuple(each[at : at + TOGETHER])))
        if packets:
            answers = await client.hear(SubAck, packets)
            refused = [answer for answer in answers if isinstance(answer, SubAck) and max(answer.codes) > 2]
            if refused:
                raise DisconnectedError(f"a subscription of client {id_} was refused: {refused[0].properties}")

    def subscribe_further(self, id_: int, filter_: str) -> None:
        """Makes one more subscription, whose answer nobody waits for."""
        self.clients[id_].send(Subscribe(MOST_IDS, (Asked(f"#?{filter_}"),)))

    def unsubscribe(self, id_: int, filters: Sequence[str]) -> None:
        """Ends subscriptions of the client."""
        self.clients[id_].send(Unsubscribe(1, tuple(f"#?{text}" for text in filters)))

    async def publish(self, log: Mapping[int, Sequence[bytes]]) -> None:
        """Publishes the events of all clients, those of each in order."""
        await asyncio.gather(*(self.clients[id_].publish(packets) for id_, packets in log.items()))

    async def settle(self) -> None:
        """Waits until every client has got all that its broker has sent before now."""
        self._settled += 1
        for client in self.clients.values():
            client.send(PingReq())
        await asyncio.gather(*(client.hear(PingResp, self._settled) for client in self.clients.values()))

    def close(self) -> None:
        """Closes the connections of all clients."""
        for client in self.clients.values():
            client.transport.abort()
