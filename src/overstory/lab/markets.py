"""A small scenario for live networks: quotes of shares that clients at random brokers publish and want.

Filters are equalities and ranges over four attributes, so that what matches can also be found by a loop of NumPy.
"""

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from overstory.model.scenario import write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import BROKERS, CLIENTS, LINKS, SUBSCRIPTIONS, Table

SYMBOLS = 100
TOPICS = 50
FIRST_CLIENT = 1000


class Size(msgspec.Struct, frozen=True):
    """How large a scenario is."""

    brokers: int = 20
    clients: int = 250
    subscriptions: int = 5_000
    events: int = 20_000


def make_market(folder: Path, size: Size, seed: int = 1, headers: bool = True) -> None:
    """Writes a scenario: a random network with twice as many links as brokers, priced in each direction."""
    draw = random.Random(seed)
    clients = range(FIRST_CLIENT, FIRST_CLIENT + size.clients)
    links = _links(draw, size.brokers)
    tables = {
        "brokers": _table(BROKERS, {"id": range(size.brokers)}),
        "links": _table(
            LINKS,
            {
                "source": [source for source, _ in links],
                "target": [target for _, target in links],
                "price": [float(draw.randint(1, 9)) for _ in links],
                "delay": [1.0] * len(links),
            },
        ),
        "clients": _table(CLIENTS, {"id": clients, "broker": [draw.randrange(size.brokers) for _ in clients]}),
        "subscriptions": _table(
            SUBSCRIPTIONS,
            {
                "id": range(size.subscriptions),
                "client": [draw.choice(clients) for _ in range(size.subscriptions)],
                "filter": [_filter(draw) for _ in range(size.subscriptions)],
                "no_local": [draw.random() < 0.05 for _ in range(size.subscriptions)],
            },
        ),
    }
    write_scenario(folder, Settings(name="market", headers=headers), tables, _events(draw, size, clients))


def _links(draw: random.Random, brokers: int) -> list[tuple[int, int]]:
    """A tree, and as many further links; both directions of each."""
    links = {(draw.randrange(broker), broker) for broker in range(1, brokers)}
    most = brokers * (brokers - 1) // 2
    while len(links) < min(2 * brokers, most):
        one, other = sorted(draw.sample(range(brokers), 2))
        links.add((one, other))
    return [link for one, other in sorted(links) for link in ((one, other), (other, one))]


def _filter(draw: random.Random) -> str:
    kind = draw.random()
    if kind < 0.5:
        return f"symbol = 'S{draw.randrange(SYMBOLS)}' AND price > {draw.randint(50, 99)}"
    if kind < 0.9:
        low = draw.randint(0, 95)
        return f"price >= {low} AND price < {low + 2} AND volume > {draw.randint(500, 900)}"
    return f"topic = 'a/{draw.randrange(TOPICS)}' AND volume < {draw.randint(1, 300)}"


def _events(draw: random.Random, size: Size, clients: Sequence[int]) -> pa.Table:
    count = range(size.events)
    return pa.table(
        {
            "$id": pa.array(count, pa.int64()),
            "$time": pa.array([float(number) for number in count]),
            "$publisher": pa.array([draw.choice(clients) for _ in count], pa.int64()),
            "$bytes": pa.array([1] * size.events, pa.int64()),
            "topic": pa.array([f"a/{draw.randrange(TOPICS)}" for _ in count]),
            "symbol": pa.array([f"S{draw.randrange(SYMBOLS)}" for _ in count]),
            "price": pa.array([draw.randrange(100) + 0.5 for _ in count]),
            "volume": pa.array([draw.randrange(1000) for _ in count], pa.int64()),
        }
    )


def _table(table: Table, columns: Mapping[str, Any]) -> pa.Table:
    size = len(next(iter(columns.values())))
    arrays = {field.name: pa.array(columns.get(field.name, [None] * size), field.type) for field in table.schema}
    return pa.table(arrays, schema=table.schema)
