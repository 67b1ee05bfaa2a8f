"""Things that are alike, in few cells: the cell that is spread most is cut in two, over and over.

Cells are cut across the dimension in which they are spread most, at its mean (Wan, Wong and Prusinkiewicz 1988). So it
takes time in proportion to things and dimensions, times the depth of cuts. Spreads are summed row by row, never by a
product of matrices: which of two equal ones is more would depend on the processor and on how many threads there are.
Means may be products, as sums of whole numbers are exact.
"""

from typing import NamedTuple

import numpy as np

from overstory.model.network import Floats, Ints


class _Cell(NamedTuple):
    spread: float
    members: Ints
    upper: Ints  # of the members, the numbers of those beyond the cut


def cells_of(features: Floats, weights: Floats, count: int) -> Ints:
    """The number of each row's cell, of which there are at most ``count``. Rows that are equal share a cell."""
    cells = [_cell(features, weights, np.arange(len(features)))]
    while len(cells) < count:
        widest = max(range(len(cells)), key=lambda at: cells[at].spread)
        if not cells[widest].spread:
            break
        members, beyond = cells[widest].members, cells[widest].upper
        upper = np.zeros(len(members), bool)
        upper[beyond] = True
        cells[widest] = _cell(features, weights, members[~upper])
        cells.append(_cell(features, weights, members[upper]))
    found = np.empty(len(features), np.int64)
    for number, cell in enumerate(cells):
        found[cell.members] = number
    return found


def _cell(features: Floats, weights: Floats, members: Ints) -> _Cell:
    mine, weight = features[members], weights[members]
    means = weight @ mine / max(weight.sum(), 1e-300)
    apart = (mine - means) ** 2
    apart *= weight[:, None]
    spreads = apart.sum(axis=0)
    axis = int(np.argmax(spreads)) if len(members) else 0
    upper = np.flatnonzero(mine[:, axis] > means[axis])
    if not 0 < len(upper) < len(members):
        return _Cell(0.0, members, upper)
    return _Cell(float(spreads[axis]), members, upper)
