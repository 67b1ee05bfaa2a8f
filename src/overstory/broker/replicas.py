"""Sessions that are copied to another broker before their clients go there (the overlay paper's *replicate*).

*Home* is the broker that has a client, *foreign* the one that it is to go to.

1. Home sends a copy (``Replicate``). Foreign makes the subscriptions, in the late flow, under a higher version. Home
   keeps its own, so it gets every event. What comes to foreign is passed on to home as well, and kept until home has
   it: home may die without a disk. Home remembers from now on which events the client got, and drops what it has. Once
   the whole network serves the subscriptions, foreign says so (``Replicated``).
2. Home asks the client to go, and hands the session over (``Hand``): subscriptions, messages in flight and waiting,
   packet identifiers, and the events that the client got. From now on each of the two keeps what comes, and passes it
   on to the other, which drops what it has. So both have everything.
3. If the client connects to foreign, the directory gives foreign the version that follows home's. Then nobody has had
   the session in between, and foreign goes on with it at once; home is told (``Adopted``). Under any other version the
   session is fetched, as for a client that nobody expected (``roaming``).
4. If the client comes back, or foreign does not answer in time, foreign drops its copy (``Drop``), and says so
   (``Dropped``). If the session ends, or is fetched by a third broker, the copy is dropped, too. After ``KEPT`` seconds
   foreign drops it by itself: home may have died.

Until foreign owns the session, home depends on nothing that foreign has: its subscriptions are served all the time, and
what is acknowledged is on its disk. So a copy can be lost or dropped at any moment.

Members of shared groups are made only when the client is there: a group gives each event to one member.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from overstory.broker import publishing, subscribing
from overstory.broker.packed import Packed, Wanted, packed, restore_messages, unpacked
from overstory.broker.promises import Promise
from overstory.broker.session import Delivery, Session
from overstory.broker.state import State
from overstory.broker.subscribing import Wish
from overstory.wire.topics import read_filter

COPIED = "copied"  # a session on disk that is copied elsewhere
KEPT = 120.0  # seconds for which a copy waits for its client
CALM = 10.0  # seconds after which a session that nothing is passed on to forgets what it got, in any case


class Replicate(msgspec.Struct, frozen=True, tag=True):
    """A copy of a session that the sender owns under this version. ``number`` names the copy in what follows."""

    client: str
    number: int
    version: int
    session: bytes


class Replicated(msgspec.Struct, frozen=True, tag=True):
    """The whole network serves the copy's subscriptions at the sender; or the sender does not want it."""

    client: str
    number: int
    accepts: bool


class Hand(msgspec.Struct, frozen=True, tag=True):
    """The session as it was when its client was asked to go."""

    client: str
    number: int
    session: bytes


class Drop(msgspec.Struct, frozen=True, tag=True):
    """The copy is not needed any more."""

    client: str
    number: int


class Dropped(msgspec.Struct, frozen=True, tag=True):
    """The sender has dropped its copy: nothing more comes from there."""

    client: str
    number: int


class Adopted(msgspec.Struct, frozen=True, tag=True):
    """The client is at the sender, which goes on with the copy and owns the session under this version."""

    client: str
    version: int


KINDS: tuple[type[Any], ...] = (Replicate, Replicated, Hand, Drop, Dropped, Adopted)


class Copy(msgspec.Struct):
    """A copy of another broker's session, here."""

    home: int
    number: int
    version: int  # under which home owns the session
    session: Session
    unserved: set[int]  # its subscriptions that not the whole network serves yet
    until: float
    expiry: int = 0
    is_whole: bool = False  # it was handed over
    shared: list[Wanted] = []  # subscriptions with groups, which are made when the client is here
    promises: dict[int, Promise] = {}  # of messages that home does not have yet
    unanswered: dict[int, Delivery] = {}  # messages that were passed on, and that home may not have handed over


class Original(msgspec.Struct):
    """A session here that is copied to another broker."""

    foreign: int
    number: int
    session: Session
    until: float
    is_handed: bool = False
    is_dropped: bool = False  # the client stays: foreign was told to drop its copy


class Calming(msgspec.Struct):
    """A session that nothing is passed on to any more, and that still remembers what it got."""

    session: Session
    unflushed: set[int]  # subscriptions
    until: float


