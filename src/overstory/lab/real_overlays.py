"""Real prices and real interests: latencies between AWS regions or PlanetLab sites, and who watches what on GitHub.

``aws``: the regions are brokers, prices are round trips and differ by direction; a user lives in a region.
``planetlab``: some sites are brokers, users live at the others; 5.8 % of the triples of sites violate the triangle
inequality. A user subscribes to the repositories that it watches, of those with most watchers; one of the watchers of
a repository publishes what happens there, the more often the more watchers it has.
"""

import csv
import gzip
import tarfile
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from overstory.errors import DataError, UsageError
from overstory.lab.aws_regions import LATENCIES
from overstory.lab.graphs import MadeBy, dice
from overstory.lab.quadratic import write_overlay
from overstory.model.network import Floats, Ints
from overstory.model.settings import Prices, Settings
from overstory.model.tables import BROKERS, CLIENTS, EVENTS, LINKS, SUBSCRIPTIONS

AWS, PLANETLAB = PLACES = ("aws", "planetlab")
SITES, SLICE = "latency_planetlab_seattle/planetlab_490x490_slices_1_6_12_18.tar.xz", "PlanetLab/PlanetLabData_1"
WATCHES = "github_watches/data.mediumlarge.gz"
BROKER_SITES = 40
EVENT_SCHEMA = pa.schema([*EVENTS.schema, pa.field("repository", pa.int64())])


class RealOverlay(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    places: str = AWS
    users: int = 1000
    repositories: int = 200
    events: int = 10_000

    def __post_init__(self) -> None:
        if self.places not in PLACES:
            raise UsageError(f"places={self.places}: it is one of {', '.join(PLACES)}")


def make_real(folder: Path, data: Path, parameters: RealOverlay, seed: int) -> list[str]:
    """Writes the scenario, and returns what a reader should know of it."""
    place_dice, event_dice = dice(seed).spawn(2)
    names, core, access = _prices(data, parameters, place_dice)
    user, repository = watches(data, parameters)
    users = int(user.max()) + 1
    access = access[: len(names), place_dice.integers(access.shape[1], size=users)]
    made_by: MadeBy = {"kind": "watches", "seed": seed, **msgspec.structs.asdict(parameters)}
    made_by["channels"] = 2 * parameters.repositories  # one for each, and one between two
    settings = Settings(name="watches", prices=Prices(core=1.0, access=1.0), coalesce=False, made_by=made_by)
    tables = {
        "brokers": _brokers(names),
        "links": _links(core, access),
        "clients": _clients(users, len(names)),
        "subscriptions": _subscriptions(user + len(names), repository),
    }
    write_overlay(folder, settings, tables, _events(user + len(names), repository, parameters.events, event_dice))
    return [f"{users:,} users watch {len(np.unique(repository)):,} repositories, {len(user) / users:.1f} each"]


def _prices(data: Path, parameters: RealOverlay, draw: np.random.Generator) -> tuple[list[str], Floats, Floats]:
    """Names of brokers, prices between brokers, and prices between brokers and the places where users may live."""
    if parameters.places == AWS:
        names, between = aws_latencies(data / LATENCIES)
        return names, between, (between + between.T) / 2 + draw.gamma(2.0, 10.0, (1, len(names)))
    between = planetlab_latencies(data / SITES)
    order = draw.permutation(len(between))
    hosts, homes = order[:BROKER_SITES], order[BROKER_SITES:]
    return [f"site {site}" for site in hosts.tolist()], between[np.ix_(hosts, hosts)], between[np.ix_(hosts, homes)]


def aws_latencies(path: Path) -> tuple[list[str], Floats]:
    """The regions, and the round trip from each to each in milliseconds; it is not the same both ways."""
    try:
        with path.open(newline="") as file:
            names, *rows = csv.reader(file)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None
    found = np.array([[float(cell) for cell in row[1:]] for row in rows])
    np.fill_diagonal(found, 0.0)
    return names[1:], found


def planetlab_latencies(path: Path) -> Floats:
    """Round trips between sites in milliseconds, the same both ways."""
    try:
        with tarfile.open(path, "r:xz") as archive:
            member = archive.extractfile(SLICE)
            if member is None:
                raise DataError(f"{path} has no {SLICE}")
            found: Floats = np.loadtxt(member)
    except (OSError, KeyError, tarfile.TarError) as error:
        raise DataError(f"{path} cannot be read: {error}") from None
    found = (found + found.T) / 2
    np.fill_diagonal(found, 0.0)
    return found


def watches(data: Path, parameters: RealOverlay) -> tuple[Ints, Ints]:
    """Users and repositories, a pair for each watch: of the repositories with most watchers, numbered from the first,
    and of the users who watch most of these."""
    path = data / WATCHES
    try:
        with gzip.open(path, "rt") as file:
            pairs = np.array([line.split(":") for line in file if ":" in line], np.int64)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}") from None
    pairs = np.unique(pairs, axis=0)
    repositories, of_pair, counts = np.unique(pairs[:, 1], return_inverse=True, return_counts=True)
    rank = np.empty(len(repositories), np.int64)
    rank[np.lexsort((repositories, -counts))] = np.arange(len(repositories))
    kept = rank[of_pair] < parameters.repositories
    user, repository = pairs[kept, 0], rank[of_pair][kept]
    users, of_user, many = np.unique(user, return_inverse=True, return_counts=True)
    number = np.empty(len(users), np.int64)
    number[np.lexsort((users, -many))] = np.arange(len(users))
    mine = number[of_user] < parameters.users
    return number[of_user][mine], repository[mine]


