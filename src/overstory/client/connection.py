"""One connection to a broker: packets out, answers in. Once it is gone, whoever waits is told, and it has had its day.

Messages of QoS 2 that come are passed on when they come first, and once.

A broker may send its client elsewhere (``moved_to``). Then the next connection goes on where this one has stopped
(``succeed``): whoever waits for an answer waits on, and what was not acknowledged is sent again there.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Any, cast

import msgspec

from overstory.errors import DisconnectedError, ProtocolError
from overstory.wire.decode import FOR_CLIENT, decode, packet_size
from overstory.wire.encode import encode
from overstory.wire.packets import (
    LARGEST,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Ack,
    Code,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    Publish,
    SubAck,
    UnsubAck,
)

MOST_IDS = 65535
REFERENCE = "server_reference"
Answer = Ack | SubAck | UnsubAck


class Connection(asyncio.Protocol):
    """A client's connection to a broker. ``on_message`` gets what is published, ``on_lost`` why it ended."""

    def __init__(self, on_message: Callable[[Publish], None], on_lost: Callable[[DisconnectedError], None]) -> None:
        self._on_message, self._on_lost = on_message, on_lost
        self._buffer = bytearray()
        loop = asyncio.get_running_loop()
        self._welcome: asyncio.Future[ConnAck] = loop.create_future()
        self._answers: dict[int, asyncio.Future[Answer]] = {}
        self._unanswered: dict[int, Packet] = {}  # messages that were sent and are not acknowledged in full
        self._received: set[int] = set()  # of QoS 2, not released yet
        self._successor: Connection | None = None
        self.moved_to: str | None = None  # the address of the broker that the client is to go to
        self._next_id = 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._window: asyncio.Semaphore = asyncio.Semaphore(MOST_IDS)
        self.lost: DisconnectedError | None = None
        self._reason: str | None = None
        self._ping: asyncio.TimerHandle | None = None
        self._heard = True

    # What the user of the connection does

    async def open(self, packet: Connect) -> ConnAck:
        """Sends CONNECT and awaits CONNACK.

        Raises a ``ProtocolError`` if the broker refuses, a ``DisconnectedError`` if it goes away.
        """
        self._write(packet)
        answer = await self._welcome
        self.moved_to = answer.properties.get(REFERENCE)
        if answer.code:
            raise ProtocolError(answer.code, str(answer.properties.get("reason_str", "the broker refuses")))
        self._window = asyncio.Semaphore(answer.properties.get("receive_max", MOST_IDS))
        keep_alive = answer.properties.get("server_keep_alive", packet.keep_alive)
        if keep_alive:
            self._keep_alive(keep_alive)
        return answer

    async def ask(self, make: Callable[[int], Packet]) -> Answer:
        """Sends the packet that ``make`` makes with a free identifier, and waits for its answer."""
        packet_id = self._free_id()
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[packet_id] = answer
        try:
            self._write(make(packet_id))
            return await answer
        finally:
            self._answers.pop(packet_id, None)

    async def publish(self, make: Callable[[int], Publish], qos: int) -> None:
        """Publishes a message; with a QoS, waits until it is safe."""
        await self._writable.wait()
        if self.lost is not None:
            raise self.lost
        if qos == 0:
            self._write(make(0))
            return
        async with self._window:
            answer = await self.ask(lambda packet_id: self._noted(make(packet_id)))
            assert isinstance(answer, Ack)
            self._unanswered.pop(answer.packet_id, None)
            if answer.code >= Code.UNSPECIFIED:
                raise ProtocolError(answer.code, str(answer.properties.get("reason_str", "the broker refuses")))
            if qos == 2:
                await self._complete(answer.packet_id)

    def _noted(self, packet: Publish) -> Publish:
        self._unanswered[packet.packet_id] = packet
        return packet

    def succeed(self, old: "Connection") -> None:
        """Takes over what an earlier connection of the same session was in the middle of. To be called before
        ``open``; ``go_on`` sends it again afterwards."""
        old._successor = self
        self._answers, self._unanswered, self._received = old._answers, old._unanswered, old._received
        self._next_id = old._next_id

    def go_on(self, session_present: bool) -> None:
        """Sends again what was not acknowledged. Without a session whoever waits is told that it was lost."""
        if not session_present:
            self._received.clear()
            self._unanswered.clear()
            self._fail(DisconnectedError("the session is gone"))
        for packet in list(self._unanswered.values()):
            self._write(msgspec.structs.replace(packet, duplicate=True) if isinstance(packet, Publish) else packet)

    async def _complete(self, packet_id: int) -> None:
        done = self._answers[packet_id] = asyncio.get_running_loop().create_future()
        self._unanswered[packet_id] = Ack(PUBREL, packet_id)
        try:
            self._write(Ack(PUBREL, packet_id))
            await done
        finally:
            self._answers.pop(packet_id, None)
            self._unanswered.pop(packet_id, None)

    def close(self) -> None:
        """Sends DISCONNECT and closes the connection."""
        if self.lost is None:
            self._write(Disconnect())
            self.transport.close()

    # What the loop does

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._heard = True
        self._buffer += data
        try:
            while (size := packet_size(self._buffer, 0, LARGEST)) is not None and size <= len(self._buffer):
                packet = decode(bytes(memoryview(self._buffer)[:size]))
                kind = self._buffer[0] >> 4
                del self._buffer[:size]
                if kind not in FOR_CLIENT:
                    raise ProtocolError(Code.PROTOCOL_ERROR, f"a broker may not send packet type {kind}")
                self._take(packet)
        except ProtocolError as error:
            self._reason = f"the broker broke the rules: {error}"
            self._write(Disconnect(error.code))
            self.transport.abort()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        reason = self._reason or (str(exc) if exc else "the connection was closed")
        self.lost = DisconnectedError(f"the connection to the broker is gone: {reason}")
        self._writable.set()
        if self._ping is not None:
            self._ping.cancel()
        if not self._welcome.done():
            self._welcome.set_exception(self.lost)
            self._welcome.exception()
        if self.moved_to is None:
            self._fail(self.lost)
        self._on_lost(self.lost)

    def _fail(self, error: DisconnectedError) -> None:
        """Tells everybody who waits for an answer that none comes."""
        waiting: list[asyncio.Future[Any]] = list(self._answers.values())
        for answer in waiting:
            if not answer.done():
                answer.set_exception(error)
                answer.exception()  # whoever has stopped waiting need not be told

    def abandon(self) -> None:
        """Nobody goes on where this connection has stopped."""
        self._fail(self.lost or DisconnectedError("the connection was given up"))

    def _take(self, packet: Packet) -> None:
        if isinstance(packet, Publish):
            self._take_message(packet)
        elif isinstance(packet, Ack) and packet.kind == PUBREL:
            self._received.discard(packet.packet_id)
            self._write(Ack(PUBCOMP, packet.packet_id))
        elif isinstance(packet, Ack | SubAck | UnsubAck):
            answer = self._answers.get(packet.packet_id)
            if answer is not None and not answer.done():
                answer.set_result(packet)
        elif isinstance(packet, ConnAck) and not self._welcome.done():
            self._welcome.set_result(packet)
        elif isinstance(packet, Disconnect):
            self._reason = str(packet.properties.get("reason_str", f"reason code 0x{packet.code:02X}"))
            if packet.code in (Code.USE_ANOTHER_SERVER, Code.SERVER_MOVED):
                self.moved_to = packet.properties.get(REFERENCE)
            self.transport.close()
        elif not isinstance(packet, PingResp):
            raise ProtocolError(Code.PROTOCOL_ERROR, f"a broker may not send {type(packet).__name__} now")

    def _take_message(self, packet: Publish) -> None:
        if packet.qos < 2 or packet.packet_id not in self._received:
            self._on_message(packet)
        if packet.qos == 1:
            self._write(Ack(PUBACK, packet.packet_id))
        elif packet.qos == 2:
            self._received.add(packet.packet_id)
            self._write(Ack(PUBREC, packet.packet_id))

    def _write(self, packet: Packet) -> None:
        if self.lost is not None and self._successor is not None:
            self._successor._write(packet)
            return
        if self.lost is not None:
            raise self.lost
        self.transport.write(encode(packet))

    def _free_id(self) -> int:
        for _ in range(MOST_IDS):
            self._next_id = self._next_id % MOST_IDS + 1
            if self._next_id not in self._answers:
                return self._next_id
        raise DisconnectedError("too many requests wait for their answers")

    def _keep_alive(self, seconds: int) -> None:
        """Pings in time, and gives up if nothing was heard since the last ping."""
        loop = asyncio.get_running_loop()

        def ping() -> None:
            if not self._heard:
                self._reason = "the broker is silent"
                self.transport.abort()
                return
            self._heard = False
            self._write(PingReq())
            self._ping = loop.call_later(seconds, ping)

        self._ping = loop.call_later(seconds, ping)


async def open_connection(host: str, port: int, given: Any, connection: Callable[[], Connection]) -> Connection:
    """Connects to a broker. Raises a ``DisconnectedError`` if nobody is there."""
    try:
        _, made = await asyncio.get_running_loop().create_connection(connection, host, port, **given)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise DisconnectedError(f"cannot connect to {host}:{port}: {reason}") from None
    return made
