"""Each event on a Steiner tree of its own, where that pays: everything, some filters, or some publishing brokers.

Steering everything costs least on the links, and needs no trees. It takes header bytes, and summaries of all hosts at
all brokers that publish. Where scenario.toml prices these, plans are tried by the meter itself, on events that nothing
was fitted to, and the cheapest is taken:

- everything steered, or everything on one tree;
- the filters that save most for each of their entries steered, and the long tail of the others on the tree;
- the events of those brokers steered that save most by it, and the events of the others on the tree;
- everything steered by regions, if there are some hundreds of brokers, or if that was asked for;
- everything steered, its events in slices, in which summaries of few boxes let in less (``slices``).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overstory.errors import UsageError
from overstory.filters import parse_filter
from overstory.model.network import Floats, Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.model.tables import FILTERS, REGIONS, STEERED, STEINER, TREE
from overstory.model.values import Attributes
from overstory.planners.decision import Decision, relative_costs
from overstory.planners.defaults import looked_up_in
from overstory.planners.steps import CHOOSE, FIT, Steps, Trial
from overstory.planners.trees.clusters import ground_of
from overstory.planners.trees.demand import Demand, Rows, demand_of
from overstory.planners.trees.exchange import one_tree
from overstory.planners.trees.parameters import count_of, truth_of
from overstory.planners.trees.parts import Part, every_subscription, tables_of, with_members
from overstory.planners.trees.regions import gateways_of, pieces_of, region_rows
from overstory.planners.trees.slices import Slices, slices_of
from overstory.planners.trees.spanning import Tree, priced
from overstory.planners.trees.spelling import within_limits
from overstory.planners.trees.steering import row_costs
from overstory.planners.trees.summaries import (
    EVENTS,
    Summarising,
    attributes_of,
    filters_of,
    sliced_rows,
    summary_rows,
)

Tables = dict[str, pa.Table]
EXACT, AUTO = "exact", "auto"
MANY_BROKERS = 300  # from which on regions are tried unasked
REGIONS_TRIED = (0.25, 0.5, 1.0)  # of the square root of the number of brokers
SLICES = 4  # of the events, unasked, if a host has two boxes or more for each
ALL, CHEAPEST = "all", "cheapest"
WHOLE, ONE_TREE = "steered", "one tree"  # names of alternatives
TRIED = 10_000  # events of a trial
USUAL_HEADER = 5.0  # bytes a copy, to rank filters and brokers by; trials count them one by one
STEP, FINE = 4, 2  # between the numbers of filters, or brokers, that are tried first, and then


class How(NamedTuple):
    """What the planner was told."""

    boxes: int | None  # of a summary; None: exact
    ordered: bool
    part: int  # of the log, that plans are tried on
    regions: int | None = 1  # 1: none; None: as many as are cheapest, if there are many brokers
    slices: int | None = 1  # of the events, where summaries are of few boxes; None: as many as usual, if any help


class Candidate(NamedTuple):
    name: str
    parts: list[Part]
    regions: int = 1  # of all that is steered
    slices: Slices | None = None  # which the parts are, one by one


class Found(NamedTuple):
    """The cheapest candidate, and by name what each one costs."""

    tables: Tables
    costs: dict[str, float]
    steering: dict[str, float]


def plan(
    scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], parameters: Mapping[str, Value], seed: int
) -> dict[str, pa.Table]:
    steer, boxes, ordered = parameters["steer"], boxes_of(parameters), truth_of(parameters, "ordered")
    if steer not in (ALL, CHEAPEST):
        raise UsageError(f"steer={steer}: it is {CHEAPEST}, or {ALL} for everything whatever it costs")
    how = How(boxes, ordered, CHOOSE, regions_asked(parameters), slices_asked(parameters))
    if steer == ALL:
        making = Making(scenario, pipeline, base, how)
        known = whole(scenario, how)._replace(regions=how.regions or 1)
        return Decision(making.tables((making.in_slices() if known.regions == 1 else None) or known), {})
    demand = demand_of(scenario, pipeline, base, count_of(parameters, "rows"))
    how = how._replace(part=CHOOSE if len(demand.choose.roots) else FIT)
    tree = priced(demand.network, one_tree(ground_of(demand, demand.fit), demand))
    found = cheapest(Making(scenario, pipeline, base, how), demand, tree)
    return Decision(found.tables, relative_costs(found.costs), steering=found.steering)


def whole(scenario: Scenario, how: How) -> Candidate:
    return Candidate(WHOLE, [Part(STEINER, every_subscription(scenario), ordered=how.ordered)])


def on_one_tree(scenario: Scenario, tree: Tree) -> Candidate:
    return Candidate(ONE_TREE, [Part(TREE, every_subscription(scenario), tree=tree)])


class Making:
    """Makes the tables of candidates, and tries them."""

    def __init__(self, scenario: Scenario, pipeline: Steps, base: Mapping[str, pa.Table], how: How) -> None:
        self.scenario, self.pipeline, self.base, self.how = scenario, pipeline, base, how

    def tables(self, candidate: Candidate) -> Tables:
        found = tables_of(self.scenario, candidate.parts)
        filters, regions = [FILTERS.schema.empty_table()], [REGIONS.schema.empty_table()]
        making = None
        if self.how.boxes is not None:
            making = Summarising(self._some_events(), self.how.boxes, candidate.slices)
        if candidate.slices is not None and making is not None:
            texts = filters_of(self.scenario, self._hosts(), every_subscription(self.scenario))
            return found | {"filters": sliced_rows(texts, making), "regions": regions[0]}
        for number, part in enumerate(with_members(candidate.parts)):
            if part.kind not in STEERED:
                continue
            gateways = self._gateways(candidate.regions) if candidate.regions > 1 else None
            if gateways is not None:
                regions.append(region_rows(self.scenario.network, gateways, number))
            if making is not None:
                ids = self.scenario.network.ids
                gateway_of = None if gateways is None else dict(zip(ids.tolist(), ids[gateways].tolist(), strict=True))
                texts = filters_of(self.scenario, self._hosts(), part.subscriptions)
                filters.append(summary_rows(texts, number, making, gateway_of))
        found["filters"] = pa.concat_tables(filters).combine_chunks()
        found["regions"] = pa.concat_tables(regions).combine_chunks()
        return found

    def in_slices(self) -> Candidate | None:
        """Everything steered, in slices; None if that was not asked for, or cannot be, or all filters fit anyway."""
        count = self.how.slices or min(SLICES, (self.how.boxes or 0) // 2)
        if self.how.boxes is None or count < 2 or self.how.ordered:
            return None
        every = every_subscription(self.scenario)
        if all(len(texts) <= self.how.boxes for texts in filters_of(self.scenario, self._hosts(), every).values()):
            return None
        texts = self.scenario.subscriptions["filter"].to_pylist()
        boxes = {text: parse_filter(text).boxes for text in set(texts)}
        slices = slices_of([box for text in sorted(boxes) for box in boxes[text]], self._some_events(), count)
        if slices is None:
            return None
        met = {text: {number for box in some for number in slices.of_box(box)} or {0} for text, some in boxes.items()}
        parts = [
            Part(STEINER, np.array([number in met[text] for text in texts], bool), events)
            for number, events in enumerate(slices.events())
        ]
        if not all(part.subscriptions.any() for part in parts):
            return None
        return Candidate(f"steered in {count} slices", parts, slices=slices)

    def _some_events(self) -> list[Attributes]:
        """Some events of the part of the log to fit."""
        return attributes_of(self.pipeline.some_events(self.scenario, FIT, EVENTS))

    def _gateways(self, count: int) -> Ints:
        """By position of a broker that of its gateway, if there are about so many regions."""
        network = self.scenario.network
        hosting = np.bincount(network.positions(self._hosts()), minlength=len(network)).astype(np.float64)
        publishers = self.pipeline.publishers(self.scenario)
        clients, brokers = (self.base["attachments"][name].to_numpy() for name in ("client", "broker"))
        entries = network.positions(looked_up_in(publishers, clients, brokers))
        publishing = np.bincount(entries, minlength=len(network)).astype(np.float64)
        return gateways_of(network, pieces_of(network, count), publishing, hosting)

    def _hosts(self) -> Ints:
        """By subscription, the id of its client's broker."""
        clients, brokers = (self.base["attachments"][name].to_numpy() for name in ("client", "broker"))
        return looked_up_in(self.scenario.subscriptions["client"].to_numpy(), clients, brokers)

    def trial(self, tables: Mapping[str, pa.Table]) -> Trial:
        return self.pipeline.trial(self.scenario, {**self.base, **tables}, self.how.part, TRIED)

    def mean_bytes(self) -> float:
        """The mean size of an event, in bytes."""
        sizes = np.asarray(self.pipeline.some_events(self.scenario, self.how.part, TRIED).column("$bytes"))
        return float(sizes.mean()) if len(sizes) else 1.0


