"""The coordinator's mind and the clients' together, without a network: messages wait in queues and are handled in any
order that keeps each queue's. At every moment each client gets every topic that it wants from every publisher, also
from those that do not use the layer."""

import random
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.topics.coordination import Coordination
from overstory.topics.deciding import Deciding
from overstory.topics.holding import Holding, Step
from overstory.topics.journal import Journal
from overstory.topics.prices import Prices
from overstory.topics.protocol import (
    LATE,
    RELAY,
    Again,
    Bye,
    Counted,
    Declare,
    Done,
    Publishes,
    Report,
    Routed,
    Routes,
    Take,
    cluster_subject,
)
from overstory.topics.publishing import Publishing

PRICES = Prices(subscription=30.0, association=1.0, interval=1.0)
WITNESSES = ["one", "two"]
TOPICS = [f"t{number}" for number in range(8)]


class World:
    """Clients, publishers and the coordinator, with a queue each way."""

    def __init__(self, seed: int, journal: Path) -> None:
        self.draw, self.path, self.now = random.Random(seed), journal, 0.0
        self.clients = {f"c{number}": Holding() for number in range(6)}
        self.publishers = {f"p{number}": Publishing(f"p{number}") for number in range(3)}
        self.up: deque[Any] = deque()
        self.down: dict[str, deque[Any]] = {name: deque() for name in [*self.clients, *self.publishers]}
        self.asked: list[tuple[str, int, str]] = []  # witnesses that have yet to answer
        self.guard: set[str] = set()  # topics that the guard hears at every server
        self.start()

    def start(self) -> None:
        self.journal = Journal(self.path)
        self.coordination = Coordination(Deciding(PRICES, self.draw.randrange(1000)), self.journal.begin())
        self.coordination.watched_by(WITNESSES)
        self.journal.restore(self.coordination)
        self.guard = set(self.coordination.to_guard)
        for name in self.down:
            self.down[name].append(Again())  # a client reports until it is heard; here: when someone is there

    def crash(self) -> None:
        """The coordinator is killed; what it had not written is gone, and so is what was sent to it."""
        self.journal.close()
        self.up.clear()
        self.start()

    def tick(self) -> None:
        self.now += 1.0
        out = self.coordination.settle(self.now)
        self.journal.write(self.coordination)
        for client, message in out:
            self.down[client].append(message)

    def change(self) -> None:
        name = self.draw.choice(list(self.clients))
        held, topic = self.clients[name], self.draw.choice(TOPICS)
        wanted = topic not in held.wants
        self.do(name, held.gain(topic) if wanted else held.lose(topic))
        self.up.append(Declare(name, topic, wanted))

    def publish(self) -> None:
        name, topic = self.draw.choice(list(self.publishers)), self.draw.choice(TOPICS)
        if self.publishers[name].send(topic).is_new:
            self.up.append(Publishes(name, topic))
        if self.draw.random() < 0.3:
            self.up.append(Counted(name, {topic: self.draw.choice([1, 1, 200])}, 1.0))

    def do(self, name: str, step: Step) -> None:
        if step.ask is not None:
            relay = [RELAY] if step.relay else []
            self.asked += [(name, step.ask, witness) for witness in [*WITNESSES, *relay]]
        if step.done is not None:
            self.up.append(Done(name, step.done))

    def hear(self) -> None:
        if self.up:
            self.coordination.hear(self.up.popleft(), self.now)

    def obey(self) -> None:
        name = self.draw.choice(list(self.down))
        if not self.down[name]:
            return
        message = self.down[name].popleft()
        if isinstance(message, Take) and name in self.clients:
            self.do(name, self.clients[name].take(message))
        elif isinstance(message, Routes):
            self.publishers[name].route(message)
            self.up.append(Routed(name, message.version))
        elif isinstance(message, Again):
            held = self.clients.get(name) or Holding()
            topics = list(self.publishers[name].routes) if name in self.publishers else []
            self.up.append(Report(name, sorted(held.wants), topics, held.version))

    def answer(self) -> None:
        if self.asked:
            name, version, witness = self.asked.pop(self.draw.randrange(len(self.asked)))
            self.do(name, self.clients[name].seen(version, witness))

    def listen(self) -> None:
        """The guard comes to hear a topic everywhere; those that are in no cluster any more it gives up."""
        self.guard &= self.coordination.to_guard
        for topic in self.draw.sample(sorted(self.coordination.to_guard - self.guard), 1) if self.unguarded else ():
            self.guard.add(topic)
        self.coordination.guarded(self.coordination.unguarded & self.guard)

    @property
    def unguarded(self) -> bool:
        return bool(self.coordination.to_guard - self.guard)

    def publish_without(self) -> None:
        """Somebody publishes without the layer, and the guard may hear of it."""
        topic = self.draw.choice(TOPICS[:3])
        if topic in self.guard and self.draw.random() < 0.1:
            self.coordination.make_plain(topic, "somebody publishes it", self.now)

    def check(self) -> None:
        places = self.coordination
        for name, held in self.clients.items():
            subjects = {cluster_subject(cluster) for cluster in held.clusters} | ({LATE} if held.clusters else set())
            for topic in held.wants - held.direct:
                for publisher in self.publishers.values():
                    others = publisher.routes.get(topic, ())
                    ways = (LATE,) if others is None else others
                    assert topic not in publisher.routes or subjects.intersection(ways), (name, topic)
                assert topic in self.guard, (name, topic)
                assert held.clusters.keys() & set(places.clusters_of(topic)), (name, topic)

    def settled(self) -> None:
        """Everything that waits is handled."""
        for _ in range(400):
            self.tick()
            while self.up:
                self.hear()
                self.check()
            for _ in range(60):
                self.obey()
                self.answer()
                self.listen()
                self.check()
            if not self.up and not any(self.down.values()) and not self.asked and not self.unguarded:
                return
        raise AssertionError("it does not come to rest")


@given(seed=st.integers(0, 10**6), crashes=st.booleans())
def test_nobody_ever_lacks_a_topic(seed: int, crashes: bool, tmp_path_factory: pytest.TempPathFactory) -> None:
    world = World(seed, tmp_path_factory.mktemp("journal") / "journal.db")
    steps = [world.change, world.publish, world.hear, world.hear, world.obey, world.obey, world.answer, world.tick]
    steps += [world.listen, world.publish_without]
    for _ in range(250):
        world.draw.choice(steps)()
        if crashes and world.draw.random() < 0.01:
            world.crash()
        world.check()
    world.settled()
    for held in world.clients.values():
        brought = {topic for topics in held.clusters.values() for topic in topics}
        assert held.wants <= brought | held.direct
        assert not held.direct & brought  # nothing comes twice for good
        assert not brought & world.coordination.plain.keys()
    assert not world.coordination.to_guard & world.coordination.plain.keys()
    for publisher in world.publishers.values():
        assert not publisher.unknown()
    world.journal.close()


def test_a_client_that_leaves_is_forgotten(tmp_path: Path) -> None:
    world = World(1, tmp_path / "journal.db")
    for _ in range(40):
        world.change()
    world.settled()
    for name in world.clients:
        world.coordination.hear(Bye(name), 0.0)
    world.tick()
    assert not set(world.clients) & world.coordination.clients.keys()
    assert not world.coordination.deciding.clusters
    again = Coordination(Deciding(PRICES), 2)
    Journal(tmp_path / "journal.db").restore(again)
    assert not set(world.clients) & again.clients.keys()
