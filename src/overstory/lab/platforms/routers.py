"""Overstory's own routers as a platform: a channel is a topic, each node is a client of one of a few brokers.

Covering and forwarding, in the late flow, are the product's. Messages are entries and frames between brokers, and to
their clients."""

from collections.abc import Iterable

from overstory.errors import UsageError
from overstory.filters import parse_filter
from overstory.lab.platforms.platform import Published
from overstory.lab.wiring import Crossing, Delivery, Wiring
from overstory.model.topics import topic_attributes
from overstory.routing.messages import Message, Packed, Subscribe, Unsubscribe
from overstory.routing.policies import active, make_policy
from overstory.routing.share import tree_shares

FIRST_NODE = 1000  # clients and brokers share one space of ids
EPOCH = 0


class _Counting(Wiring):
    entries = 0
    frames = 0
    got: set[int]

    def on_send(self, source: int, target: int, message: Message) -> None:
        parts = message.messages if isinstance(message, Packed) else (message,)
        self.entries += sum(isinstance(part, Subscribe | Unsubscribe) for part in parts)

    def on_crossing(self, crossing: Crossing) -> None:
        self.frames += 1

    def on_delivery(self, broker: int, delivery: Delivery) -> None:
        self.frames += 1
        self.got.add(delivery.client - FIRST_NODE)


class Routers:
    """A ``Platform``: brokers in a line, and nodes spread over them."""

    def __init__(self, nodes: int, brokers: int = 4) -> None:
        links = [(broker, broker + 1) for broker in range(brokers - 1)]
        shares = tree_shares(links, EPOCH, brokers=list(range(brokers)))
        self.brokers = brokers
        self.wiring = _Counting(shares, make_policy(active.NAME))
        self.wiring.got = set()
        self.channels: set[int] = set()
        self.versions: dict[tuple[int, int], int] = {}
        self.live: dict[tuple[int, int], int] = {}
        self.events = 0
        self.nodes = nodes
        self.gone: set[int] = set()  # crashed, and not yet missed

    def create(self, channel: int) -> int:
        self.channels.add(channel)
        return 1

    def _check(self, channel: int) -> None:
        if channel not in self.channels:
            raise UsageError(f"there is no channel {channel}; create it first")

    def _broker(self, node: int) -> int:
        return node % self.brokers

    def _id(self, node: int, channel: int) -> int:
        return node * (1 << 20) + channel

    def subscribe(self, node: int, channel: int) -> int:
        self._check(channel)
        key, broker = (node, channel), self._broker(node)
        if key in self.live:
            return 0
        version = self.versions[key] = self.versions.get(key, 0) + 1
        self.live[key] = version
        before = self.wiring.entries
        wanted = parse_filter(f"topic = 'c{channel}'")
        router = self.wiring.routers[broker]
        self.wiring.do(broker, router.subscribe(FIRST_NODE + node, self._id(node, channel), version, wanted))
        self.wiring.settle()
        return self.wiring.entries - before + 1

    def unsubscribe(self, node: int, channel: int) -> int:
        self._check(channel)
        version = self.live.pop((node, channel), None)
        if version is None:
            return 0
        before, broker = self.wiring.entries, self._broker(node)
        router = self.wiring.routers[broker]
        self.wiring.do(broker, router.unsubscribe(FIRST_NODE + node, self._id(node, channel), version))
        self.wiring.settle()
        return self.wiring.entries - before + 1

    def publish(self, channel: int) -> Published:
        self._check(channel)
        self.wiring.got, before = set(), self.wiring.frames
        self.events += 1
        self.wiring.publish(0, FIRST_NODE - 1, self.events, dict(topic_attributes(f"c{channel}")))
        self.wiring.settle()
        return Published(frozenset(self.wiring.got - self.gone), 1 + self.wiring.frames - before)

    def keep_alives(self) -> int:
        """Entries of all forwarding tables: each is renewed in each interval."""
        return sum(router.statistics().entries for router in self.wiring.routers.values())

    def crash(self, nodes: Iterable[int]) -> None:
        self.gone |= set(nodes)

    def repair(self) -> int:
        """A broker ends the subscriptions of a client that no longer answers."""
        gone, self.gone = self.gone, set()
        return sum(self.unsubscribe(*key) for key in sorted(self.live) if key[0] in gone)

    def come_back(self, node: int) -> int:
        return 0
