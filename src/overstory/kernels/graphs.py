"""A network as arrays: the links that leave each node, and what each costs."""

from typing import NamedTuple

import numpy as np

from overstory.errors import DataError
from overstory.kernels.compiling import Array


class Graph(NamedTuple):
    """The links that leave node v stand between offsets v and v + 1."""

    offsets: Array
    targets: Array
    prices: Array  # floats, at least 0
    mutual: bool  # every link costs what the link back costs
    even: bool  # all links cost the same


def graph_of(offsets: Array, targets: Array, prices: Array) -> Graph:
    wrong = np.flatnonzero(~((prices >= 0) & (prices < np.inf)))
    if len(wrong):
        raise DataError(f"link {wrong[0]} costs {prices[wrong[0]]}: a price is a number from 0 on")
    sources = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    there, back = np.lexsort((prices, targets, sources)), np.lexsort((prices, sources, targets))
    mutual = all(
        np.array_equal(one[there], other[back])
        for one, other in ((sources, targets), (targets, sources), (prices, prices))
    )
    even = bool(np.all(prices == prices[:1]))
    return Graph(offsets, targets, np.asarray(prices, np.float64), mutual, even)


TOTAL_BITS = 61  # of all prices together; dual ascent needs less than 62


def whole_prices(prices: Array) -> tuple[Array, int]:
    """Prices as integers, rounded down, and the logarithm of how many of their unit make 1: the unit is the power of
    two with which all prices together just have ``TOTAL_BITS``, whatever they are."""
    _, exponent = np.frexp(prices.max(initial=0.0))
    bits = TOTAL_BITS - int(exponent) - len(prices).bit_length()
    return np.floor(np.ldexp(prices, bits)).astype(np.int64), bits


LARGE = 2.0**96  # a price from which on sums could be too large for floats of 32 bits


def moderate_prices(prices: Array) -> Array:
    """Prices in another unit, a power of two, if they are too large for tables of distances: trees stay the same."""
    _, exponent = np.frexp(prices.max(initial=0.0))
    return prices if prices.max(initial=0.0) < LARGE else np.ldexp(prices, -int(exponent))
