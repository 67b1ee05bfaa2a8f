"""The pruning paper's question on real processes: broad subscriptions leave, and what they covered sets off.

Twenty brokers: five in a row, the core, of which the last has the publisher's broker and the others have the brokers
with subscribers. Families of subscriptions are those of the paper's workload. While all roots leave at once, events go
on at a fixed rate. Measured are messages (entries that crossed links), the delay of events, and queues; beside them
what the simulator's routers send for the same inputs.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from overstory.broker.places import places_of
from overstory.filters import parse_filter
from overstory.lab.counting import CountingWiring
from overstory.lab.crowd import Client, Crowd, Wish, publish_of, taken_apart
from overstory.lab.lines import written_tree
from overstory.lab.live import Network
from overstory.lab.simulator.topology import Topology
from overstory.lab.simulator.workload import Subscriptions, far_reaching, make_publications, make_subscriptions
from overstory.model.plan import EVERYTHING, read_plan
from overstory.model.scenario import read_scenario
from overstory.routing.policies import make_policy
from overstory.wire.packets import Unsubscribe

CORE, HOSTS, PUBLISHER = 5, 14, 5
EVERY, LOOK = 0.01, 0.25  # seconds between events, and between two looks at queues
DRAIN = 120.0  # seconds until everything has settled


class Sizes(NamedTuple):
    """How large a run is."""

    subscriptions: int = 9_300
    degree: int = 30
    events: int = 300  # before the roots leave, and again afterwards


def twenty_brokers() -> Topology:
    """A core in a row, a broker with the publisher at its end, and brokers with subscribers at the others."""
    core = tuple(range(CORE))
    hosts = tuple(range(PUBLISHER + 1, PUBLISHER + 1 + HOSTS))
    links = [*pairwise(core), (core[-1], PUBLISHER)]
    links += [(core[place % (CORE - 1)], host) for place, host in enumerate(hosts)]
    regions = tuple(hosts[place :: CORE - 1] for place in range(CORE - 1))
    return Topology(tuple(links), core, (), (PUBLISHER,), hosts, regions)


class Timed(Client):
    """A client that knows when each event came."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[tuple[float, int]] = []  # when bytes had come, and how many in all

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.pieces.append((time.monotonic(), len(self.came)))

    def arrivals(self) -> dict[int, float]:
        """When each event came."""
        found: dict[int, float] = {}
        for when, size in self.pieces:
            for event in taken_apart(bytes(self.came[:size]))[0].tolist()[len(found) :]:
                found.setdefault(event, when)
        return found


class Live:
    """One run on real processes."""

    def __init__(self, network: Network, made: Subscriptions) -> None:
        self.network, self.made = network, made
        self.crowd = Crowd(Timed)
        self.sent: dict[int, float] = {}
        self.longest = 0  # bytes that waited for one neighbour or client, and frames that waited at one broker
        self.frames = 0

    async def join(self) -> None:
        """Everybody connects, and subscribes in the order of the workload."""
        wishes: dict[int, list[Wish]] = defaultdict(list)
        for number, broker in enumerate(self.made.broker.tolist()):
            wishes[broker].append(Wish(_text(self.made, number)))
        for broker in (PUBLISHER, *sorted(wishes)):
            await self.crowd.connect(broker, f"c{broker}", self.network.address(broker))
        for broker, mine in wishes.items():
            await self.crowd.subscribe(broker, mine)
        await self.settle()

    async def settle(self) -> None:
        """Waits until nothing is under way."""
        await asyncio.to_thread(self.network.wait_until_idle, None, DRAIN)
        await self.crowd.settle()

    async def publish(self, first: int, values: Sequence[float]) -> None:
        """Publishes events at a fixed rate."""
        began = time.monotonic()
        for place, value in enumerate(values):
            await asyncio.sleep(began + EVERY * place - time.monotonic())
            self.sent[first + place] = time.monotonic()
            await self.crowd.clients[PUBLISHER].publish([publish_of(first + place, {"x": value})])

    def leave(self, roots: Sequence[int]) -> None:
        """Roots leave, all at once."""
        by_broker: dict[int, list[str]] = defaultdict(list)
        for number in roots:
            by_broker[int(self.made.broker[number])].append(f"#?{_text(self.made, number)}")
        for broker, names in by_broker.items():
            self.crowd.clients[broker].send(Unsubscribe(1, tuple(names)))

    async def look(self) -> None:
        """Looks at queues, again and again."""
        while True:
            for report in (await asyncio.to_thread(self.network.reports)).values():
                self.longest = max([self.longest, report.waiting, *(link.waiting_bytes for link in report.links)])
                self.frames = max(self.frames, report.inbox)
            await asyncio.sleep(LOOK)

    def entries(self) -> int:
        """How many entries have crossed links so far."""
        return sum(link.traffic.entries for report in self.network.reports().values() for link in report.links)

    def delays(self, first: int, count: int) -> list[float]:
        """Milliseconds that deliveries of these events took."""
        clients = [client for client in self.crowd.clients.values() if isinstance(client, Timed)]
        return [
            1000 * (when - self.sent[event])
            for client in clients
            for event, when in client.arrivals().items()
            if first <= event < first + count
        ]


