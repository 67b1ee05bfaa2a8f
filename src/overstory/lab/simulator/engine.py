"""Virtual time: brokers take messages from their queues one by one, links take them on after a while.

1. A broker handles messages in the order in which they arrive. One that arrives at t is done at max(t, when the one
   before was done) + its service time; only then does what follows from it leave.
2. A link takes a fixed time and keeps the order.
3. All else is the router's. Nothing depends on the computer's clock, nor on the order of a set or a dictionary with
   addresses in it: the same seed gives the same run, event for event.

A broker's state changes by nothing but its own messages, in order. So a message is given to the router as soon as it
arrives, and leaves when it is done: one event in the heap for each message. Publications are matched ahead, many in one
call, for as long as a table does not change; what was decided is used when the publication comes.
"""

import gc
import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from overstory.filters import Filter, parse_filter
from overstory.lab.simulator.record import Record
from overstory.lab.simulator.topology import Topology
from overstory.lab.simulator.workload import Ints, Reals
from overstory.matching import Batch
from overstory.model.plan import EVERYTHING
from overstory.routing.frames import NOWHERE, Frames, Header
from overstory.routing.messages import LATE, Message, Output, Packed, Send, Subscribe, Unsubscribe
from overstory.routing.policy import Policy
from overstory.routing.router import Router
from overstory.routing.share import tree_shares

MOST_AHEAD = 512  # publications that are matched at once
EPOCH = 0
FLOWS = frozenset({LATE})
CLIENTS = 1_000_000  # the client of broker b is this + b


class Service(msgspec.Struct, frozen=True):
    """Seconds that a broker works on a message; what compares it with the table takes longer the longer that is.

    Calibrated on what the paper says of its brokers: 20 to 200 ms from end to end while nothing is congested, and 3.3
    messages in a second when the table is full of uncovered subscriptions.
    """

    publication: float = 0.002
    publication_per_entry: float = 0.0000004
    subscription: float = 0.020
    subscription_per_entry: float = 0.00002
    packet: float = 0.001  # of a message with several subscriptions
    other: float = 0.001
    link: float = 0.001  # that a link takes


class Operation(NamedTuple):
    """What a client does."""

    id: int
    version: int
    filter: Filter | None  # None: it unsubscribes


class Tick(NamedTuple):
    pass


class Publication(NamedTuple):
    number: int
    distance: int
    shared: int  # the count of its header


Input = Operation | Tick | Publication | Message


class Ahead:
    """What a broker will do with the publications to come, as long as its table stays as it is."""

    def __init__(self) -> None:
        self.changes = -1
        self.first = self.stop = 0
        self.size = 1
        self.peers: list[list[int]] = []  # of each publication
        self.interests: list[int] = []
        self.starts: list[int] = []  # of those delivered, among all
        self.delivered = np.zeros(0, np.int64)  # subscriptions, by the serials of their entries in the table


