"""The entities: what a user, a topic's channel and a cluster's channel know, and how each changes by a message.

Each is a small state machine. It knows nothing but what messages told it; the decisions over several of them are in
``machines``, one for each request, as in the paper's design (its entities, and the managers of their state machines).
"""

from overstory.errors import UsageError
from overstory.planners.topics.core.messages import CLUSTER, ROLES, TOPIC, USER, Address, Ask, Join, Leave, Message


class Members:
    """Subscribers in a list where the last takes the place of one that leaves, as in the kernel."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.place: dict[int, int] = {}

    def add(self, user: int) -> None:
        self.place[user] = len(self.rows)
        self.rows.append(user)

    def remove(self, user: int) -> None:
        at, last = self.place.pop(user), self.rows.pop()
        if last != user:
            self.rows[at] = last
            self.place[last] = at

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, user: int) -> bool:
        return user in self.place


class Channel:
    """Of a topic or a cluster: its subscribers, and whether an update of it is under way."""

    role = ""

    def __init__(self, number: int) -> None:
        self.number, self.members = number, Members()
        self.locked_by: Address | None = None

    @property
    def address(self) -> Address:
        return Address(self.role, self.number)

    def receive(self, message: Message) -> None:
        """Takes a message that the role may get; anything else is refused, and changes nothing."""
        check(self.role, self.number, message)
        if isinstance(message, Join):
            self.members.add(message.user)
        elif isinstance(message, Leave):
            self.members.remove(message.user)

    def lock(self, asking: Address) -> bool:
        """Whether the lock is granted: one at a time, so that no two updates change the same channel together."""
        if self.locked_by not in (None, asking):
            return False
        self.locked_by = asking
        return True

    def unlock(self, asking: Address) -> None:
        if self.locked_by == asking:
            self.locked_by = None


class Topic(Channel):
    """Its rate, and the clusters that hold it."""

    role = TOPIC

    def __init__(self, number: int, rate: float) -> None:
        super().__init__(number)
        self.rate = rate
        self.clusters: set[int] = set()


class Cluster(Channel):
    """Its topics, and the sum of their rates, kept as they come and go."""

    role = CLUSTER

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.topics: set[int] = set()
        self.load = 0.0


class User:
    """What it wants, what it is directly subscribed to, and its clusters with their topics, by which it filters."""

    role = USER

    def __init__(self, number: int) -> None:
        self.number = number
        self.wants: set[int] = set()
        self.direct: set[int] = set()
        self.clusters: dict[int, set[int]] = {}

    def receive(self, message: Message) -> None:
        check(self.role, self.number, message)

    def has(self, topic: int, without: int | None = None) -> bool:
        """Whether the topic's events reach the user, also without one of its clusters."""
        return topic in self.direct or any(
            topic in topics for number, topics in self.clusters.items() if number != without
        )

    def keeps(self, topic: int) -> bool:
        """The local filter: whether the user shows an event of the topic, or throws it away."""
        return topic in self.wants

    def answer(self, asked: Ask) -> bool:
        return asked.topic is not None and asked.topic in self.wants


def check(role: str, number: int, message: Message) -> None:
    """Refuses what an entity of this role has no business with: a user cannot be merged."""
    if not isinstance(message, ROLES[role]):
        raise UsageError(f"{role} {number} was sent a {type(message).__name__}, which is not for one")
