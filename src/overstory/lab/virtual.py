"""A network of brokers in one process, under a clock of its own: the product's brokers, with wires in place of sockets.

1. Brokers, links, disks and clients are the product's; only sockets, processes and time are played. A disk is an SQLite
   database in memory that outlives its broker. What a broker has not committed when it is killed is gone.
2. Time goes on in steps. In each one all bytes arrive that were sent long enough ago, and every broker has a turn.
3. A broker that hangs has no turns: its connections stay, until its neighbours find it silent. A cut wire breaks the
   connection on both sides, and neighbours try again in every step, as soon as they can.
"""

import random
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from overstory.broker.config import Config
from overstory.broker.core import Core
from overstory.broker.fabric import Fabric, Place
from overstory.broker.fast import Fast
from overstory.broker.identities import Store, recall, recall_network
from overstory.broker.joining import Joining
from overstory.broker.journal import Batch
from overstory.broker.link import Link
from overstory.broker.places import Who, introduce
from overstory.broker.state import State
from overstory.broker.tick import Tick
from overstory.errors import LinkError
from overstory.lab.steady import Steady
from overstory.wire.frames import Reader
from overstory.wire.handshake import decode_hello

STEP = 0.05  # seconds
OFTEN = 5  # steps between two looks at the clock
SLICE = 200  # messages and events of neighbours in one turn, as in ``broker.peers``
BEGINNING = 1_000_000.0  # seconds
NOBODY = Who({}, {})
Wire = tuple[int, int]


