"""Clients that the plan wants at another broker: they are asked to go there, and served here until they have gone.

1. A client that speaks MQTT 5 is asked once for each plan: DISCONNECT with 0x9C and the other broker's address (Server
   Reference). Its session stays here, with everything that comes for it, until the client connects there and the
   session is fetched (``roaming``), or until ``Limits`` run out.
2. A client that comes back here instead is served here. Most clients do not follow; nobody is refused for that.
3. A client that says that it follows (a user property of CONNECT) is sent on at CONNECT, before it has a session here.
4. Requests wait in a queue, and leave it at a rate.
5. Subscriptions of a client that has come are in the late flow first. Once they are served there, they go on to the
   flows that the plan has for them, all that are ready at once: while subscriptions move, kernels do not decide.
"""

from typing import Any

import msgspec

from overstory.broker import connecting
from overstory.broker.link import Link
from overstory.errors import ProtocolError, RoutingError
from overstory.wire.packets import MQTT_5, Code, Connect, Disconnect
from overstory.wire.topics import FOLLOWS

REFERENCE = "server_reference"
WAIT = 60  # seconds for which a session waits for its client to connect elsewhere, at least
RATE = 200.0  # clients that are asked in a second
PAUSE = 0.5  # seconds between two looks at subscriptions that may go on to their flows


class MovedError(ProtocolError):
    """A client is to connect elsewhere."""

    def __init__(self, address: str) -> None:
        super().__init__(Code.USE_ANOTHER_SERVER, f"the plan has this client at {address}")
        self.address = address


class Asked(msgspec.Struct):
    """A client that was asked to move, under a plan."""

    epoch: int
    target: int
    expiry: int  # what its session had


class Moving:
    """The clients of one broker that are to move. ``fabric`` is what the broker does with its neighbours."""

    def __init__(self, fabric: Any) -> None:
        self._fabric, self._state = fabric, fabric.state
        self._queue: dict[str, int] = {}  # clients that are to be asked, and where they are to go
        self._asked: dict[str, Asked] = {}
        self._stayed: set[str] = set()
        self._came: set[str] = set()
        self._ready: set[int] = set()  # subscriptions that are served here, and may go on to their flows
        self._now = self._looked = 0.0
        self._may = 0.0  # clients that may be asked now
        fabric.epochs.on_used.append(self._begin)

    def _begin(self) -> None:
        """Another plan is in use: everybody may be asked anew."""
        self._queue.clear()
        self._asked.clear()
        self._stayed.clear()
        self._came.clear()
        self._ready.clear()
        expected = self._expected
        self._ready |= {id_ for id_ in expected if id_ in self._state.subscriptions}

    @property
    def asked(self) -> int:
        """How many clients are to be asked, or were asked and are still expected to go."""
        waiting = sum(name in self._state.sessions for name in self._asked if name not in self._stayed)
        return len(self._queue) + waiting

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

    def ask(self, clients: dict[str, int]) -> None:
        """Puts clients that are here into the queue of those that are asked to move."""
        for name, target in clients.items():
            if name in self._state.sessions and target != self._state.config.number:
                self._queue[name] = target

    def stop(self) -> None:
        """Asks nobody who was not asked yet."""
        self._queue.clear()

    def tick(self, now: float) -> None:
        """Asks those whose turn it is, and lets subscriptions go on to their flows."""
        passed, self._now = now - self._now, now
        self._may = min(RATE, self._may + RATE * passed)
        while self._queue and self._may >= 1:
            self._may -= 1
            name = next(iter(self._queue))
            self._send_away(name, self._queue.pop(name))
        if now - self._looked >= PAUSE:
            self._looked = now
            self._go_on()

    def _send_away(self, name: str, target: int) -> None:
        session, address = self._state.sessions.get(name), self._address(target)
        if session is None or address is None:
            return
        epoch, link = self._fabric.epochs.active, session.link
        if name in self._asked and self._asked[name].epoch == epoch:
            return
        self._asked[name] = Asked(epoch, target, session.expiry)
        if link is None:
            return  # it is asked when it connects
        if link.version != MQTT_5:
            self._stayed.add(name)
            return
        link.send(Disconnect(Code.USE_ANOTHER_SERVER, {REFERENCE: address}))
        link.closed = True
        self._state.dirty[link] = None
        session.expiry = max(session.expiry, WAIT)
        connecting.leave(self._state, link, session)

    def _address(self, broker: int) -> str | None:
        return self._fabric.address_of(broker)  # type: ignore[no-any-return]

    # Clients that connect

    def send_on(self, link: Link, packet: Connect) -> None:
        """Raises a ``MovedError`` if a client that has connected here, and follows, is to be elsewhere."""
        home, name = self.home_of(packet.client_id), packet.client_id
        if home is None or home == self._state.config.number or packet.version != MQTT_5:
            return
        epoch = self._fabric.epochs.active
        asked = self._asked.get(name)
        if asked is not None and asked.epoch == epoch:
            self._stayed.add(name)
            return
        address = self._address(home)
        if address is not None and FOLLOWS in packet.properties.get("user_properties", ()):
            self._asked[name] = Asked(epoch, home, 0)
            raise MovedError(address)

    def arrived(self, name: str) -> None:
        """A client has its session here now."""
        asked = self._asked.pop(name, None)
        if asked is not None and asked.epoch == self._fabric.epochs.active:
            self._stayed.add(name)
            self._asked[name] = asked
        elif self.home_of(name) == self._state.config.number:
            self._came.add(name)

    # Their subscriptions

    def served(self, subscription: int) -> None:
        """The whole network serves a subscription that was made here."""
        if subscription in self._expected:
            self._ready.add(subscription)

    def _go_on(self) -> None:
        """Moves all subscriptions that are ready to the flows that the plan has for them."""
        ready, self._ready = self._ready, set()
        for id_ in sorted(ready):
            if id_ in self._state.subscriptions and id_ not in self._state.unserved:
                try:
                    self._state.act(self._state.router.move(id_, *self._expected.get(id_, ())))
                except RoutingError as error:
                    self._state.log("stays_late", subscription=id_, reason=str(error))
