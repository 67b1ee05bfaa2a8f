"""Summaries of at most so many boxes, which tell publishing brokers where events of a steered flow are to go.

A summary is the union of the filters of a host. Where that has too many boxes, two of them become one, again and again:
those whose common hull lets in the fewest events that the host does not want, by the log's own events. The hull of two
boxes constrains an attribute only if both do, to the union of what either allows; so it holds both boxes, and a host
misses nothing.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.filters import parse_filter
from overstory.filters.box import Box
from overstory.filters.boxes import simplified_in_part
from overstory.filters.printing import print_boxes
from overstory.filters.value_sets import Numbers
from overstory.kernels.nothing import NONE
from overstory.model.network import Ints
from overstory.model.plan import EVERYTHING
from overstory.model.scenario import Scenario
from overstory.model.tables import FILTERS
from overstory.model.values import Attributes
from overstory.planners.trees.parts import Truths
from overstory.planners.trees.spelling import within_limits

Words = NDArray[np.uint64]
EVENTS = 16_384  # of the log, by which growth is judged
NEVER = np.iinfo(np.int64).max
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
        self._columns: dict[str, NDArray[np.float64]] = {}
        self._known: dict[tuple[str | None, Any], Words] = {}

    def summary(self, texts: Sequence[str]) -> str | None:
        """The text of a filter of at most ``most`` boxes that covers all of these; None if no filter can be as large as
        it would have to be."""
        boxes = simplified_in_part([box for text in texts for box in parse_filter(text).boxes])
        return within_limits(print_boxes(self.merged(boxes)))

    def merged(self, boxes: Sequence[Box]) -> list[Box]:
        """At most ``most`` boxes that hold these."""
        if len(boxes) <= self.most:
            return list(boxes)
        kept, sides = list(boxes), self._sides(boxes)
        growth = np.stack([self._growth(sides, at) for at in range(len(kept))])
        growth[np.triu_indices(len(kept))] = NEVER
        alive = np.ones(len(kept), bool)
        for _ in range(len(kept) - self.most):
            high, low = divmod(int(growth.argmin()), len(kept))
            kept[low] = hull(kept[low], kept[high])
            sides.unite(low, high)
            alive[high] = False
            growth[high, :] = growth[:, high] = NEVER
            row = np.where(alive, self._growth(sides, low), NEVER)
            growth[low, :low], growth[low + 1 :, low] = row[:low], row[low + 1 :]
        return list(simplified_in_part([kept[at] for at in np.flatnonzero(alive).tolist()]))

    def _sides(self, boxes: Sequence[Box]) -> "_Sides":
        """Of all boxes, by attribute; all residuals of a box count as one attribute more."""
        names: list[str | None] = [*sorted({name for box in boxes for name in box.sets}), None]
        kinds: dict[object, int] = {}
        kind = np.full((len(boxes), len(names)), NONE)
        inside = np.full((len(boxes), len(names), self.words), ALL_BITS)
        for row, box in enumerate(boxes):
            for column, name in enumerate(names):
                if name is None and box.residuals:
                    kind[row, column] = kinds.setdefault(box.residuals, len(kinds))
                    for residual in box.residuals:
                        inside[row, column] &= self._bits(None, residual)
                elif name in box.sets:
                    kind[row, column] = kinds.setdefault((name, box.sets[name].merge_key()), len(kinds))
                    inside[row, column] = self._bits(name, box.sets[name])
        return _Sides(kind, inside)

    def _growth(self, sides: "_Sides", at: int) -> Ints:
        """By box: how many events that no box of the host holds are in its hull with the box ``at``, and in neither of
        the two."""
        known = sides.wanted | sides.whole[at] | sides.whole
        grown = np.bitwise_and.reduce(sides.hulls(at), axis=1) & ~known
        found: Ints = np.bitwise_count(grown).sum(axis=1).astype(np.int64)
        return found

    def _bits(self, name: str | None, condition: Any) -> Words:
        """The same of one attribute, or of one residual: remembered, as few different ones occur."""
        key = name, condition
        if key not in self._known:
            bits = np.zeros(64 * self.words, bool)
            if name is not None and isinstance(condition, Numbers):
                bits[: len(self.events)] = self._in_numbers(name, condition)
            else:
                box = Box({}, frozenset([condition])) if name is None else Box({name: condition})
                bits[: len(self.events)] = [box.contains(event) for event in self.events]
            self._known[key] = np.packbits(bits, bitorder="little").view(np.uint64)
        return self._known[key]

    def _in_numbers(self, name: str, allowed: Numbers) -> Truths:
        """A number is inside if an odd number of cuts lies below it; a cut is beside a number, on one of its sides."""
        if name not in self._columns:
            self._columns[name] = np.array([_number(event.get(name)) for event in self.events], np.float64)
        values, below = self._columns[name], np.zeros(len(self.events), np.int64)
        for cut, side in allowed.cuts:
            below += values > float(cut) if side else values >= float(cut)
        found: Truths = below % 2 == 1
        return found & ~np.isnan(values)


def _number(value: object) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else np.nan


class _Sides:
    """The events, as bits, that each box allows by each of its attributes."""

    def __init__(self, kind: Ints, inside: Words) -> None:
        self.kind, self.inside = kind, inside  # by box and attribute: sets of one kind have a union; NONE: free
        self.whole = np.bitwise_and.reduce(inside, axis=1)  # by box
        self.wanted = np.bitwise_or.reduce(self.whole, axis=0)  # by any box, before hulls let in more

    def hulls(self, at: int) -> Words:
        """Of one box with each, by attribute."""
        alike = (self.kind == self.kind[at]) & (self.kind != NONE)
        found: Words = np.where(alike[:, :, None], self.inside | self.inside[at], ALL_BITS)
        return found

    def unite(self, low: int, high: int) -> None:
        """Puts the hull of two boxes where the first of them is."""
        self.inside[low] = self.hulls(low)[high]
        self.kind[low] = np.where(self.kind[low] == self.kind[high], self.kind[low], NONE)
        self.whole[low] = np.bitwise_and.reduce(self.inside[low], axis=0)


def attributes_of(events: pa.RecordBatch) -> list[Attributes]:
    """Some events, as the filters see them."""
    names = [name for name in events.schema.names if not name.startswith("$")]
    found: list[Attributes] = events.select(names).to_pylist()
    return found


def summary_rows(
    scenario: Scenario,
    host: Ints,
    members: Truths,
    flow: int,
    events: pa.RecordBatch,
    most: int,
    gateway_of: Mapping[int, int] | None = None,
) -> pa.Table:
    """The rows of ``filters`` for one steered flow. ``host`` is by subscription the id of its broker.

    If the flow has regions, the summary of each is made of those of its hosts; the gateway has none of its own."""
    making = Summarising(attributes_of(events), most)
    texts = scenario.subscriptions["filter"].to_numpy(zero_copy_only=False)[members]
    order = np.argsort(host[members], kind="stable")
    hosts, starts = np.unique(host[members][order], return_index=True)
    found: dict[int, str] = {}
    for broker, mine in zip(hosts.tolist(), np.split(order, starts[1:]) if len(hosts) else (), strict=True):
        text = making.summary(sorted(set(texts[mine].tolist())))
        if text is not None:
            found[broker] = text
    if gateway_of is not None:
        found = _with_regions(making, found, set(hosts.tolist()), gateway_of)
    rows = [
        {"flow": flow, "source": broker, "target": broker, "filter": text} for broker, text in sorted(found.items())
    ]
    return pa.Table.from_pylist(rows, schema=FILTERS.schema)


def _with_regions(
    making: Summarising, of_host: Mapping[int, str], hosts: Set[int], gateway_of: Mapping[int, int]
) -> dict[int, str]:
    """The summaries of hosts that are no gateways, and those of regions that have hosts. Where no filter can say what a
    region wants, it is sent everything."""
    inside: dict[int, list[int]] = {}
    for host in sorted(hosts):
        inside.setdefault(gateway_of[host], []).append(host)
    found = {host: text for host, text in of_host.items() if gateway_of[host] != host}
    for gateway, some in inside.items():
        whole = making.summary([of_host[host] for host in some]) if all(host in of_host for host in some) else None
        found[gateway] = EVERYTHING if whole is None else whole
    return found
