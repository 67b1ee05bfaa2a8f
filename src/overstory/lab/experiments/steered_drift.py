"""Interests shift after planning: steering, which knows no sample, beside trees that were planned before."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa

from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.graphs import Topology, as_tables, dice
from overstory.lab.localized import (
    ATTRIBUTE,
    EVENT_SCHEMA,
    Localized,
    draw_keywords,
    draw_subscriptions,
    pools_of,
    tables_of_filters,
)
from overstory.lab.measuring import by_seed, lines, where
from overstory.lab.steered_cells import MANY_TREES, ONE_TREE, STEERED, costs_of, network_of, planned, scenario_from
from overstory.lab.tree_cells import DATA_SETS, events_of
from overstory.model.network import Ints
from overstory.model.scenario import write_scenario
from overstory.model.settings import Settings as Toml

MOVED = (0.0, 0.1, 0.25, 0.5, 1.0)  # the shares of keywords whose subscribers are elsewhere afterwards
PAYLOAD = 200


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    brokers, seeds = (60, 1) if quick else (500, 5)
    for seed in range(1, seeds + 1):
        for data in ("Localized1", "Localized2"):
            yield {
                "network": "transit-stub",
                "brokers": brokers,
                "data": data,
                "events": events_of(quick),
                "seed": seed,
            }


def run(settings: Settings) -> list[Row]:
    """A plan of each kind, made before the shift and priced after it."""
    seed = int(str(settings["seed"]))
    made = network_of(str(settings["network"]), int(str(settings["brokers"])), seed)
    what = Localized(locality=DATA_SETS[str(settings["data"])], events=int(str(settings["events"])))
    with scenario_from(drifting(made, what, seed, 0.0)) as before:
        plans = {way: planned(before, way, seed) for way in (STEERED, ONE_TREE, MANY_TREES)}
    rows: list[Row] = []
    for moved in MOVED:
        with scenario_from(drifting(made, what, seed, moved)) as after:
            costs, bound = costs_of(after, plans)
        rows += [
            settings | {"moved": moved, "way": way, "bare": cost.bare / bound, "ratio": cost.of(PAYLOAD) / bound}
            for way, cost in costs.items()
        ]
    return rows


def drifting(made: Topology, what: Localized, seed: int, moved: float) -> Callable[[Path], None]:
    """Writes the localized workload, in which some keywords are wanted elsewhere: each subscription keeps its number
    and its filter, and is another client's. Events follow those who want them."""
    dices = dice(seed).spawn(5)
    old, new = (_subscribers(made, what, each) for each in dices[:2])
    moving = dices[2].permutation(what.keywords) < moved * what.keywords
    width = old.shape[1]
    broker = np.where(moving[:, None], new, old).ravel()
    keyword = np.repeat(np.arange(what.keywords), width)
    order = np.lexsort((keyword, broker))
    pools = pools_of(made, what, keyword[order], broker[order], dices[3])
    words = pa.array([f"k{number}" for number in range(what.keywords)])
    starts, drawn = draw_keywords(pools, what.events, what.keywords_per_event, dices[4])
    ids = np.arange(what.events)
    lists = pa.ListArray.from_arrays(pa.array(starts), words.take(pa.array(drawn)))
    publishers = made.brokers + dices[4].integers(made.brokers, size=len(ids))
    columns = [ids, ids.astype(np.float64), publishers, np.full(len(ids), what.bytes), lists]
    events = pa.table(dict(zip(EVENT_SCHEMA.names, columns, strict=True)), EVENT_SCHEMA)
    filters = pa.array([f"{ATTRIBUTE} HAS ANY ('k{number}')" for number in range(what.keywords)]).take(
        pa.array(keyword)
    )
    tables = as_tables(made) | tables_of_filters(made.brokers, filters, broker)

    def write(folder: Path) -> None:
        write_scenario(folder, Toml(name="drifted", made_by=msgspec.structs.asdict(what)), tables, events)

    return write


def _subscribers(made: Topology, what: Localized, draw: np.random.Generator) -> Ints:
    """By keyword, the brokers that subscribe to it."""
    keyword, broker = draw_subscriptions(made, what, draw)
    return broker[np.argsort(keyword, kind="stable")].reshape(what.keywords, -1)


def worse(rows: Sequence[Row], way: str) -> BySeed:
    """How much more a way costs beside the bound once all interests have moved, in points."""
    now, then = (by_seed(where(rows, way=way, moved=moved), "ratio") for moved in (1.0, 0.0))
    return {seed: 100 * (now[seed] - then[seed]) for seed in now}


def figures(rows: Sequence[Row]) -> list[Figure]:
    return [
        Figure(
            f"steered-drift-{data.lower()}",
            f"{data}: plans made before interests shift, at {PAYLOAD} bytes",
            "share of keywords that moved",
            "times the certified bound",
            lines(where(rows, data=data), "moved", "ratio", "way"),
        )
        for data in ("Localized1", "Localized2")
    ]


EXPERIMENT = Experiment(
    "steered-drift",
    "interests shift after planning: steering beside one tree and many that were planned before",
    cells,
    run,
    measures={f"worse_{way.replace(' ', '_')}": partial(worse, way=way) for way in (STEERED, ONE_TREE, MANY_TREES)},
    figures=figures,
)
