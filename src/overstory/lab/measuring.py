"""From rows to what is said of them: one number for each seed, means with intervals, and lines to plot."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from overstory.lab.experiment import BySeed, Line, Row
from overstory.model.plan import Value

CONFIDENCE = 0.95


class Estimate(NamedTuple):
    mean: float
    spread: float | None  # half the width of its confidence interval; None if there is one seed
    seeds: int

    @property
    def low(self) -> float:
        return self.mean - (self.spread or 0.0)

    @property
    def high(self) -> float:
        return self.mean + (self.spread or 0.0)


def estimate(values: Sequence[float]) -> Estimate | None:
    """The mean of some values and its confidence interval, by Student's distribution."""
    if not values:
        return None
    mean, count = float(np.mean(values)), len(values)
    if count == 1:
        return Estimate(mean, None, 1)
    error = float(np.std(values, ddof=1)) / count**0.5
    return Estimate(mean, float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * error, count)


def where(rows: Sequence[Row], **wanted: Value) -> list[Row]:
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def largest(rows: Sequence[Row], name: str = "brokers") -> list[Row]:
    """The rows with the highest value of a column."""
    most = max((number(row, name) for row in rows), default=0.0)
    return [row for row in rows if number(row, name) == most]


def by_seed(rows: Sequence[Row], value: str) -> BySeed:
    """A column's value for each seed: the mean, if a seed has several rows. Rows that do not know it are left out."""
    found: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        if row[value] is not None:
            found[int(number(row, "seed"))].append(number(row, value))
    return {seed: float(np.mean(values)) for seed, values in found.items()}


def quotients(rows: Sequence[Row], value: str, one: Mapping[str, Value], other: Mapping[str, Value]) -> BySeed:
    """The quotient of a column's values in two kinds of rows, seed by seed."""
    above, below = by_seed(where(rows, **one), value), by_seed(where(rows, **other), value)
    return {seed: above[seed] / below[seed] for seed in sorted(above.keys() & below.keys()) if below[seed]}


def savings(quotient: BySeed) -> BySeed:
    """How much less than the whole each quotient is, in percent."""
    return {seed: 100 * (1 - value) for seed, value in quotient.items()}


def excess(quotient: BySeed) -> BySeed:
    """How much more than the whole each quotient is, in percent."""
    return {seed: 100 * (value - 1) for seed, value in quotient.items()}


def lines(rows: Sequence[Row], x: str, y: str, by: str, order: Sequence[Value] | None = None) -> list[Line]:
    """A line for each value of a column, in the order given; means over seeds. What is not known is not drawn."""
    every = list(dict.fromkeys(row[by] for row in rows if by in row))
    found = []
    for label in (name for name in order or every if name in every):
        mine = [row for row in where(rows, **{by: label}) if row.get(y) is not None]
        places = sorted({number(row, x) for row in mine})
        means = [estimate([number(row, y) for row in mine if number(row, x) == place]) for place in places]
        known = [(place, mean) for place, mean in zip(places, means, strict=True) if mean is not None]
        found.append(
            Line(
                str(label),
                [place for place, _ in known],
                [mean.mean for _, mean in known],
                [mean.spread or 0.0 for _, mean in known],
            )
        )
    return found


def relative(rows: Sequence[Row], value: str, to: Mapping[str, Value], keys: Sequence[str]) -> list[Row]:
    """The same rows, with ``value`` divided by that of the row that is ``to`` and has the same keys."""
    base = {tuple(row.get(key) for key in keys): number(row, value) for row in where(rows, **to)}
    found: list[Row] = []
    for row in rows:
        whole = base.get(tuple(row.get(key) for key in keys))
        if whole:
            found.append(row | {value: number(row, value) / whole})
    return found


def number(row: Row, name: str) -> float:
    value = row[name]
    if not isinstance(value, int | float):
        raise TypeError(f"{name} is {value!r}, and no number")
    return float(value)
