"""What it would cost to let rectangles into the filters of leaves, and how many subscribers that would free."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.enlarging import Filters, Grown, path_cost
from overstory.kernels.nothing import NONE


@kernel
def enlargement_costs(
    sums: Array, prices: Array, parent: Array, filters: Filters, rectangles: Array, useful: Array, grown: Grown
) -> Array:
    """By rectangle and leaf: the cost on the way up from the leaf; infinite where it is of no use."""
    found = np.full(useful.shape, np.inf)
    for rectangle in range(useful.shape[0]):
        for leaf in range(useful.shape[1]):
            if useful[rectangle, leaf]:
                box = rectangles[rectangle]
                found[rectangle, leaf] = path_cost(sums, sums[:0], prices, parent, filters, leaf, box, grown, np.inf)
    return found


@kernel
def numbers_freed(rectangle: Array, which: Array, size: Array, stuck: Array, useful: Array, rectangles: int) -> Array:
    """By rectangle and leaf: how many of the stuck subscribers could go there if its filter let the rectangle in.
    ``useful`` is by class and leaf."""
    leaves = useful.shape[1]
    found = np.zeros((rectangles, leaves), np.int64)
    for pair in range(len(rectangle)):
        if stuck[pair]:
            for leaf in range(leaves):
                if useful[which[pair], leaf]:
                    found[rectangle[pair], leaf] += size[pair]
    return found


@kernel
def cheapest_by_leaf(
    sums: Array, coarse: Array, prices: Array, parent: Array, filters: Filters, rectangles: Array, freed: Array,
    grown: Grown,
) -> tuple[Array, Array]:  # fmt: skip
    """By leaf: the rectangle whose enlargement there costs least for each subscriber that it frees, NONE if none does,
    and that cost. ``freed`` is by rectangle and leaf."""
    count, leaves = freed.shape
    found, least = np.full(leaves, NONE), np.full(leaves, np.inf)
    for leaf in range(leaves):
        for rectangle in range(count):
            number = freed[rectangle, leaf]
            if number > 0:
                box, most = rectangles[rectangle], least[leaf] * number
                cost = path_cost(sums, coarse, prices, parent, filters, leaf, box, grown, most)
                if cost < most:
                    found[leaf], least[leaf] = rectangle, cost / number
    return found, least
