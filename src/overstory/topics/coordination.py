"""The coordinator's mind: what Tamara decides, brought about on a platform where everything takes time.

1. A topic's *place* in a cluster is first ``ADDING``: its publishers are told. Once all have said that they publish
   there, it is ``READY``: clients may rely on it. When it is ``RETIRING``, no client may newly rely on it; once none
   does any more, its publishers are told to stop.
2. A client is told what it is to hold, one thing at a time. It relies on what it has last confirmed, and on what it has
   been told since.
3. All that is told follows from what is kept here. So a coordinator that comes back goes on where it was, from its
   journal, and from what clients report.
4. A place is ``READY`` only when the guard hears its topic at every server, so that events of publishers which do not
   use this layer are relayed. A topic of which there is such an event is *plain* from then on: it leaves its clusters,
   and everyone who wants it is subscribed to it directly.

No I/O, no clock: messages in, messages out.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from overstory.topics.deciding import Deciding
from overstory.topics.protocol import (
    RELAY,
    Again,
    Bye,
    Counted,
    Declare,
    Done,
    FromClient,
    Publishes,
    Report,
    Routed,
    Routes,
    Take,
    ToClient,
)

ADDING, READY, RETIRING = "adding", "ready", "retiring"
GAP = 0.25  # seconds between two things that a client is told to hold: much may change meanwhile
LEASE = 30.0  # seconds that a client which cannot be reached is waited for
GUARD = ""  # stands among the publishers that a place waits for; no client has this name
Place = tuple[str, int]  # a topic in a cluster


class Change(NamedTuple):
    """Something that happened to a cluster, or to a topic without one (``plain``): for the timeline."""

    time: float
    what: str  # formed, added, removed, merged, ended, plain
    cluster: int | None
    topics: tuple[str, ...] = ()
    into: int | None = None
    why: str | None = None


class Told:
    """What the coordinator knows of a client."""

    def __init__(self) -> None:
        self.takes: list[Take] = []  # the last that is confirmed, and the one after it, if any
        self.confirmed = 0
        self.publishes: set[str] = set()
        self.unreachable: float | None = None  # since when
        self.told_at = -GAP  # when it was last told what to hold

    @property
    def busy(self) -> bool:
        """Whether it has yet to confirm what it was told last."""
        return bool(self.takes) and self.takes[-1].version != self.confirmed


class Coordination:
    """``incarnation`` is higher each time that the coordinator comes back; versions begin with it. ``guarded`` is false
    where there is no guard, and all publishers are known to use the layer."""

    def __init__(self, deciding: Deciding, incarnation: int = 1, guarded: bool = True) -> None:
        self.deciding, self.has_guard = deciding, guarded
        self.version = incarnation << 32
        self.clients: dict[str, Told] = {}
        self.places: dict[Place, str] = {}
        self.publishers: dict[str, set[str]] = defaultdict(set)
        self.witnesses: list[str] = []
        self.plain: dict[str, str] = {}  # topics that are in no cluster for good, and why
        self.relayed = 0  # events of publishers that do not use the layer
        self.timeline: list[Change] = []
        self.sent: dict[str, int] = defaultdict(int)
        self.handovers = 0
        self._known: dict[int, frozenset[str]] = {}
        self._waiting: dict[Place, dict[str, int]] = {}  # publishers that have yet to confirm, with the version
        self._by_topic: dict[str, set[Place]] = defaultdict(set)
        self._guarded: set[str] = set()  # topics that the guard hears at every server
        self._holders: dict[int, set[str]] = defaultdict(set)  # clients that were told of a cluster
        self._rates: dict[str, dict[str, float]] = defaultdict(dict)  # events a second, by topic and publisher
        self.dirty_clients: set[str] = set()  # whose rows of the journal have to be written
        self.dirty_places: set[Place] = set()
        self.dirty_plain: set[str] = set()
        self._unsettled: set[str] = set()  # clients that may have to be told something
        self._out: list[tuple[str, ToClient]] = []

    # what clients say

    def hear(self, message: FromClient, now: float) -> None:
        client = message.client
        if isinstance(message, Bye):
            self.forget(client)
            return
        if client not in self.clients and not isinstance(message, Report):
            self._say(client, Again())
            self.clients[client] = Told()
        told = self.clients.setdefault(client, Told())
        told.unreachable = None
        if isinstance(message, Report):
            self._reported(told, message)
        elif isinstance(message, Declare):
            self.deciding.declare(client, message.topic, message.wanted and message.topic not in self.plain)
            self.dirty_clients.add(client)
            self._unsettled.add(client)
        elif isinstance(message, Publishes):
            self._publishes(client, [message.topic])
        elif isinstance(message, Done):
            self._done(told, message)
        elif isinstance(message, Routed):
            self._routed(client, message.version)
        elif isinstance(message, Counted):
            self._count(client, message)

    def _reported(self, told: Told, report: Report) -> None:
        """All wants are as told; the client may have lost its routes, and is told anew what to hold."""
        client = report.client
        for topic in self.deciding.wanted_by(client) - set(report.wants):
            self.deciding.declare(client, topic, False)
        for topic in report.wants:
            self.deciding.declare(client, topic, topic not in self.plain)
        told.confirmed = max(told.confirmed, report.version) if told.takes else told.confirmed
        told.takes = [take for take in told.takes if take.version >= told.confirmed]
        self._publishes(client, report.publishes)
        self._take(client, told)

    def _publishes(self, client: str, topics: list[str]) -> None:
        told = self.clients[client]
        for topic in topics:
            self.deciding.topic(topic)
            self.publishers[topic].add(client)
            told.publishes.add(topic)
        self.dirty_clients.add(client)
        if topics:
            self._route(client, topics)

    def _route(self, client: str, topics: list[str]) -> None:
        """Tells a publisher the clusters of topics, also those that are only coming and those that still go."""
        found = {topic: sorted(id_ for _, id_ in self._by_topic[topic]) for topic in topics}
        self.version += 1
        for place, waiting in self._waiting.items():
            if place[0] in found and client in self.publishers[place[0]]:
                waiting[client] = self.version
        self._say(client, Routes(self.version, found))

    def _routed(self, client: str, version: int) -> None:
        """A publisher publishes as it was told."""
        for waiting in self._waiting.values():
            if waiting.get(client, version + 1) <= version:
                del waiting[client]

    def _done(self, told: Told, done: Done) -> None:
        if told.takes and done.version == told.takes[-1].version:
            told.confirmed = done.version
            told.takes = told.takes[-1:]
            self.handovers += 1
            self.dirty_clients.add(done.client)
            self._unsettled.add(done.client)

    def _count(self, client: str, counted: Counted) -> None:
        """Rates are those of all publishers of a topic: the latest that each has told."""
        for topic, events in counted.events.items():
            self._rates[topic][client] = events / max(counted.seconds, 1e-3)
            self.deciding.rate(topic, sum(self._rates[topic].values()))

    # events of publishers that do not use the layer

    @property
    def to_guard(self) -> set[str]:
        """The topics that the guard has to listen to: those of clusters, also of those that come and go."""
        return {topic for topic, _ in self.places} if self.has_guard else set()

    @property
    def unguarded(self) -> set[str]:
        """The topics whose places wait for the guard."""
        return {topic for (topic, _), waiting in self._waiting.items() if GUARD in waiting}

    def guarded(self, topics: Iterable[str]) -> None:
        """The guard hears these topics at every server."""
        for topic in topics:
            if self._by_topic.get(topic):
                self._guarded.add(topic)
            for place in self._by_topic.get(topic, ()):
                self._waiting.get(place, {}).pop(GUARD, None)

    def make_plain(self, topic: str, why: str, now: float) -> None:
        """A topic leaves its clusters for good, since somebody publishes it without the layer, or the guard may not
        listen to it. What is plain already stays so."""
        if topic in self.plain:
            return
        self.plain[topic] = why
        self.dirty_plain.add(topic)
        self.timeline.append(Change(now, "plain", None, (topic,), None, why))
        for client in list(self.clients):
            if topic in self.deciding.wanted_by(client):
                self.deciding.declare(client, topic, False)
                self._unsettled.add(client)
        self.deciding.changed_topics.add(topic)

    def clusters_of(self, topic: str) -> list[int]:
        """The clusters that somebody may get a topic from."""
        return sorted(id_ for _, id_ in self._by_topic.get(topic, ()))

    def tell_again(self) -> None:
        """Answers of witnesses may have been lost: whoever waits for them is told anew."""
        for client, told in self.clients.items():
            if told.busy:
                self._take(client, told)

    # who comes and goes

    def unreachable(self, client: str, now: float) -> None:
        """Nobody listens where the client should."""
        told = self.clients.get(client)
        if told is not None and told.unreachable is None:
            told.unreachable = now

    def expire(self, now: float) -> None:
        """Forgets clients that could not be reached for too long."""
        for client, told in list(self.clients.items()):
            if told.unreachable is not None and now - told.unreachable > LEASE:
                self.forget(client)

    def forget(self, client: str) -> None:
        told = self.clients.pop(client, None)
        for topic in self.deciding.wanted_by(client) if told else ():
            self.deciding.declare(client, topic, False)
        for topic in told.publishes if told else ():
            self.publishers[topic].discard(client)
            self._rates[topic].pop(client, None)
        for waiting in self._waiting.values():
            waiting.pop(client, None)
        for cluster in {cluster for take in told.takes for cluster in take.clusters} if told else ():
            self._holders[cluster].discard(client)
        self._unsettled.discard(client)
        self.dirty_clients.add(client)
        self.deciding.leave(client)

    def watched_by(self, witnesses: list[str]) -> None:
        """The servers that have a witness. Who waits for another set is told anew."""
        if witnesses != self.witnesses:
            self.witnesses = witnesses
            self.tell_again()

    def ask_all(self) -> None:
        for client in self.clients:
            self._say(client, Again())

    def resume(
        self, clients: dict[str, Told], wants: dict[str, list[str]], places: dict[Place, str], plain: dict[str, str]
    ) -> None:
        """Goes on from a journal. Clusters are as their places and their holders say; what had been decided, but not
        begun, is decided anew."""
        self.plain = plain
        self.deciding.changed_topics |= plain.keys()
        wants = {client: [topic for topic in mine if topic not in plain] for client, mine in wants.items()}
        topics: dict[int, list[str]] = defaultdict(list)
        for (topic, id_), state in sorted(places.items()):
            self._by_topic[topic].add((topic, id_))
            if state != RETIRING:
                topics[id_].append(topic)
        held = {client: list(told.takes[-1].clusters) for client, told in clients.items() if told.takes}
        self.deciding.restore(wants, topics, held)
        self.clients, self.places = clients, places
        self._known = self.deciding.alive()
        for client, told in clients.items():
            for topic in told.publishes:
                self.publishers[topic].add(client)
            for id_ in {id_ for take in told.takes for id_ in take.clusters}:
                self._holders[id_].add(client)
        for place, state in list(places.items()):
            if state == ADDING:
                self._add(place)
            elif place[1] not in self._known:
                self.places[place] = RETIRING
                self.dirty_places.add(place)
        self._unsettled = set(clients)
        self.ask_all()

    # what follows

    def settle(self, now: float) -> list[tuple[str, ToClient]]:
        """Brings what is closer to what is to be. Returns what has to be told to whom."""
        self._note_changes(now)
        self._change_places()
        for place in [place for place, waiting in self._waiting.items() if not waiting]:
            self.places[place] = READY
            self.dirty_places.add(place)
            del self._waiting[place]
            self._unsettled |= self._holders[place[1]]
        clients, self._unsettled = self._unsettled, set()
        for client in sorted(clients):
            told = self.clients.get(client)
            if told is None:
                continue
            if told.busy:
                continue  # it is looked at again when it is done
            if now - told.told_at < GAP:
                self._unsettled.add(client)
            elif not told.takes or self._target(client) != told.takes[-1].clusters:
                told.told_at = now
                self._take(client, told)
        self._retire()
        out, self._out = self._out, []
        return out

    def _note_changes(self, now: float) -> None:
        alive = self.deciding.alive()
        for id_ in sorted(alive.keys() | self._known.keys()):
            before, after = self._known.get(id_, frozenset()), alive.get(id_, frozenset())
            if id_ not in self._known:
                self.timeline.append(Change(now, "formed", id_, tuple(sorted(after))))
            elif id_ not in alive:
                into = self.deciding.merged.pop(id_, None)
                self.timeline.append(Change(now, "ended" if into is None else "merged", id_, (), into))
            elif before != after:
                for what, topics in (("added", after - before), ("removed", before - after)):
                    if topics:
                        self.timeline.append(Change(now, what, id_, tuple(sorted(topics))))
        self._known = alive

    def _change_places(self) -> None:
        changed, self.deciding.changed_topics = self.deciding.changed_topics, set()
        for topic in sorted(changed):
            wanted = {(topic, id_) for id_ in self.deciding.around(topic)} if topic not in self.plain else set()
            there = set(self._by_topic[topic])
            for place in wanted - there:
                self._add(place)
            for place in wanted & there:
                if self.places[place] == RETIRING:
                    self._add(place)
            for place in there - wanted:
                self.places[place] = RETIRING
                self.dirty_places.add(place)
                self._waiting.pop(place, None)
                self._unsettled |= self._holders[place[1]]
        people, self.deciding.changed_clients = self.deciding.changed_clients, set()
        self._unsettled |= people & self.clients.keys()

    def _add(self, place: Place) -> None:
        topic, _ = place
        self.places[place] = ADDING
        self.dirty_places.add(place)
        self._by_topic[topic].add(place)
        self._waiting[place] = {} if topic in self._guarded or not self.has_guard else {GUARD: 0}
        for client in sorted(self.publishers[topic] & self.clients.keys()):
            self._route(client, [topic])

    def _target(self, client: str) -> dict[int, list[str]]:
        wants, alive = self.deciding.wanted_by(client), self._known
        return {
            id_: sorted(
                topic for topic in alive.get(id_, ()) if topic in wants and self.places.get((topic, id_)) == READY
            )
            for id_ in self.deciding.held_by(client)
        }

    def _take(self, client: str, told: Told) -> None:
        self.version += 1
        target = self._target(client)
        relied = {topic for take in told.takes for topics in take.clusters.values() for topic in topics}
        given_up = relied - {topic for topics in target.values() for topic in topics}
        relay = [RELAY] if given_up and self.has_guard else []
        take = Take(self.version, target, [*self.witnesses, *relay])
        told.takes.append(take)
        for cluster in take.clusters:
            self._holders[cluster].add(client)
        self.dirty_clients.add(client)
        self._say(client, take)

    def _retire(self) -> None:
        """Places on which nobody relies any more end."""
        going = {place for place, state in self.places.items() if state == RETIRING}
        if not going:
            return
        going = {place for place in going if not self._relied_on(place)}
        for place in going:
            del self.places[place]
            self._by_topic[place[0]].discard(place)
            self.dirty_places.add(place)
            if not self._by_topic[place[0]]:
                self._guarded.discard(place[0])
        for topic in sorted({topic for topic, _ in going}):
            for client in sorted(self.publishers[topic] & self.clients.keys()):
                self._route(client, [topic])

    def _relied_on(self, place: Place) -> bool:
        topic, id_ = place
        takes = (take for client in self._holders[id_] if client in self.clients for take in self.clients[client].takes)
        return any(topic in take.clusters.get(id_, ()) for take in takes)

    def _say(self, client: str, message: ToClient) -> None:
        self.sent[type(message).__name__] += 1
        self._out.append((client, message))
