"""Sessions that follow their clients from broker to broker: to a client the network is one broker.

1. Each client id has a *directory broker*, found by rendezvous hashing over all brokers. It knows who owns the session,
   and gives each CONNECT a higher version. Who asks last owns it.
2. The new owner fetches the session from the old one before CONNACK. The old connection gets 0x8E. If the directory or
   the old owner does not answer within ``PATIENCE``, the client begins with what is here: it is never refused. A late
   answer only makes the old owner let go.
3. The old owner passes on what still comes for the client, until all subscriptions are ``Served`` at the new one and it
   is told to ``Leave``. Meanwhile the new owner drops what comes both ways. So nothing is lost and nothing doubled. An
   event of QoS 1 or 2 that is passed on is a parcel: it is safe once the new owner has it.
4. Messages between brokers keep their order and are not lost, unless a broker restarts: its part of the directory is
   gone then, until the owners have told it again what they own. So are its sessions, but for those on its disk. Of
   these the disk also knows which were about to come or to go (``recall``): such moves are ended after the restart.
5. A broker that restarts may find a session on its disk that has gone elsewhere meanwhile. The directory has the newer
   owner fetch that one, too: its messages go to the session that is there.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from overstory.broker import connecting, publishing, subscribing
from overstory.broker.link import Link
from overstory.broker.packed import packed, restore_messages, unpacked
from overstory.broker.parcels import Parcels
from overstory.broker.promises import Promise
from overstory.broker.replicas import COPIED, Adopted, Replicas
from overstory.broker.replicas import KINDS as COPY_KINDS
from overstory.broker.session import FOR_EVER, Delivery, Session, Subscription
from overstory.broker.state import State
from overstory.broker.subscribing import Wish
from overstory.kernels.nothing import NONE
from overstory.wire.packets import Connect

PATIENCE = 5.0  # seconds
FLUSHED = 30.0  # seconds after which the subscriptions of a session that has gone end in any case
NOBODY = NONE
CAME = "came"  # a session on disk that its old owner still gets messages for
LATE = 0  # the ticket of a claim that nobody waits for any more


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
    """The sender still passes on what comes for a session that the receiver, which has restarted, had fetched under
    this version."""

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
    until: float


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
        self._tickets = LATE
        self._asked: list[tuple[int, Fetch]] = []  # for sessions that are still on their way here
        self.replicas = Replicas(
            state, self._tell, self._pass_on, lambda client: client not in self._departed, parcels.incarnation << 32
        )
        self.on_left: Callable[[str], None] | None = None  # told of each client whose session another broker has now
        self.on: dict[type, Callable[[int, Any], None]] = {
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
        for client in [client for client, flushing in self._flushing.items() if flushing.until <= now]:
            self._flushing[client].unflushed.clear()  # a link has failed, and took the answer with it
            self._end_if_flushed(client)

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
        """A session has ended here."""
        self._moving.pop(client, None)
        self._versions.pop(client, None)
        self.replicas.end(client)
        self._tell(self.directory_of(client), Gone(client))

    def restarted(self, broker: int) -> None:
        """A broker has started, and knows nothing: who owns a session that it is the directory of tells it."""
        self.replicas.restarted(broker)
        for client, (version, session) in self._departed.items():
            if session.heir == broker and client not in self._flushing:
                self._tell(broker, Departed(client, version))
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
            moving.version, self._moving[message.client] = message.version, moving
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
        self._make_way(client)
        self._enter(client, copy.session)
        self._moving[client] = Moving(copy.home, message.version, copy.unserved)
        self._note(copy.session)
        self._tell(copy.home, Adopted(client, message.version))
        self._leave_if_served(client)
        return True

    def _make_way(self, client: str) -> None:
        """A session is about to come: one from before it was elsewhere is no more."""
        old = self._state.sessions.get(client)
        if old is not None:
            self._state.fabric.seen.unlearn(old.numbers)
            connecting.end_session(self._state, old, says=False)
        self.replicas.discard(client)
        self._let_go(client)

    def _enter(self, client: str, session: Session) -> None:
        """A session is here from now on, and waits for its client."""
        self._state.sessions[client] = self._state.away[client] = session
        session.ends = None if session.expiry == FOR_EVER else self._state.now + session.expiry

    def _unpack(self, broker: int, message: Fetched) -> None:
        state, client = self._state, message.client
        content = unpacked(message.session)
        self._make_way(client)
        session = Session(client, content.number, state.house)
        session.expiry = content.expiry
        self._enter(client, session)
        restore_messages(session, content)
        state.fabric.seen.learn(content.once)
        moving = self._moving[client] = Moving(broker, message.version, set())
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
        if client in self._moving and not self._moving[client].unserved:
            self._tell(self._moving[client].owner, Leave(client, self._moving[client].version))

    def _forward(self, _: int, message: Forward) -> None:
        _, departed = self._departed.get(message.client, (0, None))
        session = self._state.sessions.get(message.client, departed)  # it may have gone on
        session = session or self.replicas.copy_of(message.client)
        if session is not None:
            publishing.pass_over(self._state, session, msgspec.msgpack.decode(message.delivery, type=Delivery))

    def _left(self, _: int, message: Left) -> None:
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
        if kind == COPIED:
            self.replicas.outdo_copy(session)

    def _go_on(self, recalled: Recalled) -> None:
        """Goes on with the move of a session that is still here: its subscriptions are made anew, and once they are
        served, the other broker need not pass anything on any more."""
        client, state = recalled.client, self._state
        session = state.sessions.get(client)
        if session is None or session.seen is None or client in self._moving or self.replicas.is_busy(client):
            return
        if recalled.kind == COPIED:
            self.replicas.recall(client, recalled.broker, recalled.number)
            return
        moving = self._moving[client] = Moving(recalled.broker, recalled.number, set())
        for made in session.subscriptions.values():
            if made.group is None:
                made.version += session.copies + 1
                self._make_anew(session, made, moving)
        self._leave_if_served(client)

    def _has_departed(self, broker: int, message: Departed) -> None:
        """Whoever passes on messages for a session that is not here any more may let go of it."""
        moving = self._moving.get(message.client)
        if any(one.client == message.client for one in self._recalled):
            return
        if moving is None or (moving.owner, moving.version) != (broker, message.version):
            self._tell(broker, Leave(message.client, message.version))

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
        state.journal.note("end", session.number)
        session.forward, session.heir = lambda delivery: self._pass_on(broker, client, delivery), broker
        self._let_go(client)
        self._departed[client] = (version, session)
        if self.on_left is not None:
            self.on_left(client)

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
        if delivery.qos:
            return self._parcels.send(broker, message)
        self._tell(broker, message)
        return None

    def _leave(self, broker: int, message: Leave) -> None:
        """The new owner has everything that is published from now on. What is under way to here is passed on first."""
        version, session = self._departed.get(message.client, (0, None))
        if session is None or version != message.version:
            self._tell(broker, Left(message.client, message.version))
            return
        numbers = session.numbers
        homes = self._state.router.state.homes
        unflushed = {number for number in numbers if number in homes and homes[number].client == session.number}
        self._flushing[message.client] = Flushing(broker, message.version, unflushed, self._state.now + FLUSHED)
        for number in sorted(unflushed):
            self._state.act(self._state.router.flush(number))
        self._end_if_flushed(message.client)

    def flushed(self, number: int) -> None:
        """Nothing is under way to a subscription any more that has gone elsewhere."""
        for client, flushing in list(self._flushing.items()):
            if number in flushing.unflushed:
                flushing.unflushed.discard(number)
                self._end_if_flushed(client)
        self.replicas.flushed(number)

    def _end_if_flushed(self, client: str) -> None:
        flushing = self._flushing.get(client)
        if flushing is None or flushing.unflushed:
            return
        del self._flushing[client]
        if self._departed.get(client, (0, None))[0] == flushing.version:
            self._let_go(client)
        self._tell(flushing.owner, Left(client, flushing.version))

    def _let_go(self, client: str) -> None:
        """A session that has left need not be served here any more; nor where it was before, if it still is."""
        _, session = self._departed.pop(client, (0, None))
        if session is None:
            return
        self.replicas.end(client, session)
        moving = self._moving.pop(client, None) if client not in self._state.sessions else None
        if moving is not None:
            self._tell(moving.owner, Leave(client, moving.version))
        for name in list(session.subscriptions):
            subscribing.remove(self._state, session, name)
        self._state.slots.give(session.place)


def _weight(broker: int, client: str) -> bytes:
    return blake2b(f"{broker}/{client}".encode(), digest_size=8).digest()
