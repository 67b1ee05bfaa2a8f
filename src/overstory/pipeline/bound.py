"""A certified lower bound on core: no plan with these attachments carries the log for less.

1. Every event must reach the brokers of all who want it, so it costs at least the cheapest set of links that joins them
   to its publisher's broker. Dual ascent bounds that from below (``kernels.ascent``).
2. Nothing lifts the bound. Prices become integers, rounded down, in a unit so small that the dearest link still fits;
   all sums are exact (``exact``), and the last step rounds down once more.
3. Events of all publishers that the same brokers want are brought together, across the whole log: they share most of
   the ascent, and those of one publishing broker all of it. Where links cost the same both ways, a tree may be followed
   from any of its ends: so all brokers that publish what they want themselves share all of it, too.
4. Where all brokers are linked to each other and nearly all want an event, few links matter (``kernels.lunes``).

All of the log is bounded by dual ascent, unless the effort given does not suffice (``effort``). Events beyond it are
bounded by the distance of their farthest broker: that holds as well, but is much weaker.
"""

import pickle
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels.ascent import ascent_bounds, farthest_bounds
from overstory.kernels.graphs import TOTAL_BITS, whole_prices
from overstory.kernels.lunes import lune_sizes
from overstory.kernels.metering import PARTS, Rules
from overstory.kernels.paths import cheapest_paths
from overstory.kernels.sets import hash_sets, sort_lists
from overstory.kernels.travel import terminal_sets
from overstory.model.network import Network
from overstory.pipeline.effort import ALL, RANK, Chosen, chosen_for, ranked
from overstory.pipeline.exact import dot
from overstory.pipeline.match import HELD_OUT, ROWS, ddl
from overstory.pipeline.rows import in_large_batches, rows_of
from overstory.pipeline.rules import Metered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ints = NDArray[np.int64]
Batches = Iterable[pa.RecordBatch]
EFFORT = 5 * 10**10  # sets of brokers times brokers: some minutes on two cores. Fifty million sets of 1,000 brokers
EXACT_BITS = 53  # whole numbers up to there are exact as floats
DENSE = 64, 2048  # brokers that are all linked to each other, from which on and up to which some links are left out
MISSING = 4, 16  # brokers that sets lack, up to which they are; fewer links matter where fewer lack
ROOT = "root"
ROOTED = ROWS.append(pa.field(ROOT, pa.int64()))


class Bound(NamedTuple):
    """Exact, and without the price of core; a sample stands for what dual ascent did not reach."""

    whole: Fraction
    held_out: Fraction
    share: Fraction = Fraction(1)  # of the log's bytes: bounded by dual ascent
    estimate: Fraction | None = None  # of ``whole`` if the share were 1; no bound. None if it is, or without a sample

    def as_texts(self) -> list[str]:
        """For JSON, and still exact; there is no last one where there is no estimate."""
        return [str(part) for part in self if part is not None]


class Scaled(NamedTuple):
    """Prices as integers, rounded down: so many of ``unit`` each."""

    offsets: Ints
    targets: Ints
    prices: Ints
    unit: Fraction
    is_mutual: bool  # every link costs what the link back costs
    few: "tuple[Few, ...]" = ()  # what is left of it for sets that lack few brokers, the fewest first


class Few(NamedTuple):
    """The links of a network that matter for trees that join all brokers but so many: see ``kernels.lunes``."""

    missing: int
    offsets: Ints
    targets: Ints
    prices: Ints


class Sums(NamedTuple):
    """Bounds times bytes, in units of the scaled price: integers of any size."""

    ascended: list[int]  # by part of the log: all that dual ascent bounds
    farthest: list[int]  # by part of the log: the rest, by the farthest broker
    sampled: int  # what was drawn from those that are not the heaviest, by dual ascent
    sampled_farthest: int  # and by the farthest broker
    bytes_ascended: int
    bytes: int

    def plus(self, other: "Sums") -> "Sums":
        return Sums(
            _added(self.ascended, other.ascended),
            _added(self.farthest, other.farthest),
            self.sampled + other.sampled,
            self.sampled_farthest + other.sampled_farthest,
            self.bytes_ascended + other.bytes_ascended,
            self.bytes + other.bytes,
        )


