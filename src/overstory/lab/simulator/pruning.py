"""The experiments of the pruning paper, one cell at a time: a policy, a workload and a seed in, numbers out.

The unsubscribe experiments (Figs. 7 to 10) go through the same times. Subscriptions come every 1.5 s. When all are
there, publications come every 0.4 s, for an hour before the unsubscriptions begin, so that hosts have seen some; then
a number of roots leave within 150 s. What is measured are 300 publications that go to as many edge brokers as any do:
as long before the first unsubscription as it takes, and from 600 s after the last one on. Those before are the
uncongested ones that the others are compared to. Publications end 80 minutes after the first unsubscription; queues and
tables are sampled until no broker has anything left to do.

In the mobile experiment (Fig. 12) four monitors want everything, one in each region, from the beginning. Every two
minutes one of them moves to another broker of its region. The paper does not say how long a move takes. Half a minute
is the default; a monitor that is back at once (0 s) covers again what it has uncovered before that has gone far. The
other subscriptions move too if they are to.

Every run returns the same names. Delays are in seconds; counts are of entries that crossed links between brokers.
"""

from collections.abc import Sequence

import numpy as np

from overstory.errors import InfeasibleError
from overstory.filters import parse_filter
from overstory.lab.simulator.engine import Engine, Service
from overstory.lab.simulator.record import KINDS
from overstory.lab.simulator.topology import Topology, default_topology, tiered_topology
from overstory.lab.simulator.workload import (
    Ints,
    Reals,
    Subscriptions,
    far_reaching,
    make_publications,
    make_subscriptions,
)
from overstory.model.plan import EVERYTHING
from overstory.routing.policies import make_policy

Numbers = dict[str, float | list[float]]

SUBSCRIBE_EVERY, PUBLISH_EVERY = 1.5, 0.4  # seconds
PAUSE = 60.0  # after the last subscription
LEAVE_WITHIN, MEASURE_AFTER = 150.0, 600.0
PUBLICATIONS_IN_ALL, MEASURED = 21_000, 300
SEEN_BEFORE = 3600.0  # seconds of publications before the first unsubscription
SAMPLE_EVERY = 60.0
MONITORS_MOVE_EVERY, OTHERS_MOVE_EVERY = 120.0, 1.0
MOVE_TAKES = 30.0  # seconds, of a monitor
CONGESTED_DELAY, CONGESTED_QUEUE = 10.0, 100  # times the uncongested delay; messages


def run_unsubscribe(
    policy: str,
    subscriptions: int = 30_000,
    unsubscriptions: int = 300,
    degree: int = 30,
    threshold: float = 0.9,
    seed: int = 1,
    clustered: bool = False,
    workload: str = "dense",
) -> Numbers:
    """Runs a cell of Figs. 1 and 7 to 10, or of the sparse workload: roots leave, and publications go on."""
    topology = default_topology()
    dice = np.random.default_rng(seed)
    made = make_subscriptions(topology, subscriptions, degree, dice, clustered, workload)
    engine = Engine(topology, make_policy(policy, threshold), Service())
    for number, broker in enumerate(made.broker.tolist()):
        engine.subscribe(SUBSCRIBE_EVERY * number, broker, number, 1, made.filter(number))
    begin = SUBSCRIBE_EVERY * len(made.low) + PAUSE
    times: Reals = begin + PUBLISH_EVERY * np.arange(PUBLICATIONS_IN_ALL, dtype=np.float64)
    values, before, after = _publications(made, times, begin + SEEN_BEFORE, dice)
    engine.publish(times, values, dice.choice(np.array(topology.publishers), len(times)))
    gone = dice.choice(np.flatnonzero(made.is_root), min(unsubscriptions, int(made.is_root.sum())), replace=False)
    leave_at = begin + SEEN_BEFORE + LEAVE_WITHIN / len(gone) * np.arange(len(gone))
    for number, time in zip(gone.tolist(), leave_at.tolist(), strict=True):
        engine.unsubscribe(time, int(made.broker[number]), number, 1)
    engine.run()
    end = max(float(times[-1]), engine.record.idle_from()) + SAMPLE_EVERY  # so the last sample finds queues empty
    return _delays(engine, before, after) | _measured(engine, topology, begin + SEEN_BEFORE, end)


