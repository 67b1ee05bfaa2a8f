"""An event that waits at its host for the ones before it is not safe: nobody is told so, and a crash loses nothing.

Of three brokers the first publishes. Events of ``near`` are wanted at the last alone, and take the direct link, which
is slow. Those of ``both`` are wanted at the other two, and the least tree leads over the broker in the middle: they
overtake the ones before them, and wait at the last broker for their order.
"""

import msgspec
import pytest

from overstory.broker.places import Who
from overstory.lab.failing_virtual import places_in
from overstory.lab.steady import Steady
from overstory.lab.virtual import VirtualNetwork
from overstory.model.tables import STEINER
from overstory.routing.messages import LATE
from overstory.routing.share import FlowShare, Member, Share, tree_shares
from overstory.wire.packets import Asked
from overstory.wire.topics import filter_of, read_filter

ENTRY, MIDDLE, LAST = range(3)
DIRECT = (ENTRY, LAST)
PRICES = {(ENTRY, LAST): 1.0, (ENTRY, MIDDLE): 1.0, (MIDDLE, LAST): 0.5}
CLIENTS = {MIDDLE: 101, LAST: 102}
WANTED = {MIDDLE: {"both": 1}, LAST: {"near": 2, "both": 3}}  # topics, with the numbers of subscriptions
FLOW = 1
BEFORE = ("near", 0)


def shares() -> dict[int, Share]:
    """Everything is steered, in order."""
    made = {}
    for broker, share in tree_shares([(ENTRY, MIDDLE), (MIDDLE, LAST)], epoch=1).items():
        late = share.flows[LATE]
        flow = FlowShare(FLOW, late.events, late.neighbours, kind=STEINER, ordered=True)
        members = tuple(
            Member(FLOW, number, CLIENTS[broker], filter_of(read_filter(topic)))
            for topic, number in WANTED.get(broker, {}).items()
        )
        made[broker] = msgspec.structs.replace(
            share,
            flows={**share.flows, FLOW: flow},
            members=members,
            planned={number: 0 for wanted in WANTED.values() for number in wanted.values()},
            prices=PRICES | {(v, u): price for (u, v), price in PRICES.items()},
            clients=frozenset({CLIENTS[broker]} if broker in CLIENTS else ()),
        )
    return made


class Triangle:
    """The network, its publisher and its two subscribers."""

    def __init__(self, kernels: bool) -> None:
        who = Who(
            {f"at {broker}": client for broker, client in CLIENTS.items()},
            {
                client: [
                    (number, str(filter_of(read_filter(topic))), False) for topic, number in WANTED[broker].items()
                ]
                for broker, client in CLIENTS.items()
            },
        )
        self.network = VirtualNetwork(places_in(shares()), seed=1, durable=True, kernels=kernels, who=who)
        self.publisher = Steady("publisher")
        self.network.attach(self.publisher, ENTRY)
        self.subscribers = {
            broker: Steady(f"at {broker}", tuple(Asked(topic, 1) for topic in WANTED[broker])) for broker in CLIENTS
        }
        for broker, subscriber in self.subscribers.items():
            self.network.attach(subscriber, broker)
        self.settle()
        self.network.publish(self.publisher, "near", 0, 1)  # a host that has just begun takes any number as the first
        self.settle()

    def settle(self) -> None:
        """Lets time go on until nothing is under way."""
        quiet = 0
        for _ in range(2_000):
            self.network.step()
            quiet = quiet + 1 if self.network.is_idle else 0
            if quiet == 10:
                return
        raise AssertionError("something is still under way")

    def overtake(self) -> None:
        """Publishes one event that is slow and one that overtakes it, and waits until the second is at its hosts."""
        self.network.delays[DIRECT] = 2.0
        self.network.publish(self.publisher, "near", 1, 1)
        for _ in range(4):  # the first has left before the second comes
            self.network.step()
        self.network.publish(self.publisher, "both", 2, 1)
        while ("both", 2) not in self.subscribers[MIDDLE].came:
            self.network.step()
        for _ in range(10):
            self.network.step()


@pytest.mark.parametrize("kernels", [False, True])
def test_what_waits_for_its_order_is_not_acknowledged(kernels: bool) -> None:
    triangle = Triangle(kernels)
    triangle.overtake()
    assert triangle.subscribers[LAST].came == [BEFORE]  # the second waits for the first
    assert triangle.publisher.acknowledged == [(1, 0)]
    triangle.settle()
    assert triangle.subscribers[LAST].came == [BEFORE, ("near", 1), ("both", 2)]
    assert sorted(triangle.publisher.acknowledged) == [(1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize("kernels", [False, True])
def test_a_host_that_dies_while_an_event_waits_there_gets_it_again(kernels: bool) -> None:
    triangle = Triangle(kernels)
    triangle.overtake()
    triangle.network.kill(LAST)
    triangle.network.delays.clear()
    triangle.network.start(LAST)
    triangle.settle()
    assert sorted(triangle.subscribers[LAST].came) == [("both", 2), BEFORE, ("near", 1)]
    assert sorted(triangle.publisher.acknowledged) == [(1, 0), (1, 1), (1, 2)]
