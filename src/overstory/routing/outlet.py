"""What a broker has told one neighbour about the subscriptions of one flow: the state that policies decide on.

1. ``sent`` is what the neighbour holds from here, no more and no less, once it has read all that was sent.
2. Every subscription of the outlet is in ``sent`` or is covered by one that is: no event is lost.
3. A *left-over* is in ``sent`` though nobody here stands behind it any more. It stays because it covers others.

The containment graph knows who covers whom, so that a change looks at a subscription's neighbours in the graph and
never at the whole table. Its roots are always sent. Subscriptions that equal each other are one node of it; one of
them speaks for all.
"""

from typing import NamedTuple

from overstory.filters import Filter
from overstory.matching import ContainmentGraph
from overstory.routing.messages import Key, Prune


class Order(NamedTuple):
    """One thing to tell the neighbour."""

    key: Key
    filter: Filter | None  # None: an unsubscription
    prunes: tuple[Prune, ...] | None = None
    withdrawn: bool = False
    triggered: bool = False


class Outlet:
    """To one neighbour in one flow."""

    def __init__(self, peer: int, covering: bool) -> None:
        self.peer = peer
        self.filters: dict[Key, Filter] = {}  # of all that it holds
        self.sent: set[Key] = set()
        self.left_over: dict[Key, int] = {}  # and how many events came in vain for it
        self.leaving: dict[Key, bool] = {}  # left-overs that go once what they cover is sent; whether only withdrawn
        self.tokens, self.filled = 0.0, float("-inf")  # of the bucket, where there is one
        self._sources: dict[Key, int] = {}  # last hops that each came from: one, unless a client breaks the rules
        self._graph = ContainmentGraph() if covering else None
        self._number: dict[Key, int] = {}
        self._key: dict[int, Key] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._sources

    def __len__(self) -> int:
        return len(self._sources)

    def join(self, key: Key, wanted: Filter) -> bool:
        """Takes a subscription in. Returns whether it is new and nothing that was here covers it."""
        known = key in self._sources
        self._sources[key] = self._sources.get(key, 0) + 1
        self.left_over.pop(key, None)
        self.leaving.pop(key, None)
        if known:
            return False
        self.filters[key] = wanted
        if self._graph is None:
            return True
        number = self._number[key] = self._graph.add(wanted)
        self._key[number] = key
        return self._graph.is_root(number) and len(self._graph.equals(number)) == 1

    def take_back(self, key: Key) -> None:
        """As if only one last hop stood behind it, which then leaves."""
        self._sources[key] = 1

    def leave(self, key: Key) -> bool:
        """One last hop less stands behind the subscription. Returns whether none is left; it then is still here."""
        self._sources[key] -= 1
        return self._sources[key] <= 0

    def keep(self, key: Key) -> None:
        """Makes it a left-over. What was not sent quenches nothing, and goes."""
        if key in self.sent:
            self.left_over[key] = 0
        else:
            self.drop(key)

    def drop(self, key: Key) -> list[Key]:
        """Takes it out. Returns those that now have to be sent, since nothing that is sent covers them any more."""
        exposed = self.exposed_by(key)
        del self._sources[key], self.filters[key]
        self.left_over.pop(key, None)
        self.leaving.pop(key, None)
        if self._graph is None:
            return []
        number = self._number.pop(key)
        del self._key[number]
        self._graph.remove(number)
        return exposed

    def exposed_by(self, key: Key) -> list[Key]:
        """Those that would have to be sent if this one went."""
        if self._graph is None:
            return []
        number = self._number[key]
        equals = [self._key[other] for other in self._graph.equals(number) if other != number]
        if equals:
            covered = any(other in self.sent for other in equals) or not self._graph.is_root(number)
            return [] if covered or key not in self.sent else equals[:1]
        if not self._graph.is_root(number):
            return []  # whatever covers this one covers them
        return [self._key[child] for child in self._graph.resting_on(number) if not self._is_sent(child)]

    def covered_by(self, key: Key) -> list[Key]:
        """Those sent ones that this one covers and does not equal, nearest first and no further than that."""
        if self._graph is None:
            return []
        children = self._graph.children(self._number[key])
        return [each for child in children for each in self._equals(child) if each in self.sent]

    def quenches(self, key: Key) -> bool:
        """Whether some subscription that somebody stands behind is not sent because this one covers it."""
        return any(self._sources[each] > 0 for each in self.exposed_by(key))

    def _equals(self, number: int) -> list[Key]:
        assert self._graph is not None
        return [self._key[other] for other in self._graph.equals(number)]

    def _is_sent(self, number: int) -> bool:
        return any(each in self.sent for each in self._equals(number))
