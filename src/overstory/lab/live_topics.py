"""Clusters of topics on live brokers of ours: a scenario of topics spread over a tree of brokers, planned, installed,
played, and what was measured beside what the meter and replay say."""

import asyncio
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overstory.lab.live import Network
from overstory.lab.rehearsal import Rehearsal, plan_for_sized, rehearse, sized, types_of, wanted
from overstory.lab.replay import replay
from overstory.lab.topics import PUBLISHER, Topics, draw_events, draw_workload, subscription_tables, topic_names
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.settings import Prices, Settings
from overstory.model.tables import BROKERS, CLIENTS, LINKS
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.routing.policies import active, make_policy

FIRST_CLIENT = 1000  # brokers and clients share one space of ids


class Compared(NamedTuple):
    """Copies and bytes between brokers, measured and by the meter, and entries of forwarding tables, measured and by
    replay. ``missed`` are events that a client should have got and did not, ``unasked`` those that it got unasked."""

    frames: int
    frames_predicted: int
    bytes: int
    bytes_predicted: int
    links_that_differ: int
    entries: int
    entries_predicted: int
    missed: int
    unasked: int
    clusters: int


def spread(folder: Path, what: Topics, brokers: int, publishers: int, seed: int) -> Scenario:
    """Users of natural clusters at the brokers of a drawn tree, and publishers at some of them."""
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
    prices = Prices(upkeep_access=1.0, upkeep_association=1.0, access=1.0, upkeep_core=0.1)
    settings = Settings(name="topics", prices=prices, intervals=what.intervals)
    write_scenario(folder, settings, tables, events)
    return read_scenario(folder)


def _at(count: int) -> dict[str, np.ndarray]:
    """All in one place: nothing depends on coordinates."""
    return {"x": np.zeros(count), "y": np.zeros(count)}


def played(scenario: Scenario, plan: Plan, folder: Path) -> Compared:
    """Installs the plan on live brokers, plays the log, and compares. ``scenario`` has the sizes of packets."""
    plan.write(folder / "plan")
    _, predicted = Workbench(scenario).measured(plan)
    with Network(scenario.folder, folder / "plan", folder / "logs", {"types": types_of(scenario)}) as network:
        rehearsal = Rehearsal(scenario, plan, network)
        found = asyncio.run(rehearse(rehearsal))
        should = wanted(scenario, rehearsal.log)
    got = {client: set(events.tolist()) for client, events in found.got.items()}
    return Compared(
        int(found.events.sum()),
        int(predicted.frames.sum()),
        int(found.bytes.sum()),
        int(predicted.bytes.sum()),
        int(np.sum((found.events != predicted.frames) | (found.bytes != predicted.bytes))),
        sum(report.entries for report in found.reports.values()),
        int(replay(scenario, plan, make_policy(active.NAME)).entries.sum()),
        sum(len(events - got.get(client, set())) for client, events in should.items()),
        sum(len(events - should.get(client, set())) for client, events in got.items()),
        int(np.sum(plan.flows["associations"].to_numpy() > 0)),
    )


def tried(folder: Path, what: Topics, brokers: int, publishers: int, seed: int, planner: str) -> Compared:
    scenario = sized(spread(folder / "made", what, brokers, publishers, seed), folder / "sized")
    plan = plan_for_sized(make_plan(planner, scenario, Workbench(scenario), {}, seed), scenario)
    return played(scenario, plan, folder)
