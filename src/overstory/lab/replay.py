"""Replay: the ``changes`` of a scenario go through the product's own routers under a plan, and messages are counted.

1. A *message* is one entry that crosses one link between brokers: a subscription or an unsubscription in one flow,
   however many a policy packs together. An announcement that is made, taken back or narrowed counts alike, or it would
   be free. Renewals do not count, since upkeep prices them; nor does what installs a plan, keeps an order or confirms.
2. Each change is run to quiescence before the next one comes. A change that concerns several subscriptions of a client
   takes them one after the other, by their ids.
3. The history runs before there is a plan: all that it makes is late, on the late tree. Then the plan is installed as
   an epoch, its members join their flows, and the old epoch drains. So churn is the same whether the history is
   replayed or not. A client's last broker in the history is that of the plan.
4. In the churn a subscription that is made, or made again at another broker, is late, and stays so: nothing moves it to
   a flow of the plan before the next plan does. What the plan knows leaves its flows when it ends.
5. A client moves without loss: its new broker announces, and then subscribes to one thing after the other, each under
   a higher version and before its old broker takes the older one back.
6. A broker announces everything, until all clients that are attached to it, and there is one, have announced something.
   It then announces just that, until a client comes that has not.
7. An event comes before a change of the same time.

Policies that pace wait in the time of the scenario, and all that still waits at the end is let go. Those that prune by
statistics see the events only where traffic is replayed as well.
"""

import gc
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from overstory.errors import DataError, Problem
from overstory.lab.audience import Audience
from overstory.lab.counting import CountingWiring, Messages
from overstory.model.network import Ints
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.topics import TOPIC, topic_attributes
from overstory.pipeline.history import TIME, Change, Timeline, timeline_of
from overstory.routing.messages import Output
from overstory.routing.policies import active
from overstory.routing.policy import Policy
from overstory.routing.router import Router
from overstory.routing.share import shares_of, tree_shares

POLICY = active.NAME  # unless another one is asked for
BEFORE, PLANNED = 0, 1  # the epochs: of the history, and of the plan
Event = dict[str, Any]  # a row of ``events``


class Replayed(NamedTuple):
    """What a replay counted."""

    history: Messages  # before the first event; nothing if the history was not replayed
    installation: Messages  # what it took to install the plan: no part of the cost
    churn: Messages  # from the first event on: what control prices
    frames: Ints  # of events, on each directed link; nothing if traffic was not replayed
    bytes: Ints
    entries: Ints  # of the forwarding table of each broker in the end, in the order of the network
    entries_access: Ints  # those of them that are for clients
    seconds: float  # of one core that the churn took


def replay(scenario: Scenario, plan: Plan, policy: Policy, history: bool = False, traffic: bool = False) -> Replayed:
    """Replays the churn of a scenario under a plan and, where asked for, its history before and its events meanwhile.

    Raises a ``DataError`` if ``changes`` make no sense, before anything is replayed.
    """
    stage = Stage(scenario, plan, policy, timeline_of(scenario))
    events = _events(scenario) if traffic else []
    with _uncollected():
        before = stage.run_history() if history else Messages.none(scenario.network)
        installation = stage.install(after_history=history)
        start = time.process_time()
        stage.run(stage.timeline.churn, events)
        taken = time.process_time() - start
    wiring = stage.wiring
    found = [wiring.routers[broker].statistics() for broker in scenario.network.ids.tolist()]
    entries, access = np.array([each.entries for each in found]), np.array([each.entries_access for each in found])
    return Replayed(before, installation, wiring.counted(), *wiring.traffic(), entries, access, taken)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Lets Python's collector wait: there are millions of objects, and hardly a cycle."""
    collected = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collected:
            gc.enable()


def _events(scenario: Scenario) -> list[Event]:
    """All events, in the order of their times. A log that does not fit into memory is for the meter."""
    rows: list[Event] = pq.read_table(scenario.events).to_pylist()
    return sorted(rows, key=lambda row: -np.inf if row[TIME] is None else row[TIME])


