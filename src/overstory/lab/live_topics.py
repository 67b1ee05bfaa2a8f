"""Clusters of topics on live brokers of ours: a scenario of topics spread over a tree of brokers, planned, installed,
played, and what was measured beside what the meter and replay say.

The log is played first, and the changes of interests after it, one at a time: so traffic and upkeep are those of the
plan, which the meter prices, and control is what replay counts.
"""

import asyncio
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from overstory.broker.reports import Report
from overstory.lab.live import Network
from overstory.lab.rehearsal import (
    Ints,
    Rehearsal,
    Rehearsed,
    plan_for_sized,
    sized,
    types_of,
    wanted,
)
from overstory.lab.replay import Replayed, replay
from overstory.lab.topics import PUBLISHER, M, Topics, draw_events, draw_workload, subscription_tables, topic_names
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.scorecard import Scorecard, Traffic
from overstory.model.settings import Prices, Settings
from overstory.model.tables import BROKERS, CHANGES, CLIENTS, LINKS
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.planners.topics.demand import Demand
from overstory.routing.policies import active, make_policy

FIRST_CLIENT = 1000  # brokers and clients share one space of ids
PRICES = Prices(upkeep_access=1.0, upkeep_association=1.0, access=1.0, upkeep_core=0.1, control=1.0)


class Pair(NamedTuple):
    """Something that was measured, and what the meter or replay says of it."""

    measured: float
    predicted: float


class Compared(NamedTuple):
    """What live brokers did. ``missed`` are events that a client should have got and did not, ``unasked`` those that it
    got unasked. The last three are after the changes of interests."""

    frames: Pair  # between brokers
    bytes: Pair
    links_that_differ: int
    access_copies: Pair  # to clients
    access_bytes: Pair  # from and to clients
    entries_core: Pair
    entries_access: Pair
    upkeep: Pair  # their price, and that of the topics in clusters, for all intervals of the log
    missed: int
    unasked: int
    clusters: int
    control: Pair  # subscriptions and their ends that crossed links
    control_links_that_differ: int
    entries_after: Pair


