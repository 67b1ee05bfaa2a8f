"""Routers joined by links that keep their order and nothing else: a test decides which link delivers next."""

import random
from collections import defaultdict, deque
from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from hypothesis import settings

from overstory.filters import Filter, parse_filter
from overstory.matching import Batch
from overstory.model.values import Attributes
from overstory.routing.frames import Frames
from overstory.routing.messages import Drained, Held, Key, Message, Output, Packed, Send, Subscribe, Unsubscribe
from overstory.routing.policy import Policy
from overstory.routing.router import Router
from overstory.routing.share import Share, tree_shares

FEWER = settings(max_examples=settings().max_examples // 5)  # for laws that take long to try
FEWEST = settings(max_examples=settings().max_examples // 10)  # for those that take longest
Link = tuple[int, int]
TRUE = parse_filter("TRUE")


class Crossing(NamedTuple):
    event: int
    source: int
    target: int
    flows: frozenset[int]


class Delivery(NamedTuple):
    event: int
    client: int
    flows: frozenset[int]
    subscriptions: frozenset[int]


class Network:
    def __init__(self, shares: Mapping[int, Share], policy: Policy, lease: float = float("inf")) -> None:
        self.routers = {broker: Router(broker, policy, lease) for broker in shares}
        self.links: dict[Link, deque[Message | Frames]] = defaultdict(deque)
        self.crossings: list[Crossing] = []
        self.copies: list[tuple[int, Delivery]] = []  # and the broker
        self.control: list[tuple[Link, Message]] = []
        self.held: list[tuple[int, int]] = []  # broker, epoch
        self.drained: list[tuple[int, int]] = []
        self.recovering: Container[int] = ()  # brokers that have restarted and lack epochs, whose events they lose
        near = {u: {v for flow in share.flows.values() for v in flow.neighbours} for u, share in shares.items()}
        near = {
            u: near[u] | {v for link in share.prices for v in link if u in link} - {u} for u, share in shares.items()
        }
        for broker, peers in near.items():
            for peer in sorted(peers):
                self.do(broker, self.routers[broker].neighbour_up(peer))
        self.install(shares)
        self.settle()
        assert sorted(self.held) == sorted((broker, share.epoch) for broker, share in shares.items())
        for broker, share in shares.items():
            self.do(broker, self.routers[broker].activate(share.epoch))

    def install(self, shares: Mapping[int, Share]) -> None:
        for broker, share in shares.items():
            self.do(broker, self.routers[broker].install(share))

    def do(self, broker: int, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                self.links[broker, output.peer].append(output.message)
                self.control.append(((broker, output.peer), output.message))
            elif isinstance(output, Held):
                self.held.append((broker, output.epoch))
            elif isinstance(output, Drained):
                self.drained.append((broker, output.epoch))

    def publish(self, broker: int, client: int, event: int, attributes: Attributes, advertisement: int = -1) -> None:
        batch, one = Batch.of([attributes]), np.array([event])
        frames = self.routers[broker].enter(batch, one, np.array([client]), np.array([advertisement]))
        self.route(broker, frames)

    def route(self, broker: int, frames: Frames) -> None:
        router = self.routers[broker]
        routed, outputs = router.publish(frames)
        delivered = list(zip(routed.delivered_frames.tolist(), routed.delivered.tolist(), strict=True))
        homes = router.state.homes
        sent = replace(frames, header=routed.header)
        for frame, peer, flows in zip(routed.frames.tolist(), routed.peers.tolist(), routed.flows, strict=True):
            event = int(frames.ids[frame])
            if peer in self.routers:
                self.crossings.append(Crossing(event, broker, peer, flows))
                self.links[broker, peer].append(sent.take(np.array([frame]), [flows], broker))
            else:
                got = frozenset(each for at, each in delivered if at == frame and homes[each].client == peer)
                self.copies.append((broker, Delivery(event, peer, flows, got)))
        self.do(broker, outputs)

    def deliver(self, link: Link) -> None:
        """The next one on the link."""
        message, (source, target) = self.links[link].popleft(), link
        if isinstance(message, Frames):
            if target not in self.recovering or message.epoch in self.routers[target].state.epochs:
                self.route(target, message)
        else:
            self.do(target, self.routers[target].receive(source, message))

    def busy(self) -> list[Link]:
        return sorted(link for link, queue in self.links.items() if queue)

    def step(self, dice: random.Random) -> None:
        busy = self.busy()
        if busy:
            self.deliver(dice.choice(busy))

    def settle(self, dice: random.Random | None = None) -> None:
        while busy := self.busy():
            self.deliver(dice.choice(busy) if dice else busy[0])

    def deliveries(self) -> list[tuple[int, int]]:
        """The event and the subscription of each delivery so far."""
        return [(each.event, id_) for _, each in self.copies for id_ in sorted(each.subscriptions)]

    def sent(self) -> dict[Link, set[Key]]:
        """What each neighbour was told and has not been told otherwise, in all flows."""
        found: dict[Link, set[Key]] = defaultdict(set)
        for broker, router in self.routers.items():
            for _, flow in router.state.flows():
                for peer, outlet in flow.outlets.items():
                    found[broker, peer] |= outlet.sent
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
