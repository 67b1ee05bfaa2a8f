"""Planners of others, beside those of the registry: by a decorator, or by the entry point ``overstory.planners`` of a
package that is installed. docs/planners.md has an example.

A planner is a function of (scenario, steps, tables, parameters, seed) that gives the tables that it decides on: see
``steps`` for what it may ask, and ``defaults.one_flow`` for the simplest answer.
"""

import hashlib
import inspect
import re
import traceback
from collections.abc import Callable, Mapping
from functools import cache, wraps
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from overstory.errors import OverstoryError, UsageError
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.model.tables import PLAN_TABLES
from overstory.planners.references import REFERENCES
from overstory.planners.registry import OWN, PLANNERS, PROBLEMS, TREES, Parameters, Planner, Tables
from overstory.planners.steps import Steps

GROUP = "overstory.planners"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")  # neither a chain nor a list of planners
Plan = Callable[[Scenario, Steps, Tables, Parameters, int], Tables]
P = TypeVar("P", bound=Plan)


def planner(
    name: str,
    *,
    problem: str = TREES,
    writes: tuple[str, ...] = ("flows", "members", "trees"),
    parameters: Mapping[str, Value] | None = None,
    guarantee: str = "none is known",
    time: str = "not told",
    fails: str = "not told",
    paper: str = "none",
) -> Callable[[P], P]:
    """Makes a function a planner that can be used by this name. The first line of its docstring says what it does;
    ``writes`` are the tables that it decides on, ``parameters`` those that it takes, with their usual values."""

    def register(function: P) -> P:
        _check(name, problem, writes)
        summary = (inspect.getdoc(function) or "").partition("\n")[0].strip().rstrip(".")
        if not summary:
            raise UsageError(f"the planner '{name}' has no docstring; its first line has to say what it does")
        plan = _called(name, function, writes)
        told = (guarantee, time, fails, paper, writes, dict(parameters or {}))
        OWN[name] = Planner(name, problem, summary, *told, plan)
        return function

    return register


def _check(name: str, problem: str, writes: tuple[str, ...]) -> None:
    if not NAME.fullmatch(name):
        raise UsageError(f"'{name}' cannot be the name of a planner: write letters, digits, '-', '_' and '.'")
    if name in PLANNERS or name in REFERENCES:
        raise UsageError(f"there is a planner '{name}' already; give yours another name")
    if problem not in PROBLEMS:
        raise UsageError(f"there is no problem '{problem}'; there are {', '.join(PROBLEMS)}")
    unknown = [table for table in writes if table not in PLAN_TABLES]
    if unknown or not writes:
        what = f"a plan has no table '{unknown[0]}'" if unknown else "a planner decides on at least one table"
        raise UsageError(f"planner '{name}': {what}; there are {', '.join(PLAN_TABLES)}")


def _called(name: str, function: Plan, writes: tuple[str, ...]) -> Plan:
    """The function, with what it gives looked at; what goes wrong in it is an error of ours that says where."""

    @wraps(function)
    def plan(scenario: Scenario, steps: Steps, tables: Tables, parameters: Parameters, seed: int) -> Tables:
        try:
            found = function(scenario, steps, tables, parameters, seed)
        except OverstoryError:
            raise
        except Exception as error:
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{Path(frame.filename).name}, line {frame.lineno}"
            raise UsageError(f"planner {name} failed in {where}: {type(error).__name__}: {error}") from error
        _check_tables(name, found, writes)
        return found

    return plan


def _check_tables(name: str, found: object, writes: tuple[str, ...]) -> None:
    if not isinstance(found, Mapping) or found.keys() - set(writes):
        given = ", ".join(map(str, found)) if isinstance(found, Mapping) else type(found).__name__
        raise UsageError(f"planner {name} gives {given}, where it has to give the tables {', '.join(writes)}")
    for table, rows in found.items():
        if not isinstance(rows, pa.Table):
            raise UsageError(f"planner {name} gives a {type(rows).__name__} for the table {table}, not one of pyarrow")
        missing = [column for column in PLAN_TABLES[table].schema.names if column not in rows.column_names]
        if missing:
            raise UsageError(f"planner {name} gives a table {table} without the column '{missing[0]}'")


@cache
def installed() -> dict[str, str]:
    """Loads the planners of packages that are installed. Gives those that cannot be loaded, with the reason."""
    failed: dict[str, str] = {}
    for point in entry_points(group=GROUP):
        try:
            function = point.load()
            if point.name not in OWN:
                planner(point.name)(function)
        except Exception as error:  # whatever a stranger's module does when it is imported
            failed[point.name] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return failed


def known_planners() -> dict[str, Planner]:
    """All planners that can be named, those of others last."""
    installed()
    return PLANNERS | OWN


def code_of(name: str) -> str:
    """A fingerprint of the file of a planner of others; nothing for ours, whose code the lab knows."""
    if name not in known_planners() or name in PLANNERS:
        return ""
    path = inspect.getsourcefile(inspect.unwrap(OWN[name].plan))
    text = Path(path).read_bytes() if path and Path(path).is_file() else name.encode()
    return hashlib.sha256(text).hexdigest()[:16]
