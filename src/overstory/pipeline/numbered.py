"""A plan on a scenario with numbers instead of ids, as kernels count them: of flows, brokers and predicates."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import STEERED
from overstory.pipeline.predicates import Predicates

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
        return np.isin(self.plan.filters["target"].to_numpy(), self.network.ids)

    @cached_property
    def rows(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Of the plan's filters: flows, both ends, predicates."""
        filters = self.plan.filters
        ends = filters["source"].to_numpy(), filters["target"].to_numpy()
        return self.flows(filters["flow"].to_numpy()), *ends, self.predicates.numbers(filters["filter"])

    @cached_property
    def subscriptions(self) -> Ints:
        """The rows of the scenario's subscriptions that the plan's members are."""
        ids = self.scenario.subscriptions["id"].to_numpy()
        order = np.argsort(ids)
        found: Ints = order[np.searchsorted(ids[order], self.plan.members["subscription"].to_numpy())]
        return found

    @cached_property
    def steered(self) -> NDArray[np.bool_]:
        """By flow: whether it takes the cheapest paths instead of a tree."""
        return np.array([kind in STEERED for kind in self.plan.flows["kind"].to_pylist()], bool)
