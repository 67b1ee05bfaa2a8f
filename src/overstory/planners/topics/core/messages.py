"""What users, topic channels and cluster channels say to each other, and who may be told what.

A message has a ``kind``, as which the kernel counts it; None: it is no effort of forming clusters, since it rides on a
keep-alive or is an event. A machine sends an *envelope*: a role, the number of the entity, and the message.
"""

from typing import NamedTuple

from overstory.kernels.tamara_state import ANSWER, ASK, LOCK, LOOK, NOTICE, SUBSCRIBE, UNSUBSCRIBE, UPDATE
from overstory.planners.topics.core.figures import ClusterFigures, TopicFigures

USER, TOPIC, CLUSTER = "user", "topic", "cluster"
Topics = frozenset[int]


class Address(NamedTuple):
    role: str
    number: int


class Declare(NamedTuple):
    """A person tells her user entity that she is now interested in a topic, or no longer."""

    topic: int
    wanted: bool
    kind: int | None = None


class Publish(NamedTuple):
    """A publisher gives a topic's channel an event, or the channel gives it to a cluster that holds the topic."""

    topic: int
    kind: int | None = None


class Event(NamedTuple):
    """A channel gives an event to a subscriber."""

    topic: int
    kind: int | None = None


class Counted(NamedTuple):
    """A topic's channel has counted its events: this is their rate now."""

    rate: float
    kind: int | None = None


class Look(NamedTuple):
    """A user asks a topic's channel which clusters hold the topic; the channel answers with ``About``."""

    kind: int | None = LOOK


class About(NamedTuple):
    """What a topic's channel knows of itself and of the clusters that hold the topic."""

    figures: TopicFigures
    clusters: tuple[ClusterFigures, ...]  # in the order of their numbers
    kind: int | None = LOOK


class Join(NamedTuple):
    """A user subscribes to a channel; ``own``: because it decided so, not because a channel told it to. From then on
    keep-alives bring it the channel's figures."""

    user: int
    own: bool = False
    kind: int | None = SUBSCRIBE


class Leave(NamedTuple):
    """A user ends its subscription to a channel; ``own`` as in ``Join``."""

    user: int
    own: bool = False
    kind: int | None = UNSUBSCRIBE


class Notice(NamedTuple):
    """A user tells one of its clusters that it is now directly subscribed to a topic, or no longer wants it."""

    topic: int
    figures: TopicFigures | None  # None: no longer wanted
    kind: int | None = NOTICE


class Rated(NamedTuple):
    """A topic's channel tells a cluster that holds the topic of its new rate."""

    topic: int
    before: float
    kind: int | None = NOTICE


class Ask(NamedTuple):
    """A channel asks one of its subscribers what it has, and what it would lack without the cluster that asks."""

    topic: int | None = None
    cluster: int | None = None
    kind: int | None = ASK


class Answer(NamedTuple):
    """What a subscriber is directly subscribed to, which clusters it has, whether it wants the topic asked for, and
    what it would lack."""

    direct: tuple[int, ...]
    clusters: tuple[int, ...]
    wants: bool
    lacks: tuple[int, ...] = ()
    kind: int | None = ANSWER


class Lock(NamedTuple):
    """A channel asks another not to begin an update of its own until this one is done. A cluster that asks a cluster
    proposes to merge: it tells its figures, and how many subscribers they have in common."""

    asking: Address
    proposed: tuple[ClusterFigures, float] | None = None
    kind: int | None = LOCK


class Grant(NamedTuple):
    """Whether the lock is granted, and a merger wanted; the figures of the channel, and of a cluster's topics."""

    granted: bool
    figures: TopicFigures | ClusterFigures
    topics: tuple[TopicFigures, ...] = ()
    kind: int | None = LOCK


class Unlock(NamedTuple):
    """The update is done, or will not be."""

    asking: Address
    kind: int | None = LOCK


class Enter(NamedTuple):
    """A topic's channel has found that it pays to be in a cluster, and tells the cluster, which adds it."""

    figures: TopicFigures
    kind: int | None = NOTICE


class Absorb(NamedTuple):
    """A cluster tells another, which has agreed, that it has taken over its topics: its subscribers are to move."""

    into: ClusterFigures
    kind: int | None = UPDATE


class Update(NamedTuple):
    """A cluster tells a topic's channel, or a subscriber, which topics it now has; none: it has ended."""

    figures: ClusterFigures
    topics: Topics
    kind: int | None = UPDATE


class Moved(NamedTuple):
    """A cluster that has been merged into another tells a topic's channel, or a subscriber."""

    cluster: int
    into: ClusterFigures
    topics: Topics
    kind: int | None = UPDATE


class Invite(NamedTuple):
    """A topic's channel tells a subscriber of a new cluster, which is for those who have all its topics directly."""

    figures: ClusterFigures
    topics: Topics
    kind: int | None = UPDATE


class Open(NamedTuple):
    """The platform is asked for a new channel for a cluster of these topics."""

    topics: tuple[TopicFigures, ...]


class Close(NamedTuple):
    """The platform is told that a cluster's channel is no longer needed."""

    cluster: int


ROLES: dict[str, frozenset[type]] = {  # who may be sent what: anything else is refused
    USER: frozenset({Declare, Event, Ask, Update, Moved, Invite}),
    TOPIC: frozenset({Publish, Counted, Look, Join, Leave, Update, Moved, Lock, Unlock}),
    CLUSTER: frozenset({Publish, Join, Leave, Notice, Rated, Lock, Unlock, Enter, Absorb}),
}
