"""What routers tell each other about subscriptions, and what they ask their shell to do.

A subscription and an advertisement are named by (id, version). Whoever made it gives it a higher version each time that
it is made again, here or at another broker; under one version it never says anything else.
"""

from typing import TypeAlias

import msgspec

from overstory.filters import Filter
from overstory.model.plan import LATE as LATE

Key: TypeAlias = tuple[int, int]  # id, version

Attempt: TypeAlias = tuple[int, int, int]  # to move a subscription: id, version, how often it was tried


class Advertise(msgspec.Struct, frozen=True):
    epoch: int
    flow: int
    key: Key
    filter: Filter


class Unadvertise(msgspec.Struct, frozen=True):
    epoch: int
    flow: int
    key: Key
    withdrawn: bool = False  # it has run out on the way, and may come again


class Gate(msgspec.Struct, frozen=True):
    """Whether anything may come over this link, or only what advertisements announce."""

    epoch: int
    flow: int
    is_open: bool


class Prune(msgspec.Struct, frozen=True):
    """How far an unsubscription is to go towards one advertisement (a tuple of the paper's list)."""

    advertisement: int
    distance: int  # hops that are left to the critical broker
    beyond: tuple[int, ...] = ()  # publications of the window that nobody wants within 0, 1, 2 … hops from here


class Subscribe(msgspec.Struct, frozen=True):
    epoch: int
    flow: int
    key: Key
    filter: Filter
    triggered: bool = False  # by an unsubscription that left it uncovered, here or before


class Unsubscribe(msgspec.Struct, frozen=True):
    epoch: int
    flow: int
    key: Key
    prunes: tuple[Prune, ...] | None = None  # None: all the way
    withdrawn: bool = False  # it is alive, but another subscription on this link covers it


class Packed(msgspec.Struct, frozen=True):
    """What one change led to on one link, in order."""

    messages: tuple["Subscribe | Unsubscribe", ...]


class Renew(msgspec.Struct, frozen=True):
    """All that the sender has said in this flow and stands by; whatever it leaves out has run out."""

    epoch: int
    flow: int
    keys: frozenset[Key]
    advertisements: frozenset[Key] = frozenset()


class Missing(msgspec.Struct, frozen=True):
    """Was renewed, but is not known here: to be said again."""

    epoch: int
    flow: int
    keys: tuple[Key, ...]
    advertisements: tuple[Key, ...] = ()


class Settled(msgspec.Struct, frozen=True):
    """The sender and those behind it have said all that they have to say of this flow, now that the plan is here: in
    the first round all advertisements, in the second all subscriptions too."""

    epoch: int
    flow: int
    round: int


class Marker(msgspec.Struct, frozen=True):
    """Nothing of this epoch comes any more: over this link in this flow's tree or, with an entry, from that broker."""

    epoch: int
    flow: int
    entry: int | None = None


class Flush(msgspec.Struct, frozen=True):
    """Asks all brokers of a tree for an echo; see ``routing.moves``."""

    epoch: int
    flow: int  # whose tree it spreads over
    move: Attempt
    target: int  # the flow that the subscription goes to


class Probe(msgspec.Struct, frozen=True):
    """Spreads over the tree that a subscription has joined, behind the subscription."""

    epoch: int
    flow: int
    move: Attempt


class Echo(msgspec.Struct, frozen=True):
    """Comes back over the tree of the flush, behind all events that were there before it."""

    epoch: int
    flow: int
    move: Attempt


Message: TypeAlias = (
    Advertise
    | Unadvertise
    | Gate
    | Subscribe
    | Unsubscribe
    | Packed
    | Renew
    | Missing
    | Settled
    | Marker
    | Flush
    | Probe
    | Echo
)


class Send(msgspec.Struct, frozen=True):
    peer: int
    message: Message


class Acknowledge(msgspec.Struct, frozen=True):
    """To the client: its subscription has joined the flow for late ones."""

    client: int
    key: Key


class Held(msgspec.Struct, frozen=True):
    """This broker holds the epoch: its tables are as they should be. When all do, it can be activated."""

    epoch: int


class Drained(msgspec.Struct, frozen=True):
    """Nothing of this epoch can come any more: it can be retired."""

    epoch: int


Output: TypeAlias = Send | Acknowledge | Held | Drained
