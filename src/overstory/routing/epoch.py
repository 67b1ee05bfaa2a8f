"""One plan at one broker: its table, its flows, how it settles, and how it drains when another has taken its place.

Neither needs a clock, for waves go through the trees (``wave``).

When the plan is installed, one wave follows the advertisements, and when that is over another one follows the
subscriptions that they have led to. When the second is over, this broker's table is as it should be.

Once this broker stamps events with a later epoch, nothing of this one begins here, and a wave of markers follows the
last events. When it is over, the epoch has drained here. A steered flow has no tree; its frames go along the cheapest
paths from where they enter, so every broker sends a marker of its own down those paths, and waits for that of all
others.
"""

from collections.abc import Iterator, Mapping, Sequence

from overstory.filters import parse_filter
from overstory.matching import FilterIndex
from overstory.model.plan import EVERYTHING
from overstory.routing.flow import Ended, Flow, Unadvertised
from overstory.routing.frames import Flows, Frames, Route
from overstory.routing.law import steered_tree
from overstory.routing.messages import LATE, Marker, Send, Settled
from overstory.routing.policy import Policy
from overstory.routing.share import FlowShare, Share
from overstory.routing.table import Table
from overstory.routing.tombstones import Tombstones
from overstory.routing.wave import Step, Wave
from overstory.routing.ways import Way
from overstory.routing.window import Window

MOST_ROUTES = 10_000  # of steered flows that are kept in mind


class Epoch:
    def __init__(self, broker: int, share: Share, policy: Policy, window: float) -> None:
        self.broker, self.share = broker, share
        self.table = Table()
        self.ended: Tombstones[Ended] = Tombstones()
        self.unadvertised: Tombstones[Unadvertised] = Tombstones()
        self.flows = {
            number: Flow(each, self.table, policy, share.planned, self.ended, self.unadvertised)
            for number, each in share.flows.items()
        }
        self.not_begun: set[int] = set()  # neighbours that spoke of it too early, and do not count until they begin
        self.window = Window(window)
        self._numbers = list(share.flows)
        self._entrances = FilterIndex(share.flows[number].events for number in self._numbers)
        self._takes_all = self._numbers == [LATE] and share.flows[LATE].events == parse_filter(EVERYTHING)
        self._steered = FilterIndex(each.filter for each in share.steered)
        self._routes: dict[frozenset[int], Route] = {}
        self._ways: dict[int, Route] = {}
        near = {number: each.neighbours for number, each in share.flows.items()}
        self.settling = {1: Wave(near), 2: Wave(near)}
        self.draining = Wave(near)
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
            if len(self._routes) >= MOST_ROUTES:
                self._routes.clear()
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

    # How it settles

    def settle(self) -> list[Send]:
        """All that is known here has been said."""
        return self._settled_steps(1, self.settling[1].begin()) + self._second_round()

    def settled(self, peer: int, message: Settled) -> list[Send]:
        sends = self._settled_steps(message.round, self.settling[message.round].hear(message.flow, peer))
        return sends + self._second_round()

    @property
    def is_held(self) -> bool:
        return self.settling[2].is_over

    def _second_round(self) -> list[Send]:
        if not self.settling[1].is_over or self.settling[2].begun:
            return []
        return self._settled_steps(2, self.settling[2].begin())

    def _settled_steps(self, round_: int, steps: Sequence[Step]) -> list[Send]:
        return [Send(peer, Settled(self.share.epoch, flow, round_)) for flow, peer in steps]

    # How it ends

    def end(self) -> list[Send]:
        """From now on nothing of it begins here."""
        sends = self._marker_steps(self.draining.begin())
        if self.share.steered:
            sends += self._pass_on(self.broker)
        return sends

    def marked(self, peer: int, marker: Marker) -> list[Send]:
        """A neighbour says that nothing more comes; a second time changes nothing."""
        if marker.entry is not None:
            return self._pass_on(marker.entry)
        return self._marker_steps(self.draining.hear(marker.flow, peer))

    @property
    def has_drained(self) -> bool:
        return self.draining.is_over and (not self.share.steered or self._entries_ended >= self._brokers())

    def left_by(self, peer: int) -> list[Send]:
        """A neighbour has let go of the epoch, so nothing comes from it any more: as if it had sent all its markers."""
        sends: list[Send] = []
        for number, flow in self.flows.items():
            if peer in flow.share.neighbours:
                sends += self._marker_steps(self.draining.hear(number, peer))
        if self.share.steered:
            for entry in sorted(self._brokers() - {self.broker}):
                if self.broker in self._way_from(entry).get(peer, ()):
                    sends += self._pass_on(entry)
        return sends

    def said_again(self, peer: int) -> list[Send]:
        """To a neighbour that was not there, perhaps, when it was said."""
        sends = [
            each for round_, wave in self.settling.items() for each in self._settled_steps(round_, wave.told(peer))
        ]
        sends += self._marker_steps(self.draining.told(peer))
        return sends + [
            each for entry in sorted(self._entries_ended) for each in self._entry_markers(entry) if each.peer == peer
        ]

    def _marker_steps(self, steps: Sequence[Step]) -> list[Send]:
        return [Send(peer, Marker(self.share.epoch, flow)) for flow, peer in steps]

    def _pass_on(self, entry: int) -> list[Send]:
        if entry in self._entries_ended:
            return []
        self._entries_ended.add(entry)
        return self._entry_markers(entry)

    def _entry_markers(self, entry: int) -> list[Send]:
        """Down the paths that frames take which enter there."""
        onward = sorted(self._way_from(entry).get(self.broker, ()))
        return [Send(peer, Marker(self.share.epoch, LATE, entry)) for peer in onward]

    def _way_from(self, entry: int) -> Route:
        """The next hops from an entry to all brokers."""
        if entry not in self._ways:
            self._ways[entry] = self._directed(entry, self._brokers() - {entry})
        return self._ways[entry]

    def _brokers(self) -> frozenset[int]:
        """All that steered frames may pass."""
        return frozenset(end for link in self.share.prices for end in link)
