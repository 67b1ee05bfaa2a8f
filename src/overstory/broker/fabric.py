"""A broker among its neighbours, without I/O: router messages and events go out as frames, and frames come in.

1. What goes to one neighbour keeps its order: events and control messages leave in one queue. Events of one turn that
   nothing stands between are one frame.
2. What comes is handled in the order in which it came, a slice in each turn. A frame that cannot be ends its link.
3. Which plan is used, ``epochs`` decides. Who is active says so to its neighbours, and takes events from then on.
4. Further messages between brokers (``Codec``, ``on``) travel on the same links, to a neighbour (``tell``) or along the
   late tree to any broker (``tell_broker``).
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, get_args

import msgspec

from overstory.broker import publishing
from overstory.broker.carrying import Carrying
from overstory.broker.epochs import KINDS as EPOCH_KINDS
from overstory.broker.epochs import Epochs
from overstory.broker.facts import AT, UP, Fact, Facts
from overstory.broker.following import Followed
from overstory.broker.groups import GROUP_KINDS, Groups
from overstory.broker.leading import Lead
from overstory.broker.links import Neighbour, Up
from overstory.broker.marks import Marks
from overstory.broker.message import Message
from overstory.broker.moving import Moving
from overstory.broker.parcels import Got, Parcel, Parcels
from overstory.broker.place import Place as Place
from overstory.broker.preparing import Preparing
from overstory.broker.pressure import LinkLimits
from overstory.broker.promises import Promise, Promises, both, joined, runs_of
from overstory.broker.retaining import Noted, Retaining
from overstory.broker.roaming import KINDS, Roaming
from overstory.broker.seen import Seen
from overstory.broker.spool import Spool
from overstory.broker.spreading import TICKS, Retain, RetainedSums, Spreading, Stamp
from overstory.broker.standing import Address
from overstory.broker.state import State
from overstory.broker.stranding import Stranding
from overstory.broker.testaments import Testament, Testaments
from overstory.broker.traces import Traces
from overstory.errors import LinkError, ProtocolError, RoutingError
from overstory.routing import messages
from overstory.routing.messages import Drained, Flushed, Held, Output, Released, Send, Served
from overstory.wire.control import Codec
from overstory.wire.frames import (
    EVENTS,
    SAFE,
    Acknowledged,
    Events,
    Flows,
    Raw,
    Ready,
    are_alike,
    decode_events,
    distinct,
    joined_events,
)
from overstory.wire.handshake import Known

FAULTS = LinkError, RoutingError, ProtocolError  # what is wrong with a frame
TOGETHER = 16  # frames of steered events that are handled as one, at most
MOST_BYTES = 1 << 24  # that these have: a frame that they become has to be one that neighbours take
FASTER = 20  # times that kernels are, when turns are divided
FILED = 500  # entries that one turn files
TOLD = 4  # times that a control message takes as long as an event, when turns are divided


class Relay(msgspec.Struct, frozen=True, tag=True):
    """A message for a broker that is no neighbour, on its way along the late tree."""

    source: int
    target: int
    body: bytes  # one message of the codec


class Bundle(NamedTuple):
    """Events for one neighbour, as they travel; and a promise for each of QoS 1 or 2, or none at all."""

    events: Events
    promises: Promises


class Fabric:
    """What a broker does with its neighbours."""

    def __init__(
        self, state: State, place: Place, window: LinkLimits | None = None, kinds: Sequence[type[Any]] = ()
    ) -> None:
        self.state, self.place = state, place
        self._everyone = {*place.next_hops, state.config.number}
        number = state.config.number
        known = Known(number, place.fingerprint, place.share.epoch, place.neighbours)
        self.window = window or LinkLimits()
        self.known = known
        self.spool = Spool(state.journal, self.window.spool)
        self.neighbours = {
            peer: Neighbour(known, place.incarnation, peer, self.window, self.spool)
            for peer in sorted(place.neighbours)
        }
        own: list[type[Any]] = [
            *EPOCH_KINDS,
            Relay,
            Retain,
            RetainedSums,
            Noted,
            *KINDS,
            Fact,
            Parcel,
            Got,
            *GROUP_KINDS,
            Testament,
        ]
        self.codec: Codec[Any] = Codec([*get_args(messages.Message), *own, *kinds])
        self.on: dict[type, Callable[[int, Any], Promise | None]] = {
            Relay: self._relay,
            Retain: self._retain,
            RetainedSums: self._retained_sums,
            Fact: self._fact,
        }
        self.spreading = Spreading(number, lambda: self.place.late, self.tell, self._keep, state.retained.find)
        self.spreading.on_stamp = self._note_stamp
        self.retaining = Retaining(state.journal, self.tell, lambda peer: self.neighbours[peer].is_down)
        # What is said after a restart has another stamp than before, even if no time has passed
        later = place.incarnation % TICKS / TICKS
        self.facts = Facts(number, lambda: self.place.late, self.tell, lambda: state.now + later)
        pack = lambda message: self.codec.encode([message])  # noqa: E731
        self.parcels = Parcels(place.incarnation, self.tell_broker, pack, self._unpacked, state.journal.call)
        self.roaming = Roaming(state, frozenset(place.next_hops) | {number}, self.tell_broker, self.parcels)
        self.groups = Groups(state, self.facts, self.parcels, self.tell_broker)
        self.groups.unsafe, self.groups.void = self._unsafe, self._void
        self.testaments = Testaments(state, self.facts, self.roaming.order_of, self.tell_broker)
        self.facts.on[UP] = self._incarnation
        self.on |= {
            **self.roaming.on,
            **self.groups.on,
            **self.testaments.on,
            Parcel: self.parcels.came,
            Got: self.parcels.got,
            Noted: self.retaining.noted,
        }
        self._outbox: dict[int, list[Any]] = {}  # of each neighbour: messages and bundles of events, in order
        self._inbox: deque[tuple[Neighbour, int, Raw]] = deque()
        self._said: deque[Any] = deque()  # the control messages that are left of the first frame there
        self._refused = 0  # frames at the front that are not for kernels that follow headers
        self._unfiled = False  # entries of the forwarding table wait to be filed
        self.epochs = Epochs(self)
        self.on |= self.epochs.on
        self.first_plan = place.plan
        self.moving = Moving(self)
        self.lead = Lead(state.journal)
        self.preparing = Preparing(self)
        self.seen = Seen(number, state.journal)
        state.events = max(state.events, place.incarnation << 32)
        self.marks = Marks(number, lambda: state.events)
        self.epochs.on_used.append(self.marks.begin)
        self.stranding = Stranding(state.router, self.send, self.spool, self.window.buffer)
        self.traces = Traces(state)
        self.carrying = Carrying(self)
        self.lost = 0  # events that came and could not be handled
        self.fast: Any = None  # the ``Fast`` way of kernels, if there is one
        self.on_active: Callable[[], None] | None = None
        self.on_error: Callable[[Neighbour, LinkError], None] | None = None

    def start(self) -> None:
        """Installs this broker's share of the plan, and tells the others that the broker is up."""
        self.act(self.state.router.install(self.place.share))
        self.facts.say(UP, "", b"%d" % self.place.incarnation)
        self.groups.start()

    @property
    def is_active(self) -> bool:
        """Whether the plan is in use here."""
        return self.state.router.state.active is not None

    @property
    def known_brokers(self) -> set[int]:
        """All brokers that the network has, or had under an earlier plan."""
        return self._everyone

    def moved(self, place: Place) -> None:
        """The broker has another place from now on, under another plan."""
        self.place = place
        self._everyone |= place.next_hops.keys()
        self.roaming.use(frozenset(place.next_hops) | {self.state.config.number})

    def forget(self, broker: int) -> None:
        """A broker is lost, and the plan in use is without it: older epochs need not wait for it to drain."""
        neighbour, active = self.neighbours.get(broker), self.epochs.active
        if neighbour is not None and not neighbour.connected and broker not in self.place.next_hops:
            self.act(self.state.router.receive(broker, messages.Retired(active, frozenset({active}))))

    def address_of(self, broker: int) -> str | None:
        """Where clients of a broker connect, as far as is known."""
        said = next((value for one, _, value in self.facts.of(AT) if one == broker), None)
        return None if said is None else msgspec.json.decode(said, type=Address).clients

    @property
    def is_full(self) -> bool:
        """Whether so much waits for neighbours that publishing clients are not to be read."""
        full = self.window.full
        for neighbour in self.neighbours.values():  # noqa: SIM110 (it is asked for whatever comes)
            if neighbour.waiting_bytes > full and neighbour.connected:
                return True
        return False

    @property
    def waiting(self) -> int:
        """How many frames of neighbours wait to be handled."""
        return len(self._inbox)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits here, neither to be handled nor to be sent."""
        return not self._inbox and not self._outbox and not self.state.router.has_work and not self._unfiled

    # Links

    def up(self, peer: int, up: Up) -> None:
        """A handshake with a neighbour is done."""
        if up.is_new:
            self._outbox[peer] = [item for item in self._outbox.pop(peer, ()) if isinstance(item, Bundle | Ready)]
            if self._inbox and self._inbox[0][0].peer == peer:
                self._said.clear()
            self._inbox = deque(item for item in self._inbox if item[0].peer != peer)
            self.act(self.state.router.neighbour_down(peer))
        self.act(self.state.router.neighbour_up(peer))
        self.spreading.up(peer)
        self.retaining.up(peer)
        self.facts.up(peer)
        if up.is_new:
            self.epochs.up(peer)

    def down(self, peer: int) -> None:
        """A neighbour could not be reached for a while."""
        self.neighbours[peer].fall_back()
        self.retaining.down(peer)
        self.act(self.state.router.neighbour_down(peer))
        if peer in self.place.late:
            self.facts.down(peer, [broker for broker, first in self.place.next_hops.items() if first == peer])

    def recall(self, key: int, peer: int, body: bytes) -> None:
        """A frame for a neighbour was in the spool when the broker went down."""
        if peer in self.neighbours:
            self.spool.recall(key, len(body))
            self.neighbours[peer].recall(key, decode_events(body))
        elif peer == self.state.config.number:
            self.spool.recall(key, len(body))
            self.stranding.recall(key, body)

    def arrived(self, neighbour: Neighbour, raws: Sequence[Raw]) -> None:
        """Frames of a neighbour have come, and wait for their turn."""
        self._inbox.extend((neighbour, neighbour.incarnation, raw) for raw in raws)

    def run(self, most: int) -> bool:
        """Handles so many of the frames that wait, and some long work of the router. Returns whether any is left."""
        self.preparing.run()
        while self._inbox and most > 0:
            if followed := self._follow(most):
                most -= followed
                continue
            neighbour, _, raw = self._inbox[0]
            try:
                most -= self._handle(neighbour, raw, most)
            except FAULTS as error:
                self._said.clear()
                self._failed(1, error)
            if self._said:
                break  # the rest of the frame has its turn later
            self._done()
            self._refused = max(self._refused - 1, 0)
        self.state.file()
        to_try = bool(self.stranding) and self.stranding.try_again(self.state.now)
        return self._file_some() or bool(self._inbox) or self.preparing.has_more or to_try

    def _done(self) -> None:
        """The first frame that waits has been handled."""
        neighbour, incarnation, raw = self._inbox.popleft()
        if incarnation == neighbour.incarnation:
            neighbour.done(raw.number, len(raw.body))

    def _failed(self, frames: int, error: Exception) -> None:
        """The first frames that wait could not be handled."""
        for neighbour, _, raw in islice(self._inbox, frames):
            self.lost += raw.kind == EVENTS
            if self.on_error is not None:
                self.on_error(neighbour, error if isinstance(error, LinkError) else LinkError(str(error)))

    def _follow(self, most: int) -> int:
        """Handles the first frames that wait as one, if all have steered events and kernels can: each has few events,
        and most of its work does not depend on how many. Returns how much work it was, about ``most`` at most; 0 if
        nothing was done. Frames that kernels refuse have their turns alone."""
        if self._said or self._refused or self.fast is None or not self.fast.follows:
            return 0
        bodies, size = list[memoryview](), 0
        for _, _, raw in islice(self._inbox, TOGETHER):
            size += len(raw.body)
            if raw.kind != EVENTS or (bodies and size > MOST_BYTES):
                break
            bodies.append(raw.body)
        if not bodies:
            return 0
        try:
            done: Followed = self.fast.followed(bodies, most, FASTER)
            frames, work, self._refused = done
        except FAULTS as error:
            frames = work = max(self.fast.following.begun, 1)  # others may be of another kind, and have their turns
            self._failed(frames, error)
        if not frames:
            return 0
        active = self.epochs.active
        self.epochs.frames[active] = self.epochs.frames.get(active, 0) + frames
        for _ in range(frames):
            self._done()
        return work

    def _file_some(self) -> bool:
        """Goes on with filing entries, once no others are under way. After the start they are many, and an event that
        came upon all of them would hold up heartbeats. Returns whether some are left."""
        router = self.state.router.state
        self._unfiled = router.active is not None and router.epochs[router.active].table.file_some(FILED)
        return self._unfiled

    def _handle(self, neighbour: Neighbour, raw: Raw, most: int) -> int:
        """Handles one frame from a neighbour, or so much of one with control messages. Returns how much work it was."""
        if raw.kind == EVENTS:
            return self._events(neighbour, raw)
        if raw.kind == SAFE:
            neighbour.safe_there(raw)
            return 1
        if not self._said:
            self._said.extend(self.codec.decode(raw.body))
        done = 0
        while self._said and done < most:
            done += TOLD
            message = self._said.popleft()
            handler = self.on.get(type(message))
            if handler is not None:
                handler(neighbour.peer, message)
            else:
                self.act(self.state.router.receive(neighbour.peer, message))
        return done

    # Messages

    def tell(self, peer: int, message: Any) -> None:
        """Sends a message to a neighbour, behind all that was sent there before."""
        self._outbox.setdefault(peer, []).append(message)

    def tell_broker(self, broker: int, message: Any) -> None:
        """Sends a message to any other broker, along the late tree."""
        if broker in self.place.neighbours:
            self.tell(broker, message)
        else:
            self._relay(broker, Relay(self.state.config.number, broker, self.codec.encode([message])))

    def _relay(self, peer: int, relay: Relay) -> None:
        if relay.target == self.state.config.number:
            self._unpacked(relay.source, relay.body)
        elif relay.target in self.place.next_hops:
            self.tell(self.place.next_hops[relay.target], relay)
        elif relay.target not in self._everyone:
            raise LinkError(f"a message is for broker {relay.target}, which is not known")

    def _unpacked(self, source: int, body: bytes) -> Promise | None:
        """Messages of a broker that need not be a neighbour. Returns a promise if an event in them was passed on to
        another broker, which does not have it yet."""
        promise: Promise | None = None
        for message in self.codec.decode(body):
            handler = self.on.get(type(message))
            if handler is None or isinstance(message, Relay):
                raise LinkError("a message was relayed that is only for neighbours")
            promise = both(promise, handler(source, message))
        return promise

    # What all brokers know

    def _fact(self, peer: int, fact: Fact) -> None:
        steps = self.facts.hear(peer, fact)
        if isinstance(fact.news, RetainedSums):
            self.state.chores.append(steps)

    def _incarnation(self, broker: int, _: str, value: bytes | None) -> None:
        """A broker says that it has started. What was under way through it may be gone."""
        if broker != self.state.config.number and value is not None:
            self.parcels.send_again()
            self.testaments.restarted(broker)
            self.roaming.restarted(broker)

    def _void(self, broker: int, key: tuple[int, int]) -> None:
        """Ends a subscription of a broker that is lost, as if its neighbour on the way there had said so."""
        peer = self.place.next_hops.get(broker, broker)
        if peer not in self.neighbours:
            return  # the plan is without it
        if not self.neighbours[peer].connected:
            for epoch in self.epochs.installed:
                self.act(self.state.router.receive(peer, messages.Unsubscribe(epoch, messages.LATE, key)))

    def _unsafe(self, broker: int) -> list[tuple[int, Message]]:
        """The events that wait for a broker that is lost, or for those before it: their numbers, and messages."""
        neighbour = self.neighbours.get(self.place.next_hops.get(broker, broker))
        if neighbour is None or neighbour.connected:
            return []
        self.flush()
        found: list[tuple[int, Message]] = []
        for events in neighbour.unsafe_events():
            found += zip(events.ids.tolist(), [one.message for one in self.carrying.read(events)], strict=True)
        return found

    def act(self, outputs: Sequence[Output]) -> None:
        """Does what the router asks for."""
        for output in outputs:
            if isinstance(output, Send):
                if output.peer in self.neighbours:
                    self.tell(output.peer, output.message)
            elif isinstance(output, Held):
                self.preparing.holds(output.epoch)
            elif isinstance(output, Served):
                self.state.unserved.discard(output.key[0])
                self.roaming.served(output.key[0])
                self.moving.served(output.key[0])
                self.groups.served(*output.key)
            elif isinstance(output, Flushed):
                self.roaming.flushed(output.key[0])
            elif isinstance(output, Drained):
                self.epochs.has_drained(output.epoch)
            elif isinstance(output, Released):
                self.carrying.released(output)

    # Retained messages

    def retained(self, message: Message) -> Promise | None:
        """A client here has published a message to be retained, or, without a payload, one to be removed. Returns a
        promise if it has to be safe with neighbours."""
        kept = message if message.payload else None
        news = self.spreading.changed(message.topic, kept, self.state.now, message.qos > 0)
        return self.retaining.spread(news, self.place.late) if news.asks else None

    def _note_stamp(self, topic: str, stamp: Stamp | None) -> None:
        if stamp is None:
            self.state.journal.note("unstamp", topic)
        else:
            self.state.journal.note("stamp", topic, *stamp)

    def recall_stamp(self, topic: str, time: int, broker: int) -> None:
        """When and where a retained message was last changed, as the disk has it."""
        notes, self.state.journal.keeps = self.state.journal.keeps, False
        self.spreading.recall(topic, Stamp(time, broker), self.state.retained.find(topic) is None)
        self.state.journal.keeps = notes

    def _keep(self, topic: str, message: Message | None) -> None:
        gone = Message(topic, b"", 0, True, {})
        publishing.retain(self.state, gone if message is None else message)

    def _retain(self, peer: int, news: Retain) -> None:
        is_new = self.spreading.is_new(news)
        message = self.spreading.hear(peer, news, self.state.now)
        if news.asks:
            self.retaining.answer(peer, news, [one for one in self.place.late if one != peer] if is_new else None)
        if message is not None:
            publishing.hand_to_unserved(self.state, message)

    def _retained_sums(self, peer: int, message: RetainedSums) -> None:
        self.state.chores.append(self.spreading.compared(peer, message, lambda: self.state.now))

    # Events

    def publish(self, published: Sequence[Message], first: int | None = None) -> list[Promise | None]:
        """Events of clients here. Returns a promise for each that is not safe yet. ``first`` is the number of the
        first event, if they have numbers already."""
        return self.carrying.publish(published, first)

    def send(self, peer: int, events: Events, promises: Promises) -> None:
        """Sends events to a neighbour, behind all that was sent there before."""
        for promise, count in runs_of(promises):
            promise.wait(count)  # until the frame is made
        self._outbox.setdefault(peer, []).append(Bundle(events, promises))

    def pass_on(self, peer: int, ready: Ready) -> None:
        """Sends a neighbour events that are written already, behind all that was sent there before."""
        if peer in self.neighbours:
            self._outbox.setdefault(peer, []).append(ready)

    def _events(self, neighbour: Neighbour, raw: Raw) -> int:
        """Events that a neighbour sent: they go on, and to clients here."""
        events = decode_events(raw.body)
        self.epochs.frames[events.epoch] = self.epochs.frames.get(events.epoch, 0) + 1
        known = self._everyone
        if not known.issuperset(distinct(events.entries)):
            raise LinkError("an event was published at a broker that is not known")
        incarnation, number = neighbour.incarnation, raw.number
        safe = lambda: neighbour.is_safe(incarnation, number)  # noqa: E731
        self.marks.came = events.acknowledged
        try:
            if self.fast is not None and self.fast.arrived(neighbour.peer, events, safe):
                return len(events) // FASTER + 1
            return self.carrying.arrived(neighbour, number, events)
        finally:
            self.marks.came = None
            if events.acknowledged:
                self.forget_acknowledged(events.epoch, events.acknowledged, events.flows)

    def forget_acknowledged(self, epoch: int, acknowledged: Acknowledged, flows: Sequence[Flows]) -> None:
        """Forgets the events of which a frame says that they do not come again in its flows."""
        if not acknowledged or not len(self.seen):
            return
        known = self.state.router.state.epochs.get(epoch)
        steered = frozenset[int]() if known is None else frozenset(known.steered.numbers.tolist())
        sets = flows[:1] if are_alike(flows) else set(flows)
        in_trees = frozenset[int]().union(*sets) - steered
        for entry, (since, mark) in acknowledged.items():
            self.seen.acknowledged(entry, since, mark, in_trees, steered)

    def flush(self) -> None:
        """Makes frames of all that is to be sent."""
        outbox, self._outbox = self._outbox, {}
        for peer, items in outbox.items():
            neighbour, at = self.neighbours[peer], 0
            while at < len(items):
                end, kind = at, type(items[at])
                if kind is Ready:
                    neighbour.pass_on(items[at])
                    at += 1
                    continue
                is_run = kind is Bundle
                while end < len(items) and type(items[end]) is not Ready and (type(items[end]) is Bundle) == is_run:
                    end += 1
                if is_run:
                    self._send_events(neighbour, items[at:end])
                else:
                    neighbour.tell(self.codec.encode(items[at:end]), end - at, sum(map(_entries_of, items[at:end])))
                at = end

    def _send_events(self, neighbour: Neighbour, bundles: list[Bundle]) -> None:
        """Sends events to a neighbour, those of one epoch in one frame."""
        if len(bundles) == 1:  # most often
            events, promises = bundles[0]
            neighbour.publish(events, promises)
            for promise, count in runs_of(promises):
                promise.kept(count)
            return
        for epoch in dict.fromkeys(bundle.events.epoch for bundle in bundles):
            mine = [bundle for bundle in bundles if bundle.events.epoch == epoch]
            promises = joined([(bundle.promises, len(bundle.events)) for bundle in mine])
            neighbour.publish(joined_events([bundle.events for bundle in mine]), promises)
            for promise, count in runs_of(promises):
                promise.kept(count)


def _entries_of(message: Any) -> int:
    """How many subscriptions, or ends of them, a message has."""
    if isinstance(message, messages.Packed):
        return sum(map(_entries_of, message.messages))
    return int(isinstance(message, messages.Subscribe | messages.Unsubscribe))