class Replicas:
    """The copies of sessions at one broker, and the sessions of it that are copied elsewhere."""

    def __init__(
        self,
        state: State,
        tell: Callable[[int, Any], None],
        pass_on: Callable[[int, str, Delivery], Promise | None],
        may_come: Callable[[str], bool],
        numbers: int = 0,
    ) -> None:
        """``tell`` sends a message to any other broker, in order, and ``pass_on`` one for a client. ``may_come`` says
        whether the session of a client may be copied here now, and ``numbers`` above which number copies are named."""
        self._state, self._tell, self._pass_on, self._may_come = state, tell, pass_on, may_come
        self._numbers = numbers
        self._copies: dict[str, Copy] = {}
        self._originals: dict[str, Original] = {}
        self._calming: dict[str, Calming] = {}
        self.on_answer: Callable[[str, bool], None] | None = None  # told of each client whose copy is ready, or refused
        self.on: dict[type, Callable[[int, Any], None]] = {
            Replicate: self._replicate,
            Replicated: self._replicated,
            Hand: self._handed,
            Drop: self._drop,
            Dropped: self._dropped,
        }

    @property
    def copies(self) -> int:
        """How many copies of other brokers' sessions are here."""
        return len(self._copies)

    # Home

    def begin(self, client: str, foreign: int, version: int) -> None:
        """Copies a session to another broker, and remembers from now on which events the client gets."""
        state, session = self._state, self._state.sessions[client]
        self._numbers += 1
        self._originals[client] = Original(foreign, self._numbers, session, state.now + KEPT)
        session.settle()
        session.remember()
        if session.is_kept:
            state.journal.note("move", session.number, COPIED, foreign, self._numbers)
        replicate = Replicate(client, self._numbers, version, packed(session, lambda _: []))
        self._used_version(session)
        state.journal.call(lambda: self._send_copy(foreign, replicate))

    def _send_copy(self, foreign: int, replicate: Replicate) -> None:
        """Sends a copy, now that the disk knows of it: after a crash its versions must not be used again."""
        original = self._originals.get(replicate.client)
        if original is not None and (original.foreign, original.number) == (foreign, replicate.number):
            self._tell(foreign, replicate)

    def _used_version(self, session: Session) -> None:
        """A copy has subscriptions under the version that follows: nobody else may use that one again."""
        session.copies += 1
        if session.is_kept:
            for made in session.subscriptions.values():
                subscribing.note(self._state, session, made)

    def hand(self, client: str, expiry: int) -> None:
        """Hands a session over whose client has been asked to go."""
        original = self._originals[client]
        session, foreign = original.session, original.foreign
        session.settle()
        original.is_handed = True
        # Kernels sent these long before the client was told to go, on the same connection
        session.inflight = {id_: one for id_, one in session.inflight.items() if one.message or one.state}
        self._tell(foreign, Hand(client, original.number, packed(session, self._state.fabric.seen.got_by, expiry)))
        self._used_version(session)

        def tee(delivery: Delivery) -> None:
            self._pass_on(foreign, client, delivery)

        session.tee = tee

    def is_copied(self, client: str) -> bool:
        """Whether a session here is copied elsewhere."""
        return client in self._originals

    def let_go(self, client: str) -> None:
        """The other broker has the session, and its copy is no copy any more."""
        original = self._originals.pop(client, None)
        if original is not None:
            original.session.tee = None

    def stay(self, client: str) -> None:
        """The client stays: the copy is not needed."""
        original = self._originals.get(client)
        if original is not None and not original.is_dropped:
            original.session.tee = None
            original.is_dropped = True
            self._tell(original.foreign, Drop(client, original.number))

    def recall(self, client: str, foreign: int, number: int) -> None:
        """A session here was copied to another broker when this one went down. It stays here."""
        session = self._state.sessions[client]
        self._originals[client] = Original(foreign, number, session, self._state.now + KEPT, is_handed=True)
        self.stay(client)

    def restarted(self, broker: int) -> None:
        """A broker has started, and has no copies any more: their clients stay here."""
        for client, original in list(self._originals.items()):
            if original.foreign == broker and not original.is_dropped:
                self.stay(client)
            elif original.foreign == broker:
                self._tell(broker, Drop(client, original.number))

    def end(self, client: str, session: Session | None = None) -> None:
        """The session has ended, or this one has gone elsewhere: the copy is not needed."""
        original = self._originals.get(client)
        if original is not None and session in (None, original.session):
            del self._originals[client]
            original.session.tee = None
            self._tell(original.foreign, Drop(client, original.number))

    def _dropped(self, broker: int, message: Dropped) -> None:
        original = self._originals.get(message.client)
        if original is not None and (original.foreign, original.number) == (broker, message.number):
            self._close(message.client)

    def _close(self, client: str) -> None:
        """Nothing more comes for a session from its copy."""
        session = self._originals.pop(client).session
        session.tee = None
        if session.is_kept:
            self._state.journal.note("unmove", session.number)
        self.calm(session)

    def calm(self, session: Session) -> None:
        """No other broker passes anything on to a session any more. What it got that way may still be under way to it
        in its own flows: these are flushed, and then the session need not remember what it got."""
        router = self._state.router
        numbers = session.numbers
        numbers = {number for number in numbers if number in router.state.homes}
        self._calming[session.client_id] = Calming(session, set(numbers), self._state.now + CALM)
        for number in sorted(numbers):
            if not router.is_on_its_way(number):
                self._state.act(router.flush(number))
        self._end_if_calm(session.client_id)

    def flushed(self, number: int) -> None:
        """Nothing is under way to a subscription any more that was published before it was flushed."""
        for client, calming in list(self._calming.items()):
            if number in calming.unflushed:
                calming.unflushed.discard(number)
                self._end_if_calm(client)

    def _end_if_calm(self, client: str) -> None:
        calming = self._calming.get(client)
        if calming is None or calming.unflushed:
            return
        del self._calming[client]
        session = calming.session
        if not self.is_copied(client) and session.forward is None:
            session.seen = None
            session.open()

    def is_busy(self, client: str) -> bool:
        """Whether a session here is copied elsewhere, or was a moment ago."""
        return client in self._originals or client in self._calming

    def _replicated(self, broker: int, message: Replicated) -> None:
        original = self._originals.get(message.client)
        if original is None or (original.foreign, original.number) != (broker, message.number):
            return
        if original.is_handed or original.is_dropped:
            return
        if not message.accepts:
            self._close(message.client)
        if self.on_answer is not None:
            self.on_answer(message.client, message.accepts)

    # Foreign

    def _replicate(self, broker: int, message: Replicate) -> None:
        state, client = self._state, message.client
        content = unpacked(message.session)
        self._discard(client)
        is_full = bool(state.limits.connections) and len(state.links) + self.copies >= state.limits.connections
        is_full = is_full or self.copies >= state.config.moves.arriving
        is_here = client in state.sessions or content.number in state.slots.by_client
        if is_full or is_here or not self._may_come(client):
            self._tell(broker, Replicated(client, message.number, False))
            return
        session = Session(client, content.number, state.house)
        copy = self._copies[client] = Copy(broker, message.number, message.version, session, set(), state.now + KEPT)
        session.forward = lambda delivery: self._before_hand(client, copy, delivery)
        self._subscribe(copy, content)
        self._answer(client, copy)

    def _subscribe(self, copy: Copy, content: Packed) -> None:
        """Makes the subscriptions of a copy that are not made yet, and takes back those that are no more."""
        state, session = self._state, copy.session
        wanted = {one[0].filter: one for one in content.subscriptions}
        for name, made in list(session.subscriptions.items()):
            if wanted.get(name) != (made.asked, made.where, made.identifier, made.number, made.version):
                subscribing.remove(state, session, name)
                copy.unserved.discard(made.number)
        copy.shared = [one for name, one in wanted.items() if read_filter(name, one[1]).group is not None]
        for name, one in wanted.items():
            if name not in session.subscriptions and one not in copy.shared:
                self._restore(copy, one)

    def _restore(self, copy: Copy, one: Wanted) -> None:
        asked, where, identifier, number, version = one
        subscribing.restore(self._state, copy.session, Wish(asked, where, identifier), (number, version + 1))
        if number in self._state.unserved:
            copy.unserved.add(number)

    def _answer(self, client: str, copy: Copy) -> None:
        if not copy.unserved and not copy.is_whole:
            self._tell(copy.home, Replicated(client, copy.number, True))

    def served(self, number: int) -> None:
        """The whole network serves a subscription that was made here."""
        for client, copy in self._copies.items():
            if number in copy.unserved:
                copy.unserved.discard(number)
                self._answer(client, copy)
                return

    def _handed(self, broker: int, message: Hand) -> None:
        client = message.client
        copy = self._copies.get(client)
        if copy is None or (copy.home, copy.number) != (broker, message.number):
            return
        content, session = unpacked(message.session), copy.session
        restore_messages(session, content)
        self._state.fabric.seen.learn(content.once)
        copy.expiry, copy.is_whole = content.expiry, True
        session.forward = None
        for delivery in copy.unanswered.values():  # home may have got it only after it handed the session over
            publishing.pass_over(self._state, session, delivery)
        session.tee = lambda delivery: self._to_home(client, copy, delivery)
        self._subscribe(copy, content)

    def _before_hand(self, client: str, copy: Copy, delivery: Delivery) -> Promise | None:
        """Passes a message on to home, and keeps it until home says that it has it: what home gets after it has handed
        the session over is not in what it hands over."""
        sent = self._pass_on(copy.home, client, delivery)
        if sent is not None:
            self._numbers += 1
            copy.unanswered[self._numbers] = delivery
            sent.then(lambda number=self._numbers: _answered(copy, number))  # type: ignore[misc]
        return sent

    def _to_home(self, client: str, copy: Copy, delivery: Delivery) -> Promise | None:
        """Passes a message on to home. The promise is kept once home has it, or once the client is here."""
        sent = self._pass_on(copy.home, client, delivery)
        if sent is None:
            return None
        promise = Promise()
        promise.wait()
        self._numbers += 1
        copy.promises[self._numbers] = promise
        sent.then(lambda number=self._numbers: _keep(copy, number))  # type: ignore[misc]
        return promise

    def copy_of(self, client: str) -> Session | None:
        """The session of a copy that was handed over: messages may be passed on to it."""
        copy = self._copies.get(client)
        return copy.session if copy is not None and copy.is_whole else None

    def take(self, client: str, home: int, version: int) -> Copy | None:
        """The copy of a session whose client has come, if nobody else can have had the session since. ``home`` had the
        session, and ``version`` is the one under which it is owned here."""
        copy = self._copies.get(client)
        if copy is None:
            return None
        is_full = len(copy.session.queue) >= self._state.limits.queued
        if not copy.is_whole or is_full or copy.home != home or copy.version + 1 != version:
            return None
        del self._copies[client]
        for one in copy.shared:
            self._restore(copy, one)
        copy.session.expiry, copy.session.tee = copy.expiry, None
        for number in list(copy.promises):
            _keep(copy, number)
        return copy

    def _drop(self, broker: int, message: Drop) -> None:
        copy = self._copies.get(message.client)
        if copy is not None and (copy.home, copy.number) == (broker, message.number):
            self._discard(message.client)
        self._tell(broker, Dropped(message.client, message.number))

    def discard(self, client: str) -> None:
        """The session of a copy comes here in another way."""
        self._discard(client)

    def _discard(self, client: str) -> None:
        copy = self._copies.pop(client, None)
        if copy is None:
            return
        self._state.fabric.seen.unlearn(copy.session.numbers)
        for name in list(copy.session.subscriptions):
            subscribing.remove(self._state, copy.session, name)
        self._state.slots.give(copy.session.place)
        for number in list(copy.promises):
            _keep(copy, number)

    def tick(self, now: float) -> None:
        """Drops the copies whose time has run out, and expects nothing more of those elsewhere."""
        for client in [client for client, copy in self._copies.items() if copy.until <= now]:
            self._discard(client)
        for client in [client for client, original in self._originals.items() if original.until <= now]:
            self.stay(client)
            self._close(client)
        for client in [client for client, calming in self._calming.items() if calming.until <= now]:
            self._calming[client].unflushed.clear()  # a link has failed, and took the answer with it
            self._end_if_calm(client)


def _answered(copy: Copy, number: int) -> None:
    copy.unanswered.pop(number, None)


def _keep(copy: Copy, number: int) -> None:
    promise = copy.promises.pop(number, None)
    if promise is not None:
        promise.kept()
