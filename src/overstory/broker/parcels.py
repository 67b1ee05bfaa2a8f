"""Messages to other brokers that must not be lost, whoever on the way dies: each is kept until its receiver has it.

1. A parcel is kept here until the receiver says that it has done what it says, its disk included. A receiver that
   passes it on to another broker says so when that one has it.
2. When a broker has restarted, parcels that nobody has answered are sent again: it may have been on their way. The
   receiver does nothing twice.
3. When the receiver is lost, what somebody else may have is given back (``take_back``).
"""

from collections.abc import Callable
from typing import Any

import msgspec

from overstory.broker.promises import Promise


class Parcel(msgspec.Struct, frozen=True, tag=True):
    """A message, by its number among those of the sender for this receiver. All below ``floor`` have been answered."""

    incarnation: int
    number: int
    floor: int
    body: bytes  # one message of the codec


class Got(msgspec.Struct, frozen=True, tag=True):
    """The receiver of a parcel has done what it says."""

    incarnation: int
    number: int


class Kept(msgspec.Struct):
    """A parcel that waits for its answer."""

    message: Any
    promise: Promise


class Heard(msgspec.Struct):
    """The parcels of one sender that were done: all below ``floor``, and some above."""

    incarnation: int
    floor: int = 0
    numbers: set[int] = msgspec.field(default_factory=set)
    pending: set[int] = msgspec.field(default_factory=set)  # those that were passed on, and are not safe there yet


class Parcels:
    """The parcels of one broker, those that it has sent and those that it has got."""

    def __init__(
        self,
        incarnation: int,
        tell: Callable[[int, Any], None],
        pack: Callable[[Any], bytes],
        done: Callable[[int, bytes], Promise | None],
        safe: Callable[[Callable[[], None]], None],
    ) -> None:
        """``done`` does what a parcel says. It returns a promise if it has passed it on to another broker, which does
        not have it yet. ``safe`` calls a function once that is on disk."""
        self.incarnation, self._tell, self._pack, self._done, self._safe = incarnation, tell, pack, done, safe
        self._kept: dict[int, dict[int, Kept]] = {}  # by receiver and number
        self._next: dict[int, int] = {}
        self._heard: dict[int, Heard] = {}

    def __len__(self) -> int:
        """How many have not been answered."""
        return sum(map(len, self._kept.values()))

    def send(self, broker: int, message: Any) -> Promise:
        """Sends a message to another broker. The promise is kept once the receiver has done what it says."""
        number = self._next[broker] = self._next.get(broker, 0) + 1
        promise = Promise()
        promise.wait()
        self._kept.setdefault(broker, {})[number] = Kept(message, promise)
        self._put(broker, number)
        return promise

    def _put(self, broker: int, number: int) -> None:
        kept = self._kept[broker]
        body = self._pack(kept[number].message)
        self._tell(broker, Parcel(self.incarnation, number, next(iter(kept)), body))

    def send_again(self) -> None:
        """Somebody has restarted: what was not answered may be gone."""
        for broker, kept in self._kept.items():
            for number in list(kept):
                self._put(broker, number)

    def take_back(self, broker: int, kinds: tuple[type, ...]) -> list[Kept]:
        """The messages of these kinds that a broker that is lost has not answered. They are not sent again."""
        kept = self._kept.get(broker, {})
        numbers = [number for number, one in kept.items() if isinstance(one.message, kinds)]
        return [kept.pop(number) for number in numbers]

    def came(self, broker: int, parcel: Parcel) -> None:
        """A parcel has come."""
        heard = self._heard.get(broker)
        if heard is None or heard.incarnation < parcel.incarnation:
            heard = self._heard[broker] = Heard(parcel.incarnation)
        if heard.incarnation > parcel.incarnation:
            return  # from before the sender restarted
        if parcel.floor > heard.floor:
            heard.floor = parcel.floor
            heard.numbers = {number for number in heard.numbers if number >= parcel.floor}
        if parcel.number in heard.pending:
            return  # it is answered once it is done
        promise = None
        if parcel.number >= heard.floor and parcel.number not in heard.numbers:
            heard.numbers.add(parcel.number)
            promise = self._done(broker, parcel.body)
        if promise is None:
            self._answer(broker, heard, parcel)
        else:
            heard.pending.add(parcel.number)
            promise.then(lambda: self._answer(broker, heard, parcel))

    def _answer(self, broker: int, heard: Heard, parcel: Parcel) -> None:
        """Says that a parcel was done, once that is on disk."""
        heard.pending.discard(parcel.number)
        self._safe(lambda: self._tell(broker, Got(parcel.incarnation, parcel.number)))

    def got(self, broker: int, answer: Got) -> None:
        """A receiver has done what a parcel says."""
        kept = self._kept.get(broker, {})
        if answer.incarnation == self.incarnation and answer.number in kept:
            kept.pop(answer.number).promise.kept()
