"""The law: how one event travels under a plan. It is slow and meant to be obviously right; faster code is held to it.

1. The publisher's uplink carries the event once, to the publishing broker. There it enters every flow whose predicate
   E it matches.
2. A member of a flow *wants* the event if E, the subscription's filter and the member's part all match.
3. A frame stands at a broker u with a set of flows. A flow goes on to each neighbour v of u in its tree, except to the
   neighbour that the frame came from, if the flow's row for u→v in ``filters`` matches the event; without a row, if a
   member behind v wants the event. All flows that go on to the same v share one copy, which is a frame at v. Frames
   split and never merge.
4. A flow goes from u to a client of u if its row for u→client matches the event; without a row, if a member of that
   client wants the event. All flows that go to the same client share one copy. The copy delivers those of the client's
   members in its flows that want the event. A subscription with ``no_local`` wants no event of its own client; on links
   between brokers ``no_local`` plays no part.
5. With ``coalesce = false`` every flow is a frame of its own from the start.
6. A steered flow has no tree of its own. For each event its tree leads from the publishing broker to the *ends*: the
   brokers of the members that want the event. A broker with a row from itself to itself, its *summary*, is an end if
   the summary matches the event. In a flow of kind ``paths`` the tree is the union of the cheapest paths, in one of
   kind ``steiner`` a Steiner tree (``steering``). Rows for links between brokers do not apply to it. Each copy carries
   a header for each of its steered flows, which says how the tree goes on behind the link (``wire.steering``). Clients
   get copies at the publishing broker and at the ends; at a broker that is only on the way, nobody does.
7. A steered flow may have *regions*: each broker is in one, and one broker of each is its *gateway*. The row from a
   gateway to itself is then the summary of its region. The flow travels in *legs*, each with a tree of its own. The
   first leg leads from the publishing broker to the ends in its own region and to the gateways of the other regions
   that want the event: those whose summary matches it; of a region without a summary, those with an end by rule 6. From
   each such gateway another leg leads to the ends in its region. The gateway is an end of the first leg, and its
   clients get copies there. A leg does not begin elsewhere, and legs that go on from a broker to the same neighbour
   share one copy.

8. ``members = all`` and ``access = events`` stand for rows: see ``written_out``.

E, parts and rows may use ``$broker``, the publishing broker; the name needs no quotes. Subscriptions may not use it:
for them the attribute is absent, so that a subscription matches the same events wherever clients are attached. The
plan must be valid and its trees must be trees: on a cycle an event would never stop.
"""

import heapq
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import NamedTuple

from overstory.filters import Filter, parse_filter
from overstory.kernels import plain_steering
from overstory.model.access import access_of
from overstory.model.plan import Plan
from overstory.model.regions import regions_of
from overstory.model.scenario import Scenario
from overstory.model.tables import PATHS, STEERED, STEINER
from overstory.model.values import Attributes
from overstory.routing.steering import Steering
from overstory.routing.written_out import written_out

PUBLISHING_BROKER = "$broker"

Tree = Mapping[int, set[int]]  # the neighbours of each broker
Link = tuple[int, int]  # source, target
Leg = tuple[int, int]  # a flow, and the broker where its tree begins; a flow with a tree has one, for the first broker


class Event(NamedTuple):
    """An event, as its publisher publishes it."""

    id: int
    publisher: int  # a client
    bytes: int
    attributes: Attributes


class Crossing(NamedTuple):
    """One copy of an event on a link between brokers."""

    source: int
    target: int
    flows: frozenset[int]
    wanted: bool  # by a member of its flows behind the link; else the copy is a false positive
    delay: float  # milliseconds from the start of the uplink until the copy arrives
    header: int = 0  # bytes of the headers of its steered flows


class Copy(NamedTuple):
    """One copy of an event on the link from a broker to its client."""

    broker: int
    client: int
    flows: frozenset[int]
    subscriptions: frozenset[int]  # that the copy delivers; if none, the client discards it
    delay: float  # milliseconds from the start of the uplink until the copy arrives


