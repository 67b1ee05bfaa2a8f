"""What it would cost to let rectangles into the filters of leaves, for all pairs of the two that matter."""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.enlarging import Filters, Grown, path_cost


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