def _added(one: list[int], other: list[int]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]


NOTHING = Sums([0] * PARTS, [0] * PARTS, 0, 0, 0, 0)


def scaled(network: Network) -> Scaled:
    """The network with its prices as whole numbers."""
    prices, bits = whole_prices(network.prices)
    is_mutual = bool((network.back >= 0).all()) and np.array_equal(network.prices, network.prices[network.back])
    graph = Scaled(network.offsets, network.targets, prices, Fraction(2) ** -bits, is_mutual)
    return graph._replace(few=tuple(_few_links(graph, len(network)))) if is_mutual else graph


def _few_links(graph: Scaled, size: int) -> Iterator[Few]:
    """Only where all brokers are linked to each other."""
    if not DENSE[0] <= size <= DENSE[1] or len(graph.targets) != size * (size - 1):
        return
    sources = np.repeat(np.arange(size), np.diff(graph.offsets))
    near, lunes = np.zeros((size, size), np.int64), np.empty((size, size), np.int64)
    near[sources, graph.targets] = graph.prices
    lune_sizes(near, MISSING[-1], lunes)
    for missing in MISSING:
        kept = lunes[sources, graph.targets] <= missing
        offsets = np.searchsorted(sources[kept], np.arange(size + 1))
        yield Few(missing, offsets, graph.targets[kept], graph.prices[kept])


def bound_of(rows: "DataFrame", metered: Metered, network: Network, effort: int = EFFORT) -> Bound:
    """The bound of all rows of a reduced log, worked out on Spark."""
    context = rows.sparkSession.sparkContext
    graph = scaled(network)
    given = context.broadcast((metered.rules, metered.publishers, graph))

    def name(batches: Batches) -> Iterator[pa.RecordBatch]:
        return (instances_of(batch, *given.value) for batch in in_large_batches(batches) if batch.num_rows)

    named = rows.mapInArrow(name, ddl(ROOTED))
    chosen = chosen_for(named, rows.count(), effort // len(network))
    if chosen != ALL:
        named = ranked(named)

    def bound(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"sums": [pickle.dumps(bounded(batches, *given.value, chosen))]})

    alike = named.repartition(2 * context.defaultParallelism, "high", "low").sortWithinPartitions("high", "low")
    total = NOTHING
    for sums in alike.mapInArrow(bound, "sums binary").toArrow()["sums"].to_pylist():
        total = total.plus(pickle.loads(sums))
    return bound_from(total, graph.unit)


def bound_from(sums: Sums, unit: Fraction) -> Bound:
    whole, rest = sum(sums.ascended) + sum(sums.farthest), sum(sums.farthest)
    share = Fraction(sums.bytes_ascended, sums.bytes) if sums.bytes else Fraction(1)
    estimate = None
    if share < 1 and sums.sampled_farthest:  # the rest may grow as what was drawn from it did
        estimate = (whole - rest + rest * Fraction(sums.sampled, sums.sampled_farthest)) * unit
    return Bound(whole * unit, (sums.ascended[HELD_OUT] + sums.farthest[HELD_OUT]) * unit, share, estimate)


def bound_here(rows: pa.RecordBatch, metered: Metered, network: Network, chosen: Chosen = ALL) -> Bound:
    """The bound of rows in memory, worked out without Spark."""
    graph, known = scaled(network), (metered.rules, metered.publishers)
    return bound_from(bounded([instances_of(rows, *known, graph)], *known, graph, chosen), graph.unit)


class Wanting(NamedTuple):
    """The brokers that want a set of predicates, ascending: of set s those between offsets s and s + 1."""

    of_row: Ints
    offsets: Ints
    brokers: Ints


def wanting_brokers(batch: pa.RecordBatch, rules: Rules, publishers: Ints) -> Wanting:
    """Of rows that match the same predicates these are looked at once."""
    high, low = np.asarray(batch.column("high")), np.asarray(batch.column("low"))
    order = np.lexsort((low, high))
    begins, of_row = _begins(high[order], low[order]), np.empty(len(order), np.int64)
    of_row[order] = np.cumsum(begins) - 1
    _, offsets, brokers = terminal_sets(rules, rows_of(batch.take(pa.array(order[begins])), publishers))
    sort_lists(offsets, brokers)
    return Wanting(of_row, offsets, brokers)


