"""Summaries of at most so many boxes, which tell publishing brokers where events of a steered flow are to go.

A summary is the union of the filters of a host. Where that has too many boxes, two of them become one, again and again:
those whose common hull lets in the fewest events that the host does not want, by the log's own events. The hull of two
boxes constrains an attribute only if both do, to the union of what either allows; so it holds both boxes, and a host
misses nothing. Then boxes are moved between the groups that have become one (``kernels.regrouping``).

Where events are in ``slices``, each of which is a flow of its own, a host has a summary for each of them, and all of
its summaries together have at most so many boxes.

A log is a sample: what is let in between its events costs as well. So each event stands also for some others near to
it, whose floats are a little larger or smaller.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
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
from overstory.kernels.regrouping import Draws, Sides, regroup
from overstory.model.network import Ints
from overstory.model.plan import EVERYTHING
from overstory.model.scenario import Scenario
from overstory.model.tables import FILTERS
from overstory.model.values import Attributes
from overstory.planners.trees.parts import Truths
from overstory.planners.trees.slices import Slices, numbers_of
from overstory.planners.trees.spelling import within_limits

Words = NDArray[np.uint64]
EVENTS = 16_384  # of the log, by which growth is judged
MOST_NEAR = 3  # further events for each, where the log has few
NEAR = 0.035  # how far they are away: of the deviation of the attribute
DRAWS, MOST_DRAWS = 2_000, 500_000  # attempts to move each box, and all boxes of a host
HOTTEST, COLDEST = 1e-3, 5e-5  # the temperature, of the events
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

    def __init__(self, events: Sequence[Attributes], most: int, slices: Slices | None = None) -> None:
        self.events, self.most, self.slices = with_near(events[:EVENTS]), most, slices
        at = np.zeros(len(self.events), np.int64) if slices is None else slices.of_events(self.events)
        count = 1 if slices is None else slices.count
        words = -(-np.maximum(np.bincount(at, minlength=count), 1) // 64)
        self.spans = np.concatenate([[0], np.cumsum(words)])  # of words; the events of a slice stand together
        order = np.argsort(at, kind="stable")
        first = np.searchsorted(at[order], np.arange(count))
        self.place = np.empty(len(at), np.int64)  # of each event, among the bits
        self.place[order] = np.arange(len(at)) - first[at[order]] + 64 * self.spans[at[order]]
        self._columns: dict[str, NDArray[np.float64]] = {}
        self._known: dict[tuple[str | None, Any], Words] = {}

    def summary(self, texts: Sequence[str]) -> str | None:
        """The text of a filter of at most ``most`` boxes that covers all of these; None if no filter can be as large as
        it would have to be."""
        return self.summaries(texts)[0]

    def summaries(self, texts: Sequence[str]) -> dict[int, str | None]:
        """The same by slice, for those slices that these filters meet: at most ``most`` boxes in all."""
        boxes = simplified_in_part([box for text in texts for box in parse_filter(text).boxes])
        return {number: within_limits(print_boxes(some)) for number, some in self.merged(boxes).items()}

    def merged(self, boxes: Sequence[Box]) -> dict[int, list[Box]]:
        """By slice boxes that hold those of these boxes that meet it: at most ``most`` in all."""
        pieces = [
            (number, box) for box in boxes for number in ([0] if self.slices is None else self.slices.of_box(box))
        ]
        if len(pieces) <= self.most:
            groups = np.arange(len(pieces))
        else:
            sides = self._sides([box for _, box in pieces], np.array([number for number, _ in pieces]))
            groups = self.grouped(sides)
            self._regroup(sides, groups)
        found: dict[tuple[int, int], Box] = {}
        for group, (number, box) in zip(groups.tolist(), pieces, strict=True):
            known = found.get((number, group))
            found[number, group] = box if known is None else hull(known, box)
        numbers = sorted({number for number, _ in found}) if self.slices is not None else [0]
        return {
            number: list(simplified_in_part([box for (other, _), box in found.items() if other == number]))
            for number in numbers
        }

    def _slices_of(self, box: Box) -> list[int]:
        return [0] if self.slices is None else self.slices.of_box(box)

    def grouped(self, sides: Sides) -> Ints:
        """By box the number of its group, below ``most``: the two that grow least are united, again and again. No group
        is in two slices."""
        uniting, groups = _Uniting(sides), np.arange(len(sides.slices))
        growth = np.stack([uniting.growth(at) for at in range(len(groups))])
        growth[np.triu_indices(len(groups))] = NEVER
        for _ in range(len(groups) - self.most):
            high, low = divmod(int(growth.argmin()), len(groups))
            uniting.unite(low, high)
            groups[groups == groups[high]] = groups[low]
            growth[high, :] = growth[:, high] = NEVER
            row = uniting.growth(low)
            growth[low, :low], growth[low + 1 :, low] = row[:low], row[low + 1 :]
        numbers: Ints = np.unique(groups, return_inverse=True)[1]
        return numbers

    def _regroup(self, sides: Sides, groups: Ints) -> None:
        """Moves boxes between the groups. What is drawn is the same for the same boxes, whichever host asks first."""
        whole = np.bitwise_and.reduce(sides.inside, axis=1)
        wanted = np.bitwise_or.reduce(whole, axis=0)
        dice, attempts = np.random.default_rng(len(groups)), min(DRAWS * len(groups), MOST_DRAWS)
        cooling = HOTTEST * (COLDEST / HOTTEST) ** (np.arange(attempts) / attempts) * len(self.events)
        boxes, to = dice.integers(len(groups), size=attempts), dice.integers(self.most, size=attempts)
        draws = Draws(boxes, to, cooling * dice.standard_exponential(attempts))
        regroup(sides, ~wanted & self._used(), groups, self.most, draws)

    def _used(self) -> Words:
        """The bits that are events."""
        bits = np.zeros(64 * int(self.spans[-1]), bool)
        bits[self.place] = True
        return np.packbits(bits, bitorder="little").view(np.uint64)

    def _sides(self, boxes: Sequence[Box], slices: Ints) -> Sides:
        """Of all boxes, by attribute; all residuals of a box count as one attribute more."""
        names: list[str | None] = [*sorted({name for box in boxes for name in box.sets}), None]
        kinds: dict[object, int] = {}
        kind = np.full((len(boxes), len(names)), NONE)
        inside = np.full((len(boxes), len(names), int(self.spans[-1])), ALL_BITS)
        for row, box in enumerate(boxes):
            for column, name in enumerate(names):
                if name is None and box.residuals:
                    kind[row, column] = kinds.setdefault(box.residuals, len(kinds))
                    for residual in box.residuals:
                        inside[row, column] &= self._bits(None, residual)
                elif name in box.sets:
                    kind[row, column] = kinds.setdefault((name, box.sets[name].merge_key()), len(kinds))
                    inside[row, column] = self._bits(name, box.sets[name])
        return Sides(kind, inside, slices, self.spans)

    def _bits(self, name: str | None, condition: Any) -> Words:
        """The same of one attribute, or of one residual: remembered, as few different ones occur."""
        key = name, condition
        if key not in self._known:
            bits = np.zeros(64 * int(self.spans[-1]), bool)
            if name is not None and isinstance(condition, Numbers):
                bits[self.place] = self._in_numbers(name, condition)
            else:
                box = Box({}, frozenset([condition])) if name is None else Box({name: condition})
                bits[self.place] = [box.contains(event) for event in self.events]
            self._known[key] = np.packbits(bits, bitorder="little").view(np.uint64)
        return self._known[key]

    def _in_numbers(self, name: str, allowed: Numbers) -> Truths:
        """A number is inside if an odd number of cuts lies below it; a cut is beside a number, on one of its sides."""
        if name not in self._columns:
            self._columns[name] = numbers_of(self.events, name)
        values, below = self._columns[name], np.zeros(len(self.events), np.int64)
        for cut, side in allowed.cuts:
            below += values > float(cut) if side else values >= float(cut)
        found: Truths = below % 2 == 1
        return found & ~np.isnan(values)


class _Uniting:
    """Groups of boxes while they are united, each where its first box is."""

    def __init__(self, sides: Sides) -> None:
        self.kind, self.inside, self.slices, self.spans = sides.kind.copy(), sides.inside.copy(), *sides[2:]
        self.whole = np.bitwise_and.reduce(self.inside, axis=1)
        self.wanted = [
            np.bitwise_or.reduce(self.whole[self.slices == number, first:last], axis=0)
            for number, (first, last) in enumerate(zip(self.spans[:-1], self.spans[1:], strict=True))
        ]
        self.alive = np.ones(len(self.slices), bool)

    def growth(self, at: int) -> Ints:
        """By box: how many events that no box of the host holds are in its hull with the box ``at``, and in neither of
        the two; NEVER if it is in another slice, or in another group already."""
        number = self.slices[at]
        some = np.flatnonzero(self.alive & (self.slices == number))
        span = slice(self.spans[number], self.spans[number + 1])
        whole = self.whole[:, span]
        grown = np.bitwise_and.reduce(self._hulls(at, some, span), axis=1)
        grown &= ~(self.wanted[number] | whole[at] | whole[some])
        found: Ints = np.full(len(self.slices), NEVER)
        found[some] = np.bitwise_count(grown).sum(axis=1)
        return found

    def unite(self, low: int, high: int) -> None:
        number = self.slices[low]
        span = slice(self.spans[number], self.spans[number + 1])
        self.inside[low, :, span] = self._hulls(low, np.array([high]), span)[0]
        self.kind[low] = np.where(self.kind[low] == self.kind[high], self.kind[low], NONE)
        self.whole[low, span] = np.bitwise_and.reduce(self.inside[low, :, span], axis=0)
        self.alive[high] = False

    def _hulls(self, at: int, some: Ints, span: slice) -> Words:
        """Of one box with some others, by attribute."""
        alike = (self.kind[some] == self.kind[at]) & (self.kind[at] != NONE)
        found: Words = np.where(alike[:, :, None], self.inside[some, :, span] | self.inside[at, :, span], ALL_BITS)
        return found


def with_near(events: Sequence[Attributes]) -> list[Attributes]:
    """With further events near to each: as many for each as there is room for, where events have floats at all."""
    names = sorted({name for event in events[:1] for name, value in event.items() if isinstance(value, float)})
    further = min(EVENTS // max(len(events), 1), MOST_NEAR) if names else 0
    dice, found = np.random.default_rng(0), list(events)
    values = {name: numbers_of(events, name) for name in names}
    for _ in range(further):
        moved = {
            name: (known + NEAR * np.nan_to_num(np.nanstd(known)) * dice.standard_normal(len(known))).tolist()
            for name, known in values.items()
        }
        found += [
            {**event, **{name: moved[name][at] for name in names if isinstance(event.get(name), float)}}
            for at, event in enumerate(events)
        ]
    return found


def attributes_of(events: pa.RecordBatch) -> list[Attributes]:
    """Some events, as the filters see them."""
    names = [name for name in events.schema.names if not name.startswith("$")]
    found: list[Attributes] = events.select(names).to_pylist()
    return found


def filters_of(scenario: Scenario, host: Ints, members: Truths) -> dict[int, list[str]]:
    """By broker the different filters of its members, ascending. ``host`` is by subscription the id of its broker."""
    texts = scenario.subscriptions["filter"].to_numpy(zero_copy_only=False)[members]
    order = np.argsort(host[members], kind="stable")
    hosts, starts = np.unique(host[members][order], return_index=True)
    mine = np.split(order, starts[1:]) if len(hosts) else ()
    return {broker: sorted(set(texts[some].tolist())) for broker, some in zip(hosts.tolist(), mine, strict=True)}


def summary_rows(
    texts: Mapping[int, list[str]], flow: int, making: Summarising, gateway_of: Mapping[int, int] | None = None
) -> pa.Table:
    """The rows of ``filters`` for one steered flow, by the filters of each broker.

    If the flow has regions, the summary of each is made of those of its hosts; the gateway has none of its own."""
    made = {broker: making.summary(some) for broker, some in texts.items()}
    found = {broker: text for broker, text in made.items() if text is not None}
    if gateway_of is not None:
        found = _with_regions(making, found, texts.keys(), gateway_of)
    return _rows((flow, broker, text) for broker, text in sorted(found.items()))


def sliced_rows(texts: Mapping[int, list[str]], making: Summarising) -> pa.Table:
    """The same for flows that are the slices, by their numbers."""
    return _rows(
        (flow, broker, text)
        for broker, some in sorted(texts.items())
        for flow, text in making.summaries(some).items()
        if text is not None
    )


def _rows(found: Iterable[tuple[int, int, str]]) -> pa.Table:
    rows = [{"flow": flow, "source": broker, "target": broker, "filter": text} for flow, broker, text in found]
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
