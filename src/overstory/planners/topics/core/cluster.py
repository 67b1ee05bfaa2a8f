"""A cluster's channel: its topics with their figures, and its subscribers.

It takes topics in and lets them go, merges with another cluster when it grows, and may end when it shrinks.
"""

from collections.abc import Iterable

from overstory.kernels.tamara_state import DEARER, GREW, GROWTH, LITERAL, SHRANK, UNWANTED, WANTED
from overstory.planners.topics.core import formulas
from overstory.planners.topics.core.channel import Channel, Machine, Reason, World, most
from overstory.planners.topics.core.figures import ClusterFigures, TopicFigures
from overstory.planners.topics.core.formulas import Side
from overstory.planners.topics.core.messages import (
    CLUSTER,
    TOPIC,
    USER,
    Absorb,
    Address,
    Answer,
    Ask,
    Close,
    Enter,
    Event,
    Grant,
    Join,
    Leave,
    Lock,
    Moved,
    Notice,
    Publish,
    Rated,
    Update,
)


class Cluster(Channel):
    role = CLUSTER

    def __init__(self, number: int, world: World) -> None:
        super().__init__(number, world)
        self.figures = ClusterFigures(number)
        self.topics: dict[int, TopicFigures] = {}
        self.patience: dict[int, int] = {}  # by topic: how many more (un)subscriptions the last survey said it takes

    def put(self, topic: TopicFigures) -> None:
        self.topics[topic.number] = topic
        self.patience.pop(topic.number, None)
        self.figures.load += topic.rate
        self.figures.topics = frozenset(self.topics)

    def take(self, topic: int) -> None:
        self.figures.load -= self.topics.pop(topic).rate
        self.patience.pop(topic, None)
        self.figures.topics = frozenset(self.topics)

    def side(self) -> Side:
        return Side(len(self.members), len(self.topics), self.figures.load)

    def on_publish(self, message: Publish) -> Machine:
        for user in self.members.rows:
            yield USER, user, Event(message.topic)

    def on_join(self, message: Join) -> ClusterFigures:
        self.members.add(message.user)
        self.figures.size += 1
        if message.own:
            self.remember(GREW, -1)
        return self.figures

    def on_leave(self, message: Leave) -> Machine | None:
        """The last one to leave by its own decision ends the cluster."""
        self.members.remove(message.user)
        self.figures.size -= 1
        if not message.own:
            return None
        if not len(self.members):
            return self.end()
        self.remember(SHRANK, -1)
        return None

    def on_notice(self, message: Notice) -> None:
        self.remember(WANTED if message.figures else UNWANTED, message.topic, message.figures)

    def on_rated(self, message: Rated) -> None:
        rate = self.topics[message.topic].rate
        self.figures.load += rate - message.before
        if rate > message.before:
            self.remember(DEARER, message.topic)

    def on_lock(self, message: Lock) -> Grant:
        """A cluster that proposes to merge gets the lock only if that pays."""
        topics = tuple(self.topics[topic] for topic in sorted(self.topics))
        if message.proposed is None:
            return Grant(self.lock(message.asking), self.figures, topics)
        return Grant(self._merging(*message.proposed) < 0 and self.lock(message.asking), self.figures, topics)

    def _merging(self, asking: ClusterFigures, common: float) -> float:
        width, load = len(asking.topics), asking.load
        for topic in sorted(self.topics.keys() - asking.topics):
            width += 1
            load += self.topics[topic].rate
        other = Side(asking.size, len(asking.topics), asking.load)
        return formulas.merging(
            self.world.costs, other, self.side(), width, load, min(common, float(len(self.members)))
        )

    def on_enter(self, message: Enter) -> Machine:
        return self.add(message.figures)

    def on_absorb(self, message: Absorb) -> Machine:
        """Topics and subscribers hear that they are the other cluster's now, and this one ends."""
        into = message.into
        for topic in sorted(self.topics):
            yield TOPIC, topic, Moved(self.number, into, into.topics)
        while len(self.members):
            yield USER, self.members.rows[-1], Moved(self.number, into, into.topics)
        yield Close(self.number)

    def reconsider(self, given: Reason) -> Machine | None:
        """What it does for a reason that a request gave it. It tosses a coin first, except where a rate changed."""
        reason, topic, figures = given.reason, given.topic, given.figures
        if reason in (GREW, SHRANK):
            if not self.world.tossed(max(GROWTH * len(self.members), 3.0)):
                return None
            return self.consider_merging() if reason == GREW else self.consider_shrinking()
        if figures is not None:
            if topic not in self.topics and self._tossed_for(figures):
                return self.consider_adding(figures)
        elif topic in self.topics and (reason == DEARER or self._tossed_for(self.topics[topic])):
            return self.consider_removing(topic)
        return None

    def _tossed_for(self, topic: TopicFigures) -> bool:
        """Whether the coin for the topic wins: by the threshold alone as in the paper, or, where users cover themselves
        anew, by what the last survey was short of it."""
        short = self.patience.get(topic.number)
        literally = self.world.rules.mode == LITERAL or short is None
        return self.world.tossed(self._threshold(topic) if literally else float(short or 0))

    def _threshold(self, topic: TopicFigures) -> float:
        return formulas.add_threshold(self.world.costs, self.side(), topic.rate, topic.size)

    def _adding(self, topic: TopicFigures, common: float) -> float:
        sizes = len(self.members), len(self.topics), topic.rate, topic.size
        return formulas.adding(self.world.costs, *sizes, min(common, float(topic.size)))

    def consider_adding(self, topic: TopicFigures) -> Machine:
        found: list[Answer] = yield from self.survey(Ask())
        common = sum(topic.number in answer.direct for answer in found) / max(len(found), 1) * len(self.members)
        common = min(common, float(topic.size))
        if self._adding(topic, common) >= 0:
            self.patience[topic.number] = max(int(self._threshold(topic) - common), 1)
            return
        other = Address(TOPIC, topic.number)
        if (yield from self.locking(other, Lock(self.address))) is not None:
            yield from self.add(topic)
            yield from self.unlocking([other])

    def consider_removing(self, topic: int) -> Machine:
        found: list[Answer] = yield from self.survey(Ask(topic))
        wanted = sum(answer.wants for answer in found) / max(len(found), 1) * len(self.members)
        figures = self.topics[topic]
        if formulas.removing(self.world.costs, self.side(), figures.rate, figures.size, wanted) >= 0:
            short = wanted - formulas.break_even(self.world.costs, self.side(), figures.rate)
            self.patience[topic] = max(int(short), 1)
            return
        other = Address(TOPIC, topic)
        if (yield from self.locking(other, Lock(self.address))) is not None:
            yield from self.remove(topic)
            yield from self.unlocking([other])

    def consider_merging(self) -> Machine:
        """With the cluster that most subscribers have as well, which decides."""
        found: list[Answer] = yield from self.survey(Ask())
        joint = most(number for answer in found for number in answer.clusters if number != self.number)
        if joint is None:
            return
        other = Address(CLUSTER, joint[0])
        common = joint[1] * len(self.members) / max(len(found), 1)
        granted = yield from self.locking(other, Lock(self.address, (self.figures, common)))
        if granted is not None:
            yield from self.merge(granted)
            yield from self.unlocking([])  # the other one has ended

    def consider_shrinking(self) -> Machine:
        """Ends, or takes in the topic that most subscribers have directly, if that pays."""
        found: list[Answer] = yield from self.survey(Ask(cluster=self.number))
        scale = len(self.members) / max(len(found), 1)
        lacking = dict.fromkeys(sorted(self.topics), 0.0)
        for answer in found:
            for topic in answer.lacks:
                lacking[topic] += 1
        known = [(self.topics[topic].rate, self.topics[topic].size, count * scale) for topic, count in lacking.items()]
        if formulas.destroying(self.world.costs, self.side(), known) < 0:
            yield from self._end_locked()
            return
        shared = most(topic for answer in found for topic in answer.direct)
        if shared is None:
            return
        other = Address(TOPIC, shared[0])
        granted = yield from self.locking(other, Lock(self.address))
        if granted is not None:
            if self._adding(granted.figures, shared[1] * scale) < 0:
                yield from self.add(granted.figures)
            yield from self.unlocking([other])

    def _end_locked(self) -> Machine:
        """Ends if it gets the locks of all its topics."""
        others, free = [Address(TOPIC, topic) for topic in sorted(self.topics)], self.lock(self.address)
        for other in others:
            answer = yield *other, Lock(self.address)
            free = free and answer.granted
        if free:
            yield from self.end()
        yield from self.unlocking(others)

    def _tell(self, members: Iterable[int]) -> Machine:
        said = Update(self.figures, self.figures.topics)
        for user in members:
            yield USER, user, said

    def add(self, topic: TopicFigures) -> Machine:
        self.put(topic)
        yield TOPIC, topic.number, Update(self.figures, self.figures.topics)
        yield from self._tell(self.members.rows)
        self.world.updates["added"] += 1

    def remove(self, topic: int) -> Machine:
        """Those who lack the topic then subscribe to it directly. A cluster of one topic ends."""
        self.take(topic)
        yield TOPIC, topic, Update(self.figures, self.figures.topics)
        yield from self._tell(self.members.rows)
        self.world.updates["removed"] += 1
        if len(self.topics) == 1:
            yield from self.end()

    def merge(self, other: Grant) -> Machine:
        for topic in other.topics:
            if topic.number not in self.topics:
                self.put(topic)
        yield from self._tell(self.members.rows)
        yield CLUSTER, other.figures.number, Absorb(self.figures)
        self.world.updates["merged"] += 1

    def end(self) -> Machine:
        """Everyone leaves, and keeps getting what it wants."""
        said = Update(self.figures, frozenset())
        for topic in sorted(self.topics):
            yield TOPIC, topic, said
        while len(self.members):
            yield USER, self.members.rows[-1], said
        self.world.updates["destroyed"] += 1
        yield Close(self.number)
