"""A plan with everything written out that ``flows`` may say in short: members of all subscriptions, and access to all
events of a flow.

1. ``members = all`` stands for a member row of every subscription that may want something of E: of which it is not sure
   that no event matches both.
2. ``access = events`` stands for a row of ``filters`` that lets E through to each client with a member in the flow,
   unless the plan has a row for that client there.

A plan with a flow for each channel would have as many member rows as users times channels, so only what is small, or
must be obviously right, asks for this: the law, the routers, what plans are compared by.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overstory.filters import Filter, parse_filter
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import ALL, FILTERS, MEMBERS, WHOLE


def is_short(plan: Plan) -> bool:
    """Whether some flow says in short what others write out."""
    return _has(plan, "members", ALL) or _has(plan, "access", WHOLE)


def _has(plan: Plan, column: str, value: str) -> bool:
    return bool(pc.any(pc.equal(plan.flows[column], value)).as_py())


def written_out(scenario: Scenario, plan: Plan) -> Plan:
    if not is_short(plan):
        return plan
    members = pa.concat_tables([plan.members, _everyone(scenario, plan)])
    filters = pa.concat_tables([plan.filters, _whole_access(scenario, plan, members)])
    flows = plan.flows
    for column in ("members", "access"):
        at = flows.schema.get_field_index(column)
        flows = flows.set_column(at, flows.schema.field(at), pa.nulls(flows.num_rows, pa.string()))
    return replace(plan, flows=flows, members=members, filters=filters)


def _everyone(scenario: Scenario, plan: Plan) -> pa.Table:
    flows = plan.flows.filter(pc.equal(plan.flows["members"], ALL))
    ids = scenario.subscriptions["id"].to_numpy()
    coded = scenario.subscriptions["filter"].combine_chunks().dictionary_encode()
    filters = list(map(parse_filter, coded.dictionary.to_pylist()))
    codes = np.asarray(coded.indices)
    found = [MEMBERS.schema.empty_table()]
    for flow, text in zip(flows["flow"].to_pylist(), flows["events"].to_pylist(), strict=True):
        mine = ids[may_share(parse_filter(text), filters)[codes]]
        columns = [np.full(len(mine), flow), mine, pa.nulls(len(mine), pa.string())]
        found.append(pa.table(columns, schema=MEMBERS.schema))
    return pa.concat_tables(found)


def may_share(events: Filter, filters: list[Filter]) -> "np.ndarray[tuple[int], np.dtype[np.bool_]]":
    """Which of the filters may want some of the events."""
    return np.array([events.intersects(each) for each in filters], bool)


def _whole_access(scenario: Scenario, plan: Plan, members: pa.Table) -> pa.Table:
    """A row for each client with a member in a flow that gives it all events."""
    whole = plan.flows.filter(pc.equal(plan.flows["access"], WHOLE))
    events = dict(zip(whole["flow"].to_pylist(), whole["events"].to_pylist(), strict=True))
    broker_of = dict(zip(*(plan.attachments[name].to_pylist() for name in ("client", "broker")), strict=True))
    client_of = dict(zip(*(scenario.subscriptions[name].to_pylist() for name in ("id", "client")), strict=True))
    said = set(zip(*(plan.filters[name].to_pylist() for name in ("flow", "source", "target")), strict=True))
    pairs = zip(members["flow"].to_pylist(), members["subscription"].to_pylist(), strict=True)
    found = sorted({(flow, client_of[each]) for flow, each in pairs if flow in events})
    rows = [(flow, broker_of[client], client, events[flow]) for flow, client in found]
    rows = [row for row in rows if row[:3] not in said]
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    return pa.table([list(column) for column in columns], schema=FILTERS.schema)
