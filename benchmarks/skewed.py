"""A log and filters with popular and unpopular things, made in columns.

Events are readings of things, as many as there are events. A thing always reads the same: its symbol, venue, price,
volume and publisher follow from its number. The thing of rank i is drawn as often as i to the power of minus the Zipf
exponent says: with 0 hardly two events are alike, with 1.5 more than a third of them are. A filter takes its symbol
from a thing that is drawn in the same way, so that the symbol which most events have is the one that most filters ask
for; its ranges lie anywhere, else a popular thing would be wanted by a third of all filters. One more filter wants
everything.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from overstory.model.plan import EVERYTHING

Ints = NDArray[np.int64]
SYMBOLS = 128
VENUES = pa.array([f"{region}/{city}" for region in ("eu", "us", "ap", "af") for city in range(10)])
REGIONS = pa.array(["eu/%", "us/%", "ap/%", "af/%"])
PUBLISHERS = 1_000
LEVELS = 1_000_000  # of prices and volumes
# Shares of all levels that a range takes: two narrow ones let as much through as two wide ones and a region.
NARROW, WIDE = 0.02, 0.04
CHUNK = 1 << 20  # events that are made at once


class Zipf:
    def __init__(self, things: int, exponent: float, seed: int) -> None:
        self.odds = np.cumsum(np.arange(1, things + 1, dtype=np.float64) ** -exponent)
        self.dice = np.random.default_rng(seed)

    def draw(self, count: int) -> Ints:
        drawn: Ints = np.searchsorted(self.odds, self.dice.random(count) * self.odds[-1])
        return drawn


def scattered(things: Ints, salt: int, size: int) -> Ints:
    """A number below ``size`` for each thing, always the same."""
    bits = (things.astype(np.uint64) + np.uint64(salt << 40)) * np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9)
    found: Ints = ((bits >> np.uint64(32)) * np.uint64(size) >> np.uint64(32)).astype(np.int64)
    return found


def symbol(things: Ints) -> pa.Array:
    return pc.binary_join_element_wise("S", pa.array(things % SYMBOLS).cast(pa.string()), "")


def write_events(path: Path, count: int, exponent: float) -> None:
    zipf = Zipf(count, exponent, seed=1)
    writer = None
    for start in range(0, count, CHUNK):
        ids = np.arange(start, min(start + CHUNK, count))
        things = zipf.draw(len(ids))
        columns = {
            "$id": ids,
            "$time": ids / 1000,
            "$publisher": things % PUBLISHERS,
            "$bytes": 100 + scattered(things, 1, 900),
            "symbol": symbol(things),
            "venue": VENUES.take(pa.array(scattered(things, 2, len(VENUES)))),
            "price": scattered(things, 3, LEVELS),
            "volume": scattered(things, 4, LEVELS),
        }
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=CHUNK // 8)
    if writer is not None:
        writer.close()


def write_filters(path: Path, count: int, things: int, exponent: float) -> None:
    """Three kinds, as many of each: one symbol and two ranges; with a region, and wider ranges; with a second symbol,
    which is any."""
    zipf = Zipf(things, exponent, seed=2)
    third = -(-count // 3)
    plain, regional, either = (zipf.draw(third) for _ in range(3))
    dice = zipf.dice
    texts = [
        _joined("symbol = '", symbol(plain), "'", *_ranges(dice, third, NARROW)),
        _joined(
            "symbol = '",
            symbol(regional),
            "' AND venue LIKE '",
            REGIONS.take(pa.array(dice.integers(len(REGIONS), size=third))),
            "'",
            *_ranges(dice, third, WIDE),
        ),
        _joined(
            "symbol IN ('",
            symbol(either),
            "', '",
            symbol(dice.integers(SYMBOLS, size=third)),
            "')",
            *_ranges(dice, third, NARROW),
        ),
    ]
    wanted = pa.concat_arrays([*texts, pa.array([EVERYTHING])])
    pq.write_table(pa.table({"filter": wanted.slice(len(wanted) - count - 1)}), path)


def _ranges(dice: np.random.Generator, count: int, width: float) -> list[pa.Array | str]:
    parts: list[pa.Array | str] = []
    for name in ("price", "volume"):
        lows = dice.integers(int(LEVELS * (1 - width)), size=count)
        ends = (pa.array(levels).cast(pa.string()) for levels in (lows, lows + int(LEVELS * width)))
        parts += [f" AND {name} BETWEEN ", next(ends), " AND ", next(ends)]
    return parts


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")
