"""A steered flow at one broker: hosts spread summaries of what their clients want, and publishing brokers keep them.

1. The summary of a host is the filters of its members in the flow that no other one of them covers. A row of the plan
   from the host to itself stands for the members that the plan knows; the filters of later ones come beside it.
2. Summaries follow advertisements back over the late flow's tree, as subscriptions do, with the same versions, leases
   and repetitions. But each part names its host, and nothing covers parts of another host: whoever publishes has to
   know every host that wants the event.
3. At a broker that is told of it, a part becomes an entry of the table that leads to the host: an *end* of the events
   that match it.
4. In a flow with regions, a summary stays in the region of its host. It follows advertisements of brokers there, and
   always goes to the gateway, where events from other regions enter the region.
5. The summary of a region is the filters of its members, as far as the gateway knows them, that no other one of them
   covers. A row of the plan from the gateway to itself stands for the members that the plan knows. In the flow above
   (``regions``) it spreads as the summaries of hosts do, to brokers of other regions, and leads them to the gateway.
"""

from collections.abc import Iterable, Mapping, Sequence

from overstory.filters import Filter
from overstory.routing.flow import Ended, Entry, Flow, Orders, Unadvertised
from overstory.routing.messages import Key, Prune
from overstory.routing.outlet import Order, Outlet
from overstory.routing.policies import active, none
from overstory.routing.regions import above
from overstory.routing.share import FlowShare
from overstory.routing.table import NONE, Table
from overstory.routing.tasks import Name
from overstory.routing.tombstones import Tombstones
from overstory.routing.ways import Way

RELAYED = none.Policy()  # to neighbours: nothing covers a part on its way
SUMMARISED = active.Policy()  # at the host: what is covered is left out


class SteeredFlow(Flow):
    """One steered flow at one broker: the summaries of all hosts, and this broker's own."""

    def __init__(
        self,
        broker: int,
        share: FlowShare,
        table: Table,
        planned: Mapping[int, int],
        ended: Tombstones[Ended],
        unadvertised: Tombstones[Unadvertised],
        region: "RegionFlow | None" = None,
    ) -> None:
        """``region`` is at the gateway of a region the flow above, which is told of all parts that come here."""
        super().__init__(share, table, RELAYED, planned, ended, unadvertised)
        self.broker, self.region = broker, region
        self._own = Outlet(NONE, covering=True)
        self._hosts: dict[Key, int] = {}  # of parts that neighbours have sent
        self._row = share.rows.get(broker)
        if self._row is not None:
            SUMMARISED.added(self._own, (-1 - broker, 0), self._row)

    def host_of(self, key: Key) -> int:
        """The host whose summary has this part."""
        return self._hosts.get(key, self.broker)

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
        """Adds a client's subscription, or a part of another host's summary, and tells the neighbours."""
        planned = self._is_planned(key)
        if self.region is not None:
            self.region.add_part(key, wanted)
        if not client:
            self._enter(hop, key, Entry(wanted, self._add_end(host, wanted), now))
            self._hosts[key] = host
            return self._spread([Order(key, wanted)], hop)
        row = hop in self.share.rows and planned
        number = self.table.add(Way(self.share.number, hop, True), wanted, key[0], not row, no_local)
        self.entries[hop, key] = Entry(wanted, number, now)
        if self._row is not None and planned:
            return []
        if self._joins_as_foreseen(key, wanted):
            return self._spread([one for one in SUMMARISED.added(self._own, key, wanted) if one.key != key], NONE)
        return self.unforeseen(key) + self._spread(SUMMARISED.added(self._own, key, wanted), NONE)

    def _foresee_entries(self, hop: int, host: int, wanted: Mapping[Key, Filter]) -> Sequence[int]:
        """Adds entries that lead events to a host, for parts of its summary that the plan tells all brokers of."""
        self._hosts.update(dict.fromkeys(wanted, host))
        return self.table.add_all(Way(self.share.number, host, False, is_end=True), list(wanted.values()))

    def unsubscribe(self, hop: int, key: Key, now: float, prunes: Sequence[Prune] | None, withdrawn: bool) -> Orders:
        """Removes a client's subscription, or a part of another host's summary, and tells the neighbours."""
        if not withdrawn:
            self._ended.add((self.share.number, hop, key), key[1], now)
        entry = self._leave(hop, key)
        if entry is None:
            return []
        if entry.number != NONE:
            self.table.remove(entry.number, entry.filter)
        if self.region is not None:
            self.region.remove_part(key, withdrawn)
        if hop in self.share.neighbours:
            orders = self._spread([Order(key, None, withdrawn=withdrawn)], hop)
            del self._hosts[key]
            return orders
        return self._without(key, withdrawn)

    def _without(self, key: Key, withdrawn: bool) -> Orders:
        """Takes a part out of this broker's own summary."""
        if key not in self._own:
            return []
        removed = SUMMARISED.removed(self._own, key, None)
        if removed and removed[-1].key == key:
            removed[-1] = removed[-1]._replace(withdrawn=withdrawn)
        return self._spread(removed, NONE)

    def _is_planned(self, key: Key) -> bool:
        """Whether the plan knows the subscription."""
        return self.planned.get(key[0], -1) >= key[1]

    def _add_end(self, host: int, wanted: Filter) -> int:
        """Adds an entry that leads events to a host, and returns its number in the table."""
        return self.table.add(Way(self.share.number, host, False, is_end=True), wanted)

    def _may_send(self, peer: int, wanted: Filter) -> bool:
        """Whether events that match the filter may come from this neighbour; those of other regions may."""
        return peer == self.share.towards or super()._may_send(peer, wanted)

    def summary_rows(self) -> list[tuple[int, int, int, Filter]]:
        """The summary of this broker as a row of a plan's ``filters``, and the rows for its clients.

        At a gateway there is no such summary, since the row would be that of its region.
        """
        summary = self._own_row(self.share.number) if self.region is None else []
        clients = sorted((peer, row) for peer, row in self.share.rows.items() if peer != self.broker)
        return summary + [(self.share.number, self.broker, peer, row) for peer, row in clients]

    def _own_row(self, number: int) -> list[tuple[int, int, int, Filter]]:
        """This broker's own summary as a row, if there is anything in it."""
        own = [self._own.filters[key] for key in sorted(self._own.sent)]
        return [(number, self.broker, self.broker, own[0].union(*own[1:]))] if own else []

    def tellable(self, name: Name) -> Filter | None:
        """The filter of a part of this broker's own summary, whose hop is NONE, or of a part that a neighbour sent."""
        if name[0] != NONE:
            return super().tellable(name)
        return self._own.filters[name[1]] if name[1] in self._own.sent else None

    def _tellable_names(self) -> Iterable[Name]:
        """This broker's own summary, and the parts that neighbours have sent."""
        own = [(NONE, key) for key in sorted(self._own.sent)]
        return own + [name for name in self.entries if name[0] in self.share.neighbours]

    def _goes_to(self, peer: int, key: Key) -> bool:
        """Whether a part may have to be known to a neighbour, or to brokers behind it."""
        return True

    def _spread(self, orders: Iterable[Order], hop: int) -> Orders:
        """Tells all neighbours but the hop, as far as they may send events for it."""
        found: Orders = []
        for key, wanted, _, withdrawn, *_ in orders:
            for peer, outlet in self.outlets.items():
                if peer == hop or not self._goes_to(peer, key):
                    continue
                if (hop, key) in outlet.tasks.untold:
                    del outlet.tasks.untold[hop, key]
                    if wanted is None:
                        continue
                if wanted is not None and self._may_send(peer, wanted):
                    found += [(peer, order) for order in self.policy.added(outlet, key, wanted)]
                elif wanted is None and key in outlet:
                    found += self._removed(outlet, key, None, withdrawn)
        return found


