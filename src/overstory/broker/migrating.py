"""Clients that migrate without any coordinator: the overlay paper's distributed migration, on a live broker.

Every ``migrate`` seconds, give or take a quarter, a broker does a *round*, in small steps beside its other work:

1. It **summarises** what its clients publish, in one round of ``ROUNDS``: some events of its sample, each standing for
   a share of the bytes. All brokers get to know them, as a fact (``facts``).
2. It finds out which of all brokers' events its own clients **registered** for, and tells all brokers, as a fact, which
   of them somebody here wants, and how much traffic its clients have. It does so, too, when a summary has come. Events
   that not all brokers have told of yet do not count.
3. It **proposes** one move, by the policy that the simulator runs (``routing.migration``): for each of its clients it
   knows exactly what access and core would cost elsewhere, for these events. A move has to save more than
   ``HYSTERESIS`` of what the client costs here.
4. The client **accepts** if it said that it follows, and nobody asked in vain before; the other broker accepts if it
   has room. Then the session is **replicated**, the client is **redirected**, and **connects** there (``moving``).

Who the plan wants elsewhere is left to the plan. Nobody is moved while a plan is being installed.
"""

import random
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from overstory.broker.message import message_of
from overstory.broker.session import Session
from overstory.broker.terrain import Terrain
from overstory.errors import ProtocolError
from overstory.kernels.overlay_state import Given, new_state
from overstory.routing.knowledge import Seen
from overstory.routing.migration import CONNECT, Migration
from overstory.wire.attributes import attributes_of
from overstory.wire.decode import decode
from overstory.wire.packets import Publish

TRAFFIC, WANTED = "traffic", "wanted"  # kinds of facts
EVENTS = 16  # of one broker's summary
HYSTERESIS = 0.05
PATIENCE = 10  # rounds
ROUNDS = 4


class Summary(msgspec.Struct, frozen=True, array_like=True):
    """What the clients of a broker publish: events that stand for all."""

    round: int
    weight: float  # bytes a second that each event stands for
    events: list[tuple[int, int, bytes]]  # the publisher, the version of MQTT, the packet


class Wanted(msgspec.Struct, frozen=True, array_like=True):
    """Which events of each broker's summary, of this round, somebody at a broker wants; and its clients' traffic."""

    load: float  # bytes a second
    events: dict[int, tuple[int, list[int]]]  # by broker: the round, the places


class Channel(msgspec.Struct, frozen=True):
    """One event of a summary."""

    broker: int
    place: int
    publisher: int
    weight: float  # bytes a second
    attributes: dict[str, Any]


class Look(msgspec.Struct, frozen=True):
    """What clients here want of all brokers' events."""

    channels: list[Channel]
    users: list[Session]
    wants: dict[str, list[int]]  # by client: channels
    traffic: dict[str, float]  # by client: bytes a second


