"""Steiner trees: cheap sets of links that lead from a root to all its terminals, for many instances on one graph.

1. What is found is a tree from the root whose leaves are terminals, and it costs what its links cost, each in the
   direction away from the root. So no bound of ``kernels.ascent`` is above it.
2. Where every link costs what the one back costs (prices are *mutual*), any end may be the root, and a tree is no more
   than the set of its nodes. Elsewhere it is an arborescence, with a local search of its own (``steiner_directed``).
3. The same instance, effort and seed give the same tree, whatever else is in the batch.

There are three efforts. ``route`` takes the best of a few trees grown along cheapest ways, and inserts Steiner vertices
(``steiner_starts``, ``steiner_insertion``, ``steiner_route``). ``plan`` searches locally until no change gains
(``steiner_local``). Where prices differ it begins with trees over the saturated links of dual ascents on a reduced
network (``steiner_ascent``, ``steiner_reduce``), and looks at starts only if the bound leaves a gap. Where all links
cost the same it begins with starts. ``best`` solves small instances exactly, and goes on with a pool of trees for the
others (``steiner_exact``, ``steiner_pool``).

All distances come from tables (``kernels.distances``) that have the rows of all terminals and roots.
"""

from typing import NamedTuple

import numpy as np

from overstory.errors import DataError, UsageError
from overstory.kernels.compiling import Array, kernel
from overstory.kernels.distances import Distances
from overstory.kernels.graphs import Graph as Graph
from overstory.kernels.graphs import graph_of as graph_of
from overstory.kernels.graphs import whole_prices
from overstory.kernels.sets import hash_sets
from overstory.kernels.steiner_ascent import Ascent, Ascents, ascent_on, grow_over_saturated, new_ascents
from overstory.kernels.steiner_directed import Entries, arrange, improve_directed, new_entries
from overstory.kernels.steiner_exact import MOST_STEPS, open_cheapest, steps_of
from overstory.kernels.steiner_keys import new_keys
from overstory.kernels.steiner_local import Bench, improve
from overstory.kernels.steiner_nodes import keep, restore, span
from overstory.kernels.steiner_pool import Pool, add, disturb, draw, lean, new_pool
from overstory.kernels.steiner_reduce import Thin, expand, new_thin, reduce
from overstory.kernels.steiner_regions import new_regions
from overstory.kernels.steiner_route import Desk, keep_best_start, keep_if_cheaper, make_tree, new_desk
from overstory.kernels.steiner_search import Search, grow_by_search, new_search
from overstory.kernels.steiner_starts import can_reach, note_ends
from overstory.kernels.store import with_room


class Effort(NamedTuple):
    """How much is done for each instance."""

    starts: int  # trees that are grown from tables of distances
    inserts: bool  # Steiner vertices: into the best of them, or into all if there is a local search of these alone
    rounds: int  # of local search on the best of them
    ascents: int  # trees over saturated links, where prices differ
    tries: int  # of trees bred from a pool


FEW, LINKS_AT_MOST = 20, 3 * 10**6  # trees bred, at least; and how many links are disturbed for them in all
FEW_ENDS, MORE_ASCENTS = 16, 8  # where there are few ends, an ascent takes little, and one step is much of the cost
CROWDED = 8  # so many nodes for each end, or fewer: then most changes gain nothing if all links cost the same
TURNS = 4  # of local search at prices that differ a little, then
ROUTE, PLAN, BEST = "route", "plan", "best"
EFFORTS = {
    ROUTE: Effort(4, True, 0, 0, 0),
    PLAN: Effort(4, True, 20, 2, 0),
    BEST: Effort(16, True, 50, 8, 300),
}


class Instances(NamedTuple):
    """From the root of each to its terminals: those between offsets i and i + 1."""

    roots: Array
    offsets: Array
    terminals: Array


class Trees(NamedTuple):
    """Of instance i: what its tree costs, infinite if a terminal cannot be reached, and between offsets i and i + 1 its
    links, each behind those that lead to it."""

    costs: Array
    offsets: Array
    links: Array


