"""Topics: changes of interests replayed by the kernel and by the state machines, which have to decide the same.

The bars: 75,000 changes in half a second literally, three with re-covering, twenty by the state machines with all their
messages. A million users are in ``topics_million``.
"""

import time
from collections.abc import Iterator

from benchmarks.measure import Measurement
from overstory.lab.topics import Topics, draw_workload
from overstory.planners.topics.core.formulas import tables_of
from overstory.planners.topics.core.system import System
from overstory.planners.topics.costs import linear
from overstory.planners.topics.replaying import LITERAL, RECOVERING, Rules, empty_state, replayed

BARS = {LITERAL: 0.5, RECOVERING: 3.0}
MACHINES = 20.0
ROOM = 424
UNIT = "s of one core"


def replay(quick: bool) -> Iterator[Measurement]:
    """The same changes by the kernel and by the state machines, which have to send the same messages."""
    work = draw_workload(Topics(users=60, topics=24, natural_clusters=3, interests=9) if quick else Topics(), 1)
    demand = work.demand
    costs = linear(demand.users, len(demand.rates))
    for mode, name in ((LITERAL, "literally"), (RECOVERING, "re-covering")):
        rules = Rules(mode, seed=1)
        replayed(empty_state(demand.users, demand.rates, costs, rules, ROOM), work.changes)  # compiled now
        start = time.process_time()
        done = replayed(empty_state(demand.users, demand.rates, costs, rules, ROOM), work.changes)
        taken = time.process_time() - start
        size = f"{len(work.changes.times):,} changes, {name}"
        yield Measurement("topics-replay", size, taken, bar=BARS[mode], unit=UNIT)
        system = System(demand.users, demand.rates.tolist(), tables_of(costs), rules, ROOM)
        start = time.process_time()
        for user, topic in zip(work.changes.users.tolist(), work.changes.topics.tolist(), strict=True):
            system.gain_interest(user, topic)
        taken = time.process_time() - start
        assert system.sent == done.state.messages.tolist()
        size = f"{len(work.changes.times):,} changes, {name}, {sum(system.sent):,} messages by state machines"
        yield Measurement("topics-replay", size, taken, bar=MACHINES, unit=UNIT)
