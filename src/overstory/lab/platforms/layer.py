"""Tamara over a platform: the state machines decide, and every subscription that they make or end is the platform's.

Topic t is the platform's channel t, and cluster c is channel ``topics + c``. So what a platform really takes, helper
nodes and repairs included, can be set beside what the cost model says.
"""

from collections.abc import Iterable
from typing import Any

from overstory.lab.platforms.platform import Platform
from overstory.planners.topics.core.managers import Message
from overstory.planners.topics.core.messages import CLUSTER, Join, Leave
from overstory.planners.topics.core.system import System


class Layered(System):
    """A system whose subscriptions are carried out on a platform, and counted there as well."""

    platform: Platform
    carried = 0  # messages of the platform for subscriptions

    def over(self, platform: Platform) -> "Layered":
        self.platform = platform
        for topic in self.entities.topics:
            platform.create(topic)
        return self

    def channel(self, role: str, number: int) -> int:
        """The platform's channel of a topic or a cluster."""
        return len(self.entities.topics) + number if role == CLUSTER else number

    def deliver(self, role: str, number: int, message: Message) -> Any:
        """As ``System`` does; a subscription is the platform's as well."""
        if isinstance(message, Join):
            self.platform.create(self.channel(role, number))
            self.carried += self.platform.subscribe(message.user, self.channel(role, number))
        elif isinstance(message, Leave):
            self.carried += self.platform.unsubscribe(message.user, self.channel(role, number))
        return super().deliver(role, number, message)

    def delivered(self, topic: int) -> tuple[set[int], int]:
        """Who shows an event of the topic, and the platform's messages for it."""
        one = self.entities.topics[topic]
        channels: Iterable[int] = [topic, *(self.channel(CLUSTER, number) for number in sorted(one.clusters))]
        shown, messages = set(), 0
        for channel in channels:
            published = self.platform.publish(channel)
            messages += published.messages
            shown |= {node for node in published.nodes if topic in self.entities.users[node].wants}
        return shown, messages