class RegionFlow(SteeredFlow):
    """The flow above one with regions, at one broker: the summaries of all regions."""

    def __init__(
        self,
        broker: int,
        share: FlowShare,
        table: Table,
        planned: Mapping[int, int],
        ended: Tombstones[Ended],
        unadvertised: Tombstones[Unadvertised],
    ) -> None:
        super().__init__(broker, share, table, planned, ended, unadvertised)
        self.gateway = share.gateway_of[broker]
        self._waiting: Orders = []

    def add_part(self, key: Key, wanted: Filter) -> None:
        """The gateway has heard of a part of a host's summary, or a client of the gateway has subscribed."""
        if self._row is None or not self._is_planned(key):
            self._waiting += self._spread(SUMMARISED.added(self._own, key, wanted), NONE)

    def remove_part(self, key: Key, withdrawn: bool) -> None:
        """A part of a host's summary, or a subscription of a client of the gateway, has gone."""
        self._waiting += self._without(key, withdrawn)

    def summary_rows(self) -> list[tuple[int, int, int, Filter]]:
        """The summary of this broker's region as a row of a plan's ``filters``, if this is the gateway."""
        return self._own_row(above(self.share.number))

    def take_orders(self) -> Orders:
        """What neighbours have to be told since parts came and went."""
        orders, self._waiting = self._waiting, []
        return orders

    def _is_planned(self, key: Key) -> bool:
        return key[0] < 0 or super()._is_planned(key)

    def _add_end(self, host: int, wanted: Filter) -> int:
        """In its own region a broker only passes the summary on."""
        if self.share.gateway_of[host] == self.gateway:
            return NONE
        return self.table.add(Way(above(self.share.number), host, False, is_end=True), wanted)

    def _goes_to(self, peer: int, key: Key) -> bool:
        """The summary of this broker's own region need not be known in it."""
        return self.host_of(key) != self.gateway or peer in self.share.outward

    def told(self, peer: int, name: Name, announced: Filter | None) -> Orders:
        """Tells a neighbour of a part, if the part has to be known there."""
        return super().told(peer, name, announced) if self._goes_to(peer, name[1]) else []
