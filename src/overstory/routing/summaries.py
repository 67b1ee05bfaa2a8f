"""A steered flow at one broker: hosts spread summaries of what their clients want, and publishing brokers keep them.

1. The summary of a host is the filters of its members in the flow that no other one of them covers. A row of the plan
   from the host to itself stands for the members that the plan knows; the filters of later ones come beside it.
2. Summaries follow advertisements back over the late flow's tree, as subscriptions do, with the same versions, leases
   and repetitions. But each part names its host, and nothing covers parts of another host: whoever publishes has to
   know every host that wants the event.
3. At a broker that is told of it, a part becomes an entry of the table that leads to the host: an *end* of the events
   that match it.
"""

from collections.abc import Iterable, Mapping, Sequence

from overstory.filters import Filter
from overstory.routing.flow import Ended, Entry, Flow, Orders, Unadvertised
from overstory.routing.messages import Key, Prune
from overstory.routing.outlet import Order, Outlet
from overstory.routing.policies import active, none
from overstory.routing.share import FlowShare
from overstory.routing.table import NONE, Table
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
    ) -> None:
        super().__init__(share, table, RELAYED, planned, ended, unadvertised)
        self.broker = broker
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
        planned = self.planned.get(key[0], -1) >= key[1]
        if not client:
            number = self.table.add(Way(self.share.number, host, False, is_end=True), wanted)
            self.entries[hop, key] = Entry(wanted, number, now)
            self._hosts[key] = host
            return self._spread([Order(key, wanted)], hop)
        row = hop in self.share.rows and planned
        number = self.table.add(Way(self.share.number, hop, True), wanted, key[0], not row, no_local)
        self.entries[hop, key] = Entry(wanted, number, now)
        if self._row is not None and planned:
            return []
        return self._spread(SUMMARISED.added(self._own, key, wanted), NONE)

    def unsubscribe(self, hop: int, key: Key, now: float, prunes: Sequence[Prune] | None, withdrawn: bool) -> Orders:
        """Removes a client's subscription, or a part of another host's summary, and tells the neighbours."""
        if not withdrawn:
            self._ended.add((self.share.number, hop, key), key[1], now)
        entry = self.entries.pop((hop, key), None)
        if entry is None:
            return []
        self.table.remove(entry.number, entry.filter)
        if hop in self.share.neighbours:
            orders = self._spread([Order(key, None, withdrawn=withdrawn)], hop)
            del self._hosts[key]
            return orders
        if key not in self._own:
            return []
        removed = SUMMARISED.removed(self._own, key, None)
        if removed and removed[-1].key == key:
            removed[-1] = removed[-1]._replace(withdrawn=withdrawn)
        return self._spread(removed, NONE)

    def summary_rows(self) -> list[tuple[int, int, int, Filter]]:
        """The summary of this broker as a row of a plan's ``filters``, and the rows for its clients."""
        own = [self._own.filters[key] for key in sorted(self._own.sent)]
        summary = [(self.share.number, self.broker, self.broker, own[0].union(*own[1:]))] if own else []
        clients = sorted((peer, row) for peer, row in self.share.rows.items() if peer != self.broker)
        return summary + [(self.share.number, self.broker, peer, row) for peer, row in clients]

    def _tellable(self) -> Iterable[tuple[tuple[int, Key], Entry]]:
        """This broker's own summary, and the parts that neighbours have sent."""
        own = [((NONE, key), Entry(self._own.filters[key], NONE, 0.0)) for key in sorted(self._own.sent)]
        return own + [(name, entry) for name, entry in self.entries.items() if name[0] in self.share.neighbours]

    def _spread(self, orders: Iterable[Order], hop: int) -> Orders:
        """Tells all neighbours but the hop, as far as they may send events for it."""
        found: Orders = []
        for key, wanted, _, withdrawn, *_ in orders:
            for peer, outlet in self.outlets.items():
                if peer == hop:
                    continue
                if wanted is not None and self._may_send(peer, wanted):
                    found += [(peer, order) for order in self.policy.added(outlet, key, wanted)]
                elif wanted is None and key in outlet:
                    found += self._removed(outlet, key, None, withdrawn)
        return found
