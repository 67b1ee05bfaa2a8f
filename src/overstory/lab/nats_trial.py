"""A seeded schedule over real NATS servers: interests shift, the coordinator is killed and comes back, a server may be
killed, and every event is followed.

What every subscriber must have got of a topic: from each publisher the events that were published since all servers
knew of the subscription, in order, each once, without a gap, until it ended. What was published while the subscription
travelled may be among them. Where a server is killed, plain ``nats-py`` twins with the same interests tell what core
NATS itself loses; so does the same schedule without the layer, where all are plain.
"""

import asyncio
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import nats
from nats.aio.client import Client as Plain

from overstory.errors import BrokerError
from overstory.lab.nats_barrier import Ears
from overstory.lab.nats_servers import Servers
from overstory.topics.client import Client
from overstory.topics.flushing import taken

GROUP = 12  # topics that are wanted together
SUBSCRIPTION, INTERVAL = 20.0, 10.0  # the coordinator's prices: dear enough for clusters to form
AT_ONCE = 50  # connections that are made together
EVERY = 9  # a plain twin for every ninth subscriber; of four servers each has some
RUNS = "the coordinator runs"
SETTLE = 1.5  # seconds for handovers at the end of a round
OPTIONS: dict[str, Any] = {"max_reconnect_attempts": -1, "reconnect_time_wait": 0.1}


class Schedule(NamedTuple):
    subscribers: int = 1000
    topics: int = 300
    publishers: int = 8
    rounds: int = 2
    shifting: float = 0.1  # of the subscribers, in each round
    pace: float = 20.0  # events a second
    kill_coordinator: bool = True
    kill_server: bool = False
    layer: bool = True  # else everyone is a plain client
    quiet: float = 5.0  # seconds without an event after which nothing more is expected
    seed: int = 1


class Outcome(NamedTuple):
    """What came of it. ``wrong`` is in words."""

    events: int
    expected: int
    lost: int
    doubled: int
    disordered: int
    clusters: int  # of which subscribers held one or more at the end
    subscriptions: int  # of the subscribers at the end
    interests: int
    repeated: int  # second copies that were dropped
    discarded: int
    changes: dict[str, int]  # of clusters, by kind
    plain_expected: int
    plain_lost: int
    seconds: float
    wrong: list[str]


class Window:
    """A subscription to a topic from its beginning to its end. ``after`` counts, by publisher, what had been published
    when all servers knew of it."""

    def __init__(self) -> None:
        self.got: dict[int, list[int]] = defaultdict(list)
        self.after: list[int] | None = None
        self.upto: list[int] | None = None


class Person:
    """A subscriber, ours or plain, that follows what it gets."""

    def __init__(self, client: Any, server: int) -> None:
        self.client, self.server = client, server
        self.windows: dict[str, list[Window]] = defaultdict(list)
        self.subs: dict[str, Any] = {}
        self.count = 0

    async def subscribe(self, topics: list[str]) -> list[tuple[str, Window]]:
        found = []
        for topic in topics:
            window = Window()
            self.windows[topic].append(window)
            self.subs[topic] = await self.client.subscribe(topic, cb=self._listener(window))
            found.append((topic, window))
        return found

    async def unsubscribe(self, topics: list[str], published: dict[str, list[int]]) -> None:
        for topic in topics:
            self.windows[topic][-1].upto = list(published[topic])
            await self.subs.pop(topic).unsubscribe()

    def _listener(self, window: Window) -> Any:
        async def heard(message: Any) -> None:
            publisher, number = message.data.split(b":")
            if window.upto is None:
                window.got[int(publisher)].append(int(number))
                self.count += 1

        return heard


class WithoutLayer(Plain):  # type: ignore[misc]
    """A plain client, as ears ask for it."""

    async def publish_plainly(self, subject: str) -> None:
        await self.publish(subject, b"")


