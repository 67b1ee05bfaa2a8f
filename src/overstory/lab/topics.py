"""The workload of the topics paper (Milo, Zur and Verbin, Boosting topic-based publish-subscribe systems): users who
want topics, in natural clusters or none, and who declare and change their interests one after the other.

Topics form natural clusters of equal size. A user has two of them, each topic of these with probability 1 - ``noise``,
and any other topic with the probability that makes 25 interests on average: so noise 0 is clean, and noise 0.79 with
120 topics uniform. Rates of topics follow the paper's three models (its Table 1), in events per maintenance interval.

Everyone is at one broker, and all events are published at another: the link between them costs ``cost_n`` a byte, the
link to a user ``cost_d``, a subscription ``cost_m`` an interval and an association ``cost_a``; all are 1. With
``coalesce = false`` the one cost then is the paper's OC, times the intervals of the log.

``NOISE`` was found before any planner was tuned, by ``calibrated``: k-means with its best number of clusters, where
users subscribe by the paper's rule and never reconsider, comes closest to what the paper's k-means saves.
"""

import tempfile
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.lab.graphs import dice
from overstory.model.scenario import write_scenario
from overstory.model.settings import Access, Curves, Prices, Settings
from overstory.model.tables import BROKERS, CHANGES, CLIENTS, EVENTS, LINKS, SUBSCRIPTIONS
from overstory.planners.topics.costs import SCRIBE_AVERAGE, SCRIBE_WORST
from overstory.planners.topics.demand import Demand
from overstory.planners.topics.replaying import ADD, DROP, RATE, Changes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Band = tuple[float, float, int]  # rates from, to, and the share of the topics in percent
MODELS: dict[str, tuple[Band, ...]] = {
    "average": ((0.4, 0.6, 15), (0.2, 0.4, 5), (0.1, 0.2, 25), (0.02, 0.1, 45), (0.002, 0.02, 10)),
    "frequent": ((1.0, 3.0, 5), (0.5, 1.0, 20), (0.1, 0.5, 50), (0.01, 0.1, 20), (0.001, 0.01, 5)),
    "infrequent": ((0.1, 0.2, 10), (0.01, 0.1, 40), (0.001, 0.01, 50)),
    "printed": ((0.6, 0.6, 15), (0.2, 0.4, 5), (0.1, 0.2, 25), (0.02, 0.1, 45), (0.002, 0.02, 10)),
}
PERIODS = {"two-months": 61 * 86400.0, "two-weeks": 14 * 86400.0, "day": 86400.0}
M = 360.0  # seconds of a maintenance interval
NOISE = 0.25
BLOCKS_OF_A_USER = 2
SHIFTS = ("none", "interests", "uniform", "rates")
USERS_AT_ONCE = 1 << 16
MOST_SHARE = 0.999  # of the other topics that a user may want
SECONDS_APART = 10.0  # two changes of one user
HUB, PRESS = 0, 1  # the broker of all users, and that of the publisher
PUBLISHER = 2  # the client; users come after it
CURVES = {"linear": (), "scribe": SCRIBE_AVERAGE, "scribe-worst": SCRIBE_WORST}


