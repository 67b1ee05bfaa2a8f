"""Tamara's state machines, deciding for clients and topics that have names, and come and go."""

from collections.abc import Iterable, Mapping
from typing import Any

from overstory.kernels.tamara_state import UPDATES
from overstory.planners.topics.core.cluster import Cluster
from overstory.planners.topics.core.formulas import Tables
from overstory.planners.topics.core.managers import Message
from overstory.planners.topics.core.messages import CLUSTER, TOPIC, USER, Absorb, Join, Leave, Moved, Update
from overstory.planners.topics.core.system import System
from overstory.planners.topics.core.user import User
from overstory.planners.topics.replaying import Rules
from overstory.topics.prices import Prices

MOST_CLIENTS, MOST_TOPICS = 50_000, 20_000  # that tables of costs are made for; others are served as they are


def tables_of(prices: Prices) -> Tables:
    clients, topics = range(MOST_CLIENTS + 3), range(MOST_TOPICS + 3)
    return Tables(
        [prices.subscription * count for count in clients],
        [prices.event * count for count in clients],
        [prices.association * count for count in topics],
        prices.event,
    )


class Deciding(System):
    """Which clusters there are to be, and who is to hold which. ``changed`` are clients and topics since it was last
    cleared; ``merged`` tells by cluster into which one it went."""

    def __init__(self, prices: Prices, seed: int = 0) -> None:
        super().__init__(0, [], tables_of(prices), Rules(seed=seed), 3 * MOST_TOPICS)
        self.prices = prices
        self.client_number: dict[str, int] = {}
        self.topic_number: dict[str, int] = {}
        self.clients: list[str] = []
        self.topic_names: list[str] = []
        self.changed_clients: set[str] = set()
        self.changed_topics: set[str] = set()
        self.ids: dict[Cluster, int] = {}  # of clusters, never used twice
        self.next_id = 1
        self._free: list[int] = []  # numbers of clients that are gone
        self.merged: dict[int, int] = {}

    def deliver(self, role: str, number: int, message: Message) -> Any:
        """As the system does; notes who is concerned."""
        if role == USER:
            self.changed_clients.add(self.clients[number])
        elif isinstance(message, Join | Leave):
            self.changed_clients.add(self.clients[message.user])
        elif role == TOPIC and isinstance(message, Update | Moved):
            self.changed_topics.add(self.topic_names[number])
        elif role == CLUSTER and isinstance(message, Absorb):
            self.merged[self.id_of(self.clusters[number])] = self.id_of(self.clusters[message.into.number])
        return super().deliver(role, number, message)

    def user(self, client: str) -> User | None:
        """A client's entity, which is made if need be; None where there is no room."""
        if client not in self.client_number:
            if len(self.client_number) >= MOST_CLIENTS:
                return None
            number = self._free.pop() if self._free else len(self.clients)
            if number == len(self.clients):
                self.clients.append("")
            self.clients[number] = client
            self.client_number[client] = number
            self.entities.users[number] = User(number, self.world)
        return self.entities.users[self.client_number[client]]

    def leave(self, client: str) -> None:
        """A client without interests is gone, and its number is free."""
        number = self.client_number.pop(client, None)
        if number is not None:
            self._free.append(number)

    def topic(self, name: str) -> int | None:
        """A topic's number; None where there is no room."""
        if name not in self.topic_number:
            if len(self.topic_names) >= MOST_TOPICS:
                return None
            self.topic_number[name] = self.create_topic()
            self.topic_names.append(name)
        return self.topic_number[name]

    def declare(self, client: str, topic: str, wanted: bool) -> None:
        """A client is interested in a topic now, or no longer. What is said twice is done once."""
        user, number = self.user(client), self.topic(topic)
        if user is None or number is None or (number in user.wants) == wanted:
            return
        if wanted:
            self.gain_interest(user.number, number)
        else:
            self.lose_interest(user.number, number)

    def rate(self, topic: str, a_second: float) -> None:
        """A topic's events, if they differ by a tenth from what was known."""
        number = self.topic(topic)
        if number is None:
            return
        known, now = self.entities.topics[number].figures.rate, a_second * self.prices.interval
        if abs(now - known) > 0.1 * max(known, now, 1e-9):
            self.change_rate(number, now)

    def id_of(self, cluster: Cluster) -> int:
        if cluster not in self.ids:
            self.ids[cluster] = self.next_id
            self.next_id += 1
        return self.ids[cluster]

    def wanted_by(self, client: str) -> set[str]:
        user = self.user(client)
        return set() if user is None else {self.topic_names[topic] for topic in user.wants}

    def held_by(self, client: str) -> list[int]:
        """The clusters that a client is to hold, by their ids."""
        user = self.user(client)
        return [] if user is None else [self.id_of(self.clusters[number]) for number in sorted(user.clusters)]

    def around(self, topic: str) -> set[int]:
        """The clusters that are to hold a topic."""
        number = self.topic_number.get(topic)
        if number is None:
            return set()
        return {self.id_of(self.clusters[each]) for each in self.entities.topics[number].clusters}

    def alive(self) -> dict[int, frozenset[str]]:
        """The clusters that there are to be, with their topics."""
        for gone in self.ids.keys() - set(self.clusters.values()):
            del self.ids[gone]
        return {
            self.id_of(cluster): frozenset(self.topic_names[topic] for topic in cluster.topics)
            for cluster in self.clusters.values()
        }

    def restore(
        self,
        wants: Mapping[str, Iterable[str]],
        clusters: Mapping[int, Iterable[str]],
        held: Mapping[str, Iterable[int]],
    ) -> None:
        """Puts everyone where they were when the coordinator was last there, without a message."""
        for id_, topics in clusters.items():
            self._open_again(id_, [number for name in topics if (number := self.topic(name)) is not None])
        by_id = {id_: cluster for cluster, id_ in self.ids.items()}
        for client, topics in wants.items():
            user = self.user(client)
            if user is None:
                continue
            user.wants = {number for name in topics if (number := self.topic(name)) is not None}
            for cluster in (by_id[id_] for id_ in held.get(client, ()) if id_ in by_id):
                user.clusters[cluster.number] = cluster.figures.topics
                user.figures[cluster.number] = cluster.figures
                cluster.members.add(user.number)
                cluster.figures.size += 1
            for number in sorted(user.wants):
                if not user.has(number):
                    topic = self.entities.topics[number]
                    topic.members.add(user.number)
                    topic.figures.size += 1
                    user.direct[number] = topic.figures

    def _open_again(self, id_: int, topics: list[int]) -> None:
        number = self.entities.free_number()
        if number is None or len(topics) < 2:
            return
        cluster = self.entities.clusters[number] = Cluster(number, self.world)
        self.ids[cluster] = id_
        self.next_id = max(self.next_id, id_ + 1)
        for topic in topics:
            cluster.put(self.entities.topics[topic].figures)
            self.entities.topics[topic].clusters[number] = cluster.figures

    def updates(self) -> dict[str, int]:
        return {kind: self.world.updates[kind] for kind in UPDATES}
