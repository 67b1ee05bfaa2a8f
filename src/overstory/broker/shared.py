"""Shared subscriptions: a group is one subscription to the router, and each event goes to one of its members.

The hash of the event's number chooses among the members that are connected, or among all if none is. What a member has
not acknowledged when its session ends goes to another one. Where there are several brokers, ``groups`` says which of
them subscribes for the group.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from overstory.broker.session import Session, Subscription
from overstory.filters import Filter
from overstory.kernels.hashing import mixed
from overstory.wire.topics import Wanted, filter_of

T = TypeVar("T")


class Group(msgspec.Struct):
    """The sessions that share one subscription."""

    name: str
    number: int  # the router's number of the group, as if it were a client
    place: int  # of its slot
    subscription: Subscription
    members: dict[int, tuple[Session, Subscription]] = msgspec.field(default_factory=dict)  # by the client's number

    def choose(self, event: int, without: int | None = None) -> tuple[Session, Subscription] | None:
        """The member that gets an event; ``without`` is one that shall not."""
        members = [member for number, member in self.members.items() if number != without]
        connected = [member for member in members if member[0].link is not None]
        return chosen_of(connected or members, event)


def forget_group(groups: dict[str, Group], name: str) -> None:
    """Forgets a group that has ended. Its subscription leads back to it, and garbage collection does not look into
    subscriptions: that circle is cut here."""
    groups.pop(name).subscription.holder = None


def chosen_of(among: Sequence[T], event: int) -> T | None:
    """The one that the hash of an event's number chooses."""
    return among[(int(mixed(event)) & (2**63 - 1)) % len(among)] if among else None


def group_name(wanted: Wanted) -> str:
    """The name of a group. Another expression is another group."""
    return "\0".join((wanted.group or "", wanted.topics, wanted.expression or ""))


def filter_of_group(name: str) -> Filter:
    """What the members of a group want, from its name."""
    group, topics, expression = name.split("\0", 2)
    return filter_of(Wanted(topics, expression or None, group))
