"""A small HTTP server for those who watch: /metrics in OpenMetrics, /healthz, /network about links, and for those who
install plans (``admin``)."""

import asyncio

import msgspec

from overstory.broker.admin import Admin
from overstory.broker.config import address_of
from overstory.broker.metrics import Metrics
from overstory.broker.reports import report_of, rows_of
from overstory.broker.server import Server
from overstory.errors import BrokerError

OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PATIENCE = 5.0  # seconds for a request to come
MOST_LINES = 100
MOST_BODY = 1 << 30  # bytes
TRACES = "/trace/"


class Monitor:
    """Answers requests to one broker."""

    def __init__(self, server: Server, address: str | None) -> None:
        self._server, self._address = server, address
        self._metrics = Metrics(server.state)
        self.admin = Admin(server)
        self._listener: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        if self._address is None:
            return
        host, port = address_of(self._address)
        try:
            self._listener = await asyncio.start_server(self._serve, host, port)
        except OSError as error:
            raise BrokerError(f"cannot listen on {self._address}: {error.strerror or error}; choose another") from None
        self.port = self._listener.sockets[0].getsockname()[1]
        self.admin.announce(f"http://{self._server.config.admin_host or host}:{self.port}")

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            method, target, given = await asyncio.wait_for(_request(reader), PATIENCE)
            answered = self.admin.answer(method, target, given)
            status, kind, body = self._answer(method, target.partition("?")[0]) if answered is None else answered
            head = (
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            writer.write(head.encode() + body)
            await writer.drain()
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError):
            pass  # who asks badly, or goes away, gets no answer
        finally:
            writer.close()

    def _answer(self, method: str, path: str) -> tuple[str, str, bytes]:
        if method != "GET":
            return "405 Method Not Allowed", "text/plain", b"this can only be read\n"
        if path == "/metrics":
            return "200 OK", OPEN_METRICS, self._metrics.text()
        if path == "/healthz":
            failed = self._server.failed
            if failed is None:
                return "200 OK", "text/plain", b"ok\n"
            return "503 Service Unavailable", "text/plain", f"{failed}\n".encode()
        if path == "/network":
            return "200 OK", "application/json", msgspec.json.encode(report_of(self._server))
        if path == "/table":
            return "200 OK", "application/json", msgspec.json.encode(rows_of(self._server.state.router))
        if path.startswith(TRACES) and self._server.peers is not None:
            hops = self._server.peers.fabric.traces.hops(path[len(TRACES) :])
            return "200 OK", "application/json", msgspec.json.encode(hops)
        return "404 Not Found", "text/plain", b"there are /metrics, /healthz, /network, /table, /status, /trace/NAME\n"


async def _request(reader: asyncio.StreamReader) -> tuple[str, str, bytes]:
    """The method, the target and the body of a request."""
    method, target, _ = (await reader.readline()).decode("ascii").split(" ", 2)
    size = 0
    for _ in range(MOST_LINES):
        line = (await reader.readline()).decode("latin-1").strip()
        if not line:
            break
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            size = int(value)
    if method not in ("GET", "POST") or not 0 <= size <= MOST_BODY:
        raise ValueError(method)
    return method, target, await reader.readexactly(size)
