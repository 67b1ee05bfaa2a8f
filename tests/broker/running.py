"""A broker with sockets, in a thread of its own; or in a process of its own, to be killed."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from overstory.broker.config import Config
from overstory.broker.monitor import Monitor
from overstory.broker.pressure import Limits
from overstory.broker.server import Server
from overstory.broker.state import State

T = TypeVar("T")
PATIENCE = 20.0  # seconds; only a fault takes so long


class Running:
    """A broker that runs in this process."""

    def __init__(self, **settings: Any) -> None:
        limits = Limits(**settings.pop("limits", {}))
        port = settings.pop("port", 0)
        self.config = Config(listen=f"127.0.0.1:{port}", monitor="127.0.0.1:0", limits=limits, **settings)
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready: Future[None] = Future()
        self._thread.start()
        self._ready.result(PATIENCE)

    @classmethod
    def at(cls, port: int) -> "Running":
        """A broker at this port."""
        return cls(port=port)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self.server = Server(self.config)
            self._loop.run_until_complete(self.server.start())
            self.monitor = Monitor(self.server, self.config.monitor)
            self._loop.run_until_complete(self.monitor.start())
        except BaseException as error:
            self._ready.set_exception(error)
            self._loop.close()
            return
        self._ready.set_result(None)
        self._loop.run_forever()
        self._loop.close()

    @property
    def port(self) -> int:
        return self.server.port

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs something in the broker's own thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def wait(self, condition: Callable[[State], bool]) -> None:
        """Waits until the broker is as it should be."""

        async def until() -> None:
            while not condition(self.server.state):
                await asyncio.sleep(0.002)

        self.do(until())

    def stop(self) -> None:
        self.do(self.monitor.stop())
        self.do(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)


@contextlib.contextmanager
def broker(**settings: Any) -> Iterator[Running]:
    """A broker for the time of a test."""
    made = Running(**settings)
    try:
        yield made
    finally:
        made.stop()


class Process:
    """A broker in a process of its own."""

    def __init__(self, *arguments: str, port: int = 0, preexec: Any = None) -> None:
        command = [sys.executable, "-m", "overstory.cli", "broker", "--listen", f"127.0.0.1:{port}", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(), preexec_fn=preexec
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("listening on"), self.process.communicate()[1]
        self.port = int(line.rpartition(":")[2])

    def __del__(self) -> None:
        if hasattr(self, "process"):
            closed(self.process)

    def kill(self) -> None:
        """As the power going off: no goodbye."""
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate()

    def stop(self) -> tuple[int, str]:
        self.process.terminate()
        _, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, errors


def closed(process: "subprocess.Popen[str]") -> None:
    """Ends a process of which a test has lost sight."""
    if process.poll() is None:
        process.kill()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    process.wait()


def environment() -> dict[str, str]:
    source = str(Path(__file__).parents[2] / "src")
    return {**os.environ, "PYTHONPATH": source, "PYTHONUNBUFFERED": "1"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port
