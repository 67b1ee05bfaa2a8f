"""What a configuration of groups and trees really costs on some rows: see ``kernels.coalesced``."""

import numpy as np
from scipy.sparse import csr_array

from overstory.kernels.coalesced import Rows, Trees, UnitRows, Units, best_moves, coalesced_costs
from overstory.kernels.nothing import NONE
from overstory.model.network import Ints, Network
from overstory.planners.trees.demand import Demand
from overstory.planners.trees.demand import Rows as Sampled
from overstory.planners.trees.spanning import priced

ROUNDS = 3  # of moves
CANDIDATES = 16  # filters most alike, whose groups one may move to
TOGETHER = np.uint64(1)  # where all ways begin if frames coalesce


class Objective:
    """Of the filters of a demand, on one part of its rows, with frames that coalesce or with one copy per flow."""

    def __init__(self, demand: Demand, rows: Sampled, coalesce: bool) -> None:
        self.network: Network = demand.network
        self.coalesce = coalesce
        filters = int(demand.item_predicate.max(initial=-1)) + 1
        self.units = Units(np.searchsorted(demand.item_predicate, np.arange(filters + 1)), demand.item_broker)
        row = np.repeat(np.arange(len(rows.roots)), np.diff(rows.offsets))
        keys = np.unique(row * max(filters, 1) + demand.item_predicate[rows.items])
        offsets = np.searchsorted(keys // max(filters, 1), np.arange(len(rows.roots) + 1))
        weights = rows.bytes.astype(np.float64)
        self.rows = Rows(rows.roots, offsets, keys % max(filters, 1), weights)
        shape = len(rows.roots), filters
        self.matches = csr_array((np.repeat(weights, np.diff(offsets)), self.rows.units, offsets), shape=shape)
        self.weights = np.asarray(self.matches.sum(axis=0)).reshape(-1)

    def trees(self, parents: Ints) -> Trees:
        found = [priced(self.network, parent) for parent in parents]
        begin = np.arange(1, len(found) + 1, dtype=np.uint64)
        if self.coalesce:
            begin[:] = TOGETHER
        return Trees(parents, np.stack([tree.down for tree in found]), np.stack([tree.up for tree in found]), begin)

    def cost(self, groups: Ints, parents: Ints) -> float:
        costs = np.empty(len(self.rows.roots))
        coalesced_costs(self.trees(parents), self.rows, self.units, groups, costs)
        return float((costs * self.rows.weights).sum())

    def moved(self, groups: Ints, parents: Ints) -> Ints:
        """Each filter in the group where its events cost least, of those that filters with common events are in."""
        groups, trees = groups.copy(), self.trees(parents)
        costs = np.empty(len(self.rows.roots))
        coalesced_costs(trees, self.rows, self.units, groups, costs)
        of_unit = self.matches.tocsc()
        rows_of = UnitRows(of_unit.indptr.astype(np.int64), of_unit.indices.astype(np.int64))
        candidates = self._candidates(groups, len(parents) - 1)
        best_moves(trees, self.rows, self.units, groups, rows_of, candidates, costs, ROUNDS)
        return groups

    def _candidates(self, groups: Ints, common: int) -> Ints:
        """By filter: the groups of those that have most in common with it, each once, and the common tree."""
        shared = csr_array((self.matches > 0).T @ self.matches)
        row = np.repeat(np.arange(shared.shape[0]), np.diff(shared.indptr))
        order = np.lexsort((shared.indices, -shared.data, row))
        rank = np.arange(len(row)) - shared.indptr[row]
        chosen = rank <= CANDIDATES  # each filter has most in common with itself
        found = np.full((len(groups), CANDIDATES + 2), NONE)
        found[row[chosen], rank[chosen]] = groups[shared.indices[order][chosen]]
        found[:, -1] = common
        found = -np.sort(-found, axis=1)
        found[:, 1:][found[:, 1:] == found[:, :-1]] = NONE
        return found
