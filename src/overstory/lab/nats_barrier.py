"""When a subscription is known at every server: what plain NATS does not tell.

An interest travels from server to server in order with the messages of its connection. So once an ear at each server
has heard a client's word, its server knows of all that the client had subscribed to before.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import nats

from overstory.topics.flushing import taken

SUBJECT = "overstory-trial.known.*"
AGAIN = 0.2  # seconds before a word is repeated that an ear may not have been known for
PATIENCE = 60.0


class Ears:
    """A plain connection at each server, which listens."""

    def __init__(self, urls: Sequence[str]) -> None:
        self.urls = list(urls)
        self.connections: list[Any] = []
        self._heard: dict[str, set[int]] = defaultdict(set)
        self._words = 0
        self._news = asyncio.Event()

    async def __aenter__(self) -> "Ears":
        for number, url in enumerate(self.urls):
            connection = await nats.connect(url, error_cb=_quiet)
            await connection.subscribe(SUBJECT, cb=self._listener(number))
            await taken(connection)
            self.connections.append(connection)
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self.connections:
            await connection.close()

    def _listener(self, number: int) -> Any:
        async def heard(message: Any) -> None:
            self._heard[message.subject].add(number)
            self._news.set()

        return heard

    async def known(self, client: Any) -> None:
        """Until all servers know what the client has subscribed to by now."""
        self._words += 1
        subject = SUBJECT.replace("*", str(self._words))
        everyone = set(range(len(self.connections)))
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while self._heard[subject] != everyone:
            await client.publish_plainly(subject)
            with contextlib.suppress(nats.errors.TimeoutError):  # its server was killed meanwhile: it is asked again
                await client.flush()
            again = asyncio.get_running_loop().time() + AGAIN
            while self._heard[subject] != everyone and asyncio.get_running_loop().time() < again:
                self._news.clear()
                try:
                    await asyncio.wait_for(self._news.wait(), AGAIN)
                except TimeoutError:
                    break
            if asyncio.get_running_loop().time() > deadline:
                raise TimeoutError("a server does not hear a client")
        del self._heard[subject]


async def _quiet(_: Exception) -> None:
    """An ear at a server that is killed has nothing to say about it."""
