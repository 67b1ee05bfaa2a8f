"""Each event on a Steiner tree of its own, where that pays: everything, some filters, or some publishing brokers.

Steering everything costs least on the links, and needs no trees. It takes header bytes, and summaries of all hosts at
all brokers that publish. Where scenario.toml prices these, plans are tried by the meter itself, on events that nothing
was fitted to, and the cheapest is taken:

- everything steered, or everything on one tree;
- the filters that save most for each of their entries steered, and the long tail of the others on the tree;
- the events of those brokers steered that save most by it, and the events of the others on the tree.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from overstory.errors import UsageError
from overstory.model.network import Floats, Ints
from overstory.model.plan import Value
from overstory.model.scenario import Scenario
from overstory.model.tables import FILTERS, STEERED, STEINER, TREE
from overstory.planners.decision import Decision, relative_costs
from overstory.planners.defaults import looked_up_in
from overstory.planners.steps import CHOOSE, FIT, Steps, Trial
from overstory.planners.trees.clusters import ground_of
from overstory.planners.trees.demand import Demand, Rows, demand_of
from overstory.planners.trees.exchange import one_tree
from overstory.planners.trees.parameters import count_of, truth_of
from overstory.planners.trees.parts import Part, every_subscription, tables_of, with_members
from overstory.planners.trees.spanning import Tree, priced
from overstory.planners.trees.spelling import within_limits
from overstory.planners.trees.steering import row_costs
from overstory.planners.trees.summaries import EVENTS, summary_rows

Tables = dict[str, pa.Table]
EXACT = "exact"
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


class Candidate(NamedTuple):
    name: str
    parts: list[Part]


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
    how = How(boxes, ordered, CHOOSE)
    if steer == ALL:
        making = Making(scenario, pipeline, base, how)
        return Decision(making.tables(whole(scenario, how)), {})
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
        found["filters"] = FILTERS.schema.empty_table()
        if self.how.boxes is not None:
            events = self.pipeline.some_events(self.scenario, FIT, EVENTS)
            rows = [
                summary_rows(self.scenario, self._hosts(), part.subscriptions, number, events, self.how.boxes)
                for number, part in enumerate(with_members(candidate.parts))
                if part.kind in STEERED
            ]
            found["filters"] = pa.concat_tables([found["filters"], *rows]).combine_chunks()
        return found

    def _hosts(self) -> Ints:
        """By subscription, the id of its client's broker."""
        clients, brokers = (self.base["attachments"][name].to_numpy() for name in ("client", "broker"))
        return looked_up_in(self.scenario.subscriptions["client"].to_numpy(), clients, brokers)

    def trial(self, tables: Mapping[str, pa.Table]) -> Trial:
        return self.pipeline.trial(self.scenario, {**self.base, **tables}, self.how.part, TRIED)

    def mean_bytes(self) -> float:
        """Of an event."""
        sizes = np.asarray(self.pipeline.some_events(self.scenario, self.how.part, TRIED).column("$bytes"))
        return float(sizes.mean()) if len(sizes) else 1.0


def has_to_be_tried(scenario: Scenario) -> bool:
    """Whether steering costs something that the prices of links do not tell."""
    settings, prices = scenario.settings, scenario.settings.prices
    upkeep = prices.upkeep_core or prices.upkeep_access or prices.upkeep_association or settings.curves.upkeep
    return settings.headers or (settings.intervals > 0 and bool(upkeep))


def cheapest(
    making: Making, demand: Demand, tree: Tree, more: Mapping[str, dict[str, pa.Table]] | None = None
) -> Found:
    """The cheapest of all ways to steer, of one tree, and of ``more`` plans by name."""
    rows = demand.choose if making.how.part == CHOOSE else demand.fit
    costs = row_costs(demand, rows, tree)
    first = whole(making.scenario, making.how)
    if making.how.boxes is None and more is None and not has_to_be_tried(making.scenario):
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
    for ranking in (_by_filter(making, demand, rows, saved, tree), _by_broker(making, demand, rows, saved, tree)):
        trials.search(ranking)
    return trials.found()


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


def boxes_of(parameters: Mapping[str, Value]) -> int | None:
    """None: as many as it takes."""
    if parameters["boxes"] == EXACT:
        return None
    value = parameters["boxes"]
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"boxes={value}: it is {EXACT} or a number from 1 on")
    return value
