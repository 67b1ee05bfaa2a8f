"""Two brokers in one process, joined by bytes instead of sockets, carry each other's events.

So whoever forks brokers has loaded the kernels of links, too: else every broker of a network would do that by itself,
and be silent meanwhile, when its first event comes, its first subscription goes, or another plan comes into use.
"""

import msgspec

from overstory.broker.config import Config
from overstory.broker.core import Core
from overstory.broker.fabric import Fabric
from overstory.broker.fast import Fast
from overstory.broker.joining import Joining
from overstory.broker.link import Link
from overstory.broker.place import Place
from overstory.broker.places import Who, neighbours_of, next_hops
from overstory.broker.state import State
from overstory.broker.tick import Tick
from overstory.filters import parse_filter
from overstory.model.plan import EVERYTHING
from overstory.model.tables import STEINER
from overstory.routing.messages import LATE
from overstory.routing.recent import RecentEvents
from overstory.routing.share import FlowShare, Member, Share, tree_shares
from overstory.wire.encode import encode
from overstory.wire.frames import Reader
from overstory.wire.handshake import decode_hello
from overstory.wire.packets import Asked, Connect, Packet, Publish, Subscribe, Unsubscribe

FILTERS = (
    "#?price > 2 AND name = 'a'",
    "#?price > 3 AND name = 'a'",
    "#?name LIKE 'a%' OR price < 2",
    "a/+",
    "#?price > 5",  # only ranges, which are filed by kernels of their own
)
STAYS = "a/b"  # a subscription that is there when the plan changes
STEERED_FLOW = 0


class Half:
    """One of the two brokers, with a client."""

    def __init__(self, number: int, shares: dict[int, Share]) -> None:
        share, config = shares[number], Config(number=number, types={"price": "number"})
        place = Place(share, neighbours_of(number, share), next_hops(number, shares), "plan")
        self.state = State(config, False, 0.0, router=Joining(place, Who({}, {}), {}).router(config, 0.0))
        self.fabric = self.state.fabric = Fabric(self.state, place)
        self.core = Core(self.state)
        self.tick = Tick(self.core)
        Fast(self.fabric, self.tick)
        self.fabric.start()
        self.neighbour = self.fabric.neighbours[1 - number]
        self.link = Link()

    def send(self, *packets: Packet) -> None:
        """The client sends packets."""
        self.tick.add(self.link, b"".join(encode(packet) for packet in packets))

    def turn(self) -> bytes:
        """Runs one turn of the broker. Returns the bytes for the other broker."""
        while self.tick.pending:
            self.tick.run()
        self.core.tidy(1000)
        self.state.dirty.clear()
        self.fabric.run(1000)
        self.fabric.flush()
        return b"".join(self.neighbour.data_to_send())


def carry_between_two() -> tuple[int, int]:
    """Has two brokers make and end subscriptions, and carry events of QoS 0 and 1. Returns how many messages a client
    got, and about how many of them kernels did not decide."""
    shares = tree_shares([(0, 1)], epoch=1)
    one, other = halves = Half(0, shares), Half(1, shares)
    hellos = [decode_hello(next(Reader().feed(half.neighbour.hello())).body) for half in halves]
    for half, hello in zip(halves, reversed(hellos), strict=True):
        half.fabric.up(half.neighbour.peer, half.neighbour.connect(hello, 0.0))
    _settle(halves)
    for half in halves:
        half.send(Connect(f"client {half.neighbour.peer}"))
    _settle(halves)
    other.send(Subscribe(1, tuple(Asked(text, 1) for text in FILTERS)))
    _settle(halves)
    properties = {"user_properties": [("price", "4"), ("name", "a")]}
    for qos in (0, 0, 0, 1, 1):  # what is like something before is looked up
        ids = (1, 2) if qos else (0, 0)
        one.send(*(Publish("a/b", b"", qos, packet_id=id_, properties=properties) for id_ in ids))
        _settle(halves)
    other.send(Unsubscribe(2, FILTERS))
    _settle(halves)
    _switch(halves)
    _remember()
    return other.state.counts.messages_out, sum(half.state.counts.plain for half in halves)


def _switch(halves: tuple[Half, Half]) -> None:
    """Both begin to use a plan with a steered flow, one after the other, while events come."""
    one, other = halves
    other.send(Subscribe(3, (Asked(STAYS, 0),)))
    _settle(halves)
    ((id_, home),) = other.state.router.state.homes.items()
    members = {other: (Member(STEERED_FLOW, id_, home.client, home.filter, version=home.version),)}
    shares = tree_shares([(0, 1)], epoch=2)
    for half in halves:
        share = shares[half.state.config.number]
        steered = FlowShare(STEERED_FLOW, parse_filter(EVERYTHING), share.flows[LATE].neighbours, kind=STEINER)
        whole = msgspec.structs.replace(
            share,
            flows={**share.flows, STEERED_FLOW: steered},
            members=members.get(half, ()),
            planned={id_: home.version},
            prices={(0, 1): 1.0, (1, 0): 1.0},
        )
        half.fabric.act(half.state.router.install(whole))
    _settle(halves)
    for half in (other, one):  # so the first event still follows the plan before
        half.fabric.act(half.state.router.activate(2))
        one.send(*[Publish(STAYS, b"", properties={"user_properties": [("name", "1")]})] * 2)
        _settle(halves)


def _remember() -> None:
    """Remembers more events than there is room for at first, and forgets them."""
    recent = RecentEvents()
    for number in range(2):
        recent.add(0, 0, number, 0.0)
    recent.make_room(len(recent.arrays.times))
    recent.forget(0)


def _settle(halves: tuple[Half, Half]) -> None:
    """Carries bytes to and fro until there are none."""
    moved = True
    while moved:
        moved = False
        for half, there in (halves, halves[::-1]):
            data = half.turn()
            if data:
                moved = True
                there.fabric.arrived(there.neighbour, there.neighbour.receive(data, 0.0))
