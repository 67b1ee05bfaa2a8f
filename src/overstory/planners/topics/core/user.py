"""A user: what she is interested in, what she is subscribed to, and the filters that throw the rest away.

She chooses between a topic's own channel and a cluster that holds the topic when she declares an interest. Beyond the
paper, she then covers all her interests anew if nothing had brought her the topic. (To do so for interests that she
gives up as well was tried: 0.4 to 1.4 points better, for up to twice the messages.)
"""

from overstory.kernels.tamara_state import RECOVERING
from overstory.planners.topics.core.channel import Machine, World
from overstory.planners.topics.core.covering import Known, chosen_clusters, price_of, worth_of
from overstory.planners.topics.core.figures import ClusterFigures, TopicFigures
from overstory.planners.topics.core.formulas import step
from overstory.planners.topics.core.messages import (
    CLUSTER,
    TOPIC,
    USER,
    About,
    Answer,
    Ask,
    Declare,
    Event,
    Invite,
    Join,
    Leave,
    Look,
    Moved,
    Notice,
    Topics,
    Update,
)


class User:
    role = USER

    def __init__(self, number: int, world: World) -> None:
        self.number, self.world = number, world
        self.wants: set[int] = set()
        self.direct: dict[int, TopicFigures] = {}
        self.clusters: dict[int, Topics] = {}  # her filters: which topics each of her clusters brings
        self.figures: dict[int, ClusterFigures] = {}  # of her clusters, by keep-alives
        self.got: list[tuple[int, bool]] = []  # topics of events that came, and whether she was shown them

    def has(self, topic: int, without: int | None = None) -> bool:
        """Whether the topic's events reach the user, also without one of her clusters."""
        if topic in self.direct:
            return True
        return any(topic in topics and number != without for number, topics in self.clusters.items())

    def on_event(self, message: Event) -> None:
        """The local filter: of copies that she wants the first is shown, and all else is thrown away."""
        first = message.topic in self.wants and (message.topic, True) not in self.got
        self.got.append((message.topic, first))

    def on_ask(self, asked: Ask) -> Answer:
        direct, clusters = tuple(self.direct), tuple(self.clusters)
        if asked.cluster is None:
            return Answer(direct, clusters, asked.topic in self.wants)
        lacks = tuple(
            topic for topic in self.clusters[asked.cluster] & self.wants if not self.has(topic, asked.cluster)
        )
        return Answer(direct, clusters, False, lacks)

    def on_declare(self, message: Declare) -> Machine:
        return self._gain(message.topic) if message.wanted else self._lose(message.topic)

    def _gain(self, topic: int) -> Machine:
        """SUBSCRIBE, as in the paper's section 4."""
        self.wants.add(topic)
        if self.has(topic):
            return
        about: About = yield TOPIC, topic, Look()
        near = self._nearest(about)
        if near is not None and self._joining(near, about.figures) < 0:
            yield from self._join(near.number, near.topics, own=True)
        else:
            yield from self._subscribe(topic, own=True)
        yield from self._cover_anew()
        if topic in self.direct:
            notified = self._most_filtered()
            if notified is not None:
                yield CLUSTER, notified, Notice(topic, self.direct[topic])

    def _lose(self, topic: int) -> Machine:
        """UNSUBSCRIBE: a cluster that brings the topic is left, or told that the topic is thrown away."""
        self.wants.discard(topic)
        if topic in self.direct:
            yield from self._unsubscribe(topic)
        else:
            for number in sorted(number for number, topics in self.clusters.items() if topic in topics):
                if (yield from self._leaving(number)) < 0:
                    yield from self._leave(number, own=True)
                else:
                    yield CLUSTER, number, Notice(topic, None)

    def _nearest(self, about: About) -> ClusterFigures | None:
        """Of the clusters that hold the topic the one with most topics to which she is directly subscribed."""
        best, rank = None, (1, 0)
        for cluster in about.clusters:
            mine = -len(cluster.topics & self.direct.keys()), cluster.number
            if mine < rank:
                best, rank = cluster, mine
        return best

    def _most_filtered(self) -> int | None:
        """The cluster of which she throws most topics away."""
        best, rank = None, (1, 0)
        for number, topics in self.clusters.items():
            mine = -len(topics - self.wants), number
            if mine < rank:
                best, rank = number, mine
        return best

    def _joining(self, cluster: ClusterFigures, topic: TopicFigures) -> float:
        """What it adds if she joins the cluster instead of being directly subscribed to what it brings."""
        costs = self.world.costs
        found = step(costs.maintain, cluster.size) + cluster.load * step(costs.deliver, cluster.size)
        for each in sorted(cluster.topics & (self.direct.keys() | {topic.number})):
            mine = self.direct.get(each)
            figures, fans = (topic, topic.size) if mine is None else (mine, mine.size - 1)
            found -= step(costs.maintain, fans) + figures.rate * step(costs.deliver, fans)
        return found

    def _leaving(self, number: int) -> Machine:
        """What it adds if she leaves the cluster and subscribes directly to what she then lacks. About that she asks
        one topic's channel after the other, and no more once it is known not to pay."""
        costs, figures = self.world.costs, self.figures[number]
        size = figures.size - 1
        found = -step(costs.maintain, size) - figures.load * step(costs.deliver, size)
        for topic in sorted(self.clusters[number] & self.wants):
            if found >= 0:
                break
            if not self.has(topic, without=number):
                about: About = yield TOPIC, topic, Look()
                fans = about.figures.size
                found += step(costs.maintain, fans)
                found += about.figures.rate * step(costs.deliver, fans)
        return found

    def _cover_anew(self) -> Machine:
        """Asks the channels of all her interests for their clusters, and takes others if that costs less."""
        if self.world.rules.mode != RECOVERING:
            return
        known: list[About] = []
        for topic in sorted(self.wants):
            about = yield TOPIC, topic, Look()
            known.append(about)
        costs, now = self.world.costs, 0.0
        for number in sorted(self.clusters):
            now += price_of(costs, self.figures[number], True)
        for about in known:
            if about.figures.number in self.direct:
                now += worth_of(costs, about.figures, True)
        chosen, cost = chosen_clusters(costs, Known(known, self.direct.keys(), self.clusters.keys()))
        if cost < now - 1e-9:
            yield from self._take(chosen)

    def _take(self, chosen: list[ClusterFigures]) -> Machine:
        before, kept = sorted(self.clusters), {cluster.number for cluster in chosen}
        for cluster in chosen:
            if cluster.number not in self.clusters:
                yield from self._join(cluster.number, cluster.topics, own=True)
        for number in before:
            if number not in kept:
                yield from self._leave(number, own=True)

    def _subscribe(self, topic: int, own: bool = False) -> Machine:
        self.direct[topic] = yield TOPIC, topic, Join(self.number, own)

    def _unsubscribe(self, topic: int) -> Machine:
        del self.direct[topic]
        yield TOPIC, topic, Leave(self.number)

    def _join(self, number: int, topics: Topics, own: bool = False) -> Machine:
        self.clusters[number] = topics
        self.figures[number] = yield CLUSTER, number, Join(self.number, own)
        for topic in sorted(topics & self.direct.keys()):
            yield from self._unsubscribe(topic)

    def _leave(self, number: int, own: bool = False) -> Machine:
        topics = self.clusters.pop(number)
        del self.figures[number]
        yield CLUSTER, number, Leave(self.number, own)
        yield from self._make_up_for(topics)

    def _make_up_for(self, topics: Topics) -> Machine:
        """Subscribes directly to those that she wants and now lacks."""
        for topic in sorted(topics & self.wants):
            if not self.has(topic):
                yield from self._subscribe(topic)

    def on_update(self, message: Update) -> Machine | None:
        """A cluster has other topics, or has ended."""
        number, before = message.figures.number, self.clusters[message.figures.number]
        if not message.topics:
            return self._leave(number)
        self.clusters[number] = message.topics
        if not message.topics.isdisjoint(self.direct):
            return self._drop(message.topics)
        gone = before - message.topics
        return self._make_up_for(gone) if not gone.isdisjoint(self.wants) else None

    def _drop(self, topics: Topics) -> Machine:
        for topic in sorted(topics & self.direct.keys()):
            yield from self._unsubscribe(topic)

    def on_moved(self, message: Moved) -> Machine:
        del self.clusters[message.cluster], self.figures[message.cluster]
        yield CLUSTER, message.cluster, Leave(self.number)
        if message.into.number not in self.clusters:
            yield from self._join(message.into.number, message.topics)

    def on_invite(self, message: Invite) -> Machine | None:
        if message.topics <= self.direct.keys():
            return self._join(message.figures.number, message.topics)
        return None
