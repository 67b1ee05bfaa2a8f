"""What happened in a run, kept as it happens and worked out at the end."""

from array import array
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from overstory.lab.simulator.topology import Topology
from overstory.lab.simulator.workload import Ints, Reals
from overstory.routing.messages import Message, Packed, Subscribe, Unsubscribe

Link = tuple[int, int]
KINDS = SUBSCRIPTIONS, UNSUBSCRIPTIONS, PUBLICATIONS = "subscriptions", "unsubscriptions", "publications"


class Log:
    """When a broker got its messages and when it was done with them, and how its table grew."""

    def __init__(self) -> None:
        self.arrivals, self.done = array("d"), array("d")
        self.changed, self.sizes = array("d"), array("q", [0])  # when the size changed; and what it was before that

    def handled(self, arrived: float, done: float) -> None:
        self.arrivals.append(arrived)
        self.done.append(done)

    def sized(self, time: float, entries: int) -> None:
        if self.sizes[-1] != entries:
            self.changed.append(time)
            self.sizes.append(entries)


class Record:
    def __init__(self, topology: Topology) -> None:
        self.brokers = topology.brokers
        self.place = {broker: at for at, broker in enumerate(self.brokers)}
        self.messages: dict[str, Counter[Link]] = {kind: Counter() for kind in KINDS}  # entries that crossed links
        self.packets: Counter[Link] = Counter()  # messages about subscriptions, however many are in them
        self.triggered: Counter[int] = Counter()  # messages with subscriptions that an unsubscription uncovered
        self.logs = {broker: Log() for broker in self.brokers}
        self._topology = topology
        self._times, self._entries = np.zeros(0), np.zeros(0, np.int64)
        self._reached, self._wanted = np.zeros((0, 0), np.bool_), np.zeros((0, 0), np.bool_)
        self._delivered = array("q"), array("q"), array("q")  # publication, broker, to how many
        self._delivered_at = array("d")

    def expect(self, times: Reals, entries: Ints) -> None:
        self._times, self._entries = times, entries
        shape = (len(times), len(self.brokers))
        self._reached, self._wanted = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)

    def control(self, source: int, target: int, message: Message) -> None:
        entries = message.messages if isinstance(message, Packed) else (message,)
        triggered = 0
        for entry in entries:
            if isinstance(entry, Subscribe):
                self.messages[SUBSCRIPTIONS][source, target] += 1
                triggered += entry.triggered
            elif isinstance(entry, Unsubscribe):
                self.messages[UNSUBSCRIPTIONS][source, target] += 1
        self.packets[source, target] += 1
        if triggered:
            self.triggered[target] += 1

    def published(self, number: int, broker: int, source: int, time: float, delivered: int) -> None:
        at = self.place[broker]
        self._reached[number, at] = True
        if source >= 0:
            self.messages[PUBLICATIONS][source, broker] += 1
        if delivered:
            self._wanted[number, at] = True
            publications, brokers, copies = self._delivered
            publications.append(number)
            brokers.append(broker)
            copies.append(delivered)
            self._delivered_at.append(time)

    # What it comes to

    def total(self, kind: str) -> int:
        return self.messages[kind].total()

    def idle_from(self) -> float:
        """When the last broker had done the last of its messages."""
        return max((log.done[-1] for log in self.logs.values() if log.done), default=0.0)

    def queue(self, broker: int, times: Reals) -> Ints:
        """How many messages wait or are worked on at a broker, at each of these times."""
        arrived, done = np.array(self.logs[broker].arrivals), np.array(self.logs[broker].done)
        return np.searchsorted(arrived, times, "right") - np.searchsorted(done, times, "right")

    def queue_peak(self, broker: int, since: float) -> int:
        """The most messages that ever waited or were worked on at a broker, from a time on."""
        arrived, done = np.array(self.logs[broker].arrivals), np.array(self.logs[broker].done)
        waiting = np.arange(1, len(arrived) + 1) - np.searchsorted(done, arrived, "right")
        return int(waiting[arrived >= since].max(initial=0))

    def table_sizes(self, broker: int, times: Reals) -> Ints:
        log = self.logs[broker]
        return np.array(log.sizes)[np.searchsorted(np.array(log.changed), times, "right")]

    def delays(self, publications: Ints) -> Reals:
        """The seconds from publication to delivery, for each delivery of these publications."""
        numbers, _, copies = map(np.array, self._delivered)
        chosen = np.isin(numbers, publications)
        taken = np.array(self._delivered_at)[chosen] - self._times[numbers[chosen]]
        return np.repeat(taken, copies[chosen])

    def deliveries(self) -> set[tuple[int, int]]:
        """The pairs of a publication and a broker with a subscriber that got it."""
        return set(zip(*self._delivered[:2], strict=True))

    def false_positives(self, since: float = 0.0) -> tuple[Counter[Link], Counter[Link]]:
        """For each link the copies of publications that nobody behind it got, and all copies."""
        vain: Counter[Link] = Counter()
        every: Counter[Link] = Counter()
        for entry in np.unique(self._entries).tolist():
            chosen = (self._entries == entry) & (self._times >= since)
            for link, reached, useful in self._links(entry, chosen):
                every[link] += int(reached.sum())
                vain[link] += int((reached & ~useful).sum())
        return vain, every

    def _links(self, entry: int, chosen: NDArray[np.bool_]) -> list[tuple[Link, NDArray[np.bool_], NDArray[np.bool_]]]:
        """Of each link, from the leaves of the tree inward: which of the chosen publications crossed it, and which of
        those somebody behind it got."""
        towards = self._topology.next_hops(entry)
        reached, useful = self._reached[chosen], self._wanted[chosen].copy()
        found = []
        for broker in sorted(towards, key=lambda broker: -_depth(towards, broker)):
            at = self.place[broker]
            found.append(((towards[broker], broker), reached[:, at], useful[:, at]))
            useful[:, self.place[towards[broker]]] |= useful[:, at]
        return found


def _depth(towards: dict[int, int], broker: int) -> int:
    depth = 0
    while broker in towards:
        broker, depth = towards[broker], depth + 1
    return depth
