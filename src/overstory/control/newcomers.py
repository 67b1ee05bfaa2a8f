"""Between the ends of two windows: a network as it was when the last one ended, with those who have come since.

Newcomers are placed as they come, by the sample of the last window: they need neither a new plan nor a window of their
own. Brokers tell who is late and the numbers of all others, which is little beside all that is observed when a window
ends.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from overstory.broker.observing import Late
from overstory.control.placing import without
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario


class Picture(NamedTuple):
    """A network when a window ended."""

    epoch: int  # of the plan that is in use
    scenario: Scenario
    scale: float  # events that one of the sample stands for, in a window
    plan: Plan  # with those who were placed since


def newcomers(brokers: Iterable[Late], met: frozenset[int]) -> frozenset[int]:
    """The numbers of late subscriptions that have not been met."""
    return frozenset(one.number for broker in brokers for one in broker.subscriptions) - met


def with_newcomers(picture: Picture, brokers: Iterable[Late], new: frozenset[int]) -> Picture:
    """The network with these newcomers where they are, and without whoever has gone."""
    told = list(brokers)
    here = [number for broker in told for number in broker.numbers if number not in new]
    rows = [(broker.broker, one) for broker in told for one in broker.subscriptions if one.number in new]
    scenario, plan = picture.scenario, picture.plan
    subscriptions = _added(
        scenario.subscriptions.filter(pc.is_in(scenario.subscriptions["id"], pa.array(here, pa.int64()))),
        [{"id": one.number, "client": one.client, "filter": one.filter, "no_local": one.no_local} for _, one in rows],
    )
    homes = {one.client: broker for broker, one in rows}
    unknown = homes.keys() - set(scenario.clients["id"].to_pylist())
    clients = _added(scenario.clients, [{"id": client, "broker": homes[client]} for client in sorted(unknown)])
    attachments = _attached(plan, homes)
    left = np.setdiff1d(plan.members["subscription"].to_numpy(), np.array(here, np.int64))
    return picture._replace(
        scenario=replace(scenario, subscriptions=subscriptions, clients=clients),
        plan=replace(without(plan, left), attachments=attachments),
    )


def _added(table: pa.Table, rows: list[dict[str, object]]) -> pa.Table:
    return pa.concat_tables([table, pa.Table.from_pylist(rows, schema=table.schema)]).combine_chunks()


def _attached(plan: Plan, homes: dict[int, int]) -> pa.Table:
    """The plan's attachments, with these clients where they are."""
    stay = pc.invert(pc.is_in(plan.attachments["client"], pa.array(sorted(homes), pa.int64())))
    return _added(
        plan.attachments.filter(stay),
        [{"client": client, "broker": broker} for client, broker in sorted(homes.items())],
    )
