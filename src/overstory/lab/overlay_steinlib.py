"""Steiner tree problems as scenarios of the overlay problem, by Zhao and Wu's own reduction (their Fig. 2).

Nodes become brokers and edges links with their weights as prices. Each terminal becomes a broker with one user on a
free link, which is the only one that the user has. The first user is the only publisher, and sends what all others
subscribe to. So the cheapest core carries each byte along a Steiner tree.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa

from overstory.lab.quadratic import write_overlay
from overstory.lab.stp import Problem
from overstory.model.settings import Prices, Settings
from overstory.model.tables import BROKERS, CLIENTS, EVENTS, LINKS, SUBSCRIPTIONS

EVENTS_ = 10  # of one byte each, so that every part of the log has some
EVENT_SCHEMA = pa.schema([*EVENTS.schema, pa.field("value", pa.float64())])


def make_reduction(folder: Path, problem: Problem) -> None:
    """A byte costs what the Steiner tree weighs."""
    users = problem.nodes + np.arange(len(problem.terminals))
    free = [
        (end, user, 0.0)
        for pair in zip(problem.terminals, users.tolist(), strict=True)
        for end, user in (pair, pair[::-1])
    ]
    source, target, price = zip(*problem.links, *free, strict=True)
    count, nothing = problem.nodes, pa.nulls(problem.nodes, pa.float64())
    brokers = {"id": np.arange(count), "name": pa.nulls(count, pa.string()), "x": nothing, "y": nothing}
    nowhere = pa.nulls(len(users), pa.float64())
    clients = {"id": users, "broker": pa.nulls(len(users), pa.int64()), "x": nowhere, "y": nowhere}
    others = users[1:]
    wanted = {
        "id": np.arange(len(others)),
        "client": others,
        "filter": ["value >= 0.0 AND value < 1.0"] * len(others),
        "no_local": np.zeros(len(others), bool),
    }
    tables = {
        "brokers": pa.table(brokers, BROKERS.schema),
        "links": pa.table({"source": source, "target": target, "price": price, "delay": price}, LINKS.schema),
        "clients": pa.table(clients, CLIENTS.schema),
        "subscriptions": pa.table(wanted, SUBSCRIPTIONS.schema),
    }
    ids = np.arange(EVENTS_)
    columns = [
        ids,
        ids.astype(np.float64),
        np.full(EVENTS_, users[0]),
        np.ones(EVENTS_, np.int64),
        np.full(EVENTS_, 0.5),
    ]
    log = pa.table(dict(zip(EVENT_SCHEMA.names, columns, strict=True)), EVENT_SCHEMA)
    settings = Settings(
        name=f"steinlib {problem.name}",
        prices=Prices(core=1.0, access=1.0),
        coalesce=False,
        made_by={"kind": "steinlib", "problem": problem.name},
    )
    write_overlay(folder, settings, tables, log)
