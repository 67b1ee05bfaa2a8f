"""Several brokers in one process, joined by links without sockets. Clients talk to each in packets."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from overstory.broker.config import Config
from overstory.broker.core import Core
from overstory.broker.fabric import Fabric, Place
from overstory.broker.fast import Fast
from overstory.broker.joining import Joining
from overstory.broker.places import Who, introduce, neighbours_of, next_hops
from overstory.broker.state import State
from overstory.broker.tick import Tick
from overstory.routing.share import Share
from overstory.wire.encode import encode
from overstory.wire.frames import Reader
from overstory.wire.handshake import decode_hello
from overstory.wire.packets import MQTT_5, Connect

from .house import Client, House


class Broker(House):
    """One broker of a net."""

    def __init__(
        self,
        number: int,
        place: Place,
        who: Who,
        kernels: bool = True,
        kinds: Sequence[type[Any]] = (),
        **settings: Any,
    ) -> None:
        config = Config(number=number, **settings)
        joining = Joining(place, who, {})
        self.state = State(config, False, 1000.0, router=joining.router(config, 1000.0))
        self.core = Core(self.state)
        self.tick = Tick(self.core) if kernels else None
        self.fabric = self.state.fabric = Fabric(self.state, place, config.window, kinds)
        if self.tick is not None:
            Fast(self.fabric, self.tick)
        introduce(self.state, place, who)
        self.fabric.start()
        self.wait: Callable[[], None] | None = None  # until other brokers have answered

    def connect(self, name: str = "", version: int = MQTT_5, **given: Any) -> Client:
        """A client that has connected, though its session was elsewhere."""
        client = Client(self, version)
        client.send(Connect(name, version, **given))
        if client.link.waits and self.wait is not None:
            self.wait()
        client.connack, *others = client.received()
        client._data[:0] = b"".join(encode(packet, version) for packet in others)
        return client


class Net:
    """Brokers, and the bytes between them."""

    def __init__(
        self, places: Mapping[int, Place], who: Who | None = None, connected: bool = True, **settings: Any
    ) -> None:
        self.places, self.who, self.settings = dict(places), who or Who({}, {}), settings
        self.brokers = {number: Broker(number, place, self.who, **settings) for number, place in places.items()}
        for broker in self.brokers.values():
            broker.wait = self.settle
        self.wires: dict[tuple[int, int], bytes] = {}
        self.errors: list[str] = []
        for link in self.links if connected else ():
            self.mend(*link)
        self.settle()

    @property
    def links(self) -> list[tuple[int, int]]:
        return [(one, other) for one, place in self.places.items() for other in place.neighbours if one < other]

    def mend(self, one: int, other: int) -> None:
        """Two neighbours connect."""
        sides = self.brokers[one].fabric.neighbours[other], self.brokers[other].fabric.neighbours[one]
        hellos = []
        for side in sides:
            (raw,) = Reader().feed(side.hello())
            hellos.append(decode_hello(raw.body))
        for at, (number, peer) in enumerate(((one, other), (other, one))):
            up = sides[at].connect(hellos[1 - at], 0.0)
            self.brokers[number].fabric.up(peer, up)
        self.wires.pop((one, other), None)
        self.wires.pop((other, one), None)

    def cut(self, one: int, other: int) -> None:
        """The connection is gone, and all that was under way on it."""
        for number, peer in ((one, other), (other, one)):
            self.brokers[number].fabric.neighbours[peer].disconnect()
            self.wires.pop((number, peer), None)

    def down(self, one: int, other: int) -> None:
        """The connection has been gone for a while."""
        for number, peer in ((one, other), (other, one)):
            self.brokers[number].fabric.down(peer)

    def restart(self, number: int, incarnation: int) -> None:
        """A broker dies, and comes back without its state."""
        for peer in self.places[number].neighbours:
            self.cut(number, peer)
        place = msgspec.structs.replace(self.places[number], incarnation=incarnation)
        self.places[number] = place
        self.brokers[number] = Broker(number, place, self.who, **self.settings)
        self.brokers[number].wait = self.settle
        for peer in place.neighbours:
            self.mend(number, peer)

    def step(self, number: int, most: int = 10**9) -> bool:
        """One turn of a broker, which writes to its wires. Returns whether there was anything to do."""
        broker = self.brokers[number]
        busy = bool(broker.fabric._inbox) or not broker.fabric.is_idle
        broker.fabric.run(most)
        broker.fabric.flush()
        for peer, neighbour in broker.fabric.neighbours.items():
            data = b"".join(neighbour.data_to_send())
            if data:
                self.wires[number, peer] = self.wires.get((number, peer), b"") + data
                busy = True
        return busy

    def carry(self, source: int, target: int) -> None:
        """All bytes on a wire arrive."""
        data = self.wires.pop((source, target), b"")
        if data:
            fabric = self.brokers[target].fabric
            neighbour = fabric.neighbours[source]
            fabric.arrived(neighbour, neighbour.receive(data, 0.0))

    def settle(self) -> None:
        """Goes on until nothing is left to do."""
        while True:
            busy = [self.step(number) for number in self.brokers]
            for broker in self.brokers.values():
                while broker.tick is not None and broker.tick.pending:
                    broker.tick.run()
            carried = list(self.wires)
            for wire in carried:
                self.carry(*wire)
            if not any(busy) and not carried:
                return


def places_in(shares: Mapping[int, Share], fingerprint: str = "plan") -> dict[int, Place]:
    """The places of brokers with these shares of a plan."""
    return {
        number: Place(share, neighbours_of(number, share), next_hops(number, shares), fingerprint)
        for number, share in shares.items()
    }