def spread(folder: Path, what: Topics, brokers: int, publishers: int, seed: int, changing: int = 0) -> Scenario:
    """Users of natural clusters at the brokers of a drawn tree, and publishers at some of them. So many users change
    their interests after the last event."""
    work, draw = draw_workload(what, seed), np.random.default_rng([seed, 10])
    names = topic_names(what.topics)
    above = [int(draw.integers(each)) for each in range(1, brokers)]
    pairs = [pair for below, up in enumerate(above, 1) for pair in ((below, up), (up, below))]
    ends = {"source": [u for u, _ in pairs], "target": [v for _, v in pairs]}
    links = ends | {"price": np.ones(len(pairs)), "delay": np.ones(len(pairs))}
    users = what.users
    ids = FIRST_CLIENT + np.arange(users + publishers)
    homes = np.concatenate([np.arange(users) % brokers, np.arange(publishers) * brokers // publishers])
    subscriptions = subscription_tables(work.demand, names)["subscriptions"]
    clients = np.asarray(subscriptions["client"]) - PUBLISHER - 1 + FIRST_CLIENT
    subscriptions = subscriptions.set_column(1, "client", pa.array(clients))
    events = draw_events(work.demand.rates, names, what.intervals, draw)
    who = FIRST_CLIENT + users + draw.integers(publishers, size=events.num_rows)
    events = events.set_column(events.schema.get_field_index("$publisher"), "$publisher", pa.array(who))
    names_of = [f"b{each}" for each in range(brokers)]
    tables = {
        "brokers": BROKERS.completed(pa.table({"id": np.arange(brokers), "name": names_of, **_at(brokers)})),
        "links": pa.table(links, schema=LINKS.schema),
        "clients": CLIENTS.completed(pa.table({"id": ids, "broker": homes, **_at(len(ids))})),
        "subscriptions": subscriptions,
    }
    if changing:
        tables["changes"] = _changes(work.demand, names, what.intervals * M, changing, draw)
    write_scenario(folder, Settings(name="topics", prices=PRICES, intervals=what.intervals), tables, events)
    return read_scenario(folder)


def _at(count: int) -> dict[str, np.ndarray]:
    """All in one place: nothing depends on coordinates."""
    return {"x": np.zeros(count), "y": np.zeros(count)}


def _changes(demand: Demand, names: list[str], start: float, changing: int, draw: np.random.Generator) -> pa.Table:
    """Each of some users takes its subscription back and makes another, for a topic less and a topic more."""
    wanting = np.flatnonzero(np.diff(demand.offsets) > 0)
    rows = []
    for number, user in enumerate(draw.permutation(wanting)[:changing].tolist()):
        topics = set(demand.topics[demand.offsets[user] : demand.offsets[user + 1]].tolist())
        topics.discard(int(draw.choice(sorted(topics))))
        topics.add(int(draw.integers(len(names))))
        text = f"topic IN ({', '.join(repr(names[each]) for each in sorted(topics))})"
        rows += [
            (start + 2 * number + 1, "unsubscribe", FIRST_CLIENT + user, user, None, None),
            (start + 2 * number + 2, "subscribe", FIRST_CLIENT + user, user, text, None),
        ]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=CHANGES.schema)


class Played(NamedTuple):
    """What was measured, before the changes and after them."""

    found: Rehearsed
    messages: Ints  # on each directed link, while interests changed
    after: dict[int, Report]


async def _play(rehearsal: Rehearsal) -> Played:
    try:
        await rehearsal.join()
        await rehearsal.play()
        found = rehearsal.result()
        await _change(rehearsal)
        after = rehearsal.network.reports()
        return Played(found, _entries(rehearsal.scenario, after) - _entries(rehearsal.scenario, found.reports), after)
    finally:
        rehearsal.crowd.close()


async def _change(rehearsal: Rehearsal) -> None:
    """Plays the changes, each to its end."""
    scenario, crowd = rehearsal.scenario, rehearsal.crowd
    held = {row["id"]: row["filter"] for row in scenario.subscriptions.to_pylist()}
    for row in scenario.changes.to_pylist():
        if row["operation"] == "unsubscribe":
            crowd.unsubscribe(row["client"], [held.pop(row["subscription"])])
        else:
            held[row["subscription"]] = row["filter"]
            crowd.subscribe_further(row["client"], row["filter"])
        await rehearsal.settle()


def _entries(scenario: Scenario, reports: dict[int, Report]) -> Ints:
    """Subscriptions and their ends that have crossed each directed link so far."""
    network = scenario.network
    links = zip(network.ids[network.sources].tolist(), network.ids[network.targets].tolist(), strict=True)
    sent = {(broker, link.peer): link.traffic.entries for broker, report in reports.items() for link in report.links}
    return np.array([sent[link] for link in links], np.int64)


def played(scenario: Scenario, plan: Plan, folder: Path, takes_clusters: bool) -> Compared:
    """Installs the plan on live brokers, plays the log and the changes, and compares. ``scenario`` has the sizes of
    packets."""
    plan.write(folder / "plan")
    card, traffic = Workbench(scenario).measured(plan)
    with Network(scenario.folder, folder / "plan", folder / "logs", {"types": types_of(scenario)}) as network:
        rehearsal = Rehearsal(scenario, plan, network, takes_clusters)
        seen = asyncio.run(_play(rehearsal))
        should = wanted(scenario, rehearsal.log)
    replayed = replay(scenario, plan, make_policy(active.NAME))
    return _compared(plan, rehearsal, seen, should, (card, traffic), replayed)


def _compared(
    plan: Plan,
    rehearsal: Rehearsal,
    seen: Played,
    should: dict[int, set[int]],
    metered: tuple[Scorecard, Traffic],
    replayed: Replayed,
) -> Compared:
    (card, traffic), found, log = metered, seen.found, rehearsal.log
    sizes = dict(zip(log.ids, map(len, log.packets), strict=True))
    came = [event for events in found.got.values() for event in events.tolist()]
    got = {client: set(events.tolist()) for client, events in found.got.items()}
    access = sum(report.entries_access for report in found.reports.values())
    core = sum(report.entries for report in found.reports.values()) - access
    associations = int(np.sum(plan.flows["associations"].to_numpy()))
    priced = PRICES.upkeep_core * core + PRICES.upkeep_access * access + PRICES.upkeep_association * associations
    return Compared(
        Pair(int(found.events.sum()), int(traffic.frames.sum())),
        Pair(int(found.bytes.sum()), int(traffic.bytes.sum())),
        int(np.sum((found.events != traffic.frames) | (found.bytes != traffic.bytes))),
        Pair(len(came), card.deliveries + card.discards),
        Pair(sum(sizes[event] for event in came) + sum(sizes.values()), card.access_bytes),
        Pair(core, card.entries_core or 0),
        Pair(access, card.entries_access or 0),
        Pair(round(priced * rehearsal.scenario.settings.intervals, 6), card.upkeep),
        sum(len(events - got.get(client, set())) for client, events in should.items()),
        sum(len(events - should.get(client, set())) for client, events in got.items()),
        int(np.sum(plan.flows["associations"].to_numpy() > 0)),
        Pair(int(seen.messages.sum()), replayed.churn.total),
        int(np.sum(seen.messages != replayed.churn.by_link)),
        Pair(sum(report.entries for report in seen.after.values()), int(replayed.entries.sum())),
    )


def tried(
    folder: Path,
    what: Topics,
    brokers: int,
    publishers: int,
    seed: int,
    planner: str,
    takes_clusters: bool = False,
    changing: int = 0,
) -> Compared:
    scenario = sized(spread(folder / "made", what, brokers, publishers, seed, changing), folder / "sized")
    plan = plan_for_sized(make_plan(planner, scenario, Workbench(scenario), {}, seed), scenario)
    return played(scenario, plan, folder, takes_clusters)


def main(arguments: list[str]) -> None:
    """``python -m overstory.lab.live_topics [brokers users topics changing]``: what both kinds of plans come to."""
    import json
    import tempfile

    brokers, users, topics, changing = [int(each) for each in arguments] or [10, 60, 24, 20]
    what = Topics(users=users, topics=topics, natural_clusters=3, interests=12, intervals=48, changes=False)
    for planner in ("scribe", "topic-search"):
        for takes in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                found: dict[str, Any] = tried(
                    Path(folder), what, brokers, max(1, brokers // 2), 1, planner, takes, changing
                )._asdict()
            print(json.dumps({"planner": planner, "takes_clusters": takes, **found}), flush=True)


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
