"""All that a broker knows, apart from its sockets."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import Any

import msgspec

from overstory.broker.config import Config
from overstory.broker.journal import Journal
from overstory.broker.link import Link
from overstory.broker.message import Message
from overstory.broker.pressure import Losses, Window
from overstory.broker.promises import Answers, Promise
from overstory.broker.retained import Retained
from overstory.broker.sampling import Sampling
from overstory.broker.session import House, Session, Subscription
from overstory.broker.shared import Group
from overstory.broker.slots import Slots
from overstory.broker.watching import Watched
from overstory.broker.wills import Wills
from overstory.filters import Filter
from overstory.routing.messages import Output
from overstory.routing.policies import make_policy
from overstory.routing.router import Router
from overstory.routing.share import tree_shares

SHIFT = 40  # integers are given out as (broker + 1) << SHIFT, plus a counter that survives restarts
MOST_UNFILED, MOST_FILED = 100, 1000  # entries that may wait to be filed, and that are filed at once
PlannedKey = tuple[Filter, bool]  # the filter of a planned subscription, and whether it is no-local
BLOCK = 100_000  # of that counter: so often it is noted
MOST_ERROR, MOST_CALLS = 500, 8  # characters of a fault that are logged, and the calls that led to it


class Counts(msgspec.Struct):
    """What has happened since the start."""

    connections: int = 0
    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    plain: int = 0  # messages that kernels could not decide about
    straight: int = 0  # messages that were like one before, so that nobody had to be asked about them
    protocol_errors: int = 0
    faults: int = 0  # errors of our own that ended a connection or a piece of work
    ticks: int = 0


class State:
    """All that a broker remembers of its clients and their messages."""

    def __init__(
        self,
        config: Config,
        keeps: bool,
        now: float,
        counter: int = 0,
        log: Any = None,
        router: Router | None = None,
    ) -> None:
        """``router`` is that of a broker that has neighbours; without one the broker is alone."""
        self.config, self.now, self.is_alone = config, now, router is None
        self.limits = config.limits
        self.journal = Journal(keeps)
        self.losses, self.counts = Losses(), Counts()
        self.sampling = Sampling(config.sample, config.number)
        self.slots: Slots[Session | Group] = Slots()
        self.house = House(self.limits, self.journal, self.losses, self.slots)
        self.router = _alone(config, now) if router is None else router
        self.links: dict[Link, None] = {}  # with a session
        self.dirty: dict[Link, None] = {}  # with something to send, or to be hung up
        self.sessions: dict[str, Session] = {}  # by client id
        self.away: dict[str, Session] = {}  # those whose client is not here
        self.subscriptions: dict[int, Subscription] = {}  # by the router's number
        self.unserved: set[int] = set()  # those of them that not the whole network serves yet
        self.takers: dict[int, Session] = {}  # by number: sessions of clients that take all events of their clusters
        self.groups: dict[str, Group] = {}
        self.retained, self.wills = Retained(), Wills()
        self.window = Window(self.limits.unacknowledged)  # of all publishers together
        self.stalled: dict[Link, None] = {}  # not to be read, if their windows are full after the turn
        self.full: list[Session] = []  # sessions in which too much waits
        self.chores: deque[Iterator[None]] = deque()
        # Who gets these, if not by the plain way
        self.decide: Callable[[State, Sequence[Message]], list[Promise | None]] | None = None
        self.changed: Callable[[int], None] | None = None  # told the number of each subscription with other options
        self.resume: Callable[[Link], None] | None = None  # goes on with a link that has waited
        self.events = 0  # the number of the next event
        self.watched: Watched | None = None  # what a coordinator said of the last window
        self.fabric: Any = None  # the ``Fabric`` that joins this broker to others, if there are any
        self.answers = Answers(self.journal, self)
        self.plan_clients: dict[str, int] = {}  # clients that the plan knows, by name
        self.plan_subscriptions: dict[int, dict[PlannedKey, list[int]]] = {}  # of these clients
        self._log = log
        self._next, self._noted = counter, counter

    def act(self, outputs: Sequence[Output]) -> None:
        """Does what the router asks for, if there are neighbours."""
        if outputs and self.fabric is not None:
            self.fabric.act(outputs)

    def is_elsewhere(self, number: int) -> bool:
        """Whether a subscription here is one of a session that is at another broker: a copy, or one that has gone."""
        made = self.subscriptions.get(number)
        if made is None or not isinstance(made.holder, Session):
            return False
        return self.sessions.get(made.holder.client_id) is not made.holder

    def is_free(self, number: int) -> bool:
        """Whether this subscription came here with the plan, and its client has not made it yet."""
        home = self.router.state.homes.get(number)
        return home is not None and home.planned and number not in self.subscriptions

    def take(self, number: int, wanted: Filter) -> None:
        """A client makes a subscription that came with the plan: it is in its flows already."""
        home = self.router.state.homes[number]
        home.planned, home.filter = False, wanted

    def new_number(self) -> int:
        """A number that no client and no subscription has ever had."""
        if self._next >= self._noted:
            self._noted = self._next + BLOCK
            self.journal.note("counter", self._noted)
        self._next += 1
        return (self.config.number + 1 << SHIFT) + self._next

    def entered(self, link: Link, packet_id: int, qos: int) -> None:
        """A client has published an event that it waits for an acknowledgement of."""
        if qos == 1:
            link.window.enter(1)
        else:
            link.window.enter_once(packet_id)
        if link.window.is_full:
            self.stalled[link] = None

    def link_of(self, client: int) -> Link | None:
        """The connection of the client with this number, if it is here."""
        slot = self.slots.by_client.get(client)
        holder = None if slot is None else self.slots.holders[slot]
        return holder.link if isinstance(holder, Session) else None

    def file(self) -> None:
        """Files some of the entries that wait for that, if they are many: the next message shall not wait for all."""
        active = self.router.state.active
        if active is None:
            return
        self.router.state.epochs[active].table.file(MOST_UNFILED, MOST_FILED)

    def fault(self, error: Exception, link: Link | None = None) -> None:
        """Counts and logs an error of our own. Who catches it ends the connection or the work that it came up with."""
        self.counts.faults += 1
        self.log("fault", link, error=f"{type(error).__name__}: {error}"[:MOST_ERROR], where=_where(error))

    def log(self, event: str, link: Link | None = None, **fields: object) -> None:
        """Says what has happened, in the structured log."""
        if self._log is not None:
            if link is not None and link.session is not None:
                fields["client"] = link.session.client_id
            self._log(event, fields)


def _where(error: Exception) -> str:
    """The innermost calls in which an error came up, as one line."""
    calls = extract_tb(error.__traceback__)[-MOST_CALLS:]
    return " > ".join(f"{Path(call.filename).name}:{call.lineno} {call.name}" for call in calls)


def _alone(config: Config, now: float) -> Router:
    """The router of a broker without neighbours."""
    router = Router(config.number, make_policy("active"), now=now)
    router.install(tree_shares((), brokers=(config.number,))[config.number])
    router.activate(0)
    return router