def run_mobile(
    policy: str,
    others_move: bool = False,
    subscriptions: int = 5_000,
    hours: float = 1.0,
    threshold: float = 0.9,
    seed: int = 1,
    move_takes: float = MOVE_TAKES,
) -> Numbers:
    """Runs a cell of Fig. 12: monitors move, and others if they are to. The paper's run takes six hours."""
    topology = tiered_topology()
    dice = np.random.default_rng(seed)
    hosts = np.sort(dice.choice(np.array(topology.subscribers), min(40, len(topology.subscribers)), replace=False))
    topology = topology._replace(publishers=tuple(hosts.tolist()))
    made = make_subscriptions(topology, subscriptions, 30, dice)
    engine = Engine(topology, make_policy(policy, threshold), Service())
    for number, broker in enumerate(made.broker.tolist()):
        engine.subscribe(PAUSE + SUBSCRIBE_EVERY * number, broker, number, 1, made.filter(number))
    begin = SUBSCRIBE_EVERY * len(made.low) + 2 * PAUSE
    end = begin + 3600 * hours
    times = np.arange(begin, end, PUBLISH_EVERY)
    values = make_publications(made, len(times), dice)
    engine.publish(times, values, dice.choice(hosts, len(times)))
    _move_monitors(engine, topology, len(made.low), begin, end, move_takes, dice)
    if others_move:
        _move_others(engine, topology, made, begin, end, dice)
    engine.run()
    first = np.flatnonzero(times < begin + MONITORS_MOVE_EVERY)  # before anybody moves
    last = np.flatnonzero(times >= end - MEASURE_AFTER)
    return _delays(engine, first, last) | _measured(engine, topology, begin, end) | _by_tier(engine, topology, begin)


def congests(active: Numbers) -> bool:
    """Whether active covering did congest the network, as in the paper."""
    delay, before, queue = active["delay_mean"], active["delay_before"], active["queue_peak"]
    assert isinstance(delay, float)
    assert isinstance(before, float)
    assert isinstance(queue, float)
    return queue > CONGESTED_QUEUE and delay > CONGESTED_DELAY * before


def refuse_unless_congested(active: Numbers) -> None:
    """A comparison says nothing about congestion where there is none."""
    if not congests(active):
        raise InfeasibleError(
            f"active covering does not congest this network (delay {active['delay_mean']:.3g} s, "
            f"{active['delay_before']:.3g} s before; longest queue {active['queue_peak']:.0f}); "
            "take more subscriptions or unsubscriptions"
        )


def _publications(
    made: Subscriptions, times: Reals, leaving: float, dice: np.random.Generator
) -> tuple[Reals, Ints, Ints]:
    """The values of all publications, and which of them are measured before the unsubscriptions and after them."""
    values = make_publications(made, len(times), dice)
    last_before = int(np.searchsorted(times, leaving))
    before = np.arange(last_before - MEASURED, last_before)
    after = int(np.searchsorted(times, leaving + LEAVE_WITHIN + MEASURE_AFTER)) + np.arange(MEASURED)
    chosen = far_reaching(made, MEASURED, dice)
    values[before] = values[after] = chosen
    return values, before, after


