"""Brokers in a tree: a scenario without clients, and a plan without flows, so that all that clients want is late."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from overstory.model.plan import Header, Plan
from overstory.model.scenario import read_scenario, write_scenario
from overstory.model.settings import Settings
from overstory.model.tables import BROKERS, EVENTS, LINKS, PLAN_TABLES, Table


def _table(table: Table, rows: Sequence[Mapping[str, object]]) -> pa.Table:
    whole = [{field.name: row.get(field.name) for field in table.schema} for row in rows]
    return pa.Table.from_pylist(whole, table.schema)


def written_line(folder: Path, brokers: int) -> tuple[Path, Path]:
    """Writes the scenario and the plan of a line. Returns their folders."""
    return written_tree(folder, [(u, u + 1) for u in range(brokers - 1)])


def written_tree(folder: Path, pairs: Sequence[tuple[int, int]]) -> tuple[Path, Path]:
    """Writes the scenario and the plan of brokers that these links join. Returns their folders."""
    brokers = sorted({end for pair in pairs for end in pair})
    links = [{"source": u, "target": v, "price": 1.0, "delay": 1.0} for one in pairs for u, v in (one, one[::-1])]
    tables = {"brokers": _table(BROKERS, [{"id": u} for u in brokers]), "links": _table(LINKS, links)}
    write_scenario(folder / "scenario", Settings(name="line"), tables, EVENTS.schema.empty_table())
    scenario = read_scenario(folder / "scenario")
    empty = {name: one.schema.empty_table() for name, one in PLAN_TABLES.items()}
    Plan.of(Header("", scenario.fingerprint), empty).write(folder / "plan")
    return folder / "scenario", folder / "plan"
