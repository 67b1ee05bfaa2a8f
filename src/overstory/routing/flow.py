"""One flow at one broker: advertisements flood its tree, subscriptions follow them back, events follow subscriptions.

A *hop* is the last hop of a message: a neighbour in the tree, or a client of this broker. Subscriptions and
advertisements are named by (id, version).

1. A subscription or an advertisement that the same hop repeats changes nothing.
2. A subscription that a hop has unsubscribed does not come to life again under the same version, even if the
   unsubscription came first. A subscription that was only withdrawn may come again. (An older version may come, too: a
   left-over that covers others.)
3. Two versions of one id are two subscriptions until the older one is unsubscribed, so that the subscriptions that
   either of them covers miss no event on the way. Of an advertisement only the newest version counts.
4. An unsubscription of a subscription that is not here is remembered for rule 2, and goes no further.
5. Towards a neighbour either all hops that a subscription came from count, or none does.
"""

from collections.abc import Iterable, Mapping, Sequence
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

Orders: TypeAlias = list[tuple[int, Order]]  # each with the neighbour that it is for
Ended: TypeAlias = tuple[int, int, Key]  # the flow, the hop, the subscription
Unadvertised: TypeAlias = tuple[int, int]  # the flow, the id of the advertisement


class Entry(NamedTuple):
    """A subscription that a hop has sent."""

    filter: Filter
    number: int  # in the table; NONE: a row of the plan stands in its place
    renewed: float  # when its lease was last renewed


class Advertisement(NamedTuple):
    """The newest version of an advertisement, and the hop that sent it."""

    version: int
    filter: Filter
    hop: int
    renewed: float  # when its lease was last renewed


