"""Random small scenarios, and random plans for them that deliver everything that is wanted exactly once.

The plans are no good, on purpose: flows split events in pointless ways, trees wander, filters let too much through.
Whatever prices, routes or simulates plans has to agree on them with the law.
"""

import random
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from overstory.filters import parse_filter
from overstory.model.plan import EVERYTHING, Header, Plan
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.settings import Access, Limits, Prices, Settings
from overstory.model.spanning import minimum_spanning_tree
from overstory.model.tables import (
    ALL,
    ATTACHMENTS,
    BROKERS,
    CLIENTS,
    EVENTS,
    EXACT,
    FILTERS,
    FLOWS,
    LINKS,
    MEMBERS,
    PATHS,
    PLAN_TABLES,
    REGIONS,
    STEINER,
    SUBSCRIPTIONS,
    TREE,
    TREES,
    Table,
)
from overstory.model.tables import WHOLE as EVENTS_
from overstory.routing.law import Event

TOPICS = ["a", "b", "c", "it's"]
SYMBOLS = ["IBM", "AIG", "IBX", "é"]
WORDS = "pqrs"
ATTRIBUTES = pa.schema(
    {
        "topic": pa.string(),
        "price": pa.float64(),
        "volume": pa.int64(),
        "symbol": pa.string(),
        "tags": pa.list_(pa.string()),
    }
)

Link = tuple[int, int]


# Scenarios


def random_scenario(dice: random.Random, folder: Path) -> Scenario:
    """Written to the folder, which must be new."""
    ids = dice.sample(range(100), 18)  # brokers and clients share them, and neither stands in order
    brokers, clients = ids[: dice.randint(2, 8)], ids[8 : 8 + dice.randint(1, 10)]
    metric = dice.choice(["none", "euclidean"])
    settings = Settings(
        coalesce=dice.random() < 0.5,
        headers=dice.random() < 0.5,
        intervals=dice.choice([1.0, 3.0]),
        prices=Prices(1.5, 0.75, 0.5, 0.25, 2.0, 3.0),
        limits=Limits(delay=1000.0, load=100.0),  # wide enough for every plan
        access=Access("euclidean" if metric == "euclidean" else "none", price=0.5, delay=dice.choice([0.0, 2.0])),
    )
    links = _core_links(dice, brokers)
    if metric == "none" or dice.random() < 0.3:
        links += _client_links(dice, brokers, clients)
    tables = {
        "brokers": _table(BROKERS, [(each, f"broker {each}", *_place(dice)) for each in brokers]),
        "links": _table(LINKS, links),
        "clients": _table(CLIENTS, [(each, dice.choice([None, *brokers]), *_place(dice)) for each in clients]),
        "subscriptions": _table(
            SUBSCRIPTIONS,
            [
                (each, dice.choice(clients), random_filter(dice), dice.random() < 0.3)
                for each in dice.sample(range(100), dice.randint(0, 12))
            ],
        ),
    }
    write_scenario(folder, settings, tables, _events(dice, clients))
    return read_scenario(folder)


def _core_links(dice: random.Random, brokers: list[int]) -> list[tuple[int, int, float, float]]:
    """A random tree and some links more, both ways. Prices are sums of quarters: those of paths are exact, and tie."""
    pairs = {(brokers[i], brokers[dice.randrange(i)]) for i in range(1, len(brokers))}
    for _ in range(dice.randint(0, len(brokers))):
        u, v = dice.sample(brokers, 2)
        if (v, u) not in pairs:
            pairs.add((u, v))
    links = [link for u, v in sorted(pairs) for link in ((u, v), (v, u))]
    dice.shuffle(links)
    return [(*link, _price(dice), dice.choice([0.0, 0.5, 3.0, 10.0])) for link in links]


def _client_links(dice: random.Random, brokers: list[int], clients: list[int]) -> list[tuple[int, int, float, float]]:
    """Between some clients and some brokers, in one direction or both."""
    pairs = [(client, broker) for client in clients for broker in brokers]
    links = [link for u, v in pairs for link in ((u, v), (v, u)) if dice.random() < 0.7]
    return [(*link, _price(dice), dice.choice([0.0, 1.0, 2.5])) for link in links]


def _price(dice: random.Random) -> float:
    return dice.choice([0, 1, 2, 2, 4, 4, 4, 5, 8, 12, 20]) / 4


def _place(dice: random.Random) -> tuple[float, float]:
    return dice.randint(-8, 8) / 2, dice.randint(-8, 8) / 2


def random_filter(dice: random.Random) -> str:
    text = " AND ".join(_term(dice) for _ in range(dice.choice([1, 1, 1, 2, 3])))
    if dice.random() < 0.2:
        text = f"{text} OR {_term(dice)}"
    return f"NOT ({text})" if dice.random() < 0.1 else text


