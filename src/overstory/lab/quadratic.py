"""The workload of the overlay paper (Zhao and Wu, section VI): users with quadratic rate densities, brokers, prices.

Users and brokers are points of the unit square. A user publishes values between 0 and 1 with a density that is a random
quadratic function, its negative part cut off, and subscribes to one interval of values. All brokers can send to all.
The laws that the paper leaves out are parameters: coefficients are normal, rates uniform, intervals have a uniform
centre and a uniform width whose mean is ``width``. Ends of intervals lie on a grid, so that users with equal
subscriptions form the paper's uniform subscriber groups.
"""

import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from overstory.errors import UsageError
from overstory.lab.graphs import MadeBy, dice
from overstory.model.network import Floats, Ints
from overstory.model.scenario import write_scenario
from overstory.model.settings import Access, Prices, Settings
from overstory.model.tables import BROKERS, CLIENTS, DENSITIES, EVENTS, LINKS, SUBSCRIPTIONS

ATTRIBUTE = "value"
EVENT_SCHEMA = pa.schema([*EVENTS.schema, pa.field(ATTRIBUTE, pa.float64())])
METRIC, INDEPENDENT = PRICES = ("metric", "independent")
ROW_GROUP = 1 << 17
TRIES = 60  # draws of values for events; whatever is left then stands at its density's peak
INTEGRATED = 64  # places of each piece at which a density is looked at
SAMPLED = 1 << 16  # pairs by which the mean price of an access link is estimated


