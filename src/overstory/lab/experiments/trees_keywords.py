"""Ours: how much the number of keywords of an event decides. The paper's numbers contradict each other there."""

from collections.abc import Iterable, Sequence

from overstory.lab import tree_cells
from overstory.lab.experiment import Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, relative

PLANNERS = ("spt", "single", "mult", "geo-mult", "tree-search", "opt")
KEYWORDS = (1, 2, 3, 5)


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    brokers, events, seeds = (100, 1_000, 1) if quick else (500, 10_000, 10)
    scenarios: list[Settings] = [
        {"data": "Localized1", "brokers": brokers, "events": events, "keywords_per_event": many, "seed": seed}
        for seed in range(1, seeds + 1)
        for many in KEYWORDS
    ]
    return tree_cells.cells(scenarios, [{"planner": planner} for planner in PLANNERS])


def figures(rows: Sequence[Row]) -> list[Figure]:
    return [
        Figure(
            f"trees-keywords-{what.replace(' ', '-')}",
            f"Localized1, {what}",
            "keywords of an event",
            "times the cost of opt",
            lines(
                relative(rows, part, {"planner": "opt"}, ("keywords_per_event", "seed")),
                "keywords_per_event",
                part,
                "planner",
                PLANNERS,
            ),
        )
        for part, what in (("cost_fit", "in sample"), ("cost_held_out", "held out"))
    ]


EXPERIMENT = Experiment(
    "trees-keywords",
    "costs relative to a Steiner tree for each event, by the keywords of an event",
    cells,
    tree_cells.run,
    figures=figures,
)