class Engine:
    def __init__(self, topology: Topology, policy: Policy, service: Service) -> None:
        self.topology, self.policy, self.service = topology, policy, service
        self.record = Record(topology)
        self.now = 0.0
        self._heap: list[tuple[float, int, int, int, Input]] = []
        self._sequence = 0
        self._busy_until = dict.fromkeys(topology.brokers, 0.0)
        self._ticking: set[int] = set()
        self._values, self._entries = np.zeros(0), np.zeros(0, np.int64)
        self._origins: dict[int, Ints] = {}  # at each broker, where publications come from, by where they enter
        self.routers = {broker: Router(broker, policy) for broker in topology.brokers}
        self._ahead = {broker: Ahead() for broker in topology.brokers}
        self._start()

    def _start(self) -> None:
        """All neighbours are up, and publishers have advertised everything, before time begins."""
        shares = tree_shares(self.topology.links, EPOCH, everyone_advertises=False)
        for broker, router in self.routers.items():
            for peer in sorted(shares[broker].flows[LATE].neighbours):
                router.neighbour_up(peer)
            router.install(shares[broker])
            router.activate(EPOCH)
        everything = parse_filter(EVERYTHING)
        waiting: list[tuple[int, int, Message]] = []
        for broker in self.topology.publishers:
            outputs = self.routers[broker].advertise(CLIENTS + broker, broker, 1, everything)
            waiting += [(broker, each.peer, each.message) for each in outputs if isinstance(each, Send)]
        while waiting:
            source, target, message = waiting.pop(0)
            outputs = self.routers[target].receive(source, message)
            waiting += [(target, each.peer, each.message) for each in outputs if isinstance(each, Send)]

    # What will happen

    def subscribe(self, time: float, broker: int, id_: int, version: int, wanted: Filter) -> None:
        self._push(time, broker, CLIENTS + broker, Operation(id_, version, wanted))

    def unsubscribe(self, time: float, broker: int, id_: int, version: int) -> None:
        self._push(time, broker, CLIENTS + broker, Operation(id_, version, None))

    def publish(self, times: Reals, values: Reals, brokers: Ints) -> None:
        """All publications of the run, in the order in which they come."""
        assert not len(self._values), "all publications are given at once"
        self._values, self._entries = values, brokers
        towards = {entry: self.topology.next_hops(entry) for entry in np.unique(brokers).tolist()}
        for broker in self.topology.brokers:
            self._origins[broker] = np.full(max(self.topology.brokers) + 1, NOWHERE)
            for entry, hops in towards.items():
                self._origins[broker][entry] = hops.get(broker, NOWHERE)
        self.record.expect(times, brokers)
        for number, (time, broker) in enumerate(zip(times.tolist(), brokers.tolist(), strict=True)):
            self._push(time, broker, NOWHERE, Publication(number, 0, 0))

    def run(self, until: float = float("inf")) -> None:
        """Python's collector has to wait: there are millions of objects, and hardly a cycle."""
        heap, collected = self._heap, gc.isenabled()
        gc.disable()
        try:
            while heap and heap[0][0] <= until:
                time, _, broker, source, message = heapq.heappop(heap)
                self.now = time
                self._handle(time, broker, source, message)
        finally:
            if collected:
                gc.enable()

    # How it happens

    def _push(self, time: float, target: int, source: int, message: Input) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (time, self._sequence, target, source, message))

    def _handle(self, time: float, broker: int, source: int, message: Input) -> None:
        router = self.routers[broker]
        table = router.state.epochs[EPOCH].table
        done = max(time, self._busy_until[broker]) + self._work(message, table.size)
        self._busy_until[broker] = done
        outputs = router.tick(done)
        if isinstance(message, Publication):
            outputs += self._route(done, broker, source, message)
        elif isinstance(message, Tick):
            self._ticking.discard(broker)
        elif isinstance(message, Operation):
            client = (source, message.id, message.version)
            wanted = message.filter
            outputs += router.unsubscribe(*client) if wanted is None else router.subscribe(*client, wanted)
        else:
            self.record.control(source, broker, message)
            outputs += router.receive(source, message)
        self.record.handled(broker, time, done, table.size)
        if outputs:
            self._send(done, broker, outputs)
        changed = not isinstance(message, Publication)  # publications leave nothing to wait for
        if self.policy.waits and changed and broker not in self._ticking and router.is_waiting:
            self._ticking.add(broker)
            self._push(done + self.policy.waits, broker, NOWHERE, Tick())

    def _work(self, message: Input, entries: int) -> float:
        service = self.service
        if isinstance(message, Publication):
            return service.publication + service.publication_per_entry * entries
        if isinstance(message, (Operation, Subscribe, Unsubscribe)):
            return service.subscription + service.subscription_per_entry * entries
        if isinstance(message, Packed):
            each = service.subscription + service.subscription_per_entry * entries
            return service.packet + each * len(message.messages)
        return 0.0 if isinstance(message, Tick) else service.other

    def _send(self, time: float, broker: int, outputs: Iterable[Output]) -> None:
        for output in outputs:
            if isinstance(output, Send):
                self._push(time + self.service.link, output.peer, broker, output.message)

    def _route(self, time: float, broker: int, source: int, message: Publication) -> Sequence[Output]:
        number, router = message.number, self.routers[broker]
        ahead = self._looked_ahead(broker, router, number)
        at = number - ahead.first
        first, stop, interests = ahead.starts[at], ahead.starts[at + 1], ahead.interests[at]
        distance, count = _onward(source, interests, message)
        self.record.published(number, broker, source, time, stop - first)
        if ahead.peers[at]:
            onward = Publication(number, distance, count)
            for peer in ahead.peers[at]:
                self._push(time + self.service.link, peer, broker, onward)
        if not self.policy.statistics:
            return ()
        if stop > first:
            window, advertisement = router.state.epochs[EPOCH].window, int(self._entries[number])
            window.record_one(time, number, advertisement, ahead.delivered[first:stop], distance, count)
        elif not interests and source != NOWHERE:
            return router.came_in_vain(EPOCH, FLOWS, source, {"x": float(self._values[number])})
        return ()

    def _looked_ahead(self, broker: int, router: Router, number: int) -> Ahead:
        ahead, changes = self._ahead[broker], router.state.epochs[EPOCH].table.changes
        if changes != ahead.changes or not ahead.first <= number < ahead.stop:
            ahead.size = min(2 * ahead.size, MOST_AHEAD) if changes == ahead.changes else 2
            ahead.changes, ahead.first = changes, number
            ahead.stop = min(number + ahead.size, len(self._values))
            self._look(ahead, broker, router)
        return ahead

    def _look(self, ahead: Ahead, broker: int, router: Router) -> None:
        numbers = np.arange(ahead.first, ahead.stop)
        size, entries = len(numbers), self._entries[numbers]
        frames = Frames(
            EPOCH,
            Batch({"x": self._values[numbers]}),
            numbers,
            CLIENTS + entries,
            entries,
            self._origins[broker][entries],
            [FLOWS] * size,
            [{}] * size,
            Header.fresh(size),
        )
        routed = router.decide(frames)
        ahead.peers = [[] for _ in range(size)]
        to_brokers = routed.peers < CLIENTS
        copies = zip(routed.frames[to_brokers].tolist(), routed.peers[to_brokers].tolist(), strict=True)
        for frame, peer in copies:
            ahead.peers[frame].append(peer)
        ahead.interests = routed.interests.tolist()
        ahead.starts = np.searchsorted(routed.delivered_frames, np.arange(size + 1)).tolist()
        ahead.delivered = routed.delivered_serials


def _onward(source: int, interests: int, message: Publication) -> tuple[int, int]:
    """The header as it leaves, as ``routing.table`` has it."""
    if source == NOWHERE:
        return 0, 0
    return (0, message.shared + 1) if interests > 1 else (message.distance + 1, message.shared)
