"""Clients that are to be at another broker: they are asked to go there, and served here until they have gone.

1. A client that speaks MQTT 5 is asked once for each plan. First its session is copied (``replicas``). Once the copy is
   ready, the client gets DISCONNECT with the other broker's address as Server Reference: 0x9C, or 0x9D if this broker
   is leaving for good. The session stays here, too, until the client is there, or its time runs out.
2. A client that comes back here instead is served here. Most clients do not follow; nobody is refused for that.
3. A client that says that it follows (a user property of CONNECT) is sent on at CONNECT, before it has a session here.
4. Requests wait in a queue. They leave it at a rate, and only some clients are on their way at once (``MoveLimits``). A
   broker that has enough of others' sessions declines, and is asked again later, ``TRIES`` times.
5. Subscriptions of a client that has come are in the late flow first. Once they are served there, they go on to the
   flows that the plan has for them, all that are ready at once: while subscriptions move, kernels do not decide.
"""

from typing import Any

import msgspec

from overstory.broker import connecting
from overstory.broker.link import Link
from overstory.broker.session import Session
from overstory.errors import ProtocolError, RoutingError
from overstory.wire.packets import MQTT_5, Code, Connect, Disconnect
from overstory.wire.topics import FOLLOWS

REFERENCE = "server_reference"
WAIT = 60  # seconds for which a session waits for its client to connect elsewhere, at least
PATIENCE = 5.0  # seconds for a copy to be ready, and for a client to arrive before others are asked in its place
TRIES = 20  # times that a copy is offered to a broker that declines
PAUSE = 0.5  # seconds between two looks at subscriptions that may go on to their flows


class MovedError(ProtocolError):
    """A client is to connect elsewhere."""

    def __init__(self, address: str, code: int = Code.USE_ANOTHER_SERVER) -> None:
        super().__init__(code, f"this client is expected at {address}")
        self.address = address


class Asked(msgspec.Struct, frozen=True):
    """A client that was asked to move, under a plan."""

    epoch: int
    target: int


class Way(msgspec.Struct):
    """A client on its way elsewhere."""

    target: int
    since: float
    has_gone: bool = False  # it was told to go; before that its session is copied