class Journey(NamedTuple):
    """All copies of one event, from its publisher to its subscribers."""

    uplink: tuple[int, int]  # client, broker
    crossings: list[Crossing]
    copies: list[Copy]

    @property
    def duplicates(self) -> int:
        """The number of frames that reach a broker beyond the event's first there; the uplink counts as a first."""
        return len(self.crossings) - len({crossing.target for crossing in self.crossings} - {self.uplink[1]})

    @property
    def false_positives(self) -> int:
        """The number of copies between brokers that no member of their flows behind the link wants."""
        return sum(not crossing.wanted for crossing in self.crossings)

    @property
    def discards(self) -> int:
        """The number of copies that a client receives and no subscription of the client wants."""
        return sum(not copy.subscriptions for copy in self.copies)

    @property
    def deliveries(self) -> list[int]:
        """Subscriptions in the order of delivery. Under an invalid plan a subscription may be here twice."""
        return [subscription for copy in self.copies for subscription in sorted(copy.subscriptions)]


class Subscription(NamedTuple):
    """A subscription of the scenario."""

    client: int
    filter: Filter
    no_local: bool


class Member(NamedTuple):
    """A subscription in a flow, and the part of the subscription that the flow serves."""

    subscription: int
    part: Filter | None  # None: the whole subscription


class Flow(NamedTuple):
    """A flow of the plan: the events that enter it, its members and its tree."""

    kind: str
    events: Filter  # E
    members: list[Member]
    tree: Tree
    ordered: bool = False  # whether frames of a steered flow are numbered

    @property
    def steered(self) -> bool:
        """Whether each event has a tree of its own in this flow."""
        return self.kind in STEERED


class Frame(NamedTuple):
    """A copy of the event at a broker, in the flows that the copy serves."""

    broker: int
    origin: int | None  # the broker that the frame came from; None: its publisher
    legs: frozenset[Leg]
    delay: float


class Law:
    """The reference executor of one plan on one scenario."""

    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        plan = written_out(scenario, plan)
        self.coalesce = scenario.settings.coalesce
        self.broker_of: dict[int, int] = {row["client"]: row["broker"] for row in plan.attachments.to_pylist()}
        self.subscriptions = {
            row["id"]: Subscription(row["client"], parse_filter(row["filter"]), row["no_local"])
            for row in scenario.subscriptions.to_pylist()
        }
        self.flows = _flows(plan)
        self.gateway_of = regions_of(plan)  # by flow and broker; of flows that have regions
        self.rows = {
            (row["flow"], row["source"], row["target"]): parse_filter(row["filter"]) for row in plan.filters.to_pylist()
        }
        network = scenario.network
        links = list(zip(network.ids[network.sources].tolist(), network.ids[network.targets].tolist(), strict=True))
        self.prices: dict[Link, float] = dict(zip(links, network.prices.tolist(), strict=True))
        self.delays: dict[Link, float] = dict(zip(links, network.delays.tolist(), strict=True))
        self.delays |= _access_delays(scenario, plan)
        self.steering = Steering(network)
        self.near: dict[int, list[int]] = {broker: [] for broker in network.ids.tolist()}
        for u, v in sorted(links):
            self.near[u].append(v)

    def travel(self, event: Event) -> Journey:
        """Carries one event to all subscribers."""
        return _Travel(self, event).journey()


