"""The paper's two managers: one finds the entity that a message is for and checks that it may have it, the other runs
the machines that messages start.

A machine is a generator. It yields envelopes, and is given the answer to each; it knows neither the network nor a
clock. Here messages arrive at once, and a machine runs to its end before the one that sent it the message goes on; what
a request gave channels reason to reconsider is looked at once the request has been served.
"""

from collections import deque
from collections.abc import Callable
from types import GeneratorType
from typing import Any, Protocol

from overstory.errors import UsageError
from overstory.kernels.tamara_state import KINDS
from overstory.planners.topics.core.channel import Machine, World
from overstory.planners.topics.core.cluster import Cluster
from overstory.planners.topics.core.figures import ClusterFigures
from overstory.planners.topics.core.messages import CLUSTER, ROLES, TOPIC, USER, Open, Update
from overstory.planners.topics.core.topic import Topic
from overstory.planners.topics.core.user import User


class Message(Protocol):
    @property
    def kind(self) -> int | None: ...


class EntitiesManager:
    """Knows all entities by role and number. ``room`` is how many clusters there may be at once."""

    def __init__(self, world: World, room: int) -> None:
        self.world, self.room = world, room
        self.users: dict[int, User] = {}
        self.topics: dict[int, Topic] = {}
        self.clusters: dict[int, Cluster] = {}
        self.of: dict[str, dict[int, Any]] = {USER: self.users, TOPIC: self.topics, CLUSTER: self.clusters}

    def handler(self, role: str, number: int, message: Message) -> Callable[[Any], Any]:
        """What takes the message. One that the role has no business with is refused: a user cannot be merged."""
        kind = type(message)
        if kind not in ROLES[role]:
            raise UsageError(f"{role} {number} was sent a {kind.__name__}, which is not for one")
        entity = self.of[role].get(number)
        if entity is None:
            raise UsageError(f"there is no {role} {number}; create it first")
        found: Callable[[Any], Any] = getattr(entity, HANDLERS[kind])
        return found

    def free_number(self) -> int | None:
        return next((number for number in range(self.room) if number not in self.clusters), None)


HANDLERS = {kind: f"on_{kind.__name__.lower()}" for kinds in ROLES.values() for kind in kinds}


class MachineManager:
    """Runs machines, and counts every message."""

    def __init__(self, entities: EntitiesManager) -> None:
        self.entities = entities
        self.sent = [0] * len(KINDS)

    def deliver(self, role: str, number: int, message: Message) -> Any:
        """Gives a message to its entity. Returns the answer, if there is one."""
        handle = self.entities.handler(role, number, message)
        if message.kind is not None:
            self.sent[message.kind] += 1
        answer = handle(message)
        if type(answer) is GeneratorType:
            return self.run(answer)
        if answer is not None and answer.kind is not None:
            self.sent[answer.kind] += 1
        return answer

    def run(self, machine: Machine) -> Any:
        """Runs a machine to its end, and returns what it ends with."""
        answer: Any = None
        while True:
            try:
                envelope = machine.send(answer)
            except StopIteration as done:
                return done.value
            kind = type(envelope)
            if kind is tuple:
                answer = self.deliver(*envelope)
            elif kind is Open:
                answer = self._open(envelope)
            else:
                del self.entities.clusters[envelope.cluster]
                answer = None

    def _open(self, asked: Open) -> ClusterFigures | None:
        """A channel for a new cluster, whose topics hear of it; None if there is no room."""
        number = self.entities.free_number()
        if number is None:
            return None
        cluster = self.entities.clusters[number] = Cluster(number, self.entities.world)
        for topic in asked.topics:
            cluster.put(topic)
        for topic in asked.topics:
            self.deliver(TOPIC, topic.number, Update(cluster.figures, cluster.figures.topics))
        self.entities.world.updates["paired"] += 1
        return cluster.figures

    def reconsidered(self) -> None:
        """Lets channels reconsider, in the order of their reasons. One that has ended meanwhile has none."""
        waiting: deque[Any] = self.entities.world.reasons
        while waiting:
            given = waiting.popleft()
            channel = self.entities.of[given.role].get(given.number)
            machine = channel.reconsider(given) if channel is not None else None
            if machine is not None:
                self.run(machine)
