"""Tamara over a platform: the state machines decide, and every subscription that they make or end is the platform's.

Topic t is the platform's channel t, and cluster c is channel ``topics + c``. So what a platform really takes, helper
nodes and repairs included, can be set beside what the cost model says.
"""

from collections.abc import Iterable

from overstory.lab.platforms.platform import Platform
from overstory.planners.topics.core.entities import Cluster, Topic, User
from overstory.planners.topics.core.system import System


class Layered(System):
    """A system whose subscriptions are carried out on a platform, and counted there as well."""

    platform: Platform
    carried = 0  # messages of the platform for subscriptions

    def over(self, platform: Platform) -> "Layered":
        self.platform = platform
        for topic in range(len(self.topics)):
            platform.create(topic)
        return self

    def _channel(self, cluster: Cluster) -> int:
        return len(self.topics) + cluster.number

    def subscribe(self, one: User, topic: int) -> None:
        super().subscribe(one, topic)
        self.carried += self.platform.subscribe(one.number, topic)

    def unsubscribe(self, one: User, topic: int) -> None:
        super().unsubscribe(one, topic)
        self.carried += self.platform.unsubscribe(one.number, topic)

    def join(self, one: User, cluster: Cluster) -> None:
        self.platform.create(self._channel(cluster))
        self.carried += self.platform.subscribe(one.number, self._channel(cluster))
        super().join(one, cluster)

    def quit(self, one: User, cluster: Cluster) -> None:
        super().quit(one, cluster)
        self.carried += self.platform.unsubscribe(one.number, self._channel(cluster))

    def delivered(self, topic: int) -> tuple[set[int], int]:
        """Who shows an event of the topic, and the platform's messages for it."""
        one: Topic = self.topics[topic]
        channels: Iterable[int] = [topic, *(len(self.topics) + number for number in sorted(one.clusters))]
        shown, messages = set(), 0
        for channel in channels:
            published = self.platform.publish(channel)
            messages += published.messages
            shown |= {node for node in published.nodes if self.users[node].keeps(topic)}
        return shown, messages
