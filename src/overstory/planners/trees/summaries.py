"""Summaries of at most so many boxes, which tell publishing brokers where events of a steered flow are to go.

A summary is the union of the filters of a host. Where that has too many boxes, two of them become one, again and again:
those whose common hull lets in the fewest events more, by the log's own events. The hull of two boxes constrains an
attribute only if both do, to the union of what either allows; so it holds both boxes, and a host misses nothing.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.filters import parse_filter
from overstory.filters.box import Box
from overstory.filters.boxes import simplified_in_part
from overstory.filters.printing import print_boxes
from overstory.model.network import Ints
from overstory.model.scenario import Scenario
from overstory.model.tables import FILTERS
from overstory.model.values import Attributes
from overstory.planners.trees.parts import Truths
from overstory.planners.trees.spelling import within_limits

Words = NDArray[np.uint64]
EVENTS = 2_048  # of the log, by which growth is judged
ALL_BITS = np.uint64(0xFFFFFFFFFFFFFFFF)


def hull(one: Box, other: Box) -> Box:
    """The narrowest box that holds both, as far as one value set for each attribute can say it."""
    sets = {}
    for name, ours in one.sets.items():
        theirs = other.sets.get(name)
        if theirs is not None and ours.merge_key() == theirs.merge_key():
            union = ours.merge(theirs)  # type: ignore[arg-type]
            if union is not None:
                sets[name] = union
    return Box(sets, one.residuals & other.residuals)


class Summarising:
    """Makes summaries, judged by some events."""

    def __init__(self, events: Sequence[Attributes], most: int) -> None:
        self.events, self.most = events[:EVENTS], most
        self.words = -(-max(len(self.events), 1) // 64)
        self._known: dict[tuple[str | None, Any], Words] = {}

    def summary(self, texts: Sequence[str]) -> str | None:
        """The text of a filter of at most ``most`` boxes that covers all of these; None if no filter can be as large as
        it would have to be."""
        boxes = simplified_in_part([box for text in texts for box in parse_filter(text).boxes])
        return within_limits(print_boxes(self.merged(boxes)))

    def merged(self, boxes: Sequence[Box]) -> list[Box]:
        """At most ``most`` boxes that hold these."""
        kept = list(boxes)
        if len(kept) <= self.most:
            return kept
        masks = np.stack([self.inside(box) for box in kept])
        growth = np.full((len(kept), len(kept)), np.iinfo(np.int64).max)
        for at in range(len(kept)):
            self._compare(kept, masks, growth, at, range(at))
        alive = len(kept)
        while alive > self.most:
            low, high = sorted(divmod(int(growth.argmin()), len(kept)))
            kept[low] = hull(kept[low], kept[high])
            masks[low] = self.inside(kept[low])
            growth[high, :] = growth[:, high] = np.iinfo(np.int64).max
            kept[high] = NOWHERE
            others = [at for at in range(len(kept)) if at != low and kept[at] is not NOWHERE]
            self._compare(kept, masks, growth, low, others)
            alive -= 1
        return list(simplified_in_part([box for box in kept if box is not NOWHERE]))

    def _compare(self, kept: list[Box], masks: Words, growth: Ints, at: int, others: Sequence[int]) -> None:
        """How many events more the hull of a box and each other one lets in."""
        for other in others:
            both = masks[at] | masks[other]
            grown = int(np.bitwise_count(self.inside(hull(kept[at], kept[other])) & ~both).sum())
            growth[max(at, other), min(at, other)] = grown

    def inside(self, box: Box) -> Words:
        """A bit for each event: whether the box holds it."""
        found = np.full(self.words, ALL_BITS)
        for name, allowed in box.sets.items():
            found &= self._bits(name, allowed)
        for residual in box.residuals:
            found &= self._bits(None, residual)
        return found

    def _bits(self, name: str | None, condition: Any) -> Words:
        """The same of one attribute, or of one residual: remembered, as few different ones occur."""
        key = name, condition
        if key not in self._known:
            box = Box({}, frozenset([condition])) if name is None else Box({name: condition})
            bits = np.zeros(64 * self.words, bool)
            bits[: len(self.events)] = [box.contains(event) for event in self.events]
            self._known[key] = np.packbits(bits, bitorder="little").view(np.uint64)
        return self._known[key]


NOWHERE = Box({})  # stands where a box has become part of another: told by identity


def attributes_of(events: pa.RecordBatch) -> list[Attributes]:
    """Some events, as the filters see them."""
    names = [name for name in events.schema.names if not name.startswith("$")]
    found: list[Attributes] = events.select(names).to_pylist()
    return found


def summary_rows(
    scenario: Scenario, host: Ints, members: Truths, flow: int, events: pa.RecordBatch, most: int
) -> pa.Table:
    """The rows of ``filters`` for one steered flow. ``host`` is by subscription the id of its broker."""
    making = Summarising(attributes_of(events), most)
    texts = scenario.subscriptions["filter"].to_numpy(zero_copy_only=False)[members]
    order = np.argsort(host[members], kind="stable")
    hosts, starts = np.unique(host[members][order], return_index=True)
    rows = []
    for broker, mine in zip(hosts.tolist(), np.split(order, starts[1:]), strict=True):
        text = making.summary(sorted(set(texts[mine].tolist())))
        if text is not None:
            rows.append({"flow": flow, "source": broker, "target": broker, "filter": text})
    return pa.Table.from_pylist(rows, schema=FILTERS.schema)