def has_to_be_tried(scenario: Scenario) -> bool:
    """Whether steering costs something that the prices of links do not tell."""
    settings, prices = scenario.settings, scenario.settings.prices
    upkeep = prices.upkeep_access or prices.upkeep_association or settings.curves.upkeep
    return settings.headers or has_upkeep(scenario) or (settings.intervals > 0 and bool(upkeep))


def has_upkeep(scenario: Scenario) -> bool:
    """Whether entries between brokers cost something."""
    return scenario.settings.intervals > 0 and scenario.settings.prices.upkeep_core > 0


def cheapest(
    making: Making, demand: Demand, tree: Tree, more: Mapping[str, dict[str, pa.Table]] | None = None
) -> Found:
    """The cheapest of all ways to steer, of one tree, and of ``more`` plans by name."""
    rows = demand.choose if making.how.part == CHOOSE else demand.fit
    costs = row_costs(demand, rows, tree)
    first = whole(making.scenario, making.how)
    asked = making.how.regions is not None and making.how.regions > 1
    if making.how.boxes is None and more is None and not asked and not has_to_be_tried(making.scenario):
        known = {WHOLE: float(costs.steered.sum()), ONE_TREE: float(costs.tree.sum())}
        best = first if known[WHOLE] <= known[ONE_TREE] else on_one_tree(making.scenario, tree)
        part = 1 - known[best.name] / known[ONE_TREE] if known[ONE_TREE] > 0 else 0.0
        return Found(making.tables(best), known, {"saved": part} if best is first else {})
    trials = _Trials(making)
    trials.add(first)
    trials.add(on_one_tree(making.scenario, tree))
    for name, tables in (more or {}).items():
        trials.add_tables(name, tables)
    saved = costs.tree - costs.steered
    if making.scenario.settings.headers:
        saved = saved - costs.steered * USUAL_HEADER / max(making.mean_bytes(), 1.0)
    sliced = making.in_slices()
    if sliced is not None:
        trials.add(sliced)
    for count in _regions_tried(making):
        trials.add(first._replace(name=f"steered by {count:,} regions", regions=count))
    for ranking in (_by_filter(making, demand, rows, saved, tree), _by_broker(making, demand, rows, saved, tree)):
        trials.search(ranking)
    return trials.found()


