"""Is it worth it? What one tree, and many, cost beside a copy to each broker and beside the least that is possible.

A row is a network and a workload. Costs are of the part of the log that no planner saw, as ratios to the certified
bound on it, which also is of that part. ``direct`` is unicast; ``many_trees`` sends a copy for each tree, as the papers
do, ``coalesced`` one copy while trees share links. ``steered`` gives each event a Steiner tree of its own;
``with_headers`` is the same with its headers priced, at payloads of 200 bytes.
"""

import atexit
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pyarrow.parquet as pq

from overstory.errors import UsageError
from overstory.lab.aws_regions import LATENCIES, write_links
from overstory.lab.experiment import Experiment, Figure, Line, Parameters, Row, Settings
from overstory.lab.importing import Import, import_scenario
from overstory.lab.localized import Localized, make_localized
from overstory.lab.measuring import number
from overstory.lab.real_logs import LOGS, write_log
from overstory.lab.steered_cells import PAYLOADS
from overstory.lab.topologies import topology
from overstory.model.plan import Value
from overstory.model.scenario import Scenario, read_scenario
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan
from overstory.planners.trees.parameters import count_of

SEED = 1
# Of all sizes, from meshed to nearly a tree
NETWORKS = (
    "zoo:Abilene",
    "topohub:sndlib/polska",
    "topohub:sndlib/nobel-germany",
    "topohub:sndlib/geant",
    "topohub:sndlib/france",
    "zoo:AttMpls",
    "topohub:sndlib/norway",
    "topohub:sndlib/nobel-eu",
    "zoo:SwitchL3",
    "topohub:sndlib/india35",
    "topohub:sndlib/cost266",
    "zoo:Geant2012",
    "zoo:Chinanet",
    "topohub:sndlib/germany50",
    "zoo:Dfn",
    "zoo:Uninett2011",
    "zoo:TataNld",
    "topohub:sndlib/brain",
    "topohub:backbone/north_america",
    "topohub:backbone/europe",
)
AWS = "aws"
LOCALIZED = "localized"
LOCALITY = 0.15
KEYWORDS_PER_BROKER = 2
LOG_NETWORKS = (AWS, "zoo:Geant2012")  # that real logs run on
LOG_SUBSCRIPTIONS = 500  # of which each matches an event in a hundred: an event goes to five of them


class Way(NamedTuple):
    planner: str
    parameters: dict[str, Value]
    coalesce: bool
    headers: bool = False


PAYLOAD = 200  # bytes of an event, beside which headers are priced
WAYS = {
    "direct": Way("direct", {}, False),
    "one_tree": Way("tree-search", {"trees": 1}, False),
    "many_trees": Way("tree-search", {"steered": False}, False),
    "coalesced": Way("tree-search", {"steered": False}, True),
    "steered": Way("steered", {"steer": "all"}, True),
    "with_headers": Way("steered", {"steer": "all"}, True, headers=True),
}


class Case(NamedTuple):
    network: str
    workload: str  # ``localized``, or the name of a real log

    def needs(self) -> list[str]:
        """Files in the folder of data."""
        latencies = [LATENCIES] if self.network == AWS else []
        return latencies if self.workload == LOCALIZED else [*latencies, LOGS[self.workload].file]

    def __str__(self) -> str:
        return f"{self.workload} on {self.network}"


class Costs(NamedTuple):
    by_way: dict[str, float]
    bound: float
    trees: int  # of the coalesced plan

    def ratios(self) -> dict[str, float | None]:
        return {way: cost / self.bound if self.bound else None for way, cost in self.by_way.items()}


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    data = Path(str(parameters["data"]))
    if not data.is_dir():
        raise UsageError(f"data={data}: there is no such folder")
    events, networks = (count_of(parameters, name) for name in ("events", "networks"))
    for case in cases(networks):
        yield {
            "network": case.network,
            "workload": case.workload,
            "data": str(data.resolve()),
            "there": all((data / file).is_file() for file in case.needs()),
            "events": min(events, 1000) if quick else events,
            "seed": SEED,
        }


