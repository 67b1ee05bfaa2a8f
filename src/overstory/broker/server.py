"""The shell: sockets in, sockets out. All decisions are in ``core`` and ``tick``.

What comes between two turns of the loop is handled together in one tick, and every client gets what is for it in one
write. Long work is done in slices, between which others get their turn. A turn that has written to very many clients
is followed by a pause of at most half its length: the system's part of a write is most of what it costs, and messages
that gather meanwhile share it.
"""

import asyncio
import time
from collections.abc import Callable
from typing import cast

from overstory.broker.config import Config, address_of
from overstory.broker.core import Core
from overstory.broker.fast import Fast
from overstory.broker.identities import Store, recall, recall_network
from overstory.broker.joining import Joining
from overstory.broker.journal import Batch
from overstory.broker.link import Link
from overstory.broker.logs import Log
from overstory.broker.state import State
from overstory.broker.tick import Tick
from overstory.errors import BrokerError

CHORES = 200  # steps of what nobody waits for, in one turn: some milliseconds
SECOND = 1.0
LINGER = 2.0  # seconds that a client has to read why it was hung up on
MANY_WRITES = 256  # of a turn, from which on a pause follows
PAUSE, LONGEST_PAUSE = 0.5, 0.005  # of the turn before; seconds


def pause_after(writes: int, seconds: float) -> float:
    """The seconds to wait after a turn that took so long, and wrote to so many clients."""
    return min(seconds * PAUSE, LONGEST_PAUSE) if writes >= MANY_WRITES else 0.0


