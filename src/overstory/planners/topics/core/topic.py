"""A topic's channel: its direct subscribers, its rate, and the clusters that hold it.

It looks for a partner, a cluster to enter or a topic to pair with, when it grows and when its rate falls.
"""

from overstory.kernels.tamara_state import CHEAPER, GROWTH, TOPIC_GREW
from overstory.planners.topics.core import formulas
from overstory.planners.topics.core.channel import Channel, Machine, Reason, World, most
from overstory.planners.topics.core.figures import ClusterFigures, TopicFigures
from overstory.planners.topics.core.messages import (
    CLUSTER,
    TOPIC,
    USER,
    About,
    Address,
    Answer,
    Ask,
    Counted,
    Enter,
    Event,
    Grant,
    Invite,
    Join,
    Leave,
    Lock,
    Look,
    Moved,
    Open,
    Publish,
    Rated,
    Update,
)


class Topic(Channel):
    role = TOPIC

    def __init__(self, number: int, rate: float, world: World) -> None:
        super().__init__(number, world)
        self.figures = TopicFigures(number, rate)
        self.clusters: dict[int, ClusterFigures] = {}

    def _holders(self) -> list[int]:
        return sorted(self.clusters)

    def on_publish(self, message: Publish) -> Machine:
        """To the direct subscribers, and to the clusters."""
        for user in self.members.rows:
            yield USER, user, Event(self.number)
        for number in self._holders():
            yield CLUSTER, number, message

    def on_look(self, _: Look) -> About:
        return About(self.figures, tuple(self.clusters.values()))

    def on_join(self, message: Join) -> TopicFigures:
        self.members.add(message.user)
        self.figures.size += 1
        if message.own:
            self.remember(TOPIC_GREW, self.number)
        return self.figures

    def on_leave(self, message: Leave) -> None:
        self.members.remove(message.user)
        self.figures.size -= 1

    def on_update(self, message: Update) -> None:
        if self.number in message.topics:
            self.clusters[message.figures.number] = message.figures
        else:
            self.clusters.pop(message.figures.number, None)

    def on_moved(self, message: Moved) -> None:
        del self.clusters[message.cluster]
        self.clusters[message.into.number] = message.into

    def on_lock(self, message: Lock) -> Grant:
        return Grant(self.lock(message.asking), self.figures)

    def on_counted(self, message: Counted) -> Machine:
        """The clusters are told of a new rate; one that falls is a reason to look for a partner."""
        before, self.figures.rate = self.figures.rate, message.rate
        if message.rate < before:
            self.remember(CHEAPER, self.number)
        for number in self._holders():
            yield CLUSTER, number, Rated(self.number, before)

    def reconsider(self, given: Reason) -> Machine | None:
        fans = len(self.members)
        if fans and (given.reason == CHEAPER or self.world.tossed(max(GROWTH * fans, 3.0))):
            return self.consider_pairing()
        return None

    def consider_pairing(self) -> Machine:
        """Enters the cluster, or pairs with the topic, that most of its direct subscribers have, if that pays. Ends
        with whether it did."""
        found: list[Answer] = yield from self.survey(Ask())
        scale = len(self.members) / max(len(found), 1)
        joint = most(number for answer in found for number in answer.clusters)
        if joint is not None and joint[0] not in self.clusters and (yield from self._enter(joint[0], joint[1] * scale)):
            return True
        shared = most(topic for answer in found for topic in answer.direct if topic != self.number)
        if shared is None:
            return False
        return (yield from self._pair(shared[0], shared[1] * scale))

    def _enter(self, number: int, common: float) -> Machine:
        other = Address(CLUSTER, number)
        granted = yield from self.locking(other, Lock(self.address))
        if granted is None:
            return False
        cluster, own = granted.figures, self.figures
        sizes = cluster.size, len(cluster.topics), own.rate, own.size
        pays = formulas.adding(self.world.costs, *sizes, min(common, float(cluster.size))) < 0
        if pays:
            yield CLUSTER, number, Enter(own)
        yield from self.unlocking([other])
        return pays

    def _pair(self, number: int, common: float) -> Machine:
        """A cluster of both topics, for those who are directly subscribed to both."""
        other = Address(TOPIC, number)
        granted = yield from self.locking(other, Lock(self.address))
        if granted is None:
            return False
        one, two = self.figures, granted.figures
        common = min(common, float(two.size))
        pays = formulas.pairing(self.world.costs, one.rate, one.size, two.rate, two.size, common) < 0
        made: ClusterFigures | None = (yield Open((one, two))) if pays else None
        if made is not None:
            for user in reversed(list(self.members.rows)):
                yield USER, user, Invite(made, made.topics)
        yield from self.unlocking([other])
        return made is not None
