"""Assignment online: subscribers come and go one at a time, and few of those who stay are moved.

An arrival goes where it costs least; a full leaf whose filter holds what it wants makes room by a chain of moves, as
long as these have been earned. A departure draws the filter tight if nobody else needs what it needed. Every change
earns one move, and every so many changes what is left of them is spent: the search of ``assignment-search`` looks for
better filters, everybody stays whose leaf still holds what he wants, and the others move if there are few enough.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from overstory.kernels import arriving, ruining
from overstory.kernels.chaining import STEPS, cover
from overstory.kernels.enlarging import Filters, grown_for
from overstory.kernels.fitting import shrunk
from overstory.kernels.greedy import State, choose
from overstory.kernels.nothing import NONE
from overstory.kernels.served import Items
from overstory.kernels.volumes import union_weight
from overstory.model.network import Ints
from overstory.planners.assignment.coreset import grouped
from overstory.planners.assignment.filters import covered_by, fitted
from overstory.planners.assignment.greedy import ground_of, nobody_ahead
from overstory.planners.assignment.outcome import bandwidth
from overstory.planners.assignment.problem import Problem
from overstory.planners.assignment.search import reach_of, state_of

EVERY = 1000  # changes after which what was earned is spent
ATTEMPTS = 8  # searches each time
BUDGET = 1 << 21  # work of each


class Statistics(NamedTuple):
    arrivals: int
    departures: int
    moves: int  # of subscribers who stay
    most_moves: int  # for one change, without those that were saved up for
    overloaded: int  # arrivals for which there was no room


class Online:
    """``problem`` has everyone who may ever come; ``leaf`` is that of each who is there, -1 of all others. Fair loads
    are those of the problem, and the load factor is that with which those are planned who are there now."""

    def __init__(self, problem: Problem, leaf: Ints, filters: Filters) -> None:
        self.problem, self.ground = problem, ground_of(problem, part_of(problem, np.flatnonzero(leaf >= 0)).factor)
        self.reach, self.grown, self.nobody = reach_of(problem), grown_for(problem.boxes), nobody_ahead(self.ground)
        self.items = Items(problem.rectangle, problem.which, np.ones(len(problem.clients), np.int64))
        self._begin(leaf, filters)
        self.earned, self.changes, self.seed = 0, 0, 0
        self.statistics = Statistics(0, 0, 0, 0, 0)
        self.moves_by_change: list[int] = []  # with those that were saved up for, at the change that spent them

    def _begin(self, leaf: Ints, filters: Filters) -> None:
        load = np.bincount(leaf[leaf >= 0], minlength=len(self.problem.fair)).astype(np.int64)
        kept = Filters(filters.boxes.copy(), filters.counts.copy(), filters.weights.copy())
        self.state = State(kept, covered_by(self.problem, filters), load, leaf.copy())
        self.chains, self.out = arriving.chains_of_few(self.ground, self.items, self.state)

    @property
    def cost(self) -> float:
        return bandwidth(self.problem, self.state.filters)

    def arrive(self, one: int) -> int:
        """Returns how many others were moved."""
        moves = 0 if self.earned < STEPS and self._placed(one, True) else self._put_by_chain(one)
        full = moves == NONE
        if full:
            self._placed(one, False)
        moves, known = max(moves, 0), self.statistics
        self.statistics = known._replace(
            arrivals=known.arrivals + 1,
            moves=known.moves + moves,
            most_moves=max(known.most_moves, moves),
            overloaded=known.overloaded + full,
        )
        self._changed(moves)
        return moves

    def depart(self, one: int) -> None:
        leaf, rectangle = int(self.state.leaf[one]), int(self.problem.rectangle[one])
        arriving.depart(self.items, self.state, self.chains, one)
        if self._at_an_edge(leaf, rectangle) and not (self._wanted(leaf) == rectangle).any():
            self._draw_tight(leaf)
        self.statistics = self.statistics._replace(departures=self.statistics.departures + 1)
        self._changed(0)

    def _put_by_chain(self, one: int) -> int:
        """Returns how many others were moved, NONE if there is no room."""
        return int(arriving.arrive(self.ground, self.items, self.state, self.chains, self.out, one, self.grown))

    def _placed(self, one: int, capped: bool) -> bool:
        """Puts a subscriber where it costs least and nobody has to move. Returns whether there is such a leaf."""
        rectangle, which = int(self.problem.rectangle[one]), int(self.problem.which[one])
        words = self.ground.words[which]
        leaf = int(choose(self.ground, self.state, rectangle, words, capped, self.grown, self.nobody, which))
        if leaf != NONE:
            arriving.place(self.ground, self.items, self.state, self.chains, one, leaf, self.grown)
        return leaf != NONE

    def _wanted(self, leaf: int) -> Ints:
        """The rectangles that a leaf's subscribers want."""
        served = self.chains.served
        return np.asarray(served.members[leaf, : served.counts[leaf], 1])

    def _at_an_edge(self, leaf: int, rectangle: int) -> bool:
        boxes = self.state.filters.boxes[leaf, : self.state.filters.counts[leaf]]
        return bool((boxes == self.problem.space.rectangles[rectangle]).any())

    def _draw_tight(self, leaf: int) -> None:
        """A leaf's filter around what its subscribers want; one level alone, as those above are fitted now and then."""
        filters, rectangles = self.state.filters, self.problem.space.rectangles
        mine = rectangles[np.unique(self._wanted(leaf))]
        boxes = shrunk(mine, filters.boxes[leaf], int(filters.counts[leaf])) if len(mine) else mine[:0]
        filters.boxes[leaf, : len(boxes)], filters.counts[leaf] = boxes, len(boxes)
        filters.weights[leaf] = union_weight(self.problem.space.sums, boxes, len(boxes))
        cover(self.chains, self.ground, self.items, self.state, filters.boxes[leaf], len(boxes), leaf)

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
        """The search, as long as the moves that it takes have been earned. Returns how many it made."""
        here = np.flatnonzero(self.state.leaf >= 0)
        part, leaf = part_of(self.problem, here), self.state.leaf[here]
        filters, earned = fitted(part, leaf, self.state.filters), self.earned
        for _ in range(ATTEMPTS):
            self.seed += 1
            leaf, filters, moved = self._improved(part, leaf, filters)
            self.earned -= moved
        moved = earned - self.earned
        self.statistics = self.statistics._replace(moves=self.statistics.moves + moved)
        whole = self.state.leaf.copy()
        whole[here] = leaf
        self._begin(whole, filters)
        return moved

    def _improved(self, part: Problem, leaf: Ints, filters: Filters) -> tuple[Ints, Filters, int]:
        """One search, and how many move for its result; the same as before if they are too many."""
        groups, before = grouped(part, leaf), bandwidth(part, filters)
        state = state_of(part, groups.items, groups.leaf, filters)
        roomy = self.ground._replace(capacity=np.maximum(self.ground.capacity, state.load))
        cost, _ = ruining.improve(roomy, self.reach, groups.items, state, self.grown, BUDGET, 0.0, self.seed)
        state = state_of(part, groups.items, groups.leaf, state.filters)
        limit = (before + cost) / 2
        placed, moved = arriving.settle(roomy, self.reach, groups.items, state, self.grown, limit, self.seed)
        if cost >= before or not placed or moved > self.earned:
            return leaf, filters, 0
        after = state.leaf[groups.of_subscriber]
        return after, fitted(part, after, state.filters), int(moved)


def part_of(problem: Problem, here: Ints) -> Problem:
    """With some of the subscribers; fair loads stay as they are."""
    return replace(problem, clients=problem.clients[here], rectangle=problem.rectangle[here], which=problem.which[here])
