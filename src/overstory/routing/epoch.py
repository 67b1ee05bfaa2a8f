"""One plan at one broker: its table, its flows, how the plan settles, and how it drains once a later one is active.

Neither settling nor draining needs a clock, because waves go through the trees (``wave``).

Settling. When the plan is installed, a first wave follows the advertisements. When the first wave is over, a second one
follows the subscriptions that those advertisements attracted. A third one follows the summaries of regions, which
gateways make of those of hosts. When the third wave is over, this broker's forwarding table is complete, and the broker
*holds* the epoch.

Draining. Once this broker stamps events with a later epoch, no event of this epoch enters here any more, and a wave of
markers follows the last events through each tree. A steered flow has no tree, and its frames may be anywhere. So every
broker tells all others, over the late flow's tree, how many events it has sent to each of them. When as many have come
as all brokers have sent here, the steered flows' own wave begins here, over the same tree: brokers that are only on the
way have to serve the epoch until every end has its events. When all waves are over, the epoch has drained here. Events
that were lost on the way do not come: two leases after it was told of them, a broker waits for them no longer.

A gateway says twice how many events it has sent. What it sent to hosts of its region it says once it has all events
from other regions, since it sends these on; that second account comes under a number of its own (``onward_from``).
"""

from collections.abc import Iterator, Sequence
from functools import cached_property

from overstory.filters import parse_filter
from overstory.matching import FilterIndex
from overstory.model.plan import EVERYTHING
from overstory.routing.arrivals import Arrivals
from overstory.routing.flow import Ended, Flow, Unadvertised
from overstory.routing.frames import Flows, Frames
from overstory.routing.link_state import LinkStates
from overstory.routing.messages import LATE, Entered, Key, Marker, Send, Settled
from overstory.routing.policy import Policy
from overstory.routing.regions import ABOVE, above
from overstory.routing.share import FlowShare, Member, Share
from overstory.routing.steered_flows import SteeredFlows
from overstory.routing.summaries import RegionFlow, SteeredFlow
from overstory.routing.table import Table
from overstory.routing.tombstones import Tombstones
from overstory.routing.wave import Step, Wave
from overstory.routing.ways import Way
from overstory.routing.window import Window


