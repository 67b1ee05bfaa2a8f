"""What a broker has told one neighbour about the subscriptions of one flow: the state that policies decide on.

1. ``sent`` is the set of subscriptions that the neighbour holds from here, no more and no less, once the neighbour has
   read all messages. While it is down, ``sent`` is what it has to hold when it is up again and the two have compared.
2. Every subscription of the outlet is in ``sent`` or is covered by one that is. So no event is lost.
3. A *left-over* is in ``sent`` though no last hop stands behind it any more. It stays because it covers others.

The containment graph knows which subscription covers which. So a change looks only at a subscription's neighbours in
the graph, never at the whole table. The roots of the graph are always sent. Subscriptions that equal each other are one
node, and one of them is sent for all. Until the plan is in use that is the first by rank: those of this broker's own
clients come first, since they cost no other broker anything when they leave, and of these the lowest key. With the plan
in use a newcomer replaces nobody. So under active covering brokers that begin to use a plan have told each other the
same in whatever order messages came, and what a later change costs does not depend on that order either.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from overstory.filters import Filter
from overstory.kernels.nothing import NONE
from overstory.matching import ParkingGraph
from overstory.routing.digests import Digest
from overstory.routing.messages import Key, Prune
from overstory.routing.tasks import Tasks


class Order(NamedTuple):
    """A subscription or an unsubscription that the neighbour is to be told of."""

    key: Key
    filter: Filter | None  # None: an unsubscription
    prunes: tuple[Prune, ...] | None = None  # these three as in ``Subscribe`` and ``Unsubscribe``
    withdrawn: bool = False
    triggered: bool = False


class Outlet:
    """The subscriptions of one flow that go towards one neighbour, and those of them that the neighbour was told of."""

    def __init__(self, peer: int, covering: bool, own: Collection[Key] | None = None) -> None:
        """``own`` has the flow's subscriptions of clients at this broker, as they come and go. Without it a newcomer
        never replaces an equal one."""
        self.peer, self._own = peer, () if own is None else own
        self.filters: dict[Key, Filter] = {}  # of all subscriptions here, sent or not
        self.sent = Digest()
        self.tasks = Tasks()
        self.left_over: dict[Key, int] = {}  # how many events came in vain for each
        # Left-overs that go once the subscriptions that they cover are sent, and whether they are only withdrawn
        self.leaving: dict[Key, bool] = {}
        self.tokens, self.filled = 0.0, float("-inf")  # of the bucket of ``policies.paced``; when it was filled
        self._sources: dict[Key, int] = {}  # last hops that each came from: one, unless a client breaks the rules
        self._graph = ParkingGraph() if covering else None
        self._number: dict[Key, int] = {}  # of each subscription in the graph
        self._key: dict[int, Key] = {}
        self._speaker: dict[int, Key] = {}  # the one that is sent, by node, until the plan is in use
        # The number of the first subscription that came after that
        self._first_later: int | None = None if own is not None else 0

    def __contains__(self, key: Key) -> bool:
        """Whether the subscription is here, sent or not."""
        return key in self._sources

    def __len__(self) -> int:
        """The number of subscriptions here, sent or not."""
        return len(self._sources)

    def join(self, key: Key, wanted: Filter) -> bool:
        """Adds a subscription of a last hop. Returns whether it is new and no other one here covers it."""
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
        is_lone = self._graph.is_lone_root(number)
        if is_lone:
            self._speaks(key)
        return is_lone

    def settle(self) -> None:
        """The plan is in use from now on: no subscription is sent only because it comes before an equal one."""
        if self._graph is not None and self._first_later is None:
            self._first_later = self._graph.next_number
            self._speaker.clear()

    def yields_to(self, key: Key) -> Key | None:
        """The subscription in whose place this one is to be sent, which equals it; None if there is none."""
        if self._graph is None or self._first_later is not None:
            return None
        node = self._graph.node_of(self._number[key])
        other = None if node is None else self._speaker.get(node)
        if other is None or other not in self.sent or other in self.left_over or self._rank(other) <= self._rank(key):
            return None
        self._speaks(key)
        return other

    def _speaks(self, key: Key) -> None:
        """A subscription is sent for all that equal it. Once the plan is in use it stays so, and nobody asks."""
        node = None if self._graph is None else self._graph.node_of(self._number[key])
        if node is not None and self._first_later is None:
            self._speaker[node] = key

    def _rank(self, key: Key) -> tuple[bool, int, Key]:
        """Of equal subscriptions the one with the lowest rank goes first. Those that have come with the plan in use are
        behind the others, in the order in which they came."""
        number = self._number[key]
        is_later = self._first_later is not None and number >= self._first_later
        return key not in self._own, number if is_later else NONE, key

    def foresee(self, wanted: Mapping[Key, Filter]) -> None:
        """Adds subscriptions that the neighbour knows from the plan (``foreseen``): they count as sent."""
        fresh = {key: one for key, one in wanted.items() if key not in self._sources}
        self._sources.update(dict.fromkeys(fresh, 1))
        self.filters.update(fresh)
        self.sent.add_all(list(fresh))
        if self._graph is not None:
            numbers = self._graph.add_unrelated(list(fresh.values()))
            self._number.update(zip(fresh, numbers, strict=True))
            self._key.update(zip(numbers, fresh, strict=True))
            for key in fresh:
                self._speaks(key)

    def take_back(self, key: Key) -> None:
        """Makes the next ``leave`` the last one, however many last hops stand behind the subscription."""
        self._sources[key] = 1

    def leave(self, key: Key) -> bool:
        """Removes one last hop of a subscription. Returns whether none is left; the subscription itself stays here."""
        self._sources[key] -= 1
        return self._sources[key] <= 0

    def keep(self, key: Key) -> None:
        """Makes a subscription a left-over. One that was not sent quenches nothing, so it is dropped."""
        if key in self.sent:
            self.left_over[key] = 0
        else:
            self.drop(key)

    def drop(self, key: Key) -> list[Key]:
        """Removes a subscription, and returns those that have to be sent now because no sent one covers them."""
        exposed = self.exposed_by(key)
        del self._sources[key], self.filters[key]
        self.left_over.pop(key, None)
        self.leaving.pop(key, None)
        if self._graph is None:
            return []
        number = self._number.pop(key)
        del self._key[number]
        self._graph.remove(number)
        for other in exposed:
            self._speaks(other)
        return exposed

    def exposed_by(self, key: Key) -> list[Key]:
        """The subscriptions that would have to be sent if this one went."""
        if self._graph is None:
            return []
        number = self._number[key]
        if not self._graph.is_root(number):
            return []  # a subscription that covers this one covers them, too
        if self._graph.has_equals(number):
            equals = [other for other in self._equals(number) if other != key]
            covered = any(other in self.sent for other in equals)
            return [] if covered or key not in self.sent else [min(equals, key=self._rank)]
        resting = self._graph.resting_on(number)
        return [min(self._equals(child), key=self._rank) for child in resting if not self._is_sent(child)]

    def covered_by(self, key: Key) -> list[Key]:
        """The sent subscriptions that this one covers and does not equal: its children in the graph, no further."""
        if self._graph is None:
            return []
        children = self._graph.children(self._number[key])
        return [covered for child in children for covered in self._equals(child) if covered in self.sent]

    def quenches(self, key: Key) -> bool:
        """Whether a subscription that some last hop stands behind is not sent because this one covers it."""
        return any(self._sources[exposed] > 0 for exposed in self.exposed_by(key))

    def _equals(self, number: int) -> list[Key]:
        """The subscriptions of one node of the graph."""
        assert self._graph is not None
        return [self._key[other] for other in self._graph.equals(number)]

    def _is_sent(self, number: int) -> bool:
        """Whether a subscription of this node is sent."""
        return any(equal in self.sent for equal in self._equals(number))