class Topics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    users: int = 3000
    topics: int = 120
    natural_clusters: int = 10  # 0: uniform interests
    interests: int = 25  # of a user, on average
    frequency: Literal["average", "frequent", "infrequent", "printed"] = "average"
    noise: float = NOISE
    opposed: bool = False  # whether clusters come in pairs of which a user wants topics of one at most
    period: Literal["two-months", "two-weeks", "day"] = "two-months"
    shift: Literal["none", "interests", "uniform", "rates"] = "none"
    intervals: int = 240  # maintenance intervals in the log
    maintenance: Literal["linear", "scribe", "scribe-worst"] = "linear"
    changes: bool = True  # whether the history of interests is written

    def __post_init__(self) -> None:
        for name in ("users", "topics", "interests", "intervals"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be 1 or more, not {getattr(self, name)}")
        if not 0 <= self.noise <= 1:
            raise UsageError(f"noise must be from 0 to 1, a share of a user's interests, not {self.noise}")
        if not 0 <= self.natural_clusters <= self.topics:
            raise UsageError(f"there cannot be {self.natural_clusters} natural clusters of {self.topics} topics")


class Workload(NamedTuple):
    """Who wants what in the end, and how it came to that."""

    demand: Demand
    before: Demand | None  # with a shift: who wanted what at the beginning
    block: Ints  # by topic: its natural cluster in the end
    block_before: Ints
    changes: Changes


def draw_rates(model: str, topics: int, draw: np.random.Generator) -> Floats:
    """Each band has its share of the topics, up to rounding."""
    bands = MODELS[model]
    ends = np.rint(np.cumsum([share for *_, share in bands]) * topics / 100).astype(np.int64)
    band = np.searchsorted(ends, np.arange(topics), side="right")
    low, high = np.array([(one, other) for one, other, _ in bands]).T
    return draw.permutation(draw.uniform(low[band], high[band]))


def draw_interests(what: Topics, block: Ints, draw: np.random.Generator) -> tuple[Ints, NDArray[np.int32]]:
    """Of user i the topics between offsets i and i + 1."""
    users, topics = [], []
    for start in range(0, what.users, USERS_AT_ONCE):
        count = min(USERS_AT_ONCE, what.users - start)
        user, topic = _some_interests(what, block, count, draw)
        users.append(user + start)
        topics.append(topic)
    user, topic = np.concatenate(users), np.concatenate(topics)
    return np.searchsorted(user, np.arange(what.users + 1)), topic.astype(np.int32)


def _some_interests(what: Topics, block: Ints, users: int, draw: np.random.Generator) -> tuple[Ints, Ints]:
    blocks = what.natural_clusters
    by_block = np.argsort(block, kind="stable")
    sizes = np.bincount(block, minlength=max(blocks, 1))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    chosen = _blocks(what, users, draw)
    widest = int(sizes.max())
    slot = np.arange(widest)
    kept = (slot < sizes[chosen][..., None]) & (draw.random((*chosen.shape, widest)) < 1 - what.noise)
    own_user = np.broadcast_to(np.arange(users)[:, None, None], kept.shape)[kept]
    own = by_block[np.minimum(starts[chosen][..., None] + slot, what.topics - 1)[kept]]
    inner = sizes[chosen].sum(axis=1)
    share = np.clip((what.interests - inner * (1 - what.noise)) / np.maximum(what.topics - inner, 1), 0, MOST_SHARE)
    extra = draw.poisson(-np.log1p(-share) * (what.topics - inner))  # so many, as some are drawn twice
    other_user = np.repeat(np.arange(users), extra)
    other = draw.integers(what.topics, size=len(other_user))
    fits = ~(block[other][:, None] == chosen[other_user]).any(axis=1)
    if what.opposed and blocks > 1:
        fits &= ~(_opposite(block[other], blocks)[:, None] == chosen[other_user]).any(axis=1)
    while not fits.all():  # a topic of the user's own clusters is drawn again
        again = np.flatnonzero(~fits)
        if what.opposed or not _room(what, inner):
            other_user, other = other_user[fits], other[fits]
            break
        other[again] = draw.integers(what.topics, size=len(again))
        fits = ~(block[other][:, None] == chosen[other_user]).any(axis=1)
    keys = np.unique(np.concatenate([own_user * what.topics + own, other_user * what.topics + other]))
    user, topic = np.divmod(keys, what.topics)
    return user, topic


def _room(what: Topics, inner: Ints) -> bool:
    return bool((inner < what.topics).all())


def _opposite(block: Ints, blocks: int) -> Ints:
    return (block + blocks // 2) % blocks


def _blocks(what: Topics, users: int, draw: np.random.Generator) -> Ints:
    """The natural clusters of each user; none where interests are uniform."""
    blocks = what.natural_clusters
    if not blocks:
        return np.empty((users, 0), np.int64)
    first = draw.integers(blocks, size=users)
    if blocks == 1:
        return first[:, None]
    step = draw.integers(1, blocks, size=users)
    if what.opposed and blocks > 2:
        step = np.where(step == blocks // 2, 1, step)
    return np.stack([first, (first + step) % blocks], axis=1)


def draw_workload(what: Topics, seed: int) -> Workload:
    """The same seed gives the same users whatever the rates are."""
    interest_dice, order_dice, rate_dice, shift_dice = dice(seed).spawn(4)
    block = np.arange(what.topics) * max(what.natural_clusters, 1) // what.topics
    rates = draw_rates(what.frequency, what.topics, rate_dice)
    first = Demand(*draw_interests(what, block, interest_dice), rates)
    if what.shift == "none":
        return Workload(first, None, block, block, _joins(first, what, order_dice))
    if what.shift == "rates":
        later = Demand(first.offsets, first.topics, shift_dice.permutation(rates))
        return Workload(later, first, block, block, _rate_changes(later, what, order_dice))
    plain = what if what.shift == "interests" else msgspec.structs.replace(what, natural_clusters=0)
    new_block = shift_dice.permutation(block) if plain.natural_clusters else np.zeros(what.topics, np.int64)
    later = Demand(*draw_interests(plain, new_block, shift_dice), rates)
    return Workload(later, first, new_block, block, _shifts(first, later, what, order_dice))


def _joins(demand: Demand, what: Topics, draw: np.random.Generator) -> Changes:
    """Each user comes at some time of the period and declares its interests, ten seconds apart."""
    return _in_order([(demand, ADD)], what, draw)


def _shifts(before: Demand, later: Demand, what: Topics, draw: np.random.Generator) -> Changes:
    """At some time of the period each user gives up its interests and declares others, in any order."""
    gone = _without(before, later), DROP
    come = _without(later, before), ADD
    return _in_order([gone, come], what, draw)


def _without(demand: Demand, other: Demand) -> Demand:
    """The interests that are not in the other."""
    topics = len(demand.rates)
    mine, theirs = (each.user_of * topics + each.topics for each in (demand, other))
    user, topic = np.divmod(np.setdiff1d(mine, theirs), topics)
    return Demand(np.searchsorted(user, np.arange(demand.users + 1)), topic.astype(np.int32), demand.rates)


def _in_order(parts: list[tuple[Demand, int]], what: Topics, draw: np.random.Generator) -> Changes:
    user = np.concatenate([each.user_of for each, _ in parts])
    topic = np.concatenate([each.topics for each, _ in parts]).astype(np.int64)
    kind = np.concatenate([np.full(len(each.topics), kind) for each, kind in parts])
    length = PERIODS[what.period]
    joins = draw.uniform(0, length, what.users)
    order = np.lexsort((draw.random(len(user)), joins[user]))
    kind, user, topic = kind[order], user[order], topic[order]
    if not len(user):
        return Changes(np.empty(0), kind, user, topic, np.empty(0))
    starts = np.flatnonzero(np.concatenate([[True], user[1:] != user[:-1]]))
    within = np.arange(len(user)) - np.repeat(starts, np.diff(np.append(starts, len(user))))
    time = np.maximum.accumulate(np.minimum(joins[user] + SECONDS_APART * within, length))
    return Changes(time, kind, user, topic, np.zeros(len(user)))


def _rate_changes(later: Demand, what: Topics, draw: np.random.Generator) -> Changes:
    count = len(later.rates)
    time = np.sort(draw.uniform(0, PERIODS[what.period], count))
    topic = draw.permutation(count)
    return Changes(time, np.full(count, RATE), np.zeros(count, np.int64), topic, later.rates[topic])


def make_topics(folder: Path, what: Topics, seed: int) -> int:
    """Writes a scenario with this workload. Returns how many events it has."""
    work = draw_workload(what, seed)
    event_dice = dice(seed).spawn(5)[4]
    made_by: dict[str, str | int | float | bool] = {"kind": "topics", "seed": seed, **msgspec.structs.asdict(what)}
    settings = Settings(
        name="topics",
        coalesce=False,
        intervals=float(what.intervals),
        prices=Prices(core=1.0, access=1.0, upkeep_access=1.0, upkeep_association=1.0),
        access=Access("euclidean"),
        curves=Curves(CURVES[what.maintenance]),
        made_by=made_by,
    )
    names = topic_names(what.topics)
    tables = network_tables(what.users) | subscription_tables(work.demand, names)
    if what.changes and what.shift != "rates":
        tables["changes"] = change_table(work, names)
    events = draw_events(work.demand.rates, names, what.intervals, event_dice)
    write_with_events(folder, settings, tables, events)
    return int(events.num_rows)


def write_with_events(folder: Path, settings: Settings, tables: dict[str, pa.Table], events: pa.Table) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-events-", dir=folder.parent) as beside:
            log = Path(beside) / "events.parquet"
            pq.write_table(events, log, compression="zstd")
            write_scenario(folder, settings, tables, log)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}; give another folder") from None


def topic_names(topics: int) -> list[str]:
    width = len(str(max(topics - 1, 0)))
    return [f"t{number:0{width}}" for number in range(topics)]


def network_tables(users: int) -> dict[str, pa.Table]:
    """The two brokers, the publisher at its broker, and the users a unit away from theirs."""
    brokers = {"id": [HUB, PRESS], "name": ["hub", "press"], "x": [0.0, 9.0], "y": [0.0, 0.0]}
    links = {"source": [HUB, PRESS], "target": [PRESS, HUB], "price": [1.0, 1.0], "delay": [0.0, 0.0]}
    ids = PUBLISHER + np.arange(users + 1)
    clients = {
        "id": ids,
        "broker": np.where(ids == PUBLISHER, PRESS, HUB),
        "x": np.where(ids == PUBLISHER, 9.0, 1.0),
        "y": np.zeros(users + 1),
    }
    return {
        "brokers": BROKERS.completed(pa.table(brokers)),
        "links": pa.table(links, schema=LINKS.schema),
        "clients": CLIENTS.completed(pa.table(clients)),
    }


def filters_of(offsets: Ints, topics: NDArray[np.int32], names: list[str]) -> pa.Array:
    """``topic IN (…)`` of each user, as a column."""
    quoted = pa.array([f"'{name}'" for name in names]).take(pa.array(topics))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), quoted)
    inner = pc.binary_join(lists, ", ")
    return pc.binary_join_element_wise("topic IN (", inner, ")", "")


