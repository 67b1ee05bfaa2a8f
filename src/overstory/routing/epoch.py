"""One plan at one broker: its table, its flows, and how it drains when another plan has taken its place.

Draining needs no clock. Once this broker stamps events with a later epoch, nothing of this one begins here. In each
tree it tells a neighbour so, with a marker, as soon as all its other neighbours have told it the same; links keep the
order, so behind the marker nothing comes. When all neighbours in all trees have, the epoch has drained here. A steered
flow has no tree; its frames go along the cheapest paths from where they enter, so every broker sends a marker of its
own down those paths, and waits for that of all others.
"""

from collections.abc import Iterator, Mapping

from overstory.filters import parse_filter
from overstory.matching import FilterIndex
from overstory.model.plan import EVERYTHING
from overstory.routing.flow import Flow
from overstory.routing.frames import Flows, Frames, Route
from overstory.routing.law import steered_tree
from overstory.routing.messages import LATE, Marker, Send
from overstory.routing.policy import Policy
from overstory.routing.share import FlowShare, Share
from overstory.routing.table import Table
from overstory.routing.ways import Way
from overstory.routing.window import Window


class Epoch:
    def __init__(self, broker: int, share: Share, policy: Policy, window: float) -> None:
        self.broker, self.share = broker, share
        self.table = Table()
        self.flows = {number: Flow(each, self.table, policy) for number, each in share.flows.items()}
        self.window = Window(window)
        self._numbers = list(share.flows)
        self._entrances = FilterIndex(share.flows[number].events for number in self._numbers)
        self._takes_all = self._numbers == [LATE] and share.flows[LATE].events == parse_filter(EVERYTHING)
        self._steered = FilterIndex(each.filter for each in share.steered)
        self._routes: dict[frozenset[int], Route] = {}
        self._ways: dict[int, Route] = {}
        self.ending = False  # this broker stamps no event with it any more
        self._marked: dict[int, set[int]] = {number: set() for number in share.flows}
        self._told: dict[int, set[int]] = {number: set() for number in share.flows}
        self._entries_ended: set[int] = set()
        for each in share.flows.values():
            self._add_rows(each)

    def _add_rows(self, flow: FlowShare) -> None:
        for peer, wanted in flow.rows.items():
            if peer in flow.neighbours or peer in self.share.clients:
                self.table.add(Way(flow.number, peer, peer not in flow.neighbours), wanted)

    # Events that enter here

    def entered(self, frames: Frames) -> Iterator[tuple[int, Flows, Mapping[int, Route]]]:
        """The event, the flows and the routes of each frame that begins here."""
        if self._takes_all:
            for event in range(len(frames)):
                yield event, frozenset({LATE}), {}
            return
        batch = frames.asked()
        matches = self._entrances.match_batch(batch)
        wanting = self._steered.match_batch(batch) if self.share.steered else None
        for event in range(len(frames)):
            flows = frozenset(self._numbers[number] for number in matches.of(event).tolist())
            wanted = [self.share.steered[number] for number in wanting.of(event).tolist()] if wanting else []
            routes = {
                flow: self._route(frozenset(each.broker for each in wanted if each.flow == flow))
                for flow in sorted({each.flow for each in wanted} & flows)
            }
            for together in [flows] if self.share.coalesce else [frozenset({flow}) for flow in sorted(flows)]:
                yield event, together, {flow: route for flow, route in routes.items() if flow in together}

    def _route(self, terminals: frozenset[int]) -> Route:
        if terminals not in self._routes:
            self._routes[terminals] = self._directed(self.broker, terminals)
        return self._routes[terminals]

    def _directed(self, entry: int, terminals: frozenset[int]) -> Route:
        """The cheapest paths from the entry to the terminals, as the next hops of each broker."""
        tree = steered_tree(self.share.prices, entry, set(terminals))
        route, ahead = {}, [(entry, entry)]
        while ahead:
            broker, before = ahead.pop()
            route[broker] = frozenset(tree.get(broker, set()) - {before})
            ahead += [(each, broker) for each in route[broker]]
        return route

    # How it ends

    def end(self) -> list[Send]:
        """From now on nothing of it begins here."""
        self.ending = True
        sends = [each for number in self.flows for each in self._tell(number)]
        if self.share.steered:
            sends += self._pass_on(self.broker)
        return sends

    def marked(self, peer: int, marker: Marker) -> list[Send]:
        """A neighbour says that nothing more comes; a second time changes nothing."""
        if marker.entry is not None:
            return self._pass_on(marker.entry)
        self._marked[marker.flow].add(peer)
        return self._tell(marker.flow)

    @property
    def has_drained(self) -> bool:
        brokers = {end for link in self.share.prices for end in link} if self.share.steered else set()
        return (
            self.ending
            and all(self._marked[number] >= each.share.neighbours for number, each in self.flows.items())
            and self._entries_ended >= brokers
        )

    def _tell(self, number: int) -> list[Send]:
        if not self.ending:
            return []
        near, marked, told = self.flows[number].share.neighbours, self._marked[number], self._told[number]
        ready = sorted(peer for peer in near - told if marked >= near - {peer})
        told.update(ready)
        return [Send(peer, Marker(self.share.epoch, number)) for peer in ready]

    def _pass_on(self, entry: int) -> list[Send]:
        if entry in self._entries_ended:
            return []
        self._entries_ended.add(entry)
        if entry not in self._ways:
            everyone = frozenset(end for link in self.share.prices for end in link)
            self._ways[entry] = self._directed(entry, everyone - {entry})
        onward = sorted(self._ways[entry].get(self.broker, ()))
        return [Send(peer, Marker(self.share.epoch, LATE, entry)) for peer in onward]