def _term(dice: random.Random) -> str:
    low = dice.randint(0, 9)
    words = ", ".join(map(quoted, dice.sample(WORDS, 2)))
    terms: list[Callable[[], str]] = [
        lambda: f"topic = {quoted(dice.choice(TOPICS))}",
        lambda: f"topic IN ({', '.join(map(quoted, dice.sample(TOPICS, 2)))})",
        lambda: f"price BETWEEN {low} AND {low + dice.randint(0, 5)}",
        lambda: f"volume {dice.choice(['<', '>=', '=', '<>'])} {low}",
        lambda: f"symbol = {quoted(dice.choice(SYMBOLS))}",
        lambda: "symbol LIKE 'IB%'",
        lambda: f"tags {dice.choice(['', 'NOT '])}HAS ANY ({words})",
        lambda: f"{dice.choice(['price', 'symbol', 'tags'])} IS {dice.choice(['', 'NOT '])}NULL",
        lambda: f"price + volume > {2 * low}",
        lambda: dice.choice([EVERYTHING, "volume > 1000"]),
    ]
    return dice.choice(terms)()


def _events(dice: random.Random, clients: list[int]) -> pa.Table:
    publishers = dice.sample(clients, dice.randint(1, len(clients)))
    rows = [
        {
            "$id": number,
            "$time": float(at),
            "$publisher": dice.choice(publishers),
            "$bytes": dice.randint(1, 100),
            "topic": dice.choice([*TOPICS, "nobody's", None]),
            "price": dice.choice([None, *(each / 2 for each in range(21))]),
            "volume": dice.choice([None, *range(11)]),
            "symbol": dice.choice([*SYMBOLS, None]),
            "tags": dice.choice([None, dice.sample(WORDS, dice.randint(0, 3))]),
        }
        for at, number in enumerate(dice.sample(range(1000), dice.randint(0, 30)))
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema([*EVENTS.schema, *ATTRIBUTES]))


def events_of(scenario: Scenario) -> list[Event]:
    return [
        Event(
            row["$id"],
            row["$publisher"],
            row["$bytes"],
            {name: value for name, value in row.items() if not name.startswith("$")},
        )
        for row in pq.read_table(scenario.events).to_pylist()
    ]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# Plans


class Cell(NamedTuple):
    """A piece of a partition of all events."""

    events: str
    brokers: frozenset[int] | None = None  # where its events are published; None: anywhere


class Served(NamedTuple):
    """A flow before it has a tree: which events, and the parts of which subscriptions."""

    cell: Cell
    parts: dict[int, str | None]


WHOLE = Cell(EVERYTHING)


def random_plan(dice: random.Random, scenario: Scenario, regions: float = 0.0) -> Plan:
    """Valid, and lawful: every subscription gets every event that it wants exactly once.

    ``regions`` is the share of steered flows that have regions."""
    return _Drawing(dice, scenario, regions).plan()


def random_short_plan(dice: random.Random, scenario: Scenario, regions: float = 0.0) -> Plan:
    """The same, of flows that serve every subscription, or that give clients all of their events, or both."""
    drawing = _Drawing(dice, scenario, regions)
    every = list(drawing.client_of)
    serves_all = dice.random() < 0.7
    served = [
        Served(cell, {each: None for each in every if drawing._may_want(each, cell)})
        for cell in dice.choice([drawing._cells(), [WHOLE]])
    ]
    plan = drawing.plan(served if serves_all else None)
    kinds = [dice.choice([EXACT, EVENTS_, None]) for _ in range(plan.flows.num_rows)]
    flows = plan.flows.drop(["members", "access"]).append_column("access", pa.array(kinds, pa.string()))
    tables = {name: getattr(plan, name) for name in PLAN_TABLES}
    if serves_all:
        flows = flows.append_column("members", pa.array([ALL] * flows.num_rows, pa.string()))
        tables["members"] = plan.members.slice(0, 0)
    return Plan.of(plan.header, tables | {"flows": flows})