class Units(NamedTuple):
    """Of the prices, and what is known of them."""

    no_way: float  # stands in a table of distances where there is none
    of_bounds: float  # what 1 is in the bounds of dual ascents
    step: float  # by how much at least two trees differ if they do not cost the same


class Shop(NamedTuple):
    """What all trees are made with."""

    desk: Desk
    bench: Bench
    search: Search
    ascents: Ascents
    entries: Entries
    pool: Pool
    thin: Thin
    whole: Array  # prices as integers


def steiner_trees(
    graph: Graph,
    distances: Distances,
    roots: Array,
    terminal_offsets: Array,
    terminals: Array,
    effort: str = PLAN,
    seed: int = 0,
) -> Trees:
    """For each root and the terminals between its two offsets. Terminals may come twice, and be the root; their order
    decides which of equally near ones comes first. ``effort`` is one of ``EFFORTS``; the seed is for the best only."""
    if effort not in EFFORTS:
        raise UsageError(f"effort={effort}: it is one of {', '.join(EFFORTS)}")
    for nodes in (roots, terminals):
        if len(nodes) and (
            nodes.min() < 0 or nodes.max() >= len(distances.row_of) or (distances.row_of[nodes] < 0).any()
        ):
            raise DataError("a root or terminal is no goal of the table of distances")
    return trees_with(EFFORTS[effort], graph, distances, Instances(roots, terminal_offsets, terminals), seed)


def trees_with(effort: Effort, graph: Graph, distances: Distances, instances: Instances, seed: int = 0) -> Trees:
    """With any effort."""
    kind = distances.far.dtype
    no_way = np.inf if kind.kind == "f" else float(np.iinfo(kind).max)
    count = len(instances.roots)
    costs, offsets = np.empty(count), np.zeros(count + 1, np.int64)
    if graph.even and not effort.tries:
        effort = effort._replace(ascents=0)
    prices = graph.prices if effort.ascents else graph.prices[:0]
    whole, bits = whole_prices(prices)
    step = _step(graph, prices)
    units = Units(no_way, 2.0**-bits, step)
    links = _all_trees(graph, distances, whole, units, instances, effort, seed, (costs, offsets))
    return Trees(costs, offsets, links)


def _step(graph: Graph, prices: Array) -> float:
    """By how much at least two trees differ if they do not cost the same; 0 if nothing is known of that."""
    if not len(prices):
        return 0.0
    if graph.even:
        return float(prices[0])
    return 1.0 if np.all(prices == np.floor(prices)) else 0.0


class Distinct(NamedTuple):
    """Instances of which no two are equal; and for each that was given the number of its equal here."""

    roots: Array
    terminal_offsets: Array
    terminals: Array
    which: Array


def distinct_instances(roots: Array, terminal_offsets: Array, terminals: Array) -> Distinct:
    """Those with the same root and the same terminals, in any order, are equal and need to be solved once. No terminal
    may come twice in an instance; they become ascending. Sets are known by 128 bits of hash."""
    sizes = np.diff(terminal_offsets)
    ordered = terminals[np.lexsort((terminals, np.repeat(np.arange(len(roots)), sizes)))]
    keys = np.stack([roots, *hash_sets(terminal_offsets, ordered)])
    _, first, which = np.unique(keys, axis=1, return_index=True, return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum(sizes[first])])
    chosen = np.repeat(terminal_offsets[first] - offsets[:-1], sizes[first]) + np.arange(offsets[-1])
    return Distinct(roots[first], offsets, ordered[chosen], which.reshape(-1))


