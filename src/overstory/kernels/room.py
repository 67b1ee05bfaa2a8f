"""Room in the tables: a change is refused before it begins where it might not fit.

A kernel cannot make a table longer. So it first says what it may need, and whoever called it sees to that and calls it
again.
"""

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.store import Store
from overstory.kernels.tree import MOST_REBUILT

# Rows that each table may need for each thing that is added (a text, an attribute, a filter, a word of a record), and
# for one change of the tree.
GROWING = ("nodes", "boxes", "links", "places", "tokens", "attributes", "filters", "words")
EACH = np.array([4, 1, 1, 1, 1, 1, 1, 64])
CHANGE = np.array([8, 0, 0, 8, 0, 0, 0, 512]) * MOST_REBUILT


@kernel
def rows_needed(counts: Array, size: int) -> Array:
    return counts[: len(EACH)] + EACH * size + CHANGE


@kernel
def has_room(store: Store, size: int) -> bool:
    rows = (
        len(store.nodes),
        len(store.boxes),
        len(store.links),
        len(store.places),
        len(store.tokens),
        len(store.attributes),
        len(store.filters),
        len(store.words),
    )
    for table in range(len(EACH)):
        if store.counts[table] + EACH[table] * size + CHANGE[table] > rows[table]:
            return False
    return True
