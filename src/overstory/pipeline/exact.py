"""Sums of counts times prices, exact until they are printed.

1. A float is a whole number times a power of two, so a count times a price is a fraction, and so is any sum of them.
   Nothing is rounded before the end, nothing depends on the order, and nothing can wrap.
2. A cost is rounded to the nearest float, a lower bound down. A float that is not above an exact bound is not above
   the exact cost, and rounding to the nearest never passes a float: so a bound as printed is never above the cost as
   printed.
"""

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from overstory.errors import DataError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
LIMB = 21  # bits: three limbs hold what is at least 0 and below 2 ** 63
BLOCK = 1 << 20  # products of two limbs have 42 bits, so that so many of them add up to less than 2 ** 63
MANTISSA = 53  # bits


def dot(one: Ints, other: Ints) -> int:
    """The sum of products of numbers that are at least 0, as an integer of any size."""
    total = 0
    for start in range(0, len(one), BLOCK):
        ours, theirs = (_limbs(values[start : start + BLOCK]) for values in (one, other))
        for place, limb in ours.items():
            for another, factor in theirs.items():
                total += int(np.dot(limb, factor)) << (place + another)
    return total


def _limbs(values: Ints) -> dict[int, Ints]:
    """By the number of bits below them; those that are 0 throughout are left out."""
    limbs = {place: (values >> place) & ((1 << LIMB) - 1) for place in range(0, 63, LIMB)}
    return {place: limb for place, limb in limbs.items() if limb.any()}


def priced(counts: Ints, prices: Floats) -> Fraction:
    """The sum of counts times prices, both at least 0."""
    if not np.isfinite(prices).all():
        raise DataError("a price is beyond what can be counted with; state prices in a larger unit of money")
    mantissas, exponents = np.frexp(prices)
    whole = np.ldexp(mantissas, MANTISSA).astype(np.int64)
    total = Fraction(0)
    for exponent in np.unique(exponents).tolist():
        here = exponents == exponent
        total += dot(counts[here], whole[here]) * Fraction(2) ** (exponent - MANTISSA)
    return total


def rounded(value: Fraction) -> float:
    """The float that is nearest to an exact value. Raises a ``DataError`` if the value is larger than all of them."""
    try:
        return float(value)
    except OverflowError:
        raise DataError("the cost is more than a number can hold; state prices in a larger unit of money") from None


def rounded_down(value: Fraction) -> float:
    """The largest float that is not above the value."""
    near = rounded(value)
    return near if Fraction(near) <= value else math.nextafter(near, -math.inf)
