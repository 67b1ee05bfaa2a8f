"""A seeded schedule over real NATS servers: interests shift, the coordinator is killed and comes back, a server may be
killed, and every event is followed.

What every subscriber must have got of a topic: from each publisher the events that were published since all servers
knew of the subscription, in order, each once, without a gap, until it ended. What was published while the subscription
travelled may be among them. Where a server is killed, plain ``nats-py`` twins with the same interests tell what core
NATS itself loses; so does the same schedule without the layer, where all are plain. And every event that was lost is
looked at by itself: its publisher or its subscriber was at that server, and it was published between the kill (or so
shortly before that it could still be in a buffer) and the moment from which all servers knew that client again. What
was lost otherwise is *beyond*: no outage explains it.
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
from overstory.kernels.nothing import NONE
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
BUFFERED = 1.0  # seconds for which an event may be in the buffers of a server, or of a client
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
    beyond: int  # lost though no outage explains it
    plain_beyond: int
    away: float  # seconds on average from the kill until all servers knew a client again
    plain_away: float
    seconds: float
    wrong: list[str]


class Window:
    """A subscription to a topic from its beginning to its end. ``after`` counts, by publisher, what had been published
    when all servers knew of it."""

    def __init__(self) -> None:
        self.got: dict[int, list[int]] = defaultdict(list)
        self.after: list[int] | None = None
        self.upto: list[int] | None = None


class Peer:
    """A client at a server, ours or plain."""

    def __init__(self, client: Any, server: int, ears: Ears) -> None:
        self.client, self.server, self._ears = client, server, ears
        self.back: float | None = None  # when all servers knew it again, after its own was killed
        self._noting: asyncio.Task[None] | None = None

    async def connect(self, urls: list[str], **options: Any) -> None:
        await self.client.connect(servers=urls, error_cb=_quiet, reconnected_cb=self._came_back, **OPTIONS, **options)

    async def _came_back(self) -> None:
        self._noting = asyncio.create_task(self._note())

    async def _note(self) -> None:
        await self._ears.known(self.client)
        self.back = time.monotonic()

    async def close(self) -> None:
        if self._noting is not None:
            self._noting.cancel()
        await self.client.close()


class Person(Peer):
    """A subscriber that follows what it gets."""

    def __init__(self, client: Any, server: int, ears: Ears) -> None:
        super().__init__(client, server, ears)
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
        self.publishers: list[Peer] = []
        self.published: dict[str, list[int]] = {topic: [0] * schedule.publishers for topic in self.topics}
        self.times: dict[tuple[str, int], list[float]] = defaultdict(list)  # of events, by topic and publisher
        self.victim, self.killed = NONE, 0.0  # the server that was killed, and when
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
            await asyncio.gather(*(one.close() for one in [*self.people, *self.twins, *self.publishers]))
            self.coordinator.kill()
        return found

    async def _come(self, ears: Ears) -> None:
        size = self.schedule
        homes = [number % len(self.servers.urls) for number in range(size.subscribers)]
        for first in range(0, len(homes), AT_ONCE):
            some = homes[first : first + AT_ONCE]
            self.people += await asyncio.gather(*(self._person(self._client(), home, ears) for home in some))
        if size.kill_server and size.layer:
            twins = [self._person(WithoutLayer(), home, ears) for home in homes[::EVERY]]
            self.twins = list(await asyncio.gather(*twins))
        for home in range(size.publishers):
            publisher = Peer(self._client(), home % len(self.servers.urls), ears)
            await publisher.connect(self._urls(home))
            self.publishers.append(publisher)
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

    async def _person(self, client: Any, home: int, ears: Ears) -> Person:
        person = Person(client, home, ears)
        await person.connect(self._urls(home), dont_randomize=True)
        return person

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
            self.times[topic, at].append(time.monotonic())
            self.events += 1
            await self.publishers[at].client.publish(topic, b"%d:%d" % (at, number))
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
            self.victim, self.killed = victim, time.monotonic()
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

    def _verdict(self, person: Person, topic: str, window: Window) -> tuple[int, int, int, int, int]:
        """How many were expected, lost, doubled, out of order, and lost beyond all outages. Of a subscription that has
        ended the last ones may have been on their way."""
        assert window.after is not None
        expected = lost = doubled = disordered = beyond = 0
        for publisher, after in enumerate(window.after):
            got = window.got.get(publisher, [])
            last = self.published[topic][publisher] if window.upto is None else (got[-1] + 1 if got else after)
            due = range(min(after, got[0]) if got else after, last)
            expected += len(due)
            missing = set(due) - set(got)
            lost += len(missing)
            doubled += len(got) - len(set(got))
            disordered += sum(two < one for one, two in pairwise(got))
            times, ends = self.times[topic, publisher], (person, self.publishers[publisher])
            beyond += sum(not any(self._is_out(peer, times[number]) for peer in ends) for number in missing)
        return expected, lost, doubled, disordered, beyond

    def _is_out(self, peer: Peer, published: float) -> bool:
        """Whether an event from or to a client may be lost, since the server of this client was killed."""
        ended = float("inf") if peer.back is None else peer.back
        return peer.server == self.victim and self.killed - BUFFERED <= published <= ended

    def _away(self, people: list[Person]) -> float:
        """How long clients of the server that was killed were away, on average."""
        back = [person.back for person in people if person.server == self.victim and person.back is not None]
        return sum(back) / len(back) - self.killed if back else 0.0

    def _judged(self, seconds: float) -> Outcome:
        expected = lost = doubled = disordered = beyond = 0
        wrong: list[str] = []
        for person, topic, window in self._windows(self.people):
            found = self._verdict(person, topic, window)
            expected, lost = expected + found[0], lost + found[1]
            doubled, disordered, beyond = doubled + found[2], disordered + found[3], beyond + found[4]
            if any(found[1:]) and len(wrong) < 5:
                names = "lost", "doubled", "late", "beyond"
                told = ", ".join(f"{count} {name}" for count, name in zip(found[1:], names, strict=True))
                wrong.append(f"server {person.server}, {topic}: {told}")
        plain = [self._verdict(*each) for each in self._windows(self.twins)]
        held = [person.client.statistics() for person in self.people] if self.schedule.layer else []
        return Outcome(
            self.events,
            expected,
            lost,
            doubled,
            disordered,
            sum(each.clusters > 0 for each in held),
            sum(each.direct + each.clusters for each in held),
            sum(each.interests for each in held),
            sum(each.repeated for each in held),
            sum(each.discarded for each in held),
            self.coordinator.changes() if self.schedule.layer else {},
            sum(each[0] for each in plain),
            sum(each[1] for each in plain),
            beyond,
            sum(each[4] for each in plain),
            self._away(self.people),
            self._away(self.twins),
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
