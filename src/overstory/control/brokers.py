"""All brokers of a network, as a coordinator talks to them: HTTP, one request a connection, all brokers at once.

One broker's URL suffices: each knows where the others are. A broker that does not answer in time counts as silent,
which is no error here; what follows from it is decided elsewhere (``installing``).
"""

import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec

from overstory.broker.observing import Late, Observed
from overstory.broker.reports import Report
from overstory.broker.sampling import Sample
from overstory.broker.standing import Address, Standing, Subscribed, Where
from overstory.broker.watching import Watched
from overstory.errors import DisconnectedError, OverstoryError, UsageError
from overstory.model.plan import Plan, read_plan
from overstory.model.scenario import SETTINGS_FILE, SMALL, Scenario
from overstory.model.settings import Settings

PATIENCE = 5.0  # seconds for an answer
PREPARING = 2  # brokers that are given a plan at once: to read it takes each some milliseconds
T = TypeVar("T")


class RefusedError(OverstoryError):
    """A broker refuses: another coordinator leads, or what is asked cannot be done now."""


class Brokers:
    """The brokers of a network. ``name`` is what they call this coordinator by."""

    def __init__(self, url: str, name: str | None = None, patience: float = PATIENCE) -> None:
        self.url, self.patience = url.rstrip("/"), patience
        self.name = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
        self.fence = 0
        self.addresses: dict[int, Address] = {}
        self.left_out: set[int] = set()  # brokers that are lost, and not asked
        self.joining: set[int] = set()  # brokers that the plan in use is without, and the next one is with

    # Reading

    async def meet(self) -> dict[int, Standing]:
        """Finds out where all brokers are, and what they say. Raises a ``DisconnectedError`` if nobody is there."""
        first = await self._read(self.url, "/status", Standing)
        self.addresses = dict(first.brokers)
        self.addresses.setdefault(first.broker, Address(self.url, ""))
        self.addresses |= {broker: first.outside[broker] for broker in self.joining if broker in first.outside}
        for broker in self.left_out:
            self.addresses.pop(broker, None)
        return await self.status()

    async def status(self) -> dict[int, Standing]:
        """What the brokers say that answer in time."""
        if not self.addresses:
            return await self.meet()
        return await self._each(self.addresses, lambda at: self._read(at, "/status", Standing))

    async def _all(self) -> dict[int, Address]:
        """Where all brokers are. They are asked for that if they have not been met yet: else nobody would answer."""
        if not self.addresses:
            await self.meet()
        return self.addresses

    async def subscriptions(self) -> dict[int, list[Subscribed]]:
        """The subscriptions of each broker that answers."""
        return await self._each(await self._all(), lambda at: self._read(at, "/subscriptions", list[Subscribed]))

    async def clients(self) -> dict[int, dict[str, int]]:
        """The clients with a session at each broker that answers, by name, and their numbers."""
        return await self._each(await self._all(), lambda at: self._read(at, "/clients", dict[str, int]))

    async def reports(self) -> dict[int, Report]:
        """What brokers say of their links and their traffic."""
        return await self._each(await self._all(), lambda at: self._read(at, "/network", Report))

    async def where(self, client: str) -> Where:
        """Where a client is, and where the plan wants it to be."""
        return await self._read(self.url, f"/where?{urlencode({'client': client})}", Where)

    async def plan(self, epoch: int | None = None) -> Plan:
        """The plan of an epoch, by default of the one in use. Raises a ``RefusedError`` if nobody has it any more."""
        with tempfile.TemporaryDirectory(prefix="overstory-plan-") as folder:
            await self._files("/plan" if epoch is None else f"/plan?epoch={epoch}", Path(folder))
            return read_plan(Path(folder))

    async def plan_files(self, epoch: int) -> dict[str, bytes]:
        """The files of the folder of an epoch's plan."""
        data = await self._request(self.url, "GET", f"/plan?epoch={epoch}")
        return msgspec.msgpack.decode(data, type=dict[str, bytes])

    async def scenario(self) -> Scenario:
        """The scenario that the network began with, without its events."""
        from overstory.model.folders import read_tables

        with tempfile.TemporaryDirectory(prefix="overstory-scenario-") as made:
            folder = Path(made)
            await self._files("/scenario", folder)
            settings = msgspec.toml.decode((folder / SETTINGS_FILE).read_bytes(), type=Settings)
            return Scenario(folder, settings, **read_tables(folder, SMALL, []))

    async def scenario_files(self) -> dict[str, bytes]:
        """The files of the scenario that the network began with, without its events."""
        return msgspec.msgpack.decode(await self._request(self.url, "GET", "/scenario"), type=dict[str, bytes])

    async def observed(self) -> dict[int, Observed]:
        """The clients of each broker that answers, and what they want."""
        return await self._each(await self._all(), lambda at: self._unpacked(at, "/observed", Observed))

    async def late(self) -> dict[int, Late]:
        """The subscriptions of each broker that answers which have no flow of the plan yet."""
        return await self._each(await self._all(), lambda at: self._unpacked(at, "/late", Late))

    async def samples(self, after: Mapping[int, int]) -> dict[int, Sample]:
        """What brokers have sampled of their clients' messages, behind these numbers of packets."""
        number = {address.admin: after.get(broker, 0) for broker, address in (await self._all()).items()}
        return await self._each(self.addresses, lambda at: self._unpacked(at, f"/sample?after={number[at]}", Sample))

    async def watched(self, watched: Watched) -> None:
        """Tells all brokers the one number to watch."""
        body = msgspec.json.encode(watched)
        await self._each(await self._all(), lambda at: self._request(at, "POST", "/watched", body))

    async def watched_last(self) -> Watched | None:
        """What a coordinator has said of the last window."""
        return await self._read(self.url, "/watched", Watched | None)  # type: ignore[arg-type]

    async def place(self, flows: Mapping[int, list[int]]) -> None:
        """Moves late subscriptions to flows, each at the broker that hosts it."""
        await self.tell("/place", await self._all(), {}, msgspec.json.encode(flows))

    async def sample_at(self, rate: float) -> None:
        """Has all brokers sample with this probability from now on."""
        await self._each(await self._all(), lambda at: self._request(at, "POST", f"/sampling?rate={rate}"))

    async def _unpacked(self, url: str, path: str, kind: type[T]) -> T:
        return msgspec.msgpack.decode(await self._request(url, "GET", path), type=kind)

    async def _files(self, path: str, folder: Path) -> None:
        data = await self._request(self.url, "GET", path)
        for name, content in msgspec.msgpack.decode(data, type=dict[str, bytes]).items():
            (folder / Path(name).name).write_bytes(content)

    # Changing

    async def lead(self, force: bool = False) -> dict[int, Standing]:
        """Takes the lead of all brokers that answer. Raises a ``RefusedError`` if another coordinator is at work."""
        known = await self.meet()
        self.fence = max((one.fence for one in known.values()), default=0) + 1
        await self.tell("/lead", known, {"force": "1"} if force else {})
        return await self.status()

    async def release(self) -> None:
        """Gives up the lead, so that another coordinator may take it."""
        await self.tell("/release", self.addresses)

    async def prepare(self, package: bytes, brokers: Iterable[int] | None = None) -> None:
        """Gives brokers a plan, all by default, a few at a time."""
        waiting = list(self.addresses if brokers is None else brokers)
        for at in range(0, len(waiting), PREPARING):
            await self.tell("/prepare", waiting[at : at + PREPARING], {}, package)

    async def activate(self, epoch: int, brokers: Iterable[int] | None = None) -> None:
        """Tells brokers to use an epoch."""
        await self._epoch("/activate", epoch, brokers)

    async def retire(self, epoch: int, brokers: Iterable[int] | None = None) -> None:
        """Tells brokers to let go of an epoch that has drained everywhere."""
        await self._epoch("/retire", epoch, brokers)

    async def abort(self, epoch: int, brokers: Iterable[int] | None = None) -> None:
        """Tells brokers to let go of an epoch that was given up."""
        await self._epoch("/abort", epoch, brokers)

    async def give_up(self, epoch: int, brokers: Iterable[int] | None = None) -> None:
        """Tells brokers to wait no longer for events of an older epoch that were lost with a broker."""
        await self._epoch("/give-up", epoch, brokers)

    async def forget(self, broker: int) -> None:
        """Tells all brokers not to wait for one that is lost."""
        await self.tell("/forget", self.addresses, {"broker": str(broker)})

    async def pause(self, paused: bool) -> None:
        """Stops whoever installs plans or moves clients, or lets it go on."""
        await self.tell("/pause" if paused else "/resume", self.addresses)

    async def move(self, clients: Mapping[int, Mapping[str, int]], leaves: bool = False) -> None:
        """Asks clients to move: by the broker that they are at, their names and where they are to go. ``leaves`` says
        that these brokers are left for good."""
        query = {"leaves": "1"} if leaves else {}
        await self._each(
            {broker: self.addresses[broker] for broker in clients},
            lambda at: self._request(
                at, "POST", self._path("/move", query), msgspec.json.encode(clients[self._number_of(at)])
            ),
        )

    async def _epoch(self, path: str, epoch: int, brokers: Iterable[int] | None) -> None:
        await self.tell(path, self.addresses if brokers is None else brokers, {"epoch": str(epoch)})

    async def tell(
        self, path: str, brokers: Iterable[int], query: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        """Asks brokers for a change, all at once. Those that are silent are passed over; a refusal is raised."""
        addresses = {broker: self.addresses[broker] for broker in brokers if broker in self.addresses}
        await self._each(addresses, lambda at: self._request(at, "POST", self._path(path, query or {}), body))

    def _path(self, path: str, query: Mapping[str, str]) -> str:
        return f"{path}?{urlencode({'fence': self.fence, 'name': self.name, **query})}"

    def _number_of(self, url: str) -> int:
        return next(broker for broker, address in self.addresses.items() if address.admin == url)

    # HTTP

    async def _each(self, addresses: Mapping[int, Address], ask: Any) -> dict[int, Any]:
        """The answers of all that answer. The first refusal is raised."""
        asked = [asyncio.ensure_future(ask(address.admin)) for address in addresses.values()]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException) and not isinstance(answer, DisconnectedError):
                raise answer
        pairs = zip(addresses, answers, strict=True)
        return {broker: answer for broker, answer in pairs if not isinstance(answer, BaseException)}

    async def _read(self, url: str, path: str, kind: type[T]) -> T:
        return msgspec.json.decode(await self._request(url, "GET", path), type=kind)

    async def _request(self, url: str, method: str, path: str, body: bytes = b"") -> bytes:
        """The body of the answer. Raises a ``DisconnectedError`` without one, a ``RefusedError`` if it is no."""
        host, port = host_of(url)
        try:
            status, data = await asyncio.wait_for(_exchange(host, port, method, path, body), self.patience)
        except (OSError, TimeoutError, ValueError, asyncio.IncompleteReadError) as error:
            reason = str(error) or "no answer in time"
            raise DisconnectedError(f"no broker answers at {url}: {reason}") from None
        if status != 200:
            raise RefusedError(_problem(data, url))
        return data


def host_of(url: str) -> tuple[str, int]:
    """The host and the port of the URL of a broker's HTTP endpoint."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            raise ValueError
        return parts.hostname, parts.port
    except ValueError:
        raise UsageError(f"'{url}' is no URL of a broker's HTTP endpoint; write it as http://HOST:PORT") from None


async def _exchange(host: str, port: int, method: str, path: str, body: bytes) -> tuple[int, bytes]:
    reader, writer = await asyncio.open_connection(host, port)
    try:
        head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        status = int((await reader.readline()).split(b" ", 2)[1])
        while (await reader.readline()).strip():
            pass
        return status, await reader.read()
    except IndexError:
        raise ValueError("the answer is not HTTP") from None
    finally:
        writer.close()


def _problem(data: bytes, url: str) -> str:
    try:
        return str(msgspec.json.decode(data)["error"])
    except (msgspec.MsgspecError, KeyError, TypeError):
        return f"the broker at {url} does not know what it was asked for; is it an older version?"
