"""A trial of a broker: messages at a fixed rate or as fast as they go, how long they take, and whether all came right.

Every subscriber wants a part of the events, by an expression. What each of them should get is also worked out without
any broker, by evaluating its filter for every event: that is the oracle of ``verify``.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from overstory.client.bus import Bus, Options, address_of
from overstory.client.event import Event
from overstory.client.subscriptions import Subscription
from overstory.errors import DisconnectedError
from overstory.filters import parse_filter

TOPIC = "overstory/bench"
RANGE = 1000  # attribute ``n`` is below this
STALLED = 10.0  # seconds without an event that should come
WINDOW = 500  # messages that may be on their way, where the rate is not fixed
PERCENTILES = (50, 90, 99, 99.9)


class Settings(msgspec.Struct, frozen=True):
    """What a trial does."""

    messages: int = 10_000
    subscribers: int = 10
    matches: float = 1.0  # subscribers that want an event, on average
    rate: float = 0.0  # messages a second; 0: as fast as they go
    qos: int = 0
    size: int = 200  # bytes of a payload, at least 16
    seed: int = 1


class Result(msgspec.Struct, frozen=True):
    """What a trial has found. Latencies are in milliseconds, from before the publisher writes until a reader has it."""

    messages: int
    deliveries: int
    seconds: float
    rate: float  # messages a second
    latency: dict[str, float]  # by percentile
    missing: int = 0  # deliveries that did not come
    unwanted: int = 0  # that came, and should not have
    repeated: int = 0  # that came more than once


class Trial:
    """A publisher at the first of some brokers, and subscribers at all of them in turn.

    ``served`` is waited for before anything is published: where there are several brokers, a subscription has to
    become known to all of them.
    """

    def __init__(
        self, urls: Sequence[str], settings: Settings, served: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._options = [Options(*address_of(url), patience=STALLED) for url in urls]
        self._served = served
        self.settings = settings
        width = max(1, round(RANGE * settings.matches / settings.subscribers))
        draw = random.Random(settings.seed)
        starts = [draw.randrange(RANGE - width + 1) for _ in range(settings.subscribers)]
        self.filters = [f"n >= {start} AND n < {start + width}" for start in starts]
        self.values = [draw.randrange(RANGE) for _ in range(settings.messages)]
        self.got: list[list[tuple[int, int]]] = [[] for _ in self.filters]  # of each subscriber: message, nanoseconds
        self._count = 0
        self._expected = 0
        self._progress = asyncio.Event()

    def wanted(self) -> list[list[int]]:
        """The oracle: the messages that each subscriber should get."""
        tests = [parse_filter(text) for text in self.filters]
        by_value = [[test.matches({"n": value}) for value in range(RANGE)] for test in tests]
        return [[number for number, value in enumerate(self.values) if truths[value]] for truths in by_value]

    async def run(self) -> Result:
        """Runs the trial, and compares what came with what should have come."""
        wanted = self.wanted()
        self._expected = sum(map(len, wanted))
        buses = [Bus(self._options[place % len(self._options)]) for place in range(len(self.filters) + 1)]
        try:
            for bus in buses:
                await bus.open()
            made = [
                await bus.subscription(text, topics=TOPIC, qos=self.settings.qos)
                for bus, text in zip(buses[1:], self.filters, strict=True)
            ]
            readers = [asyncio.create_task(self._read(number, one)) for number, one in enumerate(made)]
            if self._served is not None:
                await self._served()
            started = time.perf_counter()
            await self._publish(buses[0], _running_total(wanted, len(self.values)))
            await self._wait_for(self._expected)
            seconds = time.perf_counter() - started
            await asyncio.sleep(0)
            for reader in readers:
                reader.cancel()
        finally:
            for bus in buses:
                await bus.close()
        return self._result(seconds, wanted)

    async def _publish(self, bus: Bus, due: Sequence[int]) -> None:
        """Publishes all messages; ``due`` says how many deliveries the messages up to each one make."""
        settings = self.settings
        started = time.perf_counter()
        waiting: set[asyncio.Task[None]] = set()
        for number, value in enumerate(self.values):
            if settings.rate:
                ahead = started + number / settings.rate - time.perf_counter()
                if ahead > 0:
                    await asyncio.sleep(ahead)
            elif number >= WINDOW:
                await self._wait_for(due[number - WINDOW])
            payload = number.to_bytes(8, "big") + time.perf_counter_ns().to_bytes(8, "big")
            event = Event(TOPIC, {"n": value}, payload.ljust(settings.size, b"."))
            sending = bus.publish(event, qos=settings.qos)
            if settings.qos == 0:
                await sending
            else:
                task = asyncio.create_task(sending)
                waiting.add(task)
                task.add_done_callback(waiting.discard)
        if waiting:
            await asyncio.gather(*waiting)

    async def _read(self, number: int, events: Subscription) -> None:
        got = self.got[number]
        async for event in events:
            now = time.perf_counter_ns()
            message = int.from_bytes(event.payload[:8], "big")
            got.append((message, now - int.from_bytes(event.payload[8:16], "big")))
            self._count += 1
            self._progress.set()

    async def _wait_for(self, count: int) -> None:
        """Waits until so many deliveries have come, or until none comes any more."""
        while self._count < count:
            self._progress.clear()
            before = self._count
            try:
                await asyncio.wait_for(self._progress.wait(), STALLED)
            except TimeoutError:
                if self._count == before:
                    return

    def _result(self, seconds: float, wanted: Sequence[Sequence[int]]) -> Result:
        missing = unwanted = repeated = 0
        for should, came in zip(wanted, self.got, strict=True):
            counts = Counter(message for message, _ in came)
            missing += len(set(should) - counts.keys())
            unwanted += len(counts.keys() - set(should))
            repeated += sum(counts.values()) - len(counts)
        times = sorted(taken for came in self.got for _, taken in came)
        if not times:
            raise DisconnectedError("nothing came back from the broker; does it take connections?")
        latency = {f"p{p:g}": times[min(len(times) - 1, int(len(times) * p / 100))] / 1e6 for p in PERCENTILES}
        latency["max"] = times[-1] / 1e6
        count = len(self.values)
        return Result(count, len(times), seconds, count / seconds, latency, missing, unwanted, repeated)


def _running_total(wanted: Sequence[Sequence[int]], messages: int) -> list[int]:
    """How many deliveries the messages up to each one make."""
    counts = Counter(message for should in wanted for message in should)
    total, found = 0, []
    for number in range(messages):
        total += counts[number]
        found.append(total)
    return found
