"""A plan with the clients and subscriptions that it was made for, as files, so that they are kept together."""

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import pyarrow.parquet as pq

from overstory.model.plan import Plan, read_plan
from overstory.model.scenario import Scenario

MADE_FOR = ("clients", "subscriptions")


def files_with(scenario: Scenario, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of a plan's folder, and beside them the tables that it was made for."""
    found = dict(files)
    for name in MADE_FOR:
        out = BytesIO()
        pq.write_table(getattr(scenario, name), out, compression="zstd")
        found[f"{name}.parquet"] = out.getvalue()
    return found


def files_of(plan: Plan) -> dict[str, bytes]:
    """The files of a plan's folder."""
    with tempfile.TemporaryDirectory(prefix="overstory-plan-") as made:
        folder = Path(made) / "plan"
        plan.write(folder)
        return {one.name: one.read_bytes() for one in folder.iterdir()}


def plan_in(files: Mapping[str, bytes]) -> Plan:
    """The plan among files."""
    with tempfile.TemporaryDirectory(prefix="overstory-plan-") as folder:
        for name, data in files.items():
            (Path(folder) / Path(name).name).write_bytes(data)
        return read_plan(Path(folder))


def scenario_in(files: Mapping[str, bytes], network: Scenario) -> Scenario:
    """The scenario that a plan was made for: its clients and subscriptions, if they are among the files, on the network
    that runs."""
    tables = {name: files[f"{name}.parquet"] for name in MADE_FOR if f"{name}.parquet" in files}
    return replace(network, **{name: pq.read_table(BytesIO(data)) for name, data in tables.items()})
