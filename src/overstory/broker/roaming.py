"""Sessions that follow their clients from broker to broker: to a client the network is one broker.

1. Each client id has a *directory broker*, found by rendezvous hashing over all brokers. It knows who owns the session,
   and gives each CONNECT a higher version. Who asks last owns it.
2. The new owner fetches the session from the old one before CONNACK. The old connection gets 0x8E. If the directory or
   the old owner does not answer within ``PATIENCE``, the client begins with what is here: it is never refused. A late
   answer only makes the old owner let go.
3. The old owner keeps its subscriptions, and passes on what comes for the client, until all subscriptions are
   ``Served`` at the new one and it is told to ``Leave``. Then it flushes all their flows: after that nothing comes to
   it that does not come to the new one, too. The new owner drops what comes both ways. So nothing is lost and nothing
   doubled. An event of QoS 1 or 2 that is passed on is a parcel: it is safe once the new owner has it.
4. The old owner lets go, and says so (``Left``), only when nothing can come to it any more: its flows are flushed, all
   that it passed on was answered, and so has everyone left that it had the session from. Until then it is responsible
   for what may still come to it, and so all this is on its disk (``recall_departed``): it goes on after a restart.
5. Messages between brokers keep their order and are not lost, unless a broker restarts: its part of the directory is
   gone then, until the owners have told it again what they own. So are its sessions, but for those on its disk. Of
   these the disk also knows which were about to come or to go (``recall``): such moves are ended after the restart.
   Whoever waits for an answer says again what it waits for when it hears that a broker has restarted.
6. A broker that restarts may find a session on its disk that has gone elsewhere meanwhile. The directory has the newer
   owner fetch that one, too: its messages go to the session that is there. So do they if the client comes back first.
"""

from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from overstory.broker import connecting, publishing, subscribing
from overstory.broker.link import Link
from overstory.broker.packed import Wanted, packed, restore_messages, unpacked
from overstory.broker.parcels import Parcels
from overstory.broker.promises import Promise
from overstory.broker.replicas import COPIED, Adopted, Replicas
from overstory.broker.replicas import KINDS as COPY_KINDS
from overstory.broker.session import FOR_EVER, Delivery, Session, Subscription
from overstory.broker.state import State
from overstory.broker.subscribing import Wish
from overstory.kernels.nothing import NONE
from overstory.routing.messages import LATE as LATE_FLOW
from overstory.wire.packets import Connect

PATIENCE = 5.0  # seconds
NOBODY = NONE
CAME = "came"  # a session on disk that its old owner still gets messages for
LATE = 0  # the ticket of a claim that nobody waits for any more
NO_NUMBERS: set[int] = set()
Kept = tuple[int, list[Wanted]]  # of a session that has gone: its number, and its subscriptions as they are


class Claim(msgspec.Struct, frozen=True, tag=True):
    """A client has connected to the sender: who owns its session?"""

    client: str
    ticket: int


class Granted(msgspec.Struct, frozen=True, tag=True):
    """The receiver owns the session from now on, under this version. ``owner`` had it before."""

    client: str
    ticket: int
    version: int
    owner: int


class Fetch(msgspec.Struct, frozen=True, tag=True):
    """The sender owns the session under this version, and asks for it."""

    client: str
    ticket: int
    version: int


class Fetched(msgspec.Struct, frozen=True, tag=True):
    """The session, or nothing if there is none any more."""

    client: str
    ticket: int
    version: int  # of the sender's ``Fetch``, as in the messages below: a session may come and go several times
    session: bytes


class Forward(msgspec.Struct, frozen=True, tag=True):
    """A message that came to the old owner of a session."""

    client: str
    delivery: bytes


class Leave(msgspec.Struct, frozen=True, tag=True):
    """The whole network serves the session's subscriptions at the sender: the old owner may let go of them."""

    client: str
    version: int


class Left(msgspec.Struct, frozen=True, tag=True):
    """The old owner has let go: nothing more comes from there."""

    client: str
    version: int


class Departed(msgspec.Struct, frozen=True, tag=True):
    """The sender still passes on what comes for a session that the receiver had fetched under this version. One of the
    two has restarted."""

    client: str
    version: int


