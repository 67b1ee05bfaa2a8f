"""One plan at one broker: its table, its flows, how the plan settles, and how it drains once a later one is active.

Neither settling nor draining needs a clock, because waves go through the trees (``wave``).

Settling. When the plan is installed, a first wave follows the advertisements. When the first wave is over, a second one
follows the subscriptions that those advertisements attracted. When the second wave is over, this broker's forwarding
table is complete, and the broker *holds* the epoch.

Draining. Once this broker stamps events with a later epoch, no event of this epoch enters here any more, and a wave of
markers follows the last events through each tree. A steered flow has no tree: its frames take the cheapest paths from
the broker where they enter. So every broker sends a marker of its own down those paths, and waits for the markers of
all other brokers. When the wave is over and these markers have come, the epoch has drained here.
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

MOST_ROUTES = 10_000  # routes of steered flows that are remembered


class Epoch:
    """One plan at one broker, from its installation until it is retired."""

    def __init__(self, broker: int, share: Share, policy: Policy, window: float) -> None:
        self.broker, self.share = broker, share
        self.table = Table()
        self.ended: Tombstones[Ended] = Tombstones()
        self.unadvertised: Tombstones[Unadvertised] = Tombstones()
        self.flows = {
            number: Flow(flow, self.table, policy, share.planned, self.ended, self.unadvertised)
            for number, flow in share.flows.items()
        }
        # Neighbours that spoke of the epoch before it was installed here: their messages do not count until they begin
        self.not_begun: set[int] = set()
        self.window = Window(window)
        self._numbers = list(share.flows)
        self._entrances = FilterIndex(share.flows[number].events for number in self._numbers)
        self._takes_all = self._numbers == [LATE] and share.flows[LATE].events == parse_filter(EVERYTHING)
        self._steered = FilterIndex(member.filter for member in share.steered)
        self._routes: dict[frozenset[int], Route] = {}  # from here, by the brokers that they lead to
        self._routes_from: dict[int, Route] = {}  # to all brokers, by the broker that they begin at
        neighbours = {number: flow.neighbours for number, flow in share.flows.items()}
        self.settling = {1: Wave(neighbours), 2: Wave(neighbours)}
        self.draining = Wave(neighbours)
        self._ended_entrances: set[int] = set()  # brokers where no steered frame of the epoch enters any more
        for flow in share.flows.values():
            self._add_rows(flow)

    def _add_rows(self, flow: FlowShare) -> None:
        """Puts the plan's filters for links to neighbours and clients into the table."""
        for peer, wanted in flow.rows.items():
            if peer in flow.neighbours or peer in self.share.clients:
                self.table.add(Way(flow.number, peer, peer not in flow.neighbours), wanted)

    # Events that enter here

    @property
    def entrances(self) -> tuple[FilterIndex, list[int]] | None:
        """The index of the flows' event predicates, and the flow of each; None if all events enter the late flow."""
        return None if self._takes_all else (self._entrances, self._numbers)

    def entered(self, frames: Frames) -> Iterator[tuple[int, Flows, Mapping[int, Route]]]:
        """The event, the flows and the routes of each frame that enters here."""
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
                flow: self._route(frozenset(member.broker for member in wanted if member.flow == flow))
                for flow in sorted({member.flow for member in wanted} & flows)
            }
            for together in [flows] if self.share.coalesce else [frozenset({flow}) for flow in sorted(flows)]:
                yield event, together, {flow: route for flow, route in routes.items() if flow in together}

    def _route(self, terminals: frozenset[int]) -> Route:
        """The cheapest paths from this broker to the terminals, remembered."""
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
            ahead += [(next_hop, broker) for next_hop in route[broker]]
        return route

    # Settling

    def settle(self) -> list[Send]:
        """Begins the waves: all that this broker knows of the epoch has been told to its neighbours."""
        return self._settled_steps(1, self.settling[1].begin()) + self._second_round()

    def settled(self, peer: int, message: Settled) -> list[Send]:
        """A neighbour and the brokers behind it have settled in one flow and round."""
        sends = self._settled_steps(message.round, self.settling[message.round].hear(message.flow, peer))
        return sends + self._second_round()

    @property
    def is_held(self) -> bool:
        """Whether this broker holds the epoch: its forwarding table is complete."""
        return self.settling[2].is_over

    def _second_round(self) -> list[Send]:
        """Begins the second wave, once the first is over."""
        if not self.settling[1].is_over or self.settling[2].begun:
            return []
        return self._settled_steps(2, self.settling[2].begin())

    def _settled_steps(self, round_: int, steps: Sequence[Step]) -> list[Send]:
        return [Send(peer, Settled(self.share.epoch, flow, round_)) for flow, peer in steps]

    # Draining

    def end(self) -> list[Send]:
        """Begins to drain: from now on no event of this epoch enters here."""
        sends = self._marker_steps(self.draining.begin())
        if self.share.steered:
            sends += self._pass_on(self.broker)
        return sends

    def marked(self, peer: int, marker: Marker) -> list[Send]:
        """A neighbour says that no more events of this epoch come. To say so a second time changes nothing."""
        if marker.entry is not None:
            return self._pass_on(marker.entry)
        return self._marker_steps(self.draining.hear(marker.flow, peer))

    @property
    def has_drained(self) -> bool:
        """Whether no event of this epoch can come here any more."""
        return self.draining.is_over and (not self.share.steered or self._ended_entrances >= self._brokers())

    def left_by(self, peer: int) -> list[Send]:
        """A neighbour has let go of the epoch. No event of it comes from there: as if all its markers had come."""
        sends: list[Send] = []
        for number, flow in self.flows.items():
            if peer in flow.share.neighbours:
                sends += self._marker_steps(self.draining.hear(number, peer))
        if self.share.steered:
            for entry in sorted(self._brokers() - {self.broker}):
                if self.broker in self._route_from(entry).get(peer, ()):
                    sends += self._pass_on(entry)
        return sends

    def told_again(self, peer: int) -> list[Send]:
        """Repeats the waves and markers for a neighbour that was perhaps away when they were sent."""
        sends = [
            send for round_, wave in self.settling.items() for send in self._settled_steps(round_, wave.told(peer))
        ]
        sends += self._marker_steps(self.draining.told(peer))
        return sends + [
            send for entry in sorted(self._ended_entrances) for send in self._entry_markers(entry) if send.peer == peer
        ]

    def _marker_steps(self, steps: Sequence[Step]) -> list[Send]:
        return [Send(peer, Marker(self.share.epoch, flow)) for flow, peer in steps]

    def _pass_on(self, entry: int) -> list[Send]:
        """No steered frame of this epoch enters at that broker any more. The marker that says so goes on, once."""
        if entry in self._ended_entrances:
            return []
        self._ended_entrances.add(entry)
        return self._entry_markers(entry)

    def _entry_markers(self, entry: int) -> list[Send]:
        """An entry broker's marker, for the next hops of the frames that enter there."""
        onward = sorted(self._route_from(entry).get(self.broker, ()))
        return [Send(peer, Marker(self.share.epoch, LATE, entry)) for peer in onward]

    def _route_from(self, entry: int) -> Route:
        """The cheapest paths from an entry broker to all other brokers, remembered."""
        if entry not in self._routes_from:
            self._routes_from[entry] = self._directed(entry, self._brokers() - {entry})
        return self._routes_from[entry]

    def _brokers(self) -> frozenset[int]:
        """All brokers that steered frames may pass."""
        return frozenset(end for link in self.share.prices for end in link)