class Stage:
    """The routers, and the clients that talk to them."""

    def __init__(self, scenario: Scenario, plan: Plan, policy: Policy, timeline: Timeline) -> None:
        self.scenario, self.plan, self.policy, self.timeline = scenario, plan, policy, timeline
        self.clients = Audience(scenario, plan, timeline, before=False)
        self.beginning = min((change.time for change in (*timeline.history, *timeline.churn)), default=0.0)
        self.now = 0.0  # seconds since then
        self.announcements = dict(timeline.announced)  # the filters of those that clients have made, the last of each
        self.wiring: CountingWiring

    # Epochs

    def run_history(self) -> Messages:
        """Replays the history on the late tree alone. Returns its messages."""
        self.clients = Audience(self.scenario, self.plan, self.timeline, before=True)
        network = self.scenario.network
        ends = [network.ids[side].tolist() for side in minimum_spanning_tree(network)]
        shares = tree_shares(zip(*ends, strict=True), BEFORE, brokers=network.ids.tolist())
        self.wiring = CountingWiring(network, shares, self.policy)
        self.wiring.headers = self.scenario.settings.headers
        for client, ids in sorted(self.clients.of.items()):
            for id_ in sorted(ids):
                self._subscribe(client, id_, self.clients.versions[id_])
        self.wiring.counted()
        last = {change.client: change.row for change in self.timeline.history if change.broker is not None}
        home = self.clients.home
        rows = [
            change._replace(broker=home.get(change.client, change.broker))
            if last.get(change.client) == change.row
            else change
            for change in self.timeline.history
        ]
        self.run(rows, [])
        return self.wiring.counted()

    def install(self, after_history: bool) -> Messages:
        """Installs the plan, and retires what was before. Returns the messages that this took."""
        shares = shares_of(self.scenario, self.plan, PLANNED, self.clients.versions)
        if not after_history:
            self.wiring = CountingWiring(self.scenario.network, shares, self.policy, prepare=self._prepared)
            self.wiring.headers = self.scenario.settings.headers
            return self.wiring.counted()
        self.wiring.connect(shares)
        self.wiring.install(shares)
        self.wiring.settle()
        self.wiring.activate(shares)
        self.wiring.settle()
        for broker, router in self.wiring.routers.items():
            self.wiring.do(broker, router.retire(BEFORE))
        return self.wiring.counted()

    def _prepared(self, routers: Mapping[int, Router]) -> None:
        """Tells the routers what clients announced before the first event, before they know of any epoch."""
        for client, version in self.clients.announced.items():
            routers[self.clients.at[client]].advertise(client, client, version, self.timeline.announced[client])
        for broker, router in routers.items():
            if self.clients.is_narrowed(broker):
                router.narrow()

    # Changes and events, in the order of their times

    def run(self, changes: Sequence[Change], events: Sequence[Event]) -> None:
        """Replays changes, and publishes events meanwhile. All that waits is let go in the end."""
        ahead = deque(events)
        for change in changes:
            while ahead and not ahead[0][TIME] > change.time:
                self._publish(ahead.popleft())
            self._wait_until(change.time - self.beginning)
            OPERATIONS[change.operation](self, change)
        while ahead:
            self._publish(ahead.popleft())
        while self.policy.waits and self._is_waiting():
            self._tick(self.now + self.policy.waits)

    def _do(self, broker: int, outputs: Iterable[Output]) -> None:
        """Sends what a router has to say, and waits for the silence after it."""
        self.wiring.do(broker, outputs)
        self.wiring.settle()

    def _wait_until(self, now: float) -> None:
        """Lets time pass, for policies that wait for it or count in it."""
        while self.policy.waits and now - self.now > self.policy.waits and self._is_waiting():
            self._tick(self.now + self.policy.waits)
        if self.policy.waits or self.policy.statistics:
            self._tick(now)

    def _is_waiting(self) -> bool:
        return any(router.is_waiting for router in self.wiring.routers.values())

    def _tick(self, now: float) -> None:
        self.now = now
        for broker, router in self.wiring.routers.items():
            self.wiring.do(broker, router.tick(now))
        self.wiring.settle()

    def _publish(self, event: Event) -> None:
        client, broker = event["$publisher"], self.clients.at.get(event["$publisher"])
        if broker is None:
            what = f"event {event['$id']} is published by client {client}, which is not there at that time"
            raise DataError("traffic cannot be replayed:", [Problem("events", None, "$publisher", what)])
        attributes = {name: value for name, value in event.items() if not name.startswith("$")}
        if isinstance(attributes.get(TOPIC), str):
            attributes |= topic_attributes(attributes[TOPIC])
        self.wiring.size = event["$bytes"]
        advertisement = client if client in self.clients.announced else -1
        self.wiring.publish(broker, client, event["$id"], attributes, advertisement)
        self.wiring.settle()

    def _subscribe(self, client: int, id_: int, version: int) -> None:
        broker, wanted = self.clients.at[client], self.clients.filter(id_)
        no_local = self.clients.no_local.get(id_, False)
        self._do(broker, self.wiring.routers[broker].subscribe(client, id_, version, wanted, no_local))

    def _unsubscribe(self, broker: int, client: int, id_: int, version: int) -> None:
        self._do(broker, self.wiring.routers[broker].unsubscribe(client, id_, version))

    def _gate(self, broker: int) -> None:
        """A broker announces everything, or just what its clients have announced, as they now are."""
        router, narrowed = self.wiring.routers[broker], self.clients.is_narrowed(broker)
        if router.state.narrowed != narrowed:
            self._do(broker, router.narrow(narrowed))

    # Operations

    def _subscribes(self, change: Change) -> None:
        assert change.subscription is not None
        assert change.filter is not None
        version = self.clients.subscribe(change.client, change.subscription, change.filter)
        self._subscribe(change.client, change.subscription, version)

    def _unsubscribes(self, change: Change) -> None:
        assert change.subscription is not None
        broker, id_ = self.clients.at[change.client], change.subscription
        self.clients.unsubscribe(change.client, id_)
        self._unsubscribe(broker, change.client, id_, self.clients.versions[id_])

    def _announces(self, change: Change) -> None:
        assert change.filter is not None
        self.announcements[change.client] = change.filter
        self._announce(change.client)
        self._gate(self.clients.at[change.client])

    def _announce(self, client: int) -> None:
        broker, version = self.clients.at[client], self.clients.announce(client)
        announced = self.announcements[client]
        self._do(broker, self.wiring.routers[broker].advertise(client, client, version, announced))

    def _joins(self, change: Change) -> None:
        assert change.broker is not None
        self.clients.place(change.client, change.broker)
        self._gate(change.broker)

    def _leaves(self, change: Change) -> None:
        client, broker = change.client, self.clients.at[change.client]
        for id_ in sorted(self.clients.of[client]):
            self.clients.unsubscribe(client, id_)
            self._unsubscribe(broker, client, id_, self.clients.versions[id_])
        version = self.clients.silence(client)
        self.clients.place(client, None)
        if version is not None:
            self._do(broker, self.wiring.routers[broker].unadvertise(client, client, version))
        self._gate(broker)

    def _moves(self, change: Change) -> None:
        """The new broker announces and subscribes before the old one takes anything back."""
        client, old, new = change.client, self.clients.at[change.client], change.broker
        assert new is not None
        if new == old:
            return
        self.clients.place(client, new)
        if not self.clients.is_narrowed(new):
            self._gate(new)
        if client in self.clients.announced:
            self._announce(client)
        self._gate(new)
        for id_ in sorted(self.clients.of[client]):
            version = self.clients.versions[id_]
            self._subscribe(client, id_, self.clients.subscribe(client, id_, self.clients.filters[id_]))
            self._unsubscribe(old, client, id_, version)
        if client in self.clients.announced:
            version = self.clients.announced[client] - 1
            self._do(old, self.wiring.routers[old].unadvertise(client, client, version))
        self._gate(old)


OPERATIONS = {
    "subscribe": Stage._subscribes,
    "unsubscribe": Stage._unsubscribes,
    "announce": Stage._announces,
    "join": Stage._joins,
    "leave": Stage._leaves,
    "move": Stage._moves,
}