def _text(made: Subscriptions, number: int) -> str:
    return f"x BETWEEN {float(made.low[number])!r} AND {float(made.high[number])!r}"


class Inputs(NamedTuple):
    """What a run does, the same live and in the simulator."""

    topology: Topology
    made: Subscriptions
    roots: list[int]
    values: list[float]  # of the events, those before the roots leave and those afterwards

    @classmethod
    def drawn(cls, sizes: Sizes, seed: int) -> "Inputs":
        """Draws them by a seed."""
        topology, dice = twenty_brokers(), np.random.default_rng(seed)
        made = make_subscriptions(topology, sizes.subscriptions, sizes.degree, dice)
        chosen = far_reaching(made, sizes.events, dice).tolist()
        values = [*make_publications(made, 2 * sizes.events - len(chosen), dice).tolist(), *chosen]
        return cls(topology, made, np.flatnonzero(made.is_root).tolist(), values)


def run_live(policy: str, sizes: Sizes, seed: int) -> dict[str, float]:
    """One policy on real processes, and what the simulator's routers send for the same inputs."""
    inputs = Inputs.drawn(sizes, seed)
    with TemporaryDirectory() as name:
        folder = Path(name)
        scenario, plan = written_tree(folder, inputs.topology.links)
        settings = {"policy": policy, "types": {"x": "number"}}
        with Network(scenario, plan, folder / "logs", settings) as network:
            measured = asyncio.run(_measured(Live(network, inputs.made), inputs, sizes))
        return {**measured, **_simulated(scenario, plan, policy, inputs, sizes)}


async def _measured(live: Live, inputs: Inputs, sizes: Sizes) -> dict[str, float]:
    half = sizes.events
    try:
        await live.join()
        joined = live.entries()
        await live.publish(0, inputs.values[:half])
        await live.settle()
        looking = asyncio.create_task(live.look())
        live.leave(inputs.roots)
        await live.publish(half, inputs.values[half:])
        await live.settle()
        looking.cancel()
        before, after = live.delays(0, half), live.delays(half, half)
        return {
            "messages_to_join": joined,
            "messages": live.entries() - joined,
            "delay_before_ms": float(np.mean(before)),
            "delay_ms": float(np.mean(after)),
            "delay_p90_ms": float(np.percentile(after, 90)),
            "queue_bytes": live.longest,
            "queue_frames": live.frames,
            "events_on_links": _events_on_links(live.network),
        }
    finally:
        live.crowd.close()


def _events_on_links(network: Network) -> int:
    return sum(link.traffic.events for report in network.reports().values() for link in report.links)


def _simulated(scenario: Path, plan: Path, policy: str, inputs: Inputs, sizes: Sizes) -> Mapping[str, float]:
    """The same inputs, one after the other, through routers without processes."""
    read = read_scenario(scenario)
    places = places_of(read, read_plan(plan))
    wiring = CountingWiring(
        read.network, {broker: place.share for broker, place in places.items()}, make_policy(policy)
    )
    for number, broker in enumerate(inputs.made.broker.tolist()):
        wiring.do(broker, wiring.routers[broker].subscribe(1000 + broker, number, 0, inputs.made.filter(number)))
        wiring.settle()
    joined = wiring.counted().total
    wiring.do(PUBLISHER, wiring.routers[PUBLISHER].advertise(PUBLISHER, PUBLISHER, 1, parse_filter(EVERYTHING)))
    wiring.settle()
    wiring.counted()  # the advertisement is no entry
    for event, value in enumerate(inputs.values):
        if event == sizes.events:
            for number in inputs.roots:
                broker = int(inputs.made.broker[number])
                wiring.do(broker, wiring.routers[broker].unsubscribe(1000 + broker, number, 0))
                wiring.settle()
        wiring.publish(PUBLISHER, 1000 + PUBLISHER, event, {"topic": "event", "x": value}, PUBLISHER)
        wiring.settle()
    return {
        "predicted_to_join": joined,
        "predicted_messages": wiring.counted().total,
        "predicted_events_on_links": sum(wiring.frames),
    }
