"""Planners in a chain, one after the other: each decides on some tables, and the rest is that of the plan before.

``nearest+tree-search`` first attaches clients, then plans trees for them where they are. What a planner does not decide
comes from the base, or from the defaults; where it moves clients, what no longer fits is made to (see ``refitting``).
"""

from collections.abc import Mapping

import pyarrow as pa

from overstory.errors import UsageError
from overstory.kernels.steiner import EFFORTS
from overstory.model.plan import Header, Plan, Value
from overstory.model.scenario import Scenario
from overstory.model.tables import PLAN_TABLES
from overstory.planners import defaults
from overstory.planners.decision import Decision
from overstory.planners.own import installed
from overstory.planners.references import REFERENCES
from overstory.planners.refitting import refitted
from overstory.planners.registry import AUTO, EXACT, Planner, planner_named
from overstory.planners.steps import Steps

Parameters = Mapping[str, Value]
Tables = dict[str, pa.Table]
THEN = "+"  # between the planners of a chain


def chain_named(name: str) -> list[Planner]:
    names = [each.strip() for each in name.split(THEN)]
    failed = installed()
    for each in names:
        if each in failed:
            raise UsageError(f"the planner '{each}' cannot be loaded: {failed[each]}")
    return [planner_named(each) for each in names]


def parameters_of(name: str) -> dict[str, Value]:
    """Those of a planner, of all planners of a chain, or of a reference, with their usual values."""
    if name in REFERENCES:
        return REFERENCES[name].parameters
    return {key: usual for planner in chain_named(name) for key, usual in planner.parameters.items()}


def check_parameters(name: str, given: Parameters) -> None:
    """Raises a ``UsageError`` if no planner of the chain has one of them, or if one cannot have that value. Call it
    before the work: what depends on the scenario is left to the planner."""
    known = parameters_of(name)
    unknown = given.keys() - known.keys()
    if unknown:
        has = ", ".join(known) or "none"
        raise UsageError(f"planner {name} has no parameter '{min(unknown)}'; it has {has}")
    for key, value in given.items():
        is_count = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if isinstance(known[key], bool):
            if not isinstance(value, bool):
                raise UsageError(f"{key}={value}: it is true or false")
        elif isinstance(known[key], int) and not is_count:
            raise UsageError(f"{key}={value}: it is a number from 1 on")
        if known[key] in EFFORTS and value not in EFFORTS:
            raise UsageError(f"{key}={value}: it is one of {', '.join(EFFORTS)}")
        if known[key] in (AUTO, EXACT) and value != known[key] and not is_count:
            raise UsageError(f"{key}={value}: it is {known[key]} or a number from 1 on")


def make_plan(
    name: str, scenario: Scenario, pipeline: Steps, given: Parameters, seed: int = 0, base: Plan | None = None
) -> Plan:
    """What the planners of a chain decide on, and the rest from ``base`` or from the defaults."""
    chain = chain_named(name)
    check_parameters(name, given)
    tables = defaults.tables(scenario) if base is None else {each: getattr(base, each) for each in PLAN_TABLES}
    tables = {each: PLAN_TABLES[each].completed(rows) for each, rows in tables.items()}
    header = Header(name, scenario.fingerprint, seed, network=scenario.network_fingerprint)
    for planner in chain:
        taken = planner.parameters | {key: value for key, value in given.items() if key in planner.parameters}
        decided = planner.plan(scenario, pipeline, tables, taken, seed)
        tables = _composed(planner, scenario, pipeline, tables, decided)
        header = _told(header, planner, taken, decided, alone=len(chain) == 1)
    return Plan.of(header, tables)


def _composed(planner: Planner, scenario: Scenario, pipeline: Steps, before: Tables, decided: Tables) -> Tables:
    """Rows of ``filters`` and ``regions`` belong to flows: other flows have none, unless the planner says so."""
    of_flows = {each: before[each].slice(0, 0) for each in ("filters", "regions") if each in before}
    tables = before | (of_flows if "flows" in planner.writes else {}) | decided
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
        steering=decided.steering if isinstance(decided, Decision) else header.steering,
        attaching=decided.attaching if isinstance(decided, Decision) else header.attaching,
    )