@kernel
def _all_trees(
    graph: Graph,
    distances: Distances,
    whole: Array,
    units: Units,
    instances: Instances,
    effort: Effort,
    seed: int,
    out: tuple[Array, Array],
) -> Array:
    """Returns the links of all trees; ``out`` gets their costs and offsets. ``whole`` are the prices as integers."""
    costs, offsets = out
    roots, terminal_offsets, terminals = instances
    shop = _new_shop(graph, whole, effort)
    kept = shop.desk.kept
    links = np.empty(1024, np.int64)
    total = 0
    for i in range(len(roots)):
        note_ends(shop.desk.ends, shop.desk.nodes, roots[i], terminals[terminal_offsets[i] : terminal_offsets[i + 1]])
        kept.cost[0], kept.count[0], shop.pool.count[0] = np.inf, 1, 0
        if can_reach(distances, shop.desk.ends, units.no_way):
            shop.pool.chance[0] = np.uint64(seed)
            _find_tree(graph, distances, units, shop, effort)
        costs[i], size = kept.cost[0], kept.count[0] - 1
        links = with_room(links, total + size)
        links[total : total + size] = kept.links[1 : size + 1]
        total += size
        offsets[i + 1] = total
    return links[:total]


@kernel
def _new_shop(graph: Graph, whole: Array, effort: Effort) -> Shop:
    size, links = len(graph.offsets) - 1, len(graph.targets)
    searched, directed = size if effort.rounds else 0, 0 if graph.mutual else size
    ascended, crossed = (size, links) if effort.ascents + effort.tries else (0, 0)
    desk = new_desk(size)
    return Shop(
        desk,
        Bench(desk.nodes, desk.past, new_keys(searched), new_regions(searched)),
        new_search(ascended, crossed),
        new_ascents(ascended, crossed),
        new_entries(directed, links if directed else 0),
        new_pool(size if effort.tries else 0, links if effort.tries else 0),
        new_thin(ascended, crossed),
        whole,
    )


@kernel
def _find_tree(graph: Graph, distances: Distances, units: Units, shop: Shop, effort: Effort) -> None:
    """Leaves the cheapest tree found in what the shop has kept."""
    desk, count = shop.desk, shop.desk.ends.count[0]
    if effort.rounds == 0:
        make_tree(graph, distances, desk, effort.starts, effort.inserts)
    elif count < 3 or (graph.mutual and count == 3):
        keep_best_start(graph, distances, desk, 1, False)
    elif effort.tries and steps_of(graph, count - 1) <= MOST_STEPS:
        _solve(graph, shop)
    elif effort.ascents == 0:
        _search_from_starts(graph, distances, shop, effort)
    else:
        _search_from_ascents(graph, distances, units, shop, effort)


@kernel
def _search_from_starts(graph: Graph, distances: Distances, shop: Shop, effort: Effort) -> None:
    """Improves the best start, if that is cheaper than what is kept."""
    desk, before = shop.desk, shop.desk.kept.cost[0]
    inserts = effort.inserts and (effort.ascents == 0 or effort.tries > 0)
    dearest = keep_best_start(graph, distances, desk, effort.starts, inserts)
    is_crowded = graph.even and graph.mutual and CROWDED * desk.ends.count[0] >= len(graph.offsets) - 1
    if graph.even and effort.tries == 0 and dearest == desk.kept.cost[0] and not is_crowded:
        return  # where all starts come to the same, local search gains next to nothing
    if desk.kept.cost[0] < before:
        restore(graph, desk.nodes, desk.kept)
        keep_if_cheaper(desk, _improve(graph, distances, shop, effort, 0.0))
    if is_crowded:
        restore(graph, desk.nodes, desk.kept)
        for turn in range(TURNS):
            improve(lean(graph, turn), shop.bench, desk.ends.ends[0], effort.rounds, 0.0)
            keep_if_cheaper(desk, span(graph, desk.nodes, desk.ends.ends[0]))


@kernel
def _search_from_ascents(graph: Graph, distances: Distances, units: Units, shop: Shop, effort: Effort) -> None:
    """Improves trees over saturated links, until one is as cheap as can be; if none is, looks at starts. The network is
    reduced where prices are mutual."""
    desk, whole = shop.desk, shop.whole
    ends, thinner = desk.ends.ends[: desk.ends.count[0]], graph
    if graph.mutual:
        thinner = reduce(graph, distances, whole, desk.nodes.is_end, ends, shop.thin)
        whole = shop.thin.whole[: len(thinner.targets)]
    thin = Thinner(graph, thinner, ascent_on(thinner, whole, shop.ascents))
    enough = _try_ascents(thin, distances, units, shop, effort) + units.step
    if desk.kept.cost[0] >= enough:
        _search_from_starts(graph, distances, shop, effort)
        _breed(thin, distances, shop, effort, enough)


