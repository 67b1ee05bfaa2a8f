"""Failures of a network by seed, and how what came of them is judged; live or in the simulator, by the same words.

While a failure lasts, a client at one end of a line of brokers publishes to a client at the other end, with QoS 1 and
2. What was acknowledged has to arrive: with QoS 1 at least once, with QoS 2 once, and first arrivals in order. The one
excuse is a subscriber who was told that its session is gone (session present 0). When all is over, the brokers'
forwarding tables have to be those that fresh routers compute from the same subscriptions.
"""

import random
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import pairwise

import msgspec

from overstory.broker.reports import TableRow, rows_of
from overstory.filters import Filter
from overstory.lab.steady import Steady
from overstory.lab.wiring import Wiring
from overstory.routing.policies import make_policy
from overstory.routing.share import Share

KINDS = KILLED, CUT, HUNG, SLOW, STORM = "killed", "cut", "hung", "slow", "storm"
TOPICS = {1: "failures/1", 2: "failures/2"}  # by QoS
LONG_CUT = 10.0  # seconds: each fifth cut lasts so long
FEW_EVENTS, STORM_SIZE = 300, 50_000


class Schedule(msgspec.Struct, frozen=True):
    """What fails, where, and for how long."""

    kind: str
    victim: int  # a broker, or the link from it to the next one
    seconds: float
    events: int  # of each QoS
    after: int  # events that are published before it fails

    @classmethod
    def drawn(
        cls, seed: int, brokers: int, durable: bool, events: int = FEW_EVENTS, longest: float = 3.0
    ) -> "Schedule":
        """The schedule of a seed, on a line of brokers. Only with disks the brokers of the two clients are killed."""
        draw = random.Random(seed)
        kind = KINDS[seed % len(KINDS)]
        inner = kind == KILLED and not durable
        victim = draw.randrange(1, brokers - 1) if inner else draw.randrange(brokers - (kind in (CUT, SLOW)))
        seconds = draw.uniform(0.3, longest)
        if kind == CUT and seed // len(KINDS) % len(KINDS) == 0:
            seconds = max(longest, LONG_CUT)
        return cls(kind, victim, seconds, events, draw.randrange(events // 2))


class Outcome(msgspec.Struct, frozen=True):
    """What became of the events of a schedule."""

    acknowledged: int
    missing: int  # acknowledged events that did not arrive
    excused: int  # of those, the ones of a subscriber who was told that its session is gone
    repeated_once: int  # events of QoS 2 that came again
    disordered: int  # first arrivals behind one that was published later
    tables_differ: bool  # from those of fresh routers
    heartbeats_missed: int  # connections that ended in a storm of subscriptions
    memory_growth: int = 0  # bytes, of the broker that grew most

    @property
    def is_right(self) -> bool:
        """Whether every promise was kept."""
        wrong = self.missing - self.excused, self.repeated_once, self.disordered, self.heartbeats_missed
        return not any(wrong) and not self.tables_differ


def judged(
    publisher: Steady, subscriber: Steady, tables_differ: bool, heartbeats_missed: int, growth: int = 0
) -> Outcome:
    """Compares what was acknowledged with what came."""
    came = {qos: [number for topic, number in subscriber.came if topic == name] for qos, name in TOPICS.items()}
    missing = sum(number not in set(came[qos]) for qos, number in set(publisher.acknowledged))
    repeats = Counter(came[2])
    repeated = sum(count - 1 for number, count in repeats.items() if number not in publisher.republished)
    disordered = 0
    for numbers in came.values():
        firsts = [number for number in dict.fromkeys(numbers) if number not in publisher.republished]
        disordered += sum(one > other for one, other in pairwise(firsts))
    excused = missing if subscriber.new_sessions > 1 else 0
    if subscriber.new_sessions > 1:
        repeated = 0
    return Outcome(
        len(set(publisher.acknowledged)),
        missing,
        excused,
        repeated,
        disordered,
        tables_differ,
        heartbeats_missed,
        growth,
    )


def fresh_tables(shares: Mapping[int, Share], wanted: Mapping[int, Iterable[Filter]]) -> dict[int, list[TableRow]]:
    """The forwarding tables that routers compute that have never seen a failure; ``wanted`` has the filters of each
    broker's clients."""
    wiring = Wiring(shares, make_policy("active"))
    number = 0
    for broker, filters in wanted.items():
        for one in filters:
            number += 1
            wiring.do(broker, wiring.routers[broker].subscribe(-number - 1, number, 0, one))
            wiring.settle()
    return {broker: rows_of(router) for broker, router in wiring.routers.items()}
