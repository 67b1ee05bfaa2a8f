"""A scenario's network as real processes on this machine: brokers that a fork server starts, watched over HTTP.

``Network`` starts them, waits until all use the plan, says what each reports, and can kill, stop and start single ones.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from overstory.broker.config import Config
from overstory.broker.forkserver import Request, Started
from overstory.broker.joining import new_incarnation
from overstory.broker.places import places_of
from overstory.broker.reports import Report, TableRow
from overstory.broker.traces import Hop
from overstory.errors import BrokerError
from overstory.model.plan import read_plan
from overstory.model.scenario import read_scenario

HOST = "127.0.0.1"
PAUSE = 0.05  # seconds between two looks
PATIENCE = 60.0  # seconds for the network to start
ANSWERED = 2.0  # seconds for an answer
TABLE_ANSWERED = 30.0  # seconds for a forwarding table: 50,000 rows take one, and several on a full machine


class Ports(NamedTuple):
    """Where one broker listens."""

    clients: int
    links: int
    monitor: int


class Network:
    """The brokers of a scenario, under a plan. ``settings`` go into the configuration of each."""

    def __init__(self, scenario: Path, plan: Path, folder: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.scenario, self.plan, self.folder = scenario, plan, folder
        self.settings = dict(settings or {})
        places = places_of(read_scenario(scenario), read_plan(plan))
        self.neighbours = {broker: place.neighbours for broker, place in places.items()}
        self.ports: dict[int, Ports] = {}
        self.pids: dict[int, int] = {}
        self.detours: dict[tuple[int, int], str] = {}  # other addresses for links, by who dials whom
        self._incarnations: dict[int, int] = {}
        self._server: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Network":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts all brokers, and waits until all use the plan. Raises a ``BrokerError`` if they do not."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "overstory.broker.forkserver", str(self.scenario), str(self.plan)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        if self._answer() != b"ready\n":
            raise BrokerError("the brokers cannot be started; see above")
        self.choose_ports()
        for broker in self.neighbours:
            self.launch(broker)
        self.wait(lambda reports: all(report.active for report in reports.values()), "the plan is in use everywhere")

    def choose_ports(self) -> None:
        """Chooses where brokers will listen, if that is not known yet."""
        if not self.ports:
            self.ports = dict(zip(self.neighbours, _free_ports(len(self.neighbours)), strict=True))

    def launch(self, broker: int) -> None:
        """Starts one broker, for the first time or again."""
        incarnation = max(new_incarnation(), self._incarnations.get(broker, 0) + 1)
        self._incarnations[broker] = incarnation
        request = Request(self._config(broker), incarnation, str(self.folder / f"broker-{broker}.log"))
        assert self._server is not None
        assert self._server.stdin is not None
        self._server.stdin.write(msgspec.json.encode(request) + b"\n")
        self._server.stdin.flush()
        started = msgspec.json.decode(self._answer(), type=Started)
        self.pids[started.broker] = started.pid

    def _config(self, broker: int) -> Config:
        ports = self.ports[broker]
        settings = {
            "listen": f"{HOST}:{ports.clients}",
            "link": f"{HOST}:{ports.links}",
            "monitor": f"{HOST}:{ports.monitor}",
            "neighbours": {str(peer): self._link(broker, peer) for peer in self.neighbours[broker]},
            "scenario": str(self.scenario),
            "plan": str(self.plan),
            "log": "warning",
            **self.settings,
        }
        if "store" in settings:
            settings["store"] = str(self.folder / f"broker-{broker}.sqlite")
        return msgspec.convert({"number": broker, **settings}, Config)

    def _link(self, broker: int, peer: int) -> str:
        return self.detours.get((broker, peer), f"{HOST}:{self.ports[peer].links}")

    @property
    def server_pid(self) -> int:
        """The process of the fork server."""
        assert self._server is not None
        return self._server.pid

    def signal(self, broker: int, number: signal.Signals) -> None:
        """Sends a signal to the process of a broker."""
        os.kill(self.pids[broker], number)

    def address(self, broker: int) -> tuple[str, int]:
        """Where clients of a broker connect."""
        return HOST, self.ports[broker].clients

    def report(self, broker: int) -> Report | None:
        """What a broker says of itself; None if it says nothing."""
        return fetch_report(HOST, self.ports[broker].monitor)

    def reports(self) -> dict[int, Report]:
        """What all brokers say that say something."""
        found = {broker: self.report(broker) for broker in self.neighbours}
        return {broker: report for broker, report in found.items() if report is not None}

    def wait(self, until: Callable[[dict[int, Report]], bool], what: str, patience: float = PATIENCE) -> None:
        """Waits until a condition holds of all reports. Raises a ``BrokerError`` if nothing happens for too long."""
        ends, before = time.monotonic() + patience, None
        while True:
            reports = self.reports()
            if len(reports) == len(self.neighbours) and until(reports):
                return
            if (now := _done(reports)) != before:
                ends, before = time.monotonic() + patience, now
            if time.monotonic() > ends or (self._server is not None and self._server.poll() is not None):
                raise BrokerError(f"it took too long until {what}; see the logs in {self.folder}")
            time.sleep(PAUSE)

    def wait_until_idle(self, published: int | None = None, patience: float = PATIENCE) -> None:
        """Waits until all that was published has been handled everywhere, and nothing is under way."""
        before: list[Any] = []

        def is_idle(reports: dict[int, Report]) -> bool:
            now = _done(reports)
            same = before == now
            before[:] = now
            came = sum(report.messages_in for report in reports.values())
            return same and (published is None or came >= published) and all(one.idle for one in reports.values())

        self.wait(is_idle, "everything was delivered", patience)

    def stop(self) -> None:
        """Ends the processes of all brokers, also of those that are paused."""
        for pid in self.pids.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        if self._server is not None and self._server.stdin is not None and self._server.stdout is not None:
            self._server.stdin.close()
            self._server.wait(10)
            self._server.stdout.close()
        self._server = None

    def _answer(self) -> bytes:
        assert self._server is not None
        assert self._server.stdout is not None
        return self._server.stdout.readline()


def _done(reports: Mapping[int, Report]) -> list[Any]:
    """What brokers have done so far: it changes while anything happens. (Heartbeats do not count.)"""
    return [
        (report.messages_in, report.messages_out, [(one.traffic.events, one.traffic.messages) for one in report.links])
        for report in reports.values()
    ]


def fetch_report(host: str, port: int) -> Report | None:
    """Asks a broker's monitor what it has to say; None if nobody answers."""
    try:
        return msgspec.json.decode(_fetch(host, port, "/network"), type=Report)
    except (OSError, msgspec.MsgspecError):
        return None


def fetch_hops(host: str, port: int, trace: str) -> list[Hop]:
    """Asks a broker's monitor for the hops of an event; none if nobody answers."""
    try:
        return msgspec.json.decode(_fetch(host, port, f"/trace/{trace}"), type=list[Hop])
    except (OSError, msgspec.MsgspecError):
        return []


def fetch_table(host: str, port: int) -> list[TableRow]:
    """Asks a broker's monitor for its forwarding table."""
    return msgspec.json.decode(_fetch(host, port, "/table", TABLE_ANSWERED), type=list[TableRow])


def _fetch(host: str, port: int, path: str, patience: float = ANSWERED) -> bytes:
    """The body of the answer to a GET request."""
    with socket.create_connection((host, port), patience) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\n\r\n".encode())
        data = b""
        while part := connection.recv(1 << 16):
            data += part
    return data.partition(b"\r\n\r\n")[2]


def _free_ports(count: int) -> list[Ports]:
    """Ports that nobody uses at this moment."""
    sockets = [socket.socket() for _ in range(3 * count)]
    try:
        for one in sockets:
            one.bind((HOST, 0))
        numbers = [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
    return [Ports(*numbers[at : at + 3]) for at in range(0, len(numbers), 3)]
