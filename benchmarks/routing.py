"""The router: what a subscription costs at a broker that holds many, what a publication costs, and a whole experiment.

The peer of the first is the same broker with a thousand subscriptions: the ratio of the two shows the growth. The peer
of the second is the bare index, so that the difference is what routing adds to matching: stamping a publication with
its flows where it enters, deciding, and making the batches that go to each peer. It is measured with one flow, and with
twenty that all publications enter.
"""

import time
from collections.abc import Iterator, Sequence

import numpy as np

from benchmarks.measure import Measurement, per_item
from overstory.filters import parse_filter
from overstory.lab.simulator import pruning
from overstory.lab.simulator.topology import default_topology
from overstory.lab.simulator.workload import Subscriptions, make_publications, make_subscriptions
from overstory.matching import Batch
from overstory.model.plan import EVERYTHING
from overstory.routing.frames import Frames
from overstory.routing.messages import LATE, Advertise, Subscribe
from overstory.routing.policies import SUMMARIES, make_policy
from overstory.routing.router import Router
from overstory.routing.share import FlowShare, Share

UP, DOWN = 0, 2  # neighbours: the publishers are behind the one, the subscribers behind the other
BELOW = (2, 3, 4, 5)  # neighbours with subscribers behind them, where there are several
CLIENT = 1_000
DEGREE = 30
AT_ONCE = 512


def subscribe(quick: bool) -> Iterator[Measurement]:
    """One more at a broker that holds so many, with active covering."""
    small = _per_subscription(20 if quick else 1_000, 5 if quick else 1_000)
    for held in (1_000, 10_000, 30_000, 100_000):
        size, more = (held // 100, 5) if quick else (held, 1_000)
        taken = _per_subscription(size, more)
        bars = {"bar": 200.0} if held == 30_000 else {}
        yield Measurement("route-subscribe", f"{held:,} held", taken, "1,000 held", small, **bars)  # type: ignore[arg-type]


def publish(quick: bool) -> Iterator[Measurement]:
    """Of a batch that clients here publish, one publication: it enters its flows, is routed, and goes to its peers."""
    size = 32 if quick else AT_ONCE
    for flows in (1, 20):
        for held in (1_000, 30_000, 100_000):
            made, router = _router(held // 50 if quick else held, flows=flows, below=BELOW)
            batch = Batch({"x": make_publications(made, size, np.random.default_rng(2))})
            index = router.state.epochs[0].table.index
            copies = sum(map(len, _carry(router, batch)))
            taken = per_item(lambda r=router, b=batch: _carry(r, b), size, 1 if quick else 7)  # type: ignore[misc]
            bare = per_item(lambda i=index, b=batch: i.match_batch(b), size, 1 if quick else 7)  # type: ignore[misc]
            matches = len(index.match_batch(batch).filters) / size
            bars = {"bar": 20.0} if (flows, held) == (1, 30_000) else {}
            name = f"{held:,} held, {matches:.0f} match, {copies / size:.1f} copies, {_counted(flows)}"
            yield Measurement("route-publish", name, taken, "index alone", bare, **bars)  # type: ignore[arg-type]


def _carry(router: Router, batch: Batch) -> list[Frames]:
    """All that a broker does with what its clients publish, but for the bytes: a batch for each peer comes of it."""
    size = len(batch)
    frames = router.enter(batch, np.arange(size), np.full(size, CLIENT))
    routed, _ = router.publish(frames)
    return [frames.sent(routed, routed.to(peer), router.state.broker) for peer in np.unique(routed.peers).tolist()]


def _counted(flows: int) -> str:
    return "1 flow" if flows == 1 else f"{flows} flows"


def experiment(quick: bool) -> Iterator[Measurement]:
    """All of Fig. 7 for one policy: 30,000 subscriptions, 21,000 publications, 55 brokers."""
    for policy in ["active"] if quick else SUMMARIES:
        start = time.process_time()
        if quick:  # the smallest that there is
            pruning.run_mobile(policy, subscriptions=62, hours=0.05)
        else:
            pruning.run_unsubscribe(policy)
        taken = time.process_time() - start
        yield Measurement("route-experiment", f"Fig. 7, {policy}", taken, bar=60.0, unit="s of one core")


def _per_subscription(held: int, more: int) -> float:
    made, router = _router(held + more + DEGREE + 1, held)  # families are made whole
    rest = [Subscribe(0, LATE, (number, 1), made.filter(number)) for number in range(held, held + more)]
    table = router.state.epochs[0].table
    assert len(table.index) == held  # what came before is filed now; what comes next has to be, too
    start = time.perf_counter()
    for each in rest:
        router.receive(DOWN, each)
    assert len(table.index) == held + len(rest)
    return (time.perf_counter() - start) / len(rest) * 1e6


def _router(
    size: int, held: int | None = None, flows: int = 1, below: Sequence[int] = (DOWN,)
) -> tuple[Subscriptions, Router]:
    """In the middle of a tree, with the first of the workload's subscriptions, dealt in turn to flows that all events
    enter and to the neighbours below."""
    made = make_subscriptions(default_topology(), size, DEGREE, np.random.default_rng(1))
    everything = parse_filter(EVERYTHING)
    router = Router(1, make_policy("active"))
    near = frozenset({UP, *below})
    for peer in sorted(near):
        router.neighbour_up(peer)
    numbers = [LATE, *range(flows - 1)]
    router.install(Share(0, {number: FlowShare(number, everything, near, {}, False) for number in numbers}))
    router.activate(0)
    for number in numbers:
        router.receive(UP, Advertise(0, number, (1, 1), everything))
    for place in range(len(made.low) if held is None else min(held, len(made.low))):
        flow, peer = numbers[place % flows], below[place // flows % len(below)]
        router.receive(peer, Subscribe(0, flow, (place, 1), made.filter(place)))
    return made, router
