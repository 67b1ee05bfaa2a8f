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
6. Every neighbour in the tree has an outlet, whether it is up or not. Orders for those that are down come
   to nothing.
7. An entry that its neighbour no longer stands by is *void*. It goes when its turn comes (``work``), or when the
   neighbour says something else under its name; it stays if the neighbour says the same again.
8. Where two neighbours compare what they know, no void entry goes before all entries that are missing here have come.
   One of these may stand in its place, such as a newer version: in between events would find neither.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from overstory.errors import VersionError
from overstory.filters import Filter
from overstory.routing.digests import MASK, NEVER, Digest, Leases
from overstory.routing.messages import Key, Prune, Sums
from overstory.routing.outlet import Order, Outlet
from overstory.routing.policy import Policy
from overstory.routing.share import FlowShare
from overstory.routing.table import NONE, Table
from overstory.routing.tasks import Name
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


class Lacking:
    """What a neighbour stands by and is missing here, while the two compare what they know."""

    __slots__ = ("is_listed", "keys")

    def __init__(self) -> None:
        self.keys: set[Key] = set()
        self.is_listed = False  # the neighbour has listed all that it stands by


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
        self.entries: dict[Name, Entry] = {}
        self.own: set[Key] = set()  # subscriptions of clients here
        self.outlets: dict[int, Outlet] = {}
        self.working: set[int] = set()  # flows of the epoch that have work to do
        self.heard = {peer: Leases() for peer in sorted(share.neighbours)}  # subscriptions that neighbours stand by
        self.stale: deque[tuple[int, int]] = deque()  # neighbours, and buckets of theirs, that may have run out
        self.old = NEVER  # entries from before this time have
        self.void: dict[int, dict[Key, None]] = {peer: {} for peer in self.heard}
        # Neighbours that have restarted and have not settled since: their void entries still count, or events would be
        # dropped that somebody behind them wants
        self.unsettled: set[int] = set()
        self.lacking: dict[int, Lacking] = {}  # by neighbour; while there is any, its void entries still count
        self._ended, self._unadvertised = ended, unadvertised
        self._foreseen: dict[Key, Filter] = {}  # subscriptions of clients here that neighbours know before they join
        self._announced = Digest()  # all advertisements
        self._advertised_from: dict[int, Leases] = {}  # those of them that a hop has sent
        everyone = share.everyone_advertises
        self.narrowed = not everyone  # whether clients here publish only what they have advertised
        self.open = set(share.neighbours) if everyone else set()  # neighbours from whom any event may come
        # Neighbours who were told that only advertised events come from here
        self.shut = set() if everyone else set(share.neighbours)

    def open_outlet(self, peer: int) -> None:
        """Begins to keep what a neighbour in the tree should know."""
        self.outlets[peer] = Outlet(peer, self.policy.covering, self.own)
        self._tell(peer)

    def restarted(self, peer: int) -> None:
        """A neighbour has restarted: its subscriptions are void, and may come again under the same version."""
        self.void[peer] |= dict.fromkeys(self.heard[peer].keys)
        self.heard[peer] = Leases()
        if self.void[peer]:
            self.unsettled.add(peer)
        if self.share.everyone_advertises:
            self.gate(peer, is_open=True)

    def settled(self, peer: int) -> None:
        """A neighbour has told all that it knows of this flow: what it has not said again since it restarted ends."""
        self.unsettled.discard(peer)
        if self.void.get(peer):
            self.working.add(self.share.number)

    @property
    def has_void(self) -> bool:
        """Whether there are entries to be removed."""
        return any(void and self.may_remove_void(peer) for peer, void in self.void.items())

    def may_remove_void(self, peer: int) -> bool:
        """Whether all is known here that may stand in the place of a neighbour's void entries."""
        return peer not in self.unsettled and peer not in self.lacking

    def compares(self, peer: int, differs: bool) -> None:
        """A neighbour begins to compare what it stands by with what is known here."""
        if differs:
            self.lacking[peer] = Lacking()
        elif self.lacking.pop(peer, None) is not None:
            self.working.add(self.share.number)

    def listed_all(self, peer: int) -> None:
        """A neighbour has listed all that was asked for. What is missing here will come."""
        if peer in self.lacking:
            self.lacking[peer].is_listed = True
            self._lack_no_more(peer, None)

    def _lack_no_more(self, peer: int, key: Key | None) -> None:
        """A missing subscription has come, or has ended. If it was the last one, void entries may go."""
        lacking = self.lacking.get(peer)
        if lacking is None:
            return
        if key is not None:
            lacking.keys.discard(key)
        if lacking.is_listed and not lacking.keys:
            del self.lacking[peer]
            self.working.add(self.share.number)

    def _make_void(self, peer: int, keys: Iterable[Key]) -> None:
        """A neighbour no longer stands by these subscriptions."""
        for key in keys:
            self.heard[peer].keys.discard(key)
            self.void[peer][key] = None
            self.working.add(self.share.number)

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

    def gate(self, peer: int, is_open: bool) -> None:
        """A neighbour says whether any event may come from it, or only advertised ones.

        If any event may come, the neighbour has to know all subscriptions; else only those that meet advertisements.
        """
        if is_open == (peer in self.open):
            return
        if is_open:
            self.open.add(peer)
        else:
            self.open.discard(peer)
        if is_open:
            self._tell(peer)
        else:
            self._doubt(peer)

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

    def advertise(self, hop: int, key: Key, announced: Filter, now: float) -> None:
        """Adds an advertisement: subscriptions that meet it follow it back to its hop.

        Then the subscriptions that only an older version met are withdrawn.
        """
        older = self.advertisements.get(key[0])
        if older is not None:
            self._forget_advertisement(key[0], older)
        self.advertisements[key[0]] = Advertisement(key[1], announced, hop, now)
        self._announced.add(key)
        self._advertised_from.setdefault(hop, Leases()).keys.add(key)
        if hop not in self.open:  # else all subscriptions have gone there
            self._tell(hop, announced)
        if older is not None:
            self._doubt(older.hop, older.filter)

    def unadvertise(self, key: Key, now: float, withdrawn: bool = False) -> None:
        """Removes an advertisement: subscriptions that meet no other one of its hop are withdrawn there.

        If the advertisement is not known, only its end is remembered.
        """
        if not withdrawn:
            self._unadvertised.add((self.share.number, key[0]), key[1], now)
        known = self.advertisements.get(key[0])
        if known is None or known.version > key[1]:
            return
        del self.advertisements[key[0]]
        self._forget_advertisement(key[0], known)
        self._doubt(known.hop, known.filter)

    def _forget_advertisement(self, id_: int, known: Advertisement) -> None:
        self._announced.discard((id_, known.version))
        self._advertised_from[known.hop].keys.discard((id_, known.version))
        if known.hop not in self.share.neighbours and not self._advertised_from[known.hop].keys:
            del self._advertised_from[known.hop]

    def _doubt(self, hop: int, announced: Filter | None = None) -> None:
        """No event from this neighbour may match some subscriptions any more: those are to be withdrawn.

        ``announced`` is the advertisement that has gone: only subscriptions that met it can be among them.
        """
        outlet = self.outlets.get(hop)
        if outlet is None or hop in self.open:
            return
        outlet.tasks.doubt([key for key in outlet.filters if key not in outlet.left_over], announced)
        if outlet.tasks.doubtful:
            self.working.add(self.share.number)

    def doubted(self, peer: int, key: Key, announced: Filter | None) -> Orders:
        """Withdraws a subscription, if no event for it may come from the neighbour any more."""
        outlet = self.outlets[peer]
        wanted = outlet.filters.get(key)
        if wanted is None or key in outlet.left_over:
            return []
        if (announced is not None and not _meets(announced, wanted)) or self._may_send(peer, wanted):
            return []
        outlet.take_back(key)
        return self._removed(outlet, key, None, withdrawn=True)

    def _may_send(self, peer: int, wanted: Filter) -> bool:
        """Whether events that match the filter may come from this neighbour."""
        if peer in self.open:
            return True
        if peer not in self._advertised_from:
            return False
        return any(_meets(self.advertisements[id_].filter, wanted) for id_, _ in self._advertised_from[peer].keys)

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
        if key in self.void.get(hop, ()):
            return False
        if known.filter is not wanted and known.filter != wanted:
            raise VersionError(f"subscription {key[0]} wanted something else as version {key[1]}; raise the version")
        return True

    def revives(self, hop: int, key: Key, wanted: Filter, now: float) -> bool:
        """Whether a neighbour says the same again as in a void entry, which counts from now on."""
        known = self.entries.get((hop, key))
        if known is None or known.filter != wanted:
            return False
        del self.void[hop][key]
        self.heard[hop].keys.add(key)
        self.entries[hop, key] = known._replace(renewed=now)
        self._lack_no_more(hop, key)
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
        self._enter(hop, key, Entry(wanted, number, now))
        if client and self._joins_as_foreseen(key, wanted):
            return []
        orders = self.unforeseen(key) if client else []
        for peer, outlet in self.outlets.items():
            outlet.tasks.untold.pop((hop, key), None)
            if peer != hop and self._may_send(peer, wanted):
                orders += [(peer, order) for order in self.policy.added(outlet, key, wanted)]
        return orders

    def foresee(self, hop: int, host: int, wanted: Mapping[Key, Filter], now: float) -> None:
        """Enters subscriptions of one host that the plan tells all brokers of: they come by a neighbour or, if the hop
        is NONE, are of clients here, and still to join. Neighbours are not told: each enters them by itself."""
        if hop == NONE:
            self._foreseen.update(wanted)
        else:
            wanted = {key: one for key, one in wanted.items() if (hop, key) not in self.entries}
            numbers = self._foresee_entries(hop, host, wanted)
            entries = (Entry(one, number, now) for one, number in zip(wanted.values(), numbers, strict=True))
            self.entries.update(zip(((hop, key) for key in wanted), entries, strict=True))
            self.heard[hop].keys.add_all(list(wanted))
        for peer, outlet in self.outlets.items():
            if peer != hop:
                outlet.foresee(wanted)

    def _foresee_entries(self, hop: int, host: int, wanted: Mapping[Key, Filter]) -> Sequence[int]:
        """Adds entries for subscriptions of a host, and returns their numbers in the table."""
        return self.table.add_all(Way(self.share.number, hop, False), list(wanted.values()))

    def _joins_as_foreseen(self, key: Key, wanted: Filter) -> bool:
        """Whether neighbours know of a client's subscription that joins now."""
        if self._foreseen.get(key) != wanted:
            return False
        del self._foreseen[key]
        return True

    def unforeseen(self, key: Key) -> Orders:
        """Takes back a client's subscription that was foreseen, if it has not joined."""
        if self._foreseen.pop(key, None) is None:
            return []
        return [
            order
            for outlet in self.outlets.values()
            if key in outlet
            for order in self._removed(outlet, key, None, withdrawn=True)
        ]

    def _enter(self, hop: int, key: Key, entry: Entry) -> None:
        self.entries[hop, key] = entry
        if hop in self.heard:
            self.heard[hop].keys.add(key)
            self._lack_no_more(hop, key)
        else:
            self.own.add(key)

    def _leave(self, hop: int, key: Key) -> Entry | None:
        if hop in self.heard:
            self.heard[hop].keys.discard(key)
            self.void[hop].pop(key, None)
            self._lack_no_more(hop, key)
        else:
            self.own.discard(key)
        return self.entries.pop((hop, key), None)

    def unsubscribe(self, hop: int, key: Key, now: float, prunes: Sequence[Prune] | None, withdrawn: bool) -> Orders:
        """Removes a subscription of a hop. ``withdrawn`` means that the subscription may come again."""
        if not withdrawn:
            self._ended.add((self.share.number, hop, key), key[1], now)
        entry = self._leave(hop, key)
        if entry is None:
            return []
        if entry.number != NONE:
            self.table.remove(entry.number, entry.filter)
        orders: Orders = []
        for peer, outlet in self.outlets.items():
            if (hop, key) in outlet.tasks.untold:
                del outlet.tasks.untold[hop, key]
            elif peer != hop and key in outlet:
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
        known = self.advertisements
        return [prune for prune in prunes if prune.advertisement in known and known[prune.advertisement].hop == peer]

    def host_of(self, key: Key) -> int:
        """The host whose summary a part belongs to; NONE where subscriptions are no parts of summaries."""
        return NONE

    def tellable(self, name: Name) -> Filter | None:
        """The filter of a subscription that neighbours may have to know; None if it has gone."""
        entry = self.entries.get(name)
        return None if entry is None else entry.filter

    def _tellable_names(self) -> Iterable[Name]:
        """The subscriptions that neighbours may have to know, each with the hop that it came from."""
        return self.entries

    def _tell(self, peer: int, announced: Filter | None = None) -> None:
        """A neighbour is to be told of subscriptions that it does not know yet: of those that meet ``announced``."""
        outlet = self.outlets.get(peer)
        if outlet is None:  # a client
            return
        told = outlet.filters.keys() - outlet.left_over.keys() if outlet.left_over else outlet.filters.keys()
        names = [name for name in self._tellable_names() if name[1] not in told and name[0] != peer]
        outlet.tasks.tell(names, announced)
        if names:
            self.working.add(self.share.number)

    def told(self, peer: int, name: Name, announced: Filter | None) -> Orders:
        """Tells a neighbour of a subscription, if it is still here and events for it may come from there."""
        wanted = self.tellable(name)
        if wanted is None or (announced is not None and not _meets(announced, wanted)):
            return []
        if not self._may_send(peer, wanted):
            return []
        return [(peer, order) for order in self.policy.added(self.outlets[peer], name[1], wanted)]

    # Time

    def expire(self, old: float) -> None:
        """The entries that their neighbours last renewed before the time ``old`` have run out: they are to be void."""
        self.old = old
        for peer in sorted(self.unsettled):
            if all(self.entries[peer, key].renewed < old for key in self.void[peer]):
                self.settled(peer)
        for peer in sorted(self.lacking):
            if all(self.entries[peer, key].renewed < old for key in self.void[peer]):
                del self.lacking[peer]
        self.stale.extend((peer, bucket) for peer, leases in self.heard.items() for bucket in leases.unconfirmed(old))
        if self.stale:
            self.working.add(self.share.number)

    def expire_bucket(self) -> int:
        """The next bucket's entries that have run out are void. Returns how many entries the bucket has."""
        peer, bucket = self.stale.popleft()
        keys = self.heard[peer].keys.bucket(bucket)
        if not self.heard[peer].is_confirmed(bucket, self.old):
            self._make_void(peer, [key for key in keys if self.entries[peer, key].renewed < self.old])
        return len(keys)

    def is_same(self, hop: int, subscriptions: int, advertisements: int, now: float) -> bool:
        """Whether a neighbour stands by just what it is known for here, which is renewed then."""
        heard, announced = self.heard[hop], self.advertised_from(hop)
        if heard.keys.total == subscriptions:
            heard.confirm(now)
        if announced.keys.total == advertisements:
            announced.confirm(now)
        return (heard.keys.total, announced.keys.total) == (subscriptions, advertisements)

    def listed(self, hop: int, bucket: int, keys: frozenset[Key], now: float) -> tuple[Key, ...]:
        """A neighbour stands by these subscriptions of a bucket and by no others, so the others are void.

        Returns those that are missing here.
        """
        known = self.heard[hop].keys.bucket(bucket)
        missing = [key for key in keys - known if not self._has_ended(hop, key)]
        if hop in self.lacking:
            self.lacking[hop].keys.update(missing)
        self._make_void(hop, sorted(known - keys))
        self.heard[hop].confirm_bucket(bucket, now)
        return tuple(sorted(missing))

    def listed_advertisements(
        self, hop: int, bucket: int, keys: frozenset[Key], now: float
    ) -> tuple[list[Key], tuple[Key, ...]]:
        """A neighbour stands by these advertisements of a bucket and by no others.

        Returns its advertisements that it left out, and the listed ones that are missing here.
        """
        leases = self.advertised_from(hop)
        leases.confirm_bucket(bucket, now)
        left_out = sorted(leases.keys.bucket(bucket) - keys)
        return left_out, tuple(sorted(key for key in keys if self._misses(key)))

    def advertised_from(self, hop: int) -> Leases:
        """The advertisements of a hop."""
        return self._advertised_from.setdefault(hop, Leases())

    def advertised_before(self, hop: int, old: float) -> list[Key]:
        """The advertisements of a hop that were last renewed before this time."""
        leases = self.advertised_from(hop)
        stale = [key for bucket in leases.unconfirmed(old) for key in leases.keys.bucket(bucket)]
        return sorted(key for key in stale if self.advertisements[key[0]].renewed < old)

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

    def stands_by(self, peer: int, advertisement: Key) -> bool:
        """Whether this broker stands by an advertisement towards a neighbour."""
        known = self.advertisements.get(advertisement[0])
        return known is not None and known.version == advertisement[1] and known.hop != peer

    def totals(self, peer: int) -> tuple[int, int]:
        """The sums of the subscriptions and of the advertisements that this broker stands by towards a neighbour."""
        announced = self._announced.total - self.advertised_from(peer).keys.total
        return self.outlets[peer].sent.total, announced & MASK

    def sums(self, peer: int) -> tuple[Sums, Sums]:
        """The same by bucket."""
        return self.outlets[peer].sent.sums(), self._announced.sums(self.advertised_from(peer).keys)

    def bucket(self, peer: int, number: int, advertisements: bool) -> tuple[Key, ...]:
        """The subscriptions or the advertisements of one bucket that this broker stands by towards a neighbour."""
        if not advertisements:
            return tuple(sorted(self.outlets[peer].sent.bucket(number)))
        return tuple(sorted(self._announced.bucket(number) - self.advertised_from(peer).keys.bucket(number)))

    def let_go(self, peer: int) -> None:
        """Lets go of left-overs that no longer quench any subscription: they are not renewed, and run out."""
        outlet = self.outlets[peer]
        for key in list(outlet.left_over):
            if key not in outlet.leaving and not outlet.quenches(key):
                outlet.drop(key)
                outlet.sent.discard(key)


def _meets(announced: Filter, wanted: Filter) -> bool:
    """Whether an advertisement may announce what a subscription wants; that of everything is seen at once."""
    return any(not box.sets and not box.residuals for box in announced.boxes) or announced.intersects(wanted)
