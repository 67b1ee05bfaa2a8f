"""Load for a broker: one publisher, many subscribers, a window of messages in flight, all by plain sockets.

Every second message matches nobody. All packets of a run have one size, so that counting bytes counts messages. A
message is in flight until its last subscriber has it; the publisher fills the window up when half of it is free.
"""

import contextlib
import selectors
import socket
import time
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from benchmarks.broker_peers import Running
from overstory.wire.encode import varint

PAYLOAD = 200  # bytes
SETTLE = 0.2  # seconds for a broker to take note of subscriptions that it has acknowledged
READ = 1 << 20
STALLED = 30.0  # seconds without a message


class Shape(msgspec.Struct, frozen=True):
    """A kind of traffic."""

    name: str
    subscribers: int
    matches: int  # subscribers that get a message, if it is not one that nobody gets
    qos: int = 0
    topics: int = 1  # distinct ones that match
    lasting: bool = False  # whether sessions of subscribers outlive their connections

    def topic(self, number: int) -> bytes:
        return b"bench/%08d" % (number % self.topics)

    def filters(self, subscriber: int) -> Sequence[bytes]:
        """The topics that a subscriber wants: topic t goes to the subscribers from t * matches on."""
        if self.subscribers == self.matches:
            return [self.topic(0)] if self.topics == 1 else [b"bench/+"]
        return [self.topic(subscriber // self.matches)]


class Taken(NamedTuple):
    """What a run has taken."""

    messages: int
    deliveries: int
    cpu_seconds: float
    wall_seconds: float


class Load:
    """The connections of one run."""

    def __init__(self, broker: Running, shape: Shape, port: int | None = None) -> None:
        """``port`` is where subscribers connect, if that is another broker."""
        self.broker, self.shape, self.version = broker, shape, broker.peer.version
        self.publisher = self._connect(b"publisher", broker.port)
        there = broker.port if port is None else port
        names = [b"s%d" % number for number in range(shape.subscribers)]
        self.subscribers = [self._connect(name, there, shape.lasting) for name in names]
        for number, subscriber in enumerate(self.subscribers):
            _exchange(subscriber, subscribe(shape.filters(number), shape.qos, self.version))
        self.nobody = publish(b"other/%08d" % 0, self.version, shape.qos)
        self.wanted = [publish(shape.topic(number), self.version, shape.qos) for number in range(shape.topics)]
        self.size = len(self.wanted[0])
        time.sleep(SETTLE)

    def _connect(self, name: bytes, port: int, lasting: bool = False) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", port))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _exchange(made, connect(name, self.version, lasting))
        return made

    def packets(self, first: int, count: int) -> bytes:
        """Messages from this number on, every second of them one that nobody gets."""
        wanted, topics = self.wanted, len(self.wanted)
        if topics == 1:
            data = (self.nobody + wanted[0]) * ((count + 1) // 2)
        else:
            data = b"".join(self.nobody + wanted[(first + i) // 2 % topics] for i in range(0, count, 2))
        if not self.shape.qos:
            return data
        rows = np.frombuffer(bytearray(data), np.uint8).reshape(-1, self.size)
        ids = (first + np.arange(len(rows))) % 65535 + 1
        at = 3 + 2 + len(self.shape.topic(0))
        rows[:, at], rows[:, at + 1] = ids >> 8, ids & 255
        return rows.tobytes()

    def run(self, messages: int, window: int) -> Taken:
        """Publishes messages, and waits until all that match have come."""
        selector = selectors.DefaultSelector()
        for subscriber in self.subscribers:
            subscriber.setblocking(False)
            selector.register(subscriber, selectors.EVENT_READ, bytearray())
        self.publisher.setblocking(False)
        selector.register(self.publisher, selectors.EVENT_READ, None)
        matches = self.shape.matches
        sent = came = 0  # messages; bytes that subscribers got
        expected = messages // 2 * matches * self.size
        waiting = memoryview(b"")
        held = memoryview(bytearray(READ))  # one for all that comes: a new one each time takes longer than reading
        cpu, wall = self.broker.cpu_seconds(), time.perf_counter()
        while came < expected:
            flying = sent - 2 * (came // (matches * self.size))
            room = min(window - flying, messages - sent) & ~1
            if not waiting and room > 0 and (room >= window // 2 or sent + room == messages):
                waiting = memoryview(self.packets(sent, room))
                sent += room
            if waiting:
                with contextlib.suppress(BlockingIOError):
                    waiting = waiting[self.publisher.send(waiting) :]
            ready = selector.select(0 if waiting else STALLED)
            if not ready and not waiting:
                raise RuntimeError(f"{self.broker.peer.name} has lost messages: {came} of {expected} bytes came")
            for key, _ in ready:
                count = key.fileobj.recv_into(held)  # type: ignore[union-attr]
                if not count:
                    raise RuntimeError(f"{self.broker.peer.name} has closed a connection")
                if key.data is not None:
                    came += count
                    if self.shape.qos:
                        self._acknowledge(key, held[:count])
        wall = time.perf_counter() - wall
        selector.close()
        return Taken(messages, messages // 2 * matches, self.broker.cpu_seconds() - cpu, wall)

    def _acknowledge(self, key: selectors.SelectorKey, data: memoryview) -> None:
        """Acknowledges all whole packets of a subscriber."""
        held: bytearray = key.data
        held += data
        count = len(held) // self.size
        if not count:
            return
        rows = np.frombuffer(bytes(held[: count * self.size]), np.uint8).reshape(count, self.size)
        del held[: count * self.size]
        at = 3 + 2 + len(self.shape.topic(0))
        answers = np.empty((count, 4), np.uint8)
        answers[:, 0], answers[:, 1] = 0x40, 2
        answers[:, 2:] = rows[:, at : at + 2]
        key.fileobj.sendall(answers.tobytes())  # type: ignore[union-attr]

    def close(self) -> None:
        for made in (self.publisher, *self.subscribers):
            made.close()


def _exchange(to: socket.socket, packet: bytes) -> bytes:
    """Sends a packet and waits for the answer."""
    to.sendall(packet)
    answer = to.recv(4096)
    if not answer:
        raise RuntimeError("the broker has closed the connection")
    return answer


def _text(data: bytes) -> bytes:
    return len(data).to_bytes(2, "big") + data


def _framed(first: int, body: bytes) -> bytes:
    return bytes([first]) + varint(len(body)) + body


def connect(name: bytes, version: int, lasting: bool = False) -> bytes:
    """A CONNECT for a new session that ends with its connection, or for one that lasts an hour longer."""
    properties = b"\x05\x11" + (3600).to_bytes(4, "big") if lasting else b"\0"
    flags = bytes([version, 0 if lasting and version == 4 else 2, 0, 0])
    return _framed(0x10, _text(b"MQTT") + flags + (b"" if version == 4 else properties) + _text(name))


def subscribe(filters: Sequence[bytes], qos: int, version: int, where: bytes | None = None) -> bytes:
    """A SUBSCRIBE, with an expression if one is given."""
    properties = b"" if version == 4 else b"\0"
    if where is not None:
        pair = b"\x26" + _text(b"$where") + _text(where)
        properties = varint(len(pair)) + pair
    return _framed(0x82, b"\0\1" + properties + b"".join(_text(wanted) + bytes([qos]) for wanted in filters))


def publish(topic: bytes, version: int, qos: int = 0, pairs: Sequence[tuple[bytes, bytes]] = ()) -> bytes:
    """A PUBLISH, with a packet identifier to be filled in if it has a QoS."""
    properties = b"".join(b"\x26" + _text(name) + _text(value) for name, value in pairs)
    written = b"" if version == 4 else varint(len(properties)) + properties
    identifier = b"\0\1" if qos else b""
    return _framed(0x32 if qos else 0x30, _text(topic) + identifier + written + b"x" * PAYLOAD)
