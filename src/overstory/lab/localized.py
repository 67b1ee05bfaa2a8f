"""The keyword workload of the routing-trees paper (Majumder et al., Scalable Content-Based Routing in Pub/Sub Systems).

A keyword has a home somewhere in the network, and its subscribers are drawn from the brokers around it: ``locality`` is
0.02 for the paper's Localized1, 0.15 for Localized2 and 1 for Uniform. The keywords of an event are drawn from what a
small neighbourhood subscribes to, so that an event's keywords belong together, too. It is published anywhere.

Every broker has one client, and every pair of a broker and a keyword is a subscription of its own; or, with
``per_broker``, a broker has one subscription to any of its keywords.
"""

import tempfile
from math import ceil
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.lab.distances import BLOCK, closest
from overstory.lab.graphs import MadeBy, Topology, as_tables, dice
from overstory.model.network import Ints
from overstory.model.scenario import write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import CLIENTS, EVENTS, SUBSCRIPTIONS

ROW_GROUP = 1 << 17  # events in memory at once
ATTRIBUTE = "keywords"
EVENT_SCHEMA = pa.schema([*EVENTS.schema, pa.field(ATTRIBUTE, pa.list_(pa.string()))])


class Localized(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    keywords: int = 1000
    subscribers_per_keyword: int = 10  # at most; fewer where there are not as many brokers around
    locality: float = 0.02  # the share of all brokers, the closest to a keyword's home, that may subscribe to it
    events: int = 10_000
    keywords_per_event: int = 2  # at most; fewer where a neighbourhood does not subscribe to as many
    event_neighbourhood: int = 5  # the brokers closest to a random one, from whose subscriptions an event draws
    bytes: int = 1  # of an event
    per_broker: bool = False  # one subscription to any of a broker's keywords, instead of one for each of them

    def __post_init__(self) -> None:
        for name, value in msgspec.structs.asdict(self).items():
            least = 0 if name in ("events", "bytes") else 1
            if name not in ("locality", "per_broker") and value < least:
                raise UsageError(f"{name} must be {least} or more, not {value}")
        if not 0 < self.locality <= 1:
            raise UsageError(f"locality must be more than 0 and at most 1, a share of all brokers, not {self.locality}")


class Pools(msgspec.Struct, frozen=True):
    """The keywords that each neighbourhood subscribes to: those of i are between offsets i and i + 1."""

    offsets: Ints
    keywords: Ints


def make_localized(folder: Path, topology: Topology, parameters: Localized, seed: int) -> None:
    """Writes a scenario with this workload. Its subscriptions do not depend on how many events there are."""
    subscription_dice, neighbourhood_dice, event_dice = dice(seed).spawn(3)
    keyword, broker = draw_subscriptions(topology, parameters, subscription_dice)
    pools = pools_of(topology, parameters, keyword, broker, neighbourhood_dice)
    made_by: MadeBy = {"kind": "localized", "seed": seed, **topology.made_by, **msgspec.structs.asdict(parameters)}
    described = _per_broker if parameters.per_broker else _per_keyword
    tables = as_tables(topology) | tables_of_filters(topology.brokers, *described(keyword, broker))
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside the folder, so that moving the file in is only a change of name
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-events-", dir=folder.parent) as beside:
            events = Path(beside) / "events.parquet"
            _write_events(events, topology.brokers, pools, parameters, event_dice)
            write_scenario(folder, Settings(name="localized", made_by=made_by), tables, events)
    except OSError as error:
        raise UsageError(f"cannot write {folder}: {error.strerror or error}; give another folder") from None


def draw_subscriptions(topology: Topology, parameters: Localized, draw: np.random.Generator) -> tuple[Ints, Ints]:
    """Keywords and brokers, a pair for each subscription, in the order of brokers and then of keywords."""
    around = max(1, ceil(parameters.locality * topology.brokers))
    homes = draw.integers(topology.brokers, size=parameters.keywords)
    wanting = min(parameters.subscribers_per_keyword, around)
    subscribers = np.empty((parameters.keywords, wanting), np.int64)
    for start in range(0, parameters.keywords, BLOCK):
        near = closest(topology.adjacency(), homes[start : start + BLOCK], around, draw)
        chosen = np.argpartition(draw.random(near.shape), wanting - 1, axis=1)[:, :wanting]
        subscribers[start : start + BLOCK] = np.take_along_axis(near, chosen, axis=1)
    keywords = np.repeat(np.arange(parameters.keywords), wanting)
    order = np.lexsort((keywords, subscribers.ravel()))
    return keywords[order], subscribers.ravel()[order]


def pools_of(
    topology: Topology, parameters: Localized, keyword: Ints, broker: Ints, draw: np.random.Generator
) -> Pools:
    """The different keywords around each broker, for those brokers around which there are any."""
    size = min(parameters.event_neighbourhood, topology.brokers)
    near = closest(topology.adjacency(), np.arange(topology.brokers), size, draw)
    starts = np.searchsorted(broker, np.arange(topology.brokers + 1))
    many = np.diff(starts)[near.ravel()]
    first = np.repeat(starts[near.ravel()] - (np.cumsum(many) - many), many)
    centre = np.repeat(np.repeat(np.arange(topology.brokers), size), many)
    keys = np.unique(centre * parameters.keywords + keyword[first + np.arange(len(first))])
    sizes = np.bincount(keys // parameters.keywords, minlength=topology.brokers)
    offsets = np.concatenate(([0], np.cumsum(sizes[sizes > 0])))
    return Pools(offsets, keys % parameters.keywords)


def draw_keywords(pools: Pools, events: int, most: int, draw: np.random.Generator) -> tuple[NDArray[np.int32], Ints]:
    """For each event a random subset of a random pool: where each begins, and all their keywords.

    Robert Floyd's way to draw without replacement, for all events at once: the i-th of k draws is from the first
    size - k + i + 1 of the pool, and if that is taken, it is the last of these, which cannot be.
    """
    pool = draw.integers(len(pools.offsets) - 1, size=events)
    size = np.diff(pools.offsets)[pool]
    wanted = np.minimum(size, most)
    chosen = np.full((events, most), -1)
    for i in range(most):
        last = size - wanted + i
        drawn = (draw.random(events) * (last + 1)).astype(np.int64)
        taken = (chosen[:, :i] == drawn[:, None]).any(axis=1)
        chosen[:, i] = np.where(taken, last, drawn)
    is_drawn = np.arange(most) < wanted[:, None]
    starts = np.concatenate(([0], np.cumsum(wanted))).astype(np.int32)
    return starts, pools.keywords[(pools.offsets[pool][:, None] + chosen)[is_drawn]]


def _per_keyword(keyword: Ints, broker: Ints) -> tuple[pa.Array, Ints]:
    """Filters, and the broker of each."""
    filters = pa.array([f"{ATTRIBUTE} HAS ANY ('{word}')" for word in _words(keyword)])
    return filters.take(pa.array(keyword)), broker


def _per_broker(keyword: Ints, broker: Ints) -> tuple[pa.Array, Ints]:
    brokers, starts = np.unique(broker, return_index=True)
    words = _words(keyword)
    wanted = [", ".join(f"'{words[word]}'" for word in own.tolist()) for own in np.split(keyword, starts[1:])]
    return pa.array([f"{ATTRIBUTE} HAS ANY ({names})" for names in wanted]), brokers


def tables_of_filters(brokers: int, filters: pa.Array, broker: Ints) -> dict[str, pa.Table]:
    none = pa.nulls(brokers, pa.float64())
    clients = {"id": brokers + np.arange(brokers), "broker": np.arange(brokers), "x": none, "y": none}
    subscriptions = {
        "id": np.arange(len(filters)),
        "client": brokers + broker,
        "filter": filters,
        "no_local": np.zeros(len(filters), bool),
    }
    return {
        "clients": pa.table(clients, CLIENTS.schema),
        "subscriptions": pa.table(subscriptions, SUBSCRIPTIONS.schema),
    }


def _words(keyword: Ints) -> list[str]:
    return [f"k{number}" for number in range(int(keyword.max()) + 1)]


def _write_events(path: Path, brokers: int, pools: Pools, parameters: Localized, draw: np.random.Generator) -> None:
    words = pa.array(_words(pools.keywords))
    with pq.ParquetWriter(path, EVENT_SCHEMA, compression="zstd") as writer:
        for start in range(0, parameters.events, ROW_GROUP):
            ids = np.arange(start, min(start + ROW_GROUP, parameters.events))
            publishers = brokers + draw.integers(brokers, size=len(ids))
            starts, keyword = draw_keywords(pools, len(ids), parameters.keywords_per_event, draw)
            lists = pa.ListArray.from_arrays(pa.array(starts), words.take(pa.array(keyword)))
            columns = [ids, ids.astype(np.float64), publishers, np.full(len(ids), parameters.bytes), lists]
            writer.write_table(pa.table(dict(zip(EVENT_SCHEMA.names, columns, strict=True)), EVENT_SCHEMA), ROW_GROUP)
