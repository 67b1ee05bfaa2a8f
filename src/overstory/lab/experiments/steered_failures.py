"""Links fail: how many deliveries arrive, and over how much of the network, on one tree and steered.

The product's own routers carry the events. ``at once`` is when only the ends of a link know that it is down, and nobody
else ever hears of it: hops find detours by what they believe. ``known`` is when all brokers have heard of it, so that
publishing brokers steer around. Nobody plans anew, so a tree that has lost a link stays in pieces. Deliveries are those
that brokers still in reach of the publishing one could get.
"""

import random
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import pyarrow.parquet as pq

from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import by_seed, lines, where
from overstory.lab.steered_cells import ONE_TREE, STEERED, making, planned, scenario_from
from overstory.lab.wiring import Crossing, Delivery, Link, Wiring
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.values import Attributes
from overstory.routing.policies import make_policy
from overstory.routing.share import shares_of
from overstory.routing.steering import Steering

FAILED = (0, 1, 2, 4, 8)  # links
AT_ONCE, KNOWN = "at once", "known"
ROUND = 10**9  # between the numbers of an event that is published again
Published = tuple[int, int, int, Attributes]  # the broker, the client, the event and what it says


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    brokers, events, seeds = (20, 40, 1) if quick else (60, 200, 5)
    for seed in range(1, seeds + 1):
        yield {"network": "transit-stub", "brokers": brokers, "data": "Localized2", "events": events, "seed": seed}


class Broken(Wiring):
    """Routers on a network of which more and more links are cut, with all that crosses links and arrives."""

    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        self.crossed: list[Crossing] = []
        self.arrived: set[tuple[int, int]] = set()  # an event and a subscription
        self.round = 0
        super().__init__(shares_of(scenario, plan, epoch=1), make_policy("active"))
        self.settle()

    def on_crossing(self, crossing: Crossing) -> None:
        """Notes that a copy has crossed a link."""
        self.crossed.append(crossing)

    def on_delivery(self, broker: int, delivery: Delivery) -> None:
        """Keeps what was delivered."""
        self.arrived |= {(delivery.event % ROUND, id_) for id_ in delivery.subscriptions}

    def cut(self, links: Sequence[Link], known: bool) -> None:
        """Cuts links, both ways. The ends notice, and the others too if it is ``known``; else they never hear of it."""
        for u, v in links:
            for here, there in ((u, v), (v, u)):
                if there in self.routers[here].state.up:
                    self.do(here, self.routers[here].neighbour_down(there))
        if known:
            self.settle()
        for queue in self.links.values():
            queue.clear()
        for u, v in links:
            self.links[u, v], self.links[v, u] = deque(maxlen=0), deque(maxlen=0)  # what is put there is lost

    def carry_all(self, events: Sequence[Published]) -> None:
        """Publishes all events anew, one after the other, and forgets what came of them before."""
        self.crossed.clear()
        self.arrived, self.round = set(), self.round + 1
        for broker, client, event, attributes in events:
            self.publish(broker, client, self.round * ROUND + event, attributes)
            while any(self.links.values()):
                for link in self.busy():
                    self.deliver(link)


def run(settings: Settings) -> list[Row]:
    """Each way with more and more links cut, the same for both."""
    seed = int(str(settings["seed"]))
    with scenario_from(making(settings, keywords=60)) as scenario:
        network = scenario.network
        ends = zip(network.ids[network.sources].tolist(), network.ids[network.targets].tolist(), strict=True)
        cuts = random.Random(seed).sample(sorted((u, v) for u, v in ends if u < v), FAILED[-1])
        plans = {way: planned(scenario, way, seed) for way in (STEERED, ONE_TREE)}
        return [
            settings | {"way": way, "when": when} | row
            for way, plan in plans.items()
            for when in (AT_ONCE, KNOWN)
            for row in _outcomes(scenario, plan, cuts, when)
        ]


def _outcomes(scenario: Scenario, plan: Plan, cuts: Sequence[Link], when: str) -> Iterator[Row]:
    """What arrives of what could, and what the copies cost for each delivery: first with no link cut."""
    network, events = scenario.network, _events(scenario, plan)
    ends = zip(network.ids[network.sources].tolist(), network.ids[network.targets].tolist(), strict=True)
    price = dict(zip(ends, network.prices.tolist(), strict=True))
    broken, usual = Broken(scenario, plan), set[tuple[int, int]]()
    for before, failed in pairwise((0, *FAILED)):
        broken.cut(cuts[before:failed], when == KNOWN)
        broken.carry_all(events)
        usual = usual or broken.arrived
        possible = _possible(scenario, plan, cuts[:failed], usual, events)
        spent = sum(price[each.source, each.target] for each in broken.crossed)
        yield {
            "failed": failed,
            "delivered": len(broken.arrived & possible) / max(len(possible), 1),
            "price": spent / max(len(broken.arrived), 1),
            "cut_off": 1 - len(possible) / max(len(usual), 1),
        }


def _events(scenario: Scenario, plan: Plan) -> list[Published]:
    broker_of = {row["client"]: row["broker"] for row in plan.attachments.to_pylist()}
    return [
        (
            broker_of[row["$publisher"]],
            row["$publisher"],
            row["$id"],
            {name: value for name, value in row.items() if not name.startswith("$")},
        )
        for row in pq.read_table(scenario.events).to_pylist()
    ]


def _possible(
    scenario: Scenario,
    plan: Plan,
    cut: Sequence[Link],
    arrived: set[tuple[int, int]],
    events: Sequence[Published],
) -> set[tuple[int, int]]:
    """The deliveries to brokers that the publishing one can still reach."""
    steering = Steering(scenario.network).without({end for u, v in cut for end in ((u, v), (v, u))})
    network, positions = scenario.network, scenario.network.positions(scenario.network.ids)
    reached = {
        broker: set(network.ids[steering.reaches(at, positions)].tolist())
        for at, broker in enumerate(network.ids.tolist())
    }
    broker_of = {row["client"]: row["broker"] for row in plan.attachments.to_pylist()}
    host = {row["id"]: broker_of[row["client"]] for row in scenario.subscriptions.to_pylist()}
    entry = {event: broker for broker, _, event, _ in events}
    return {(event, id_) for event, id_ in arrived if host[id_] in reached[entry[event]]}


def delivered(rows: Sequence[Row], way: str, when: str) -> BySeed:
    """The share of deliveries that arrive with the most links cut."""
    return by_seed(where(rows, way=way, when=when, failed=FAILED[-1]), "delivered")


def figures(rows: Sequence[Row]) -> list[Figure]:
    return [
        Figure(
            "steered-failures",
            "deliveries while links are down, once all know",
            "links that are down",
            "share of the deliveries that are possible",
            lines(where(rows, when=KNOWN), "failed", "delivered", "way"),
        )
    ]


EXPERIMENT = Experiment(
    "steered-failures",
    "links fail: what arrives, and at what price, steered and on one tree, through the product's own routers",
    cells,
    run,
    measures={
        "delivered_steered": partial(delivered, way=STEERED, when=KNOWN),
        "delivered_steered_at_once": partial(delivered, way=STEERED, when=AT_ONCE),
        "delivered_one_tree": partial(delivered, way=ONE_TREE, when=KNOWN),
    },
    figures=figures,
)
