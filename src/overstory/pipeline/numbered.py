"""A plan on a scenario with numbers instead of ids, as kernels count them: of flows, brokers and predicates."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from overstory.filters import parse_filter
from overstory.kernels.metering import NONE
from overstory.model.plan import Plan
from overstory.model.regions import gateway_positions, regions_of
from overstory.model.scenario import Scenario
from overstory.model.tables import ALL, STEERED, WHOLE
from overstory.pipeline.lookups import pairs_looked_up
from overstory.pipeline.predicates import Predicates
from overstory.routing.written_out import may_share

Ints = NDArray[np.int64]


class Numbered:
    """Predicates get their numbers as they are asked for."""

    def __init__(self, scenario: Scenario, plan: Plan) -> None:
        self.scenario, self.plan = scenario, plan
        self.network = scenario.network
        self.predicates = Predicates()
        # Subscriptions come first, so that their numbers do not depend on the plan.
        self.subscription_predicate = self.predicates.numbers(scenario.subscriptions["filter"])
        self.flow_ids = plan.flows["flow"].to_numpy()
        self.flow_order = np.argsort(self.flow_ids)
        attached = plan.attachments["client"].to_numpy()
        order = np.argsort(attached)
        self.attached, self.attached_broker = attached[order], plan.attachments["broker"].to_numpy()[order]

    def broker_of(self, clients: Ints) -> Ints:
        found: Ints = self.attached_broker[np.searchsorted(self.attached, clients)]
        return found

    def flows(self, ids: Ints) -> Ints:
        """Numbers of flows, by their ids."""
        return self.flow_order[np.searchsorted(self.flow_ids[self.flow_order], ids)]

    @cached_property
    def is_broker_row(self) -> NDArray[np.bool_]:
        return np.isin(self.rows[2], self.network.ids)

    @cached_property
    def rows(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Of the plan's filters, and of what ``access = events`` stands for: flows, both ends, predicates."""
        filters = self.plan.filters
        said = (
            self.flows(filters["flow"].to_numpy()),
            filters["source"].to_numpy(),
            filters["target"].to_numpy(),
            self.predicates.numbers(filters["filter"]),
        )
        flow, client = self._whole_access
        if not len(flow):
            return said
        new = pairs_looked_up((flow, client), (said[0], said[2]), np.arange(len(said[0]))) == NONE
        flow, client = flow[new], client[new]
        texts = self.plan.flows["events"].to_pylist()
        number = np.array([self.predicates.number(text) for text in texts], np.int64)
        more = flow, self.broker_of(client), client, number[flow]
        return tuple(np.concatenate(both) for both in zip(said, more, strict=True))  # type: ignore[return-value]

    @cached_property
    def _whole_access(self) -> tuple[Ints, Ints]:
        """Flows that give all of their events to a client, and that client: once for each of both."""
        whole = _is(self.plan.flows["access"], WHOLE)
        if not whole.any():
            return np.empty(0, np.int64), np.empty(0, np.int64)
        flow = self.flows(self.plan.members["flow"].to_numpy())
        clients = self.scenario.subscriptions["client"].to_numpy()
        client = clients[self.subscriptions]
        pairs = [np.stack([flow, client])[:, whole[flow]], *self._shares_of_all(whole & self.serves_all, clients)]
        found: Ints = np.unique(np.concatenate(pairs, axis=1), axis=1)
        return found[0], found[1]

    def _shares_of_all(self, flows: NDArray[np.bool_], clients: Ints) -> Iterator[Ints]:
        """For flows that serve all subscriptions: the clients that may want something of their events."""
        filters = list(map(parse_filter, self.predicates.texts)) if flows.any() else []
        texts = self.plan.flows["events"].to_pylist()
        for flow in np.flatnonzero(flows).tolist():
            mine = np.unique(clients[may_share(parse_filter(texts[flow]), filters)[self.subscription_predicate]])
            yield np.stack([np.full(len(mine), flow), mine])

    @cached_property
    def serves_all(self) -> NDArray[np.bool_]:
        """By flow: whether every subscription is a member, as far as it wants something of the flow's events."""
        return _is(self.plan.flows["members"], ALL)

    @cached_property
    def subscriptions(self) -> Ints:
        """The rows of the scenario's subscriptions that the plan's members are."""
        ids = self.scenario.subscriptions["id"].to_numpy()
        order = np.argsort(ids)
        found: Ints = order[np.searchsorted(ids[order], self.plan.members["subscription"].to_numpy())]
        return found

    @cached_property
    def steered(self) -> NDArray[np.bool_]:
        """By flow: whether each of its events has a tree of its own."""
        return np.array([kind in STEERED for kind in self.plan.flows["kind"].to_pylist()], bool)

    @cached_property
    def ordered(self) -> NDArray[np.bool_]:
        """By flow: whether it is steered, and its frames are numbered."""
        said: NDArray[np.bool_] = np.asarray(pc.fill_null(self.plan.flows["ordered"], False))
        return self.steered & said

    @cached_property
    def gateways(self) -> Ints:
        """By flow and position of a broker, the position of its gateway, NONE in flows without regions; of length one
        if no flow has regions."""
        regions, brokers = regions_of(self.plan), len(self.network)
        found = np.full(len(self.flow_ids) * brokers if regions else 1, NONE, np.int64)
        for flow, gateway_of in regions.items():
            first = int(self.flows(np.array([flow]))[0]) * brokers
            found[first : first + brokers] = gateway_positions(self.network, gateway_of)
        return found


def _is(column: pa.ChunkedArray, value: str) -> NDArray[np.bool_]:
    return np.asarray(pc.fill_null(pc.equal(column, value), False))
