"""Stock quotes as events, with generated subscriptions: real values, of which ``volume`` is very skewed."""

import random
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from overstory import parse_publication
from overstory.matching.batch import Batch, Numbers, Texts

QUOTES = Path(__file__).parents[2] / "shared" / "data" / "padres_stockquotes" / "stockquotes.tar.xz"
NAMES = ("open", "high", "low", "close", "volume")


class Stocks:
    def __init__(self, width: float = 0.2, most: int | None = None) -> None:
        self.dice = random.Random(3)
        self.width = width
        quotes = []
        with tarfile.open(QUOTES) as archive:
            for member in archive:
                file = archive.extractfile(member)
                lines = file.read().decode().splitlines() if file else []
                quotes += list(map(parse_publication, lines[: most and most // 100]))
        self.dice.shuffle(quotes)
        self.quotes = quotes
        self.levels = {name: np.sort([float(str(quote[name])) for quote in quotes]) for name in NAMES}
        self.symbols = sorted({str(quote["symbol"]) for quote in quotes})

    def filters(self, count: int) -> Iterator[str]:
        dice = self.dice
        for _ in range(count):
            terms = [self.range(name) for name in dice.sample(("high", "low", "volume"), dice.choice((2, 3)))]
            kind = dice.random()
            if kind < 0.4:
                terms.append(f"symbol = '{dice.choice(self.symbols)}'")
            elif kind < 0.6:
                terms.append(f"symbol IN ({', '.join(map(repr, dice.sample(self.symbols, 3)))})")
            elif kind < 0.7:
                terms.append(f"symbol LIKE '{dice.choice(self.symbols)[:2]}%'")
            if dice.random() < 0.05:
                terms.append(f"high - low > {dice.randrange(3)}")
            yield " AND ".join(terms)

    def range(self, name: str) -> str:
        levels, width = self.levels[name], self.width * self.dice.uniform(0.5, 1.5)
        start = self.dice.uniform(0, 1 - width)
        low, high = levels[int(start * len(levels))], levels[int((start + width) * len(levels)) - 1]
        return f"{name} BETWEEN {low} AND {high}"

    def events(self, count: int) -> Batch:
        quotes = self.quotes[:count]
        columns: dict[str, object] = {name: Numbers(np.array([float(str(q[name])) for q in quotes])) for name in NAMES}
        return Batch(columns | {name: Texts.of([str(q[name]) for q in quotes]) for name in ("symbol", "date")})
