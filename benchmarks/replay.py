"""Replay: what a change costs when it goes through the routers of all brokers, under active covering.

A transit-stub network and one tree of cheapest paths. Subscriptions are boxes of a price and a volume, one in fifty of
them with a symbol too. In the market that the bar is set for, the plane is a board of segments. Four clients watch each
segment as a whole: their subscriptions come first and stay. Nearly all others want a box within a segment, and a few
ROAM: their boxes lie anywhere, at any size, so that they go to all brokers and uncover others when they leave. In the
wild there are no watchers and all roam. Half of the changes subscribe, nearly half end a random subscription, and some
move a client with all that it wants.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.measure import Measurement
from overstory.lab.replay import replay
from overstory.lab.topologies import as_tables, topology
from overstory.model.network import Ints
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import CHANGES, CLIENTS, EVENTS, SUBSCRIPTIONS
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.routing.policies import make_policy

BROKERS = 100
CLIENTS_EACH = 20
CHANGED = 100_000
HELD = 2_000  # subscriptions at the first event, which the plan knows
BAR = 60.0  # seconds of one core
MOVES = 0.02  # of all changes
BOARD = 8  # segments in each attribute
WATCHERS = 4  # of each segment
ROAM = 0.03  # of all but the watchers
WIDEST, NARROWEST = 0.5, 0.002  # sides of boxes, of the range of an attribute


def churn(quick: bool) -> Iterator[Measurement]:
    """All changes of a scenario, each run to quiescence."""
    brokers, held, changed = (10, 50, 500) if quick else (BROKERS, HELD, CHANGED)
    for kind, some, roam, bar in (("market", changed, ROAM, BAR), ("wild", changed // 50, 1.0, None)):
        with tempfile.TemporaryDirectory() as folder:
            scenario = make_churn(Path(folder) / kind, brokers, held, some, roam)
            plan = make_plan("spt", scenario, Workbench(scenario), {}, 1)
            found = replay(scenario, plan, make_policy("active"))
        messages = found.churn.total / some
        size = f"{kind}: {some:,} changes, {brokers} brokers, {messages:.1f} messages each"
        yield Measurement("replay", size, found.seconds, bar=bar, unit="s of one core")


def make_churn(folder: Path, brokers: int, held: int, changed: int, roam: float, seed: int = 1) -> Scenario:
    """Writes the scenario: one event, and after it as many changes."""
    dice = np.random.default_rng(seed)
    watchers = WATCHERS * BOARD**2 if roam < 1 else 0
    clients = brokers + np.arange(brokers * CLIENTS_EACH)
    owner = dice.choice(clients, held)
    none = pa.nulls(len(clients), pa.float64())
    texts = [*filters(dice, held, roam), *watching(watchers), *filters(dice, changed - watchers, roam)]
    tables = as_tables(topology("transit-stub", brokers, seed)) | {
        "clients": pa.table([clients, np.arange(len(clients)) % brokers, none, none], schema=CLIENTS.schema),
        "subscriptions": pa.table([np.arange(held), owner, texts[:held], np.zeros(held, bool)], SUBSCRIPTIONS.schema),
        "changes": changes_of(dice, brokers, clients, owner.tolist(), texts, watchers),
    }
    event = pa.table([[0], [0.0], [int(clients[0])], [1], [0.5], [0.5], ["s1"]], EVENT_SCHEMA)
    write_scenario(folder, Settings(name="churn"), tables, event)
    return read_scenario(folder)


EVENT_SCHEMA = pa.schema([*EVENTS.schema, ("price", pa.float64()), ("volume", pa.float64()), ("symbol", pa.string())])


def watching(count: int) -> list[str]:
    """Each segment as a whole, as often as it is watched."""
    corners = [(across / BOARD, up / BOARD) for across in range(BOARD) for up in range(BOARD)]
    return [box(x, y, x + 1 / BOARD, y + 1 / BOARD) for x, y in corners * WATCHERS][:count]


def filters(dice: np.random.Generator, count: int, roam: float) -> list[str]:
    """Boxes whose sides are spread evenly over orders of magnitude: within a segment, or anywhere if they roam."""
    roams = dice.random((count, 1)) < roam
    room = np.where(roams, 1.0, 1 / BOARD)
    sides = NARROWEST * (np.where(roams, WIDEST, 1 / BOARD) / NARROWEST) ** dice.random((count, 2))
    corner = np.where(roams, 0.0, dice.integers(BOARD, size=(count, 2)) / BOARD)
    low = corner + dice.random((count, 2)) * (room - sides)
    symbols = np.where(dice.random(count) < 0.02, dice.integers(1, 50, count), 0).tolist()
    return [
        box(*corners) + (f" AND symbol = 's{symbol}'" if symbol else "")
        for corners, symbol in zip(np.round(np.hstack((low, low + sides)), 6).tolist(), symbols, strict=True)
    ]


def box(left: float, bottom: float, right: float, top: float) -> str:
    """A range of prices and of volumes."""
    return f"price BETWEEN {left} AND {right} AND volume BETWEEN {bottom} AND {top}"


def changes_of(
    dice: np.random.Generator, brokers: int, clients: Ints, owner: list[int], texts: list[str], watchers: int
) -> pa.Table:
    """Watchers, then subscriptions that come and go, and clients that move."""
    live, rows, changed = list(enumerate(owner)), list[tuple[Any, ...]](), len(texts) - len(owner)
    who, where = dice.choice(clients, changed).tolist(), dice.integers(brokers, size=changed).tolist()
    chance, which = dice.random(changed).tolist(), dice.random(changed).tolist()
    for row in range(changed):
        time, id_ = 1.0 + row, len(owner) + row
        if row < watchers:
            rows.append((time, "subscribe", who[row], id_, texts[id_], None))
        elif chance[row] < MOVES:
            rows.append((time, "move", who[row], None, None, where[row]))
        elif chance[row] < (1 + MOVES) / 2 or not live:
            live.append((id_, who[row]))
            rows.append((time, "subscribe", who[row], id_, texts[id_], None))
        else:
            place = int(which[row] * len(live))
            live[place], live[-1] = live[-1], live[place]
            id_, client = live.pop()
            rows.append((time, "unsubscribe", client, id_, None, None))
    return pa.table(dict(zip(CHANGES.schema.names, zip(*rows, strict=True), strict=True)), schema=CHANGES.schema)
