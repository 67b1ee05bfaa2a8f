"""What clients, the coordinator and its witnesses say to each other over NATS, and under which subjects.

1. Every event is published under its own subject, by everyone and always. So whoever is subscribed to a topic itself
   needs nothing of this layer, and is never worse off than without it.
2. A publisher that uses the layer also publishes an event to the subjects of the clusters that hold its topic. Copies
   carry the topic, and all carry the event's id: the publisher and a number that grows.
3. Who publishes a topic for the first time does not know its clusters yet. Until it is told, its events also go to one
   subject that all who hold a cluster are subscribed to (``LATE``).
4. ``Take`` and ``Routes`` say what is to be, not what is to be done: they can be repeated, and the latest counts.
5. Whoever publishes without this layer is known by events without an id. The coordinator's *guard* listens to all
   topics of clusters, and passes such events on to the clusters (*relays* them). The topic then leaves its clusters for
   good.
"""

from typing import Any

import msgspec

ROOT = "_OVS"
TO_COORDINATOR, GONE = f"{ROOT}.co", f"{ROOT}.gone"
WITNESS, LATE, PASSED = f"{ROOT}.w", f"{ROOT}.late", f"{ROOT}.p"
RELAY = "relay"  # the guard, where it is asked as a witness
ID, TOPIC = "Ovs-Id", "Ovs-Topic"  # headers


def cluster_subject(cluster: int) -> str:
    return f"{ROOT}.c.{cluster}"


def client_subject(client: str) -> str:
    return f"{ROOT}.u.{client}"


def is_ours(subject: str) -> bool:
    return subject.startswith(f"{ROOT}.")


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Everything below; on the wire it is msgpack with its name."""


class Report(Message, frozen=True):
    """A client tells all that the coordinator has to know of it: at first, when it is back, and when it is asked."""

    client: str
    wants: list[str]
    publishes: list[str]
    version: int  # of the last ``Take`` that is done


class Declare(Message, frozen=True):
    """A client is subscribed to a topic now, or no longer."""

    client: str
    topic: str
    wanted: bool


class Publishes(Message, frozen=True):
    """A client publishes a topic, and asks for its clusters."""

    client: str
    topic: str


class Done(Message, frozen=True):
    """A client has what a ``Take`` said, and nothing beyond it."""

    client: str
    version: int


class Routed(Message, frozen=True):
    """A publisher publishes as ``Routes`` said, from its next event on."""

    client: str
    version: int


class Counted(Message, frozen=True):
    """How many events of each topic a client has published in so many seconds."""

    client: str
    events: dict[str, int]
    seconds: float


class Bye(Message, frozen=True):
    """A client says that it leaves."""

    client: str


class Take(Message, frozen=True):
    """A client is to hold these clusters, of which these topics may be relied on. It is to be subscribed directly to
    whatever else it wants. Before it gives anything up it hears from all witnesses."""

    version: int
    clusters: dict[int, list[str]]
    witnesses: list[str]


class Routes(Message, frozen=True):
    """A publisher is to publish these topics to these clusters as well."""

    version: int
    topics: dict[str, list[int]]


class Again(Message, frozen=True):
    """The coordinator asks for a report."""


class Joined(Message, frozen=True):
    """A client asks all witnesses whether its new subscriptions are known everywhere."""

    client: str
    version: int
    relay: bool = False  # whether the guard is asked as well


class Passed(Message, frozen=True):
    """A witness tells the guard that it was asked. All that was published at its server before has come to the guard by
    then."""

    client: str
    version: int
    server: str


class Seen(Message, frozen=True):
    """A witness answers a client. Its server has by then sent the client all that was published there before."""

    version: int
    server: str


FromClient = Report | Declare | Publishes | Done | Routed | Counted | Bye
ToClient = Take | Routes | Again | Seen
_encoder = msgspec.msgpack.Encoder()
from_client = msgspec.msgpack.Decoder(FromClient)
to_client = msgspec.msgpack.Decoder(ToClient)
to_witness = msgspec.msgpack.Decoder(Joined)
to_guard = msgspec.msgpack.Decoder(Passed | Seen)


def encoded(message: Any) -> bytes:
    return _encoder.encode(message)