class Connection(asyncio.Protocol):
    """One client's socket, as the event loop knows it."""

    transport: asyncio.Transport

    def __init__(self, server: "Server") -> None:
        self.server, self._state, self._tick = server, server.state, server.tick
        self.link = Link(server.state.limits.packet, time.time())
        self.paused = self.hung_up = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is none by name
        self.transport.set_write_buffer_limits(high=self.server.state.limits.write_buffer)
        self.server.connections[self.link] = self
        self.link.write = self.transport.write

    def hang_up(self) -> None:
        """Ends the connection once all is written. What still comes is read and dropped for a while: else the client's
        system would throw away our last words."""
        if not self.hung_up:
            self.hung_up = True
            self.link.write = None
            if self.paused:
                self.transport.resume_reading()
            self.transport.write_eof()
            self.server.later(LINGER, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        """Bytes have come: they are passed on at once, or handled with all others of this turn."""
        link, state = self.link, self._state
        if link.closed:
            return
        link.heard = state.now
        state.counts.bytes_in += len(data)
        if not self._tick.passed_on(link, data):
            self.server.arrived(self, data)

    def pause_writing(self) -> None:
        self.server.core.congested(self.link, True)

    def resume_writing(self) -> None:
        self.server.core.congested(self.link, False)
        self.server.wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.connections.pop(self.link, None)
        self.server.tick.forget(self.link)
        self.server.core.set_time(time.time())
        self.server.core.lost(self.link)
        self.server.wake()


class Server:
    """A broker with its sockets."""

    def __init__(self, config: Config, log: Log | None = None, joining: Joining | None = None) -> None:
        """``joining`` says how the broker is joined to others; without it the broker is alone."""
        self.config = config
        self.store = None if config.store is None else Store(config.store)
        counter = 0 if self.store is None else self.store.meta("counter")
        router = None if joining is None else joining.router(config, time.time())
        self.state = State(config, self.store is not None, time.time(), counter, log, router)
        if self.store is not None:
            recall(self.state, self.store)
        self.peers = None if joining is None else joining.peers(self.state, self.wake, log)
        if self.store is not None and self.peers is not None:
            recall_network(self.state, self.store)
        self.core = Core(self.state)
        self.tick = Tick(self.core)
        if self.peers is not None:
            Fast(self.peers.fabric, self.tick)
        self.connections: dict[Link, Connection] = {}
        self.port = 0
        self.failed: BrokerError | None = None
        self.on_failure: Callable[[], None] | None = None
        self._woken = False
        self._pause = 0.0  # seconds before the next turn, in which messages gather
        self._paused = False
        self._listener: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Warms the kernels, and then listens. Raises a ``BrokerError`` if the address cannot be had."""
        loop = asyncio.get_running_loop()
        self._loop = loop
        if self.peers is not None:
            self._tasks.append(loop.create_task(self._keep_time()))
            await self.peers.start()
            await self.peers.active.wait()
        self.tick.warm_up()
        host, port = address_of(self.config.listen)
        try:
            self._listener = await loop.create_server(lambda: Connection(self), host, port, backlog=4096)
        except OSError as error:
            reason = error.strerror or str(error)
            raise BrokerError(f"cannot listen on {self.config.listen}: {reason}; choose another address") from None
        self.port = self._listener.sockets[0].getsockname()[1]
        if self.peers is None:
            self._tasks.append(loop.create_task(self._keep_time()))

    async def stop(self) -> None:
        """Tells all clients, writes what is not on disk yet, and closes everything."""
        for task in self._tasks:
            task.cancel()
        if self._listener is not None:
            self._listener.close()
        if self.peers is not None:
            await self.peers.stop()
        self.core.shut_down()
        self.flush()
        for connection in list(self.connections.values()):
            connection.transport.close()  # after what is to be written is
        while self.state.journal.busy and self.failed is None:
            await asyncio.sleep(0)
        if self.store is not None:
            batch = self.state.journal.take()
            if batch is not None and self.failed is None:
                self.store.write(batch.changes)
            self.store.close()

    def arrived(self, connection: Connection, data: bytes) -> None:
        """Takes bytes that have come on a connection, to be handled with all others of this turn."""
        link = connection.link
        self.tick.add(link, data)
        if self.tick.waiting > self.state.limits.read_ahead or link.work is not None or self._is_full:
            self.pause(connection)
        self.wake()

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Calls a function after some seconds."""
        self._loop.call_later(seconds, action)

    def wake(self) -> None:
        """Asks for a turn."""
        if not self._woken:
            self._woken = True
            if self._pause:
                self._loop.call_later(self._pause, self.turn)
            else:
                self._loop.call_soon(self.turn)

    def turn(self) -> None:
        """One turn: a slice of what has come, of long answers and of chores; then all writes."""
        self._woken = False
        began = time.perf_counter()
        self.core.set_time(time.time())
        self.tick.run()
        busy = self.peers is not None and self.peers.turn()
        if self.core.chores:
            self.core.tidy(CHORES)
        if self.state.dirty:
            self.flush()
        if self.state.journal:
            self._commit()
        if self.state.stalled:
            self._stall()
        self._pause = 0.0 if self.tick.pending else pause_after(self.tick.writes, time.perf_counter() - began)
        if self.tick.pending or self.core.chores or busy:
            self.wake()
        elif self._paused:
            self._resume()

    def flush(self) -> None:
        """Writes what is to be written: one write for each client."""
        connections, counts = self.connections, self.state.counts
        dirty, self.state.dirty = self.state.dirty, {}
        for link in dirty:
            connection = connections.get(link)
            if connection is None or connection.hung_up:
                link.outgoing.clear()
                continue
            try:
                if link.outgoing:
                    data = link.data_to_send()
                    counts.bytes_out += len(data)
                    connection.transport.write(data)
                if link.closed and not link.held:
                    connection.hang_up()
            except Exception as error:
                self.state.fault(error, link)
                connection.transport.abort()

    def pause(self, connection: Connection) -> None:
        """Does not read from a client for now."""
        if not connection.paused:
            connection.paused = self._paused = connection.link.is_paused = True
            connection.transport.pause_reading()

    def _stall(self) -> None:
        """Does not read from publishers of which too many events wait for their acknowledgements."""
        stalled, self.state.stalled = self.state.stalled, {}
        for link in stalled:
            if link.window.is_full and link in self.connections:
                self.pause(self.connections[link])

    def _resume(self) -> None:
        """Reads again from all clients whose windows are not full, unless too much waits for the disk or for
        neighbours."""
        if len(self.state.journal) > self.state.limits.uncommitted or self._is_full:
            return
        self._paused = False
        for connection in self.connections.values():
            if connection.paused and connection.link.window.is_full:
                self._paused = True
            elif connection.paused:
                connection.paused = connection.link.is_paused = False
                connection.transport.resume_reading()

    @property
    def _is_full(self) -> bool:
        """Whether too much waits for neighbours."""
        return self.peers is not None and self.peers.fabric.is_full

    def _commit(self) -> None:
        """Has the next changes written, by another thread; meanwhile more gather, and share the next commit."""
        batch = self.state.journal.take()
        if batch is None:
            if len(self.state.journal) > self.state.limits.uncommitted:
                for link in self.state.links:
                    if link in self.connections:
                        self.pause(self.connections[link])
            return
        if self.store is None or not batch.changes:
            self._committed(batch)
            return
        writing = self._loop.run_in_executor(None, self.store.write, batch.changes)
        writing.add_done_callback(lambda done: self._written(batch, done))

    def _written(self, batch: Batch, done: "asyncio.Future[None]") -> None:
        error = done.exception()
        if error is not None:
            self._fail(error)
            return
        self._committed(batch)

    def _committed(self, batch: Batch) -> None:
        for link in self.state.journal.written(batch):
            self.state.dirty[link] = None
        self.wake()

    def _fail(self, error: BaseException) -> None:
        """The disk does not take what was to be acknowledged: nobody is told that it did, and the broker ends."""
        self.failed = error if isinstance(error, BrokerError) else BrokerError(str(error))
        self.state.log("store_failed", reason=str(self.failed))
        if self.on_failure is not None:
            self.on_failure()

    async def _keep_time(self) -> None:
        while True:
            await asyncio.sleep(SECOND / 4)
            try:
                self.core.tick(time.time())
                if self.peers is not None:
                    self.peers.tick(time.time())
            except Exception as error:
                self.state.fault(error)  # time goes on
            self.wake()