def named_by_brokers(batch: pa.RecordBatch, rules: Rules, publishers: Ints) -> pa.RecordBatch:
    """Rows of the reduced log, with the hash of the brokers that want them instead of that of their predicates: more of
    them are alike."""
    return _named(batch, wanting_brokers(batch, rules, publishers))


def _named(batch: pa.RecordBatch, wanting: Wanting) -> pa.RecordBatch:
    for name, column in zip(("high", "low"), hash_sets(wanting.offsets, wanting.brokers), strict=True):
        batch = batch.set_column(batch.schema.get_field_index(name), name, pa.array(column[wanting.of_row]))
    return batch


def instances_of(batch: pa.RecordBatch, rules: Rules, publishers: Ints, graph: Scaled) -> pa.RecordBatch:
    """The same with the broker from which a tree leads to those who want the event, and with rows summed that then have
    the same part, root and brokers."""
    wanting, roots = wanting_brokers(batch, rules, publishers), _roots(batch, rules, publishers)
    named = _named(batch, wanting)
    if graph.is_mutual:
        roots = _shared_roots(wanting, roots, len(graph.offsets) - 1)
    part, high, low = (np.asarray(named.column(name)) for name in ("part", "high", "low"))
    order = np.lexsort((roots, low, high, part))
    starts = np.flatnonzero(_begins(part[order], high[order], low[order], roots[order]))
    some = named.take(pa.array(order[starts]))
    for name in ("events", "bytes"):
        summed = np.add.reduceat(np.asarray(named.column(name))[order], starts) if len(starts) else starts
        some = some.set_column(some.schema.get_field_index(name), name, pa.array(summed))
    return some.append_column(ROOT, pa.array(roots[order][starts]))


def _roots(batch: pa.RecordBatch, rules: Rules, publishers: Ints) -> Ints:
    found: Ints = rules.publisher_broker[np.searchsorted(publishers, np.asarray(batch.column("publisher")))]
    return found


def _shared_roots(wanting: Wanting, roots: Ints, size: int) -> Ints:
    """Whoever is among the brokers that want an event gives way to the first of them."""
    if not len(wanting.brokers):
        return roots
    of_broker = np.repeat(np.arange(len(wanting.offsets) - 1), np.diff(wanting.offsets))
    keys, asked = of_broker * size + wanting.brokers, wanting.of_row * size + roots
    at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
    first = wanting.brokers[np.minimum(wanting.offsets[wanting.of_row], len(keys) - 1)]
    return np.where(keys[at] == asked, first, roots)


def bounded(batches: Batches, rules: Rules, publishers: Ints, graph: Scaled, chosen: Chosen = ALL) -> Sums:
    """Of instances, best with those of the same name beside each other."""
    total = NOTHING
    for batch in batches:
        heavy, drawn = chosen.among(_ranks(batch), np.asarray(batch.column("low")))
        by_ascent, parts, sizes = heavy | drawn, np.asarray(batch.column("part")), np.asarray(batch.column("bytes"))
        ascended, farthest = np.zeros(len(parts), np.int64), np.zeros(len(parts), np.int64)
        for is_bounded, found, kernel in ((by_ascent, ascended, _ascent), (~heavy, farthest, _farthest)):
            if is_bounded.any():
                sets = grouped(batch.filter(pa.array(is_bounded)), rules, publishers)
                found[is_bounded] = kernel(graph, sets)[sets.which]
        total = total.plus(
            Sums(
                [dot(ascended[here], sizes[here]) for here in (parts == part for part in range(PARTS))],
                [dot(farthest[here], sizes[here]) for here in (~by_ascent & (parts == part) for part in range(PARTS))],
                dot(ascended[drawn], sizes[drawn]),
                dot(farthest[drawn], sizes[drawn]),
                int(sizes[by_ascent].sum()),
                int(sizes.sum()),
            )
        )
    return total