def run(settings: Settings) -> list[Row]:
    case, data = Case(str(settings["network"]), str(settings["workload"])), Path(str(settings["data"]))
    if not settings["there"]:
        return [case._asdict() | {"skipped": f"for want of {', '.join(case.needs())}"}]
    with tempfile.TemporaryDirectory(prefix="overstory-worth-") as folder:
        scenario = make(case, Path(folder) / "scenario", data, count_of(settings, "events"))
        costs = costs_of(scenario)
    sizes = {"brokers": len(scenario.network), "links": len(scenario.network.targets) // 2}
    return [case._asdict() | sizes | costs.ratios() | {"bound": costs.bound, "trees": costs.trees}]


def totals(rows: Sequence[Row]) -> Row:
    skipped = [f"{row['workload']} on {row['network']}" for row in rows if row.get("skipped")]
    means: Row = {f"mean_{way}": _mean(rows, way) for way in WAYS}
    return means | ({"skipped_for_want_of_data": ", ".join(skipped)} if skipped else {})


def figures(rows: Sequence[Row]) -> list[Figure]:
    known = [row for row in rows if not row.get("skipped") and row["direct"] is not None]
    place = [float(at) for at in range(len(known))]
    shown = [Line(way, place, [number(row, way) for row in known], [0.0] * len(known)) for way in WAYS]
    note = "; ".join(f"{at}: {row['workload']} on {row['network']}" for at, row in enumerate(known))
    title, bound = "Networks and logs, held out", "times the certified bound"
    by_payload = [
        Line(f"{payload:,} bytes", place, [_steered_at(row, payload) for row in known], [0.0] * len(known))
        for payload in PAYLOADS
    ]
    return [
        Figure("worth", title, "network and workload", bound, shown, note=note),
        Figure("worth-payloads", f"{title}: steered", "network and workload", bound, by_payload, note=note),
    ]


def _steered_at(row: Row, payload: int) -> float:
    """Headers are as long beside every payload, so the ratio at one payload tells all."""
    bare = number(row, "steered")
    return bare + (number(row, "with_headers") - bare) * PAYLOAD / payload


def cases(networks: int) -> Iterator[Case]:
    yield from (Case(network, LOCALIZED) for network in NETWORKS[:networks])
    yield from (Case(network, log) for network in LOG_NETWORKS for log in LOGS)


def make(case: Case, folder: Path, data: Path, events: int) -> Scenario:
    if case.workload == LOCALIZED:
        network = topology(case.network)
        keywords = KEYWORDS_PER_BROKER * network.brokers
        make_localized(folder, network, Localized(keywords=keywords, locality=LOCALITY, events=events), SEED)
        return read_scenario(folder)
    log = LOGS[case.workload]
    what = Import(
        events=write_log(log, data, events, folder.with_suffix(".jsonl")),
        topology=case.network,
        publisher=log.publisher,
        subscriptions=str(LOG_SUBSCRIPTIONS),
        seed=SEED,
    )
    if case.network == AWS:
        links = write_links(data / LATENCIES, folder.with_suffix(".csv"))
        what = msgspec.structs.replace(what, topology=str(links))
    import_scenario(folder, what, _pipeline())
    return read_scenario(folder)


def costs_of(scenario: Scenario) -> Costs:
    cards = {}
    for name, way in WAYS.items():
        settings = msgspec.structs.replace(scenario.settings, coalesce=way.coalesce, headers=way.headers)
        counted = replace(scenario, settings=settings)
        bench = Workbench(counted)
        cards[name] = bench.score(make_plan(way.planner, counted, bench, way.parameters, SEED), name == "coalesced")
    last = cards["coalesced"]
    by_way = {name: card.cost_held_out for name, card in cards.items()}
    # Headers are as long whatever they are before: beside a payload of so many bytes they weigh so much less.
    headers = by_way["with_headers"] - by_way["steered"]
    by_way["with_headers"] = by_way["steered"] + headers * mean_bytes(scenario) / PAYLOAD
    return Costs(by_way, last.lower_bound_held_out, last.flows)


def mean_bytes(scenario: Scenario) -> float:
    """The mean size of an event of the log, in bytes."""
    sizes = pq.read_table(scenario.events, columns=["$bytes"])["$bytes"].to_numpy()
    return float(sizes.mean()) if len(sizes) else 0.0


@cache
def _pipeline() -> Pipeline:
    """Logs are imported by Spark: one for all cells, until the process ends."""
    started = Pipeline()
    atexit.register(started.close)
    return started


def _mean(rows: Sequence[Row], name: str) -> float | None:
    known = [number(row, name) for row in rows if row.get(name) is not None]
    return sum(known) / len(known) if known else None


EXPERIMENT = Experiment(
    "worth",
    "unicast, one tree, many and steering against the least possible, on real networks, cloud regions and real logs",
    cells,
    run,
    parameters={"data": None, "events": 10_000, "networks": len(NETWORKS)},
    figures=figures,
    totals=totals,
    on_driver=True,
)
