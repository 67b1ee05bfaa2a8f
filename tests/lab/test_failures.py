"""A live network recovers by itself: kill -9 and restart, a cut link, a broker that hangs, a slow link."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from overstory.lab.failures import KINDS, Line, Outcome, Schedule
from overstory.model.plan import Header, Plan
from overstory.model.scenario import read_scenario, write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import BROKERS, EVENTS, LINKS, PLAN_TABLES, Table

BROKERS_IN_LINE = 4


def table(table: Table, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    whole = [{field.name: row.get(field.name) for field in table.schema} for row in rows]
    return pa.Table.from_pylist(whole, table.schema)


@pytest.fixture(scope="module")
def line(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A scenario of brokers in a line, without clients; and a plan without flows: all that clients want is late."""
    folder = tmp_path_factory.mktemp("line")
    pairs = [(u, u + 1) for u in range(BROKERS_IN_LINE - 1)]
    links = [{"source": u, "target": v, "price": 1.0, "delay": 1.0} for one in pairs for u, v in (one, one[::-1])]
    tables = {"brokers": table(BROKERS, [{"id": u} for u in range(BROKERS_IN_LINE)]), "links": table(LINKS, links)}
    write_scenario(folder / "scenario", Settings(name="line"), tables, EVENTS.schema.empty_table())
    scenario = read_scenario(folder / "scenario")
    plan = Plan.of(
        Header("", scenario.fingerprint), {name: one.schema.empty_table() for name, one in PLAN_TABLES.items()}
    )
    plan.write(folder / "plan")
    return folder / "scenario", folder / "plan"


def test_nothing_acknowledged_is_lost(line: tuple[Path, Path], tmp_path: Path) -> None:
    async def run() -> list[Outcome]:
        live = Line(*line, tmp_path / "logs")
        try:
            await live.start()
            schedules = [Schedule.drawn(seed, BROKERS_IN_LINE, events=150, longest=1.5) for seed in range(len(KINDS))]
            assert {schedule.kind for schedule in schedules} == set(KINDS)
            return [await live.run(schedule) for schedule in schedules]
        finally:
            live.stop()

    for outcome in asyncio.run(run()):
        assert outcome._replace(peak_memory=0) == Outcome(300, 0, 0, 0, False, 0)
