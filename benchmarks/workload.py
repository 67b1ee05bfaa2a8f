"""Filters and events to measure an index with: eight attributes of all kinds, as a market feed might have.

Four prices and counts, of which ``volume`` is very skewed; a symbol, a venue named by a path, a number of the desk, and
a list of tags. A filter asks for ranges, texts, sets, prefixes and any of some tags; some are unions of two, one in
twenty has a condition that is not box-shaped. ``width`` is the share of events that a range lets through.
"""

import math
import random
from collections.abc import Iterator

import numpy as np

from overstory.matching.batch import Batch, Lists, Numbers, Texts

SYMBOLS = [f"S{number:03}" for number in range(500)]
VENUES = [f"{region}/{city}/{desk}" for region in ("eu", "us", "ap", "af") for city in range(10) for desk in range(5)]
TAGS = [f"tag{number}" for number in range(200)]
RANGES = ("price", "high", "low", "volume", "desk")


def level(name: str, share: float) -> float:
    """The value below which this share of the events lies."""
    if name == "volume":
        return round(math.exp(8 + 2.5 * math.log(max(share, 1e-9) / max(1 - share, 1e-9))), 1)
    return round(share * 1000, 3)


class Workload:
    def __init__(self, seed: int = 1, width: float = 0.2, symbol: float = 0.5, shift: float = 0.0) -> None:
        self.dice = random.Random(seed)
        self.width, self.symbol = width, symbol
        self.shift = shift  # of where ranges begin, in shares: 0.5 moves the filters by half of the events

    def filters(self, count: int) -> Iterator[str]:
        for _ in range(count):
            text = self.conjunction()
            yield f"({text}) OR ({self.conjunction()})" if self.dice.random() < 0.1 else text

    def conjunction(self) -> str:
        dice = self.dice
        terms = [self.range(name) for name in dice.sample(RANGES, dice.choice((3, 4, 4, 5)))]
        if dice.random() < self.symbol:
            symbols = dice.sample(SYMBOLS, dice.choice((1, 1, 1, 2, 4)))
            terms.append(f"symbol IN ({', '.join(map(repr, symbols))})")
        kind = dice.random()
        if kind < 0.3:
            terms.append(f"venue LIKE '{dice.choice(VENUES)[: dice.choice((3, 5))]}%'")
        elif kind < 0.5:
            terms.append(f"tags HAS ANY ({', '.join(map(repr, dice.sample(TAGS, dice.choice((1, 2, 4)))))})")
        elif kind < 0.6:
            terms.append(f"venue <> '{dice.choice(VENUES)}'")
        if dice.random() < 0.05:
            terms.append(f"high - low > {dice.randrange(500)}")
        return " AND ".join(terms)

    def range(self, name: str) -> str:
        width = self.width * self.dice.uniform(0.5, 1.5)
        start = (self.dice.uniform(-width, 1) + self.shift) % 1
        if start < 0.02:
            return f"{name} < {level(name, width)}"
        if start + width > 0.98:
            return f"{name} >= {level(name, start)}"
        return f"{name} BETWEEN {level(name, start)} AND {level(name, start + width)}"

    def events(self, count: int) -> Batch:
        random_numbers = np.random.default_rng(self.dice.randrange(2**32))
        shares = random_numbers.random((5, count))
        columns: dict[str, object] = {
            name: Numbers(np.array([level(name, share) for share in shares[i]])) for i, name in enumerate(RANGES)
        }
        columns["symbol"] = Texts.of([SYMBOLS[i] for i in random_numbers.integers(len(SYMBOLS), size=count)])
        columns["venue"] = Texts.of([VENUES[i] for i in random_numbers.integers(len(VENUES), size=count)])
        tags = random_numbers.integers(len(TAGS), size=3 * count)
        columns["tags"] = Lists(np.arange(count + 1, dtype=np.int64) * 3, Texts.of([TAGS[i] for i in tags]))
        return Batch(columns)
