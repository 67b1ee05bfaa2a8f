"""Topics: changes of interests replayed by the kernel and by the state machines, and clusters for a million users.

The bars are those of the issue: 75,000 changes in half a second literally, three with re-covering, twenty by the state
machines with all their messages; a million users and 10,000 topics planned, from their lists of interests, in five
minutes.
"""

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.measure import Measurement
from overstory.lab.graphs import dice
from overstory.lab.topics import Topics, draw_interests, draw_rates, draw_workload
from overstory.pipeline.interests import partners_here
from overstory.planners.topics.clustering import alone, overall
from overstory.planners.topics.core.formulas import tables_of
from overstory.planners.topics.core.system import System
from overstory.planners.topics.costs import linear
from overstory.planners.topics.demand import Demand
from overstory.planners.topics.replaying import LITERAL, RECOVERING, Rules, empty_state, replayed
from overstory.planners.topics.topic_search import PARTNERS, searched

BARS = {LITERAL: 0.5, RECOVERING: 3.0}
MACHINES = 20.0
PLANNED = 300.0
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


def million(quick: bool) -> Iterator[Measurement]:
    """Topic search from lists of interests, without Spark; the clusters cost less than none."""
    users, topics, clusters = (2_000, 200, 16) if quick else (1_000_000, 10_000, 800)
    what = Topics(users=users, topics=topics, natural_clusters=clusters)
    draw = dice(1)
    block = np.arange(topics) * clusters // topics
    demand = Demand(*draw_interests(what, block, draw), draw_rates("average", topics, draw))
    costs = linear(users, topics)
    start = time.process_time()
    found = searched(demand, costs, partners_here(demand.both_ways(), PARTNERS))
    taken = time.process_time() - start
    share = overall(demand, costs, found).cost / overall(demand, costs, alone(demand)).cost
    size = f"{users:,} users, {topics:,} topics, {found.clusters:,} clusters, {share:.3f} of Scribe's cost"
    yield Measurement("topics-million", size, taken, bar=PLANNED, unit=UNIT)
