"""The bus without ``await``: ``with connect_sync(url) as bus``. Its loop runs in a thread of its own."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from overstory.client.bus import Bus, Options, address_of
from overstory.client.event import Event

T = TypeVar("T")


@contextlib.contextmanager
def connect_sync(
    url: str, *, client_id: str = "", keep_alive: int = 60, patience: float = 60.0, takes_clusters: bool = False
) -> Iterator["SyncBus"]:
    """Connects to the broker at ``mqtt://HOST:PORT``, for as long as the block lasts."""
    bus = SyncBus(Options(*address_of(url), client_id, keep_alive, patience, takes_clusters))
    try:
        bus.open()
        yield bus
    finally:
        bus.close()


class SyncBus:
    """A ``Bus`` for code that does not know ``await``. It may be used from several threads."""

    def __init__(self, options: Options) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="overstory-client", daemon=True)
        self._thread.start()
        self._options = options
        self._bus: Bus | None = None

    def open(self) -> None:
        self._do(self._open())

    async def _open(self) -> None:
        bus = Bus(self._options)
        await bus.open()
        self._bus = bus

    def publish(self, event: Event, *, qos: int = 1, retain: bool = False) -> None:
        """Publishes an event at the broker. With QoS 1 or 2 it is safe with the broker when this returns."""
        self._do(self._held.publish(event, qos=qos, retain=retain))

    def subscribe(self, where: str | None = None, *, topics: str = "#", qos: int = 1) -> Iterator[Event]:
        """The events that match an expression, a topic filter, or both. The broker has acknowledged it on return."""
        held = self._held
        made = self._do(held.subscription(where, topics=topics, qos=qos))

        def events() -> Iterator[Event]:
            try:
                while True:
                    try:
                        yield self._do(made.__anext__())
                    except StopAsyncIteration:
                        return
            finally:
                if self._loop.is_running():
                    self._do(held.unsubscribe(made))

        return events()

    def close(self) -> None:
        """Disconnects, and ends the thread."""
        if self._bus is not None:
            self._do(self._bus.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def _held(self) -> Bus:
        assert self._bus is not None, "the bus is open"
        return self._bus

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
