"""Distributed migration against the central plan, over time, while users come, go and change; and whether it ends."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from overstory.kernels.overlay_state import access_and_core, new_state
from overstory.lab import overlay_cells as overlay
from overstory.lab.experiment import BySeed, Experiment, Figure, Parameters, Row, Settings
from overstory.lab.measuring import by_seed, lines, where
from overstory.lab.migrating import carried_on, churned, new_brokers, present, turn, until_quiet
from overstory.planners.overlay.instance import Instance
from overstory.planners.overlay.search import improved

EPOCHS, TURNS = 8, 10
CHURN, DECLINING, HYSTERESIS = 0.1, 0.1, 0.01


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    users, brokers, seeds = (80, 5, 2) if quick else (1000, 20, 10)
    for seed in range(1, seeds + 1):
        yield {"kind": "churn", "users": users, "brokers": brokers, "access_core_ratio": 0.5, "seed": seed}
    for seed in range(1, (4 if quick else 200) + 1):
        yield {"kind": "alone", "users": 60, "brokers": 6, "access_core_ratio": 0.3, "seed": 1000 + seed}


def run(settings: Settings) -> list[Row]:
    given = {name: value for name, value in settings.items() if name in overlay.SCENARIO}
    bench = overlay.bench_of(settings["seed"], *given.items())
    instance = Instance(bench.scenario, bench, "auto")
    draw = np.random.default_rng(int(str(settings["seed"])))
    return (_alone if settings["kind"] == "alone" else _under_churn)(settings, instance, draw)


def _alone(settings: Settings, instance: Instance, draw: np.random.Generator) -> list[Row]:
    """From random attachments until nobody moves any more."""
    brokers = instance.given.brokers
    at = brokers[np.arange(len(brokers)), draw.integers(brokers.shape[1], size=len(brokers))]
    state = new_state(instance.given, at, instance.access_at(at.astype(np.int64)))
    began = sum(access_and_core(state))
    turns = until_quiet(state, new_brokers(len(instance.network), HYSTERESIS), draw)
    costs = [began, *(each.cost for each in turns)]
    rises = sum(later > earlier * (1 + 1e-12) for earlier, later in pairwise(costs))
    moves = sum(each.moves for each in turns)
    return [settings | {"turns": len(turns), "rises": rises, "ended": int(len(turns) < 1000), "moves": moves}]


def _under_churn(settings: Settings, instance: Instance, draw: np.random.Generator) -> list[Row]:
    """By epoch: what migration, the central plan made anew, and doing nothing cost."""
    given = instance.given
    demand = given.demand[:, None]
    prices = np.divide(given.costs, demand, out=np.zeros_like(given.costs), where=demand > 0)
    away = np.zeros(len(given.kind), bool)
    moving = still = given.brokers[:, 0].astype(np.int64)
    brokers, knows = new_brokers(len(instance.network), HYSTERESIS), np.ones(given.brokers.shape, bool)
    rows: list[Row] = []
    for epoch in range(EPOCHS):
        given = churned(given, away, CHURN, draw)
        now = present(given, away, prices)
        state = carried_on(now, moving)
        done = [turn(state, brokers, knows, DECLINING, draw) for _ in range(TURNS)]
        moving = state.at.copy()
        central = carried_on(now, still)
        costs = {
            "migration": done[-1].cost,
            "nothing": float(sum(access_and_core(central))),
            "central": improved(central, draw, 3),
        }
        moves = sum(each.moves for each in done)
        rows += [
            settings
            | {"epoch": epoch, "way": way, "cost": cost, "moves": moves, "declined": sum(d.declined for d in done)}
            for way, cost in costs.items()
        ]
    return rows


def over_central(rows: Sequence[Row], way: str) -> BySeed:
    """Percent dearer than the central plan, on average over epochs."""
    mine = [row for row in rows if row["kind"] == "churn"]
    ours, theirs = by_seed(where(mine, way=way), "cost"), by_seed(where(mine, way="central"), "cost")
    return {seed: 100 * (ours[seed] / theirs[seed] - 1) for seed in ours.keys() & theirs.keys()}


def ends(rows: Sequence[Row]) -> BySeed:
    """1 if migration alone ends and never raises the cost."""
    mine = where(rows, kind="alone")
    return {int(str(row["seed"])): float(row["ended"] == 1 and row["rises"] == 0) for row in mine}


def figures(rows: Sequence[Row]) -> list[Figure]:
    mine = [row for row in rows if row["kind"] == "churn"]
    return [Figure("overlay-migration", "Migration under churn", "epoch", "cost", lines(mine, "epoch", "cost", "way"))]


EXPERIMENT = Experiment(
    "overlay-migration",
    "brokers that migrate users by themselves, against a central plan, under churn",
    cells,
    run,
    measures={
        "migration_over_central": lambda rows: over_central(rows, "migration"),
        "nothing_over_central": lambda rows: over_central(rows, "nothing"),
        "ends_without_cycles": ends,
    },
    figures=figures,
)
