"""Shared subscriptions over several brokers: a group is one subscription at its home, which gives each event away once.

1. All brokers know the members of all groups (``facts``). The *home* is the lowest-numbered broker with members that
   can be reached. It alone subscribes for the group, under a number that the group's name gives and a version that is
   higher than all before: it voids that of an older home.
2. A new home first asks those who were home to pass on what they get (``Take``); then it subscribes; once the whole
   network serves that, the older ones let go (``Yield``). Whatever comes both ways counts once.
3. The hash of an event's number chooses among the members that are connected, by their clients' numbers; with none
   connected among all. A copy for a member elsewhere is a parcel along the late tree (of QoS 0 a message): the event is
   safe when the member's broker has it. If that broker is lost first, another member gets the copy.
4. What was not safe with a home that has died is offered to the new one, by the neighbours that hold it.
5. Who finds that another broker is the home, or that a member is not here any more, passes the event on to the home.
"""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import msgspec

from overstory.broker import publishing, subscribing
from overstory.broker.facts import Facts
from overstory.broker.message import Message
from overstory.broker.parcels import Parcels
from overstory.broker.promises import Promise
from overstory.broker.session import Delivery, Session
from overstory.broker.shared import Group, chosen_of, filter_of_group, forget_group
from overstory.broker.spreading import SHIFT
from overstory.broker.state import State
from overstory.errors import LinkError
from overstory.kernels.nothing import NONE
from overstory.wire.attributes import attributes_of

MEMBER, HOME = "member", "home"  # kinds of facts
NOBODY = NONE
NO_EVENT = NONE  # the number of what is given away a second time
MOST_SEEN = 10_000  # events that a home remembers
FIRST_NUMBER = 1 << 62  # of groups' subscriptions: above all numbers that brokers give out
CONNECTED, AWAY = b"1", b"0"
STEPS = 16  # versions in a second, by the clock, so that a group that comes again is new
Seat = tuple[int, int]  # the number of a member's client, and the broker


class Copy(msgspec.Struct, frozen=True, tag=True):
    """An event for a member of a group at the receiver."""

    group: str
    client: int
    message: bytes
    left: float | None  # seconds that it is worth delivering


class Offer(msgspec.Struct, frozen=True, tag=True):
    """An event for a group whose home is the receiver."""

    group: str
    event: int
    without: int  # the client that shall not get it
    message: bytes
    left: float | None


class Take(msgspec.Struct, frozen=True, tag=True):
    """The sender is to be the home: the receiver passes on to it what still comes."""

    group: str


class Taken(msgspec.Struct, frozen=True, tag=True):
    """The sender will pass on what still comes to it for a group."""

    group: str


class Yield(msgspec.Struct, frozen=True, tag=True):
    """The whole network serves the group at the sender: the receiver need not any more."""

    group: str
    version: int


GROUP_KINDS: tuple[type[Any], ...] = (Copy, Offer, Take, Taken, Yield)


class Home(msgspec.Struct):
    """A group whose home is here, or was until just now."""

    group: Group
    version: int
    before: set[int]  # brokers that were home, and have not been told to let go


class Roster(msgspec.Struct):
    """The members of a group, and those of them that events go to."""

    seats: dict[Seat, bool] = msgspec.field(default_factory=dict)  # whether they are connected
    among: list[Seat] | None = None  # in order; None: it has changed


