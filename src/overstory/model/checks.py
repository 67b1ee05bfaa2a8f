"""What can be wrong with a scenario whose tables are right by themselves: with what is between them, and with numbers.

Every problem names its table, row and column.
"""

import math
from itertools import pairwise
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overstory.errors import Problem
from overstory.model.folders import KNOWN_BY, SCENARIO, problems_at, repeated_in, rows_where
from overstory.model.network import Network
from overstory.model.settings import Settings
from overstory.model.tables import LINKS, OPERATIONS

SETTINGS_FILE = KNOWN_BY[SCENARIO]
FROM_ZERO_UP = (
    ("links", "price"),
    ("links", "delay"),
    ("brokers", "capacity"),
    ("clients", "latest"),
    ("densities", "bytes"),
)
TOLERATED = 1e-9  # of the sum of shares, which are rounded


class Tables(Protocol):
    """Those of a scenario, all but its events."""

    @property
    def settings(self) -> Settings: ...
    @property
    def brokers(self) -> pa.Table: ...
    @property
    def links(self) -> pa.Table: ...
    @property
    def clients(self) -> pa.Table: ...
    @property
    def subscriptions(self) -> pa.Table: ...
    @property
    def changes(self) -> pa.Table: ...
    @property
    def densities(self) -> pa.Table: ...
    @property
    def network(self) -> Network: ...
    @property
    def broker_names(self) -> dict[int, str]: ...


def problems_of(scenario: Tables) -> list[Problem]:
    """What is wrong between tables that are right by themselves."""
    brokers, clients = scenario.brokers["id"], scenario.clients["id"]
    ends = pa.chunked_array(brokers.chunks + clients.chunks, pa.int64())
    found = [*_twice(brokers, "brokers", "id"), *_twice(clients, "clients", "id")]
    found += _twice(scenario.subscriptions["id"], "subscriptions", "id")
    both = rows_where(pc.is_in(clients, brokers.combine_chunks()))
    found += problems_at(both, "clients", "id", lambda row: f"{clients[row]} is also the id of a broker")
    found += _dangling(scenario.clients["broker"], brokers, "clients", "broker", "broker")
    for column in ("source", "target"):
        found += _dangling(scenario.links[column], ends, "links", column, "broker or client")
    found += _dangling(scenario.subscriptions["client"], clients, "subscriptions", "client", "client")
    for table, column in FROM_ZERO_UP:
        found += _not_from_zero_up(getattr(scenario, table)[column], table, column)
    found += _shares(scenario.brokers["share"]) + _places(scenario) + _curves(scenario.settings)
    operations = scenario.changes["operation"]
    unknown = rows_where(pc.invert(pc.is_in(operations, pa.array(OPERATIONS))))
    found += problems_at(unknown, "changes", "operation", lambda row: f"{operations[row].as_py()!r} is not known")
    found += _dangling(scenario.changes["client"], clients, "changes", "client", "client")
    found += _dangling(scenario.changes["broker"], brokers, "changes", "broker", "broker")
    found += _dangling(scenario.densities["client"], clients, "densities", "client", "client")
    if scenario.settings.access.metric == "places":
        found += _no_places(scenario.brokers, "brokers") + _no_places(scenario.clients, "clients")
    if scenario.settings.access.metric == "euclidean":
        found += _no_coordinates(scenario.brokers, "brokers") + _no_coordinates(scenario.clients, "clients")
    if not len(brokers):
        found.append(Problem("brokers", None, None, "there is none"))
    if not found:
        found += _disconnected(scenario)
    return found


def _twice(ids: pa.ChunkedArray, table: str, column: str) -> list[Problem]:
    values = ids.to_numpy()
    return problems_at(repeated_in(values), table, column, lambda row: f"{values[row]} has been used above")


def _dangling(ids: pa.ChunkedArray, known: pa.ChunkedArray, table: str, column: str, what: str) -> list[Problem]:
    missing = pc.and_(pc.is_valid(ids), pc.invert(pc.is_in(ids, known.combine_chunks())))
    return problems_at(rows_where(missing), table, column, lambda row: f"there is no {what} {ids[row]}")


