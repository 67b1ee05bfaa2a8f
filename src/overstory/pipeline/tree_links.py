"""The links of a plan's trees, by flow: millions of rows, so they stay in columns."""

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.kernels.shapes import tree_faults
from overstory.model.network import Ints, Network


class TreeLinks:
    def __init__(self, trees: pa.Table) -> None:
        self.flow, self.source, self.target = (trees[name].to_numpy() for name in ("flow", "source", "target"))
        self.order = np.argsort(self.flow, kind="stable")
        self.flows, starts = np.unique(self.flow[self.order], return_index=True)
        self.starts = np.append(starts, len(self.flow))

    def __contains__(self, flow: int) -> bool:
        return len(self._rows(flow)) > 0

    def _rows(self, flow: int) -> Ints:
        at = int(np.searchsorted(self.flows, flow))
        if at == len(self.flows) or self.flows[at] != flow:
            return self.order[:0]
        return self.order[self.starts[at] : self.starts[at + 1]]

    def of(self, flow: int) -> list[tuple[int, int, int]]:
        """Rows with both ends."""
        rows = self._rows(flow)
        return list(zip(rows.tolist(), self.source[rows].tolist(), self.target[rows].tolist(), strict=True))

    def ends_of(self, row: int) -> str:
        return f"{self.source[row]} and {self.target[row]}"

    def have(self, flow: Ints, source: Ints, target: Ints) -> NDArray[np.bool_]:
        """Which of these are links of the flow's tree, in either direction."""
        if not len(flow):
            return np.zeros(0, bool)
        flows, one, other = (
            np.concatenate(pair) for pair in ((flow, self.flow), (source, self.source), (target, self.target))
        )
        numbers = _numbers(flows, np.minimum(one, other), np.maximum(one, other))
        return np.isin(numbers[: len(flow)], numbers[len(flow) :])

    def strangers(self, network: Network) -> Ints:
        """Rows that are no link of the network, or one that leads only one way."""
        one, other = network.positions(self.source), network.positions(self.target)
        return np.flatnonzero((network.link_between(one, other) < 0) | (network.link_between(other, one) < 0))

    def faults(self, network: Network, flows: Ints, wanted_offsets: Ints, wanted: Ints) -> Ints:
        """Of each of these flows, what is wrong with its tree: see ``kernels.shapes``. ``wanted`` are brokers."""
        rows = [self._rows(flow) for flow in flows.tolist()]
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows], dtype=np.int64)])
        chosen = np.concatenate([np.empty(0, np.int64), *rows])
        one, other = (network.positions(ends[chosen]) for ends in (self.source, self.target))
        found = np.empty(len(flows), np.int64)
        tree_faults(offsets, one, other, wanted_offsets, wanted, len(network), found)
        return found


def repeated_rows(*columns: Ints) -> Ints:
    """Rows that have been given above."""
    first = np.unique(_numbers(*columns), return_index=True)[1]
    return np.setdiff1d(np.arange(len(columns[0])), first)


def _numbers(*columns: Ints) -> Ints:
    """Equal rows, and only these, get the same number."""
    found = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        values, which = np.unique(column, return_inverse=True)
        found = np.unique(found * max(len(values), 1) + which, return_inverse=True)[1]
    return found
