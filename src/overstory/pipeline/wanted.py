"""What members want, in columns: of each row of a plan's ``members`` the flow, the broker, and which boxes it wants.

A *want* is what a subscription, the events of a flow and a part have in common. Equal wants are one, and each is a
union of boxes in the space of events.
"""

from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels.holding import Pool, meet_unions
from overstory.model.plan import EVERYTHING, Plan
from overstory.model.scenario import Scenario
from overstory.pipeline.boxes import Boxes, boxes_of, joined
from overstory.pipeline.predicates import distinct
from overstory.pipeline.space import Space

Ints = NDArray[np.int64]


class Wanted:
    """``boxes`` are those of the distinct filters of the scenario's subscriptions, in the order in which they are first
    named. ``entering`` are the brokers where somebody publishes."""

    def __init__(self, scenario: Scenario, plan: Plan, boxes: Boxes, entering: list[int]) -> None:
        self.scenario, self.plan = scenario, plan
        ids = scenario.subscriptions["id"].to_numpy()
        order = np.argsort(ids, kind="stable")
        # By row of ``members``: the row of ``subscriptions``, the client, and the broker by its position
        self.subscription: Ints = order[np.searchsorted(ids[order], plan.members["subscription"].to_numpy())]
        self.client: Ints = scenario.subscriptions["client"].to_numpy()[self.subscription]
        self.broker: Ints = scenario.network.positions(broker_of(plan, self.client))
        self.flow_ids: Ints = plan.flows["flow"].to_numpy()
        self.flow = self.flow_numbers(plan.members["flow"].to_numpy())
        self.filter = distinct(scenario.subscriptions["filter"])[1]
        self._further = _Numbers(len(boxes))
        self.everything = self._further.of(pa.chunked_array([[EVERYTHING]]))[0]
        self.events = self._further.of(plan.flows["events"])
        self.part = self._further.of(plan.members["part"], absent=self.everything)
        self.row = self._further.of(plan.filters["filter"])
        self._boxes = joined([boxes, boxes_of(pa.array(self._further.texts, pa.string()))])
        self.space = Space(self._boxes, scenario.attributes, entering)

    def flow_numbers(self, ids: Ints) -> Ints:
        order = np.argsort(self.flow_ids, kind="stable")
        return order[np.searchsorted(self.flow_ids[order], ids)]

    @cached_property
    def triples(self) -> tuple[Ints, Ints]:
        """Of each distinct want its subscription's filter, events and part; and by row of ``members``, which it is."""
        filters, events = self.filter[self.subscription], self.events[self.flow]
        width = len(self._boxes)
        if not self._is_shared:
            used, which = np.unique(filters, return_inverse=True)
            return np.stack([used, *np.full((2, len(used)), self.everything)]), which
        pairs, pair = np.unique(events * width + self.part, return_inverse=True)
        keys, which = np.unique(filters * max(len(pairs), 1) + pair, return_inverse=True)
        one, other = np.divmod(keys, max(len(pairs), 1))
        return np.stack([one, *np.divmod(pairs[other], width)]), which

    @property
    def _is_shared(self) -> bool:
        """Whether some member wants less than its subscription does."""
        return bool((self.events != self.everything).any() or (self.part != self.everything).any())

    @cached_property
    def pooled(self) -> tuple[Pool, Ints]:
        """The boxes of all filters and wants, and by want its number there."""
        pool, (one, events, part) = self.space.pool(), self.triples[0]
        numbers = one.copy()
        made = np.flatnonzero((events != self.everything) | (part != self.everything))
        if len(made):
            met = meet_unions(pool, one[made], pool, events[made])
            if (part[made] != self.everything).any():
                met = meet_unions(met, np.arange(len(made)), pool, part[made])
            numbers[made] = len(pool.offsets) - 1 + np.arange(len(made))
            pool = pools_joined(pool, met)
        return pool, numbers

    @property
    def want(self) -> Ints:
        """By row of ``members``: its want, as a union of the pool."""
        found: Ints = self.pooled[1][self.triples[1]]
        return found


class _Numbers:
    """Numbers for texts beyond those that have one already."""

    def __init__(self, first: int) -> None:
        self.first = first
        self._known: dict[str, int] = {}

    def of(self, column: pa.ChunkedArray, absent: int = -1) -> Ints:
        texts, codes = distinct(column)
        numbers = [self._known.setdefault(text, self.first + len(self._known)) for text in texts.to_pylist()]
        found: Ints = np.array([*numbers, absent], np.int64)[codes]
        return found

    @property
    def texts(self) -> list[str]:
        return list(self._known)


def broker_of(plan: Plan, clients: Ints) -> Ints:
    """The id of the broker that each client is attached to."""
    attached = plan.attachments["client"].to_numpy()
    order = np.argsort(attached, kind="stable")
    found: Ints = plan.attachments["broker"].to_numpy()[order][np.searchsorted(attached[order], clients)]
    return found


def pools_joined(one: Pool, other: Pool) -> Pool:
    return Pool(
        np.concatenate([one.offsets, one.offsets[-1] + other.offsets[1:]]),
        np.concatenate([one.exact, other.exact]),
        np.concatenate([one.range_offsets, one.range_offsets[-1] + other.range_offsets[1:]]),
        np.concatenate([one.attribute, other.attribute]),
        np.concatenate([one.low, other.low]),
        np.concatenate([one.high, other.high]),
    )
