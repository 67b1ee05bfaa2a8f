"""Replay: what a change costs when it goes through the routers of all brokers, under active covering.

A transit-stub network, one tree of cheapest paths, and subscriptions to boxes of two attributes (a price and a volume,
in a hundredth of those a symbol as well): most are narrow, some wide, as in a market where a few watch everything. Half
of the changes are subscriptions, nearly half unsubscriptions of random ones, and a twentieth are clients that move.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.measure import Measurement
from overstory.lab.replay import replay
from overstory.lab.topologies import as_tables, topology
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import CHANGES, CLIENTS, EVENTS, SUBSCRIPTIONS
from overstory.pipeline.workbench import Workbench
from overstory.planners.registry import make_plan
from overstory.routing.policies import make_policy

BROKERS = 100
CLIENTS_EACH = 20
CHANGED = 100_000
HELD = 5_000  # subscriptions at the first event
BAR = 60.0  # seconds of one core
MOVES = 0.05  # of all changes
WIDEST = 0.5  # of the range of an attribute
NARROWEST = 0.002


def churn(quick: bool) -> Iterator[Measurement]:
    """All changes of a scenario, each run to quiescence."""
    brokers, held, changed = (10, 50, 200) if quick else (BROKERS, HELD, CHANGED)
    with tempfile.TemporaryDirectory() as folder:
        scenario = make_churn(Path(folder) / "churn", brokers, held, changed, seed=1)
        plan = make_plan("spt", scenario, Workbench(scenario), {}, 1)
        found = replay(scenario, plan, make_policy("active"))
    messages = found.churn.total / changed
    size = f"{changed:,} changes, {brokers} brokers, {messages:.1f} messages each"
    yield Measurement("replay", size, found.seconds, bar=BAR, unit="s of one core")


def make_churn(folder: Path, brokers: int, held: int, changed: int, seed: int) -> Scenario:
    """Writes the scenario: one event, and after it as many changes."""
    dice = np.random.default_rng(seed)
    clients = brokers + np.arange(brokers * CLIENTS_EACH)
    owner = dice.choice(clients, held)
    none = pa.nulls(len(clients), pa.float64())
    texts = filters(dice, held + changed)
    tables = as_tables(topology("transit-stub", brokers, seed)) | {
        "clients": pa.table([clients, np.arange(len(clients)) % brokers, none, none], schema=CLIENTS.schema),
        "subscriptions": pa.table([np.arange(held), owner, texts[:held], np.zeros(held, bool)], SUBSCRIPTIONS.schema),
        "changes": changes_of(dice, brokers, clients, owner.tolist(), texts, changed),
    }
    event = pa.table([[0], [0.0], [int(clients[0])], [1], [0.5], [0.5], ["s1"]], EVENT_SCHEMA)
    write_scenario(folder, Settings(name="churn"), tables, event)
    return read_scenario(folder)


EVENT_SCHEMA = pa.schema([*EVENTS.schema, ("price", pa.float64()), ("volume", pa.float64()), ("symbol", pa.string())])


def filters(dice: np.random.Generator, count: int) -> list[str]:
    """Boxes whose sides are spread evenly over the orders of magnitude between the narrowest and the widest."""
    widths = NARROWEST * (WIDEST / NARROWEST) ** dice.random((count, 2))
    low = dice.random((count, 2)) * (1 - widths)
    rows = np.round(np.hstack((low, low + widths)), 6).tolist()
    symbols = np.where(dice.random(count) < 0.01, dice.integers(1, 50, count), 0).tolist()
    return [
        f"price BETWEEN {a} AND {c} AND volume BETWEEN {b} AND {d}" + (f" AND symbol = 's{symbol}'" if symbol else "")
        for (a, b, c, d), symbol in zip(rows, symbols, strict=True)
    ]


def changes_of(
    dice: np.random.Generator, brokers: int, clients: np.ndarray, owner: list[int], texts: list[str], changed: int
) -> pa.Table:
    """Subscriptions that come and go, and clients that move."""
    live, rows = list(enumerate(owner)), []
    who, where = dice.choice(clients, changed).tolist(), dice.integers(brokers, size=changed).tolist()
    chance, which = dice.random(changed).tolist(), dice.random(changed).tolist()
    for row in range(changed):
        time = 1.0 + row
        if chance[row] < MOVES:
            rows.append((time, "move", who[row], None, None, where[row]))
        elif chance[row] < (1 + MOVES) / 2 or not live:
            id_ = len(owner) + row
            live.append((id_, who[row]))
            rows.append((time, "subscribe", who[row], id_, texts[id_], None))
        else:
            place = int(which[row] * len(live))
            live[place], live[-1] = live[-1], live[place]
            id_, client = live.pop()
            rows.append((time, "unsubscribe", client, id_, None, None))
    return pa.table(dict(zip(CHANGES.schema.names, zip(*rows, strict=True), strict=True)), schema=CHANGES.schema)
