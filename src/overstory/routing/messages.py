"""The messages between routers, and the outputs that a router asks its shell to act on.

A subscription and an advertisement are named by (id, version). Their maker gives them a higher version each time that
they are made again, here or at another broker. Under one version they never say anything else.
"""

from typing import NamedTuple, TypeAlias

import msgspec

from overstory.filters import Filter
from overstory.kernels.nothing import NONE
from overstory.model.plan import LATE as LATE
from overstory.routing.frames import Frames, Routed

Key: TypeAlias = tuple[int, int]  # id, version

Sums: TypeAlias = tuple[tuple[int, int], ...]  # buckets that are not empty, and their sums; see ``digests``

Attempt: TypeAlias = tuple[int, int, int]  # to move a subscription: its id, its version, the number of the attempt


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The sender begins to tell all that it has to say of this epoch, from the start.

    A broker that restarts comes with a higher incarnation. All messages of its earlier incarnations, of any epoch, are
    void.
    """

    epoch: int
    incarnation: int


class Resynchronise(msgspec.Struct, frozen=True, tag=True):
    """The sender had not installed this epoch yet when it was told of it, and asks to be told again."""

    epoch: int


class Retired(msgspec.Struct, frozen=True, tag=True):
    """The sender has let go of all epochs below a number, except those kept. Nothing more of them comes from it."""

    below: int
    kept: frozenset[int] = frozenset()

    def has_left(self, epoch: int) -> bool:
        """Whether the sender has let go of the epoch, or never had it."""
        return epoch < self.below and epoch not in self.kept


class Advertise(msgspec.Struct, frozen=True, tag=True):
    """A publisher behind the sender, or at it, may publish events that match this filter."""

    epoch: int
    flow: int
    key: Key
    filter: Filter


class Unadvertise(msgspec.Struct, frozen=True, tag=True):
    """An advertisement, and all older versions of it, no longer hold."""

    epoch: int
    flow: int
    key: Key
    withdrawn: bool = False  # its lease has run out on the way, and it may come again


class Gate(msgspec.Struct, frozen=True, tag=True):
    """Whether any event may come over this link from the sender, or only advertised ones."""

    epoch: int
    flow: int
    is_open: bool


class Prune(msgspec.Struct, frozen=True, tag=True):
    """How far an unsubscription is to go towards one advertisement (a tuple of the paper's list)."""

    advertisement: int
    distance: int  # hops that are left to the critical broker
    beyond: tuple[int, ...] = ()  # publications of the window that nobody else wants within 0, 1, 2 … hops from here


class Subscribe(msgspec.Struct, frozen=True, tag=True):
    """The sender wants events that match this filter."""

    epoch: int
    flow: int
    key: Key
    filter: Filter
    triggered: bool = False  # by an unsubscription that left this subscription uncovered, at the sender or before it
    host: int = NONE  # in a steered flow: the broker whose summary this is a part of


class Unsubscribe(msgspec.Struct, frozen=True, tag=True):
    """The sender no longer wants events for this subscription's sake."""

    epoch: int
    flow: int
    key: Key
    prunes: tuple[Prune, ...] | None = None  # how far the unsubscription goes; None: all the way
    withdrawn: bool = False  # the subscription has not ended and may come again; for one, another may cover it here


class Packed(msgspec.Struct, frozen=True, tag=True):
    """All messages that one change led to on one link, in order."""

    messages: tuple["Subscribe | Unsubscribe", ...]


class Renew(msgspec.Struct, frozen=True, tag=True):
    """Renews the leases of all that the sender stands by in this flow, which it names by two sums (``digests``)."""

    epoch: int
    flow: int
    subscriptions: int
    advertisements: int = 0


class Differ(msgspec.Struct, frozen=True, tag=True):
    """The sums of a ``Renew`` are not those of what its receiver knows: the sender asks for the sums of buckets."""

    epoch: int
    flow: int


class Compare(msgspec.Struct, frozen=True, tag=True):
    """The sums of the buckets of all that the sender stands by in this flow. Buckets without a sum are empty."""

    epoch: int
    flow: int
    round: int  # of comparing with this neighbour: answers to older rounds do not count
    subscriptions: Sums
    advertisements: Sums = ()


class Ask(msgspec.Struct, frozen=True, tag=True):
    """Asks for the keys of the buckets that differ. If there are none, the sender has all that it has to have."""

    epoch: int
    flow: int
    round: int
    subscriptions: tuple[int, ...] = ()
    advertisements: tuple[int, ...] = ()


class Listed(msgspec.Struct, frozen=True, tag=True):
    """The keys of one bucket that the sender stands by. What the message leaves out has run out."""

    epoch: int
    flow: int
    round: int
    bucket: int
    keys: tuple[Key, ...]
    advertisements: bool = False  # whether the keys are those of advertisements
    is_last: bool = False  # of the buckets that were asked for


class Missing(msgspec.Struct, frozen=True, tag=True):
    """Subscriptions and advertisements that were listed but are not known to the sender, which asks for them."""

    epoch: int
    flow: int
    keys: tuple[Key, ...]
    advertisements: tuple[Key, ...] = ()


class Settled(msgspec.Struct, frozen=True, tag=True):
    """The sender and the brokers behind it have said all that they have to say of this flow, in one of three rounds.

    The first round says so of all advertisements, the second of all subscriptions too, and the third of the summaries
    of regions.
    """

    epoch: int
    flow: int
    round: int


class Marker(msgspec.Struct, frozen=True, tag=True):
    """No more events of this epoch come over this link in this flow's tree."""

    epoch: int
    flow: int


class Entered(msgspec.Struct, frozen=True, tag=True):
    """No more events of this epoch enter steered flows at a broker. All brokers are told, over the late flow's tree."""

    epoch: int
    entry: int  # or a gateway that has sent on all that it had to (``epoch.onward_from``)
    counts: tuple[tuple[int, int, int], ...]  # how many events the broker sent: the flow, the end, the number


class LinkState(msgspec.Struct, frozen=True, tag=True):
    """Which links of a broker are down; see ``routing.link_state``."""

    broker: int
    incarnation: int
    version: int
    down: frozenset[int]  # the brokers that these links lead to

    @property
    def version_key(self) -> tuple[int, int]:
        """Of two messages about the same broker, the one with the higher key counts."""
        return self.incarnation, self.version


class Flush(msgspec.Struct, frozen=True, tag=True):
    """Asks all brokers of a tree for an echo; see ``routing.moves``."""

    epoch: int
    flow: int  # whose tree the flush spreads over
    move: Attempt
    targets: tuple[int, ...]  # the flows that the subscription goes to
    host: int  # the broker that asks
    # Of a flow with regions, the second time: the events that the host's gateway waits for before it answers, by entry
    awaited: tuple[tuple[int, int], ...] | None = None


class Probe(msgspec.Struct, frozen=True, tag=True):
    """Spreads over the tree that a subscription has joined, behind the subscription."""

    epoch: int
    flow: int
    move: Attempt
    gateway: int = NONE  # in the flow above one with regions: that of the host's region, where the probe begins


class Echo(msgspec.Struct, frozen=True, tag=True):
    """The answer to a flush: comes back over its tree, behind all events that were in flight before the flush."""

    epoch: int
    flow: int
    move: Attempt
    # In a steered flow: how many events brokers behind the sender, or at it, have sent to the host before
    counts: tuple[tuple[int, int], ...] = ()


class Reach(msgspec.Struct, frozen=True, tag=True):
    """Follows the subscriptions of a host through the late tree, and asks all brokers for an answer (``service``)."""

    epoch: int
    flow: int
    host: int
    attempt: int


class Reached(msgspec.Struct, frozen=True, tag=True):
    """The answer: the sender, and all brokers behind it, have been told of the host's subscriptions."""

    epoch: int
    flow: int
    host: int
    attempt: int


Message: TypeAlias = (
    Begin
    | Resynchronise
    | Retired
    | Advertise
    | Unadvertise
    | Gate
    | Subscribe
    | Unsubscribe
    | Packed
    | Renew
    | Differ
    | Compare
    | Ask
    | Listed
    | Missing
    | Settled
    | Marker
    | Entered
    | LinkState
    | Flush
    | Probe
    | Echo
    | Reach
    | Reached
)


class Send(msgspec.Struct, frozen=True):
    """The shell is to send this message to a neighbour."""

    peer: int
    message: Message


class Acknowledge(msgspec.Struct, frozen=True):
    """The client is to be told that its subscription has joined the late flow."""

    client: int
    key: Key


class Flushed(msgspec.Struct, frozen=True):
    """No event comes any more, in the flows that a subscription was in, that was published before it was flushed."""

    key: Key


class Served(msgspec.Struct, frozen=True):
    """The whole network serves the subscription: every event that enters anywhere from now on, and matches, comes."""

    client: int
    key: Key


class Held(msgspec.Struct, frozen=True):
    """This broker holds the epoch: its tables are complete. Once all brokers hold it, it can be activated."""

    epoch: int


class Drained(msgspec.Struct, frozen=True):
    """No event of this epoch can come to this broker any more: the epoch can be retired here."""

    epoch: int


class Released(NamedTuple):
    """Events that had to wait for others go to clients here, behind all that was published before.

    The decision is to be acted on as that about any other frames.
    """

    frames: Frames
    routed: Routed


Output: TypeAlias = Send | Acknowledge | Served | Flushed | Held | Drained | Released
