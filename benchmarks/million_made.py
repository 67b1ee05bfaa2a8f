"""The scenario of the subject ``million``: many subscribers with one two-dimensional box each, and a plan with rows.

Each broker's subscribers are interested in three *homes*, squares of the event space, and want a small square in one of
them. All squares together are so large that an event, which lies anywhere, matches as many as wanted on average.

The plan is one tree of cheapest paths. Every directed link has a row: three boxes that hold all that is wanted behind
it. Boxes of neighbours are merged, those first that grow least, until three are left.
"""

from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overstory.lab.graphs import as_tables
from overstory.lab.topologies import topology
from overstory.model.network import Network
from overstory.model.plan import Header, Plan
from overstory.model.scenario import Scenario, read_scenario, write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import CLIENTS, FILTERS, SUBSCRIPTIONS
from overstory.planners.defaults import attachments, one_flow
from overstory.planners.trees.spt import paths_from

Ints = NDArray[np.int64]
Box = tuple[int, int, int, int]  # from and to in x, from and to in y; the ends are not within
UNIT = 1_000_000  # coordinates have six digits
HOMES, HOME = 3, 200_000  # of a broker, and the side of one
BOXES = 3  # of a row
PUBLISHERS = 1_000


def make_million(folder: Path, subscriptions: int, brokers: int, events: int, matches: float, seed: int = 1) -> None:
    """Writes ``scenario`` and ``plan`` in the folder."""
    dice = np.random.default_rng(seed)
    side = round(UNIT * (matches / subscriptions) ** 0.5)
    tables = as_tables(topology("transit-stub", brokers, seed))
    ids = tables["brokers"]["id"].to_numpy()
    host = dice.integers(len(ids), size=subscriptions)
    home = dice.integers(HOMES, size=subscriptions)
    corners = dice.integers(UNIT - HOME, size=(2, len(ids), HOMES))
    low = corners[:, host, home] + dice.integers(HOME - side, size=(2, subscriptions))
    clients = np.arange(subscriptions) + int(ids.max()) + 1
    nothing = pa.nulls(subscriptions, pa.float64())
    columns = {"id": clients, "broker": ids[host], "x": nothing, "y": nothing}
    tables["clients"] = pa.table(columns, schema=CLIENTS.schema)
    wanted = {"id": np.arange(subscriptions), "client": clients, "filter": _filters(low, low + side)}
    wanted["no_local"] = pa.array(np.zeros(subscriptions, bool))
    tables["subscriptions"] = pa.table(wanted, schema=SUBSCRIPTIONS.schema)
    write_scenario(folder / "scenario", Settings(name="million"), tables, _events(dice, events, clients))
    made = read_scenario(folder / "scenario")
    planned(made, _hulls(host * HOMES + home, low, low + side, len(ids))).write(folder / "plan")


def _events(dice: np.random.Generator, count: int, clients: Ints) -> pa.Table:
    ids = np.arange(count)
    publishers = clients[dice.integers(len(clients), size=min(PUBLISHERS, len(clients)))]
    return pa.table(
        {
            "$id": ids,
            "$time": ids / 1000,
            "$publisher": publishers[dice.integers(len(publishers), size=count)],
            "$bytes": dice.integers(100, 1000, size=count),
            "x": dice.integers(UNIT, size=count) / UNIT,
            "y": dice.integers(UNIT, size=count) / UNIT,
        }
    )


def _filters(low: Ints, high: Ints) -> pa.Array:
    parts: list[pa.Array | str] = []
    for name, first, last in zip("xy", low, high, strict=True):
        parts += [f"{' AND ' if parts else ''}{name} >= 0.", _digits(first), f" AND {name} < 0.", _digits(last)]
    return pc.binary_join_element_wise(*parts, "")


def _digits(values: Ints) -> pa.Array:
    """All are below the unit."""
    return pc.utf8_lpad(pa.array(values).cast(pa.string()), 6, "0")


def _hulls(place: Ints, low: Ints, high: Ints, brokers: int) -> list[list[Box]]:
    """By broker: of each of its homes, the least box that holds all that is wanted there."""
    first, last = np.full((2, brokers * HOMES), UNIT), np.zeros((2, brokers * HOMES), np.int64)
    for axis in range(2):
        np.minimum.at(first[axis], place, low[axis])
        np.maximum.at(last[axis], place, high[axis])
    hulls = np.stack([first[0], last[0], first[1], last[1]], axis=1).reshape(brokers, HOMES, 4).tolist()
    return [[(a, b, c, d) for a, b, c, d in boxes if a < b] for boxes in hulls]


def planned(scenario: Scenario, wanted: list[list[Box]]) -> Plan:
    network = scenario.network
    _, before = paths_from(network, np.zeros(1, np.int64))
    reached = np.flatnonzero(before[0] >= 0)
    tables = one_flow(scenario, before[0, reached], reached)
    tables["attachments"] = attachments(scenario)
    tables["filters"] = _rows(network, before[0].tolist(), wanted)
    return Plan.of(Header("million", scenario.fingerprint), tables)


def _rows(network: Network, parent: list[int], wanted: list[list[Box]]) -> pa.Table:
    children: list[list[int]] = [[] for _ in parent]
    for node, above in enumerate(parent):
        if above >= 0:
            children[above].append(node)
    order = [parent.index(-1)]
    for node in order:  # grows on the way
        order += children[node]
    below: list[list[Box]] = [[] for _ in parent]
    for node in reversed(order):
        below[node] = merged([*wanted[node], *(box for child in children[node] for box in below[child])])
    beside: list[list[Box]] = [[] for _ in parent]
    rows = []
    for node in order[1:]:
        above = parent[node]
        others = [box for child in children[above] if child != node for box in below[child]]
        beside[node] = merged([*beside[above], *wanted[above], *others])
        rows += [(above, node, spelled(below[node])), (node, above, spelled(beside[node]))]
    source, target, filters = zip(*rows, strict=True)
    columns = {"flow": np.zeros(len(rows), np.int64), "source": network.ids[list(source)]}
    return pa.table(columns | {"target": network.ids[list(target)], "filter": filters}, schema=FILTERS.schema)


def merged(boxes: list[Box]) -> list[Box]:
    kept = list(dict.fromkeys(boxes))
    while len(kept) > BOXES:
        one, other = min(combinations(kept, 2), key=_growth)
        kept = [box for box in kept if box not in (one, other)] + [_around(one, other)]
    return kept


def _around(one: Box, other: Box) -> Box:
    return min(one[0], other[0]), max(one[1], other[1]), min(one[2], other[2]), max(one[3], other[3])


def _growth(pair: tuple[Box, Box]) -> int:
    return _area(_around(*pair)) - _area(pair[0]) - _area(pair[1])


def _area(box: Box) -> int:
    return (box[1] - box[0]) * (box[3] - box[2])


def spelled(boxes: list[Box]) -> str:
    parts = [
        f"(x >= {a / UNIT:.6f} AND x < {b / UNIT:.6f} AND y >= {c / UNIT:.6f} AND y < {d / UNIT:.6f})"
        for a, b, c, d in boxes
    ]
    return " OR ".join(parts) or "FALSE"
