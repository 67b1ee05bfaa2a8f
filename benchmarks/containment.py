"""The containment graph of PADRES subscriptions. The peers are the two indexes, made of the same filters one by one."""

import random
import time
from collections.abc import Callable, Iterator, Sequence

from benchmarks.measure import Measurement
from overstory import Filter, parse_filter
from overstory.matching.containment import ContainmentGraph
from overstory.matching.covering import CoveringIndex
from overstory.matching.index import FilterIndex

SYMBOLS = [first + second + third for first in "ABCDEFGH" for second in "AEIOU" for third in "XYZ"]
RANGES = ("open", "high", "low", "volume")
COUNT = 10_000
WARM_UP = 50


def subscriptions(count: int, seed: int = 1) -> Iterator[str]:
    """Stock subscriptions as the PADRES papers make them: a symbol or a prefix of one, and ranges; many are equal."""
    dice = random.Random(seed)
    for _ in range(count):
        triples = ["[class,eq,'STOCK']"]
        kind = dice.random()
        if kind < 0.5:
            triples.append(f"[symbol,eq,'{dice.choice(SYMBOLS)}']")
        elif kind < 0.8:
            triples.append(f"[symbol,str-prefix,'{dice.choice(SYMBOLS)[: dice.choice((1, 2))]}']")
        for name in dice.sample(RANGES, dice.choice((0, 1, 1, 2))):
            triples.append(f"[{name},{dice.choice(('<', '>', '<=', '>='))},{5 * dice.randrange(20)}]")
        yield ",".join(triples)


def graph(quick: bool) -> Iterator[Measurement]:
    filters = [parse_filter(text, "padres") for text in subscriptions(COUNT // 50 if quick else COUNT)]
    ours = seconds(ContainmentGraph, filters)
    for peer, add_to in (("filter index", FilterIndex), ("covering index", CoveringIndex)):
        theirs = seconds(lambda some, make=add_to: _one_by_one(make(), some), filters)  # type: ignore[misc]
        yield Measurement("containment", f"{COUNT:,} PADRES, built", ours, peer, theirs, bar=5, unit="s")


def seconds(make: Callable[[Sequence[Filter]], object], filters: Sequence[Filter]) -> float:
    make(filters[:WARM_UP])  # so that no kernel is loaded while the clock runs
    start = time.process_time()
    make(filters)
    return time.process_time() - start


def _one_by_one(index: FilterIndex | CoveringIndex, filters: Sequence[Filter]) -> None:
    for wanted in filters:
        index.add(wanted)
