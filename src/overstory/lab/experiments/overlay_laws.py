"""Which of the paper's rankings holds under which law of prices and which accounting?

Zhao and Wu rank Steiner-tree mixing above clustering above greedy packing. Prices are distances or independent of each
other; core is counted by multicast (a message crosses a link once) or by unicast (a copy for each broker).
"""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import overlay_cells as overlay
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, number, quotients, relative, where

PLANNERS = (overlay.RANDOM, *overlay.OF_PAPER)
LAWS, CORES, RATIOS = ("metric", "independent"), ("spanning", "unicast"), (0.2, 1.0, 5.0)


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    users, brokers, seeds = (80, 5, 2) if quick else (1000, 10, 20)
    scenarios: list[Settings] = [
        {"users": users, "brokers": brokers, "access_core_ratio": ratio, "prices": law, "seed": seed}
        for law in LAWS
        for ratio in RATIOS
        for seed in range(1, seeds + 1)
    ]
    planners: list[Settings] = [{"planner": planner, "core_by": core} for core in CORES for planner in PLANNERS]
    return overlay.cells(scenarios, planners)


def dearer(rows: Sequence[Row], one: str, other: str, law: str, core: str) -> BySeed:
    """The cost of one planner relative to another's, at equal prices of access and core: above 1 it is dearer."""
    here = where(rows, prices=law, core_by=core, access_core_ratio=1.0)
    return quotients(here, "cost", {"planner": one}, {"planner": other})


def mixing_over_random(rows: Sequence[Row], law: str) -> BySeed:
    """How much less mixing costs than chance, under multicast, as the paper measures: near 1 it is no better."""
    here = where(rows, prices=law, core_by="spanning", access_core_ratio=0.2)
    return quotients(here, "cost", {"planner": overlay.RANDOM}, {"planner": overlay.MIXING})


def figures(rows: Sequence[Row]) -> list[Figure]:
    found = []
    for law in LAWS:
        for core in CORES:
            here = [row | {"reduction": 1.0 / number(row, "cost")} for row in where(rows, prices=law, core_by=core)]
            shown = relative(here, "reduction", {"planner": overlay.RANDOM}, ("access_core_ratio", "seed"))
            found.append(
                Figure(
                    f"overlay-laws-{law}-{core}",
                    f"Cost reduction, {law} prices, core by {core}",
                    "mean price of access / mean price of core",
                    "cost of random attachment / cost",
                    lines(shown, "access_core_ratio", "reduction", "planner"),
                    log_x=True,
                )
            )
    return found


PAIRS = {
    "mixing_over_greedy": (overlay.MIXING, overlay.GREEDY),
    "clustering_over_greedy": (overlay.CLUSTERING, overlay.GREEDY),
    "clustering_over_mixing": (overlay.CLUSTERING, overlay.MIXING),
}

EXPERIMENT = Experiment(
    "overlay-laws",
    "which ranking of the overlay paper's planners holds under which law of prices",
    cells,
    overlay.run,
    measures={
        f"{name}_{law}_{core}": partial(dearer, one=one, other=other, law=law, core=core)
        for name, (one, other) in PAIRS.items()
        for law in LAWS
        for core in CORES
    }
    | {f"mixing_reduction_{law}": partial(mixing_over_random, law=law) for law in LAWS},
    figures=figures,
)