class Coordinator:
    """``overstory topics run`` in a process of its own."""

    def __init__(self, urls: list[str], folder: Path, seed: int) -> None:
        self.urls, self.folder, self.seed, self.starts = urls, folder, seed, 0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.starts += 1
        prices = ["--subscription", str(SUBSCRIPTION), "--interval", str(INTERVAL)]
        command = [sys.executable, "-m", "overstory.cli", "topics", "run", *self.urls, "--json", *prices]
        command += [
            "--journal",
            str(self.folder / "journal.db"),
            "--seed",
            str(self.seed + self.starts),
            "--observe",
            "0",
        ]
        with (self.folder / "timeline.jsonl").open("ab") as out, (self.folder / "coordinator.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=out, stderr=log)

    async def up(self) -> None:
        """Until it says that it runs."""
        log = self.folder / "coordinator.log"
        while log.read_text().count(RUNS) < self.starts:
            if self.process is None or self.process.poll() is not None:
                raise BrokerError(f"the coordinator has ended: {log.read_text()[-300:]}")
            await asyncio.sleep(0.05)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def changes(self) -> dict[str, int]:
        text = (self.folder / "timeline.jsonl").read_text()
        return {what: text.count(f'"what": "{what}"') for what in ("formed", "added", "removed", "merged", "ended")}


class Run:
    def __init__(self, schedule: Schedule, servers: Servers, folder: Path) -> None:
        self.schedule, self.servers = schedule, servers
        self.draw = random.Random(schedule.seed)
        self.coordinator = Coordinator(servers.urls, folder, schedule.seed)
        self.topics = [f"trial.t{at}" for at in range(schedule.topics)]
        self.people: list[Person] = []
        self.twins: list[Person] = []
        self.publishers: list[Any] = []
        self.published: dict[str, list[int]] = {topic: [0] * schedule.publishers for topic in self.topics}
        self.events = 0

    async def run(self) -> Outcome:
        began = time.monotonic()
        async with Ears(self.servers.urls) as ears:
            if self.schedule.layer:
                self.coordinator.start()
                await self.coordinator.up()
            await self._come(ears)
            publishing = asyncio.create_task(self._publish())
            try:
                for number in range(self.schedule.rounds):
                    await self._round(number, ears)
            finally:
                publishing.cancel()
            await self._quiet()
            found = self._judged(time.monotonic() - began)
            await asyncio.gather(*(one.client.close() for one in [*self.people, *self.twins]))
            await asyncio.gather(*(one.close() for one in self.publishers))
            self.coordinator.kill()
        return found

    async def _come(self, ears: Ears) -> None:
        size = self.schedule
        homes = [number % len(self.servers.urls) for number in range(size.subscribers)]
        for first in range(0, len(homes), AT_ONCE):
            some = homes[first : first + AT_ONCE]
            self.people += await asyncio.gather(*(self._person(self._client(), home) for home in some))
        if size.kill_server and size.layer:
            self.twins = list(await asyncio.gather(*(self._person(Plain(), home) for home in homes[::EVERY])))
        for home in range(size.publishers):
            client = self._client()
            await client.connect(self._urls(home), error_cb=_quiet, **OPTIONS)
            self.publishers.append(client)
        wanted = [self._interests(number) for number in range(size.subscribers)]
        for first in range(0, len(homes), AT_ONCE):
            pairs = zip(self.people[first : first + AT_ONCE], wanted[first : first + AT_ONCE], strict=True)
            await asyncio.gather(*(self._subscribed(person, topics, ears) for person, topics in pairs))
        for twin, topics in zip(self.twins, wanted[::EVERY], strict=False):  # there may be no twins
            for topic, window in await twin.subscribe(topics):
                window.after = list(self.published[topic])
            await taken(twin.client)

    def _client(self) -> Any:
        return Client() if self.schedule.layer else WithoutLayer()

    def _urls(self, home: int) -> list[str]:
        """A server first, and those of the cluster to go to when it is killed."""
        urls = self.servers.urls
        return [urls[home % len(urls)], *urls[: self.servers.count]]

    async def _person(self, client: Any, home: int) -> Person:
        await client.connect(servers=self._urls(home), error_cb=_quiet, dont_randomize=True, **OPTIONS)
        return Person(client, home)

    def _interests(self, number: int) -> list[str]:
        """Most topics of two groups, and a few others."""
        groups = max(len(self.topics) // GROUP, 1)
        chosen = {number % groups, self.draw.randrange(groups)}
        found = {
            self.topics[at]
            for group in chosen
            for at in range(group * GROUP, min((group + 1) * GROUP, len(self.topics)))
            if self.draw.random() < 0.85
        }
        return sorted(found | set(self.draw.sample(self.topics, min(3, len(self.topics)))))

    async def _subscribed(self, person: Person, topics: list[str], ears: Ears) -> None:
        made = await person.subscribe(topics)
        await ears.known(person.client)
        for topic, window in made:
            window.after = list(self.published[topic])

    async def _publish(self) -> None:
        """Topics in a drawn order, by publishers in turn."""
        while True:
            topic, at = self.draw.choice(self.topics), self.events % len(self.publishers)
            number = self.published[topic][at]
            self.published[topic][at] += 1
            self.events += 1
            await self.publishers[at].publish(topic, b"%d:%d" % (at, number))
            await asyncio.sleep(1 / self.schedule.pace)

    async def _round(self, number: int, ears: Ears) -> None:
        """Some subscribers shift; meanwhile somebody is killed and comes back."""
        size = self.schedule
        count = max(1, round(size.shifting * size.subscribers))
        chosen = self.draw.sample(range(size.subscribers), count)
        disturbing = asyncio.create_task(self._disturb(number))
        for at in chosen:
            person, now = self.people[at], set(self.people[at].subs)
            then = set(self._interests(self.draw.randrange(size.subscribers)))
            await person.unsubscribe(sorted(now - then), self.published)
            await self._subscribed(person, sorted(then - now), ears)
        await disturbing
        await asyncio.sleep(SETTLE)

    async def _disturb(self, number: int) -> None:
        if self.schedule.kill_coordinator and self.schedule.layer and number % 2 == 0:
            await asyncio.sleep(self.draw.random())
            await asyncio.to_thread(self.coordinator.kill)
            await asyncio.sleep(self.draw.random())
            self.coordinator.start()
            await self.coordinator.up()
        if self.schedule.kill_server and number == self.schedule.rounds - 1:
            victim = self.draw.randrange(1, self.servers.count)
            await asyncio.to_thread(self.servers.kill, victim)
            await asyncio.sleep(0.5 + self.draw.random())
            self.servers.start(victim)
            await asyncio.to_thread(self.servers.wait)

    async def _quiet(self) -> None:
        """Until nothing has come for a while, or all that is due has."""
        last, since = -1, time.monotonic()
        while time.monotonic() - since < self.schedule.quiet:
            count = sum(person.count for person in [*self.people, *self.twins])
            if count != last:
                last, since = count, time.monotonic()
            if not self.schedule.kill_server and not self._missing():
                return
            await asyncio.sleep(0.2)

    def _missing(self) -> int:
        return sum(self._verdict(person, topic, window)[1] for person, topic, window in self._windows(self.people))

    def _windows(self, people: list[Person]) -> list[tuple[Person, str, Window]]:
        return [
            (person, topic, window)
            for person in people
            for topic, windows in person.windows.items()
            for window in windows
            if window.after is not None
        ]

    def _verdict(self, person: Person, topic: str, window: Window) -> tuple[int, int, int, int]:
        """How many were expected, lost, doubled and out of order. Of a subscription that has ended the last ones may
        have been on their way."""
        assert window.after is not None
        expected = lost = doubled = disordered = 0
        for publisher, after in enumerate(window.after):
            got = window.got.get(publisher, [])
            last = self.published[topic][publisher] if window.upto is None else (got[-1] + 1 if got else after)
            due = range(min(after, got[0]) if got else after, last)
            expected += len(due)
            lost += len(set(due) - set(got))
            doubled += len(got) - len(set(got))
            disordered += sum(two < one for one, two in pairwise(got))
        return expected, lost, doubled, disordered

    def _judged(self, seconds: float) -> Outcome:
        expected = lost = doubled = disordered = 0
        wrong: list[str] = []
        for person, topic, window in self._windows(self.people):
            found = self._verdict(person, topic, window)
            expected, lost = expected + found[0], lost + found[1]
            doubled, disordered = doubled + found[2], disordered + found[3]
            if any(found[1:]) and len(wrong) < 5:
                wrong.append(f"server {person.server}, {topic}: {found[1]} lost, {found[2]} doubled, {found[3]} late")
        plain = [self._verdict(*each) for each in self._windows(self.twins)]
        told = [person.client.statistics() for person in self.people] if self.schedule.layer else []
        return Outcome(
            self.events,
            expected,
            lost,
            doubled,
            disordered,
            sum(each.clusters > 0 for each in told),
            sum(each.direct + each.clusters for each in told),
            sum(each.interests for each in told),
            sum(each.repeated for each in told),
            sum(each.discarded for each in told),
            self.coordinator.changes() if self.schedule.layer else {},
            sum(each[0] for each in plain),
            sum(each[1] for each in plain),
            seconds,
            wrong,
        )


async def _quiet(_: Exception) -> None:
    """A server that is killed is part of the schedule."""


def tried(schedule: Schedule) -> Outcome:
    """Runs a schedule on servers of its own."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with Servers(folder / "servers") as servers:
            run = Run(schedule, servers, folder)
            try:
                return asyncio.run(run.run())
            except (OSError, TimeoutError, nats.errors.Error) as error:
                raise BrokerError(f"the schedule could not be run: {type(error).__name__} {error}") from error
            finally:
                run.coordinator.kill()