class Migrating:
    """The migration of one broker. ``terrain`` is what ways between brokers, and to clients, cost."""

    def __init__(self, fabric: Any, terrain: Terrain, interval: float) -> None:
        self._fabric, self._state, self._terrain = fabric, fabric.state, terrain
        self._me: int = fabric.state.config.number
        self._interval = interval
        self._dice = random.Random(self._me)
        self._policy = Migration(terrain.position(self._me), HYSTERESIS, PATIENCE)
        self._round, self._sampled, self._published = 0, 0, 0
        self._since = self._next = 0.0
        self._summaries: dict[int, Summary] = {}
        self._wanted: dict[int, Wanted] = {}
        self.is_busy = self._is_dirty = False
        fabric.facts.on[TRAFFIC] = self._hear_traffic
        fabric.facts.on[WANTED] = self._hear_wanted

    def _hear_traffic(self, broker: int, _: str, value: bytes | None) -> None:
        self._summaries.pop(broker, None)
        if value is not None:
            self._summaries[broker] = msgspec.msgpack.decode(value, type=Summary)
            self._is_dirty = True

    def _hear_wanted(self, broker: int, _: str, value: bytes | None) -> None:
        self._wanted.pop(broker, None)
        if value is not None:
            self._wanted[broker] = msgspec.msgpack.decode(value, type=Wanted)

    def tick(self, now: float) -> None:
        """Begins a round when it is time for one."""
        if not self._next:
            self._since, self._next = now, now + self._pause()
        if self.is_busy or (now < self._next and not self._is_dirty):
            return
        self.is_busy = True
        if now >= self._next:
            self._next = now + self._pause()
            self._state.chores.append(self._guarded(self.round(now)))
        else:
            self._state.chores.append(self._guarded(self._look([])))

    def _pause(self) -> float:
        return self._interval * self._dice.uniform(0.75, 1.25)

    def _guarded(self, steps: Iterator[None]) -> Iterator[None]:
        try:
            yield from steps
        finally:
            self.is_busy = False

    # One round

    def round(self, now: float) -> Iterator[None]:
        """Summarises, tells, proposes, and moves one client if that saves enough; in steps."""
        if self._round % ROUNDS == 0:
            self._summarise(now)
        self._round += 1
        yield
        found: list[Look] = []
        yield from self._look(found)
        (look,) = found
        if look.channels and look.users and len(self._fabric.epochs.installed) == 1:
            self._propose(look)

    def _look(self, found: list[Look]) -> Iterator[None]:
        """Looks at what clients here want, and tells the others. ``found`` gets what was seen."""
        self._is_dirty = False
        channels = self._channels()
        users = [session for session in list(self._state.sessions.values()) if session.link is not None]
        wants: dict[str, list[int]] = {}
        for session in users:
            wants[session.client_id] = self._registered(session, channels)
            yield
        traffic = {
            session.client_id: sum(channels[one].weight for one in wants[session.client_id])
            + sum(one.weight for one in channels if one.publisher == session.number)
            for session in users
        }
        self._tell_wanted(channels, wants, sum(traffic.values()))
        found.append(Look(channels, users, wants, traffic))

    def _summarise(self, now: float) -> None:
        """Says what clients here have published since the last round. Without anything it says that, too."""
        state = self._state
        _, taken = state.sampling.since(self._sampled)
        self._sampled = taken[-1].number if taken else self._sampled
        published, self._published = state.counts.messages_in - self._published, state.counts.messages_in
        seconds, self._since = max(now - self._since, 1e-3), now
        chosen = self._dice.sample(taken, min(EVENTS, len(taken)))
        size = sum(len(one.packet) for one in taken) / max(1, len(taken))
        share = published * size / seconds / max(1, len(chosen))
        events = [(one.publisher, one.version, one.packet) for one in chosen]
        self._fabric.facts.say(TRAFFIC, "", msgspec.msgpack.encode(Summary(self._round, share, events)))

    def _channels(self) -> list[Channel]:
        """The events of all summaries."""
        found: list[Channel] = []
        types = self._state.config.types
        for broker, summary in sorted(self._summaries.items()):
            if broker not in self._terrain:
                continue
            for place, (publisher, version, packet) in enumerate(summary.events):
                attributes = _attributes(publisher, version, packet, self._state.now, types)
                if attributes is not None:
                    found.append(Channel(broker, place, publisher, summary.weight, attributes))
        return found

    def _registered(self, session: Session, channels: list[Channel]) -> list[int]:
        """The channels that a client wants."""
        made = list(session.subscriptions.values())
        return [
            at
            for at, channel in enumerate(channels)
            if any(
                one.filter.matches(channel.attributes)
                for one in made
                if not (one.asked.no_local and channel.publisher == session.number)
            )
        ]

    def _tell_wanted(self, channels: list[Channel], wants: Mapping[str, list[int]], load: float) -> None:
        found: dict[int, tuple[int, list[int]]] = {
            broker: (summary.round, []) for broker, summary in self._summaries.items()
        }
        for at in sorted({one for mine in wants.values() for one in mine}):
            channel = channels[at]
            if channel.broker in found:
                found[channel.broker][1].append(channel.place)
        self._fabric.facts.say(WANTED, "", msgspec.msgpack.encode(Wanted(round(load, 1), found)))

    def _propose(self, look: Look) -> None:
        """Moves the client to where that saves most, if the client follows."""
        others = [broker for broker in self._terrain.brokers if broker != self._me and broker in self._wanted]
        known = self._known(look, others)
        request = self._policy.propose(known)
        if request is None:
            return
        session, foreign = look.users[request.user], self._terrain.brokers[request.foreign]
        accepts = self._fabric.moving.may_migrate(session.client_id, foreign)
        answers = self._policy.answered(request, accepts, known)
        moves = any(message.verb == CONNECT for message in answers)
        fields = {"client": session.client_id, "to": foreign, "saves": round(request.saving, 3), "moves": moves}
        self._state.log("migration", **fields)
        if moves:
            self._fabric.moving.ask({session.client_id: foreign}, again=True)

    def _known(self, look: Look, others: list[int]) -> Seen:
        """What this broker knows: its own clients, and of every other broker one user who wants what is wanted there.
        Users are in this order, each of a kind of its own."""
        users, traffic = look.users, look.traffic
        whole = {source for source, said in self._summaries.items() if self._is_answered(source, said, others)}
        channels = [msgspec.structs.replace(one, weight=one.weight * (one.broker in whole)) for one in look.channels]
        wanted = [look.wants[session.client_id] for session in users]
        sent = [[at for at, one in enumerate(channels) if one.publisher == session.number] for session in users]
        wanted += [self._wanted_at(broker, channels) for broker in others]
        sent += [[at for at, one in enumerate(channels) if one.broker == broker] for broker in others]
        weights = np.array([channel.weight for channel in channels])
        here, reachable = self._terrain.position(self._me), self._up()
        at = np.array([here] * len(users) + [self._terrain.position(broker) for broker in others], np.int64)
        demand = np.array(
            [traffic[session.client_id] for session in users] + [self._wanted[broker].load for broker in others]
        )
        reach = np.full((len(at), len(reachable)), -1, np.int64)
        costs = np.zeros(reach.shape)
        for row, session in enumerate(users):
            got, gave = weights[wanted[row]].sum(), weights[sent[row]].sum()
            prices = self._terrain.access(session.number, reachable, got, gave)
            order = np.argsort(prices, kind="stable")
            reach[row], costs[row] = np.array(reachable, np.int64)[order], prices[order]
        reach[len(users) :, 0] = at[len(users) :]
        given = Given(
            self._terrain.far,
            (self._terrain.far + self._terrain.far.T) / 2,
            np.ones(1),
            np.arange(len(at)),
            _offsets(wanted),
            _joined(wanted),
            _offsets(sent),
            _joined(sent),
            weights[_joined(sent)],
            reach,
            costs,
            demand,
            self._terrain.capacity,
            weights,
        )
        paid = np.zeros(len(at))
        for row in range(len(users)):
            paid[row] = costs[row][reach[row] == here][0]
        return Live(new_state(given, at, paid), np.ones(reach.shape, bool))

    def _is_answered(self, source: int, said: Summary, others: list[int]) -> bool:
        """Whether all other brokers have told which events of a broker's summary they want."""
        return all(self._wanted[broker].events.get(source, (-1, []))[0] == said.round for broker in others)

    def _wanted_at(self, broker: int, channels: list[Channel]) -> list[int]:
        """The channels that somebody at another broker wants."""
        said = self._wanted[broker].events
        return [at for at, one in enumerate(channels) if one.place in said.get(one.broker, (0, []))[1]]

    def _up(self) -> list[int]:
        """The positions of brokers that can be reached, and whose clients' addresses are known; this one, too."""
        lost = self._fabric.facts.lost
        found = [self._me, *self._wanted]
        return sorted(
            {
                self._terrain.position(broker)
                for broker in found
                if broker in self._terrain
                and broker not in lost
                and (broker == self._me or self._fabric.address_of(broker) is not None)
            }
        )


class Live(Seen):
    """What is known on live brokers: a client costs its access, and the way of what it wants from where that comes."""

    def cost_of(self, user: int) -> float:
        given = self.state.given
        wants = given.wants[given.want_offsets[user] : given.want_offsets[user + 1]]
        far = given.far[:, self.state.at[user]]
        rates = self.state.rate[wants]  # by broker
        return float(self.state.paid[user] + (rates * far).sum())


def _offsets(lists: list[list[int]]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum([len(one) for one in lists])]).astype(np.int64)


def _joined(lists: list[list[int]]) -> NDArray[np.int64]:
    return np.array([item for one in lists for item in one], np.int64)


def _attributes(publisher: int, version: int, packet: bytes, now: float, types: Any) -> dict[str, Any] | None:
    """What filters see of a packet; None if it has a topic that only its connection knows."""
    try:
        read = decode(packet, version)
    except ProtocolError:
        return None
    if not isinstance(read, Publish) or not read.topic:
        return None
    return attributes_of(message_of(read, read.topic, publisher, now), types)
