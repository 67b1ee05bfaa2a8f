"""An event of a steered flow that no way leads on for waits, and arrives when there is a way again, whichever it is."""

from typing import Any

import pytest

from overstory.broker.places import Who
from overstory.broker.pressure import LinkLimits
from overstory.model.tables import PATHS, STEINER
from overstory.wire.packets import Ack, Publish

from .house import Client
from .nets import Net, places_in
from .test_departing import CLIENT, RING, shares

HOST = 3  # whose neighbours are 2 and 4


class Ring:
    """Five brokers in a ring with steered flows, a subscriber at one of them and a publisher at another."""

    def __init__(self, kind: str, ordered: bool, kernels: bool, **settings: Any) -> None:
        least = [99, 99, 99, 0, 99]
        subscriptions = {CLIENT + HOST: [(HOST + 1, "price > 0", False)]}
        who = Who({f"c{b}": CLIENT + b for b in range(len(RING))}, subscriptions)
        self.net = Net(
            places_in(shares([(kind, ordered)] * 3, least)), who, kernels=kernels, types={"price": "number"}, **settings
        )
        self.subscriber = self.net.brokers[HOST].connect("c3")
        self.subscriber.subscribe("#?price > 0", qos=2)
        self.publisher = self.net.brokers[0].connect("c0")
        self.net.settle()

    def publish(self, number: int, qos: int, at: Client | None = None) -> None:
        properties = {"user_properties": [("price", "2")]}
        (at or self.publisher).send(
            Publish("t", b"%d" % number, qos, packet_id=number * (qos > 0), properties=properties)
        )
        self.net.settle()

    def cut(self, *links: tuple[int, int]) -> None:
        for link in links:
            self.net.cut(*link)
            self.net.down(*link)
        self.net.settle()

    def mend(self, *link: int) -> None:
        self.net.mend(*link)
        self.net.settle()

    @property
    def held(self) -> list[int]:
        return [len(broker.fabric.stranding) for broker in self.net.brokers.values()]

    def came(self) -> list[bytes]:
        return [packet.payload for packet in self.subscriber.received() if isinstance(packet, Publish)]

    def acknowledged(self) -> list[int]:
        return [packet.packet_id for packet in self.publisher.received() if isinstance(packet, Ack)]


@pytest.fixture(params=[(PATHS, False, True), (STEINER, True, True), (STEINER, True, False)], ids=str)
def ring(request: pytest.FixtureRequest) -> Ring:
    return Ring(*request.param)


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("mended", [(2, 3), (3, 4)])
def test_it_is_acknowledged_when_it_has_arrived(ring: Ring, qos: int, mended: tuple[int, int]) -> None:
    ring.cut((2, 3), (3, 4))
    for number in (1, 2, 3):
        ring.publish(number, qos)
    assert ring.came() == []
    assert ring.acknowledged() == []
    assert sum(ring.held) == 3
    ring.mend(*mended)
    assert ring.came() == [b"1", b"2", b"3"]
    assert ring.acknowledged() == [1, 2, 3]
    assert sum(ring.held) == 0


def test_it_waits_where_it_is_when_the_last_way_fails_and_goes_back_if_need_be(ring: Ring) -> None:
    """Broker 0 has not heard that links are down: broker 4 finds out, and later the way is through 1 and 2."""
    for link in ((2, 3), (3, 4)):
        ring.net.cut(*link)
        for number, peer in (link, link[::-1]):
            ring.net.brokers[number].fabric.down(peer)
    ring.publish(1, 1)
    assert (ring.came(), ring.acknowledged(), sum(ring.held)) == ([], [], 1)
    ring.mend(2, 3)
    assert (ring.came(), ring.acknowledged(), sum(ring.held)) == ([b"1"], [1], 0)


def test_events_of_qos_0_wait_in_bounded_room(ring: Ring) -> None:
    ring.cut((2, 3), (3, 4))
    ring.publish(1, 0)
    ring.mend(2, 3)
    assert ring.came() == [b"1"]
    assert ring.net.brokers[0].fabric.stranding.bytes == 0


def test_what_exceeds_that_room_is_counted() -> None:
    ring = Ring(PATHS, False, True, window=LinkLimits(buffer=40))
    ring.cut((2, 3), (3, 4))
    for number in range(1, 6):
        ring.publish(number, 0)
    stranding = ring.net.brokers[0].fabric.stranding
    assert (len(stranding), stranding.lost) == (2, 3)
    ring.publish(6, 1)  # is never dropped
    ring.mend(2, 3)
    assert ring.came() == [b"1", b"2", b"6"]


def test_many_are_tried_in_slices(ring: Ring, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overstory.broker.stranding.TRIED", 2)
    ring.cut((2, 3), (3, 4))
    for number in range(1, 8):
        ring.publish(number, 1)
    ring.net.mend(2, 3)
    assert sum(ring.held) == 7
    ring.net.brokers[2].fabric.run(10**9)
    ring.net.brokers[0].fabric.run(10**9)
    ring.net.settle()
    assert ring.came() == [b"%d" % number for number in range(1, 8)]


def test_an_end_within_reach_does_not_wait_for_one_that_is_not(ring: Ring) -> None:
    other = ring.net.brokers[2].connect("c2")
    other.subscribe("#?price > 1", qos=1)  # late, in a tree
    ring.net.settle()
    ring.cut((2, 3), (3, 4))
    ring.publish(1, 1)
    assert [packet.payload for packet in other.received() if isinstance(packet, Publish)] == [b"1"]
    assert ring.acknowledged() == []
    ring.mend(3, 4)
    assert (ring.came(), ring.acknowledged()) == ([b"1"], [1])
