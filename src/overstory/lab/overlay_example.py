"""Small worked examples of the overlay problem.

The example of Zhao and Wu's Figs. 3 to 5 has six users and three brokers; its prices and traffic are lost with its
figures, so these are ours, and so is what it costs. As in the paper, flows between users have nothing in common: each
pair of users has an attribute value of its own. The star is the counter-example to the paper's claim that the cheapest
multicast tree of some brokers is their minimum spanning tree: three brokers at distance 2 of each other, and a hub at
distance 1, which nobody is attached to.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from overstory.lab.quadratic import write_overlay
from overstory.model.settings import Prices, Settings
from overstory.model.tables import BROKERS, CLIENTS, EVENTS, LINKS, SUBSCRIPTIONS

ATTRIBUTE = "pair"
EVENT_SCHEMA = pa.schema([*EVENTS.schema, pa.field(ATTRIBUTE, pa.int64())])
USERS, BROKERS_ = 6, 3
ACCESS = (  # by user and broker
    (2, 6, 9),
    (3, 5, 8),
    (7, 2, 6),
    (6, 3, 4),
    (9, 6, 2),
    (8, 4, 3),
)
CORE = ((0, 2, 3), (2, 0, 2), (3, 2, 0))  # by two brokers
TRAFFIC = (  # by user that sends and user that gets: bytes
    (0, 4, 1, 0, 16, 0),
    (3, 0, 0, 2, 0, 5),
    (0, 1, 0, 5, 2, 0),
    (1, 0, 4, 0, 0, 3),
    (17, 0, 0, 1, 0, 2),
    (0, 6, 1, 0, 3, 0),
)


def make_example(folder: Path) -> None:
    """The scenario of six users and three brokers. Each byte is an event, so that all parts of a log have all pairs."""
    tables = {
        "brokers": _brokers(BROKERS_),
        "links": _links(ACCESS, CORE),
        "clients": _clients(USERS, BROKERS_),
        "subscriptions": _subscriptions(),
    }
    pairs = [(i, j) for i in range(USERS) for j in range(USERS) for _ in range(TRAFFIC[i][j] * TIMES)]
    _write(folder, "overlay-example", tables, pairs)


def make_star(folder: Path) -> None:
    """One publisher and two subscribers, each with a free link to a broker of its own, and a hub."""
    far, near = 2.0, 1.0
    core = [[0.0 if i == j else near if 3 in (i, j) else far for j in range(4)] for i in range(4)]
    links = [[0.0 if user == broker else None for broker in range(4)] for user in range(3)]
    wanted = {"id": [0, 1], "client": [5, 6], "filter": [f"{ATTRIBUTE} = 0"] * 2, "no_local": [False, False]}
    tables = {
        "brokers": _brokers(4),
        "links": _links(links, core),
        "clients": _clients(3, 4),
        "subscriptions": pa.table(wanted, SUBSCRIPTIONS.schema),
    }
    events = [[number, float(number), 4, 1, 0] for number in range(20)]
    _write_events(folder, "star", tables, events)


TIMES = 20  # a byte of the table is so many events of one byte, so that samples are near to the whole


def _brokers(count: int) -> pa.Table:
    nothing = pa.nulls(count, pa.float64())
    columns = {"id": np.arange(count), "name": [f"B{i + 1}" for i in range(count)], "x": nothing, "y": nothing}
    return BROKERS.completed(pa.table(columns))


def _links(access: object, core: object) -> pa.Table:
    rows = [(i, j, float(price)) for i, line in enumerate(core) for j, price in enumerate(line) if i != j]  # type: ignore[var-annotated, arg-type]
    brokers = len(core)  # type: ignore[arg-type]
    for user, line in enumerate(access):  # type: ignore[var-annotated, arg-type]
        for broker, price in enumerate(line):
            if price is not None:
                rows += [(brokers + user, broker, float(price)), (broker, brokers + user, float(price))]
    source, target, price = zip(*rows, strict=True)
    return pa.table({"source": source, "target": target, "price": price, "delay": price}, LINKS.schema)


def _clients(count: int, first: int) -> pa.Table:
    nothing = pa.nulls(count, pa.float64())
    columns = {
        "id": first + np.arange(count),
        "broker": pa.nulls(count, pa.int64()),
        "x": nothing,
        "y": nothing,
        "name": [f"U{i + 1}" for i in range(count)],
    }
    return CLIENTS.completed(pa.table(columns))


def _subscriptions() -> pa.Table:
    rows = [
        (BROKERS_ + j, f"{ATTRIBUTE} = {USERS * i + j}") for i in range(USERS) for j in range(USERS) if TRAFFIC[i][j]
    ]
    client, filters = zip(*rows, strict=True)
    columns = {"id": np.arange(len(rows)), "client": client, "filter": filters, "no_local": [False] * len(rows)}
    return pa.table(columns, SUBSCRIPTIONS.schema)


def _write(folder: Path, name: str, tables: dict[str, pa.Table], pairs: list[tuple[int, int]]) -> None:
    order = np.random.default_rng(0).permutation(len(pairs)).tolist()
    events = [
        [number, float(number), BROKERS_ + pairs[at][0], 1, USERS * pairs[at][0] + pairs[at][1]]
        for number, at in enumerate(order)
    ]
    _write_events(folder, name, tables, events)


def _write_events(folder: Path, name: str, tables: dict[str, pa.Table], events: list[list[float]]) -> None:
    columns = zip(*events, strict=True)
    log = pa.table(dict(zip(EVENT_SCHEMA.names, map(list, columns), strict=True)), EVENT_SCHEMA)
    settings = Settings(name=name, prices=Prices(core=1.0, access=1.0), coalesce=False, made_by={"kind": name})
    write_overlay(folder, settings, tables, log)