def _brokers(names: list[str]) -> pa.Table:
    nothing = pa.nulls(len(names), pa.float64())
    return BROKERS.completed(pa.table({"id": np.arange(len(names)), "name": names, "x": nothing, "y": nothing}))


def _links(core: Floats, access: Floats) -> pa.Table:
    """``access`` is by broker and user."""
    brokers, users = access.shape
    one, other = np.nonzero(~np.eye(brokers, dtype=bool))
    broker, user = np.repeat(np.arange(brokers), users), np.tile(brokers + np.arange(users), brokers)
    source, target = np.concatenate([one, broker, user]), np.concatenate([other, user, broker])
    price = np.concatenate([core[one, other], access.ravel(), access.ravel()])
    return pa.table({"source": source, "target": target, "price": price, "delay": price / 2}, LINKS.schema)


def _clients(count: int, first: int) -> pa.Table:
    nothing = pa.nulls(count, pa.float64())
    ids, nowhere = first + np.arange(count), pa.nulls(count, pa.int64())
    return pa.table({"id": ids, "broker": nowhere, "x": nothing, "y": nothing}, CLIENTS.schema)


def _subscriptions(client: Ints, repository: Ints) -> pa.Table:
    texts = pa.array([f"repository = {number}" for number in range(int(repository.max()) + 1)])
    columns = {
        "id": np.arange(len(client)),
        "client": client,
        "filter": texts.take(pa.array(repository)),
        "no_local": np.zeros(len(client), bool),
    }
    return pa.table(columns, SUBSCRIPTIONS.schema)


def _events(client: Ints, repository: Ints, count: int, draw: np.random.Generator) -> pa.Table:
    """A random watch is an event: its repository, published by one of its watchers, the same for each repository."""
    owners = np.full(int(repository.max()) + 1, -1)
    for at in draw.permutation(len(client)).tolist():
        owners[repository[at]] = client[at]
    drawn = repository[draw.integers(len(repository), size=count)]
    ids = np.arange(count)
    columns = [ids, ids.astype(np.float64), owners[drawn], np.ones(count, np.int64), drawn]
    return pa.table(dict(zip(EVENT_SCHEMA.names, columns, strict=True)), EVENT_SCHEMA)
