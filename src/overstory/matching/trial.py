"""A trial of the index on somebody's own filters and events: how fast, how large, and is it right?"""

import random
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from overstory.filters.filter import Filter
from overstory.matching.batch import Batch
from overstory.matching.index import FilterIndex
from overstory.matching.matcher import Statistics
from overstory.matching.reference import ReferenceIndex
from overstory.model.values import Attributes

MOST_CHECKS = 2_000_000  # evaluations of one filter on one event: a second or two
MOST_SINGLE = 1000  # events matched one by one
ROUNDS = 3
WARM_UP = 100  # events matched before the clock starts, so that kernels are loaded

Result = TypeVar("Result")


class Trial(msgspec.Struct, frozen=True):
    events: int
    matches: int
    build_microseconds: float  # per filter
    batch_microseconds: float  # per event, all in one batch, its columns made already
    single_microseconds: float  # per event, one by one
    reference_microseconds: float  # per event, asking every filter
    checked_events: int  # a sample on which both were compared
    wrong_events: int  # of these
    index: Statistics

    @property
    def times_faster(self) -> float:
        return self.reference_microseconds / self.batch_microseconds


def run_trial(filters: Sequence[Filter], events: Sequence[Attributes]) -> Trial:
    FilterIndex(filters[:WARM_UP]).match_batch(Batch.of(events[:WARM_UP]))
    FilterIndex(filters[:1]).match(events[0])
    index, build = _timed(lambda: FilterIndex(filters))
    batch = Batch.of(events)
    timed = [_timed(lambda: index.match_batch(batch)) for _ in range(ROUNDS)]
    matches, in_batch = timed[0][0], min(seconds for _, seconds in timed)
    single = events[:MOST_SINGLE]
    _, one_by_one = _timed(lambda: [index.match(event) for event in single])
    sample = random.Random(0).sample(range(len(events)), min(len(events), max(1, MOST_CHECKS // len(filters))))
    reference = ReferenceIndex(filters)
    expected, asking_all = _timed(lambda: [reference.match(events[i]) for i in sample])
    wrong = sum(matches.of(i).tolist() != found.tolist() for i, found in zip(sample, expected, strict=True))
    return Trial(
        events=len(events),
        matches=len(matches.filters),
        build_microseconds=build / len(filters) * 1e6,
        batch_microseconds=in_batch / len(events) * 1e6,
        single_microseconds=one_by_one / len(single) * 1e6,
        reference_microseconds=asking_all / len(sample) * 1e6,
        checked_events=len(sample),
        wrong_events=wrong,
        index=index.statistics(),
    )


def _timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start