class Thinner(NamedTuple):
    """A network, and what is left of it for one instance."""

    whole: Graph
    left: Graph
    ascent: Ascent


@kernel
def _improve(graph: Graph, distances: Distances, shop: Shop, effort: Effort, enough: float) -> float:
    """Improves the tree at hand, until it costs less than ``enough``. Returns what it costs."""
    nodes, root = shop.desk.nodes, shop.desk.ends.ends[0]
    if graph.mutual:
        return improve(graph, shop.bench, root, effort.rounds, enough)
    cost = arrange(graph, nodes, root)
    return improve_directed(graph, distances, nodes, shop.entries, root, cost, effort.rounds)


@kernel
def _search_locally(thin: Thinner, distances: Distances, shop: Shop, effort: Effort, enough: float) -> None:
    """Improves the tree at hand, which is one of the reduced network, and keeps it if it is cheaper."""
    desk = shop.desk
    cost = _improve(thin.left, distances, shop, effort, enough)
    if effort.tries:
        add(shop.pool, desk.nodes, cost)
    if cost >= desk.kept.cost[0]:
        return
    if thin.whole.mutual:
        expand(thin.whole, shop.thin, desk.nodes, desk.kept)
    else:
        keep(desk.nodes, desk.kept, cost)


@kernel
def _try_ascents(thin: Thinner, distances: Distances, units: Units, shop: Shop, effort: Effort) -> float:
    """Trees over the saturated links of dual ascents, from several roots where prices are mutual. Returns the best
    bound."""
    count = shop.desk.ends.count[0]
    ends = shop.desk.ends.ends[:count]
    ascents = max(effort.ascents, MORE_ASCENTS) if effort.ascents and count <= FEW_ENDS else effort.ascents
    tries = min(ascents, count if thin.whole.mutual else 1)
    bound = 0.0
    for number in range(tries):
        root = ends[number * count // tries]
        found, _ = grow_over_saturated(thin.left, thin.ascent, shop.desk.nodes, shop.search, root, ends)
        bound = max(bound, found * units.of_bounds)
        _search_locally(thin, distances, shop, effort, bound + units.step)
        if shop.desk.kept.cost[0] < bound + units.step:
            break
    return bound


@kernel
def _solve(graph: Graph, shop: Shop) -> None:
    nodes, count = shop.desk.nodes, shop.desk.ends.count[0]
    open_cheapest(graph, shop.search, shop.desk.ends.ends[0], shop.desk.ends.ends[1:count])
    grow_by_search(graph, nodes, shop.search, shop.desk.ends.ends[0], count)
    keep_if_cheaper(shop.desk, arrange(graph, nodes, shop.desk.ends.ends[0]))


@kernel
def _breed(thin: Thinner, distances: Distances, shop: Shop, effort: Effort, enough: float) -> None:
    """Breeds trees from the pool, until the cheapest costs less than ``enough``."""
    nodes, pool, count, graph = shop.desk.nodes, shop.pool, shop.desk.ends.count[0], thin.left
    if effort.tries:
        shop.search.is_open[:] = True
    for _ in range(min(effort.tries, max(FEW, LINKS_AT_MOST // max(len(graph.targets), 1)))):
        if shop.desk.kept.cost[0] < enough:
            break
        disturb(graph, pool)
        elsewhere = Graph(graph.offsets, graph.targets, pool.prices[: len(graph.targets)], graph.mutual, False)
        start = shop.desk.ends.ends[draw(pool, count) if graph.mutual else 0]
        grow_by_search(elsewhere, nodes, shop.search, start, count)
        _search_locally(thin, distances, shop, effort, enough)
