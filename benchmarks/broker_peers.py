"""Brokers to be measured: ours, and those that others have written. Each is one process on a free port."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

PATIENCE = 300.0  # seconds until a broker listens; kernels may have to be compiled
OURS = """
listen = "127.0.0.1:{port}"
log = "warning"
[limits]
receive_max = 65535
queued = 100000
write_buffer = 16777216
"""
MOSQUITTO = """
listener {port} 127.0.0.1
allow_anonymous true
max_inflight_messages 0
max_queued_messages 0
persistence false
log_type none
"""
AT_ONCE = "set_tcp_nodelay true\n"  # not mosquitto's default, with which single messages wait for up to 40 ms
STORE = 'store = "{folder}/store.db"\n'
NATS = """
port: -1
server_name: bench
jetstream {{ store_dir: "{folder}" }}
mqtt {{ host: 127.0.0.1, port: {port} }}
"""
AMQTT = """
listeners:
  default:
    type: tcp
    bind: 127.0.0.1:{port}
plugins:
  amqtt.plugins.authentication.AnonymousAuthPlugin:
    allow_anonymous: true
"""


class Peer(NamedTuple):
    """How to start a broker, and which version of MQTT it speaks."""

    name: str
    version: int
    config: str
    command: Callable[[str], list[str] | None]


class Running(NamedTuple):
    """A broker that runs."""

    peer: Peer
    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """The CPU time that the broker has taken so far, in nanoseconds' steps: /proc counts ticks of 10 ms."""
        return time.clock_gettime(~self.pid << 3 | 2)  # the clock that clock_getcpuclockid(3) gives for a process

    def stay_on(self, core: int) -> None:
        """Keeps all threads of the broker on one core."""
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {core})

    def resident_bytes(self) -> int:
        """The memory of the broker."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def _found(name: str, *arguments: str) -> list[str] | None:
    """The command, if it is installed, beside Python or anywhere on the path."""
    beside = Path(sys.executable).with_name(name)
    path = str(beside) if beside.exists() else shutil.which(name) or shutil.which(name, path="/usr/sbin")
    return None if path is None else [path, *arguments]


def _ours(config: str) -> list[str]:
    return [sys.executable, "-m", "overstory.cli", "broker", config]


PEERS = {
    peer.name: peer
    for peer in (
        Peer("overstory", 5, OURS, _ours),
        Peer("overstory with a store", 5, STORE + OURS, _ours),
        Peer("mosquitto", 5, MOSQUITTO, lambda config: _found("mosquitto", "-c", config)),
        Peer("mosquitto at once", 5, MOSQUITTO + AT_ONCE, lambda config: _found("mosquitto", "-c", config)),
        Peer("nats-server", 4, NATS, lambda config: _found("nats-server", "-c", config)),
        Peer("amqtt", 4, AMQTT, lambda config: _found("amqtt", "-c", config)),
    )
}


@contextmanager
def apart(brokers: Sequence[Running | None]) -> Iterator[None]:
    """Keeps brokers on one core and the load on another, as long as this lasts; where there is one core, nothing. The
    load never sleeps when it measures latencies: a broker that wakes up on its core waits for milliseconds."""
    before = os.sched_getaffinity(0)
    first, last = min(before), max(before)
    if first == last:
        yield
        return
    for broker in brokers:
        if broker is not None:
            broker.stay_on(last)
    os.sched_setaffinity(0, {first})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def running(name: str) -> Iterator[Running | None]:
    """Runs a broker; None if it is not installed."""
    peer = PEERS[name]
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / ("config.yaml" if name == "amqtt" else "config.toml")
        command = peer.command(str(config))
        if command is None:
            yield None
            return
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config.write_text(peer.config.format(port=port, folder=folder))
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait(process, port)
            yield Running(peer, port, process.pid)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: "subprocess.Popen[bytes]", port: int) -> None:
    """Waits until the broker takes connections."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"the broker {process.args!r} does not listen")
