"""One flow at one broker: advertisements flood its tree, subscriptions follow them back, events follow those.

A *hop* is where something came from: a neighbour in the tree, or a client of this broker. Everything is named by
(id, version):

1. The same again from the same hop changes nothing.
2. What a hop has unsubscribed does not come to life again under the same version, though the unsubscription came
   first. Withdrawn is not unsubscribed. (An older version may come: a left-over that covers others.)
3. Two versions of one id are two subscriptions, until the older one is unsubscribed: what either covers misses nothing
   on the way. Of an advertisement only the newest version counts.
4. An unsubscription of what is not here is remembered for rule 2, and goes no further.
"""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from overstory.errors import VersionError
from overstory.filters import Filter
from overstory.routing.messages import Key, Prune
from overstory.routing.outlet import Order, Outlet
from overstory.routing.policy import Policy
from overstory.routing.share import FlowShare
from overstory.routing.table import NONE, Table
from overstory.routing.ways import Way

Orders: TypeAlias = list[tuple[int, Order]]  # and the neighbour that each is for


class Entry(NamedTuple):
    filter: Filter
    number: int  # in the table; NONE: a row of the plan stands in its place
    renewed: float


class Advertisement(NamedTuple):
    version: int
    filter: Filter
    hop: int


class Flow:
    def __init__(self, share: FlowShare, table: Table, policy: Policy) -> None:
        self.share, self.table, self.policy = share, table, policy
        self.advertisements: dict[int, Advertisement] = {}
        self.entries: dict[tuple[int, Key], Entry] = {}
        self.outlets: dict[int, Outlet] = {}
        self.ended: dict[tuple[int, Key], float] = {}  # what was unsubscribed, and when
        self.unadvertised: dict[int, int] = {}  # the last version
        self._sent_by: dict[int, set[int]] = {}  # advertisements by the hop that they came from
        everyone = share.everyone_advertises
        self.narrowed = not everyone  # clients here publish only what they have advertised
        self.open = set(share.neighbours) if everyone else set()  # neighbours from whom anything may come
        self.shut = set() if everyone else set(share.neighbours)  # neighbours who were told that not everything does

    def open_outlet(self, peer: int) -> Orders:
        """A neighbour of the tree is there: it is told of all that it should know."""
        self.outlets[peer] = Outlet(peer, self.policy.covering)
        return self._tell(peer, list(self.entries.items()))

    def close_outlet(self, peer: int) -> None:
        """What it was told is lost to it, perhaps; what it said stays until it says otherwise, or runs out."""
        self.outlets.pop(peer, None)

    # Advertisements

    def gates(self) -> list[tuple[int, bool]]:
        """Neighbours to be told that anything may come from here, or no longer."""
        changed = []
        for peer in sorted(self.outlets):
            is_open = not self.narrowed or bool(self.open - {peer})
            if is_open == (peer in self.shut):
                (self.shut.discard if is_open else self.shut.add)(peer)
                changed.append((peer, is_open))
        return changed

    def gate(self, peer: int, is_open: bool) -> Orders:
        """A neighbour has said so: it has to know of all subscriptions, or only of those that meet advertisements."""
        if is_open == (peer in self.open):
            return []
        (self.open.add if is_open else self.open.discard)(peer)
        if peer not in self.outlets:
            return []
        return self._tell(peer, list(self.entries.items())) if is_open else self._taken_back(peer)

    def knows_advertisement(self, key: Key, announced: Filter) -> bool:
        """Or a newer one. Raises a ``VersionError`` if it said something else before."""
        known = self.advertisements.get(key[0])
        if known is None or known.version < key[1]:
            return self.unadvertised.get(key[0], -1) >= key[1]
        if known.version == key[1] and known.filter != announced:
            raise VersionError(
                f"advertisement {key[0]} announced something else as version {key[1]}; raise the version"
            )
        return True

    def advertise(self, hop: int, key: Key, announced: Filter) -> Orders:
        """Subscriptions that match it follow it back."""
        orders = self._forget_advertisement(key[0]) if key[0] in self.advertisements else []
        self.advertisements[key[0]] = Advertisement(key[1], announced, hop)
        self._sent_by.setdefault(hop, set()).add(key[0])
        if hop not in self.outlets:
            return orders
        matching = [each for each in self.entries.items() if announced.intersects(each[1].filter)]
        return [*self._tell(hop, matching), *orders]

    def unadvertise(self, key: Key) -> Orders:
        """Subscriptions that match nothing else from there are taken back. What is not known is only remembered."""
        self.unadvertised[key[0]] = max(self.unadvertised.get(key[0], -1), key[1])
        known = self.advertisements.get(key[0])
        return [] if known is None or known.version > key[1] else self._forget_advertisement(key[0])

    def _forget_advertisement(self, number: int) -> Orders:
        hop = self.advertisements.pop(number).hop
        self._sent_by[hop].discard(number)
        return self._taken_back(hop) if hop in self.outlets else []

    def _taken_back(self, hop: int) -> Orders:
        """Subscriptions that meet nothing that may come from there."""
        outlet = self.outlets[hop]
        gone = [
            key for key in outlet.filters if key not in outlet.left_over and not self._leads(hop, outlet.filters[key])
        ]
        return [order for key in gone for order in self._removed(outlet, key, None, withdrawn=True)]

    def _leads(self, peer: int, wanted: Filter) -> bool:
        """Whether somebody behind the neighbour may publish what is wanted."""
        if peer in self.open:
            return True
        for each in self._sent_by.get(peer, ()):
            announced = self.advertisements[each].filter
            if _is_everything(announced) or announced.intersects(wanted):
                return True
        return False

    def matched_by(self, wanted: Filter) -> list[int]:
        """Advertisements of other brokers that a subscription meets."""
        return sorted(
            id_
            for id_, each in self.advertisements.items()
            if each.hop in self.share.neighbours and each.filter.intersects(wanted)
        )

    # Subscriptions

    def knows_subscription(self, hop: int, key: Key, wanted: Filter) -> bool:
        """Or its end. Raises a ``VersionError`` if it wanted something else before."""
        known = self.entries.get((hop, key))
        if known is None:
            return (hop, key) in self.ended
        if known.filter is not wanted and known.filter != wanted:
            raise VersionError(f"subscription {key[0]} wanted something else as version {key[1]}; raise the version")
        return True

    def subscribe(
        self, hop: int, key: Key, wanted: Filter, now: float, client: bool = False, shy: bool = False
    ) -> Orders:
        row = hop in self.share.rows
        number = NONE
        if client or not row:
            subscription = key[0] if client else NONE
            number = self.table.add(Way(self.share.number, hop, client), wanted, subscription, not row, shy)
        self.entries[hop, key] = Entry(wanted, number, now)
        orders: Orders = []
        for peer, outlet in self.outlets.items():
            if peer != hop and self._leads(peer, wanted):
                orders += [(peer, order) for order in self.policy.added(outlet, key, wanted)]
        return orders

    def unsubscribe(self, hop: int, key: Key, now: float, prunes: Sequence[Prune] | None, withdrawn: bool) -> Orders:
        if not withdrawn:
            self.ended[hop, key] = now
        entry = self.entries.pop((hop, key), None)
        if entry is None:
            return []
        if entry.number != NONE:
            self.table.remove(entry.number, entry.filter)
        orders: Orders = []
        for peer, outlet in self.outlets.items():
            if peer != hop and key in outlet:
                known = None if prunes is None else self._towards(peer, prunes)
                orders += self._removed(outlet, key, known, withdrawn)
        return orders

    def _removed(self, outlet: Outlet, key: Key, prunes: Sequence[Prune] | None, withdrawn: bool) -> Orders:
        """What is only withdrawn here is only withdrawn further on: it may come again under the same version."""
        orders = self.policy.removed(outlet, key, prunes)
        if withdrawn and key in outlet.leaving:
            outlet.leaving[key] = True
        return [
            (outlet.peer, order._replace(withdrawn=True) if withdrawn and order.filter is None else order)
            for order in orders
        ]

    def _towards(self, peer: int, prunes: Sequence[Prune]) -> list[Prune]:
        """Those for advertisements that the neighbour has sent; of unknown ones nothing is known, and they end here."""
        behind = self._sent_by.get(peer, set())
        return [each for each in prunes if each.advertisement in behind]

    def _tell(self, peer: int, entries: Sequence[tuple[tuple[int, Key], Entry]]) -> Orders:
        outlet = self.outlets[peer]
        orders: list[Order] = []
        for (hop, key), entry in entries:
            if hop != peer and key not in outlet and self._leads(peer, entry.filter):
                orders += self.policy.added(outlet, key, entry.filter)
        return [(peer, order) for order in orders]

    # Time

    def expire(self, now: float, lease: float) -> Orders:
        """What its neighbour has not renewed for two leases has run out, and so has what is remembered of its end."""
        old = now - 2 * lease
        self.ended = {where: each for where, each in self.ended.items() if each >= old}
        late = [
            where for where, each in self.entries.items() if where[0] in self.share.neighbours and each.renewed < old
        ]
        return [order for hop, key in late for order in self.unsubscribe(hop, key, now, None, withdrawn=True)]

    def renew(self, hop: int, keys: frozenset[Key], now: float) -> tuple[Orders, tuple[Key, ...]]:
        """Returns what follows from that which was left out, and what was renewed but is not here."""
        held = {key: each for (other, key), each in self.entries.items() if other == hop}
        for key in held.keys() & keys:
            self.entries[hop, key] = held[key]._replace(renewed=now)
        orders = [
            order
            for key in sorted(held.keys() - keys)
            for order in self.unsubscribe(hop, key, now, None, withdrawn=True)
        ]
        missing = sorted(key for key in keys - held.keys() if (hop, key) not in self.ended)
        return orders, tuple(missing)

    def renewed(self, peer: int) -> frozenset[Key]:
        """What this broker stands by towards a neighbour. A left-over that covers nobody any more is let go."""
        outlet = self.outlets[peer]
        for key in list(outlet.left_over):
            if key not in outlet.leaving and not outlet.quenches(key):
                outlet.drop(key)
                outlet.sent.discard(key)
        return frozenset(outlet.sent)


def _is_everything(announced: Filter) -> bool:
    """Seen at a glance."""
    return any(not box.sets and not box.residuals for box in announced.boxes)
