"""Routers whose messages are counted on each link of a network: see ``replay`` for what a message is."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from overstory.lab.wiring import Crossing, Wiring
from overstory.model.network import Ints, Network
from overstory.routing.messages import Advertise, Gate, Message, Packed, Subscribe, Unadvertise, Unsubscribe
from overstory.routing.policy import Policy
from overstory.routing.share import Share

KINDS = SUBSCRIBED, UNSUBSCRIBED, ANNOUNCED = 0, 1, 2
KIND: dict[type, int] = {
    Subscribe: SUBSCRIBED,
    Unsubscribe: UNSUBSCRIBED,
    Advertise: ANNOUNCED,
    Unadvertise: ANNOUNCED,
    Gate: ANNOUNCED,
}


class Messages(NamedTuple):
    """How many messages crossed each directed link between brokers, in the order of the network, by their kind."""

    subscriptions: Ints
    unsubscriptions: Ints
    announcements: Ints

    @classmethod
    def none(cls, network: Network) -> "Messages":
        """No message on any link."""
        return cls(*[np.zeros(len(network.targets), np.int64) for _ in KINDS])

    @property
    def by_link(self) -> Ints:
        """Messages of all kinds on each directed link."""
        return self.subscriptions + self.unsubscriptions + self.announcements

    @property
    def total(self) -> int:
        """On all links together."""
        return int(self.by_link.sum())


class CountingWiring(Wiring):
    """Routers whose messages and frames are counted on each link of a network."""

    def __init__(self, network: Network, shares: Mapping[int, Share], policy: Policy, **options: Any) -> None:
        sources, targets = network.ids[network.sources].tolist(), network.ids[network.targets].tolist()
        self.network = network
        self.numbers = {link: number for number, link in enumerate(zip(sources, targets, strict=True))}
        self.counts = [[0] * len(self.numbers) for _ in KINDS]
        self.frames, self.bytes = ([0] * len(self.numbers) for _ in range(2))
        self.size = 0  # of the event that is on its way
        self.headers = False  # whether the headers of steered frames count
        super().__init__(shares, policy, **options)

    def on_send(self, source: int, target: int, message: Message) -> None:
        """Counts the entries of a message."""
        if isinstance(message, Packed):
            for part in message.messages:
                self.on_send(source, target, part)
            return
        kind = KIND.get(type(message))
        if kind is not None:
            self.counts[kind][self.numbers[source, target]] += 1

    def on_crossing(self, crossing: Crossing) -> None:
        """Counts a copy of the event that is on its way."""
        number = self.numbers[crossing.source, crossing.target]
        self.frames[number] += 1
        self.bytes[number] += self.size + (crossing.header if self.headers else 0)

    def counted(self) -> Messages:
        """The messages since this was last asked."""
        found = Messages(*[np.array(counts, np.int64) for counts in self.counts])
        self.counts = [[0] * len(self.numbers) for _ in KINDS]
        return found

    def traffic(self) -> tuple[Ints, Ints]:
        """The frames and the bytes on each link."""
        return np.array(self.frames, np.int64), np.array(self.bytes, np.int64)
