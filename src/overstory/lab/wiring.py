"""Routers joined by links that keep their order and nothing else: no clock, no queues, no loss.

A router's outputs go onto the links at once. ``settle`` delivers messages in the order in which they were sent, over
all links, until none is left. Whoever wants another order calls ``deliver`` for the links of his choice. Work that
takes long (``routing.work``) waits on a link from a broker to WORK: to deliver there is to do a slice of it.
"""

import random
from collections import defaultdict, deque
from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from overstory.kernels.nothing import NONE
from overstory.matching import Batch
from overstory.model.values import Attributes
from overstory.routing.frames import Frames, Routed
from overstory.routing.messages import Drained, Held, Key, Message, Output, Released, Send, Served
from overstory.routing.policy import Policy
from overstory.routing.router import SLICE, Router
from overstory.routing.share import Share

Link = tuple[int, int]
WORK = NONE  # where the work of a broker waits, as if it were a neighbour


class Crossing(NamedTuple):
    """A copy of an event that crossed a link between brokers."""

    event: int
    source: int
    target: int
    flows: frozenset[int]
    header: int = 0  # bytes of the headers of its steered flows


class Delivery(NamedTuple):
    """A copy of an event that a client got, and the client's subscriptions that it is for."""

    event: int
    client: int
    flows: frozenset[int]
    subscriptions: frozenset[int]