class Groups:
    """The groups that one broker knows, and those whose home it is."""

    def __init__(self, state: State, facts: Facts, parcels: Parcels, tell: Callable[[int, Any], None]) -> None:
        """``tell`` sends a message to any other broker."""
        self._state, self._facts, self._parcels, self._tell = state, facts, parcels, tell
        self._me = state.config.number
        self._rosters: dict[str, Roster] = {}
        self._holders: dict[str, dict[int, int]] = {}  # by group: who says that it is home, and under which version
        self._versions: dict[str, int] = {}  # the highest that was heard of, also of groups that are gone
        self._homes: dict[str, Home] = {}  # here
        self._asking: dict[str, set[int]] = {}  # brokers that were home and have not answered yet
        self._seen: dict[tuple[str, int, int], None] = {}
        self.void: Callable[[int, tuple[int, int]], None] = lambda *_: None  # ends a subscription of a lost broker
        self._offered_of: set[tuple[str, int]] = set()  # groups and lost homes: what waited for these has been offered
        self.unsafe: Callable[[int], list[tuple[int, Message]]] = lambda _: []  # events that wait for a lost broker
        facts.on |= {MEMBER: self._member, HOME: self._home}
        facts.on_lost.append(self._lost)
        self.on: dict[type, Callable[[int, Any], Promise | None]] = {
            Copy: self._copy,
            Offer: self._offered,
            Take: self._take,
            Taken: self._taken,
            Yield: self._yield,
        }

    # Members here

    def start(self) -> None:
        """Tells of the members that a broker remembers when it starts."""
        for group in list(self._state.groups.values()):
            for session, _ in list(group.members.values()):
                self.joined(group.name, session)

    def joined(self, name: str, session: Session) -> None:
        """A session here is a member, and connected or not."""
        value = AWAY if session.link is None else CONNECTED
        self._facts.say(MEMBER, f"{session.number}/{name}", value)

    def left(self, name: str, client: int) -> None:
        """A session here is no member any more."""
        self._facts.say(MEMBER, f"{client}/{name}", None)
        self._forget(name)

    def seated(self, session: Session) -> None:
        """A client has come or gone."""
        if self._state.groups:
            for made in list(session.subscriptions.values()):
                if made.group is not None:
                    self.joined(made.group, session)

    def _forget(self, name: str) -> None:
        """Forgets a group that has no members here, unless it is still served from here."""
        group = self._state.groups.get(name)
        if group is not None and not group.members and name not in self._homes:
            forget_group(self._state.groups, name)

    # Facts

    def _member(self, broker: int, name: str, value: bytes | None) -> None:
        client, _, group = name.partition("/")
        if not client.isdecimal():
            raise LinkError("a member of a group has no number")
        roster = self._rosters.setdefault(group, Roster())
        if value is None:
            roster.seats.pop((int(client), broker), None)
        else:
            roster.seats[int(client), broker] = value == CONNECTED
        roster.among = None
        if not roster.seats:
            del self._rosters[group]
        self._elect(group)

    def _home(self, broker: int, name: str, value: bytes | None) -> None:
        holders = self._holders.setdefault(name, {})
        if value is None:
            holders.pop(broker, None)
            if not holders:
                del self._holders[name]
            return
        if not value.isdigit():
            raise LinkError("a group's home has no version")
        holders[broker] = int(value)
        self._versions[name] = max(self._versions.get(name, 0), int(value))
        if len(self._versions) > MOST_SEEN:
            del self._versions[next(iter(self._versions))]
        self._offer_what_waits(name, broker)
        self._elect(name)

    def _lost(self, lost: frozenset[int]) -> None:
        """Some brokers are lost, or back. What was for members there goes to others."""
        for name, roster in list(self._rosters.items()):
            roster.among = None
            for broker in lost & self._asking.get(name, set()):
                self._taken(broker, Taken(name))
            self._elect(name)
        for broker in lost:
            for kept in self._parcels.take_back(broker, (Copy, Offer)):
                promise = self._again(kept.message)
                if promise is None:
                    kept.promise.kept()
                else:
                    promise.then(kept.promise.kept)

    def _again(self, message: Copy | Offer) -> Promise | None:
        event = message.event if isinstance(message, Offer) else NO_EVENT
        return self.offer(message.group, event, self._opened(message))

    # The home

    @property
    def homes(self) -> int:
        """How many groups have their home here."""
        return len(self._homes)

    def home_of(self, name: str) -> int:
        """The broker that is or will be the home of a group."""
        roster = self._rosters.get(name)
        reached = [] if roster is None else [broker for _, broker in roster.seats if broker not in self._facts.lost]
        return min(reached, default=NOBODY)

    def _elect(self, name: str) -> None:
        """Becomes the home of a group, or lets it go, if that is the case."""
        home, here = self.home_of(name), self._homes.get(name)
        if home != self._me:
            self._asking.pop(name, None)
            if home == NOBODY and here is not None:
                self._close(name)
            return
        known = {self._me, *self._facts.lost, *(here.before if here is not None else ())}
        others = self._holders.get(name, {}).keys() - known
        if name in self._asking or (here is not None and not others):
            return
        self._asking[name] = set(others)
        for broker in sorted(others):
            self._tell(broker, Take(name))
        if not others:
            self._open(name, set())

    def _take(self, broker: int, message: Take) -> None:
        self._tell(broker, Taken(message.group))

    def _taken(self, broker: int, message: Taken) -> None:
        asked = self._asking.get(message.group)
        if asked is None or broker not in asked:
            return
        asked.discard(broker)
        if not asked:
            holders = self._holders.get(message.group, {}).keys() - self._facts.lost
            self._open(message.group, holders - {self._me})

    def _open(self, name: str, before: set[int]) -> None:
        """Subscribes for a group, under a version that is higher than all that are known."""
        self._asking.pop(name, None)
        state, group = self._state, self._state.groups[name]
        time = max((self._versions.get(name, 0) >> SHIFT) + 1, int(state.now * STEPS))
        version = time << SHIFT | self._me
        self._homes[name] = Home(group, version, before)
        subscribing.open_group(state, group, _number_of(name), version)
        self._facts.say(HOME, name, b"%d" % version)

    def served(self, number: int, version: int) -> None:
        """The whole network serves a subscription."""
        for name, here in self._homes.items() if number >= FIRST_NUMBER else ():
            if here.group.subscription.number == number and here.version == version:
                before, here.before = here.before, set()
                for broker in sorted(before):
                    self._tell(broker, Yield(name, version))

    def _yield(self, _: int, message: Yield) -> None:
        here = self._homes.get(message.group)
        if here is not None and here.version < message.version:
            self._close(message.group)
            self._elect(message.group)

    def _close(self, name: str) -> None:
        here = self._homes.pop(name)
        subscribing.close_group(self._state, here.group)
        self._facts.say(HOME, name, None)
        self._forget(name)

    # Events

    def offer(self, name: str, event: int, message: Message, without: int = NOBODY) -> Promise | None:
        """Gives an event to one member of a group. Returns a promise if it is not safe yet."""
        home = self.home_of(name)
        if home == NOBODY:
            return None
        if home != self._me:
            return self._send(home, Offer(name, event, without, *self._sealed(message)), message.qos)
        if event != NO_EVENT and not self._is_new((name, message.publisher, event)):
            return None
        roster = self._rosters[name]
        if roster.among is None:
            roster.among = self._among(roster)
        chosen = chosen_of(
            [seat for seat in roster.among if seat[0] != without] if without != NOBODY else roster.among,
            self._state.events if event == NO_EVENT else event,
        )
        if chosen is None:
            return None
        client, broker = chosen
        if broker == self._me:
            return self._deliver(name, client, message)
        return self._send(broker, Copy(name, client, *self._sealed(message)), message.qos)

    def _among(self, roster: Roster) -> list[Seat]:
        seats = sorted(seat for seat in roster.seats if seat[1] not in self._facts.lost)
        return [seat for seat in seats if roster.seats[seat]] or seats

    def _is_new(self, key: tuple[str, int, int]) -> bool:
        if key in self._seen:
            return False
        self._seen[key] = None
        if len(self._seen) > MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        return True

    def _send(self, broker: int, message: Copy | Offer, qos: int) -> Promise | None:
        if qos:
            return self._parcels.send(broker, message)
        self._tell(broker, message)
        return None

    def _sealed(self, message: Message) -> tuple[bytes, float | None]:
        """A message as it travels: with the time that is left, since clocks differ."""
        left = None if message.expires is None else message.expires - self._state.now
        return msgspec.msgpack.encode(msgspec.structs.replace(message, expires=None)), left

    def _opened(self, sent: Copy | Offer) -> Message:
        try:
            message = msgspec.msgpack.decode(sent.message, type=Message)
        except msgspec.MsgspecError as error:
            raise LinkError(f"an event of a group cannot be read: {str(error).splitlines()[0]}") from None
        return message if sent.left is None else msgspec.structs.replace(message, expires=self._state.now + sent.left)

    def _offered(self, _: int, message: Offer) -> Promise | None:
        return self.offer(message.group, message.event, self._opened(message), message.without)

    def _copy(self, _: int, message: Copy) -> Promise | None:
        return self._deliver(message.group, message.client, self._opened(message))

    def _deliver(self, name: str, client: int, message: Message) -> Promise | None:
        """Gives an event to a member here, or, if its session has just gone, to where it is. Returns a promise if it is
        not safe there yet."""
        group = self._state.groups.get(name)
        member = None if group is None else group.members.get(client)
        if member is not None:
            publishing.deliver_to_member(self._state, name, member, message)
            return None
        slot = self._state.slots.by_client.get(client)
        holder = None if slot is None else self._state.slots.holders[slot]
        if isinstance(holder, Session) and holder.forward is not None:
            return publishing.hand_over(self._state, holder, Delivery(message, message.qos, False, group=name))
        return self.offer(name, NO_EVENT, message, client)

    def _offer_what_waits(self, name: str, home: int) -> None:
        """A group has a new home. What was not safe with one that is lost may be for it."""
        self._offered_of &= {(name, broker) for name, _ in self._offered_of for broker in self._facts.lost}
        lost = set(self._holders.get(name, ())) & self._facts.lost
        gone = [broker for broker in sorted(lost) if (name, broker) not in self._offered_of]
        if not gone or home in self._facts.lost:
            return
        self._offered_of |= {(name, broker) for broker in gone}
        for broker in gone:
            self.void(broker, (_number_of(name), self._holders[name][broker]))
        wanted, types = filter_of_group(name), self._state.config.types
        for broker in gone:
            for event, message in self.unsafe(broker):
                if wanted.matches(attributes_of(message, types)):
                    self.offer(name, event, message)


def _number_of(name: str) -> int:
    """The number of a group's subscription, which is the same at all brokers."""
    return FIRST_NUMBER | int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big") >> 2
