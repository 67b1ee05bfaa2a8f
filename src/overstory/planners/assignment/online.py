"""Assignment online: subscribers come and go one at a time, and few of those who stay are moved.

An arrival goes where it costs least, as in Gr; where all its brokers are full, one subscriber of such a broker that can
be served elsewhere for nothing makes room. A departure draws the filter tight if nobody else needs what it needed.
Every change earns one move, and every so many changes the search of ``assignment-search`` spends what was earned: its
result is taken only if it moves no more.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from overstory.kernels import ruining
from overstory.kernels.enlarging import Filters, grown_for, mark_covered
from overstory.kernels.fitting import shrunk
from overstory.kernels.greedy import State, choose, put
from overstory.kernels.nothing import NONE
from overstory.kernels.volumes import union_weight
from overstory.model.network import Ints
from overstory.planners.assignment.coreset import Groups, grouped
from overstory.planners.assignment.filters import covered_by, fitted
from overstory.planners.assignment.greedy import ground_of, nobody_ahead
from overstory.planners.assignment.outcome import bandwidth
from overstory.planners.assignment.problem import Problem
from overstory.planners.assignment.search import reach_of, state_of

EVERY = 2000  # changes after which what was earned is spent
ATTEMPTS = 8  # searches each time
BUDGET = 1 << 18  # work of each


class Statistics(NamedTuple):
    arrivals: int
    departures: int
    moves: int  # of subscribers who stay
    most_moves: int  # for one change, without those that were saved up for
    overloaded: int  # arrivals for which there was no room


class Online:
    """``problem`` has everyone who may ever come; ``leaf`` is that of each who is there, -1 of all others. Fair loads
    are those of the problem."""

    def __init__(self, problem: Problem, leaf: Ints, filters: Filters) -> None:
        self.problem, self.ground = problem, ground_of(problem, problem.factor)
        self.reach, self.grown, self.nobody = reach_of(problem), grown_for(problem.boxes), nobody_ahead(self.ground)
        self.state = self._state(leaf, filters)
        leaves, rectangles = len(problem.fair), len(problem.space.rectangles)
        here = np.flatnonzero(leaf >= 0)
        self.wanted = np.zeros((leaves, rectangles), np.int32)
        np.add.at(self.wanted, (leaf[here], problem.rectangle[here]), 1)
        self.earned, self.changes, self.seed = 0, 0, 0
        self.statistics = Statistics(0, 0, 0, 0, 0)
        self.moves_by_change: list[int] = []  # with those that were saved up for, at the change that spent them

    def _state(self, leaf: Ints, filters: Filters) -> State:
        load = np.bincount(leaf[leaf >= 0], minlength=len(self.problem.fair)).astype(np.int64)
        kept = Filters(filters.boxes.copy(), filters.counts.copy(), filters.weights.copy())
        return State(kept, covered_by(self.problem, filters), load, leaf.copy())

    @property
    def cost(self) -> float:
        return bandwidth(self.problem, self.state.filters)

    def arrive(self, one: int) -> int:
        """Returns how many others were moved."""
        moves, rectangle, which = 0, int(self.problem.rectangle[one]), int(self.problem.which[one])
        leaf = self._chosen(rectangle, which, True)
        if leaf == NONE and self._make_room(which):
            moves, leaf = 1, self._chosen(rectangle, which, True)
        full = leaf == NONE
        if full:
            leaf = self._chosen(rectangle, which, False)
        self._put(one, leaf)
        known = self.statistics
        self.statistics = known._replace(
            arrivals=known.arrivals + 1,
            moves=known.moves + moves,
            most_moves=max(known.most_moves, moves),
            overloaded=known.overloaded + full,
        )
        self._changed(moves)
        return moves

    def depart(self, one: int) -> None:
        self._take(one)
        self.statistics = self.statistics._replace(departures=self.statistics.departures + 1)
        self._changed(0)

    def _chosen(self, rectangle: int, which: int, capped: bool) -> int:
        words = self.ground.words[which]
        return int(choose(self.ground, self.state, rectangle, words, capped, self.grown, self.nobody, which))

    def _put(self, one: int, leaf: int) -> None:
        rectangle = int(self.problem.rectangle[one])
        put(self.ground, self.state, one, rectangle, leaf, self.grown)
        self.wanted[leaf, rectangle] += 1

    def _take(self, one: int) -> None:
        leaf, rectangle = int(self.state.leaf[one]), int(self.problem.rectangle[one])
        self.state.leaf[one] = NONE
        self.state.load[leaf] -= 1
        self.wanted[leaf, rectangle] -= 1
        if self.wanted[leaf, rectangle] == 0 and self._at_an_edge(leaf, rectangle):
            self._draw_tight(leaf)

    def _at_an_edge(self, leaf: int, rectangle: int) -> bool:
        boxes = self.state.filters.boxes[leaf, : self.state.filters.counts[leaf]]
        return bool((boxes == self.problem.space.rectangles[rectangle]).any())

    def _draw_tight(self, leaf: int) -> None:
        """A leaf's filter around what its subscribers want; one level alone, as those above are fitted now and then."""
        filters = self.state.filters
        mine = self.problem.space.rectangles[np.flatnonzero(self.wanted[leaf])]
        boxes = shrunk(mine, filters.boxes[leaf], int(filters.counts[leaf])) if len(mine) else mine[:0]
        filters.boxes[leaf, : len(boxes)], filters.counts[leaf] = boxes, len(boxes)
        filters.weights[leaf] = union_weight(self.problem.space.sums, boxes, len(boxes))
        mark_covered(self.problem.space.rectangles, filters, leaf, self.state.covered)

    def _make_room(self, which: int) -> bool:
        """Moves one subscriber from a full leaf of a class to one that has room and serves it for nothing."""
        problem, state = self.problem, self.state
        free = np.flatnonzero(state.load < self.ground.capacity)
        bits = np.zeros(problem.words.shape[1], np.uint64)
        for leaf in free.tolist():
            bits[leaf // 64] |= np.uint64(1) << np.uint64(leaf % 64)
        for leaf in np.flatnonzero(problem.mask[which]).tolist():
            there = np.flatnonzero(state.leaf == leaf)
            could = problem.words[problem.which[there]] & state.covered[problem.rectangle[there]] & bits
            able = there[could.max(axis=1) > 0]
            if len(able):
                one = int(able[0])
                self._take(one)
                self._put(one, self._chosen(int(problem.rectangle[one]), int(problem.which[one]), True))
                return True
        return False

    def moves_percentile(self, share: float) -> float:
        """The moves of a change that such a share of all changes do not exceed."""
        return float(np.quantile(self.moves_by_change, share)) if self.moves_by_change else 0.0

    def _changed(self, moves: int) -> None:
        self.earned += 1 - moves
        self.changes += 1
        self.moves_by_change.append(moves)
        if self.changes % EVERY == 0:
            self.moves_by_change[-1] += self._spend()

    def _spend(self) -> int:
        """The search, as long as its moves have been earned. Returns how many it made."""
        here = np.flatnonzero(self.state.leaf >= 0)
        part = replace(
            self.problem,
            clients=self.problem.clients[here],
            rectangle=self.problem.rectangle[here],
            which=self.problem.which[here],
        )
        leaf = self.state.leaf[here]
        filters = fitted(part, leaf, self.state.filters)
        earned = self.earned
        for _ in range(ATTEMPTS):
            self.seed += 1
            groups: Groups = grouped(part, leaf)
            state = state_of(part, groups.items, groups.leaf, filters)
            roomy = self.ground._replace(capacity=np.maximum(self.ground.capacity, state.load))
            ruining.improve(roomy, self.reach, groups.items, state, self.grown, BUDGET, 0.0, self.seed)
            after = state.leaf[groups.of_subscriber]
            moved = int((after != leaf).sum())
            if moved <= self.earned:
                self.earned -= moved
                self.statistics = self.statistics._replace(moves=self.statistics.moves + moved)
                leaf, filters = after, fitted(part, after, state.filters)
        whole = self.state.leaf.copy()
        whole[here] = leaf
        self.state = self._state(whole, filters)
        self.wanted[:] = 0
        np.add.at(self.wanted, (leaf, part.rectangle), 1)
        return earned - self.earned
