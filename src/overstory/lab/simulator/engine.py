"""Virtual time: brokers take messages from their queues one by one, links take them on after a while.

1. A broker handles messages in the order in which they arrive. One that arrives at t is done at max(t, when the one
   before was done) + its service time; only then does what follows from it leave.
2. A link takes a fixed time and keeps the order.
3. All else is the router's. Nothing depends on the computer's clock, nor on the order of a set or a dictionary with
   addresses in it: the same seed gives the same run, event for event.

A broker's state changes by nothing but its own messages, in order. So a message is given to the router as soon as it
arrives, and leaves when it is done: one event in the heap for each message. Publications are matched ahead, many in one
call (``ahead``); what was decided is used when the publication comes.
"""

import gc
import heapq
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from overstory.filters import Filter, parse_filter
from overstory.lab.simulator.ahead import CLIENTS, EPOCH, FLOWS, Ahead, Publications
from overstory.lab.simulator.record import Log, Record
from overstory.lab.simulator.topology import Topology
from overstory.lab.simulator.workload import Ints, Reals
from overstory.model.plan import EVERYTHING
from overstory.routing.frames import NOWHERE
from overstory.routing.messages import LATE, Message, Output, Packed, Send, Subscribe, Unsubscribe
from overstory.routing.policy import Policy
from overstory.routing.router import Router
from overstory.routing.share import tree_shares
from overstory.routing.table import onward


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
    """A client subscribes or unsubscribes."""

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


class Node:
    """A broker in virtual time."""

    def __init__(self, router: Router, log: Log) -> None:
        self.broker, self.router, self.log = router.state.broker, router, log
        self.table = router.state.epochs[EPOCH].table
        self.busy_until = 0.0
        self.is_ticking = False
        self.ahead: Ahead  # once it is known what will be published


class Engine:
    def __init__(self, topology: Topology, policy: Policy, service: Service) -> None:
        self.topology, self.policy, self.service = topology, policy, service
        self.record = Record(topology)
        self.now = 0.0
        self._heap: list[tuple[float, int, int, int, Input]] = []
        self._sequence = 0
        self._publications = Publications.of(np.zeros(0), np.zeros(0, np.int64))
        self.routers = {broker: Router(broker, policy) for broker in topology.brokers}
        self._start()
        self._nodes = {broker: Node(router, self.record.logs[broker]) for broker, router in self.routers.items()}

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
            waiting += [(broker, output.peer, output.message) for output in outputs if isinstance(output, Send)]
        while waiting:
            source, target, message = waiting.pop(0)
            outputs = self.routers[target].receive(source, message)
            waiting += [(target, output.peer, output.message) for output in outputs if isinstance(output, Send)]

    # What will happen

    def subscribe(self, time: float, broker: int, id_: int, version: int, wanted: Filter) -> None:
        self._push(time, broker, CLIENTS + broker, Operation(id_, version, wanted))

    def unsubscribe(self, time: float, broker: int, id_: int, version: int) -> None:
        self._push(time, broker, CLIENTS + broker, Operation(id_, version, None))

    def publish(self, times: Reals, values: Reals, brokers: Ints) -> None:
        """Schedules all publications of the run, in the order in which they come."""
        assert not len(self._publications.values), "all publications are given at once"
        self._publications = Publications.of(values, brokers)
        towards = {entry: self.topology.next_hops(entry) for entry in np.unique(brokers).tolist()}
        for broker, node in self._nodes.items():
            origins = np.full(max(self.topology.brokers) + 1, NOWHERE)
            for entry, hops in towards.items():
                origins[entry] = hops.get(broker, NOWHERE)
            node.ahead = Ahead(node.router, self._publications, origins)
        self.record.expect(times, brokers)
        for number, (time, broker) in enumerate(zip(times.tolist(), brokers.tolist(), strict=True)):
            self._push(time, broker, NOWHERE, Publication(number, 0, 0))

    def run(self, until: float = float("inf")) -> None:
        """Handles all that happens until a time, and what follows from it.

        Python's collector has to wait: there are millions of objects, and hardly a cycle.
        """
        heap, collected = self._heap, gc.isenabled()
        gc.disable()
        try:
            while heap and heap[0][0] <= until:
                self.now, _, broker, source, message = heapq.heappop(heap)
                self._handle(self.now, broker, source, message)
        finally:
            if collected:
                gc.enable()

    # How it happens

    def _push(self, time: float, target: int, source: int, message: Input) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (time, self._sequence, target, source, message))

    def _handle(self, time: float, broker: int, source: int, message: Input) -> None:
        node = self._nodes[broker]
        done = max(time, node.busy_until) + self._work(message, node.table.size)
        node.busy_until = done
        node.log.handled(time, done)
        if isinstance(message, Publication):
            outputs = self._route(node, done, source, message)
        else:
            outputs = self._control(node, done, source, message)
            node.log.sized(done, node.table.size)
        for output in outputs:
            if isinstance(output, Send):
                self._push(done + self.service.link, output.peer, broker, output.message)

    def _work(self, message: Input, entries: int) -> float:
        service = self.service
        if isinstance(message, Publication):
            return service.publication + service.publication_per_entry * entries
        if isinstance(message, (Operation, Subscribe, Unsubscribe)):
            return service.subscription + service.subscription_per_entry * entries
        if isinstance(message, Packed):
            per_message = service.subscription + service.subscription_per_entry * entries
            return service.packet + per_message * len(message.messages)
        return 0.0 if isinstance(message, Tick) else service.other

    def _control(self, node: Node, time: float, source: int, message: Operation | Tick | Message) -> Sequence[Output]:
        router = node.router
        outputs = router.tick(time)
        if isinstance(message, Tick):
            node.is_ticking = False
        elif isinstance(message, Operation):
            client = (source, message.id, message.version)
            wanted = message.filter
            outputs += router.unsubscribe(*client) if wanted is None else router.subscribe(*client, wanted)
        else:
            self.record.control(source, node.broker, message)
            outputs += router.receive(source, message)
        while router.has_work:  # the service time of the message is that of all that it leads to
            outputs += router.work()
        if self.policy.waits and not node.is_ticking and router.is_waiting:
            node.is_ticking = True
            self._push(time + self.policy.waits, node.broker, NOWHERE, Tick())
        return outputs

    def _route(self, node: Node, time: float, source: int, message: Publication) -> Sequence[Output]:
        """A publication is sent on and counted. The router is not told what time it is: it decides the same at any."""
        number = message.number
        peers, interests, delivered = node.ahead.decision(number)
        distance, count = onward(source, interests, message.distance, message.shared)
        self.record.published(number, node.broker, source, time, len(delivered))
        if peers:
            copy, arrival = Publication(number, distance, count), time + self.service.link
            for peer in peers:
                self._push(arrival, peer, node.broker, copy)
        if not self.policy.statistics:
            return ()
        if len(delivered):
            window, advertisement = node.router.state.epochs[EPOCH].window, int(self._publications.entries[number])
            window.record_one(time, number, advertisement, delivered, distance, count)
        elif not interests and source != NOWHERE:
            event = {"x": float(self._publications.values[number])}
            return node.router.came_in_vain(EPOCH, FLOWS, source, event)
        return ()
