"""One flow at one broker: advertisements flood its tree, subscriptions follow them back, events follow those.

A *hop* is where something came from: a neighbour in the tree, or a client of this broker. Everything is named by
(id, version):

1. The same again from the same hop changes nothing.
2. What a hop has unsubscribed does not come to life again under the same version, though the unsubscription came
   first. Withdrawn is not unsubscribed. (An older version may come: a left-over that covers others.)
3. Two versions of one id are two subscriptions, until the older one is unsubscribed: what either covers misses nothing
   on the way. Of an advertisement only the newest version counts.
4. An unsubscription of what is not here is remembered for rule 2, and goes no further.
5. Towards a neighbour either all hops that a subscription came from count, or none does.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from overstory.errors import VersionError
from overstory.filters import Filter
from overstory.routing.messages import Key, Prune
from overstory.routing.outlet import Order, Outlet
from overstory.routing.policy import Policy
from overstory.routing.share import FlowShare
from overstory.routing.table import NONE, Table
from overstory.routing.tombstones import Tombstones
from overstory.routing.ways import Way

Orders: TypeAlias = list[tuple[int, Order]]  # and the neighbour that each is for
Ended: TypeAlias = tuple[int, int, Key]  # the flow, the hop, the subscription
Unadvertised: TypeAlias = tuple[int, int]  # the flow, the id of the advertisement


class Entry(NamedTuple):
    filter: Filter
    number: int  # in the table; NONE: a row of the plan stands in its place
    renewed: float


class Advertisement(NamedTuple):
    version: int
    filter: Filter
    hop: int
    renewed: float


class Flow:
    def __init__(
        self,
        share: FlowShare,
        table: Table,
        policy: Policy,
        planned: Mapping[int, int],
        ended: Tombstones[Ended],
        unadvertised: Tombstones[Unadvertised],
    ) -> None:
        """``planned``: versions of the subscriptions that the plan knows; its rows let through what they want.

        The table and the tombstones are those of the epoch, which all its flows share.
        """
        self.share, self.table, self.policy, self.planned = share, table, policy, planned
        self.advertisements: dict[int, Advertisement] = {}
        self.entries: dict[tuple[int, Key], Entry] = {}
        self.outlets: dict[int, Outlet] = {}
        self._ended, self._unadvertised = ended, unadvertised
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

    def void(self, peer: int, now: float) -> Orders:
        """A neighbour has restarted: its entries go, and may come again under the same version."""
        gone = [key for hop, key in self.entries if hop == peer]
        orders = [order for key in gone for order in self.unsubscribe(peer, key, now, None, withdrawn=True)]
        return orders + (self.gate(peer, is_open=True) if self.share.everyone_advertises else [])

    # Advertisements

    def gates(self) -> list[tuple[int, bool]]:
        """Neighbours to be told that anything may come from here, or no longer."""
        changed = []
        for peer in sorted(self.outlets):
            before = peer not in self.shut
            is_open = self.gate_to(peer)
            if is_open != before:
                changed.append((peer, is_open))
        return changed

    def gate_to(self, peer: int) -> bool:
        """Whether anything may come from here; the neighbour is to be told."""
        is_open = not self.narrowed or bool(self.open - {peer})
        if is_open:
            self.shut.discard(peer)
        else:
            self.shut.add(peer)
        return is_open

    def gate(self, peer: int, is_open: bool) -> Orders:
        """A neighbour has said so: it has to know of all subscriptions, or only of those that meet advertisements."""
        if is_open == (peer in self.open):
            return []
        if is_open:
            self.open.add(peer)
        else:
            self.open.discard(peer)
        if peer not in self.outlets:
            return []
        return self._tell(peer, list(self.entries.items())) if is_open else self._taken_back(peer)

    def knows_advertisement(self, key: Key, announced: Filter) -> bool:
        """Or a newer one. Raises a ``VersionError`` if it said something else before."""
        known = self.advertisements.get(key[0])
        if known is None or known.version < key[1]:
            return self._was_unadvertised(key)
        if known.version == key[1] and known.filter != announced:
            raise VersionError(
                f"advertisement {key[0]} announced something else as version {key[1]}; raise the version"
            )
        return True

    def advertise(self, hop: int, key: Key, announced: Filter, now: float) -> Orders:
        """Subscriptions that match it follow it back; then those are taken back that only an older version met."""
        older = self.advertisements.get(key[0])
        if older is not None:
            self._sent_by[older.hop].discard(key[0])
        self.advertisements[key[0]] = Advertisement(key[1], announced, hop, now)
        self._sent_by.setdefault(hop, set()).add(key[0])
        orders: Orders = []
        if hop in self.outlets:
            orders += self._tell(hop, [each for each in self.entries.items() if announced.intersects(each[1].filter)])
        return orders if older is None else orders + self._taken_back(older.hop, older.filter)

    def unadvertise(self, key: Key, now: float, withdrawn: bool = False) -> Orders:
        """Subscriptions that match nothing else from there are taken back. What is not known is only remembered."""
        if not withdrawn:
            self._unadvertised.add((self.share.number, key[0]), key[1], now)
        known = self.advertisements.get(key[0])
        if known is None or known.version > key[1]:
            return []
        del self.advertisements[key[0]]
        self._sent_by[known.hop].discard(key[0])
        return self._taken_back(known.hop, known.filter)

    def _taken_back(self, hop: int, announced: Filter | None = None) -> Orders:
        """Subscriptions that meet nothing any more that may come from there. Only those may that met what has gone."""
        outlet = self.outlets.get(hop)
        if outlet is None:
            return []
        gone = [
            key
            for key, wanted in outlet.filters.items()
            if key not in outlet.left_over
            and (announced is None or _meets(announced, wanted))
            and not self._leads(hop, wanted)
        ]
        orders: Orders = []
        for key in gone:
            outlet.take_back(key)
            orders += self._removed(outlet, key, None, withdrawn=True)
        return orders

    def _leads(self, peer: int, wanted: Filter) -> bool:
        """Whether somebody behind the neighbour may publish what is wanted."""
        if peer in self.open:
            return True
        for each in self._sent_by.get(peer, ()):
            announced = self.advertisements[each].filter
            if _meets(announced, wanted):
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
            return self._has_ended(hop, key)
        if known.filter is not wanted and known.filter != wanted:
            raise VersionError(f"subscription {key[0]} wanted something else as version {key[1]}; raise the version")
        return True

    def subscribe(
        self, hop: int, key: Key, wanted: Filter, now: float, client: bool = False, no_local: bool = False
    ) -> Orders:
        row = hop in self.share.rows and self.planned.get(key[0], -1) >= key[1]
        number = NONE
        if client or not row:
            subscription = key[0] if client else NONE
            number = self.table.add(Way(self.share.number, hop, client), wanted, subscription, not row, no_local)
        self.entries[hop, key] = Entry(wanted, number, now)
        orders: Orders = []
        for peer, outlet in self.outlets.items():
            if peer != hop and self._leads(peer, wanted):
                orders += [(peer, order) for order in self.policy.added(outlet, key, wanted)]
        return orders

    def unsubscribe(self, hop: int, key: Key, now: float, prunes: Sequence[Prune] | None, withdrawn: bool) -> Orders:
        if not withdrawn:
            self._ended.add((self.share.number, hop, key), key[1], now)
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
        """What it does not know yet. What is withdrawn at once, because a later one covers it, is not said at all."""
        outlet = self.outlets[peer]
        unknown = {key for (_, key), _ in entries if key not in outlet or key in outlet.left_over}
        orders: list[Order] = []
        for (hop, key), entry in entries:
            if hop != peer and key in unknown and self._leads(peer, entry.filter):
                orders += self.policy.added(outlet, key, entry.filter)
        said = {order.key for order in orders if order.filter is not None}
        superfluous = {order.key for order in orders if order.filter is None} & said
        return [(peer, order) for order in orders if order.key not in superfluous]

    # Time

    def expire(self, old: float, now: float) -> Orders:
        """Entries that their neighbours have not renewed since then have run out."""
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
        missing = sorted(key for key in keys - held.keys() if not self._has_ended(hop, key))
        return orders, tuple(missing)

    def renew_advertisements(self, hop: int, keys: frozenset[Key], now: float) -> tuple[list[Key], tuple[Key, ...]]:
        """Returns those that were left out, and what was renewed but is not here."""
        for id_, version in keys:
            known = self.advertisements.get(id_)
            if known is not None and known[:1] == (version,) and known.hop == hop:
                self.advertisements[id_] = known._replace(renewed=now)
        left_out = sorted(key for key in self.advertised_by(hop) if key not in keys)
        return left_out, tuple(sorted(key for key in keys if self._misses(key)))

    def advertised_by(self, hop: int, before: float = float("inf")) -> list[Key]:
        """Advertisements that came from there, and were not renewed since."""
        found = [(id_, self.advertisements[id_]) for id_ in self._sent_by.get(hop, ())]
        return [(id_, each.version) for id_, each in found if each.renewed < before]

    def _misses(self, key: Key) -> bool:
        known = self.advertisements.get(key[0])
        if known is not None:
            return known.version < key[1]
        return not self._was_unadvertised(key)

    def _was_unadvertised(self, key: Key) -> bool:
        return self._unadvertised.holds((self.share.number, key[0]), key[1])

    def _has_ended(self, hop: int, key: Key) -> bool:
        return self._ended.holds((self.share.number, hop, key), key[1])

    def renewed_advertisements(self, peer: int) -> frozenset[Key]:
        return frozenset((id_, each.version) for id_, each in self.advertisements.items() if each.hop != peer)

    def renewed(self, peer: int) -> frozenset[Key]:
        """What this broker stands by towards a neighbour. A left-over that covers nobody any more is let go."""
        outlet = self.outlets[peer]
        for key in list(outlet.left_over):
            if key not in outlet.leaving and not outlet.quenches(key):
                outlet.drop(key)
                outlet.sent.discard(key)
        return frozenset(outlet.sent)


def _meets(announced: Filter, wanted: Filter) -> bool:
    """Whether an advertisement may announce what a subscription wants; that of everything is seen at once."""
    return any(not box.sets and not box.residuals for box in announced.boxes) or announced.intersects(wanted)
