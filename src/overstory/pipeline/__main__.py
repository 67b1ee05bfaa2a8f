"""python -m overstory.pipeline: compiles the kernels of the pipeline, so that no worker of Spark has to."""

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

from overstory.kernels.branching import Candidates, Places, Rows, lowest_hops
from overstory.kernels.distances import KINDS
from overstory.kernels.steiner import ROUTE
from overstory.kernels.ways import ways_from
from overstory.matching import FrozenIndex, freeze
from overstory.model.plan import Header, Plan
from overstory.model.scenario import read_scenario, write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import BROKERS, CLIENTS, LINKS, SUBSCRIPTIONS
from overstory.pipeline.bound import bound_here
from overstory.pipeline.columns import batch_of
from overstory.pipeline.effort import ALL, NONE
from overstory.pipeline.entries import entries_of
from overstory.pipeline.flood import flood_prices
from overstory.pipeline.match import reduce_batch
from overstory.pipeline.predicates import index_of
from overstory.pipeline.rules import metered
from overstory.pipeline.score import counted
from overstory.pipeline.steiner import crossed, ground_of
from overstory.pipeline.validate import problems_of_plan

TABLES = {
    "brokers": pa.Table.from_pylist([{"id": 0}, {"id": 1}], BROKERS.schema),
    "links": pa.Table.from_pylist(
        [{"source": at, "target": 1 - at, "price": 1.0, "delay": 1.0} for at in (0, 1)], LINKS.schema
    ),
    "clients": pa.Table.from_pylist([{"id": 2, "broker": 0}, {"id": 3, "broker": 1}], CLIENTS.schema),
    "subscriptions": pa.Table.from_pylist(
        [{"id": 0, "client": 3, "filter": "price > 1 AND word = 'a'", "no_local": False}], SUBSCRIPTIONS.schema
    ),
}
EVENTS = pa.table(
    {"$id": [0], "$time": [0.0], "$publisher": [2], "$bytes": [1], "price": [2.0], "word": ["a"], "tags": [["a"]]}
)
PLAN = {
    "attachments": pa.table({"client": [2, 3], "broker": [0, 1]}),
    "flows": pa.table({"flow": [0, 1], "kind": ["tree", "paths"], "events": ["TRUE", "FALSE"], "associations": [0, 0]}),
    "members": pa.table({"flow": [0], "subscription": [0], "part": pa.nulls(1, pa.string())}),
    "trees": pa.table({"flow": [0], "source": [0], "target": [1]}),
}


def use_every_kernel(folder: Path) -> None:
    write_scenario(folder / "scenario", Settings(), TABLES, EVENTS)
    scenario = read_scenario(folder / "scenario")
    plan = Plan.of(Header("", scenario.fingerprint), PLAN)
    known = metered(scenario, plan, np.array([2]))
    freeze(index_of(known.predicates.texts), folder / "index")
    (events,) = EVENTS.append_column("$part", pa.array([0])).to_batches()
    rows = reduce_batch(events, *FrozenIndex(folder / "index").match_batch(batch_of(events)))
    counted([rows], known.rules, known.steering, known.publishers)
    network = scenario.network
    ways_from(network.offsets, network.targets, np.array([1.0, 2.0]), known.rules.publisher_broker)
    for chosen in (ALL, NONE):
        bound_here(rows, known, scenario.network, chosen)
    graph, distances = ground_of(scenario.network, known.rules)
    for kind in KINDS:
        table = distances._replace(far=distances.far.astype(kind))
        crossed([rows], known.rules, known.publishers, graph, table, ROUTE)
    entries_of(plan, known)
    problems_of_plan(scenario, plan, known.publishers)
    alone = np.zeros(1, np.int64)
    lone = Candidates(alone, np.full((1, 1), -1), np.zeros((1, 1), np.int64))
    lowest_hops(lone, Rows(alone, np.arange(2), alone), Places(np.arange(2), alone))
    flood_prices(scenario.network)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        use_every_kernel(Path(folder))