def _ranks(batch: pa.RecordBatch) -> Ints:
    has_ranks = RANK in batch.schema.names
    return np.asarray(batch.column(RANK)) if has_ranks else np.zeros(batch.num_rows, np.int64)


class Grouped(NamedTuple):
    """Distinct sets of terminals, the distinct roots of each, and the number that each row has among these."""

    terminal_offsets: Ints
    terminals: Ints
    root_offsets: Ints
    roots: Ints
    which: Ints


def grouped(batch: pa.RecordBatch, rules: Rules, publishers: Ints) -> Grouped:
    high, low = np.asarray(batch.column("high")), np.asarray(batch.column("low"))
    has_roots = ROOT in batch.schema.names
    roots = np.asarray(batch.column(ROOT)) if has_roots else _roots(batch, rules, publishers)
    order = np.lexsort((roots, low, high))
    set_begins = _begins(high[order], low[order])
    root_begins = set_begins | _begins(roots[order])
    which = np.empty(len(order), np.int64)
    which[order] = np.cumsum(root_begins) - 1
    one_of_each = batch.take(pa.array(order[set_begins]))
    _, terminal_offsets, terminals = terminal_sets(rules, rows_of(one_of_each, publishers))
    root_offsets = np.append(np.flatnonzero(set_begins[root_begins]), root_begins.sum())
    return Grouped(terminal_offsets, terminals, root_offsets, roots[order][root_begins], which)


def _begins(*columns: Ints) -> NDArray[np.bool_]:
    """Where a row differs from the one before it."""
    first = np.ones(len(columns[0]), bool)
    first[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return first


def _ascent(graph: Scaled, sets: Grouped) -> Ints:
    found = np.zeros(len(sets.roots), np.int64)
    missing = len(graph.offsets) - 1 - np.diff(sets.terminal_offsets)
    waiting = np.ones(len(missing), bool)
    for few in graph.few:
        mine = waiting & (missing <= few.missing)
        waiting &= ~mine
        _ascend(few.offsets, few.targets, few.prices, sets, mine, found)
    _ascend(graph.offsets, graph.targets, graph.prices, sets, waiting, found)
    return found


def _ascend(offsets: Ints, targets: Ints, prices: Ints, sets: Grouped, chosen: NDArray[np.bool_], found: Ints) -> None:
    """Bounds some of the sets, on some of the links."""
    if not chosen.any():
        return
    sizes, roots = np.diff(sets.terminal_offsets), np.diff(sets.root_offsets)
    mine = np.repeat(chosen, roots)
    bounds = np.zeros(int(mine.sum()), np.int64)
    ascent_bounds(
        offsets,
        targets,
        prices,
        np.concatenate([[0], np.cumsum(sizes[chosen])]),
        sets.terminals[np.repeat(chosen, sizes)],
        np.concatenate([[0], np.cumsum(roots[chosen])]),
        sets.roots[mine],
        bounds,
    )
    found[mine] = bounds


def _farthest(graph: Scaled, sets: Grouped) -> Ints:
    """From one root after the other, so that there is never a table of all distances. Prices are rounded down further,
    so that their sums are exact as floats."""
    coarse = TOTAL_BITS - EXACT_BITS
    prices = (graph.prices >> coarse).astype(np.float64)
    size = len(graph.offsets) - 1
    distances, before = np.empty((1, size)), np.empty((1, size), np.int64)
    set_of = np.repeat(np.arange(len(sets.root_offsets) - 1), np.diff(sets.root_offsets))
    found = np.zeros(len(sets.roots), np.int64)
    order = np.argsort(sets.roots, kind="stable")
    starts = np.flatnonzero(_begins(sets.roots[order]))
    for mine in np.split(order, starts[1:]):
        cheapest_paths(graph.offsets, graph.targets, prices, sets.roots[mine[:1]], distances, before)
        far = distances[0].astype(np.int64) << coarse
        farthest_bounds(far, sets.terminal_offsets, sets.terminals, set_of[mine], mine, found)
    return found
