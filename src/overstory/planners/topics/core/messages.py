"""What users, topic channels and cluster channels say to each other. A message has a kind, as the kernel counts it, and
an address: the role and the number of the entity that it is for."""

from typing import NamedTuple

from overstory.kernels.tamara import ANSWER, ASK, LOCK, LOOK, NOTICE, SUBSCRIBE, UNSUBSCRIBE, UPDATE

USER, TOPIC, CLUSTER = "user", "topic", "cluster"


class Address(NamedTuple):
    role: str
    number: int


class About(NamedTuple):
    """What a topic's channel tells of a cluster that holds the topic."""

    number: int
    topics: tuple[int, ...]  # ascending
    load: float
    size: int


class Look(NamedTuple):
    """A user asks a topic's channel which clusters hold the topic; the channel answers with ``About``."""

    topic: int
    kind: int = LOOK


class Join(NamedTuple):
    """A user subscribes to a channel."""

    user: int
    kind: int = SUBSCRIBE


class Leave(NamedTuple):
    """A user ends its subscription to a channel."""

    user: int
    kind: int = UNSUBSCRIBE


class Notice(NamedTuple):
    """A user tells one of its clusters that it is now directly subscribed to a topic, or no longer wants it."""

    user: int
    topic: int
    wanted: bool
    kind: int = NOTICE


class Ask(NamedTuple):
    """A channel asks one of its subscribers what it has; the subscriber answers."""

    topic: int | None
    kind: int = ASK


class Answer(NamedTuple):
    """What a subscriber is directly subscribed to, which clusters it has, and whether it wants the topic asked for."""

    direct: tuple[int, ...]
    clusters: tuple[int, ...]
    wants: bool
    kind: int = ANSWER


class Update(NamedTuple):
    """A cluster's channel tells a topic's channel, or a subscriber, which topics it now has; none: it has ended."""

    cluster: int
    topics: tuple[int, ...]
    kind: int = UPDATE


class Lock(NamedTuple):
    """A channel asks another not to begin an update of its own until this one is done, with what it knows."""

    asking: Address
    common: float
    kind: int = LOCK


class Grant(NamedTuple):
    """The answer: granted or not, and the numbers of the channel that was asked."""

    granted: bool
    size: int
    topics: tuple[int, ...]
    kind: int = LOCK


Message = Look | Join | Leave | Notice | Ask | Answer | Update | Lock | Grant
ROLES = {  # who may be sent what: anything else is refused
    USER: (Ask, Update),
    TOPIC: (Look, Join, Leave, Update, Lock),
    CLUSTER: (Join, Leave, Notice, Lock),
}
