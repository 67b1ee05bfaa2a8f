"""The index of many filters. The peer is a vectorised NumPy scan, or the index as it was fresh."""

import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import Measurement, per_item
from benchmarks.scan import NumpyScan
from benchmarks.stocks import QUOTES, Stocks
from benchmarks.workload import Workload
from overstory import Filter, parse_filter
from overstory.matching.batch import Batch
from overstory.matching.covering import CoveringIndex
from overstory.matching.frozen import FrozenIndex, freeze
from overstory.matching.index import FilterIndex

SCAN = "NumPy scan"
MILLION = 1_000_000
WIDTH = 0.065  # of ranges: some ten to twenty of a million filters match an event
WARM_UP = 200


def parsed(texts: Iterable[str]) -> list[Filter]:
    return list(map(parse_filter, texts))


@cache
def million(quick: bool) -> tuple[Workload, list[Filter], FilterIndex, float]:
    """The workload, its filters, the index and the seconds that it took to build: made once for all subjects."""
    work = Workload(seed=1, width=WIDTH)
    filters = parsed(work.filters(2000 if quick else MILLION))
    FilterIndex(filters[:WARM_UP])
    start = time.perf_counter()
    index = FilterIndex(filters)
    return work, filters, index, time.perf_counter() - start


def match_time(index: FilterIndex, batch: Batch, quick: bool) -> float:
    index.match_batch(batch)
    return per_item(lambda: index.match_batch(batch), len(batch), 1 if quick else 5)


def compared(name: str, size: str, index: FilterIndex, batch: Batch, quick: bool, **bars: float) -> Measurement:
    ours = match_time(index, batch, quick)
    matches = len(index.match_batch(batch).filters) / len(batch)
    scan = NumpyScan(index)
    some = Batch.of([batch.event(i) for i in range(5 if quick else 50)])
    theirs = per_item(lambda: scan.match(some), len(some), 1 if quick else 3)
    return Measurement(name, f"{size}, {matches:.0f} matches", ours, SCAN, theirs, **bars)  # type: ignore[arg-type]


def match(quick: bool) -> Iterator[Measurement]:
    count = 200 if quick else 20_000
    for size in (1_000, 10_000, 100_000):
        work = Workload(seed=1, width=WIDTH)
        index = FilterIndex(parsed(work.filters(size // 50 if quick else size)))
        bars = {"bar": 5.0} if size == 100_000 else {}
        yield compared("match", f"{size:,} filters", index, work.events(count), quick, **bars)
        if size == 100_000:
            events = list(map(dict, work.events(20 if quick else 2000).events()))
            ours = per_item(lambda: [index.match(event) for event in events], len(events), 3)  # noqa: B023
            whole = match_time(index, work.events(count), quick)
            yield Measurement("match", f"{size:,} filters, one event", ours, "in a batch", whole, bar=50)
    open_work = Workload(seed=1, width=WIDTH, symbol=0.1)
    index = FilterIndex(parsed(open_work.filters(2000 if quick else 100_000)))
    yield compared("match", "100,000, 9 in 10 without symbol", index, open_work.events(count), quick, bar=5)
    if QUOTES.exists():
        stocks = Stocks(width=0.01, most=1000 if quick else None)
        index = FilterIndex(parsed(stocks.filters(2000 if quick else 100_000)))
        yield compared("match", "100,000 on stock quotes", index, stocks.events(count), quick, bar=5)
    work, _, index, _ = million(quick)
    yield compared("match", "1,000,000 filters", index, work.events(count), quick, bar_ratio=100)


def size(quick: bool) -> Iterator[Measurement]:
    _, filters, index, seconds = million(quick)
    name = f"{len(filters):,} filters"
    yield Measurement("size", f"{name}, built", seconds, bar=30, unit="s")
    yield Measurement("size", f"{name}, bytes", index.statistics().bytes / 1e6, bar=1000, unit="MB")
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "million.index")
        seconds = per_item(lambda: freeze(index, path), 1, 1) / 1e6
        yield Measurement("size", f"{name}, frozen", seconds, unit="s")
        opened = per_item(lambda: FrozenIndex(path), 1, 3) / 1e6
        yield Measurement("size", f"{name}, mapped", opened, bar=0.1, unit="s")


def change(quick: bool) -> Iterator[Measurement]:
    """Replaces a tenth of a million filters, one by one, by others of the same kind, then by others elsewhere."""
    work, filters, index, _ = million(quick)
    dice = np.random.default_rng(5)
    batch = work.events(200 if quick else 10_000)
    name = f"{len(filters):,} filters"
    for kind, shift in (("same values", 0.0), ("shifted values", 0.37)):
        others = parsed(Workload(seed=6, width=WIDTH, shift=shift).filters(len(filters) // 10))
        index.remove(index.add(others[0]))  # so that no kernel is loaded while the clock runs
        gone = dice.permutation(len(filters))[: len(others)].tolist()
        times = {"remove": each(index.remove, gone), "add": each(index.add, others)}
        for what, taken in times.items():
            yield Measurement("change", f"{name}, {what}, {kind}", float(taken.mean()), bar=50)
            yield Measurement("change", f"{name}, {what}, {kind}, slowest", float(taken.max()) / 1000, bar=5, unit="ms")
        for number, other in zip(reversed(gone), others, strict=True):  # numbers are given out again, the last first
            filters[number] = other
        again = match_time(FilterIndex(filters), batch, quick)
        ours = match_time(index, batch, quick)
        yield Measurement("change", f"{name}, match after {kind}", ours, "fresh index", again, bar_ratio=1 / 1.5)


def each(work: Callable[[Any], object], items: Iterable[object]) -> NDArray[np.float64]:
    times = []
    for item in items:
        start = time.perf_counter()
        work(item)
        times.append(time.perf_counter() - start)
    return np.array(times) * 1e6


def covering(quick: bool) -> Iterator[Measurement]:
    for count in (1_000, 10_000, 100_000, MILLION):
        yield from covering_among(count // 500 if quick else count, 20 if quick else 500, count)


def covering_among(count: int, queries: int, size: int) -> Iterator[Measurement]:
    work = Workload(seed=8, width=0.1)
    index = CoveringIndex(parsed(work.conjunction() for _ in range(count)))
    asked = parsed(work.conjunction() for _ in range(queries))
    asked += [index.filters[i] for i in np.random.default_rng(7).integers(count, size=queries).tolist()]
    some, others = asked[:2], list(index.filters.values())
    theirs = per_item(lambda: [other.covers(one) for one in some for other in others], len(some), 1)
    for what, ask in (("covering", index.covering), ("covered", index.covered)):
        ours = per_item(partial(list, map(ask, asked)), len(asked), 1)
        bar = 150.0 if size == MILLION else None
        yield Measurement("covering", f"{size:,} boxes, {what}", ours, "asking all", theirs, bar=bar)