def _regions_tried(making: Making) -> list[int]:
    """How many regions are tried: where upkeep is priced, and numbering does not forbid it."""
    how, size = making.how, len(making.scenario.network)
    if how.regions is not None:
        return [how.regions] if how.regions > 1 else []
    if how.ordered or size < MANY_BROKERS or not has_upkeep(making.scenario):
        return []
    return sorted({max(round(size**0.5 * part), 2) for part in REGIONS_TRIED})


class Ranking(NamedTuple):
    """What may be steered, the best first: any number of the first of them make a candidate, if a filter can say it."""

    size: int
    candidate: Callable[[int], Candidate | None]


class _Trials:
    """Candidates that were tried; of the cheapest the tables are kept."""

    def __init__(self, making: Making) -> None:
        self.making = making
        self.costs: dict[str, float] = {}
        self.tries: dict[str, Trial] = {}
        self.best: tuple[str, dict[str, pa.Table]] | None = None

    def add(self, candidate: Candidate) -> float:
        return self.add_tables(candidate.name, self.making.tables(candidate))

    def add_tables(self, name: str, tables: Tables) -> float:
        if name not in self.costs:
            self.tries[name] = self.making.trial(tables)
            self.costs[name] = self.tries[name].cost
            if self.best is None or self.costs[name] < self.costs[self.best[0]]:
                self.best = name, tables
        return self.costs[name]

    def search(self, ranking: Ranking) -> None:
        """Numbers that are far apart first, then those beside the best of these."""
        tried = {size: cost for size in _sizes(ranking.size) if (cost := self._try(ranking, size)) is not None}
        if tried:
            best = min(tried, key=lambda size: (tried[size], size))
            for size in (best // FINE, min(best * FINE, ranking.size - 1)):
                if size not in tried and size > 0:
                    self._try(ranking, size)

    def _try(self, ranking: Ranking, size: int) -> float | None:
        candidate = ranking.candidate(size)
        return None if candidate is None else self.add(candidate)

    def found(self) -> Found:
        assert self.best is not None
        name, tables = self.best
        steering: dict[str, float] = {}
        kinds = tables["flows"]["kind"].to_pylist()
        if any(kind in STEERED for kind in kinds):
            ours, theirs = self.tries[name], self.tries[ONE_TREE]
            steering["saved"] = 1 - ours.cost / theirs.cost if theirs.cost > 0 else 0.0
            if self.making.scenario.settings.headers and ours.frames:
                steering["header_bytes"] = ours.header_bytes / ours.frames
            if ours.entries is not None and theirs.entries is not None:
                steering |= {"entries": ours.entries, "entries_of_one_tree": theirs.entries}
        return Found(tables, self.costs, steering)


def _sizes(size: int) -> Iterator[int]:
    """A half, an eighth, and so on, as long as there is one."""
    some = size // FINE
    while some:
        yield some
        some //= STEP


def _by_filter(making: Making, demand: Demand, rows: Rows, saved: Floats, tree: Tree) -> Ranking:
    """What a row saves is shared among its filters; entries are as many as brokers that have the filter."""
    filters = int(demand.item_predicate.max(initial=-1)) + 1
    row = np.repeat(np.arange(len(rows.roots)), np.diff(rows.offsets))
    keys = np.unique(row * max(filters, 1) + demand.item_predicate[rows.items])
    row, wanted = np.divmod(keys, max(filters, 1))
    share = saved / np.maximum(np.bincount(row, minlength=len(rows.roots)), 1)
    gain = np.bincount(wanted, share[row], filters)
    order = np.argsort(-gain / np.maximum(np.bincount(demand.item_predicate, minlength=filters), 1), kind="stable")
    of_subscription = demand.item_predicate[demand.item_of]

    def candidate(size: int) -> Candidate:
        busy = np.isin(of_subscription, order[:size])
        parts = [Part(STEINER, busy, ordered=making.how.ordered), Part(TREE, ~busy, tree=tree)]
        return Candidate(f"{size:,} of {filters:,} filters steered", parts)

    return Ranking(filters, candidate)


def _by_broker(making: Making, demand: Demand, rows: Rows, saved: Floats, tree: Tree) -> Ranking:
    """The brokers whose events save most."""
    gain = np.bincount(rows.roots, saved, len(demand.network))
    publishing = np.unique(rows.roots)
    order = publishing[np.argsort(-gain[publishing], kind="stable")]

    def candidate(size: int) -> Candidate | None:
        names = ", ".join(map(str, np.sort(demand.network.ids[order[:size]]).tolist()))
        inside, outside = within_limits(f"$broker IN ({names})"), within_limits(f"$broker NOT IN ({names})")
        if inside is None or outside is None:
            return None
        every = every_subscription(making.scenario)
        parts = [Part(STEINER, every, inside, ordered=making.how.ordered), Part(TREE, every, outside, tree)]
        return Candidate(f"events of {size:,} of {len(order):,} brokers steered", parts)

    return Ranking(len(order), candidate)


def regions_asked(parameters: Mapping[str, Value]) -> int | None:
    """None: as many as are cheapest."""
    value = parameters["regions"]
    if value == AUTO:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"regions={value}: it is {AUTO} or a number from 1 on")
    if value > 1 and parameters["ordered"]:
        raise UsageError(
            "regions and ordered=true exclude each other: events that change at a gateway come in no order"
        )
    return value


def slices_asked(parameters: Mapping[str, Value]) -> int | None:
    """None: as many as usual."""
    value = parameters["slices"]
    if value == AUTO:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"slices={value}: it is {AUTO} or a number from 1 on")
    boxes = boxes_of(parameters)
    if value > 1 and (boxes is None or boxes < value):
        raise UsageError(
            f"slices={value}: each takes a box of a summary, so boxes={value} is the least that goes with it"
        )
    if value > 1 and parameters["ordered"]:
        raise UsageError("slices and ordered=true exclude each other: events of different slices come in no order")
    return value


def boxes_of(parameters: Mapping[str, Value]) -> int | None:
    """None: as many as it takes."""
    if parameters["boxes"] == EXACT:
        return None
    value = parameters["boxes"]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"boxes={value}: it is {EXACT} or a number from 1 on")
    return value