class Flow:
    """One flow at one broker: its advertisements, its entries, and an outlet for each neighbour that is up."""

    def __init__(
        self,
        share: FlowShare,
        table: Table,
        policy: Policy,
        planned: Mapping[int, int],
        ended: Tombstones[Ended],
        unadvertised: Tombstones[Unadvertised],
    ) -> None:
        """``planned`` has the versions of the subscriptions that the plan knows; the plan's rows serve these.

        The table and the tombstones are those of the epoch, which all its flows share.
        """
        self.share, self.table, self.policy, self.planned = share, table, policy, planned
        self.advertisements: dict[int, Advertisement] = {}
        self.entries: dict[tuple[int, Key], Entry] = {}
        self.outlets: dict[int, Outlet] = {}
        self._ended, self._unadvertised = ended, unadvertised
        self._advertised_from: dict[int, set[int]] = {}  # advertisements by the hop that they came from
        everyone = share.everyone_advertises
        self.narrowed = not everyone  # whether clients here publish only what they have advertised
        self.open = set(share.neighbours) if everyone else set()  # neighbours from whom any event may come
        # Neighbours who were told that only advertised events come from here
        self.shut = set() if everyone else set(share.neighbours)

    def open_outlet(self, peer: int) -> Orders:
        """A neighbour in the tree is up: it is told of the subscriptions that it should know."""
        self.outlets[peer] = Outlet(peer, self.policy.covering)
        return self._tell(peer, list(self._tellable()))

    def close_outlet(self, peer: int) -> None:
        """A neighbour is down. It may lose what it was told; its own subscriptions stay until their leases end."""
        self.outlets.pop(peer, None)

    def void(self, peer: int, now: float) -> Orders:
        """A neighbour has restarted: its subscriptions go, and may come again under the same version."""
        gone = [key for hop, key in self.entries if hop == peer]
        orders = [order for key in gone for order in self.unsubscribe(peer, key, now, None, withdrawn=True)]
        return orders + (self.gate(peer, is_open=True) if self.share.everyone_advertises else [])

    # Advertisements

    def gates(self) -> list[tuple[int, bool]]:
        """Neighbours to be told that any event may come from here (true), or only advertised ones (false)."""
        changed = []
        for peer in sorted(self.outlets):
            before = peer not in self.shut
            is_open = self.gate_to(peer)
            if is_open != before:
                changed.append((peer, is_open))
        return changed

    def gate_to(self, peer: int) -> bool:
        """Whether any event may come from here. The caller tells the neighbour, so this is recorded as told."""
        is_open = not self.narrowed or bool(self.open - {peer})
        if is_open:
            self.shut.discard(peer)
        else:
            self.shut.add(peer)
        return is_open

    def gate(self, peer: int, is_open: bool) -> Orders:
        """A neighbour says whether any event may come from it, or only advertised ones.

        If any event may come, the neighbour has to know all subscriptions; else only those that meet advertisements.
        """
        if is_open == (peer in self.open):
            return []
        if is_open:
            self.open.add(peer)
        else:
            self.open.discard(peer)
        if peer not in self.outlets:
            return []
        return self._tell(peer, list(self._tellable())) if is_open else self._withdraw_unmet(peer)

    def knows_advertisement(self, key: Key, announced: Filter) -> bool:
        """Whether this advertisement, or a newer version of it, is known here or was taken back.

        Raises a ``VersionError`` if the same version announced something else before.
        """
        known = self.advertisements.get(key[0])
        if known is None or known.version < key[1]:
            return self._was_unadvertised(key)
        if known.version == key[1] and known.filter != announced:
            raise VersionError(
                f"advertisement {key[0]} announced something else as version {key[1]}; raise the version"
            )
        return True

    def advertise(self, hop: int, key: Key, announced: Filter, now: float) -> Orders:
        """Adds an advertisement: subscriptions that meet it follow it back to its hop.

        Then the subscriptions that only an older version met are withdrawn.
        """
        older = self.advertisements.get(key[0])
        if older is not None:
            self._advertised_from[older.hop].discard(key[0])
        self.advertisements[key[0]] = Advertisement(key[1], announced, hop, now)
        self._advertised_from.setdefault(hop, set()).add(key[0])
        orders: Orders = []
        if hop in self.outlets:
            orders += self._tell(hop, [item for item in self._tellable() if announced.intersects(item[1].filter)])
        return orders if older is None else orders + self._withdraw_unmet(older.hop, older.filter)

    def unadvertise(self, key: Key, now: float, withdrawn: bool = False) -> Orders:
        """Removes an advertisement: subscriptions that meet no other one of its hop are withdrawn there.

        If the advertisement is not known, only its end is remembered.
        """
        if not withdrawn:
            self._unadvertised.add((self.share.number, key[0]), key[1], now)
        known = self.advertisements.get(key[0])
        if known is None or known.version > key[1]:
            return []
        del self.advertisements[key[0]]
        self._advertised_from[known.hop].discard(key[0])
        return self._withdraw_unmet(known.hop, known.filter)

    def _withdraw_unmet(self, hop: int, announced: Filter | None = None) -> Orders:
        """Withdraws the subscriptions that no event from this neighbour can match any more.

        ``announced`` is the advertisement that has gone: only subscriptions that met it can be among them.
        """
        outlet = self.outlets.get(hop)
        if outlet is None:
            return []
        gone = [
            key
            for key, wanted in outlet.filters.items()
            if key not in outlet.left_over
            and (announced is None or _meets(announced, wanted))
            and not self._may_send(hop, wanted)
        ]
        orders: Orders = []
        for key in gone:
            outlet.take_back(key)
            orders += self._removed(outlet, key, None, withdrawn=True)
        return orders

    def _may_send(self, peer: int, wanted: Filter) -> bool:
        """Whether events that match the filter may come from this neighbour."""
        if peer in self.open:
            return True
        for id_ in self._advertised_from.get(peer, ()):
            announced = self.advertisements[id_].filter
            if _meets(announced, wanted):
                return True
        return False

    def matched_by(self, wanted: Filter) -> list[int]:
        """The ids of other brokers' advertisements that the filter of a subscription meets."""
        return sorted(
            id_
            for id_, advertisement in self.advertisements.items()
            if advertisement.hop in self.share.neighbours and advertisement.filter.intersects(wanted)
        )

    # Subscriptions

    def knows_subscription(self, hop: int, key: Key, wanted: Filter) -> bool:
        """Whether this hop has already made, or already ended, this subscription.

        Raises a ``VersionError`` if the same version wanted something else before.
        """
        known = self.entries.get((hop, key))
        if known is None:
            return self._has_ended(hop, key)
        if known.filter is not wanted and known.filter != wanted:
            raise VersionError(f"subscription {key[0]} wanted something else as version {key[1]}; raise the version")
        return True

    def subscribe(
        self,
        hop: int,
        key: Key,
        wanted: Filter,
        now: float,
        client: bool = False,
        no_local: bool = False,
        host: int = NONE,
    ) -> Orders:
        """Adds a subscription of a hop to the table, and passes it on to the neighbours that events may come from.

        ``host`` is for steered flows (``summaries``).
        """
        row = hop in self.share.rows and self.planned.get(key[0], -1) >= key[1]
        number = NONE
        if client or not row:
            subscription = key[0] if client else NONE
            number = self.table.add(Way(self.share.number, hop, client), wanted, subscription, not row, no_local)
        self.entries[hop, key] = Entry(wanted, number, now)
        orders: Orders = []
        for peer, outlet in self.outlets.items():
            if peer != hop and self._may_send(peer, wanted):
                orders += [(peer, order) for order in self.policy.added(outlet, key, wanted)]
        return orders

    def unsubscribe(self, hop: int, key: Key, now: float, prunes: Sequence[Prune] | None, withdrawn: bool) -> Orders:
        """Removes a subscription of a hop. ``withdrawn`` means that the subscription may come again."""
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
        """The policy's orders for a subscription that leaves an outlet.

        If the subscription was only withdrawn here, it is only withdrawn at the neighbour: it may come again under the
        same version.
        """
        orders = self.policy.removed(outlet, key, prunes)
        if withdrawn and key in outlet.leaving:
            outlet.leaving[key] = True
        return [
            (outlet.peer, order._replace(withdrawn=True) if withdrawn and order.filter is None else order)
            for order in orders
        ]

    def _towards(self, peer: int, prunes: Sequence[Prune]) -> list[Prune]:
        """The prunes for advertisements that this neighbour has sent. Prunes for unknown advertisements end here."""
        behind = self._advertised_from.get(peer, set())
        return [prune for prune in prunes if prune.advertisement in behind]

    def host_of(self, key: Key) -> int:
        """The host whose summary a part belongs to; NONE where subscriptions are no parts of summaries."""
        return NONE

    def _tellable(self) -> Iterable[tuple[tuple[int, Key], Entry]]:
        """The subscriptions that neighbours may have to know, each with the hop that it came from."""
        return self.entries.items()

    def _tell(self, peer: int, entries: Sequence[tuple[tuple[int, Key], Entry]]) -> Orders:
        """Tells a neighbour of those entries that it does not know yet.

        A subscription that a later one of them covers would be withdrawn at once, so it is not sent at all.
        """
        outlet = self.outlets[peer]
        unknown = {key for (_, key), _ in entries if key not in outlet or key in outlet.left_over}
        orders: list[Order] = []
        for (hop, key), entry in entries:
            if hop != peer and key in unknown and self._may_send(peer, entry.filter):
                orders += self.policy.added(outlet, key, entry.filter)
        said = {order.key for order in orders if order.filter is not None}
        superfluous = {order.key for order in orders if order.filter is None} & said
        return [(peer, order) for order in orders if order.key not in superfluous]

    # Time

    def expire(self, old: float, now: float) -> Orders:
        """Withdraws the entries that their neighbours last renewed before the time ``old``: they have run out."""
        expired = [
            name for name, entry in self.entries.items() if name[0] in self.share.neighbours and entry.renewed < old
        ]
        return [order for hop, key in expired for order in self.unsubscribe(hop, key, now, None, withdrawn=True)]

    def renew(self, hop: int, keys: frozenset[Key], now: float) -> tuple[Orders, tuple[Key, ...]]:
        """A neighbour renews these subscriptions and stands by no others, so its others are withdrawn.

        Returns the orders that follow, and the renewed subscriptions that are missing here.
        """
        known = {key: entry for (other, key), entry in self.entries.items() if other == hop}
        for key in known.keys() & keys:
            self.entries[hop, key] = known[key]._replace(renewed=now)
        orders = [
            order
            for key in sorted(known.keys() - keys)
            for order in self.unsubscribe(hop, key, now, None, withdrawn=True)
        ]
        missing = sorted(key for key in keys - known.keys() if not self._has_ended(hop, key))
        return orders, tuple(missing)

    def renew_advertisements(self, hop: int, keys: frozenset[Key], now: float) -> tuple[list[Key], tuple[Key, ...]]:
        """A neighbour renews these advertisements and stands by no others.

        Returns its advertisements that it left out, and the renewed ones that are missing here.
        """
        for id_, version in keys:
            known = self.advertisements.get(id_)
            if known is not None and known[:1] == (version,) and known.hop == hop:
                self.advertisements[id_] = known._replace(renewed=now)
        left_out = sorted(key for key in self.advertised_by(hop) if key not in keys)
        return left_out, tuple(sorted(key for key in keys if self._misses(key)))

    def advertised_by(self, hop: int, before: float = float("inf")) -> list[Key]:
        """The advertisements of a hop that were last renewed before this time."""
        found = [(id_, self.advertisements[id_]) for id_ in self._advertised_from.get(hop, ())]
        return [(id_, advertisement.version) for id_, advertisement in found if advertisement.renewed < before]

    def _misses(self, key: Key) -> bool:
        """Whether this version of an advertisement should be known here and is not."""
        known = self.advertisements.get(key[0])
        if known is not None:
            return known.version < key[1]
        return not self._was_unadvertised(key)

    def _was_unadvertised(self, key: Key) -> bool:
        return self._unadvertised.holds((self.share.number, key[0]), key[1])

    def _has_ended(self, hop: int, key: Key) -> bool:
        return self._ended.holds((self.share.number, hop, key), key[1])

    def renewed_advertisements(self, peer: int) -> frozenset[Key]:
        """The advertisements that this broker stands by towards a neighbour."""
        return frozenset(
            (id_, advertisement.version)
            for id_, advertisement in self.advertisements.items()
            if advertisement.hop != peer
        )

    def renewed(self, peer: int) -> frozenset[Key]:
        """The subscriptions that this broker stands by towards a neighbour.

        A left-over that no longer quenches any subscription is let go: it is not renewed, and runs out.
        """
        outlet = self.outlets[peer]
        for key in list(outlet.left_over):
            if key not in outlet.leaving and not outlet.quenches(key):
                outlet.drop(key)
                outlet.sent.discard(key)
        return frozenset(outlet.sent)


def _meets(announced: Filter, wanted: Filter) -> bool:
    """Whether an advertisement may announce what a subscription wants; that of everything is seen at once."""
    return any(not box.sets and not box.residuals for box in announced.boxes) or announced.intersects(wanted)
