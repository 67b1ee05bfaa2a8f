"""All that a broker knows, apart from its sockets."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from overstory.broker.config import Config
from overstory.broker.journal import Journal
from overstory.broker.link import Link
from overstory.broker.message import Message
from overstory.broker.pressure import Losses
from overstory.broker.retained import Retained
from overstory.broker.session import House, Session, Subscription
from overstory.broker.shared import Group
from overstory.broker.slots import Slots
from overstory.broker.wills import Wills
from overstory.routing.policies import make_policy
from overstory.routing.router import Router
from overstory.routing.share import tree_shares

SHIFT = 40  # integers are given out as (broker + 1) << SHIFT, plus a counter that survives restarts
MOST_UNFILED = 100  # subscriptions
BLOCK = 100_000  # of that counter: so often it is noted


class Counts(msgspec.Struct):
    """What has happened since the start."""

    connections: int = 0
    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    plain: int = 0  # messages that kernels could not decide about
    protocol_errors: int = 0
    ticks: int = 0


class State:
    """All that a broker remembers of its clients and their messages."""

    def __init__(self, config: Config, keeps: bool, now: float, counter: int = 0, log: Any = None) -> None:
        self.config, self.now = config, now
        self.limits = config.limits
        self.journal = Journal(keeps)
        self.losses, self.counts = Losses(), Counts()
        self.slots: Slots[Session | Group] = Slots()
        self.house = House(self.limits, self.journal, self.losses, self.slots)
        self.router = Router(config.number, make_policy("active"), now=now)
        self.router.install(tree_shares((), brokers=(config.number,))[config.number])
        self.router.activate(0)
        self.links: dict[Link, None] = {}  # with a session
        self.dirty: dict[Link, None] = {}  # with something to send, or to be hung up
        self.sessions: dict[str, Session] = {}  # by client id
        self.away: dict[str, Session] = {}  # those whose client is not here
        self.subscriptions: dict[int, Subscription] = {}  # by the router's number
        self.groups: dict[str, Group] = {}
        self.retained, self.wills = Retained(), Wills()
        self.full: list[Session] = []  # sessions in which too much waits
        self.chores: deque[Iterator[None]] = deque()
        self.decide: Callable[[Sequence[Message]], None] | None = None  # who gets these, if not by the plain way
        self.changed: Callable[[int], None] | None = None  # told the number of each subscription with other options
        self.events = 0  # published so far
        self._log = log
        self._next, self._noted = counter, counter

    def new_number(self) -> int:
        """A number that no client and no subscription has ever had."""
        if self._next >= self._noted:
            self._noted = self._next + BLOCK
            self.journal.note("counter", self._noted)
        self._next += 1
        return (self.config.number + 1 << SHIFT) + self._next

    def file(self) -> None:
        """Files the subscriptions that wait for that, if they are many: the next message shall not wait for them."""
        active = self.router.state.active
        assert active is not None
        self.router.state.epochs[active].table.file(MOST_UNFILED)

    def log(self, event: str, link: Link | None = None, **fields: object) -> None:
        """Says what has happened, in the structured log."""
        if self._log is not None:
            if link is not None and link.session is not None:
                fields["client"] = link.session.client_id
            self._log(event, fields)
