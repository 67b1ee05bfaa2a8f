"""Figure 5 of Majumder et al.: what every planner costs, by the size of the network, on three data sets."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.lab import tree_cells
from overstory.lab.experiment import BySeed, Experiment, Figure, Measure, Parameters, Row, Settings
from overstory.lab.measuring import by_seed, excess, largest, lines, quotients, savings, where
from overstory.lab.tree_cells import DATA_SETS, events_of, sizes_and_seeds
from overstory.model.plan import Value

ALSO = "also"  # names of planners to try beside those of the paper, with commas between them
PLANNERS = (
    "flood",
    "spt",
    "semcast",
    "semcast-filtered",
    "single",
    "mult",
    "mult2",
    "geo-mult",
    "tree-search",
    "opt",
)


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    scenarios: list[Settings] = [
        {"data": data, "brokers": brokers, "events": events_of(quick), "seed": seed}
        for brokers, seed in sizes_and_seeds(quick)
        for data in DATA_SETS
    ]
    planners: list[Settings] = [{"planner": planner} for planner in PLANNERS]
    return tree_cells.cells(scenarios, [*planners, *tree_cells.others(parameters[ALSO])])


def ordered(rows: Sequence[Row]) -> list[Value]:
    """The planners, those of others last."""
    return list(dict.fromkeys([*PLANNERS, *(row["planner"] for row in rows)]))


def ratio(rows: Sequence[Row], one: str, other: str, data: str = "Localized1", part: str = "cost_fit") -> BySeed:
    """Of two planners' costs, on the largest network that there is."""
    return quotients(largest(where(rows, data=data)), part, {"planner": one}, {"planner": other})


def saved(rows: Sequence[Row], by: str, to: str, data: str = "Localized1", part: str = "cost_fit") -> BySeed:
    return savings(ratio(rows, by, to, data, part))


def above(rows: Sequence[Row], one: str, other: str, data: str = "Localized1", part: str = "cost_fit") -> BySeed:
    return excess(ratio(rows, one, other, data, part))


def uniform_trees(rows: Sequence[Row], planner: str) -> BySeed:
    return by_seed(largest(where(rows, data="Uniform", planner=planner)), "flows")


def fewer_trees(rows: Sequence[Row]) -> BySeed:
    mine = largest(where(rows, data="Localized1"))
    return savings(quotients(mine, "flows", {"planner": "mult2"}, {"planner": "mult"}))


HELD_OUT = "cost_held_out"
MEASURES: dict[str, Measure] = {
    "semcast_over_mult": partial(ratio, one="semcast", other="mult"),
    "semcast_over_mult_held_out": partial(ratio, one="semcast", other="mult", part=HELD_OUT),
    "filtering_saves_semcast": partial(saved, by="semcast-filtered", to="semcast"),
    "flooding_over_single": partial(ratio, one="flood", other="single"),
    "filtered_spt_over_single": partial(ratio, one="spt", other="single"),
    "flooding_over_single_uniform": partial(ratio, one="flood", other="single", data="Uniform"),
    "opt_below_single": partial(saved, by="opt", to="single"),
    "opt_below_single_uniform": partial(saved, by="opt", to="single", data="Uniform"),
    "mult_above_opt": partial(above, one="mult", other="opt"),
    "mult_above_opt_held_out": partial(above, one="mult", other="opt", part=HELD_OUT),
    "tree_search_above_opt": partial(above, one="tree-search", other="opt"),
    "mult_below_single": partial(saved, by="mult", to="single"),
    "mult_below_single_held_out": partial(saved, by="mult", to="single", part=HELD_OUT),
    "tree_search_below_single_held_out": partial(saved, by="tree-search", to="single", part=HELD_OUT),
    "mult_below_single_uniform": partial(saved, by="mult", to="single", data="Uniform"),
    "mult_trees_uniform": partial(uniform_trees, planner="mult"),
    "tree_search_trees_uniform": partial(uniform_trees, planner="tree-search"),
    "mult2_below_mult": partial(saved, by="mult2", to="mult"),
    "mult2_below_mult_held_out": partial(saved, by="mult2", to="mult", part=HELD_OUT),
    "mult2_fewer_trees": fewer_trees,
}


def figures(rows: Sequence[Row]) -> list[Figure]:
    return [
        Figure(
            f"trees-cost-{data.lower()}-{'held-out' if part == HELD_OUT else 'in-sample'}",
            f"{data}, {'held out' if part == HELD_OUT else 'in sample'}",
            "brokers",
            "links crossed",
            lines(where(rows, data=data), "brokers", part, "planner", ordered(rows)),
            log_y=True,
        )
        for part in ("cost_fit", HELD_OUT)
        for data in DATA_SETS
    ]


EXPERIMENT = Experiment(
    "trees-cost",
    "what every planner costs, by the size of the network, on Localized1, Localized2 and Uniform",
    cells,
    tree_cells.run,
    tree_cells.PAPER,
    "Fig. 5",
    parameters={ALSO: ""},
    measures=MEASURES,
    figures=figures,
)