class _Drawing:
    def __init__(self, dice: random.Random, scenario: Scenario, regions: float) -> None:
        self.dice, self.with_regions = dice, regions
        self.scenario = scenario
        self.brokers: list[int] = scenario.brokers["id"].to_pylist()
        core = {
            (u, v)
            for u, v in zip(scenario.links["source"].to_pylist(), scenario.links["target"].to_pylist(), strict=True)
            if u in self.brokers and v in self.brokers
        }
        self.pairs = sorted((u, v) for u, v in core if u < v)
        self.broker_of: dict[int, int] = {
            each: dice.choice(self.brokers) for each in scenario.clients["id"].to_pylist()
        }
        rows = scenario.subscriptions.to_pylist()
        self.client_of: dict[int, int] = {row["id"]: row["client"] for row in rows}
        self.filter_of: dict[int, str] = {row["id"]: row["filter"] for row in rows}
        self.publishing = {self.broker_of[each.publisher] for each in events_of(scenario)}

    def plan(self, served: list[Served] | None = None) -> Plan:
        if served is None:
            served = [flow for group in self._groups() for flow in self._served(group)]
        self.dice.shuffle(served)
        numbers = self.dice.sample(range(2 * len(served)), len(served))
        flows, members, trees, filters = [], [], [], []
        ordered: list[bool | None] = []
        regions: list[tuple[int, int, int]] = []
        for number, flow in zip(numbers, served, strict=True):
            needed = self._needed(flow)
            steered = bool(needed) and self.dice.random() < 0.4
            tree = [] if steered else self._tree(needed)
            kind = self.dice.choice([PATHS, STEINER, STEINER]) if steered else TREE
            flows.append((number, kind, flow.cell.events, self.dice.randint(0, 3)))
            ordered.append(self.dice.random() < 0.3 if steered else None)
            members += [(number, *each) for each in flow.parts.items()]
            trees += [(number, *self.dice.choice([(u, v), (v, u)])) for u, v in tree]
            held = set(self.brokers) if steered else needed.union(*tree)
            filters += [(number, *each) for each in self._rows(flow, tree, held)]
            gateway_of: dict[int, int] = {}
            if steered and self.with_regions and self.dice.random() < self.with_regions:
                gateway_of, ordered[-1] = self._regions(), None
                regions += [(number, *each) for each in gateway_of.items()]
            filters += [(number, *each) for each in self._summaries(flow, gateway_of)] if steered else []
        return Plan.of(
            Header("random", self.scenario.fingerprint),
            {
                "attachments": _table(ATTACHMENTS, self.broker_of.items()),
                "flows": _table(FLOWS, flows).append_column("ordered", pa.array(ordered, pa.bool_())),
                "members": _table(MEMBERS, members),
                "trees": _table(TREES, trees),
                "filters": _table(FILTERS, filters),
                "regions": _table(REGIONS, regions),
            },
        )

    # What flows serve

    def _groups(self) -> list[list[int]]:
        """A partition of the subscriptions; a group may be empty."""
        groups: list[list[int]] = [[] for _ in range(self.dice.randint(1, 4))]
        for each in self.client_of:
            self.dice.choice(groups).append(each)
        return groups

    def _served(self, group: list[int]) -> list[Served]:
        ways = [self._whole, self._split, self._overlapping]
        return self.dice.choice(ways)(group)

    def _whole(self, group: list[int]) -> list[Served]:
        return [Served(WHOLE, dict.fromkeys(group))]

    def _split(self, group: list[int]) -> list[Served]:
        """Events are partitioned; every subscription is in all flows, or in those that may have something for it."""
        careful = self.dice.random() < 0.5
        return [
            Served(cell, {each: None for each in group if not careful or self._may_want(each, cell)})
            for cell in self._cells()
        ]

    def _may_want(self, subscription: int, cell: Cell) -> bool:
        return parse_filter(cell.events).intersects(parse_filter(self.filter_of[subscription]))

    def _overlapping(self, group: list[int]) -> list[Served]:
        """Each flow takes the events of two cells, of which a subscription uses one, with its part. Or a flow takes
        all, and some subscriptions use nothing else."""
        cells = self._cells()
        following = [*cells[1:], cells[0]]
        flows = [Served(_both(*pair), {}) for pair in zip(cells, following, strict=True)]
        flows.append(Served(WHOLE, {}))
        for each in group:
            chosen = self.dice.choice([cells, following, None])
            if chosen is None:
                flows[-1].parts[each] = None
            else:
                for flow, cell in zip(flows, chosen, strict=False):
                    flow.parts[each] = cell.events
        return flows

    def _cells(self) -> list[Cell]:
        """Disjoint, and together everything: what lacks the attribute counts too."""
        dice = self.dice
        topic, number = quoted(dice.choice(TOPICS)), dice.randint(0, 10)
        some = frozenset(dice.sample(self.brokers, dice.randint(1, len(self.brokers) - 1)))
        inside = f"({', '.join(map(str, sorted(some)))})"
        by_broker = [
            Cell(f"$broker IN {inside}", some),
            Cell(f"$broker NOT IN {inside}", frozenset(self.brokers) - some),
        ]
        return dice.choice(
            [
                [Cell(f"topic = {topic}"), Cell(f"topic <> {topic}"), Cell("topic IS NULL")],
                [Cell(f"topic IN ('a', {topic})"), Cell(f"topic IS NULL OR NOT topic IN ('a', {topic})")],
                [Cell(f"price < {number}"), Cell(f"price >= {number} OR price IS NULL")],
                [Cell(f"$broker = {each}", frozenset({each})) for each in self.brokers],
                by_broker,
                [
                    Cell(f"{by_broker[0].events} AND volume > {number}", some),
                    Cell(f"{by_broker[0].events} AND (volume <= {number} OR volume IS NULL)", some),
                    by_broker[1],
                ],
            ]
        )

    # Trees

    def _needed(self, flow: Served) -> set[int]:
        """Where its events come from, and where its members are."""
        brokers = flow.cell.brokers
        publishing = self.publishing if brokers is None else self.publishing & brokers
        return publishing | {self.broker_of[self.client_of[each]] for each in flow.parts}

    def _tree(self, needed: set[int]) -> list[Link]:
        """A spanning tree, or what is left of it when some leaves that are not needed have gone."""
        joined = {each: {each} for each in self.brokers}
        tree: list[Link] = []
        for u, v in self.dice.sample(self.pairs, len(self.pairs)):
            if joined[u] is not joined[v]:
                tree.append((u, v))
                joined[u] |= joined[v]
                for each in joined[v]:
                    joined[each] = joined[u]
        if self.dice.random() < 0.3:
            return tree
        while True:
            ends = [each for link in tree for each in link]
            idle = [each for each in ends if ends.count(each) == 1 and each not in needed]
            if not idle or self.dice.random() < 0.05:
                return tree
            leaf = self.dice.choice(idle)
            tree = [link for link in tree if leaf not in link]

    # Filters that cover what is wanted

    def _rows(self, flow: Served, tree: Collection[Link], held: set[int]) -> list[tuple[int, int, str]]:
        """On links between brokers, and from brokers that the tree holds to their clients."""
        share = self.dice.choice([0.0, 0.3, 1.0])
        links = [link for u, v in tree for link in ((u, v), (v, u))]
        links += [(broker, client) for client, broker in self.broker_of.items() if broker in held]
        return [(u, v, self._row(flow, tree, u, v)) for u, v in links if self.dice.random() < share]

    def _summaries(self, flow: Served, gateway_of: dict[int, int]) -> list[tuple[int, int, str]]:
        """Of some hosts of a steered flow, and of some brokers that have no member; and of their regions."""
        share = self.dice.choice([0.0, 0.0, 0.5, 1.0])
        gateways = set(gateway_of.values())
        hosts = [u for u in self.brokers if self.dice.random() < share and u not in gateways]
        found = [(u, u, self._row(flow, [], u, u)) for u in hosts]
        said = {gateway_of[host] for host in hosts} if gateway_of else set[int]()
        for gateway in sorted(gateways):
            if gateway in said or self.dice.random() < 0.3:
                inside = {broker for broker, its in gateway_of.items() if its == gateway}
                found.append((gateway, gateway, self._row(flow, [], gateway, gateway, inside)))
        return found

    def _regions(self) -> dict[int, int]:
        """The gateway of each broker: the late flow's tree falls into pieces, and each has a gateway."""
        ends = [self.scenario.network.ids[side].tolist() for side in minimum_spanning_tree(self.scenario.network)]
        region = {each: {each} for each in self.brokers}
        share = self.dice.choice([0.3, 0.6, 1.0])
        for u, v in zip(*ends, strict=True):
            if self.dice.random() < share:
                region[u] |= region[v]
                for each in region[v]:
                    region[each] = region[u]
        found: dict[int, int] = {}
        for broker in self.brokers:
            if broker not in found:
                found |= dict.fromkeys(region[broker], self.dice.choice(sorted(region[broker])))
        return found

    def _row(self, flow: Served, tree: Collection[Link], u: int, v: int, inside: Collection[int] = ()) -> str:
        """What covers all that is wanted behind a link, or at some brokers."""
        side = {v, *inside}
        for _ in tree:  # each time at least one broker further
            side |= {each for link in tree for each in link if side & set(link) and u not in link}
        behind = [each for each, client in self.client_of.items() if client == v or self.broker_of[client] in side]
        wanted = [self.filter_of[each] for each in behind if each in flow.parts]
        exact = [
            f"({self.filter_of[each]}) AND ({flow.parts[each] or EVERYTHING})" for each in behind if each in flow.parts
        ]
        return self.dice.choice(
            [
                EVERYTHING,
                flow.cell.events,
                _either(wanted),
                _either(exact),
                _either([*wanted, random_filter(self.dice)]),
            ]
        )


def _both(first: Cell, second: Cell) -> Cell:
    brokers = None if first.brokers is None or second.brokers is None else first.brokers | second.brokers
    return Cell(_either([first.events, second.events]), brokers)


def _either(filters: list[str]) -> str:
    return " OR ".join(f"({each})" for each in filters) or "FALSE"


def _table(table: Table, rows: Iterable[tuple[Any, ...]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(table.schema.names, row, strict=True)) for row in rows], schema=table.schema)
