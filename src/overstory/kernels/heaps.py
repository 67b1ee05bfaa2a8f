"""A heap of prices and nodes in two arrays, for searches that push and pop in their innermost loops.

The least price comes first. Of equal prices, which comes first depends on nothing but what was pushed and popped."""

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel


@kernel
def longer(array: Array) -> Array:
    """A copy with twice the room."""
    larger = np.empty(2 * len(array) + 64, array.dtype)
    larger[: len(array)] = array
    return larger


@inlined
def sift_up(prices: Array, items: Array, at: int, price: float, item: int) -> None:
    """Puts an entry behind the ``at`` entries that there are; there must be room."""
    place = at
    while place:
        above = (place - 1) >> 2
        if prices[above] <= price:
            break
        prices[place], items[place] = prices[above], items[above]
        place = above
    prices[place], items[place] = price, item


@inlined
def sift_down(prices: Array, items: Array, last: int) -> None:
    """Removes the first entry; ``last`` entries are left."""
    price, item = prices[last], items[last]
    place = 0
    while 4 * place + 1 < last:
        least = 4 * place + 1
        stop = min(least + 4, last)
        for child in range(least + 1, stop):
            if prices[child] < prices[least]:
                least = child
        if prices[least] >= price:
            break
        prices[place], items[place] = prices[least], items[least]
        place = least
    prices[place], items[place] = price, item