class Wiring:
    """Routers and the links between them, with an epoch that all of them hold and have activated."""

    def __init__(
        self,
        shares: Mapping[int, Share],
        policy: Policy,
        lease: float = float("inf"),
        prepare: Callable[[Mapping[int, Router]], None] | None = None,
        slice_: int = SLICE,
        tells_served: bool = False,
    ) -> None:
        """``prepare`` may tell the routers something before they know of any neighbour or epoch.

        ``slice_`` is how much work routers do at once.
        """
        self.slice, self.tells_served = slice_, tells_served
        self.routers = {
            broker: Router(broker, policy, lease, slice_=slice_, tells_served=tells_served) for broker in shares
        }
        self.links: dict[Link, deque[Message | Frames]] = defaultdict(deque)
        self.held: list[tuple[int, int]] = []  # broker, epoch
        self.drained: list[tuple[int, int]] = []
        self.recovering: Container[int] = ()  # brokers that have restarted and lack epochs, whose events they lose
        self._working: dict[int, None] = {}  # brokers that may have work to do
        self._sent: deque[Link] = deque()  # the link of each message, in the order in which messages were sent
        if prepare is not None:
            prepare(self.routers)
        self.connect(shares)
        self.install(shares)
        self.settle()
        self.activate(shares)

    def connect(self, shares: Mapping[int, Share]) -> None:
        """Tells every broker that those neighbours are up that a plan gives it. Those that are up already stay so."""
        for broker, peers in _neighbours(shares).items():
            for peer in sorted(peers):
                self.do(broker, self.routers[broker].neighbour_up(peer))

    def install(self, shares: Mapping[int, Share]) -> None:
        """Gives every broker its share of a plan."""
        for broker, share in shares.items():
            self.do(broker, self.routers[broker].install(share))

    def activate(self, shares: Mapping[int, Share]) -> None:
        """Activates the epoch of these shares at all brokers, which have to hold it."""
        holding = set(self.held)
        assert all((broker, share.epoch) in holding for broker, share in shares.items())
        for broker, share in shares.items():
            self.do(broker, self.routers[broker].activate(share.epoch))

    def do(self, broker: int, outputs: Iterable[Output]) -> None:
        """Acts on what a router asks for."""
        for output in outputs:
            if isinstance(output, Send):
                self.on_send(broker, output.peer, output.message)
                self.links[broker, output.peer].append(output.message)
                self._sent.append((broker, output.peer))
            elif isinstance(output, Held):
                self.held.append((broker, output.epoch))
            elif isinstance(output, Drained):
                self.drained.append((broker, output.epoch))
            elif isinstance(output, Served):
                self.on_served(broker, output.key)
            elif isinstance(output, Released):
                self.carry(broker, output.frames, output.routed)
        if self.routers[broker].has_work:
            self._working[broker] = None

    def on_send(self, source: int, target: int, message: Message) -> None:
        """Hears of every control message when it is sent."""

    def on_served(self, broker: int, key: Key) -> None:
        """Hears of every subscription of a client of the broker that the whole network serves."""

    def on_crossing(self, crossing: Crossing) -> None:
        """Hears of every copy that is sent to a broker."""

    def on_delivery(self, broker: int, delivery: Delivery) -> None:
        """Hears of every copy that a client of the broker gets."""

    def publish(self, broker: int, client: int, event: int, attributes: Attributes, advertisement: int = -1) -> None:
        """A client of the broker publishes an event."""
        batch, one = Batch.of([attributes]), np.array([event])
        frames = self.routers[broker].enter(batch, one, np.array([client]), np.array([advertisement]))
        self.route(broker, frames)

    def route(self, broker: int, frames: Frames) -> None:
        """A broker sends frames on."""
        router = self.routers[broker]
        routed, outputs = router.publish(frames)
        self.carry(broker, frames, routed)
        self.do(broker, outputs)

    def carry(self, broker: int, frames: Frames, routed: Routed) -> None:
        """Puts the copies that a router decided on onto links, and gives clients theirs."""
        delivered = list(zip(routed.delivered_frames.tolist(), routed.delivered.tolist(), strict=True))
        homes = self.routers[broker].state.homes
        copies = zip(routed.frames.tolist(), routed.peers.tolist(), routed.flows, strict=True)
        for place, (frame, peer, flows) in enumerate(copies):
            event = int(frames.ids[frame])
            if peer in self.routers:
                copy = frames.sent(routed, np.array([place]), broker)
                self.on_crossing(Crossing(event, broker, peer, flows, len(copy.steered.data)))
                self.links[broker, peer].append(copy)
                self._sent.append((broker, peer))
            else:
                got = frozenset(id_ for at, id_ in delivered if at == frame and homes[id_].client == peer)
                self.on_delivery(broker, Delivery(event, peer, flows, got))

    def deliver(self, link: Link) -> None:
        """Delivers the next message on the link, or lets a broker do a slice of its work."""
        source, target = link
        if target == WORK:
            self._working.pop(source, None)
            self.do(source, self.routers[source].work(max(self.slice, 1)))
            return
        message = self.links[link].popleft()
        if isinstance(message, Frames):
            state = self.routers[target].state
            # A steered frame that took longer than anybody waited for it comes to an epoch that has gone
            too_late = len(message.steered.flows) > 0 and state.is_past(message.epoch)
            if message.epoch in state.epochs or not (target in self.recovering or too_late):
                self.route(target, message)
        else:
            self.do(target, self.routers[target].receive(source, message))

    def busy(self) -> list[Link]:
        """The links that have something to deliver; of a broker that has work to do, that to WORK."""
        working = [(broker, WORK) for broker in self._working if self.routers[broker].has_work]
        return sorted([*working, *(link for link, queue in self.links.items() if queue)])

    def settle(self, dice: random.Random | None = None) -> None:
        """Delivers messages until none is left: in the order in which they were sent, or from links drawn by chance."""
        while dice is not None and (busy := self.busy()):
            self.deliver(dice.choice(busy))
        while self._sent or self._working:
            while self._working:
                broker = next(iter(self._working))
                self.deliver((broker, WORK))
            if not self._sent:
                break
            link = self._sent.popleft()
            if self.links[link]:  # else somebody has delivered it by hand
                self.deliver(link)


def _neighbours(shares: Mapping[int, Share]) -> dict[int, set[int]]:
    """The brokers that each broker has a link to: in a tree or, for steered flows, in the network."""
    near = {u: {v for flow in share.flows.values() for v in flow.neighbours} for u, share in shares.items()}
    return {u: near[u] | {v for link in share.prices for v in link if u in link} - {u} for u, share in shares.items()}