class Quadratic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    users: int = 1000
    brokers: int = 10
    access_core_ratio: float = 1.0  # the mean price of an access link, relative to that of a core link
    channels: int = 20  # sub-channels that the paper's planners cut the content space into
    width: float = 0.1  # of an interval, on average
    events: int = 0  # in the log; 0: ten for each user
    prices: str = METRIC  # distances in the unit square, or independent of each other
    correlation: float = 0.0  # of a user's interest with its place: 0 none, 1 the centre is where the user is
    capacity: float = 2.0  # of all brokers together, relative to all users' traffic; 0: no broker has a limit
    publishers: float = 1.0  # the share of users that publish
    grid: int = 1000  # ends of intervals are multiples of its inverse
    bytes: int = 1  # of an event
    known: int = 0  # brokers that each user knows and may be attached to, by chance; 0: all
    densities: int = 0  # pieces in which the table densities tells what each user publishes; 0: it is not written

    def __post_init__(self) -> None:
        for name in ("users", "brokers", "channels", "grid"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be 1 or more, not {getattr(self, name)}")
        for name in ("events", "bytes", "capacity", "access_core_ratio", "known", "densities"):
            if getattr(self, name) < 0:
                raise UsageError(f"{name} must be 0 or more, not {getattr(self, name)}")
        for name in ("width", "publishers"):
            if not 0 < getattr(self, name) <= 1:
                raise UsageError(f"{name} must be more than 0 and at most 1, not {getattr(self, name)}")
        if not 0 <= self.correlation <= 1:
            raise UsageError(f"correlation must be from 0 to 1, not {self.correlation}")
        if self.prices not in PRICES:
            raise UsageError(f"prices={self.prices}: it is {METRIC} or {INDEPENDENT}")

    @property
    def log(self) -> int:
        """Events in the log."""
        return self.events or 10 * self.users


def make_quadratic(folder: Path, parameters: Quadratic, seed: int) -> None:
    """Writes a scenario with this workload. Places, interests and events are drawn apart: more events, or another
    ratio of prices, change nothing else."""
    place_dice, price_dice, interest_dice, event_dice = dice(seed).spawn(4)
    brokers = place_dice.random((parameters.brokers, 2))
    users = place_dice.random((parameters.users, 2))
    core = core_prices(brokers, parameters.prices, price_dice)
    low, high = intervals(parameters, users, interest_dice)
    density = draw_densities(parameters, event_dice)
    publisher, value = draw_events(parameters, density, event_dice)
    capacity = _capacity(parameters, low, high, publisher, value)
    made_by: MadeBy = {"kind": "quadratic", "seed": seed, **msgspec.structs.asdict(parameters)}
    access, links = _access(parameters, core, brokers, users, seed), _links(core)
    if 0 < parameters.known < parameters.brokers:
        links = pa.concat_tables([links, _known_links(parameters, access, brokers, users, seed)])
        access = Access()
    settings = Settings(
        name="quadratic", prices=Prices(core=1.0, access=1.0), access=access, coalesce=False, made_by=made_by
    )
    tables = {
        "brokers": _brokers(brokers, capacity),
        "links": links,
        "clients": _clients(users, parameters.brokers),
        "subscriptions": _subscriptions(low, high, parameters),
    }
    if parameters.densities:
        tables["densities"] = _densities_table(parameters, density)
    write_overlay(folder, settings, tables, _events(publisher + parameters.brokers, value, parameters.bytes))


def core_prices(brokers: Floats, law: str, draw: np.random.Generator) -> Floats:
    """Of links between all brokers, the same both ways."""
    if law == METRIC:
        apart = brokers[:, None, :] - brokers[None, :, :]
        found: Floats = np.hypot(apart[..., 0], apart[..., 1])
        return found
    drawn = np.triu(draw.random((len(brokers), len(brokers))), 1)
    return drawn + drawn.T


def intervals(parameters: Quadratic, users: Floats, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Where the interval of each user begins and ends, in steps of the grid; none is empty."""
    centre = draw.random(parameters.users)
    centre = (1 - parameters.correlation) * centre + parameters.correlation * users[:, 0]
    half = draw.random(parameters.users) * parameters.width
    low = np.floor(np.clip(centre - half, 0, 1) * parameters.grid).astype(np.int64)
    high = np.ceil(np.clip(centre + half, 0, 1) * parameters.grid).astype(np.int64)
    low = np.minimum(low, parameters.grid - 1)
    return low, np.maximum(high, low + 1)


class Densities(NamedTuple):
    """What those users who publish publish; densities are positive parts of quadratic functions, and are not normed."""

    users: Ints
    coefficients: Floats
    rate: Floats  # in any unit


def draw_densities(parameters: Quadratic, draw: np.random.Generator) -> Densities:
    publishing = np.flatnonzero(draw.random(parameters.users) < parameters.publishers)
    publishing = publishing if len(publishing) else np.array([0])
    coefficients = _coefficients(len(publishing), draw)
    return Densities(publishing, coefficients, draw.random(len(publishing)) + 1e-9)


def draw_events(parameters: Quadratic, density: Densities, draw: np.random.Generator) -> tuple[Ints, Floats]:
    """The publisher and the value of each event, by the users' rates and densities."""
    chosen = np.searchsorted(np.cumsum(density.rate) / density.rate.sum(), draw.random(parameters.log))
    chosen = np.minimum(chosen, len(density.users) - 1)
    return density.users[chosen], _values(density.coefficients, chosen, draw)


def _coefficients(count: int, draw: np.random.Generator) -> Floats:
    """Of quadratic functions that are positive somewhere between 0 and 1."""
    found = draw.standard_normal((count, 3))
    while True:
        bad = _peaks(found)[1] <= 0
        if not bad.any():
            return found
        found[bad] = draw.standard_normal((int(bad.sum()), 3))


def _peaks(coefficients: Floats) -> tuple[Floats, Floats]:
    """Where functions are highest between 0 and 1, and how high."""
    square, linear, _ = coefficients.T
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = np.where(square < 0, -linear / (2 * square), 0.0)
    places = np.stack([np.zeros(len(vertex)), np.ones(len(vertex)), np.clip(np.nan_to_num(vertex), 0, 1)])
    heights = _densities(coefficients, places)
    best = heights.argmax(axis=0)
    at = np.arange(len(vertex))
    return places[best, at], heights[best, at]


def _densities(coefficients: Floats, values: Floats) -> Floats:
    square, linear, constant = coefficients.T
    found: Floats = (square * values + linear) * values + constant
    return found


def _values(coefficients: Floats, chosen: Ints, draw: np.random.Generator) -> Floats:
    """By rejection: a value is taken with the probability that its density has of the highest."""
    peak, height = _peaks(coefficients)
    found = np.minimum(peak[chosen], np.nextafter(1.0, 0.0))
    waiting = np.arange(len(chosen))
    for _ in range(TRIES):
        if not len(waiting):
            break
        user, value = chosen[waiting], draw.random(len(waiting))
        taken = draw.random(len(waiting)) * height[user] < _densities(coefficients[user], value)
        found[waiting[taken]] = value[taken]
        waiting = waiting[~taken]
    return found


def _densities_table(parameters: Quadratic, density: Densities) -> pa.Table:
    """The expected bytes of each publisher in equal pieces of the content space."""
    pieces, fine = parameters.densities, INTEGRATED
    values = (np.arange(pieces * fine) + 0.5) / (pieces * fine)
    mass = np.empty((len(density.users), pieces))
    for at, (square, linear, constant) in enumerate(density.coefficients.tolist()):
        height = np.maximum((square * values + linear) * values + constant, 0.0)
        mass[at] = height.reshape(pieces, fine).sum(axis=1)
    mass *= (density.rate / density.rate.sum() / np.maximum(mass.sum(axis=1), 1e-300))[:, None]
    user, piece = np.nonzero(mass)
    texts = [f"{ATTRIBUTE} >= {at / pieces!r} AND {ATTRIBUTE} < {(at + 1) / pieces!r}" for at in range(pieces)]
    columns = {
        "client": parameters.brokers + density.users[user],
        "filter": pa.array(texts, pa.string()).take(pa.array(piece)),
        "bytes": mass[user, piece] * (parameters.log * parameters.bytes),
    }
    return pa.table(columns, DENSITIES.schema)


def _capacity(parameters: Quadratic, low: Ints, high: Ints, publisher: Ints, value: Floats) -> Floats | None:
    """Of each broker: all have the same."""
    if not parameters.capacity:
        return None
    ordered = np.sort(value)
    got = np.searchsorted(ordered, high / parameters.grid) - np.searchsorted(ordered, low / parameters.grid)
    traffic = (int(got.sum()) + len(publisher)) * parameters.bytes
    return np.full(parameters.brokers, np.ceil(parameters.capacity * traffic / parameters.brokers))


def _access(parameters: Quadratic, core: Floats, brokers: Floats, users: Floats, seed: int) -> Access:
    """The metric of access links, scaled to the ratio of mean prices."""
    size = len(brokers)
    mean_core = float(core.sum() / max(size * (size - 1), 1)) or 1.0
    if parameters.prices == INDEPENDENT:
        return Access("independent", price=2 * parameters.access_core_ratio * mean_core, seed=seed)
    some = np.random.default_rng(0).integers(0, [[len(users)], [size]], (2, SAMPLED))
    apart = users[some[0]] - brokers[some[1]]
    mean_access = float(np.hypot(apart[:, 0], apart[:, 1]).mean())
    return Access("euclidean", price=parameters.access_core_ratio * mean_core / mean_access)


def _known_links(parameters: Quadratic, access: Access, brokers: Floats, users: Floats, seed: int) -> pa.Table:
    """Rows for each user and the brokers that it knows, both ways, at the prices that the metric would have."""
    draw = dice(seed).spawn(5)[4]  # the first four are those of everything else
    known = np.argsort(draw.random((len(users), len(brokers))), axis=1)[:, : parameters.known]
    if parameters.prices == INDEPENDENT:
        price = draw.random(known.shape) * access.price
    else:
        apart = users[:, None, :] - brokers[known]
        price = np.hypot(apart[..., 0], apart[..., 1]) * access.price
    user = np.repeat(len(brokers) + np.arange(len(users)), parameters.known)
    broker, paid = known.ravel(), np.tile(price.ravel(), 2)
    source, target = np.concatenate([user, broker]), np.concatenate([broker, user])
    return pa.table({"source": source, "target": target, "price": paid, "delay": paid}, LINKS.schema)


def _brokers(places: Floats, capacity: Floats | None) -> pa.Table:
    count = len(places)
    columns = {"id": np.arange(count), "name": pa.nulls(count, pa.string()), "x": places[:, 0], "y": places[:, 1]}
    if capacity is not None:
        columns["capacity"] = capacity
    return BROKERS.completed(pa.table(columns))


def _links(prices: Floats) -> pa.Table:
    source, target = np.nonzero(~np.eye(len(prices), dtype=bool))
    price = prices[source, target]
    return pa.table({"source": source, "target": target, "price": price, "delay": price}, LINKS.schema)


def _clients(places: Floats, first: int) -> pa.Table:
    ids, nowhere = first + np.arange(len(places)), pa.nulls(len(places), pa.int64())
    return pa.table({"id": ids, "broker": nowhere, "x": places[:, 0], "y": places[:, 1]}, CLIENTS.schema)


def _subscriptions(low: Ints, high: Ints, parameters: Quadratic) -> pa.Table:
    keys, which = np.unique(low * (parameters.grid + 1) + high, return_inverse=True)
    begins, ends = np.divmod(keys, parameters.grid + 1)
    texts = [
        f"{ATTRIBUTE} >= {begin / parameters.grid!r} AND {ATTRIBUTE} < {end / parameters.grid!r}"
        for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)
    ]
    columns = {
        "id": np.arange(len(low)),
        "client": parameters.brokers + np.arange(len(low)),
        "filter": pa.array(texts, pa.string()).take(pa.array(which)),
        "no_local": np.zeros(len(low), bool),
    }
    return pa.table(columns, SUBSCRIPTIONS.schema)


def _events(publisher: Ints, value: Floats, size: int) -> pa.Table:
    ids = np.arange(len(value))
    columns = [ids, ids.astype(np.float64), publisher, np.full(len(ids), size), value]
    return pa.table(dict(zip(EVENT_SCHEMA.names, columns, strict=True)), EVENT_SCHEMA)


def write_overlay(folder: Path, settings: Settings, tables: dict[str, pa.Table], events: pa.Table) -> None:
    """A scenario in a folder that is not there yet, or is empty."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-events-", dir=folder.parent) as beside:
            path = Path(beside) / "events.parquet"
            pq.write_table(events, path, compression="zstd", row_group_size=ROW_GROUP)
            write_scenario(folder, settings, tables, path)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}; give another folder") from None
