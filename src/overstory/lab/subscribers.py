"""Scenarios of the assignment paper (Yu, Agarwal and Yang): many subscribers with places, and a tree of brokers.

The network space has five dimensions, in which a unit is a millisecond. Locations are drawn around the centres of three
regions (Asia, North America and Europe, 4:1:4); brokers are drawn by the same law, and subscribers stand at locations.
The publisher is between the regions. With *one* level all brokers are its children; with *several* its children are the
medoids of clusters of at most 15, and so on down. A subscriber allows (1 + delay) times the latency of the shortest way
to it through the tree. Leaves have equal shares of the subscribers; the publisher's broker has just the publisher.
Until somebody plans, a subscriber is at the broker that is closest to it.

Limits are the paper's. Where latency is *tight* it wants loads of 7 and allows 8, as 6 is the least possible in its
network; in ours the least possible is another number, so loads are 7/6 and 8/6 of that.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from overstory.errors import InfeasibleError, UsageError
from overstory.lab.broker_trees import Tree, tree_of
from overstory.lab.event_points import points_in
from overstory.lab.graphs import dice
from overstory.lab.interests import REGIONS, SIDE, Interests, broad_and_narrow, google_groups, hotspots, rss
from overstory.lab.latency_matrix import embedded, misjudged, read_matrix
from overstory.model.delays import MICRO
from overstory.model.network import Floats, Ints
from overstory.model.scenario import write_scenario
from overstory.model.settings import Access, Limits, Settings
from overstory.model.tables import BROKERS, CLIENTS, EVENTS, LINKS, SUBSCRIPTIONS
from overstory.planners.assignment.balancing import Truths, least_load_factor

DIMENSIONS, LOCATIONS = 5, 1000
FAR, SPREAD = 100.0, 16.0  # of the regions from the publisher, and of a region in each dimension, in milliseconds
MOST_ROWS = 4_000_000  # of links between clients and brokers
STEP = 1e-6  # milliseconds: what subscribers allow is a multiple of it
ROUNDED = 4 * 0.5 / MICRO  # milliseconds: by how much delays are rounded up, on four links, at most
KINDS = ("google-groups", "rss", "hotspots", "broad-and-narrow")
LOADS = {
    "google-groups": (1.5, 1.8),
    "rss": (2.3, 2.5),
    "hotspots": (1.3, 1.5),
    "broad-and-narrow": (1.0, 1.0),
}  # wanted, at most
DELAYS = {"one": 0.3, "tight": 0.2, "loose": 1.0}  # beyond the shortest way, relative to it
ANYWHERE = 1e3  # a delay within which every broker can serve everybody
BROKER_PLACES = {"subscribers": REGIONS, "even": np.full(len(REGIONS), 1 / len(REGIONS))}  # shares of the regions
LOOSE = 1.3, 1.5  # loads with several levels and loose latency
TIGHT = 7 / 6, 8 / 6  # loads with tight latency, as the paper has them relative to the least possible
ATTRIBUTES = ("x", "y")


class Subscribers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    kind: str = "google-groups"
    subscribers: int = 100_000
    brokers: int = 100
    interest_skew: str = "high"
    broad_interests: str = "low"
    levels: str = "one"
    latency: str = "loose"  # with several levels
    delay: float | None = None  # of the shortest way, beyond it; None: as the paper has it
    load: float | None = None  # clients of a broker relative to its share, at most
    load_wanted: float | None = None
    processing: float = 0.0  # milliseconds at each broker
    latencies: str = ""  # a file with a matrix of latencies between sites, which are then the locations
    raw: bool = False  # whether delays to clients are the matrix's own, as rows of links, instead of coordinates
    broker_places: str = "subscribers"  # by which law brokers are drawn: a key of BROKER_PLACES
    events_from: str = ""  # a file with a log whose events are drawn from; without one they are uniform
    event_columns: str = ""  # its two columns
    boxes: int = 3
    events: int = 100_000

    def __post_init__(self) -> None:
        for name in ("subscribers", "brokers", "boxes", "events"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be 1 or more, not {getattr(self, name)}")
        if self.raw and not self.latencies:
            raise UsageError("raw delays are those of a matrix of latencies: name one with --latencies FILE")
        if self.raw and self.subscribers * self.brokers > MOST_ROWS:
            raise UsageError(
                f"raw delays take a row for each pair: {self.subscribers:,} subscribers and {self.brokers:,} brokers "
                f"are more than {MOST_ROWS:,}; take fewer, or leave out --raw"
            )

    @property
    def allowed_delay(self) -> float:
        usual = DELAYS["one" if self.levels == "one" else self.latency]
        usual = ANYWHERE if self.kind == "broad-and-narrow" else usual
        return usual if self.delay is None else self.delay

    def loads(self, least: float) -> tuple[float, float]:
        """The load factor that is wanted and the largest one, where ``least`` is the least possible one."""
        wanted, most = LOADS.get(self.kind, (least, least)) if self.levels == "one" else LOOSE
        if self.levels == "several" and self.latency == "tight":
            wanted, most = (float(np.ceil(100 * ratio * least) / 100) for ratio in TIGHT)
        most = most if self.load is None else self.load
        return min(wanted, most) if self.load_wanted is None else self.load_wanted, most


def make_subscribers(folder: Path, what: Subscribers, seed: int) -> list[str]:
    """Writes a scenario, and says how small the load factor can be. Raises an ``InfeasibleError``, and writes nothing,
    if no assignment is within the limits."""
    network_dice, interest_dice, event_dice = dice(seed).spawn(3)
    ground = _measured(what, network_dice) if what.latencies else _drawn(what, network_dice)
    locations, region, tree = ground.locations, ground.region, ground.tree
    interests = _interests(what, region, interest_dice)
    last = ground.last_hops(what.raw)
    latest, reach, closest = _latest(tree, last, what.allowed_delay)
    least = _least_factor(interests, reach, tree)
    wanted, most = what.loads(least)
    if least > most:
        raise InfeasibleError(
            f"the least load factor of any assignment in time is {least:.3f}, and {most:g} is the limit; "
            "draw with another --seed, or allow more with --load or --delay"
        )
    tables = _tables(tree, interests, locations, latest, closest)
    if what.raw:
        tables["links"] = pa.concat_tables([tables["links"], _rows_of(tree, interests, last)])
    settings = _settings(what, wanted, most, seed)
    write_scenario(folder, settings, tables, _events(what, tree, event_dice))
    return [
        f"least feasible load factor: {least:.3f} (wanted {wanted:g}, at most {most:g})",
        f"{len(interests.low):,} distinct interests, {len(tree.leaves):,} leaf brokers, "
        f"{reach.sum(axis=1).mean():.1f} of them in reach of a location on average",
        *ground.notes(latest),
    ]


class Places(NamedTuple):
    """Where everybody is; ``measured`` is, by location and broker, the measured latency, if there is one."""

    locations: Floats
    region: Ints
    tree: Tree
    measured: Floats | None = None
    error: float = 0.0

    def last_hops(self, raw: bool) -> Floats:
        """By location and leaf, in milliseconds: measured, or by coordinates."""
        if raw and self.measured is not None:
            return np.asarray(self.measured[:, self.tree.leaves])
        return np.asarray(np.linalg.norm(self.locations[:, None] - self.tree.places[self.tree.leaves], axis=2))

    def notes(self, latest: Floats) -> list[str]:
        if self.measured is None:
            return []
        leaves, before = self.tree.leaves, self.tree.before[self.tree.leaves]
        near = before + self.last_hops(raw=False)
        late = misjudged(near, before + self.measured[:, leaves], latest)
        return [
            f"coordinates of {len(self.locations):,} sites are off by {self.error:.1%} (median of all pairs); "
            f"of brokers in time by coordinates, {late:.1%} are late by the matrix"
        ]


def _drawn(what: Subscribers, draw: np.random.Generator) -> Places:
    centres = _centres()
    locations, region = _draw_places(LOCATIONS, centres, draw)
    brokers = _draw_places(what.brokers, centres, draw, BROKER_PLACES[what.broker_places])[0]
    several = what.levels == "several"
    return Places(locations, region, tree_of(brokers, np.zeros(DIMENSIONS), several, what.processing))


def _measured(what: Subscribers, draw: np.random.Generator) -> Places:
    """Sites of a matrix of latencies: all are locations, some are brokers; regions are around three of them that are
    far from each other, and the publisher is at the site that is nearest to all."""
    matrix = read_matrix(Path(what.latencies))
    found = embedded(matrix, DIMENSIONS, 0)
    middle = int(matrix.mean(axis=1).argmin())
    sites = draw.choice(len(matrix), what.brokers, replace=what.brokers > len(matrix))
    far = [middle]
    while len(far) < len(REGIONS):
        far.append(int(matrix[:, far].min(axis=1).argmax()))
    tree = tree_of(found.places[sites], found.places[middle], what.levels == "several", what.processing)
    return Places(
        found.places, matrix[:, far].argmin(axis=1), tree, matrix[:, np.concatenate([[middle], sites])], found.error
    )


def _centres() -> Floats:
    """Three points as far from the publisher, which is at the origin, as each other."""
    angle = 2 * np.pi * np.arange(len(REGIONS)) / len(REGIONS)
    found = np.zeros((len(REGIONS), DIMENSIONS))
    found[:, 0], found[:, 1] = FAR * np.cos(angle), FAR * np.sin(angle)
    return found


def _draw_places(
    count: int, centres: Floats, draw: np.random.Generator, shares: Floats = REGIONS
) -> tuple[Floats, Ints]:
    """Each region has its share of the places, as nearly as whole numbers can."""
    region = np.searchsorted(np.cumsum(shares) - 1e-9, (np.arange(count) + 0.5) / count)
    return centres[region] + SPREAD * draw.standard_normal((count, DIMENSIONS)), region


def _interests(what: Subscribers, region: Ints, draw: np.random.Generator) -> Interests:
    if what.kind == "google-groups":
        return google_groups(what.subscribers, region, what.interest_skew, what.broad_interests, draw)
    if what.kind == "broad-and-narrow":
        return broad_and_narrow(what.subscribers, what.brokers, len(region), draw)
    return {"rss": rss, "hotspots": hotspots}[what.kind](what.subscribers, len(region), draw)


def _latest(tree: Tree, last: Floats, delay: float) -> tuple[Floats, Truths, Ints]:
    """By location: what it allows, which leaves are in time, and the closest broker with the shortest last hop.
    ``last`` is by location and leaf."""
    leaves = tree.leaves
    far = tree.before[leaves] + last
    latest = np.ceil((1 + delay) * far.min(axis=1) / STEP) * STEP
    return latest, far + ROUNDED <= latest[:, None], leaves[last.argmin(axis=1)]


def _least_factor(interests: Interests, reach: Truths, tree: Tree) -> float:
    count = np.bincount(interests.location, minlength=len(reach))
    fair = np.full(len(tree.leaves), count.sum() / len(tree.leaves))
    return least_load_factor(reach[count > 0], count[count > 0], fair)


def _settings(what: Subscribers, wanted: float, most: float, seed: int) -> Settings:
    made_by = {name: value for name, value in msgspec.structs.asdict(what).items() if value is not None}
    return Settings(
        name=what.kind,
        limits=Limits(load=most, load_wanted=wanted, boxes=what.boxes),
        access=Access(metric="none") if what.raw else Access(metric="places", price=0.0, delay=1.0),
        made_by={"seed": seed, **made_by},
    )


def _tables(tree: Tree, interests: Interests, locations: Floats, latest: Floats, closest: Ints) -> dict[str, pa.Table]:
    brokers, count = len(tree.parent), len(interests.of_subscriber)
    below = np.arange(1, brokers)
    delay = tree.before[below] - tree.before[tree.parent[below]]
    ends = np.concatenate([tree.parent[below], below]), np.concatenate([below, tree.parent[below]])
    links = dict(zip(LINKS.schema.names, (*ends, np.ones(2 * len(below)), np.tile(delay, 2)), strict=True))
    return {
        "brokers": _broker_table(tree, count),
        "links": pa.table(links, LINKS.schema),
        "clients": _client_table(tree, interests, locations, latest, closest),
        "subscriptions": _subscription_table(brokers, interests),
    }


def _rows_of(tree: Tree, interests: Interests, last: Floats) -> pa.Table:
    """A link, both ways, between each client and each leaf, as slow as the matrix says."""
    leaves, count = tree.leaves, len(interests.of_subscriber)
    client = np.repeat(len(tree.parent) + 1 + np.arange(count), len(leaves))
    broker, delay = np.tile(leaves, count), last[interests.location].reshape(-1)
    ends = np.concatenate([broker, client]), np.concatenate([client, broker])
    columns = (*ends, np.zeros(2 * len(client)), np.tile(delay, 2))
    return pa.table(dict(zip(LINKS.schema.names, columns, strict=True)), LINKS.schema)


def _broker_table(tree: Tree, subscribers: int) -> pa.Table:
    brokers = len(tree.parent)
    share = np.zeros(brokers)
    share[tree.leaves] = subscribers / (subscribers + 1) / len(tree.leaves)
    share[0] = 1 / (subscribers + 1)
    columns = {
        "id": np.arange(brokers),
        "name": ["publisher", *(f"b{number}" for number in range(1, brokers))],
        "x": tree.places[:, 0],
        "y": tree.places[:, 1],
        "capacity": pa.nulls(brokers, pa.float64()),
        "share": share,
        "place": _lists(tree.places),
    }
    return pa.table(columns, BROKERS.full_schema)


def _client_table(tree: Tree, interests: Interests, locations: Floats, latest: Floats, closest: Ints) -> pa.Table:
    count = len(interests.of_subscriber)
    places = np.concatenate([tree.places[:1], locations[interests.location]])
    publishes = np.arange(count + 1) == 0
    columns = {
        "id": len(tree.parent) + np.arange(count + 1),
        "broker": np.concatenate([[0], closest[interests.location]]),
        "x": places[:, 0],
        "y": places[:, 1],
        "name": pa.nulls(count + 1, pa.string()),
        "latest": pa.array(np.concatenate([[0.0], latest[interests.location]]), mask=publishes),
        "place": _lists(places),
    }
    return pa.table(columns, CLIENTS.full_schema)


def _lists(places: Floats) -> pa.Array:
    offsets = np.arange(0, places.size + 1, places.shape[1], dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(places.reshape(-1)))


def _subscription_table(brokers: int, interests: Interests) -> pa.Table:
    count = len(interests.of_subscriber)
    texts = [filter_of(low, high) for low, high in zip(interests.low.tolist(), interests.high.tolist(), strict=True)]
    columns = {
        "id": np.arange(count),
        "client": brokers + 1 + np.arange(count),
        "filter": pa.array(texts).take(pa.array(interests.of_subscriber)),
        "no_local": np.zeros(count, bool),
        "name": pa.nulls(count, pa.string()),
    }
    return pa.table(columns, SUBSCRIPTIONS.full_schema)


def filter_of(low: list[float], high: list[float]) -> str:
    ends = zip(ATTRIBUTES, low, high, strict=True)
    return " AND ".join(f"{name} >= {first:g} AND {name} < {last:g}" for name, first, last in ends)


def _events(what: Subscribers, tree: Tree, draw: np.random.Generator) -> pa.Table:
    points = draw.uniform(0, SIDE, (what.events, 2))
    if what.events_from:
        points = points_in(Path(what.events_from), what.event_columns, what.events, draw)
    ids = np.arange(what.events)
    publisher = np.full(what.events, len(tree.parent))
    columns = [ids, ids.astype(np.float64), publisher, np.ones(what.events, np.int64), points[:, 0], points[:, 1]]
    schema = pa.schema([*EVENTS.schema, *(pa.field(name, pa.float64()) for name in ATTRIBUTES)])
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema)
