"""The worked example of Zhao and Wu's Figs. 3 to 5: six users, three brokers; the numbers are ours."""

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from overstory.lab.experiment import BySeed, Experiment, Figure, Line, Parameters, Row, Settings
from overstory.lab.measuring import number, quotients
from overstory.lab.overlay_cells import CLUSTERING, GREEDY, MIXING, PAPER, RANDOM, SEARCH
from overstory.lab.overlay_example import make_example
from overstory.model.scenario import read_scenario
from overstory.pipeline.workbench import Workbench
from overstory.planners.chains import make_plan

PLANNERS = (RANDOM, GREEDY, CLUSTERING, MIXING, SEARCH, "overlay-exact")
OTHERS = ("overlay-lp", "overlay-primal-dual", "overlay-partition", "overlay-facility", "publisher-relocation")


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    return [{"planner": planner, "seed": 1} for planner in (PLANNERS if quick else (*PLANNERS, *OTHERS))]


def run(settings: Settings) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="overstory-lab-") as folder:
        make_example(Path(folder) / "scenario")
        bench = Workbench(read_scenario(Path(folder) / "scenario"))
        bench.load()
        plan = make_plan(str(settings["planner"]), bench.scenario, bench, {}, int(str(settings["seed"])))
        card = msgspec.structs.asdict(bench.score(plan))
    return [settings | {name: card[name] for name in ("cost", "core", "access")}]


def clustering_over_greedy(rows: Sequence[Row]) -> BySeed:
    return quotients(rows, "cost", {"planner": CLUSTERING}, {"planner": GREEDY})


def figures(rows: Sequence[Row]) -> list[Figure]:
    bars = [Line(str(row["planner"]), [at], [number(row, "cost")], [0.0]) for at, row in enumerate(rows)]
    return [Figure("overlay-example", "The worked example", "planner", "cost", bars, bars=True)]


EXPERIMENT = Experiment(
    "overlay-example",
    "what each planner pays on the overlay paper's worked example",
    cells,
    run,
    PAPER,
    "Figs. 4 and 5",
    measures={"clustering_over_greedy_cost": clustering_over_greedy},
    figures=figures,
)
