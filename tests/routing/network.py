"""Routers joined by links that keep their order and nothing else: a test decides which link delivers next."""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping

from hypothesis import settings

from overstory.filters import Filter, parse_filter
from overstory.lab.wiring import Crossing, Delivery, Wiring
from overstory.lab.wiring import Link as Link
from overstory.routing.messages import Key, Message, Packed, Subscribe, Unsubscribe
from overstory.routing.policy import Policy
from overstory.routing.router import SLICE
from overstory.routing.share import Share, tree_shares

FEWER = settings(max_examples=settings().max_examples // 5)  # for laws that take long to try
FEWEST = settings(max_examples=settings().max_examples // 10)  # for those that take longest
TRUE = parse_filter("TRUE")


class Network(Wiring):
    """Keeps all that crossed links, and lets a test choose the order."""

    def __init__(
        self,
        shares: Mapping[int, Share],
        policy: Policy,
        lease: float = float("inf"),
        slice_: int = SLICE,
        tells_served: bool = False,
    ) -> None:
        self.served: list[tuple[int, Key]] = []  # and the broker
        self.crossings: list[Crossing] = []
        self.copies: list[tuple[int, Delivery]] = []  # and the broker
        self.control: list[tuple[Link, Message]] = []
        super().__init__(shares, policy, lease, slice_=slice_, tells_served=tells_served)

    def on_send(self, source: int, target: int, message: Message) -> None:
        self.control.append(((source, target), message))

    def on_served(self, broker: int, key: Key) -> None:
        self.served.append((broker, key))

    def on_crossing(self, crossing: Crossing) -> None:
        self.crossings.append(crossing)

    def on_delivery(self, broker: int, delivery: Delivery) -> None:
        self.copies.append((broker, delivery))

    def step(self, dice: random.Random) -> None:
        busy = self.busy()
        if busy:
            self.deliver(dice.choice(busy))

    def deliveries(self) -> list[tuple[int, int]]:
        """The event and the subscription of each delivery so far."""
        return [(each.event, id_) for _, each in self.copies for id_ in sorted(each.subscriptions)]

    def sent(self) -> dict[Link, set[Key]]:
        """What each neighbour was told and has not been told otherwise, in all flows."""
        found: dict[Link, set[Key]] = defaultdict(set)
        for broker, router in self.routers.items():
            for _, flow in router.state.flows():
                for peer, outlet in flow.outlets.items():
                    found[broker, peer] |= set(outlet.sent)
        return found


def entries_of(message: Message) -> list[Subscribe | Unsubscribe]:
    """Subscriptions and unsubscriptions in a message, packed or not."""
    if isinstance(message, Packed):
        return list(message.messages)
    return [message] if isinstance(message, (Subscribe, Unsubscribe)) else []


def network_on(tree: Iterable[Link], policy: Policy, everyone_advertises: bool = True, lease: float = 1e9) -> Network:
    return Network(tree_shares(tree, everyone_advertises=everyone_advertises), policy, lease)


def random_tree(dice: random.Random, size: int) -> list[Link]:
    return [(dice.randrange(each), each) for each in range(1, size)]


def interval(low: float, high: float) -> Filter:
    return parse_filter(f"x BETWEEN {low} AND {high}")
