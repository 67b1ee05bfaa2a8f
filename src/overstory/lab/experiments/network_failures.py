"""Failures by seed, on real processes and in the simulator: how many promises are broken. None should be."""

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from overstory.lab.experiment import BySeed, Experiment, Parameters, Row, Settings
from overstory.lab.failing_live import Line
from overstory.lab.failing_virtual import NotQuietError, schedule_of, simulated
from overstory.lab.failures import STORM_SIZE, Outcome, Schedule
from overstory.lab.lines import written_line
from overstory.lab.measuring import by_seed, number, where

LIVE, SIMULATED, STEERED = "live", "simulated", "steered"  # the last: simulated, with events in a steered flow
BROKERS = 4
FEWER_SUBSCRIPTIONS = 500  # of a storm, in a quick run
GROUP = {LIVE: 5, SIMULATED: 100, STEERED: 100}  # schedules of a cell
SCHEDULES = {LIVE: 50, SIMULATED: 2_000, STEERED: 1_000}
FEW = {LIVE: 5, SIMULATED: 20, STEERED: 20}


def cells(parameters: Parameters, quick: bool) -> Iterable[Settings]:
    for place, count in (FEW if quick else SCHEDULES).items():
        group = min(GROUP[place], count)
        for first in range(0, count, group):
            yield {"where": place, "first": first, "count": group, "seed": 1, "quick": quick}


def run(settings: Settings) -> list[Row]:
    """A group of schedules, one after the other; those that are live on one network."""
    first, count = int(str(settings["first"])), int(str(settings["count"]))
    seeds = range(first, first + count)
    if settings["where"] == LIVE:
        found = asyncio.run(_live(seeds, FEWER_SUBSCRIPTIONS if settings["quick"] else STORM_SIZE))
    else:
        found = [_simulated(seed, settings["where"] == STEERED) for seed in seeds]
    return [settings | {"schedule": seed} | row for seed, row in zip(seeds, found, strict=True)]


async def _live(seeds: Sequence[int], storm: int) -> list[Row]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        line = Line(*written_line(folder, BROKERS), folder / "logs", {"store": ""})
        try:
            await line.start()
            found = []
            for seed in seeds:
                schedule = Schedule.drawn(seed, BROKERS, durable=True)
                found.append(_row(schedule, await line.run(schedule, storm)))
            return found
        finally:
            await line.stop()


def _simulated(seed: int, steered: bool) -> Row:
    try:
        return _row(*simulated(seed, steered))
    except NotQuietError as error:
        return {"kind": schedule_of(seed).kind, "broken": 1, "problem": str(error)}


def _row(schedule: Schedule, outcome: Outcome) -> Row:
    return {
        "kind": schedule.kind,
        "victim": schedule.victim,
        "broken": int(not outcome.is_right),
        **msgspec.structs.asdict(outcome),
    }


def broken(rows: Sequence[Row], place: str) -> BySeed:
    """How many schedules broke a promise."""
    mine = where(rows, where=place)
    return {seed: value * len(mine) for seed, value in by_seed(mine, "broken").items()}


def growth(rows: Sequence[Row]) -> BySeed:
    """By how much the broker grew that grew most, in megabytes."""
    grown = [number(row, "memory_growth") / 1e6 for row in where(rows, where=LIVE) if "memory_growth" in row]
    return {1: max(grown)} if grown else {}


EXPERIMENT = Experiment(
    "network-failures",
    "brokers are killed, hang, and links fail: 50 schedules on real processes, 2,000 in the simulator",
    cells,
    run,
    measures={
        "broken_live": lambda rows: broken(rows, LIVE),
        "broken_simulated": lambda rows: broken(rows, SIMULATED),
        "broken_steered": lambda rows: broken(rows, STEERED),
        "memory_growth_mb": growth,
    },
)
