"""When a retained message is safe: the neighbours in the late tree count as next hops for its acknowledgement.

1. A change that somebody waits for (``Retain.asks``) is answered by ``Noted``, once all other neighbours in the late
   tree have answered it and it is on disk here, if there is one.
2. A neighbour that comes up is told again of the changes that it has not answered.
3. While a neighbour is down, a change that is on disk here counts as answered: the two compare what they know when it
   is back (``spreading``).
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from overstory.broker.journal import Journal
from overstory.broker.promises import Promise
from overstory.broker.spreading import Retain

Change = tuple[str, int, int]  # the topic, and the stamp


class Noted(msgspec.Struct, frozen=True, tag=True):
    """The sender has heard of a change of a retained message, and so have all behind it in the late tree."""

    topic: str
    time: int
    broker: int


class Retaining:
    """The changes of retained messages that neighbours have not answered yet."""

    def __init__(self, journal: Journal, tell: Callable[[int, Any], None], is_down: Callable[[int], bool]) -> None:
        self._journal, self._tell, self._is_down = journal, tell, is_down
        self._asked: dict[int, dict[Change, tuple[Retain, Promise]]] = {}  # by neighbour
        self._waiting: dict[Change, Promise] = {}

    def __len__(self) -> int:
        """How many answers are waited for."""
        return sum(map(len, self._asked.values()))

    def spread(self, news: Retain, peers: Iterable[int]) -> Promise:
        """These neighbours have been told of a change. The promise is kept once all have answered."""
        change, promise = (news.topic, news.time, news.broker), Promise()
        promise.wait()
        for peer in peers:
            promise.wait()
            if self._journal.keeps and self._is_down(peer):
                self._journal.call(promise.kept)
            else:
                self._asked.setdefault(peer, {})[change] = news, promise
        self._waiting[change] = promise
        promise.then(lambda: self._end(change))
        promise.kept()
        return promise

    def _end(self, change: Change) -> None:
        self._waiting.pop(change, None)

    def answer(self, peer: int, news: Retain, others: Iterable[int] | None) -> None:
        """Answers a neighbour once a change is safe. ``others`` have been told of it just now; None: earlier."""
        change = news.topic, news.time, news.broker
        promise = self._waiting.get(change) if others is None else self.spread(news, others)

        def say() -> None:
            self._journal.call(lambda: self._tell(peer, Noted(*change)))

        if promise is None:
            say()
        else:
            promise.then(say)

    def noted(self, peer: int, message: Noted) -> None:
        """A neighbour has answered."""
        found = self._asked.get(peer, {}).pop((message.topic, message.time, message.broker), None)
        if found is not None:
            found[1].kept()

    def up(self, peer: int) -> None:
        """A neighbour is up, and may not have heard what it was told."""
        for news, _ in list(self._asked.get(peer, {}).values()):
            self._tell(peer, news)

    def down(self, peer: int) -> None:
        """A neighbour is down."""
        if self._journal.keeps:
            for _, promise in self._asked.pop(peer, {}).values():
                self._journal.call(promise.kept)
