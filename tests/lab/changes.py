"""Random changes of a random scenario that make sense, and filters that often cover or equal each other."""

import random
from dataclasses import replace
from typing import Any

import pyarrow as pa

from overstory.model.scenario import Scenario
from overstory.model.tables import CHANGES, CLIENTS, SUBSCRIPTIONS

Row = tuple[float, str, int, int | None, str | None, int | None]
CHURN = 1000.0  # later than every event of ``random_scenario``
HISTORY = -1000.0


def random_box(dice: random.Random) -> str:
    """One of few boxes, so that many cover or equal each other."""
    low, bottom = dice.randint(0, 4), dice.randint(0, 4)
    price = f"price BETWEEN {low} AND {low + dice.choice([1, 2, 5])}"
    volume = f"volume BETWEEN {bottom} AND {bottom + dice.choice([1, 2, 5])}"
    return dice.choice([price, volume, f"{price} AND {volume}", f"{price} AND {volume}", f"{price} AND topic = 'a'"])


def with_boxes(dice: random.Random, scenario: Scenario) -> Scenario:
    """The scenario with other subscriptions: boxes that are all different, and at times one to everything."""
    clients = scenario.clients["id"].to_pylist()
    texts = sorted(
        {random_box(dice) for _ in range(dice.randint(0, 15))} | ({"TRUE"} if dice.random() < 0.2 else set())
    )
    dice.shuffle(texts)
    rows = [(10 * number, dice.choice(clients), text, False) for number, text in enumerate(texts)]
    names = SUBSCRIPTIONS.schema.names
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=SUBSCRIPTIONS.full_schema)
    return replace(scenario, subscriptions=table)


def changes_table(rows: list[Row]) -> pa.Table:
    names = CHANGES.schema.names
    return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=CHANGES.full_schema)


class Drawing:
    """Draws changes one after the other, and keeps what is there."""

    def __init__(self, dice: random.Random, scenario: Scenario, away: set[int]) -> None:
        self.dice, self.rows = dice, list[Row]()
        self.brokers: list[int] = scenario.brokers["id"].to_pylist()
        self.here: set[int] = set(scenario.clients["id"].to_pylist()) - away
        self.away = set(away)
        self.live: dict[int, int] = {}  # subscription: client
        self.ended: list[int] = []
        self.fresh: int = 1000 * (1 + scenario.changes.num_rows)  # no id that is in use

    def draw(self, time: float, operations: str) -> None:
        """Adds a change of one of these operations, if there can be one."""
        operation = self.dice.choice(operations.split())
        if operation == "join" and self.away:
            client = self.dice.choice(sorted(self.away))
            self.add(time, operation, client, broker=self.dice.choice(self.brokers))
        elif operation == "unsubscribe" and self.live:
            id_ = self.dice.choice(sorted(self.live))
            self.add(time, operation, self.live[id_], id_)
        elif operation in ("subscribe", "announce", "leave", "move") and self.here:
            client = self.dice.choice(sorted(self.here))
            new = self._id() if operation == "subscribe" else None
            text = random_box(self.dice) if operation in ("subscribe", "announce") else None
            broker = self.dice.choice(self.brokers) if operation == "move" else None
            self.add(time, operation, client, new, text, broker)

    def _id(self) -> int:
        if self.ended and self.dice.random() < 0.3:
            return self.dice.choice(self.ended)
        self.fresh += 1
        return self.fresh

    def add(
        self, time: float, operation: str, client: int, id_: int | None = None, text: str | None = None,
        broker: int | None = None,
    ) -> None:  # fmt: skip
        self.rows.append((time, operation, client, id_, text, broker))
        if operation == "subscribe" and id_ is not None:
            self.live[id_] = client
            self.ended = [ended for ended in self.ended if ended != id_]
        elif operation == "unsubscribe" and id_ is not None:
            del self.live[id_]
            self.ended.append(id_)
        elif operation == "join":
            self.away.discard(client)
            self.here.add(client)
        elif operation == "leave":
            self.here.discard(client)
            self.away.add(client)
            gone = [known for known, owner in self.live.items() if owner == client]
            for known in gone:
                del self.live[known]
            self.ended += gone


def churned(dice: random.Random, scenario: Scenario, operations: str, count: int = 25) -> Scenario:
    """The scenario with churn. A client without subscriptions may be away at first, and join."""
    owners = set(scenario.subscriptions["client"].to_pylist())
    idle = sorted(set(scenario.clients["id"].to_pylist()) - owners - set(scenario.changes["client"].to_pylist()))
    away = {client for client in idle if "join" in operations.split() and dice.random() < 0.5}
    drawing = Drawing(dice, scenario, away)
    drawing.live = dict(zip(*(scenario.subscriptions[name].to_pylist() for name in ("id", "client")), strict=True))
    for client in sorted(away):  # else nothing would say that they are away
        drawing.add(CHURN, "join", client, broker=dice.choice(drawing.brokers))
    for number in range(count):
        drawing.draw(CHURN + number, operations)
    return replace(scenario, changes=_after(scenario.changes, drawing.rows))


def with_history(dice: random.Random, scenario: Scenario, operations: str, count: int = 15) -> Scenario:
    """A scenario whose subscriptions and attachments a random history has led to: of some clients all that they want,
    of the others nothing."""
    stable = {client for client in scenario.clients["id"].to_pylist() if dice.random() < 0.3}
    restless = sorted(set(scenario.clients["id"].to_pylist()) - stable)
    away = {client for client in restless if dice.random() < 0.3}
    drawing = Drawing(dice, scenario, away)
    drawing.here -= stable
    for number in range(count):
        drawing.draw(HISTORY + number, operations)
    for client in sorted(drawing.away):  # everybody is there at the first event, as they may publish
        drawing.add(HISTORY + count, "join", client, broker=dice.choice(drawing.brokers))
    return _ending(scenario, drawing, [row for row in scenario.subscriptions.to_pylist() if row["client"] in stable])


def _ending(scenario: Scenario, drawing: Drawing, untouched: list[dict[str, Any]]) -> Scenario:
    """The scenario whose tables are what the drawn changes have led to."""
    filters, places = {}, dict[int, int | None]()
    for _, operation, client, id_, text, broker in drawing.rows:
        if operation == "subscribe":
            filters[id_] = text
        elif operation in ("join", "move"):
            places[client] = broker
    made = [
        {"id": id_, "client": client, "filter": filters[id_], "no_local": False, "name": None}
        for id_, client in drawing.live.items()
        if id_ in filters
    ]
    clients = [{**row, "broker": places.get(row["id"], row["broker"])} for row in scenario.clients.to_pylist()]
    return replace(
        scenario,
        subscriptions=pa.Table.from_pylist([*untouched, *made], schema=SUBSCRIPTIONS.full_schema),
        clients=pa.Table.from_pylist(clients, schema=CLIENTS.full_schema),
        changes=changes_table(drawing.rows),
    )


def _after(changes: pa.Table, rows: list[Row]) -> pa.Table:
    return pa.concat_tables([changes, changes_table(rows)])