class Moving:
    """The clients of one broker that are to move. ``fabric`` is what the broker does with its neighbours."""

    def __init__(self, fabric: Any) -> None:
        self._fabric, self._state = fabric, fabric.state
        self._limits = fabric.state.config.moves
        self._queue: dict[str, int] = {}  # clients that are to be asked, and where they are to go
        self._ways: dict[str, Way] = {}  # clients that are on their way
        self._declined: dict[str, int] = {}  # clients whom the other broker did not want yet, and where they are to go
        self._tries: dict[str, int] = {}
        self._asked: dict[str, Asked] = {}
        self._stayed: set[str] = set()
        self._came: set[str] = set()
        self._follows: set[str] = set()  # clients here that say that they go where they are sent
        self._ready: set[int] = set()  # subscriptions that are served here, and may go on to their flows
        self._filled = self._looked = 0.0
        self._may = 0.0  # clients that may be asked now
        self.leaves = False  # whether this broker is left for good
        self.migrating: Any = None  # the ``Migrating`` of this broker, if clients migrate without a coordinator
        self.went = 0  # clients that have gone where they were asked to go
        fabric.epochs.on_used.append(self._begin)
        fabric.roaming.replicas.on_answer = self._copied
        fabric.roaming.on_left = self._left

    def _begin(self) -> None:
        """Another plan is in use: everybody may be asked anew."""
        self.stop()
        self._tries.clear()
        self._asked.clear()
        self._stayed.clear()
        self._came.clear()
        self._ready.clear()
        expected = self._expected
        self._ready |= {id_ for id_ in expected if id_ in self._state.subscriptions}

    @property
    def asked(self) -> int:
        """How many clients are to be asked, or are on their way."""
        return len(self._queue) + len(self._declined) + len(self._ways)

    @property
    def under_way(self) -> int:
        """How many clients are on their way."""
        return len(self._ways)

    @property
    def stayed(self) -> int:
        """How many clients were asked under this plan, and came back or cannot follow."""
        return len(self._stayed)

    @property
    def came(self) -> int:
        """How many clients have come here under this plan, as it wants."""
        return len(self._came)

    @property
    def _expected(self) -> dict[int, list[int]]:
        used = self._fabric.epochs.used
        return {} if used is None else used.portion.expected

    def home_of(self, client: str) -> int | None:
        """The broker that the plan in use has a client at, if it says so."""
        used = self._fabric.epochs.used
        return None if used is None else used.package.homes.get(client)

    # Clients here

    def ask(self, clients: dict[str, int], leaves: bool = False, again: bool = False) -> None:
        """Puts clients that are here into the queue of those that are asked to move. ``leaves`` says that this broker
        is left for good, ``again`` that they may have been asked under this plan before."""
        self.leaves = leaves
        for name, target in clients.items():
            if again:
                self._asked.pop(name, None)
            if name in self._state.sessions and target != self._state.config.number:
                self._queue[name] = target
        self._pump()

    def may_migrate(self, name: str, target: int) -> bool:
        """Whether a client here would follow to another broker, and no plan wants it anywhere else."""
        busy = name in self._queue or name in self._ways or name in self._stayed
        return name in self._follows and not busy and self.home_of(name) in (None, target)

    def stop(self) -> None:
        """Asks nobody who was not asked yet."""
        self._queue.clear()
        self._declined.clear()

    def tick(self, now: float) -> None:
        """Asks those whose turn it is, and lets subscriptions go on to their flows."""
        for name, way in [(name, way) for name, way in self._ways.items() if now - way.since > PATIENCE]:
            del self._ways[name]
            if not way.has_gone:
                self._fabric.roaming.replicas.stay(name)
                self._stay(name, way.target)
        self._queue |= self._declined
        self._declined.clear()
        self._pump()
        if now - self._looked >= PAUSE:
            self._looked = now
            self._go_on()
        if self.migrating is not None:
            self.migrating.tick(now)

    def _pump(self) -> None:
        """Begins with as many of those who wait as the limits allow."""
        now, rate = self._state.now, self._limits.rate
        self._may = min(max(rate, 1.0), self._may + rate * max(0.0, now - self._filled))
        self._filled = now
        waiting = len(self._queue)
        while waiting and self._queue and self._may >= 1 and len(self._ways) < self._limits.leaving:
            waiting -= 1
            name = next(iter(self._queue))
            self._start(name, self._queue.pop(name))

    def _start(self, name: str, target: int) -> None:
        """Copies the session of a client that is to move."""
        session, epoch = self._state.sessions.get(name), self._fabric.epochs.active
        if session is None or self._address(target) is None:
            return
        if name in self._asked and self._asked[name].epoch == epoch:
            return
        if session.link is None:
            return  # a client that follows is sent on when it connects
        if session.link.version != MQTT_5:
            self._stay(name, target)
            return
        if not self._fabric.roaming.copy(name, target):
            self._queue[name] = target
            return
        self._may -= 1
        self._ways[name] = Way(target, self._state.now)

    def _copied(self, name: str, accepts: bool) -> None:
        """The copy of a session is ready, or the other broker does not want it."""
        way, session = self._ways.get(name), self._state.sessions.get(name)
        if way is None:
            return
        if not accepts or session is None or session.link is None:
            del self._ways[name]
            self._fabric.roaming.replicas.stay(name)
            if not accepts:
                self._try_later(name, way.target)
            self._pump()
            return
        way.has_gone, way.since = True, self._state.now
        self._asked[name] = Asked(self._fabric.epochs.active, way.target)
        self._send_away(session, session.link, way.target)

    def _try_later(self, name: str, target: int) -> None:
        """The other broker does not want a client: perhaps later, or else it stays."""
        self._tries[name] = self._tries.get(name, 0) + 1
        if self._tries[name] < TRIES:
            self._declined[name] = target
        else:
            self._stay(name, target)

    def _stay(self, name: str, target: int) -> None:
        """A client stays here under this plan."""
        self._asked[name] = Asked(self._fabric.epochs.active, target)
        self._stayed.add(name)

    def _send_away(self, session: Session, link: Link, target: int) -> None:
        code = Code.SERVER_MOVED if self.leaves else Code.USE_ANOTHER_SERVER
        link.send(Disconnect(code, {REFERENCE: self._address(target)}))
        link.closed = True
        self._state.dirty[link] = None
        expiry, session.expiry = session.expiry, max(session.expiry, WAIT)
        connecting.leave(self._state, link, session)
        self._fabric.roaming.hand(session.client_id, expiry)

    def _left(self, name: str) -> None:
        """Another broker has the session of a client."""
        way = self._ways.pop(name, None)
        self._follows.discard(name)
        self._asked.pop(name, None)  # if it begins here again some day, it may be sent on
        if way is not None:
            self.went += way.has_gone
            self._pump()

    def _address(self, broker: int) -> str | None:
        return self._fabric.address_of(broker)  # type: ignore[no-any-return]

    # Clients that connect

    def send_on(self, link: Link, packet: Connect) -> None:
        """Raises a ``MovedError`` if a client that has connected here, and follows, is to be elsewhere."""
        home, name = self.home_of(packet.client_id), packet.client_id
        if FOLLOWS in packet.properties.get("user_properties", ()):
            self._follows.add(name)
        else:
            self._follows.discard(name)
        if home is None or home == self._state.config.number or packet.version != MQTT_5:
            return
        epoch = self._fabric.epochs.active
        asked = self._asked.get(name)
        if asked is not None and asked.epoch == epoch:
            self._stayed.add(name)
            return
        address = self._address(home)
        if address is not None and name in self._follows:
            self._asked[name] = Asked(epoch, home)
            raise MovedError(address, Code.SERVER_MOVED if self.leaves else Code.USE_ANOTHER_SERVER)

    def arrived(self, name: str) -> None:
        """A client has its session here now."""
        if self._ways.pop(name, None) is not None:
            self._pump()
        asked = self._asked.pop(name, None)
        if asked is not None and asked.epoch == self._fabric.epochs.active:
            self._stayed.add(name)
            self._asked[name] = asked
        elif self.home_of(name) == self._state.config.number:
            self._came.add(name)
        for made in self._state.sessions[name].subscriptions.values():
            if made.number in self._expected and made.number not in self._state.unserved:
                self._ready.add(made.number)

    # Their subscriptions

    def served(self, subscription: int) -> None:
        """The whole network serves a subscription that was made here."""
        if subscription in self._expected and not self._state.is_elsewhere(subscription):
            self._ready.add(subscription)

    def _go_on(self) -> None:
        """Moves all subscriptions that are ready to the flows that the plan has for them."""
        ready, self._ready = self._ready, set()
        for id_ in sorted(ready):
            if self._state.router.is_on_its_way(id_):
                self._ready.add(id_)
            elif id_ in self._state.subscriptions and id_ not in self._state.unserved:
                try:
                    self._state.act(self._state.router.move(id_, *self._expected.get(id_, ())))
                except RoutingError as error:
                    self._state.log("stays_late", subscription=id_, reason=str(error))
