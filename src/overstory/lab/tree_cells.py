"""Cells of experiments with routing trees: a planner on a generated scenario, scored as the paper does.

One copy for each flow is counted unless a cell says ``coalesce``. ``cost_fit`` is in sample, ``cost_held_out`` of
events that the planner never saw, ``cost`` of all.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import msgspec

from overstory.lab.experiment import Row, Settings
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import GENERATORS, Topology, topology
from overstory.model.plan import Value
from overstory.model.scenario import Scenario, read_scenario
from overstory.model.scorecard import Scorecard
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import chain_named, make_plan
from overstory.planners.own import code_of
from overstory.planners.references import REFERENCES, score_reference

PAPER = "routing-trees"
DATA_SETS = {"Localized1": 0.02, "Localized2": 0.15, "Uniform": 1.0}
SHOWN = ("cost", "cost_fit", "cost_held_out", "lower_bound", "lower_bound_held_out", "duplicates", "false_positives")
SCENARIO = ("topology", "brokers", "data", "events", "keywords_per_event", "per_broker", "seed")
USUAL: Settings = {
    "topology": "transit-stub",
    "keywords_per_event": 2,
    "per_broker": False,
    "coalesce": False,
    "share": 1.0,
}


def sizes_and_seeds(quick: bool) -> list[tuple[int, int]]:
    """Brokers and seeds, largest first: so the end of a run has no large cell left to wait for."""
    if quick:
        return [(brokers, seed) for brokers in (160, 80) for seed in (1, 2)]
    sizes = [(5000, 3), (2000, 10), (1000, 10), (500, 10)]
    return [(brokers, seed) for brokers, seeds in sizes for seed in range(1, seeds + 1)]


def events_of(quick: bool) -> int:
    return 1_000 if quick else 10_000


def cells(scenarios: Sequence[Settings], planners: Sequence[Settings]) -> Iterator[Settings]:
    """Every planner on every scenario. Those on the same one follow each other, so that it is made once."""
    for scenario in scenarios:
        for planner in planners:
            yield USUAL | scenario | planner


def others(names: Value) -> list[Settings]:
    """Settings of planners that a user names, with commas between them. What the lab knows of code is ours alone, so
    those of others have a fingerprint of theirs among the settings: a change of it makes other cells."""
    wanted = [name.strip() for name in str(names).split(",") if name.strip()]
    for name in wanted:
        chain_named(name)  # which must be one
    return [{"planner": name, "code": code_of(name)} for name in wanted]


def run(settings: Settings) -> list[Row]:
    """The scorecard of a planner, and the seconds that planning took."""
    bench = _bench(*(settings[name] for name in (*SCENARIO, "share")))
    began = time.perf_counter()
    card = bench.card(settings)
    found = msgspec.structs.asdict(card)
    return [settings | {name: found[name] for name in SHOWN} | {"flows": card.flows, "seconds": bench.planned - began}]


class _Bench:
    """A scenario and its workbenches, for both ways to count copies: nothing of it stays in a folder."""

    def __init__(self, settings: Settings) -> None:
        made = _topology(str(settings["topology"]), _int(settings["brokers"]), _int(settings["seed"]))
        what = Localized(
            locality=DATA_SETS[str(settings["data"])],
            events=_int(settings["events"]),
            keywords_per_event=_int(settings["keywords_per_event"]),
            per_broker=bool(settings["per_broker"]),
        )
        with tempfile.TemporaryDirectory(prefix="overstory-lab-") as folder:
            path = Path(folder) / "scenario"
            make_localized(path, made, what, _int(settings["seed"]))
            scenario = read_scenario(path)
            self.benches = {
                coalesce: Workbench(_counted(scenario, coalesce), float(str(settings["share"])))
                for coalesce in (False, True)
            }
            for bench in self.benches.values():
                bench.load()
        self.planned = 0.0

    def card(self, settings: Settings) -> Scorecard:
        planner, seed = str(settings["planner"]), _int(settings["seed"])
        bench = self.benches[bool(settings["coalesce"])]
        given: dict[str, Value] = {"trees": settings["trees"]} if "trees" in settings else {}
        if planner == "tree-search":
            given["steered"] = False  # the paper's question is which trees
        if planner in REFERENCES:
            card = score_reference(planner, bench.scenario, bench, given, 0)
            self.planned = time.perf_counter()
            return card
        plan = make_plan(planner, bench.scenario, bench, given, seed)
        self.planned = time.perf_counter()
        return bench.score(plan)


def _counted(scenario: Scenario, coalesce: bool) -> Scenario:
    return replace(scenario, settings=msgspec.structs.replace(scenario.settings, coalesce=coalesce))


@lru_cache(1)
def _bench(*values: Value) -> _Bench:
    return _Bench(dict(zip((*SCENARIO, "share"), values, strict=True)))


def _topology(name: str, brokers: int, seed: int) -> Topology:
    """Real networks have as many brokers as they have."""
    return topology(name, brokers, seed) if name in GENERATORS else topology(name)


def _int(value: Value) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value