class _Travel:
    """The journey of one event. Which members want the event is found once, at the start."""

    def __init__(self, law: Law, event: Event) -> None:
        self.law = law
        self.event = event
        self.entry = law.broker_of[event.publisher]
        self.attributes = {**event.attributes, PUBLISHING_BROKER: self.entry}
        self.wanting = {
            number: {member.subscription for member in flow.members if self._wants(flow, member)}
            for number, flow in law.flows.items()
        }
        self.ends: dict[Leg, set[int]] = {}
        for number, flow in law.flows.items():
            if flow.steered:
                self.ends |= (
                    self._legs(number) if number in law.gateway_of else {(number, self.entry): self._ends(number)}
                )
        self.trees: dict[Leg, Tree] = {leg: self._steered(leg) for leg in self.ends}
        self.trees |= {(number, self.entry): flow.tree for number, flow in law.flows.items() if not flow.steered}

    def journey(self) -> Journey:
        law = self.law
        entered = sorted(number for number, flow in law.flows.items() if flow.events.matches(self.attributes))
        legs = [(number, self.entry) for number in entered]
        together = [frozenset(legs)] if law.coalesce else [frozenset({leg}) for leg in legs]
        delay = law.delays[self.event.publisher, self.entry]
        journey = Journey((self.event.publisher, self.entry), [], [])
        frames = deque(Frame(self.entry, None, legs, delay) for legs in together)
        while frames:
            frame = frames.popleft()
            onward = self._onward(frame)
            crossings = [self._crossing(frame, v, legs) for v, legs in sorted(onward.items())]
            journey.crossings.extend(crossings)
            journey.copies.extend(self._copies(frame))
            frames.extend(
                Frame(crossing.target, crossing.source, frozenset(onward[crossing.target]), crossing.delay)
                for crossing in crossings
            )
        return journey

    def _onward(self, frame: Frame) -> dict[int, set[Leg]]:
        """The legs that go on to each neighbour: those of the frame, and those that begin here since it ends here."""
        u, onward = frame.broker, defaultdict(set)
        begun = {(leg[0], u) for leg in frame.legs if frame.origin is not None and u in self.ends.get(leg, ())}
        for leg in frame.legs | (begun & self.ends.keys()):
            before = frame.origin if leg in frame.legs else None
            for v in self.trees[leg].get(u, set()) - {before}:
                if self._crosses(leg, u, v):
                    onward[v].add(leg)
        return onward

    def _crossing(self, frame: Frame, v: int, legs: set[Leg]) -> Crossing:
        u = frame.broker
        return Crossing(
            u,
            v,
            frozenset(flow for flow, _ in legs),
            wanted=any(self._wanted_behind(leg, u, v) for leg in legs),
            delay=frame.delay + self.law.delays[u, v],
            header=sum(self._header(leg, u, v) for leg in legs if leg in self.ends),
        )

    def _crosses(self, leg: Leg, u: int, v: int) -> bool:
        if leg in self.ends:
            return bool(_behind(self.trees[leg], u, v) & self.ends[leg])
        row = self.law.rows.get((leg[0], u, v))
        return self._wanted_behind(leg, u, v) if row is None else row.matches(self.attributes)

    def _wanted_behind(self, leg: Leg, u: int, v: int) -> bool:
        """Whether a member wants the event at a broker behind the link, or where a leg leads that begins there."""
        brokers = _behind(self.trees[leg], u, v)
        if leg in self.ends:
            brokers &= self.ends[leg]
            brokers = brokers.union(*(self.ends.get((leg[0], end), ()) for end in brokers if end != leg[1]))
        return any(self._broker(subscription) in brokers for subscription in self.wanting[leg[0]])

    def _copies(self, frame: Frame) -> list[Copy]:
        u = frame.broker
        here = {leg[0] for leg in frame.legs if frame.origin is None or leg not in self.ends or u in self.ends[leg]}
        copies = []
        for client in sorted(client for client, broker in self.law.broker_of.items() if broker == u):
            crossing = frozenset(flow for flow in here if self._crosses_to_client(flow, u, client))
            if crossing:
                delivered = frozenset().union(*[self._wanted_by(client, flow) for flow in crossing])
                copies.append(Copy(u, client, crossing, delivered, frame.delay + self.law.delays[u, client]))
        return copies

    def _crosses_to_client(self, flow: int, u: int, client: int) -> bool:
        row = self.law.rows.get((flow, u, client))
        return bool(self._wanted_by(client, flow)) if row is None else row.matches(self.attributes)

    def _wanted_by(self, client: int, flow: int) -> set[int]:
        """The client's subscriptions that are to get the event in this flow."""
        own = client == self.event.publisher
        return {
            id_
            for id_ in self.wanting[flow]
            if self.law.subscriptions[id_].client == client and not (own and self.law.subscriptions[id_].no_local)
        }

    def _wants(self, flow: Flow, member: Member) -> bool:
        return (
            flow.events.matches(self.attributes)
            and self.law.subscriptions[member.subscription].filter.matches(self.event.attributes)
            and (member.part is None or member.part.matches(self.attributes))
        )

    def _ends(self, flow: int) -> set[int]:
        """The brokers where the event is to stay in a steered flow, whatever its regions say."""
        if not self.law.flows[flow].events.matches(self.attributes):
            return set()
        summaries = self._summaries(flow, of_regions=False)
        ends = {self._broker(member) for member in self.wanting[flow]} - summaries.keys()
        return ends | {broker for broker, row in summaries.items() if row.matches(self.attributes)}

    def _summaries(self, flow: int, of_regions: bool) -> dict[int, Filter]:
        """The summaries of hosts, or those of regions, by gateway."""
        gateways = set(self.law.gateway_of.get(flow, {}).values())
        rows = {u: row for (number, u, v), row in self.law.rows.items() if number == flow and u == v}
        return {u: row for u, row in rows.items() if (u in gateways) == of_regions}

    def _legs(self, flow: int) -> dict[Leg, set[int]]:
        """The legs of a flow with regions, and the ends of each."""
        if not self.law.flows[flow].events.matches(self.attributes):
            return {(flow, self.entry): set()}
        ends, gateway_of = self._ends(flow), self.law.gateway_of[flow]
        regions = self._summaries(flow, of_regions=True)
        wanting = {gateway_of[end] for end in ends} - regions.keys()
        wanting |= {gateway for gateway, row in regions.items() if row.matches(self.attributes)}
        home = gateway_of[self.entry]
        legs = {(flow, self.entry): {end for end in ends if gateway_of[end] == home} | (wanting - {home})}
        for gateway in wanting - {home}:
            legs[flow, gateway] = {end for end in ends if gateway_of[end] == gateway} - {gateway}
        return legs

    def _steered(self, leg: Leg) -> Tree:
        """The event's own tree in a steered flow, or in a leg of it."""
        flow, root = leg
        if self.law.flows[flow].kind == PATHS:
            return steered_tree(self.law.prices, root, self.ends[leg])
        tree = defaultdict(set)
        for u, v in self.law.steering.tree(STEINER, root, self.ends[leg]):
            tree[u].add(v)
            tree[v].add(u)
        return tree

    def _header(self, leg: Leg, u: int, v: int) -> int:
        """The length of the header that tells a frame on its way from u to v how the tree goes on."""
        tree, hops, ahead = self.trees[leg], {}, [(u, v)]
        while ahead:
            before, broker = ahead.pop()
            hops[broker] = sorted(tree[broker] - {before})
            ahead += [(broker, hop) for hop in hops[broker]]
        numbers = dict.fromkeys(self.ends[leg], 0)
        return len(plain_steering.header(self.law.near, hops, v, numbers, self.law.flows[leg[0]].ordered, first=0))

    def _broker(self, subscription: int) -> int:
        return self.law.broker_of[self.law.subscriptions[subscription].client]