def _move_monitors(
    engine: Engine, topology: Topology, first: int, begin: float, end: float, takes: float, dice: np.random.Generator
) -> None:
    """Monitors come before all others, and then move in turn, each within its region."""
    everything = parse_filter(EVERYTHING)
    at = [int(dice.choice(region)) for region in topology.regions]
    for monitor, broker in enumerate(at):
        engine.subscribe(0.0, broker, first + monitor, 1, everything)
    for turn, time in enumerate(np.arange(begin + MONITORS_MOVE_EVERY, end, MONITORS_MOVE_EVERY).tolist()):
        monitor, version = turn % len(at), 1 + turn // len(at)
        engine.unsubscribe(time, at[monitor], first + monitor, version)
        others = [broker for broker in topology.regions[monitor] if broker != at[monitor]]
        at[monitor] = int(dice.choice(others))
        engine.subscribe(time + takes, at[monitor], first + monitor, version + 1, everything)


def _move_others(
    engine: Engine, topology: Topology, made: Subscriptions, begin: float, end: float, dice: np.random.Generator
) -> None:
    region_of = {broker: region for region in topology.regions for broker in region}
    at, version = made.broker.tolist(), [1] * len(made.broker)
    for time in np.arange(begin, end, OTHERS_MOVE_EVERY).tolist():
        number = int(dice.integers(len(at)))
        engine.unsubscribe(time, at[number], number, version[number])
        at[number] = int(dice.choice(region_of[at[number]]))
        version[number] += 1
        engine.subscribe(time, at[number], number, version[number], made.filter(number))


def _delays(engine: Engine, before: Ints, after: Ints) -> Numbers:
    delays = engine.record.delays(after)
    low, high = np.percentile(delays, [10, 90]).tolist()
    return {
        "delay_mean": float(delays.mean()),
        "delay_p10": low,
        "delay_p90": high,
        "delay_before": float(engine.record.delays(before).mean()),
    }


def _measured(engine: Engine, topology: Topology, since: float, until: float) -> Numbers:
    record = engine.record
    times = np.arange(since, until, SAMPLE_EVERY)
    queues = np.array([record.queue(broker, times) for broker in topology.core])
    tables = np.array([record.table_sizes(broker, times) for broker in topology.core])
    vain, every = record.false_positives(since + LEAVE_WITHIN)
    totals = {f"{kind}_sent": float(record.total(kind)) for kind in KINDS}
    inner = (*topology.core, *topology.inner)
    numbers: Numbers = {
        "sample_seconds": (times - since).tolist(),
        "queue_core": queues.max(axis=0).astype(float).tolist(),  # of the core broker with the longest
        "queue_peak": float(max(record.queue_peak(broker, since) for broker in topology.core)),
        "table_core": tables.mean(axis=0).tolist(),
        "table_core_end": float(tables[:, -1].mean()),
        "table_core_before": float(tables[:, 0].mean()),
        "triggered_core": [float(record.triggered[broker]) for broker in topology.core],
        "false_positive_share": _share(vain, every, inner),
        "false_positive_share_core": _share(vain, every, topology.core),
        **totals,
        "messages": sum(totals.values()),
        "packets": float(record.packets.total()),
        "window_rows_end": float(max(router.statistics().window for router in engine.routers.values())),
    }
    return numbers


def _by_tier(engine: Engine, topology: Topology, since: float) -> Numbers:
    """How many publications the mean broker of each tier gets, and how many of those in vain."""
    vain, every = engine.record.false_positives(since)
    numbers: Numbers = {}
    for tier, brokers in enumerate(topology.tiers, start=1):
        numbers[f"publications_tier_{tier}"] = _at(every, brokers) / len(brokers)
        numbers[f"false_positives_tier_{tier}"] = _at(vain, brokers) / len(brokers)
    return numbers


def _at(links: dict[tuple[int, int], int], brokers: Sequence[int]) -> float:
    """How many of the copies on these links arrive at one of the brokers."""
    return float(sum(count for (_, target), count in links.items() if target in brokers))


def _share(vain: dict[tuple[int, int], int], every: dict[tuple[int, int], int], brokers: Sequence[int]) -> float:
    return _at(vain, brokers) / max(1.0, _at(every, brokers))