class VirtualBroker:
    """One broker between two kills."""

    def __init__(
        self, config: Config, place: Place, store: Store | None, now: float, kernels: bool, who: Who = NOBODY
    ) -> None:
        joining = Joining(place, who, {})
        counter = 0 if store is None else store.meta("counter")
        self.store = store
        self.state = State(config, store is not None, now, counter, router=joining.router(config, now))
        if store is not None:
            recall(self.state, store)
        self.fabric = self.state.fabric = Fabric(self.state, place, config.window)
        introduce(self.state, place, who)
        self.fabric.start()
        if store is not None:
            recall_network(self.state, store)
        self.core = Core(self.state)
        self.tick = Tick(self.core)
        if kernels:
            Fast(self.fabric, self.tick)
        else:
            self.state.decide = None
        self.lost: dict[int, float] = {}  # since when neighbours have no connection
        self._batch: Batch | None = None  # that is being written
        self._is_written = False

    def turn(self, now: float, dice: random.Random) -> None:
        """One turn, as ``Server.turn`` has it. A commit takes some turns."""
        self.core.set_time(now)
        self.tick.run()
        self.fabric.run(SLICE)
        self.fabric.flush()
        self.core.tidy(SLICE)
        self._commit(dice)

    def _commit(self, dice: random.Random) -> None:
        if self._batch is None:
            self._batch = self.state.journal.take()
            self._is_written = self._batch is not None and (self.store is None or not self._batch.changes)
        if self._batch is None or dice.random() < 0.3:
            return
        if not self._is_written and self.store is not None:
            self.store.write(self._batch.changes)
            self._is_written = True
            return
        batch, self._batch = self._batch, None
        self.state.journal.written(batch)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to do, here or for a neighbour."""
        return (
            self.fabric.is_idle
            and self._batch is None
            and not self.state.journal
            and not self.core.chores
            and not self.tick.pending
            and not any(link.waiting_bytes for link in self.fabric.neighbours.values())
            and not len(self.fabric.stranding)
        )


class Attached(NamedTuple):
    """A client, and where it is."""

    client: Steady
    broker: int


class VirtualNetwork:
    """Brokers, wires and clients."""

    def __init__(
        self, places: Mapping[int, Place], seed: int, durable: bool, kernels: bool = True, who: Who = NOBODY
    ) -> None:
        self.places, self.dice, self.kernels, self.who = dict(places), random.Random(seed), kernels, who
        self.now, self._steps = BEGINNING, 0
        self.stores = {broker: Store(":memory:") if durable else None for broker in places}
        self.brokers: dict[int, VirtualBroker] = {}
        self.hung: set[int] = set()
        self.cut_wires: set[Wire] = set()
        self.delays: dict[Wire, float] = {}
        self.connections: dict[Wire, int] = {}  # how often each was made
        self.clients: list[Attached] = []
        self._links: dict[str, Link] = {}  # of clients that are connected
        self._under_way: dict[Wire, deque[tuple[float, bytes]]] = {}
        for broker in self.places:
            self.start(broker)

    @property
    def wires(self) -> list[Wire]:
        """All links, each once."""
        return [(one, other) for one, place in self.places.items() for other in place.neighbours if one < other]

    # What fails

    def start(self, broker: int) -> None:
        """Starts a broker, for the first time or with the disk of the one before."""
        place = self.places[broker]
        place = self.places[broker] = msgspec.structs.replace(place, incarnation=place.incarnation + 1)
        store = self.stores[broker]
        self.brokers[broker] = VirtualBroker(Config(number=broker), place, store, self.now, self.kernels, self.who)
        self.brokers[broker].lost = dict.fromkeys(place.neighbours, self.now)

    def kill(self, broker: int) -> None:
        """A broker is gone, with all that is not on its disk."""
        del self.brokers[broker]
        self.hung.discard(broker)
        for peer in self.places[broker].neighbours:
            self._break(broker, peer)
        for client, at in self.clients:
            if at == broker:
                self._links.pop(client.name, None)

    def cut(self, wire: Wire) -> None:
        """Breaks a wire between two brokers, until it is mended."""
        self.cut_wires.add(wire)
        self._break(*wire)

    def _break(self, one: int, other: int) -> None:
        for here, there in ((one, other), (other, one)):
            self._under_way.pop((here, there), None)
            broker = self.brokers.get(here)
            if broker is not None and broker.fabric.neighbours[there].connected:
                broker.fabric.neighbours[there].disconnect()
                broker.lost[there] = self.now

    # Time

    def step(self) -> None:
        """Time goes on a little."""
        self.now += STEP
        self._steps += 1
        for wire in self.wires:
            self._connect(*wire)
        for broker in sorted(self.brokers.keys() - self.hung):
            self._arrive(broker)
            self._serve(broker)
            self.brokers[broker].turn(self.now, self.dice)
            self._write(broker)
            if self._steps % OFTEN == 0:
                self._look_at_the_clock(broker)

    def _connect(self, one: int, other: int) -> None:
        """Neighbours that have no connection make one, if they can."""
        able = self.brokers.keys() - self.hung
        if one not in able or other not in able or (one, other) in self.cut_wires:
            return
        sides = self.brokers[one].fabric.neighbours[other], self.brokers[other].fabric.neighbours[one]
        if any(side.connected for side in sides):
            return
        hellos = [decode_hello(next(Reader().feed(side.hello())).body) for side in sides]
        for at, (number, peer) in enumerate(((one, other), (other, one))):
            up = sides[at].connect(hellos[1 - at], self.now)
            self.brokers[number].lost.pop(peer, None)
            self.brokers[number].fabric.up(peer, up)
        self.connections[one, other] = self.connections.get((one, other), 0) + 1

    def _arrive(self, broker: int) -> None:
        """What was sent to a broker long enough ago has come."""
        fabric = self.brokers[broker].fabric
        for peer in sorted(self.places[broker].neighbours):
            queue = self._under_way.get((peer, broker), deque())
            while queue and queue[0][0] <= self.now:
                fabric.arrived(fabric.neighbours[peer], fabric.neighbours[peer].receive(queue.popleft()[1], self.now))

    def _write(self, broker: int) -> None:
        fabric = self.brokers[broker].fabric
        fabric.flush()
        for peer, neighbour in fabric.neighbours.items():
            data = b"".join(neighbour.data_to_send())
            if data:
                delay = self.delays.get((min(broker, peer), max(broker, peer)), 0.0)
                self._under_way.setdefault((broker, peer), deque()).append((self.now + delay, data))

    def _look_at_the_clock(self, broker: int) -> None:
        made = self.brokers[broker]
        made.core.tick(self.now)
        router = made.state.router
        made.fabric.act(router.tick(max(self.now, router.state.now)))
        for peer, neighbour in made.fabric.neighbours.items():
            try:
                neighbour.tick(self.now)
            except LinkError:
                self._break(broker, peer)
        for peer, since in list(made.lost.items()):
            if self.now - since > made.fabric.window.grace:
                del made.lost[peer]
                made.fabric.down(peer)

    # Clients

    def attach(self, client: Steady, broker: int) -> None:
        """A client is at a broker from now on. It connects whenever it has no connection."""
        self.clients.append(Attached(client, broker))

    def broker_of(self, client: Steady) -> int:
        """Where a client is."""
        return next(broker for one, broker in self.clients if one is client)

    def reattach(self, client: Steady, broker: int) -> None:
        """A client goes to another broker."""
        at = self.broker_of(client)
        link = self._links.pop(client.name, None)
        if link is not None and at in self.brokers:
            self.brokers[at].tick.forget(link)
            self.brokers[at].core.lost(link)
        client.is_connected = False
        self.clients = [Attached(one, broker if one is client else here) for one, here in self.clients]

    def publish(self, client: Steady, topic: str, number: int, qos: int) -> None:
        """A client publishes an event, now or when it is connected."""
        data = client.publish(topic, number, qos)
        link = self._links.get(client.name)
        at = next(broker for one, broker in self.clients if one is client)
        if data and link is not None and at in self.brokers:
            self.brokers[at].tick.add(link, data)

    def _serve(self, broker: int) -> None:
        """Clients of a broker get what it has for them, and answer."""
        made = self.brokers[broker]
        if not made.fabric.is_active:
            return
        for client, at in self.clients:
            if at != broker:
                continue
            link = self._links.get(client.name)
            if link is None:
                link = self._links[client.name] = Link(made.state.limits.packet, self.now)
                made.tick.add(link, client.connect())
            answer = client.receive(bytes(link.data_to_send()))
            if link.closed:
                made.tick.forget(link)
                made.core.lost(link)
                del self._links[client.name]
            elif answer:
                made.tick.add(link, answer)

    @property
    def is_idle(self) -> bool:
        """Whether everybody is there, and nothing is under way."""
        return (
            len(self.brokers) == len(self.places)
            and all(broker.is_idle and broker.fabric.is_active for broker in self.brokers.values())
            and all(client.is_connected and not client.inflight for client, _ in self.clients)
        )
