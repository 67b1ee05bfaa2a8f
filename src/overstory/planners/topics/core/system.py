"""Tamara's core as a whole: the requests that a platform's API has, CREATE, PUBLISH, SUBSCRIBE and UNSUBSCRIBE.

Every message between two entities goes through the managers, which check and count it. Requests run to their end one
after the other. The kernel makes the same decisions in the same order; see its law.
"""

from collections import deque
from collections.abc import Sequence

from overstory.errors import UsageError
from overstory.kernels.tamara_state import UPDATES
from overstory.planners.topics.core.channel import World
from overstory.planners.topics.core.cluster import Cluster
from overstory.planners.topics.core.formulas import Draws, Tables
from overstory.planners.topics.core.managers import EntitiesManager, MachineManager
from overstory.planners.topics.core.messages import TOPIC, USER, Counted, Declare, Publish
from overstory.planners.topics.core.topic import Topic
from overstory.planners.topics.core.user import User
from overstory.planners.topics.replaying import Rules


class System(MachineManager):
    """Users, topics and clusters that talk to each other at once. ``room`` is how many clusters there may be."""

    def __init__(self, users: int, rates: Sequence[float], costs: Tables, rules: Rules, room: int) -> None:
        self.world = World(costs, rules, Draws(rules.seed), deque(), dict.fromkeys(UPDATES, 0))
        super().__init__(EntitiesManager(self.world, room))
        for number in range(users):
            self.entities.users[number] = User(number, self.world)
        for rate in rates:
            self.create_topic(rate)

    @property
    def users(self) -> list[User]:
        return list(self.entities.users.values())

    @property
    def topics(self) -> list[Topic]:
        return list(self.entities.topics.values())

    @property
    def clusters(self) -> dict[int, Cluster]:
        return self.entities.clusters

    def create_topic(self, rate: float = 0.0) -> int:
        """CREATE: a channel without subscribers. Returns its number."""
        number = len(self.entities.topics)
        self.entities.topics[number] = Topic(number, rate, self.world)
        return number

    def publish(self, topic: int) -> dict[int, tuple[int, int]]:
        """PUBLISH: by user how many copies it gets, and how many of them it shows: one at most. Of a topic that nobody
        wants nothing is lost, as nobody is there to lose it; one that was never created is refused."""
        self.deliver(TOPIC, topic, Publish(topic))
        found = {}
        for user in self.entities.users.values():
            if user.got:
                found[user.number] = len(user.got), sum(shown for _, shown in user.got)
                user.got.clear()
        return found

    def gain_interest(self, user: int, topic: int) -> None:
        """A user subscribes to a topic (SUBSCRIBE in the paper)."""
        self._check(topic)
        self.deliver(USER, user, Declare(topic, True))
        self.reconsidered()

    def lose_interest(self, user: int, topic: int) -> None:
        """A user gives up a topic (UNSUBSCRIBE in the paper)."""
        self._check(topic)
        self.deliver(USER, user, Declare(topic, False))
        self.reconsidered()

    def change_rate(self, topic: int, rate: float) -> None:
        """What a topic's channel finds out by counting its events."""
        self.deliver(TOPIC, topic, Counted(rate))
        self.reconsidered()

    def _check(self, topic: int) -> None:
        if topic not in self.entities.topics:
            raise UsageError(f"there is no topic {topic}; create it first")

    def overall(self) -> tuple[float, float]:
        """What maintenance and dissemination cost in all (MC and DC in the paper)."""
        costs = self.world.costs
        topics = [(topic.figures.rate, len(topic.members)) for topic in self.entities.topics.values()]
        maintenance = sum(costs.maintain[fans] for _, fans in topics)
        dissemination = sum(rate * (costs.notify + costs.deliver[fans]) for rate, fans in topics)
        for cluster in self.clusters.values():
            size = len(cluster.members)
            maintenance += costs.maintain[size] + costs.associate[len(cluster.topics)]
            load = sum(topic.rate for topic in cluster.topics.values())
            dissemination += load * (costs.notify + costs.deliver[size])
        return maintenance, dissemination
