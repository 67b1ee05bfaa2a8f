"""The sockets between brokers: who dials whom, how a link begins, and what is done when it ends.

Of two neighbours the one with the lower number dials, again and again with growing pauses. All decisions about frames
are in ``links`` and ``fabric``. Sockets are always read: whatever has come and is not handled yet waits in memory, and
publishing clients are not read while too much does.
"""

import asyncio
import random
from collections.abc import Callable, Mapping
from typing import Any, cast

from overstory.broker.config import address_of
from overstory.broker.fabric import Fabric
from overstory.broker.links import Neighbour
from overstory.errors import BrokerError, LinkError
from overstory.wire.frames import HELLO, REFUSED, Raw, Reader, framed
from overstory.wire.handshake import Hello, check_hello, decode_hello

PATIENCE = 5.0  # seconds for a handshake
REASON = 500  # bytes
SMALL = 1 << 14  # bytes: pieces of no more than that are rather joined than written one by one
SOON = 0.05  # seconds after which a neighbour is told which of its frames are handled, if nothing else is sent before
SLICE = 200  # messages and events of neighbours in one turn: some milliseconds


class PeerConnection(asyncio.Protocol):
    """One connection to a broker, or to somebody who may be one."""

    transport: asyncio.Transport

    def __init__(self, peers: "Peers", neighbour: Neighbour | None = None) -> None:
        self.peers, self.neighbour = peers, neighbour
        self.dialled = neighbour is not None
        self.is_up = False
        self.ended = asyncio.Event()
        self.reader = Reader()
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._patience = asyncio.get_running_loop().call_later(PATIENCE, self._too_slow)
        if self.neighbour is not None:
            self.transport.write(self.neighbour.hello())

    def data_received(self, data: bytes) -> None:
        try:
            if self.is_up and self.neighbour is not None:
                self.peers.received(self, self.neighbour, data)
            else:
                self._begin(data)
        except LinkError as error:
            self.end(error)

    def _begin(self, data: bytes) -> None:
        """Reads the handshake of a new connection. What comes behind it belongs to the link."""
        frames = self.reader.feed(data)
        raw = next(frames, None)
        frames.close()
        if raw is None:
            return
        rest = self.reader.rest()
        self._handshake(raw)
        if rest and self.neighbour is not None:
            self.peers.received(self, self.neighbour, rest)

    def _handshake(self, raw: Raw) -> None:
        if raw.kind == REFUSED:
            reason = bytes(raw.body[:REASON]).decode(errors="replace")
            raise LinkError(f"the other side refuses the link: {reason}")
        if raw.kind != HELLO:
            raise LinkError("whoever is there does not begin as a broker of Overstory does")
        hello = decode_hello(raw.body)
        if self.neighbour is None:
            self.neighbour = self.peers.accepted(self, hello)
            self.transport.write(self.neighbour.hello())
        up = self.neighbour.connect(hello, self.peers.now())
        self.is_up = True
        self._forget_patience()
        self.peers.begun(self, self.neighbour, up)

    def end(self, error: LinkError) -> None:
        """Ends the connection, and tells the other side why."""
        self.peers.log("link_ended", self.neighbour, str(error))
        if not self.transport.is_closing():
            self.transport.write(framed(REFUSED, str(error).encode()[:REASON]))
            self.transport.close()
        self._gone()

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone()

    def _gone(self) -> None:
        self._forget_patience()
        self.ended.set()
        self.peers.gone(self)

    def _too_slow(self) -> None:
        self.end(LinkError(f"no handshake came within {PATIENCE:g} seconds"))

    def _forget_patience(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None


class Peers:
    """The connections of a broker to its neighbours."""

    def __init__(
        self, fabric: Fabric, listen: str, addresses: Mapping[int, str], wake: Callable[[], None], log: Any = None
    ) -> None:
        self.fabric, self._listen, self._addresses = fabric, listen, dict(addresses)
        self._wake, self._log = wake, log
        self._connections: dict[int, PeerConnection] = {}
        self._lost: dict[int, float] = {}  # since when neighbours that are not down yet have no connection
        self._listener: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._later: asyncio.TimerHandle | None = None  # when work goes on that waits for its pace
        self._owing: asyncio.TimerHandle | None = None  # when neighbours are told what is handled
        self.port = 0
        self.errors: dict[int, str] = {}  # the last one of each neighbour
        self.made: dict[int, int] = {}  # how often there was a connection with each neighbour
        self.active = asyncio.Event()  # the plan is in use here
        fabric.on_error, fabric.on_active = self.failed, self.active.set
        fabric.start()

    async def start(self) -> None:
        """Listens, and begins to dial. Raises a ``BrokerError`` if the address cannot be had."""
        loop = asyncio.get_running_loop()
        host, port = address_of(self._listen)
        try:
            self._listener = await loop.create_server(lambda: PeerConnection(self), host, port)
        except OSError as error:
            reason = error.strerror or str(error)
            raise BrokerError(f"cannot listen on {self._listen}: {reason}; choose another address") from None
        self.port = self._listener.sockets[0].getsockname()[1]
        for peer, neighbour in self.fabric.neighbours.items():
            if self.fabric.known.broker < peer:
                self._tasks.append(loop.create_task(self._dial(neighbour)))
        self._tasks.append(loop.create_task(self._keep_time()))

    async def stop(self) -> None:
        """Closes the listener, all connections to neighbours, and the tasks that keep them."""
        for task in self._tasks:
            task.cancel()
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections.values()):
            connection.transport.close()

    def now(self) -> float:
        """The time of the loop, which nobody sets."""
        return asyncio.get_running_loop().time()

    def log(self, event: str, neighbour: Neighbour | None, reason: str = "") -> None:
        """Says what has happened to a link, in the structured log."""
        peer = None if neighbour is None else neighbour.peer
        if reason and peer is not None:
            self.errors[peer] = reason
        if self._log is not None:
            self._log(event, {"peer": peer, "reason": reason} if reason else {"peer": peer})

    # Connections

    async def _dial(self, neighbour: Neighbour) -> None:
        """Connects to a neighbour, whenever there is no connection."""
        window, draw = neighbour.window, random.Random(neighbour.peer)
        pause = window.retry
        while True:
            connection = self._connections.get(neighbour.peer)
            if connection is not None:
                pause = window.retry
                await connection.ended.wait()
                continue
            address = self._addresses.get(neighbour.peer)
            if address is not None:
                await self._try(neighbour, address)
            if not neighbour.connected:
                await asyncio.sleep(pause * (0.5 + draw.random()))
                pause = min(2 * pause, window.most_retry)

    async def _try(self, neighbour: Neighbour, address: str) -> None:
        host, port = address_of(address)
        loop = asyncio.get_running_loop()
        try:
            _, connection = await asyncio.wait_for(
                loop.create_connection(lambda: PeerConnection(self, neighbour), host, port), PATIENCE
            )
        except (OSError, TimeoutError) as error:
            self.errors[neighbour.peer] = f"cannot connect to {address}: {error}"
            return
        for _ in range(int(PATIENCE / neighbour.window.retry)):
            if connection.is_up or connection.transport.is_closing():
                return
            await asyncio.sleep(neighbour.window.retry)

    def accepted(self, connection: PeerConnection, hello: Hello) -> Neighbour:
        """The neighbour that has dialled. Raises a ``LinkError`` if it may not."""
        check_hello(hello, self.fabric.known)
        neighbour = self.fabric.neighbours[hello.broker]
        old = self._connections.get(hello.broker)
        if old is not None and neighbour.connected and hello.incarnation != neighbour.incarnation:
            raise LinkError(f"broker id {hello.broker} is used twice: one that uses it is connected already")
        return neighbour

    def begun(self, connection: PeerConnection, neighbour: Neighbour, up: Any) -> None:
        """A handshake is done. An older connection of the same neighbour is closed."""
        old = self._connections.get(neighbour.peer)
        self._connections[neighbour.peer] = connection
        if old is not None and old is not connection:
            old.transport.abort()
        self._lost.pop(neighbour.peer, None)
        self.made[neighbour.peer] = self.made.get(neighbour.peer, 0) + 1
        self.errors.pop(neighbour.peer, None)
        self.log("link_up", neighbour)
        self.fabric.up(neighbour.peer, up)
        self._wake()

    def gone(self, connection: PeerConnection) -> None:
        """A connection has ended."""
        neighbour = connection.neighbour
        if neighbour is None or self._connections.get(neighbour.peer) is not connection:
            return
        del self._connections[neighbour.peer]
        neighbour.disconnect()
        self._lost[neighbour.peer] = self.now()
        self.log("link_lost", neighbour)

    def received(self, connection: PeerConnection, neighbour: Neighbour, data: bytes) -> None:
        """Bytes have come over a link: heartbeats are answered at once, frames wait for their turn."""
        if self._connections.get(neighbour.peer) is not connection:
            return
        was_full = self.fabric.is_full
        raws = neighbour.receive(data, self.now())
        self.fabric.arrived(neighbour, raws)
        if not neighbour.may_rest:
            self.write(neighbour)
        if raws or was_full:
            self._wake()

    def failed(self, neighbour: Neighbour, error: LinkError) -> None:
        """A frame of a neighbour could not be handled: its link ends, and begins anew behind that frame."""
        connection = self._connections.get(neighbour.peer)
        if connection is not None:
            connection.end(error)

    def write(self, neighbour: Neighbour, may_wait: bool = True) -> None:
        """Writes what is to be sent to a neighbour. That its frames are handled may wait for a moment, since to say so
        costs both sides as much as a small frame."""
        connection = self._connections.get(neighbour.peer)
        if connection is not None:
            pieces = neighbour.data_to_send(may_wait)
            if len(pieces) > 1 and sum(map(len, pieces)) <= SMALL:
                pieces = [b"".join(pieces)]
            if pieces:
                connection.transport.writelines(pieces)
            if self._owing is None and neighbour.owes:
                self._owing = asyncio.get_running_loop().call_later(SOON, self._say_handled)

    def _say_handled(self) -> None:
        """Tells neighbours which of their frames are handled."""
        self._owing = None
        for neighbour in self.fabric.neighbours.values():
            if neighbour.owes:
                self.write(neighbour, may_wait=False)

    def flush(self) -> None:
        """Writes what is to be sent to all neighbours."""
        self.fabric.flush()
        for neighbour in self.fabric.neighbours.values():
            if not neighbour.may_rest or (self._owing is None and neighbour.owes):
                self.write(neighbour)

    def turn(self) -> bool:
        """Handles a slice of what has come, and writes. Returns whether something is left. Work that has to wait for
        its pace gets a turn of its own."""
        left = self.fabric.run(SLICE)
        self.flush()
        if not left and self._later is None and (pause := self.fabric.preparing.pause) > 0:
            self._later = asyncio.get_running_loop().call_later(pause, self._paused)
        return left

    def _paused(self) -> None:
        self._later = None
        self._wake()

    def tick(self, now: float) -> None:
        """Tells the router what time it is. A clock that is set back stands still for a while."""
        router = self.fabric.state.router
        self.fabric.act(router.tick(max(now, router.state.now)))

    def cut(self, peer: int) -> None:
        """Cuts the connection to a neighbour, as if a cable were pulled."""
        connection = self._connections.get(peer)
        if connection is not None:
            connection.transport.abort()

    async def _keep_time(self) -> None:
        window = self.fabric.window
        while True:
            await asyncio.sleep(window.heartbeat / 2)
            now = self.now()
            for peer, neighbour in self.fabric.neighbours.items():
                try:
                    neighbour.tick(now)
                except LinkError as error:
                    self.log("link_silent", neighbour, str(error))
                    self.cut(peer)
                self.write(neighbour)
            for peer, since in list(self._lost.items()):
                if now - since > window.grace:
                    del self._lost[peer]
                    self.log("neighbour_down", self.fabric.neighbours[peer])
                    self.fabric.down(peer)
            self._wake()
