"""Planners in a chain, one after the other: each decides on some tables, and the rest is that of the plan before.

``nearest+tree-search`` first attaches clients, then plans trees for them where they are. What a planner does not decide
comes from the base, or from the defaults; where it moves clients, what no longer fits is made to (see ``refitting``).
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa

from overstory.errors import UsageError
from overstory.model.plan import Header, Plan, Value
from overstory.model.scenario import Scenario
from overstory.model.tables import PLAN_TABLES
from overstory.planners import defaults
from overstory.planners.decision import Decision
from overstory.planners.refitting import refitted
from overstory.planners.registry import Planner, planner_named
from overstory.planners.steps import Steps

Parameters = Mapping[str, Value]
Tables = dict[str, pa.Table]
THEN = "+"  # between the planners of a chain


def chain_named(name: str) -> list[Planner]:
    return [planner_named(each.strip()) for each in name.split(THEN)]


def parameters_of(chain: Sequence[Planner]) -> set[str]:
    return {key for planner in chain for key in planner.parameters}


def make_plan(
    name: str, scenario: Scenario, pipeline: Steps, given: Parameters, seed: int = 0, base: Plan | None = None
) -> Plan:
    """What the planners of a chain decide on, and the rest from ``base`` or from the defaults."""
    chain = chain_named(name)
    unknown = given.keys() - parameters_of(chain)
    if unknown:
        known = ", ".join(sorted(parameters_of(chain))) or "none"
        raise UsageError(f"planner {name} has no parameter '{min(unknown)}'; it has {known}")
    tables = defaults.tables(scenario) if base is None else {each: getattr(base, each) for each in PLAN_TABLES}
    tables = {each: PLAN_TABLES[each].completed(rows) for each, rows in tables.items()}
    header = Header(name, scenario.fingerprint, seed)
    for planner in chain:
        taken = planner.parameters | {key: value for key, value in given.items() if key in planner.parameters}
        decided = planner.plan(scenario, pipeline, tables, taken, seed)
        tables = _composed(planner, scenario, pipeline, tables, decided)
        header = _told(header, planner, taken, decided, alone=len(chain) == 1)
    return Plan.of(header, tables)


def _composed(planner: Planner, scenario: Scenario, pipeline: Steps, before: Tables, decided: Tables) -> Tables:
    """Rows of ``filters`` belong to flows: other flows have none, unless the planner says so."""
    tables = before | ({"filters": before["filters"].slice(0, 0)} if "flows" in planner.writes else {}) | decided
    tables = {each: PLAN_TABLES[each].completed(rows) for each, rows in tables.items()}
    if "attachments" in planner.writes and "flows" not in planner.writes:
        tables = refitted(scenario, tables, before["attachments"], pipeline.publishers(scenario))
    return tables


def _told(header: Header, planner: Planner, taken: Parameters, decided: Tables, alone: bool) -> Header:
    """Parameters of several planners are told with the names of these."""
    parameters = {key if alone else f"{planner.name}.{key}": value for key, value in taken.items()}
    return Header(
        header.planner,
        header.scenario,
        header.seed,
        header.parameters | parameters,
        alternatives=decided.alternatives if isinstance(decided, Decision) else header.alternatives,
        unmet=header.unmet + (decided.unmet if isinstance(decided, Decision) else ()),
    )
