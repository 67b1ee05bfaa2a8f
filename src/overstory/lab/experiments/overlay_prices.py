"""Figure 10 of Zhao and Wu: cost reduction by the price of access links relative to core links."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import overlay_cells as overlay
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, number, relative

PLANNERS = (overlay.RANDOM, *overlay.OF_PAPER)
RATIO = "access_core_ratio"


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    users, brokers = (200, 5) if quick else (10_000, 100)
    seeds, ratios = (2, (0.2, 1.0, 5.0)) if quick else (int(str(parameters["instances"])), (0.2, 0.5, 1.0, 2.0, 5.0))
    laws = ("metric",) if quick else ("metric", "independent")
    scenarios: list[Settings] = [
        {"users": users, "brokers": brokers, RATIO: ratio, "prices": law, "seed": seed}
        for law in laws
        for seed in range(1, seeds + 1)
        for ratio in ratios
    ]
    return overlay.cells(scenarios, [{"planner": planner} for planner in PLANNERS])


def of_figure(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["prices"] == "metric"]


def spread_of_mixing(rows: Sequence[Row]) -> BySeed:
    found = overlay.reductions(of_figure(rows), overlay.MIXING, RATIO)
    seeds = sorted({seed for some in found.values() for seed in some})
    every = {seed: [some[seed] for some in found.values() if seed in some] for seed in seeds}
    return {seed: max(values) / min(values) for seed, values in every.items()}


def spreads(rows: Sequence[Row], absolute: bool) -> BySeed:
    """The spread of the three algorithms where core is cheapest, relative to that where it is dearest."""
    mine = of_figure(rows)
    by_planner = [overlay.reductions(mine, planner, RATIO) for planner in overlay.OF_PAPER]
    dear, cheap = min(by_planner[0], default=0.0), max(by_planner[0], default=0.0)
    found: BySeed = {}
    for seed in sorted(by_planner[0].get(dear, {})):
        ends = []
        for place in (cheap, dear):
            values = [some[place][seed] for some in by_planner if seed in some.get(place, {})]
            wide = max(values) - min(values)
            ends.append(wide if absolute else wide / max(values))
        if ends[1]:
            found[seed] = ends[0] / ends[1]
    return found


def at_cheap_core(rows: Sequence[Row], one: str) -> BySeed:
    mine = of_figure(rows)
    most = max((number(row, RATIO) for row in mine), default=0.0)
    here = [row for row in mine if number(row, RATIO) == most]
    return overlay.ratios_of_reductions(here, one, overlay.MIXING, RATIO)


def figures(rows: Sequence[Row]) -> list[Figure]:
    found = []
    for law in dict.fromkeys(str(row["prices"]) for row in rows):
        shown = [row | {"reduction": 1.0 / number(row, "cost")} for row in rows if row["prices"] == law]
        shown = relative(shown, "reduction", {"planner": overlay.RANDOM}, (RATIO, "seed"))
        found.append(
            Figure(
                f"overlay-prices-{law}",
                f"Cost reduction by prices, {law}",
                "mean price of access / mean price of core",
                "cost of random attachment / cost",
                lines(shown, RATIO, "reduction", "planner"),
                log_x=True,
            )
        )
    return found


EXPERIMENT = Experiment(
    "overlay-prices",
    "cost reduction of attaching clients, by the price of access relative to core",
    cells,
    overlay.run,
    overlay.PAPER,
    "Fig. 10",
    parameters={"instances": 100},
    measures={
        "mixing_reduction_spread": spread_of_mixing,
        "spread_cheap_core_over_dear_core": partial(spreads, absolute=False),
        "absolute_spread_cheap_core_over_dear_core": partial(spreads, absolute=True),
        "greedy_over_mixing_cheap_core": partial(at_cheap_core, one=overlay.GREEDY),
        "clustering_over_mixing_cheap_core": partial(at_cheap_core, one=overlay.CLUSTERING),
    },
    figures=figures,
)