def subscription_tables(demand: Demand, names: list[str]) -> dict[str, pa.Table]:
    """One for each user that wants anything; its number is the user's."""
    wanting = np.flatnonzero(np.diff(demand.offsets) > 0)
    offsets = np.append(demand.offsets[wanting], demand.offsets[-1])
    rows = {
        "id": wanting,
        "client": PUBLISHER + 1 + wanting,
        "filter": filters_of(offsets, demand.topics, names),
        "no_local": np.zeros(len(wanting), bool),
    }
    return {"subscriptions": SUBSCRIPTIONS.completed(pa.table(rows))}


def change_table(work: Workload, names: list[str]) -> pa.Table:
    """The history: each change of an interest takes back the user's subscription and makes it anew. It ends before the
    log begins, at time 0."""
    users = work.demand.users
    wants: list[set[int]] = [set() for _ in range(users)]
    if work.before is not None:
        for user, topic in zip(work.before.user_of.tolist(), work.before.topics.tolist(), strict=True):
            wants[user].add(topic)
    rows: dict[str, list[object]] = {name: [] for name in CHANGES.schema.names}
    end = float(work.changes.times[-1]) + 1 if len(work.changes.times) else 0.0

    def say(time: float, operation: str, user: int, text: str | None) -> None:
        for name, value in zip(rows, (time, operation, PUBLISHER + 1 + user, user, text, None), strict=True):
            rows[name].append(value)

    for user in range(users):
        if wants[user]:
            say(-end, "subscribe", user, _said(wants[user], names))
    for row in zip(*(column.tolist() for column in work.changes[:4]), strict=True):
        time, kind, user, topic = row
        if wants[user]:
            say(time - end, "unsubscribe", user, None)
        if kind == ADD:
            wants[user].add(topic)
        else:
            wants[user].discard(topic)
        if wants[user]:
            say(time - end, "subscribe", user, _said(wants[user], names))
    return pa.table(rows, schema=CHANGES.schema)


def _said(topics: set[int], names: list[str]) -> str:
    return f"topic IN ({', '.join(repr(names[each]) for each in sorted(topics))})"


def draw_events(rates: Floats, names: list[str], intervals: int, draw: np.random.Generator) -> pa.Table:
    """Each topic's events come by chance, at its rate."""
    counts = draw.poisson(rates * intervals)
    topic = np.repeat(np.arange(len(rates)), counts)
    time = draw.uniform(0, intervals * M, len(topic))
    order = np.argsort(time, kind="stable")
    columns = {
        "$id": np.arange(len(topic)),
        "$time": time[order],
        "$publisher": np.full(len(topic), PUBLISHER),
        "$bytes": np.ones(len(topic), np.int64),
        "topic": pa.array(names, pa.string()).take(pa.array(topic[order])),
    }
    return pa.table(columns, schema=pa.schema([*EVENTS.schema, pa.field("topic", pa.string())]))
