"""Ours: how much the topology decides. The paper does not say which of GT-ITM's graphs it used."""

from collections.abc import Iterable, Sequence

from overstory.lab import tree_cells
from overstory.lab.experiment import Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, relative, where

REAL = ("zoo:TataNld", "topohub:backbone/europe")
TOPOLOGIES = ("transit-stub", "transit-stub-plain", "waxman", "random-regular", *REAL)
PLANNERS = ("spt", "single", "mult", "geo-mult", "tree-search", "opt")


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    brokers, events, seeds = (100, 1_000, 1) if quick else (500, 10_000, 10)
    scenarios: list[Settings] = [
        {"topology": topology, "data": data, "brokers": brokers, "events": events, "seed": seed}
        for seed in range(1, seeds + 1)
        for topology in TOPOLOGIES
        for data in ("Localized2", "Uniform")
    ]
    return tree_cells.cells(scenarios, [{"planner": planner} for planner in PLANNERS])


def figures(rows: Sequence[Row]) -> list[Figure]:
    ratios = relative(rows, "cost_held_out", {"planner": "opt"}, ("topology", "data", "seed"))
    place = {name: at for at, name in enumerate(TOPOLOGIES)}
    shown = [row | {"place": place[str(row["topology"])]} for row in ratios if row["planner"] != "opt"]
    note = "; ".join(f"{at}: {name}" for name, at in place.items())
    return [
        Figure(
            f"trees-topology-{data.lower()}",
            f"{data}, held out",
            "topology",
            "times the cost of opt",
            lines(where(shown, data=data), "place", "cost_held_out", "planner", PLANNERS),
            note=note,
        )
        for data in ("Localized2", "Uniform")
    ]


EXPERIMENT = Experiment(
    "trees-topology",
    "costs relative to a Steiner tree for each event, on plain and rich transit-stub, Waxman, random regular and real "
    "networks",
    cells,
    tree_cells.run,
    figures=figures,
)