def steered_tree(prices: Mapping[Link, float], entry: int, terminals: set[int]) -> Tree:
    """The union of the cheapest paths from the entry to the terminals.

    Dijkstra's algorithm settles brokers by (price of the path, id). A broker's predecessor is the one that makes its
    path cheapest; among several that do, of those settled before it, the one with the lowest id.
    """
    leaving = defaultdict(list)
    for (source, target), price in prices.items():
        leaving[source].append((target, price))
    best: dict[int, tuple[float, int]] = {entry: (0.0, entry)}  # the price of the path, the predecessor
    settled: set[int] = set()
    heap = [(0.0, entry)]
    while heap:
        so_far, u = heapq.heappop(heap)
        if u in settled:
            continue
        settled.add(u)
        for v, price in leaving[u]:
            if v not in settled and (v not in best or (so_far + price, u) < best[v]):
                best[v] = (so_far + price, u)
                heapq.heappush(heap, (so_far + price, v))
    tree = defaultdict(set)
    for broker in terminals:
        while broker != entry:
            _, before = best[broker]
            tree[before].add(broker)
            tree[broker].add(before)
            broker = before
    return tree


def _behind(tree: Tree, u: int, v: int) -> set[int]:
    """The brokers on v's side of the link between u and v."""
    found, ahead = {v}, [v]
    while ahead:
        for neighbour in tree[ahead.pop()] - found - {u}:
            found.add(neighbour)
            ahead.append(neighbour)
    return found


def _flows(plan: Plan) -> dict[int, Flow]:
    flows = {
        row["flow"]: Flow(
            row["kind"], parse_filter(row["events"]), [], defaultdict(set), bool(row.get("ordered", False))
        )
        for row in plan.flows.to_pylist()
    }
    for row in plan.members.to_pylist():
        part = None if row["part"] is None else parse_filter(row["part"])
        flows[row["flow"]].members.append(Member(row["subscription"], part))
    for row in plan.trees.to_pylist():
        tree = flows[row["flow"]].tree
        tree[row["source"]].add(row["target"])
        tree[row["target"]].add(row["source"])
    return flows


def _access_delays(scenario: Scenario, plan: Plan) -> dict[Link, float]:
    """The delays between every client and its broker, both ways."""
    clients, brokers = plan.attachments["client"].to_numpy(), plan.attachments["broker"].to_numpy()
    access, delays = access_of(scenario), {}
    up, down = access.up(clients, brokers).delays, access.down(clients, brokers).delays
    for client, broker, there, back in zip(*(column.tolist() for column in (clients, brokers, up, down)), strict=True):
        delays[client, broker] = there
        delays[broker, client] = back
    return delays
