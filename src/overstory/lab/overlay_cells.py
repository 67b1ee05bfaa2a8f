"""Cells of experiments with overlays: a planner on a quadratic scenario, scored by the meter.

``cost_held_out`` is of events that the planner never saw. The reduction of a planner is the cost of random attachment
on the same scenario divided by its own, as the paper measures it (CRR).
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec
import numpy as np

from overstory.lab.experiment import BySeed, Row, Settings
from overstory.lab.measuring import by_seed, number, where
from overstory.lab.quadratic import Quadratic, make_quadratic
from overstory.model.plan import Plan, Value
from overstory.model.scenario import read_scenario
from overstory.pipeline.exact import rounded_down
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan

PAPER = "overlay"
RANDOM, GREEDY, CLUSTERING, MIXING, SEARCH = (
    "random",
    "greedy-packing",
    "two-stage-clustering",
    "steiner-mixing",
    "overlay-search",
)
OF_PAPER = (GREEDY, CLUSTERING, MIXING)
SCENARIO = tuple(field.name for field in msgspec.structs.fields(Quadratic))
SHOWN = ("cost", "core", "access", "cost_fit", "cost_held_out", "access_bytes", "filled")


def cells(scenarios: Sequence[Settings], planners: Sequence[Settings]) -> Iterator[Settings]:
    """Every planner on every scenario. Those on the same one follow each other, so that it is made once."""
    for scenario in scenarios:
        for planner in planners:
            yield scenario | planner


def run(settings: Settings) -> list[Row]:
    """The scorecard of a planner, the seconds that planning took, and how many brokers want a channel; where a cell is
    ``bounded``, also what no plan undercuts."""
    given = {name: value for name, value in settings.items() if name in SCENARIO}
    bench = bench_of(settings["seed"], *given.items())
    chosen: dict[str, Value] = {"core": settings["core_by"]} if "core_by" in settings else {}
    if "sub_channels" in settings:
        chosen["channels"] = settings["sub_channels"]
    began = time.perf_counter()
    plan = make_plan(str(settings["planner"]), bench.scenario, bench, chosen, int(str(settings["seed"])))
    seconds = time.perf_counter() - began
    found = msgspec.structs.asdict(bench.score(plan))
    shown = {name: found[name] for name in SHOWN}
    if settings.get("bounded"):
        shown["bound_total"] = rounded_down(bench.bound_total)
    used = len(np.unique(plan.attachments["broker"].to_numpy()))
    return [settings | shown | {"used_brokers": used, "wanting": wanting(bench, plan), "seconds": seconds}]


@lru_cache(1)
def bench_of(seed: Value, *given: tuple[str, Value]) -> Workbench:
    with tempfile.TemporaryDirectory(prefix="overstory-lab-") as folder:
        path = Path(folder) / "scenario"
        make_quadratic(path, Quadratic(**dict(given)), int(str(seed)))  # type: ignore[arg-type]
        bench = Workbench(read_scenario(path))
        bench.load()
        return bench


def wanting(bench: Workbench, plan: Plan) -> float:
    """The share of brokers that want a value of the content space, on average over some values."""
    scenario = bench.scenario
    texts = scenario.subscriptions["filter"].to_pylist()
    ends = np.array([[float(word) for word in text.split() if word[0].isdigit()] for text in texts])
    at = dict(zip(*(plan.attachments[name].to_pylist() for name in ("client", "broker")), strict=True))
    broker = np.array([at[client] for client in scenario.subscriptions["client"].to_pylist()])
    values = (np.arange(50) + 0.5) / 50
    wants = (ends[:, :1] <= values) & (values < ends[:, 1:])
    return float(np.mean([len(np.unique(broker[wants[:, at_]])) for at_ in range(50)])) / len(scenario.network)


def reductions(rows: Sequence[Row], planner: str, by: str) -> dict[float, BySeed]:
    """The cost reduction of a planner, by a setting and seed."""
    found: dict[float, BySeed] = {}
    for place in sorted({number(row, by) for row in rows}):
        here = [row for row in rows if number(row, by) == place]
        above, below = (by_seed(where(here, planner=name), "cost") for name in (RANDOM, planner))
        found[place] = {seed: above[seed] / below[seed] for seed in above.keys() & below.keys() if below[seed]}
    return found


def ratios_of_reductions(rows: Sequence[Row], one: str, other: str, by: str, worst: bool = False) -> BySeed:
    """By seed the reduction of one planner relative to another's: the mean over a setting, or the largest."""
    above, below = reductions(rows, one, by), reductions(rows, other, by)
    seeds = sorted({seed for found in above.values() for seed in found})
    values = {
        seed: [above[at][seed] / below[at][seed] for at in above if seed in above[at] and seed in below.get(at, {})]
        for seed in seeds
    }
    return {seed: float(np.max(some) if worst else np.mean(some)) for seed, some in values.items() if some}
