"""Control messages under active covering, worked out centrally: no routers, no messages, only sets.

For each flow and directed link u→v of its tree, the entries that v must hold from u follow from all subscriptions: of
those at u itself, and of the entries that u's other neighbours must hold towards u, the ones that no other covers. Of
equal ones a single one is held: the one that was held before or, if that is gone, the one that came first. A change
sends each entry that comes and each that goes over the link once.

Entries go only where events may come from: towards brokers that announce everything, or an announcement that they meet.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from overstory.filters import Filter
from overstory.model.plan import Plan
from overstory.model.tables import STEERED

Key = tuple[int, int]  # a subscription and its version
Link = tuple[int, int]


class Entry(NamedTuple):
    """A subscription that a broker is told of, and how many changes came before the one that told it."""

    key: Key
    wanted: Filter


class CentralFlow:
    """One flow: its tree, the subscriptions at each broker, and the entries on each directed link."""

    def __init__(self, tree: Iterable[Link], brokers: Iterable[int], may_come: Callable[[int, Filter], bool]) -> None:
        """``may_come`` says whether events that match a filter may be published at a broker."""
        self.neighbours: dict[int, set[int]] = {broker: set() for broker in brokers}
        for u, v in tree:
            self.neighbours[u].add(v)
            self.neighbours[v].add(u)
        self.may_come = may_come
        self.local: dict[int, dict[Key, Filter]] = {broker: {} for broker in self.neighbours}
        # What could be sent over each link, in the order in which it came; and what is
        self.offered: dict[Link, dict[Key, Filter]] = {(u, v): {} for u in self.neighbours for v in self.neighbours[u]}
        self.held: dict[Link, dict[Key, Filter]] = {link: {} for link in self.offered}
        self.messages: Counter[tuple[str, int, int]] = Counter()

    def subscribe(self, broker: int, key: Key, wanted: Filter) -> None:
        self.local[broker][key] = wanted
        self._recompute(broker)

    def unsubscribe(self, broker: int, key: Key) -> None:
        del self.local[broker][key]
        self._recompute(broker)

    def forget(self) -> None:
        self.messages.clear()

    def _recompute(self, changed: int) -> None:
        """Works out all links anew that lead away from a broker, the nearest first; others cannot change."""
        ahead = [(changed, neighbour) for neighbour in sorted(self.neighbours[changed])]
        while ahead:
            u, v = ahead.pop(0)
            self._settle(u, v)
            ahead += [(v, further) for further in sorted(self.neighbours[v] - {u})]

    def _settle(self, u: int, v: int) -> None:
        there = dict(self.local[u])
        for w in self.neighbours[u] - {v}:
            there |= self.held[w, u]
        there = {key: wanted for key, wanted in there.items() if self._is_wanted_from(u, v, wanted)}
        before = self.offered[u, v]
        kept = {key: wanted for key, wanted in before.items() if key in there}
        new = [key for key in self._arrivals(u, v) if key in there and key not in kept]
        assert {*kept, *new} == there.keys()
        offered = self.offered[u, v] = kept | {key: there[key] for key in new}
        held, after = self.held[u, v], self._uncovered(offered, self.held[u, v])
        self.messages["subscribe", u, v] += len(after.keys() - held.keys())
        self.messages["unsubscribe", u, v] += len(held.keys() - after.keys())
        self.held[u, v] = after

    def _arrivals(self, u: int, v: int) -> list[Key]:
        """All that is at a broker or was told to it, each link in the order in which its entries were offered there."""
        found = list(self.local[u])
        for w in sorted(self.neighbours[u] - {v}):
            found += [key for key in self.offered[w, u] if key in self.held[w, u]]
        return found

    def _uncovered(self, offered: dict[Key, Filter], held: dict[Key, Filter]) -> dict[Key, Filter]:
        chosen: dict[Key, Filter] = {}
        for key, wanted in offered.items():
            equal = [other for other, theirs in offered.items() if theirs.covers(wanted) and wanted.covers(theirs)]
            above = [other for other, theirs in offered.items() if other not in equal and theirs.covers(wanted)]
            stands = next((other for other in equal if other in held), equal[0])
            if not above and key == stands:
                chosen[key] = wanted
        return chosen

    def _is_wanted_from(self, u: int, v: int, wanted: Filter) -> bool:
        """Whether events that match the filter may come to u from v, from any broker behind it."""
        behind, ahead = {v}, [v]
        while ahead:
            further = self.neighbours[ahead.pop()] - behind - {u}
            behind |= further
            ahead += further
        return any(self.may_come(broker, wanted) for broker in behind)


class CentralSteered:
    """One steered flow: the summary of each host is a flow of its own on the late tree, and nothing covers across them.

    A row of the plan from a host to itself stands for the members there that the plan knows.
    """

    def __init__(
        self,
        tree: Iterable[Link],
        brokers: Iterable[int],
        may_come: Callable[[int, Filter], bool],
        summarised: Collection[int],
    ) -> None:
        tree, brokers = list(tree), list(brokers)
        self.hosts = {broker: CentralFlow(tree, brokers, may_come) for broker in brokers}
        self.summarised = summarised

    def subscribe(self, broker: int, key: Key, wanted: Filter) -> None:
        if broker not in self.summarised:
            self.hosts[broker].subscribe(broker, key, wanted)

    def unsubscribe(self, broker: int, key: Key) -> None:
        if broker not in self.summarised:
            self.hosts[broker].unsubscribe(broker, key)

    @property
    def messages(self) -> Counter[tuple[str, int, int]]:
        return sum((flow.messages for flow in self.hosts.values()), Counter[tuple[str, int, int]]())

    def forget(self) -> None:
        for flow in self.hosts.values():
            flow.forget()


def flows_of(
    plan: Plan, late: Iterable[Link], brokers: list[int], may_come: Callable[[str], Callable[[int, Filter], bool]]
) -> dict[int, "CentralFlow | CentralSteered"]:
    """The flows of a plan, without members."""
    late, flows = list(late), dict[int, CentralFlow | CentralSteered]()
    for row in plan.flows.to_pylist():
        number = row["flow"]
        if row["kind"] in STEERED:
            rows = plan.filters.to_pylist()
            own = {each["source"] for each in rows if each["flow"] == number and each["source"] == each["target"]}
            flows[number] = CentralSteered(late, brokers, may_come(row["events"]), own)
        else:
            tree = [(link["source"], link["target"]) for link in plan.trees.to_pylist() if link["flow"] == number]
            flows[number] = CentralFlow(tree, brokers, may_come(row["events"]))
    return flows