class Epoch:
    """One plan at one broker, from its installation until it is retired."""

    def __init__(
        self, broker: int, share: Share, policy: Policy, window: float, links: LinkStates, from_start: bool = True
    ) -> None:
        """``from_start`` is false at a broker that has restarted, and may have missed events of the epoch."""
        self.broker, self.share = broker, share
        self.steered = SteeredFlows(broker, share, links)
        self.arrivals = Arrivals(self.steered, from_start)
        self.table = Table()
        self.ended: Tombstones[Ended] = Tombstones()
        self.unadvertised: Tombstones[Unadvertised] = Tombstones()
        self.working: set[int] = set()  # flows that have work to do (``work``)
        # Subscriptions that are still to join, with the parts that the plan gives them; None: all have
        self.joining: dict[int, list[Member]] | None = None
        # Subscriptions of clients here that neighbours know before they join (``foreseen``), by id: flows and keys
        self.own: dict[int, list[tuple[int, Key]]] = {}
        self.flows: dict[int, Flow] = {}
        for number, flow in share.flows.items():
            known = self.table, share.planned, self.ended, self.unadvertised
            if flow.kind == ABOVE:
                self.flows[number] = RegionFlow(broker, flow, *known)
            elif number not in self.steered.place_of:
                self.flows[number] = Flow(flow, self.table, policy, *known[1:])
        for number in self.steered.place_of:  # which are told of the flows above them
            flow, over = share.flows[number], self.flows.get(above(number))
            region = over if isinstance(over, RegionFlow) and over.gateway == broker else None
            self.flows[number] = SteeredFlow(
                broker, flow, self.table, share.planned, self.ended, self.unadvertised, region
            )
        for installed in self.flows.values():
            installed.working = self.working
            for peer in sorted(installed.share.neighbours):
                installed.open_outlet(peer)
        # Neighbours that spoke of the epoch before it was installed here: their messages do not count until they begin
        self.not_begun: set[int] = set()
        self.window = Window(window)
        self._numbers = [number for number, flow in share.flows.items() if flow.kind != ABOVE]
        self._entrances = FilterIndex(share.flows[number].events for number in self._numbers)
        self._takes_all = self._numbers == [LATE] and share.flows[LATE].events == parse_filter(EVERYTHING)
        neighbours = {number: flow.neighbours for number, flow in share.flows.items()}
        upper = {number: peers for number, peers in neighbours.items() if share.flows[number].kind == ABOVE}
        lower = {number: peers for number, peers in neighbours.items() if number not in upper}
        self.settling = {1: Wave(neighbours), 2: Wave(lower), 3: Wave(upper)}
        steered = self.steered.place_of
        self.draining = Wave({number: peers for number, peers in lower.items() if number not in steered})
        # Frames of a flow with regions may be anywhere, so its wave takes the tree of the flow above
        spanning = [above(number) if above(number) in upper else number for number in steered]
        self.steered_draining = Wave({number: neighbours[number] for number in spanning})
        self._entered: dict[int, Entered] = {}  # what brokers have said that send no more steered events
        # Of these brokers: when they said it, and how many events are to come from there by flow; None: nobody knows
        self._expected: dict[int, tuple[float, dict[int, int] | None]] = {}
        for flow in share.flows.values():
            self._add_rows(flow)

    def __contains__(self, broker: int) -> bool:
        """Whether steered flows may have an end at this broker."""
        return broker in self._brokers

    def _add_rows(self, flow: FlowShare) -> None:
        """Puts the plan's filters for links to neighbours and clients into the table."""
        neighbours = frozenset() if flow.number in self.steered.place_of else flow.neighbours
        for peer, wanted in flow.rows.items():
            if peer in neighbours or peer in self.share.clients:
                self.table.add(Way(flow.number, peer, peer not in neighbours), wanted)

    def spanning(self, flow: int) -> int:
        """The number of a flow or, if it has regions, of the one above it, whose tree holds all brokers."""
        return above(flow) if above(flow) in self.flows else flow

    def is_gateway(self, flow: int) -> bool:
        """Whether this broker is the gateway of a region of a flow."""
        return flow in self.steered.place_of and self.steered.is_onward(flow, self.broker)

    @property
    def neighbours(self) -> frozenset[int]:
        """This broker's neighbours in the trees of all flows."""
        return frozenset(peer for flow in self.share.flows.values() for peer in flow.neighbours)

    def begin_with(self, peer: int) -> None:
        """The epoch is new here, and its neighbour knows nothing of it that it was not told: the two agree."""
        for flow in self.flows.values():
            if peer in flow.outlets:
                flow.outlets[peer].tasks.is_agreed = True

    # Events that enter here

    @property
    def entrances(self) -> tuple[FilterIndex, list[int]] | None:
        """The index of the flows' event predicates, and the flow of each; None if all events enter the late flow."""
        return None if self._takes_all else (self._entrances, self._numbers)

    def entered(self, frames: Frames) -> Iterator[tuple[int, Flows]]:
        """The event and the flows of each frame that enters here."""
        if self._takes_all:
            for event in range(len(frames)):
                yield event, frozenset({LATE})
            return
        matches = self._entrances.match_batch(frames.asked())
        for event in range(len(frames)):
            flows = frozenset(self._numbers[number] for number in matches.of(event).tolist())
            for together in [flows] if self.share.coalesce else [frozenset({flow}) for flow in sorted(flows)]:
                yield event, together

    # Settling

    def settle(self) -> list[Send]:
        """Begins the waves: all that this broker knows of the epoch has been told to its neighbours."""
        return self._settled_steps(1, self.settling[1].begin()) + self._later_rounds()

    def settled(self, peer: int, message: Settled) -> list[Send]:
        """A neighbour and the brokers behind it have settled in one flow and round."""
        sends = self._settled_steps(message.round, self.settling[message.round].hear(message.flow, peer))
        return sends + self._later_rounds()

    @property
    def is_held(self) -> bool:
        """Whether this broker holds the epoch: its forwarding table is complete."""
        return self.settling[3].is_over

    def _later_rounds(self) -> list[Send]:
        """Begins the second wave, once the first is over, and then the third."""
        sends: list[Send] = []
        for round_ in (2, 3):
            if self.settling[round_ - 1].is_over and not self.settling[round_].begun:
                sends += self._settled_steps(round_, self.settling[round_].begin())
        return sends

    def _settled_steps(self, round_: int, steps: Sequence[Step]) -> list[Send]:
        return [Send(peer, Settled(self.share.epoch, flow, round_)) for flow, peer in steps]

    # Draining

    def end(self, now: float) -> list[Send]:
        """Begins to drain: from now on no event of this epoch enters here."""
        sends = self._marker_steps(self.draining.begin())
        if len(self.steered):
            sends += self.entry_ended(None, Entered(self.share.epoch, self.broker, self._counts(onward=False)), now)
        return sends

    def _counts(self, onward: bool) -> tuple[tuple[int, int, int], ...]:
        """How many events this broker has sent: as a gateway to its region, or all others."""
        sent = sorted(self.steered.sent_by_end().items())
        return tuple((*key, count) for key, count in sent if self.steered.is_onward(*key) == onward)

    def marked(self, peer: int, marker: Marker) -> list[Send]:
        """A neighbour says that no more events of this epoch come. To say so a second time changes nothing."""
        return self._marker_steps(self._wave_of(marker.flow).hear(marker.flow, peer))

    def _wave_of(self, flow: int) -> Wave:
        """The wave that drains a flow."""
        return self.steered_draining if flow in self.steered_draining else self.draining

    def entry_ended(self, peer: int | None, message: Entered, now: float) -> list[Send]:
        """No more steered events enter at a broker. All others are told, once."""
        if message.entry in self._entered:
            return []
        self._entered[message.entry] = message
        expected = {flow: count for flow, end, count in message.counts if end == self.broker}
        self._expected[message.entry] = (now, expected)
        others = self.share.flows[LATE].neighbours - {peer}
        return [Send(other, message) for other in sorted(others)] + self.steered_came(now)

    def steered_came(self, now: float) -> list[Send]:
        """Steered events have come, or were given up. If they were the last, the steered flows' wave begins here.

        If they were the last that a gateway has to send on, it says how many it has sent.
        """
        if not self.draining.begun or self.steered_draining.begun or not self._has_all_from(self._brokers):
            return []
        own = onward_from(self.broker)
        if own in self._senders and own not in self._entered:
            return self.entry_ended(None, Entered(self.share.epoch, own, self._counts(onward=True)), now)
        return self._marker_steps(self.steered_draining.begin()) if self._has_all_from(self._senders) else []

    @property
    def has_drained(self) -> bool:
        """Whether no event of this epoch can come here any more, nor has to go on from here."""
        return self.draining.is_over and (not len(self.steered) or self.steered_draining.is_over)

    def _has_all_from(self, senders: frozenset[int]) -> bool:
        """Whether all of these have said how many events they sent here, and these have come or are given up."""
        return self._expected.keys() >= senders and all(
            expected is not None and self.steered.has_all(broker_of(sender), expected)
            for sender in senders
            for _, expected in [self._expected[sender]]
        )

    def give_up(self, old: float, now: float) -> list[Send]:
        """Steered events that did not come within two leases were lost: those of which this broker heard before."""
        for entry, (since, expected) in self._expected.items():
            if since < old:
                self.steered.give_up(broker_of(entry), expected or {})
                self._expected[entry] = (since, {})
        return self.steered_came(now)

    def left_by(self, peer: int, now: float) -> list[Send]:
        """A neighbour has let go of the epoch. No event of it comes from there: as if all its markers had come.

        It has let go because no event enters anywhere any more. How many are still to come from brokers that this one
        has not heard of, nobody knows.
        """
        sends: list[Send] = []
        for number, flow in self.flows.items():
            if peer in flow.share.neighbours and number in self._wave_of(number):
                sends += self._marker_steps(self._wave_of(number).hear(number, peer))
        if len(self.steered):
            for entry in self._senders - self._expected.keys() - {self.broker, onward_from(self.broker)}:
                self._expected[entry] = (now, None)
        return sends

    def told_again(self, peer: int) -> list[Send]:
        """Repeats the waves and markers for a neighbour that was perhaps away when they were sent."""
        sends = [
            send for round_, wave in self.settling.items() for send in self._settled_steps(round_, wave.told(peer))
        ]
        sends += self._marker_steps(self.draining.told(peer) + self.steered_draining.told(peer))
        is_near = peer in self.share.flows[LATE].neighbours
        return sends + [Send(peer, message) for _, message in sorted(self._entered.items()) if is_near]

    def _marker_steps(self, steps: Sequence[Step]) -> list[Send]:
        return [Send(peer, Marker(self.share.epoch, flow)) for flow, peer in steps]

    @cached_property
    def _brokers(self) -> frozenset[int]:
        """All brokers that steered frames may pass."""
        return frozenset(self.steered.ids.tolist()) if len(self.steered) else frozenset()

    @cached_property
    def _senders(self) -> frozenset[int]:
        """All brokers, and once more those that send events on as gateways."""
        return self._brokers | {onward_from(gateway) for gateway in self.steered.gateways}


def onward_from(gateway: int) -> int:
    """The number under which a gateway says how many events it sent on: no broker's."""
    return -1 - gateway


def broker_of(sender: int) -> int:
    """The broker that has such a number, or its own."""
    return sender if sender >= 0 else -1 - sender
