"""What all brokers know of each broker: who is up, who cannot be reached, and who has members of shared groups.

1. A fact has a key and a value, and only the broker that it is of says it. It spreads along the late tree and is
   compared between neighbours as retained messages are (``spreading``): the newest counts.
2. A broker that restarts hears what it said before. Whatever of that is not so any more, it takes back.
3. A broker whose neighbour in the late tree is down says which brokers are behind it: nobody on this side reaches them
   (``lost``). It takes that back when the neighbour is up.
4. Each broker says its incarnation. A higher one tells the others that what it knew is gone.
"""

from collections.abc import Callable, Iterator

import msgspec

from overstory.broker.message import Message
from overstory.broker.spreading import Retain, RetainedSums, Spreading
from overstory.errors import LinkError

UP, DOWN, AT = "up", "down", "at"  # kinds of facts; the last says where a broker is
PARTS = 2  # of a key that no name can disturb: broker and kind come before it


class Fact(msgspec.Struct, frozen=True, tag=True):
    """News of a fact, or the sums of all facts that the sender knows."""

    news: Retain | RetainedSums


class Facts:
    """The facts that one broker knows."""

    def __init__(
        self,
        broker: int,
        neighbours: Callable[[], list[int]],
        tell: Callable[[int, Fact], None],
        now: Callable[[], float],
    ) -> None:
        self._me, self._now = broker, now
        self._known: dict[str, Message] = {}
        self._spreading = Spreading(
            broker, neighbours, lambda peer, news: tell(peer, Fact(news)), self._keep, self._known.get
        )
        self._lost: frozenset[int] = frozenset()
        self.on: dict[str, Callable[[int, str, bytes | None], None]] = {}  # by kind: the broker, the name, the value
        self.on_lost: list[Callable[[frozenset[int]], None]] = []  # told the brokers that are lost since just now

    @property
    def lost(self) -> frozenset[int]:
        """The brokers that cannot be reached from here."""
        return self._lost

    def say(self, kind: str, name: str, value: bytes | None) -> None:
        """A fact of this broker is this from now on, or, without a value, is no more."""
        key = f"{self._me}/{kind}/{name}"
        known = self._known.get(key)
        if (None if known is None else known.payload) == value:
            return
        message = self._note(key, value)
        self._spreading.changed(key, message, self._now())
        self._changed(self._me, kind, name, value)

    def of(self, kind: str) -> Iterator[tuple[int, str, bytes]]:
        """All facts of one kind: whose, the name, the value."""
        for key, message in list(self._known.items()):
            broker, found, name = _parts(key)
            if found == kind:
                yield broker, name, message.payload

    def hear(self, peer: int, fact: Fact) -> Iterator[None]:
        """News from a neighbour. Returns what is left to be done, in steps."""
        if isinstance(fact.news, RetainedSums):
            return self._spreading.compared(peer, fact.news, self._now)
        _parts(fact.news.topic)
        self._spreading.hear(peer, fact.news, self._now())
        return iter(())

    def up(self, peer: int) -> None:
        """A neighbour is up: the two compare what they know."""
        self.say(DOWN, str(peer), None)
        self._spreading.up(peer)

    def down(self, peer: int, behind: list[int]) -> None:
        """A neighbour in the late tree is down, and with it those behind it."""
        self.say(DOWN, str(peer), msgspec.msgpack.encode(behind))

    def _note(self, key: str, value: bytes | None) -> Message | None:
        if value is None:
            self._known.pop(key, None)
            return None
        message = self._known[key] = Message(key, value, 0, True, {})
        return message

    def _keep(self, key: str, message: Message | None) -> None:
        """A fact has come that is newer than what was known."""
        broker, kind, name = _parts(key)
        if broker == self._me:  # from before a restart
            mine = self._known.get(key)
            self._spreading.changed(key, mine, self._now())
            return
        value = None if message is None else message.payload
        self._note(key, value)
        self._changed(broker, kind, name, value)

    def _changed(self, broker: int, kind: str, name: str, value: bytes | None) -> None:
        if kind == DOWN:
            self._count_lost()
        elif kind in self.on:
            self.on[kind](broker, name, value)

    def _count_lost(self) -> None:
        try:
            said = [msgspec.msgpack.decode(value, type=list[int]) for _, _, value in self.of(DOWN)]
        except msgspec.MsgspecError as error:
            raise LinkError(f"a fact cannot be read: {str(error).splitlines()[0]}") from None
        before, self._lost = self._lost, frozenset(broker for one in said for broker in one) - {self._me}
        if self._lost != before:
            for told in self.on_lost:
                told(self._lost - before)


def _parts(key: str) -> tuple[int, str, str]:
    """Whose fact it is, its kind, and its name."""
    parts = key.split("/", PARTS)
    if len(parts) <= PARTS or not parts[0].isdecimal():
        raise LinkError("a fact has a key that cannot be")
    return int(parts[0]), parts[1], parts[2]
