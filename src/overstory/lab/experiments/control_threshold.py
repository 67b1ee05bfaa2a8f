"""The threshold of section VI of Majumder et al.: what it costs to change too readily, or too late."""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import product

import msgspec

from overstory.control.deciding import Rules
from overstory.lab.control_cells import drive, first_plan, hour_of, sizes, told
from overstory.lab.drifting_hours import DRIFT, STATIONARY, SWING
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import lines, number, where

THRESHOLDS = (0.0, 0.02, 0.1, 0.3)
USUAL, PAPER = Rules().threshold, 0.1


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    for seed in (1,) if quick else (1, 2, 3):
        for shape in (STATIONARY, DRIFT, SWING):
            yield sizes(quick) | {"shape": shape, "seed": seed}


def run(settings: Settings) -> list[Row]:
    """One hour under each threshold, with the rule that a change pays for itself, and without it."""
    share, rows = float(str(settings["share"])), list[Row]()
    with hour_of(settings) as hour:
        first = first_plan(hour)
        for threshold, careful in product(THRESHOLDS, (True, False)):
            rules = Rules(threshold=threshold, price_of_message=hour.price_of_message)
            if not careful:  # the threshold alone, as the paper has it
                rules = msgspec.structs.replace(rules, confidence=0.0, rest=0, horizon=1e9)
            driven = drive(hour, rules, share, first)
            rows.append(told(settings, "careful" if careful else "threshold alone", driven, threshold=threshold))
    return rows


def _over_best(rows: Sequence[Row], way: str, threshold: float) -> BySeed:
    """The total of an hour over that of the best threshold, of the worst shape, seed by seed."""
    found: BySeed = {}
    for row in where(rows, way=way, threshold=threshold):
        beside = where(rows, shape=row["shape"], seed=row["seed"])
        seed, best = int(number(row, "seed")), min(number(one, "total") for one in beside)
        found[seed] = max(found.get(seed, 0.0), number(row, "total") / best)
    return found


def _changes(rows: Sequence[Row], way: str, threshold: float) -> BySeed:
    """Changes for each window of a stationary load."""
    mine = where(rows, way=way, threshold=threshold, shape=STATIONARY)
    return {int(number(row, "seed")): number(row, "a_window") for row in mine}


def figures(rows: Sequence[Row]) -> list[Figure]:
    found = []
    for shape in (STATIONARY, DRIFT, SWING):
        for value, unit in (("total", "cost of the hour, changes included"), ("count", "changes in the hour")):
            drawn = lines(where(rows, shape=shape), "threshold", value, "way")
            found.append(Figure(f"control-threshold-{shape}-{value}", shape, "threshold", unit, drawn))
    return found


EXPERIMENT = Experiment(
    "control-threshold",
    "the share that a new plan has to save: what other thresholds cost, and how often they change the plan",
    cells,
    run,
    measures={
        "usual_over_best": partial(_over_best, way="careful", threshold=USUAL),
        "paper_over_best": partial(_over_best, way="threshold alone", threshold=PAPER),
        "changes_of_nothing": partial(_changes, way="threshold alone", threshold=0.0),
        "changes_of_paper": partial(_changes, way="threshold alone", threshold=PAPER),
        "changes_of_usual": partial(_changes, way="careful", threshold=USUAL),
    },
    figures=figures,
)
