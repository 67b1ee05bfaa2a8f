"""Whoever waits for a server has its answer to everything that was sent before."""

import asyncio

import nats
import nats.errors
import pytest

from overstory.topics.client import connect
from overstory.topics.flushing import taken


def test_the_server_has_read_every_command_when_it_is_said_to_have() -> None:
    """A server that reads one command after the other, and writes down their names."""
    read: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "x", "version": "2.10.0", "proto": 1, "max_payload": 1024}\r\n')
        while line := await reader.readline():
            read.append(line.split()[0].decode())
            if read[-1] == "PING":
                writer.write(b"PONG\r\n")
        writer.close()

    async def run() -> int:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            client = await nats.connect(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            await client.subscribe("news.x")
            await taken(client)
            seen = read.count("SUB")
            await client.close()
            return seen

    assert asyncio.run(run()) == 1


def test_a_server_that_does_not_answer_any_more_does_not_keep_a_client_from_closing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where a server is killed while a client says farewell: ``nats-py``'s own ``close`` raises nothing, either."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id": "x", "version": "2.10.0", "proto": 1, "max_payload": 1024}\r\n')
        while line := await reader.readline():
            if line.startswith(b"PING"):
                writer.write(b"PONG\r\n")
        writer.close()

    async def run() -> bool:
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            client = await connect(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}")

            async def unanswered(timeout: int = 0) -> None:
                raise nats.errors.FlushTimeoutError

            monkeypatch.setattr(client, "flush", unanswered)
            await client.close()
            return bool(client.is_closed)

    assert asyncio.run(run())
