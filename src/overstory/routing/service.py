"""When the whole network serves a subscription: a flush behind it over the late tree, and the echoes of all brokers.

1. The host sends ``Reach`` to its neighbours in the late tree, behind its subscriptions. A broker passes it on behind
   its own, and answers with ``Reached`` once all its other neighbours have answered. So when the last answer has come
   to the host, every broker has been told of each subscription that the host had made before, or of one that covers it.
2. There is one flush at a time for each epoch and host. Subscriptions that are made meanwhile wait for the next one.
3. A neighbour that is down is waited for: it serves nothing yet. When it is up, or asks to be told again, it is sent
   each ``Reach`` that it owes an answer for. Messages are lost in no other way, so no timer is needed.
4. A subscription is served once that has happened in every epoch that was there when it was made. An epoch that comes
   later is not used before all brokers hold it, and so serves it too.
"""

from collections.abc import Callable

import msgspec

from overstory.routing.messages import LATE, Key, Output, Reach, Reached, Send, Served
from overstory.routing.state import State


class Pending(msgspec.Struct):
    """A flush that this broker has passed on, or begun."""

    attempt: int
    peer: int | None  # the neighbour that it came from; None: this broker began it
    missing: set[int]  # neighbours that have not answered
    keys: tuple[Key, ...] = ()  # at the host: the subscriptions that it is for


class Service:
    """The flushes of this broker's own subscriptions, and its answers to those of others."""

    def __init__(self, state: State, on_served: Callable[[int], list[Output]]) -> None:
        """``on_served`` is told the id of each subscription that is served, and returns what follows."""
        self._state, self._on_served = state, on_served
        self._unserved: dict[Key, set[int]] = {}  # epochs in which a subscription is not served yet
        self._waiting: dict[int, dict[Key, None]] = {}  # by epoch: subscriptions for the next flush
        self._flushes: dict[tuple[int, int], Pending] = {}  # by epoch and host
        self._attempts = 0

    def made(self, key: Key) -> list[Output]:
        """A subscription was made here, and its neighbours have been told."""
        epochs = [number for number, epoch in self._state.epochs.items()]
        self._unserved[key] = set(epochs)
        return [output for number in epochs for output in self._ask(number, [key])]

    def installed(self, number: int) -> list[Output]:
        """All subscriptions have joined a new epoch. Those that were made before there was any are to be served."""
        early = [key for key, epochs in self._unserved.items() if not epochs]
        for key in early:
            self._unserved[key] = {number}
        return self._ask(number, early)

    def _ask(self, number: int, keys: list[Key]) -> list[Output]:
        """Begins a flush for these subscriptions, or notes them for the next one."""
        waiting = self._waiting.setdefault(number, {})
        waiting.update(dict.fromkeys(keys))
        return [] if (number, self._state.broker) in self._flushes else self._begin(number)

    def _begin(self, number: int) -> list[Output]:
        keys = tuple(self._waiting.pop(number, ()))
        if not keys:
            return []
        self._attempts += 1
        return self._flush(None, Reach(number, LATE, self._state.broker, self._attempts), keys)

    def _flush(self, peer: int | None, message: Reach, keys: tuple[Key, ...] = ()) -> list[Output]:
        others = self._state.epochs[message.epoch].flows[LATE].share.neighbours - {peer}
        flush = Pending(message.attempt, peer, set(others), keys)
        self._flushes[message.epoch, message.host] = flush
        sends = self._state.to_those_up([Send(other, message) for other in sorted(others)])
        return sends + self._answer(message.epoch, message.host)

    def receive(self, peer: int, message: Reach | Reached) -> list[Output]:
        """Handles a neighbour's flush, or its answer to one."""
        if isinstance(message, Reach):
            known = self._flushes.get((message.epoch, message.host))
            if known is not None and known.attempt == message.attempt and known.peer == peer:
                return []  # it is under way
            return self._flush(peer, message)
        flush = self._flushes.get((message.epoch, message.host))
        if flush is None or flush.attempt != message.attempt:
            return []
        flush.missing.discard(peer)
        return self._answer(message.epoch, message.host)

    def _answer(self, number: int, host: int) -> list[Output]:
        """Answers a flush once all other neighbours have. If this broker began it, its subscriptions are served."""
        flush = self._flushes[number, host]
        if flush.missing:
            return []
        del self._flushes[number, host]
        if flush.peer is not None:
            return [Send(flush.peer, Reached(number, LATE, host, flush.attempt))]
        return self._served(number, flush.keys) + self._begin(number)

    def _served(self, number: int, keys: tuple[Key, ...]) -> list[Output]:
        outputs: list[Output] = []
        for key in keys:
            epochs = self._unserved.get(key)
            if epochs is None:
                continue
            epochs.discard(number)
            if not epochs:
                del self._unserved[key]
                home = self._state.homes.get(key[0])
                if home is not None and home.version == key[1]:
                    outputs += [Served(home.client, key), *self._on_served(key[0])]
        return outputs

    def introduced(self, number: int, peer: int) -> list[Output]:
        """A neighbour is told of an epoch, perhaps again: also of the flushes that it has not answered."""
        sends = [
            Send(peer, Reach(number, LATE, host, flush.attempt))
            for (epoch, host), flush in sorted(self._flushes.items())
            if epoch == number and peer in flush.missing
        ]
        return self._state.to_those_up(sends)

    def ended(self, id_: int) -> None:
        """A subscription has ended here: nobody waits for it to be served."""
        for key in [key for key in self._unserved if key[0] == id_] if self._unserved else ():
            del self._unserved[key]

    def forget(self, number: int) -> list[Output]:
        """An epoch was retired: no event of it comes, so nothing has to be served in it any more."""
        self._flushes = {name: flush for name, flush in self._flushes.items() if name[0] != number}
        self._waiting.pop(number, None)
        return self._served(number, tuple(key for key, epochs in self._unserved.items() if number in epochs))

    @property
    def is_waiting(self) -> bool:
        """Whether a subscription here is not served yet, or another host's flush is under way."""
        return bool(self._unserved or self._flushes)