class Gone(msgspec.Struct, frozen=True, tag=True):
    """The session has ended at the sender, unless another broker owns it by now."""

    client: str


class Owns(msgspec.Struct, frozen=True, tag=True):
    """The sender owns the session under this version. (The receiver is the directory, and has forgotten it.)"""

    client: str
    version: int


KINDS: tuple[type[Any], ...] = (Claim, Granted, Fetch, Fetched, Forward, Leave, Left, Departed, Gone, Owns, *COPY_KINDS)


class Arriving(msgspec.Struct):
    """A client that waits for its session."""

    link: Link
    packet: Connect
    ticket: int
    until: float


class Recalled(msgspec.Struct, frozen=True):
    """A session on disk that had come from another broker, or was copied to one, when this broker went down."""

    client: str
    kind: str
    broker: int
    number: int  # the version under which it came, or the number of its copy


class Moving(msgspec.Struct):
    """A session that has come here, and that its old owner still gets messages for."""

    owner: int
    version: int
    unserved: set[int]  # subscriptions


class Flushing(msgspec.Struct):
    """A session that has gone elsewhere, and whose subscriptions are flushed before they end here."""

    owner: int
    version: int
    unflushed: set[int]  # subscriptions


class Roaming:
    """The sessions that come to one broker and leave it, and its part of the directory."""

    def __init__(
        self, state: State, brokers: frozenset[int], tell: Callable[[int, Any], None], parcels: Parcels
    ) -> None:
        """``tell`` sends a message to any other broker, in order."""
        self._state, self._brokers, self._send, self._parcels = state, brokers, tell, parcels
        self._me = state.config.number
        self._owners: dict[str, tuple[int, int]] = {}  # here as the directory: the version, and the owner
        self._claimed: set[str] = set()  # of these clients, those who have connected since this broker started
        self._versions: dict[str, int] = {}  # under which sessions here are owned
        self._arriving: dict[str, Arriving] = {}
        self._moving: dict[str, Moving] = {}
        self._departed: dict[str, tuple[int, Session]] = {}  # and the version under which each has left
        self._recalled: list[Recalled] = []  # moves that go on once the plan is in use here
        self._flushing: dict[str, Flushing] = {}
        # Brokers that sessions came from and that have not left, with the versions under which they came
        self._before: dict[str, set[tuple[int, int]]] = {}
        # By client and broker: messages that were passed on and not answered yet, and the versions of which the broker
        # is to be told, once they are, that nothing more comes
        self._passed: Counter[tuple[str, int]] = Counter()
        self._owed: dict[tuple[str, int], list[int]] = {}
        self._to_be_told: list[str] = []  # clients that had gone when this broker went down, until the plan is in use
        self._tickets = LATE
        self._asked: list[tuple[int, Fetch]] = []  # for sessions that are still on their way here
        self.replicas = Replicas(
            state, self._tell, self._pass_on, lambda client: client not in self._departed, parcels.incarnation << 32
        )
        self.on_left: Callable[[str], None] | None = None  # told of each client whose session another broker has now
        self.on: dict[type, Callable[[int, Any], Promise | None]] = {
            Claim: self._claim,
            Granted: self._granted,
            Fetch: self._fetch,
            Fetched: self._fetched,
            Forward: self._forward,
            Leave: self._leave,
            Left: self._left,
            Departed: self._has_departed,
            Gone: self._gone,
            Owns: self._owns,
            Adopted: self._adopted,
            **self.replicas.on,
        }

    def directory_of(self, client: str) -> int:
        """The broker that knows who owns a client's session."""
        return max(self._brokers, key=lambda broker: _weight(broker, client))

    def order_of(self, client: str) -> list[int]:
        """All brokers in the order of rendezvous hashing: the directory broker is the first."""
        return sorted(self._brokers, key=lambda broker: _weight(broker, client), reverse=True)

    def use(self, brokers: frozenset[int]) -> None:
        """The network has other brokers: whoever is now the directory of a session here is told who owns it."""
        before = {client: self.directory_of(client) for client in self._state.sessions}
        self._brokers = brokers
        for client, directory in before.items():
            if self.directory_of(client) != directory:
                self._tell(self.directory_of(client), Owns(client, self._versions.get(client, 0)))

    def owner_of(self, client: str) -> int | None:
        """The broker that owns a client's session, if this broker is its directory and knows."""
        owner = self._owned(client)[1]
        return None if owner == NOBODY else owner

    def _tell(self, broker: int, message: Any) -> None:
        if broker == self._me:
            self.on[type(message)](broker, message)
        else:
            self._send(broker, message)

    # A client comes

    def arrive(self, link: Link, packet: Connect) -> None:
        """A client with an id has connected here. It is answered when it is known whose session it is."""
        before = self._arriving.pop(packet.client_id, None)
        if before is not None:
            before.link.closed = True
            self._state.dirty[before.link] = None
        self._tickets += 1
        link.waits = True
        self._arriving[packet.client_id] = Arriving(link, packet, self._tickets, self._state.now + PATIENCE)
        self._tell(self.directory_of(packet.client_id), Claim(packet.client_id, self._tickets))

    def tick(self, now: float) -> None:
        """Those who have waited for too long begin with what is here."""
        for client, arriving in list(self._arriving.items()):
            if arriving.until <= now:
                self._begin(client)
        self.replicas.tick(now)
        if self._recalled and self._state.fabric.is_active:
            recalled, self._recalled = self._recalled, []
            for one in recalled:
                self._go_on(one)
        if self._to_be_told and self._state.fabric.is_active:
            gone, self._to_be_told = self._to_be_told, []
            for client in gone:
                self._say_departed(client)

    def _begin(self, client: str) -> None:
        """Answers a client's CONNECT, now that its session is here, if there is one."""
        arriving = self._arriving.pop(client)
        link, state = arriving.link, self._state
        self.replicas.stay(client)
        link.waits = False
        if not link.closed:
            connecting.accept(state, link, arriving.packet)
            state.dirty[link] = None
            if state.resume is not None:
                state.resume(link)
        asked, self._asked = self._asked, []
        for broker, fetch in asked:
            self._fetch(broker, fetch)

    def _waits(self, client: str, ticket: int) -> bool:
        arriving = self._arriving.get(client)
        return arriving is not None and arriving.ticket == ticket

    # The directory

    def _claim(self, broker: int, message: Claim) -> None:
        version, owner = self._owned(message.client)
        self._owners[message.client] = (version + 1, broker)
        self._claimed.add(message.client)
        self._tell(broker, Granted(message.client, message.ticket, version + 1, owner))

    def _owned(self, client: str) -> tuple[int, int]:
        """The version and the owner of a session. One on the disk of this broker is its own, until another one says
        that it has it."""
        mine = self._versions.get(client, 0), self._me if client in self._state.sessions else NOBODY
        return self._owners.get(client, mine)

    def _gone(self, broker: int, message: Gone) -> None:
        if self._owners.get(message.client, (0, NOBODY))[1] == broker:
            del self._owners[message.client]
            self._claimed.discard(message.client)

    def ended(self, client: str) -> None:
        """A session has ended here. Whoever still gets messages for it need not any more."""
        self._moving.pop(client, None)
        self._versions.pop(client, None)
        self._tell_to_leave(client)
        self.replicas.end(client)
        self._tell(self.directory_of(client), Gone(client))

    def restarted(self, broker: int) -> None:
        """A broker has started, and knows nothing: who owns a session that it is the directory of tells it."""
        self.replicas.restarted(broker)
        for client in list(self._departed):
            self._say_departed(client)
        for client in list(self._before):  # a message to leave, or its answer, may be gone
            self._leave_if_served(client)
        for client in self._state.sessions:
            if self.directory_of(client) == broker:
                self._tell(broker, Owns(client, self._versions.get(client, 0)))

    def _owns(self, broker: int, message: Owns) -> None:
        client = message.client
        version, owner = self._owned(client)
        if owner in (NOBODY, broker):
            self._owners[client] = (max(version, message.version), broker)
            return
        # Two have it: one has come to it since this broker started, or has it from its disk and has no version of it
        newest = max(version, message.version) + 1
        newer, older = (owner, broker) if client in self._claimed or message.version <= version else (broker, owner)
        self._owners[client] = (newest, newer)
        self._tell(newer, Granted(client, LATE, newest, older))

    # The new owner

    def _granted(self, _: int, message: Granted) -> None:
        waits = self._waits(message.client, message.ticket)
        self._versions[message.client] = message.version
        if waits and self._adopt(message):
            self._begin(message.client)
        elif message.owner not in (NOBODY, self._me):
            ticket = message.ticket if waits else LATE
            self._tell(message.owner, Fetch(message.client, ticket, message.version))
        elif waits:
            self._begin(message.client)

    def _fetched(self, broker: int, message: Fetched) -> None:
        if not self._waits(message.client, message.ticket):
            if not message.session or not self._join(broker, message):
                self._tell(broker, Leave(message.client, message.version))
            return
        if message.session:
            self._unpack(broker, message)
        self._begin(message.client)

    def _join(self, broker: int, message: Fetched) -> bool:
        """A broker had a session on its disk when it restarted, and has got messages for it since. They go to the
        session here, and its subscriptions are made here under still higher versions. Returns whether the broker is
        told to leave once they are served."""
        state, session = self._state, self._state.sessions.get(message.client)
        content = unpacked(message.session)
        wanted = {number: version for *_, number, version in content.subscriptions}
        if session is None or wanted.keys().isdisjoint(session.numbers):
            return False  # the client has begun anew
        moving = self._moving.get(message.client) or Moving(broker, message.version, set())
        if moving.owner == broker:
            moving.version = message.version
            self._comes(message.client, moving)
        if session.seen is None:
            session.remember()
        for delivery in [*content.inflight.values(), *content.queue]:
            if delivery.message is not None:
                publishing.pass_over(state, session, delivery)
        for made in session.subscriptions.values():
            if made.group is None and made.version <= wanted.get(made.number, NONE):
                made.version = wanted[made.number] + 1
                self._make_anew(session, made, moving)
        self._note_move(session, moving)
        if moving.owner != broker:
            return False
        self._leave_if_served(message.client)
        return True

    def _make_anew(self, session: Session, made: Subscription, moving: Moving) -> None:
        """Makes a subscription under its version of now."""
        subscribing.enter(self._state, session, made)
        moving.unserved |= {made.number} & self._state.unserved
        if session.is_kept:
            subscribing.note(self._state, session, made)

    def _adopt(self, message: Granted) -> bool:
        """Goes on with the copy of a session whose client has come, if the copy is as good as the session."""
        client = message.client
        copy = self.replicas.take(client, message.owner, message.version)
        if copy is None:
            return False
        left = self._make_way(client, copy.session.numbers)
        self._enter(client, copy.session)
        self._comes(client, Moving(copy.home, message.version, copy.unserved))
        for delivery in left:
            publishing.pass_over(self._state, copy.session, delivery)
        self._note(copy.session)
        self._tell(copy.home, Adopted(client, message.version))
        self._leave_if_served(client)
        return True

    def _comes(self, client: str, moving: Moving) -> None:
        """A session comes from another broker, which is told to leave once all subscriptions are served here."""
        self._moving[client] = moving
        self._before.setdefault(client, set()).add((moving.owner, moving.version))

    def _make_way(self, client: str, numbers: set[int]) -> list[Delivery]:
        """A session with these subscriptions is about to come: one from before it was elsewhere is no more.

        Events may be under way to its subscriptions. Those that come again are not ended, but made under a higher
        version. Returns the messages that it has: it may have got them while the client was elsewhere.
        """
        state, old, left = self._state, self._state.sessions.get(client), list[Delivery]()
        if old is not None:
            state.fabric.seen.unlearn(old.numbers)
            if not numbers.isdisjoint(old.numbers):
                left = [one for one in (*old.inflight.values(), *old.queue) if one.message is not None]
            old.inflight.clear()
            old.queue.clear()
            self._end(old, numbers)
            state.wills.cancel(old)
            connecting.end_session(state, old, says=False)
        self.replicas.discard(client)
        self._let_go(client, numbers)
        flushing = self._flushing.pop(client, None)
        if flushing is not None:  # what comes is for the session here, and is not passed on any more
            self._say_left(client, flushing.owner, flushing.version)
        return left

    def _end(self, session: Session, without: set[int]) -> None:
        """Ends the subscriptions of a session, but for these: they are made by another session of the client."""
        for name, made in list(session.subscriptions.items()):
            if made.group is None and made.number in without:
                del session.subscriptions[name]
            else:
                subscribing.remove(self._state, session, name)

    def _enter(self, client: str, session: Session) -> None:
        """A session is here from now on, and waits for its client."""
        self._state.sessions[client] = self._state.away[client] = session
        session.ends = None if session.expiry == FOR_EVER else self._state.now + session.expiry

    def _unpack(self, broker: int, message: Fetched) -> None:
        state, client = self._state, message.client
        content = unpacked(message.session)
        left = self._make_way(client, {number for *_, number, _ in content.subscriptions})
        session = Session(client, content.number, state.house)
        session.expiry = content.expiry
        self._enter(client, session)
        restore_messages(session, content)
        state.fabric.seen.learn(content.once)
        for delivery in left:
            publishing.pass_over(state, session, delivery)
        moving = Moving(broker, message.version, set())
        self._comes(client, moving)
        for asked, where, identifier, number, version in content.subscriptions:
            moving.unserved.add(number)
            subscribing.restore(state, session, Wish(asked, where, identifier), (number, version + 1))
        for made in session.subscriptions.values():
            if made.group is not None or made.number not in state.unserved:
                moving.unserved.discard(made.number)
        self._note(session)
        self._leave_if_served(client)

    def _note(self, session: Session) -> None:
        """Writes a session that has come to disk, if there is one."""
        if session.is_kept:
            connecting.note(self._state, session)
            for made in session.subscriptions.values():
                subscribing.note(self._state, session, made)
            session.note_all()
            self._state.fabric.seen.keep(session.numbers)
            self._note_move(session, self._moving[session.client_id])

    def _note_move(self, session: Session, moving: Moving) -> None:
        if session.is_kept:
            self._state.journal.note("move", session.number, CAME, moving.owner, moving.version)

    def served(self, number: int) -> None:
        """The whole network serves a subscription that was made here."""
        self.replicas.served(number)
        for client, moving in list(self._moving.items()):
            if number in moving.unserved:
                moving.unserved.discard(number)
                self._leave_if_served(client)

    def _leave_if_served(self, client: str) -> None:
        """Tells those whom a session came from to let go of it, if all its subscriptions are served here, or where it
        has gone."""
        moving = self._moving.get(client)
        is_served = client in self._state.sessions or client in self._flushing
        if is_served if moving is None else not moving.unserved:
            self._tell_to_leave(client)

    def _tell_to_leave(self, client: str) -> None:
        """Tells all brokers that a session came from to let go of it."""
        for broker, version in sorted(self._before.get(client, ())):
            self._tell(broker, Leave(client, version))

    def _forward(self, _: int, message: Forward) -> Promise | None:
        """A message for a client has come from another broker. Returns a promise if the session has gone on, and does
        not have it yet."""
        _, departed = self._departed.get(message.client, (0, None))
        session = self._state.sessions.get(message.client, departed)  # it may have gone on
        session = session or self.replicas.copy_of(message.client)
        if session is None:
            return None
        return publishing.pass_over(self._state, session, msgspec.msgpack.decode(message.delivery, type=Delivery))

    def _left(self, broker: int, message: Left) -> None:
        before = self._before.get(message.client, set())
        before.discard((broker, message.version))
        if not before:
            self._before.pop(message.client, None)
            self._end_if_flushed(message.client)
        moving = self._moving.get(message.client)
        if moving is not None and moving.version == message.version:
            del self._moving[message.client]
            session = self._state.sessions.get(message.client)
            if session is not None and session.is_kept:
                self._state.journal.note("unmove", session.number)
            if session is not None and not self.replicas.is_copied(message.client):
                self.replicas.calm(session)

    # A broker has restarted

    def recall(self, client: str, kind: str, broker: int, number: int) -> None:
        """A session had come from another broker, or was copied to one, when this broker went down."""
        self._recalled.append(Recalled(client, kind, broker, number))
        session = self._state.sessions[client]
        session.remember()

    def recall_departed(self, client: str, heir: int, version: int, content: bytes) -> None:
        """A session had gone to another broker when this one went down, and events may have waited for it here: its
        subscriptions are made again, as they were, and what comes is passed on."""
        number, made = msgspec.msgpack.decode(content, type=Kept)
        if client in self._state.sessions or number in self._state.slots.by_client:
            return
        session = Session(client, number, self._state.house)
        for asked, where, identifier, id_, its_version in made:
            subscribing.restore(self._state, session, Wish(asked, where, identifier), (id_, its_version))
        self._pass_on_to(heir, version, session)
        self._to_be_told.append(client)

    def _say_departed(self, client: str) -> None:
        """Tells the broker that has a session now that this one still gets messages for it."""
        if client in self._departed and client not in self._flushing:
            version, session = self._departed[client]
            self._tell(session.heir, Departed(client, version))

    def _go_on(self, recalled: Recalled) -> None:
        """Goes on with the move of a session that is still here: its late subscriptions are made anew, and once they
        are served, the other broker need not pass anything on any more. Those in flows of the plan are served."""
        client, state = recalled.client, self._state
        session = state.sessions.get(client)
        if session is None or session.seen is None or client in self._moving or self.replicas.is_busy(client):
            return
        if recalled.kind == COPIED:
            self.replicas.recall(client, recalled.broker, recalled.number)
            return
        moving = Moving(recalled.broker, recalled.number, set())
        self._comes(client, moving)
        for made in session.subscriptions.values():
            if made.group is None and self._is_late(made.number):
                made.version += session.copies + 1
                self._make_anew(session, made, moving)
        self._leave_if_served(client)

    def _is_late(self, number: int) -> bool:
        """Whether a subscription is in no flow of the plan in use but the late one."""
        router = self._state.router.state
        home = router.homes.get(number)
        return home is None or all(flow == LATE_FLOW for epoch, flow in home.joined if epoch == router.active)

    def _has_departed(self, broker: int, message: Departed) -> None:
        """Whoever passes on messages for a session that is not here any more may let go of it."""
        client, came = message.client, (broker, message.version)
        if any(one.client == client for one in self._recalled):
            return  # it is told to leave once that move goes on
        if client in self._departed:
            self._before.setdefault(client, set()).add(came)
        if came in self._before.get(client, ()):
            self._leave_if_served(client)
        else:
            self._tell(broker, Leave(client, message.version))

    # The old owner

    def _fetch(self, broker: int, message: Fetch) -> None:
        state, client = self._state, message.client
        if client in self._arriving:
            self._asked.append((broker, message))
            return
        session = state.sessions.get(client)
        if session is not None and session.link is not None:
            connecting.take_over(state, session)
            session = state.sessions.get(client)
        if session is None:
            self._tell(broker, Fetched(client, message.ticket, message.version, b""))
            return
        self._tell(
            broker, Fetched(client, message.ticket, message.version, packed(session, self._state.fabric.seen.got_by))
        )
        self._depart(broker, message.version, session)

    def _adopted(self, broker: int, message: Adopted) -> None:
        session = self._state.sessions.get(message.client)
        if session is not None and session.link is not None:
            connecting.take_over(self._state, session)
            session = self._state.sessions.get(message.client)
        self.replicas.let_go(message.client)
        if session is not None:
            self._depart(broker, message.version, session)

    def _depart(self, broker: int, version: int, session: Session) -> None:
        """Another broker has a session from now on: what still comes for it is passed on there."""
        state, client = self._state, session.client_id
        del state.sessions[client]
        self._versions.pop(client, None)
        state.away.pop(client, None)
        state.wills.cancel(session)
        is_kept = session.is_kept
        state.journal.note("end", session.number)
        self._let_go(client)
        self._pass_on_to(broker, version, session)
        if is_kept:
            made = [one for one in session.subscriptions.values() if one.group is None]
            wishes = [(one.asked, one.where, one.identifier, one.number, one.version) for one in made]
            content = msgspec.msgpack.encode((session.number, wishes))
            state.journal.note("depart", client, broker, version, content)
        if self.on_left is not None:
            self.on_left(client)

    def _pass_on_to(self, heir: int, version: int, session: Session) -> None:
        """What comes for a session that another broker has is passed on there."""
        client = session.client_id
        session.forward, session.heir = lambda delivery: self._pass_on(heir, client, delivery), heir
        self._departed[client] = (version, session)

    def copy(self, client: str, foreign: int) -> bool:
        """Copies a session to the broker that its client is to go to. Returns whether that can be done now."""
        if client in self._moving or client in self._arriving or self.replicas.is_busy(client):
            return False
        self.replicas.begin(client, foreign, self._versions.get(client, 0))
        return True

    def hand(self, client: str, expiry: int) -> None:
        """Hands over a session that was copied, now that its client was asked to go."""
        self.replicas.hand(client, expiry)

    def _pass_on(self, broker: int, client: str, delivery: Delivery) -> Promise | None:
        """Passes a message on to where its session is. Returns a promise if it must not be lost on the way."""
        message = Forward(client, msgspec.msgpack.encode(delivery))
        if not delivery.qos:
            self._tell(broker, message)
            return None
        promise = self._parcels.send(broker, message)
        self._passed[client, broker] += 1
        promise.then(lambda: self._answered(client, broker))
        return promise

    def _answered(self, client: str, broker: int) -> None:
        """A message that was passed on is safe where it went."""
        self._passed[client, broker] -= 1
        if not self._passed[client, broker]:
            del self._passed[client, broker]
            for version in self._owed.pop((client, broker), ()):
                self._say_left(client, broker, version)
            self._end_if_flushed(client)

    def _say_left(self, client: str, broker: int, version: int) -> None:
        """Says that nothing more of a session comes from here, once all that was passed on is safe."""
        if self._passed[client, broker]:
            self._owed.setdefault((client, broker), []).append(version)
        else:
            self._state.journal.call(lambda: self._tell(broker, Left(client, version)))

    def _leave(self, broker: int, message: Leave) -> None:
        """The new owner has everything that is published from now on. What is under way to here is passed on first."""
        client = message.client
        version, session = self._departed.get(client, (0, None))
        if session is None or version != message.version:
            self._say_left(client, broker, message.version)
            return
        self._tell_to_leave(client)
        known = self._flushing.get(client)
        if known is not None and known.version == version:
            return
        numbers = session.numbers
        homes = self._state.router.state.homes
        unflushed = {number for number in numbers if number in homes and homes[number].client == session.number}
        self._flushing[client] = Flushing(broker, version, unflushed)
        for number in sorted(unflushed):
            self._state.act(self._state.router.flush(number))
        self._end_if_flushed(client)

    def flushed(self, number: int) -> None:
        """Nothing is under way to a subscription any more that has gone elsewhere."""
        for client, flushing in list(self._flushing.items()):
            if number in flushing.unflushed:
                flushing.unflushed.discard(number)
                self._end_if_flushed(client)
        self.replicas.flushed(number)

    def _end_if_flushed(self, client: str) -> None:
        """Lets go of a session, and says so, if nothing can come for it any more."""
        flushing = self._flushing.get(client)
        if flushing is None or flushing.unflushed or client in self._before or self._passed[client, flushing.owner]:
            return
        del self._flushing[client]
        if self._departed.get(client, (0, None))[0] == flushing.version:
            self._let_go(client)
        self._say_left(client, flushing.owner, flushing.version)

    def _let_go(self, client: str, without: set[int] = NO_NUMBERS) -> None:
        """A session that has left need not be served here any more, but for these subscriptions of it."""
        _, session = self._departed.pop(client, (0, None))
        if session is None:
            return
        self.replicas.end(client, session)
        self._state.journal.note("undepart", client)
        if client not in self._state.sessions:
            self._moving.pop(client, None)
        self._end(session, without)
        self._state.slots.give(session.place)


def _weight(broker: int, client: str) -> bytes:
    return blake2b(f"{broker}/{client}".encode(), digest_size=8).digest()
