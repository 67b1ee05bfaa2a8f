"""Section VI of Majumder et al., driven: interests shift over an hour, and the autopilot keeps up."""

from collections.abc import Iterable, Sequence
from functools import partial

from overstory.control.deciding import Rules
from overstory.lab.control_cells import drive, first_plan, hour_of, reference, sizes, told
from overstory.lab.drifting_hours import SHAPES, STATIONARY
from overstory.lab.experiment import BySeed, Experiment, Figure, Line, Parameters, Row, Settings
from overstory.lab.measuring import number, where

AUTOPILOT, NEVER, LATE, REFERENCE = "autopilot", "never replanning", "late ones stay late", "reference"


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    for seed in (1,) if quick else (1, 2, 3):
        for shape in SHAPES:
            yield sizes(quick) | {"shape": shape, "seed": seed}


def run(settings: Settings) -> list[Row]:
    """One hour under each way to decide."""
    share = float(str(settings["share"]))
    with hour_of(settings) as hour:
        rules, first = Rules(price_of_message=hour.price_of_message), first_plan(hour)
        ways = {
            AUTOPILOT: drive(hour, rules, share, first),
            NEVER: drive(hour, rules, share, first, replans=False),
            LATE: drive(hour, rules, share, first, replans=False, places=False),
            REFERENCE: reference(hour, rules, first),
        }
    return [told(settings, way, driven) for way, driven in ways.items()]


def _worst(rows: Sequence[Row], one: str, other: str) -> BySeed:
    """The largest ratio of two ways' totals over all shapes of the hour, seed by seed."""
    found: BySeed = {}
    for row in where(rows, way=one):
        (beside,) = where(rows, way=other, shape=row["shape"], seed=row["seed"])
        seed = int(number(row, "seed"))
        found[seed] = max(found.get(seed, 0.0), number(row, "total") / number(beside, "total"))
    return found


def _changes_when_stationary(rows: Sequence[Row]) -> BySeed:
    """Changes for each window of a stationary load."""
    mine = where(rows, way=AUTOPILOT, shape=STATIONARY)
    return {int(number(row, "seed")): number(row, "a_window") for row in mine}


def figures(rows: Sequence[Row]) -> list[Figure]:
    ways = AUTOPILOT, NEVER, LATE
    lines = []
    for way in ways:
        shapes = [where(rows, way=way, shape=shape) for shape in SHAPES]
        ratios = [_mean_ratio(rows, mine) for mine in shapes]
        lines.append(Line(way, [float(at) for at in range(len(SHAPES))], ratios, [0.0] * len(SHAPES)))
    note = ", ".join(f"{at}: {shape}" for at, shape in enumerate(SHAPES))
    title = "An hour of windows, changes included"
    return [Figure("control-drift", title, "shape of the hour", "times the reference", lines, note=note)]


def _mean_ratio(rows: Sequence[Row], mine: Sequence[Row]) -> float:
    ratios = [
        number(row, "total") / number(where(rows, way=REFERENCE, shape=row["shape"], seed=row["seed"])[0], "total")
        for row in mine
    ]
    return sum(ratios) / max(len(ratios), 1)


EXPERIMENT = Experiment(
    "control-drift",
    "interests shift over an hour: the autopilot beside a reference that knows each window, and never replanning",
    cells,
    run,
    measures={
        "autopilot_over_reference": partial(_worst, one=AUTOPILOT, other=REFERENCE),
        "autopilot_over_never": partial(_worst, one=AUTOPILOT, other=NEVER),
        "never_over_reference": partial(_worst, one=NEVER, other=REFERENCE),
        "late_over_placed": partial(_worst, one=LATE, other=NEVER),
        "changes_a_window_when_stationary": _changes_when_stationary,
    },
    figures=figures,
)