def _not_from_zero_up(column: pa.ChunkedArray, table: str, name: str) -> list[Problem]:
    values = column.to_numpy()
    bad = np.flatnonzero(~((values >= 0) & np.isfinite(values)) & np.asarray(column.is_valid())).tolist()
    return problems_at(bad, table, name, lambda row: f"{values[row]} is not a number from 0 up")


def _shares(column: pa.ChunkedArray) -> list[Problem]:
    values, given = column.to_numpy(), np.asarray(column.is_valid())
    bad = np.flatnonzero(~((values >= 0) & (values <= 1)) & given).tolist()
    found = problems_at(bad, "brokers", "share", lambda row: f"{values[row]} is no share from 0 to 1 of all clients")
    total = math.fsum(values[given])
    if not found and total > 1 + TOLERATED:
        row = int(np.flatnonzero(np.cumsum(np.where(given, values, 0.0)) > 1 + TOLERATED / 2)[0])
        found = problems_at(
            [row], "brokers", "share", lambda _: f"with this row all shares are more than 1 (they are {total:g})"
        )
    if not found and given.all() and len(values) and total == 0:
        found = [Problem("brokers", None, "share", "all are 0, so that no broker takes clients")]
    return found


def _places(scenario: Tables) -> list[Problem]:
    """All have as many coordinates as the first, and each is a number."""
    tables = {"brokers": scenario.brokers, "clients": scenario.clients}
    columns = {table: rows["place"].combine_chunks() for table, rows in tables.items()}
    known = [length for column in columns.values() for length in pc.list_value_length(column).drop_null()[:1]]
    if not known:
        return []
    found = []
    for table, column in columns.items():
        found += _of_other_length(column, table, known[0].as_py())
        bad = ~np.isfinite(column.flatten().fill_null(np.nan).to_numpy(zero_copy_only=False))
        rows = np.unique(pc.list_parent_indices(column).to_numpy()[bad]).tolist()
        found += problems_at(rows, table, "place", lambda _: "a coordinate is not a number")
    return found


def _of_other_length(places: pa.Array, table: str, wanted: int) -> list[Problem]:
    lengths = pc.list_value_length(places)
    rows = rows_where(pc.fill_null(pc.not_equal(lengths, wanted), False))
    what = f"coordinates, where the first place has {wanted}"
    return problems_at(rows, table, "place", lambda row: f"it has {lengths[row]} {what}")


def _no_places(rows: pa.Table, table: str) -> list[Problem]:
    missing = rows_where(pc.is_null(rows["place"]))
    return problems_at(missing, table, "place", lambda _: "the metric places of scenario.toml needs one")


def _curves(settings: Settings) -> list[Problem]:
    found = []
    for number, ((clients, price), (more, dearer)) in enumerate(pairwise(settings.curves.upkeep), 2):
        what = None
        if more <= clients:
            what = f"{more:g} clients come after {clients:g}; points stand in the order of clients"
        elif dearer < price:
            what = f"it falls, from {price:g} to {dearer:g}, where a flow gets larger"
        if what is not None:
            found.append(Problem(SETTINGS_FILE, number, "curves.upkeep", what))
    return found


def _no_coordinates(rows: pa.Table, table: str) -> list[Problem]:
    known = [np.isfinite(rows[name].to_numpy()) for name in ("x", "y")]  # null is NaN there
    missing = np.flatnonzero(~(known[0] & known[1])).tolist()
    return problems_at(missing, table, "x", lambda _: "the euclidean metric of scenario.toml needs both coordinates")


def _disconnected(scenario: Tables) -> list[Problem]:
    network = scenario.network
    unreached = network.unreached()
    if not len(unreached):
        return []
    start, *some = (_broker(scenario, broker) for broker in network.ids[[0, *unreached[:5]]].tolist())
    many = f"{len(unreached):,} broker{'' if len(unreached) == 1 else 's'}"
    what = f"the network is not connected: {many} cannot be reached from {start}"
    which = f"({', '.join(some)}{', …' if len(unreached) > 5 else ''})"
    return [Problem(LINKS.name, None, None, f"{what} and back over the same links {which}; add links to them")]


def _broker(scenario: Tables, broker: int) -> str:
    return scenario.broker_names.get(broker, f"broker {broker}")
