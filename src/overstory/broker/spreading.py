"""Retained messages on every broker: news of them spreads along the late tree, and the newest counts everywhere.

1. Each change of a topic's retained message has a stamp: a hybrid logical clock and the broker where it was published.
   The clock is never behind the broker's own, nor behind any stamp that it has seen. So a change that was made in
   knowledge of another has a higher stamp, whatever the clocks say; of two that knew nothing of each other one wins.
2. A change that is new to a broker goes on to its other neighbours in the late tree, once. Older ones go no further.
3. Removals are remembered, at most ``MOST_REMOVED`` of them, so that an older message does not come back.
4. Neighbours that come up compare sums of what they know (``routing.digests``), and send each other the buckets that
   differ, one message in each step of a chore.
5. A subscription that not the whole network serves yet may miss the event itself. So it gets changes that come here.

Times in messages are seconds that are left, so that clocks need not agree.
"""

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import NamedTuple

import msgspec

from overstory.broker.message import Message
from overstory.errors import LinkError
from overstory.routing.digests import Digest, bucket_of
from overstory.routing.messages import Key, Sums

MOST_REMOVED = 100_000
TICKS = 1 << 20  # of the hybrid clock in a second
SHIFT = 22  # broker ids are smaller than two to this


class Retain(msgspec.Struct, frozen=True, tag=True):
    """The retained message of a topic is this one now, or none."""

    topic: str
    time: int
    broker: int
    message: bytes  # empty: it was removed
    left: float | None = None  # seconds that the message is worth delivering
    asks: bool = False  # the sender wants to know when it is safe (``retaining``)


class RetainedSums(msgspec.Struct, frozen=True, tag=True):
    """The sums of the buckets of all retained messages that the sender knows."""

    sums: Sums


class Stamp(NamedTuple):
    """When and where a change was made. The higher stamp counts."""

    time: int
    broker: int


class Spreading:
    """What one broker knows of all retained messages, apart from the messages themselves."""

    def __init__(
        self,
        broker: int,
        neighbours: Callable[[], list[int]],
        tell: Callable[[int, Retain | RetainedSums], None],
        keep: Callable[[str, Message | None], None],
        find: Callable[[str], Message | None],
    ) -> None:
        """``keep`` changes the message of a topic here, ``find`` finds it; ``neighbours`` are in the late tree."""
        self._broker, self._neighbours, self._tell = broker, neighbours, tell
        self._keep, self._find = keep, find
        self._stamps: dict[str, Stamp] = {}
        self._removed: dict[str, None] = {}  # topics without a message, the one that was removed first is the first
        self._digest = Digest()
        self._topics: dict[int, dict[str, None]] = {}  # by bucket
        self._last = 0  # time of the latest stamp that was seen or given
        self.on_stamp: Callable[[str, Stamp | None], None] = lambda *_: None  # told of stamps to be kept, or forgotten

    def stamp_of(self, topic: str) -> Stamp | None:
        """The stamp of a topic's last change; None if none is known."""
        return self._stamps.get(topic)

    def changed(self, topic: str, message: Message | None, now: float, asks: bool = False) -> Retain:
        """A client here has changed the retained message of a topic, or removed it. All brokers are told."""
        self._last = max(self._last + 1, int(now * TICKS))
        stamp = Stamp(self._last, self._broker)
        self._note(topic, stamp, message is None)
        news = msgspec.structs.replace(_news(topic, stamp, message, now), asks=asks)
        for peer in self._neighbours():
            self._tell(peer, news)
        return news

    def is_new(self, news: Retain) -> bool:
        """Whether a change is newer than what is known here."""
        known = self._stamps.get(news.topic)
        return known is None or known < Stamp(news.time, news.broker)

    def recall(self, topic: str, stamp: Stamp, is_removed: bool) -> None:
        """The last change of a topic that was known before the broker restarted."""
        self._last = max(self._last, stamp.time)
        self._note(topic, stamp, is_removed)

    def hear(self, peer: int, news: Retain, now: float) -> Message | None:
        """A change that a neighbour tells of. Returns the message if it is new here, and there is one."""
        if not 0 <= news.time < 1 << 62 or not 0 <= news.broker < 1 << SHIFT:
            raise LinkError("a retained message has a stamp that cannot be")
        stamp = Stamp(news.time, news.broker)
        self._last = max(self._last, stamp.time)
        known = self._stamps.get(news.topic)
        if known is not None and known >= stamp:
            return None
        message = _message(news, now)
        self._note(news.topic, stamp, message is None)
        self._keep(news.topic, message)
        for other in self._neighbours():
            if other != peer:
                self._tell(other, news)
        return message

    def up(self, peer: int) -> None:
        """A neighbour in the late tree is up: the two compare what they know."""
        if peer in self._neighbours():
            self._tell(peer, RetainedSums(self._digest.sums()))

    def compared(self, peer: int, message: RetainedSums, now: Callable[[], float]) -> Iterator[None]:
        """Tells a neighbour of all in the buckets that differ, one topic in each step."""
        theirs, own = dict(message.sums), dict(self._digest.sums())
        for bucket in sorted(number for number in own if theirs.get(number) != own[number]):
            for topic in list(self._topics.get(bucket, ())):
                stamp = self._stamps.get(topic)
                if stamp is not None:
                    self._tell(peer, _news(topic, stamp, self._find(topic), now()))
                yield

    def _note(self, topic: str, stamp: Stamp, is_removed: bool) -> None:
        self._forget(topic)
        self._stamps[topic] = stamp
        key = _key(topic, stamp)
        self._digest.add(key)
        self._topics.setdefault(bucket_of(key), {})[topic] = None
        self.on_stamp(topic, stamp)
        if is_removed:
            self._removed[topic] = None
            if len(self._removed) > MOST_REMOVED:
                oldest = next(iter(self._removed))
                self._forget(oldest)
                self.on_stamp(oldest, None)

    def _forget(self, topic: str) -> None:
        stamp = self._stamps.pop(topic, None)
        self._removed.pop(topic, None)
        if stamp is not None:
            key = _key(topic, stamp)
            self._digest.discard(key)
            self._topics[bucket_of(key)].pop(topic, None)


def _key(topic: str, stamp: Stamp) -> Key:
    """A topic and its stamp, as a key of digests."""
    hashed = int.from_bytes(blake2b(topic.encode(), digest_size=7).digest(), "big")
    return hashed, stamp.time << SHIFT | stamp.broker


def _news(topic: str, stamp: Stamp, message: Message | None, now: float) -> Retain:
    if message is None:
        return Retain(topic, *stamp, b"")
    left = None if message.expires is None else message.expires - now
    return Retain(topic, *stamp, msgspec.msgpack.encode(msgspec.structs.replace(message, expires=None)), left)


def _message(news: Retain, now: float) -> Message | None:
    if not news.message:
        return None
    try:
        message = msgspec.msgpack.decode(news.message, type=Message)
    except msgspec.MsgspecError as error:
        raise LinkError(f"a retained message cannot be read: {str(error).splitlines()[0]}") from None
    if message.topic != news.topic:
        raise LinkError("a retained message is of another topic than it says")
    return message if news.left is None else msgspec.structs.replace(message, expires=now + news.left)
