"""Assignment online: subscribers come and go one at a time, and few of those who stay are moved.

Every change earns one move. What a move is worth is a *price*, in bytes, that rises while moves are spent faster than
they are earned, and falls while they are spent more slowly. An arrival goes where the growth of filters and the moves
that make room for it cost least together. A departure draws the filter tight if nobody else needs what it needed. Every
so many changes a search improves the whole, to which every move costs that price too: so it finds the changes of
filters that gain most for each subscriber who moves.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from overstory.errors import UsageError
from overstory.kernels import arriving
from overstory.kernels.chaining import STEPS, cover
from overstory.kernels.enlarging import Filters, grown_for
from overstory.kernels.fitting import shrunk
from overstory.kernels.greedy import Ground, State, choose
from overstory.kernels.nothing import NONE
from overstory.kernels.served import Items
from overstory.kernels.staying import home_of, improve_near
from overstory.kernels.volumes import union_weight
from overstory.model.network import Ints
from overstory.planners.assignment.filters import covered_by, fitted
from overstory.planners.assignment.greedy import ground_of, nobody_ahead
from overstory.planners.assignment.lumps import lumped
from overstory.planners.assignment.outcome import bandwidth
from overstory.planners.assignment.problem import Problem
from overstory.planners.assignment.search import state_of

EVERY = 1000  # changes after which what was earned is spent
BUDGET = 16 << 21  # work of the search each time
CELLS = 90  # of its lumps
FOR_ARRIVALS = 0.3  # of the moves of the next changes, which the search leaves
FIRST_PRICE, LEAST_PRICE = 2e-6, 1e-7  # of a move, relative to the cost of the plan: at first, and at any time
STEEPER = 1.25  # times the price, or less, after each search
NEVER = 1e300  # the price of moves that have not been earned


class Statistics(NamedTuple):
    arrivals: int
    departures: int
    moves: int  # of subscribers who stay
    most_moves: int  # for one change, without those that were saved up for
    crowded: int  # arrivals for which there was no room within the load that is wanted
    overloaded: int  # arrivals for which there was none within the largest load either


class Online:
    """``problem`` has everyone who may ever come; ``leaf`` is that of each who is there, -1 of all others. Fair loads
    are those of the problem, and the load factor is that with which those are planned who are there now."""

    def __init__(self, problem: Problem, leaf: Ints, filters: Filters) -> None:
        self.problem, self.ground = problem, ground_of(problem, part_of(problem, np.flatnonzero(leaf >= 0)).factor)
        self.grown, self.nobody = grown_for(problem.boxes), nobody_ahead(self.ground)
        self.items = Items(problem.rectangle, problem.which, np.ones(len(problem.clients), np.int64))
        self._begin(leaf, filters)
        self.roomier = self.ground._replace(capacity=problem.capacity(problem.most))
        nowhere, leaves = np.full(len(problem.clients), NONE), len(problem.fair)
        self.homeless = home_of(nowhere, filters, leaves, 0.0, 0)
        self.earned, self.changes, self.price = 0, 0, FIRST_PRICE * self.cost
        self.statistics = Statistics(0, 0, 0, 0, 0, 0)
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
        """Returns how many others were moved. Raises a ``UsageError`` if the subscriber is there."""
        if self.state.leaf[one] != NONE:
            raise UsageError(f"subscriber {one} is there already")
        price = self.price if self.earned >= STEPS else NEVER
        home = self.homeless._replace(price=price)
        moves = int(arriving.arrive(self.ground, self.items, self.state, self.chains, self.out, one, home))
        crowded = moves == NONE
        overloaded = crowded and not self._placed(one, self.roomier, True)
        if overloaded:
            self._placed(one, self.ground, False)
        moves, known = max(moves, 0), self.statistics
        self.statistics = known._replace(
            arrivals=known.arrivals + 1,
            moves=known.moves + moves,
            most_moves=max(known.most_moves, moves),
            crowded=known.crowded + crowded,
            overloaded=known.overloaded + overloaded,
        )
        self._changed(moves)
        return moves

    def depart(self, one: int) -> None:
        """Raises a ``UsageError`` if the subscriber is not there."""
        if self.state.leaf[one] == NONE:
            raise UsageError(f"subscriber {one} is not there")
        leaf, rectangle = int(self.state.leaf[one]), int(self.problem.rectangle[one])
        arriving.depart(self.items, self.state, self.chains, one)
        if self._at_an_edge(leaf, rectangle) and not (self._wanted(leaf) == rectangle).any():
            self._draw_tight(leaf)
        self.statistics = self.statistics._replace(departures=self.statistics.departures + 1)
        self._changed(0)

    def _placed(self, one: int, ground: Ground, capped: bool) -> bool:
        """Puts a subscriber where it costs least and nobody has to move. Returns whether there is such a leaf."""
        rectangle, which = int(self.problem.rectangle[one]), int(self.problem.which[one])
        words = ground.words[which].copy()
        leaf = int(choose(ground, self.state, rectangle, words, capped, self.grown, self.nobody, which))
        if leaf != NONE:
            arriving.place(ground, self.items, self.state, self.chains, one, leaf, self.grown)
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
        """The search, with as many moves as have been earned. Returns how many it made."""
        here = np.flatnonzero(self.state.leaf >= 0)
        if not len(here):
            return 0
        part, leaf = part_of(self.problem, here), self.state.leaf[here]
        filters = fitted(part, leaf, self.state.filters)
        ground, reach, groups = lumped(part, self.ground, leaf, filters, CELLS)
        state = state_of(ground, groups, filters)
        roomy = ground._replace(capacity=np.maximum(ground.capacity, state.load))
        most = max(self.earned - int(FOR_ARRIVALS * EVERY), 0)
        home = home_of(groups.leaf.copy(), filters, len(part.fair), self.price, most)
        _, moved = improve_near(roomy, reach, groups.items, state, home, BUDGET, self.changes)
        self.price *= STEEPER if moved > most // 2 or not most else 1 / STEEPER
        self.price = max(self.price, LEAST_PRICE * self.cost)
        self.earned -= int(moved)
        self.statistics = self.statistics._replace(moves=self.statistics.moves + int(moved))
        whole = self.state.leaf.copy()
        whole[here] = state.leaf[groups.of_subscriber]
        self._begin(whole, fitted(part, whole[here], state.filters))
        return int(moved)


def part_of(problem: Problem, here: Ints) -> Problem:
    """With some of the subscribers; fair loads stay as they are."""
    return replace(problem, clients=problem.clients[here], rectangle=problem.rectangle[here], which=problem.which[here])
