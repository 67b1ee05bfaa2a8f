"""What a client holds, and how it gets from one set of subscriptions to another: make before break.

1. A new interest is a direct subscription at once. What is better comes later, from the coordinator.
2. New subscriptions are made first. Old ones are given up when all witnesses have answered: each answer comes behind
   all that was published at its server under the old ones.
3. A cluster's topic is relied on only if the coordinator has said so.
"""

from collections.abc import Iterable
from typing import NamedTuple

from overstory.topics.protocol import RELAY, Take


class Step(NamedTuple):
    """What a client has to do now: subjects to subscribe to, then those to give up, by kind; whether witnesses are to
    be asked, and the guard with them; and the version of a ``Take`` that is done."""

    direct: tuple[str, ...] = ()
    clusters: tuple[int, ...] = ()
    no_direct: tuple[str, ...] = ()
    no_clusters: tuple[int, ...] = ()
    ask: int | None = None
    relay: bool = False
    done: int | None = None


class Holding:
    """A client's interests and subscriptions. It decides, and does nothing itself."""

    def __init__(self) -> None:
        self.wants: set[str] = set()
        self.direct: set[str] = set()
        self.clusters: dict[int, frozenset[str]] = {}  # held, with the topics that may be relied on
        self.version = 0  # of the last Take that is done
        self._taking: Take | None = None
        self._unseen: set[str] = set()

    def gain(self, topic: str) -> Step:
        """The application wants one more topic."""
        self.wants.add(topic)
        return self._subscribed([topic])

    def lose(self, topic: str) -> Step:
        """The end of an interest. The cluster that brings the topic is the coordinator's business."""
        self.wants.discard(topic)
        if topic not in self.direct:
            return Step()
        self.direct.discard(topic)
        return Step(no_direct=(topic,))

    def take(self, take: Take) -> Step:
        """What the coordinator says. An older one than the last is void; the last one again is done again."""
        newest = self._taking.version if self._taking else self.version
        if take.version < newest:
            return Step()
        self._taking, self._unseen = take, set(take.witnesses)
        step = self._subscribed(self.wants - self._covered(take))
        new = tuple(sorted(take.clusters.keys() - self.clusters.keys()))
        for cluster in new:
            self.clusters[cluster] = frozenset()
        if self._spare(take) == ((), ()) or not self._unseen:
            return self._finished()._replace(direct=step.direct, clusters=new)
        return step._replace(clusters=new, ask=take.version, relay=RELAY in self._unseen)

    def seen(self, version: int, server: str) -> Step:
        """A witness has answered."""
        if self._taking is None or version != self._taking.version:
            return Step()
        self._unseen.discard(server)
        return Step() if self._unseen else self._finished()

    def cut(self) -> Step:
        """The connection is lost. Clusters may end meanwhile, so all that is wanted is subscribed to directly again, as
        without this layer."""
        self._taking = None
        return self._subscribed(self.wants)

    def _subscribed(self, topics: Iterable[str]) -> Step:
        new = tuple(sorted(set(topics) - self.direct))
        self.direct.update(new)
        return Step(direct=new)

    def _covered(self, take: Take) -> set[str]:
        return self.wants.intersection(topic for topics in take.clusters.values() for topic in topics)

    def _spare(self, take: Take) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Direct subscriptions and clusters that are no longer needed."""
        direct = self.direct & self._covered(take)
        return tuple(sorted(direct)), tuple(sorted(self.clusters.keys() - take.clusters.keys()))

    def _finished(self) -> Step:
        take = self._taking
        assert take is not None
        direct, clusters = self._spare(take)
        self.direct.difference_update(direct)
        self.clusters = {cluster: frozenset(topics) for cluster, topics in take.clusters.items()}
        self.version, self._taking = take.version, None
        return Step(no_direct=direct, no_clusters=clusters, done=self.version)
