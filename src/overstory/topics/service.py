"""The coordinator as a service over NATS: hears clients, settles, writes its journal, tells; and has a witness at each
server, and a guard.

A witness is a connection of its own. It answers a client over the way that all events take which are published at its
server, so its answer comes behind them. Where the guard is asked as well, the witness also tells the guard.
"""

import asyncio
import time
import urllib.parse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nats.aio.client import Client as Plain
from nats.aio.msg import Msg

from overstory.errors import BrokerError
from overstory.topics import protocol
from overstory.topics.coordination import Coordination
from overstory.topics.deciding import Deciding
from overstory.topics.flushing import taken
from overstory.topics.guarding import Guard
from overstory.topics.journal import Journal
from overstory.topics.prices import OBSERVED, Prices
from overstory.topics.protocol import GONE, PASSED, TO_COORDINATOR, WITNESS, Passed, Seen, client_subject, encoded

EVERY = 0.02  # seconds between two rounds
PATIENCE = 3.0  # seconds for a server to answer at first
AGAIN = 0.2  # seconds before a server that is away is tried again
SWEEP = 20.0  # seconds between two questions to all clients whether they are still there


class Service:
    """``servers`` are the addresses of all servers, of which each has a witness. ``observed`` is how many seconds the
    guard listens to a topic before anyone relies on a cluster for it."""

    def __init__(
        self,
        servers: Sequence[str],
        journal: Path,
        prices: Prices | None = None,
        seed: int = 0,
        observed: float = OBSERVED,
        **options: Any,
    ) -> None:
        self.servers, self.options = list(servers), options
        self.journal = Journal(journal)
        deciding = Deciding(prices or Prices(), seed)
        self.coordination = Coordination(deciding, self.journal.begin())
        self.restored = self.journal.restore(self.coordination)
        self.nc = Plain()
        self.guard = Guard(self.coordination, observed)
        self.witnesses: dict[str, Plain] = {}
        self.after_round: Callable[[], None] = lambda: None
        self._names: dict[str, str] = {}
        self._task: asyncio.Task[None] | None = None
        self._forbidden: list[str] = []
        self._late: list[asyncio.Task[None]] = []  # witnesses at servers that did not answer at first
        self._why = ""

    async def start(self) -> None:
        """Connects to the servers and subscribes.

        Raises a ``BrokerError`` if no server answers, or the account may not use the layer's subjects.
        """
        there = [server for server in self.servers if await self._answers(server)]
        if not there:
            raise BrokerError(f"no NATS server answers at {', '.join(self.servers)}: {self._why}")
        await self.nc.connect(
            self.servers,
            error_cb=self._on_error,
            reconnected_cb=self._on_back,
            name="overstory topics",
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.1,
            **self.options,
        )
        await self.nc.subscribe(TO_COORDINATOR, cb=self._on_message)
        await self.nc.subscribe(f"{GONE}.*", cb=self._on_gone)
        await self.nc.publish(client_subject("0"), b"")
        await taken(self.nc)
        if self._forbidden:
            await self.nc.close()
            raise BrokerError(
                f"the account may not use the subjects of the layer: {self._forbidden[0]}; "
                f"allow {protocol.ROOT}.> to it"
            )
        await self.guard.start(self.servers, self.options)
        await asyncio.gather(*map(self._witness, there))
        self._late = [asyncio.create_task(self._witness(server)) for server in self.servers if server not in there]
        self._task = asyncio.create_task(self._run())

    async def _answers(self, server: str) -> bool:
        """Whether a server can be reached now."""
        at = urllib.parse.urlsplit(server)
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(at.hostname, at.port or 4222), PATIENCE)
        except (OSError, TimeoutError) as error:
            self._why = str(error) or type(error).__name__
            return False
        writer.close()
        return True

    async def stop(self) -> None:
        """Ends in good order; ``start`` of another service with the same journal goes on."""
        for task in [*self._late, self._task]:
            if task is not None:
                task.cancel()
        await self.guard.stop()
        for each in [*self.witnesses.values(), self.nc]:
            await each.close()
        self.journal.close()

    async def _witness(self, server: str) -> None:
        one = self.witnesses[server] = Plain()

        async def heard(message: Msg) -> None:
            joined = protocol.to_witness.decode(message.data)
            await one.publish(client_subject(joined.client), encoded(Seen(joined.version, server)))
            if joined.relay:
                await one.publish(PASSED, encoded(Passed(joined.client, joined.version, server)))

        async def changed() -> None:
            self._show_witnesses()

        def same(known: list[Any], _: Any) -> tuple[Any, float]:
            """It is for this server, and goes to no other."""
            return next(each for each in known if each.uri.netloc in server), AGAIN

        async def quiet(_: Exception) -> None:
            """A server that is away is not complained about again and again."""

        await one.connect(
            [server],
            error_cb=quiet,
            disconnected_cb=changed,
            reconnected_cb=changed,
            max_reconnect_attempts=-1,
            reconnect_to_server_handler=same,
            name="overstory witness",
            **self.options,
        )
        await one.subscribe(WITNESS, cb=heard)
        await taken(one)
        self._show_witnesses()

    def _show_witnesses(self) -> None:
        self.coordination.watched_by(sorted(server for server, one in self.witnesses.items() if one.is_connected))

    async def _on_message(self, message: Msg) -> None:
        self.coordination.hear(protocol.from_client.decode(message.data), time.monotonic())

    async def _on_gone(self, message: Msg) -> None:
        """The server says that nobody listens where a client should."""
        self.coordination.unreachable(message.subject.rpartition(".")[2], time.monotonic())

    async def _on_back(self) -> None:
        self.coordination.ask_all()

    async def _on_error(self, error: Exception) -> None:
        if "permissions violation" in str(error).lower():
            self._forbidden.append(str(error))

    async def _run(self) -> None:
        swept = time.monotonic()
        while True:
            await asyncio.sleep(EVERY)
            now = time.monotonic()
            if not self.nc.is_connected:
                continue
            if now - swept > SWEEP:
                swept = now
                self.coordination.ask_all()
            self.coordination.expire(now)
            await self.round(now)

    async def round(self, now: float) -> None:
        """Settles what has been heard, and tells."""
        out = self.coordination.settle(now)
        self.journal.write(self.coordination)
        await self.guard.listen(now)
        for client, message in out:
            await self.nc.publish(client_subject(client), encoded(message), reply=f"{GONE}.{client}")
        self.after_round()
