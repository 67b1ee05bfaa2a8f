"""Kernels of subscriber assignment against plain twins: volumes, enlargements, flows ahead, Gr* and the search."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_flow

from overstory.kernels import greedy, ruining
from overstory.kernels.chaining import AHEAD, Chains, chains_for, make_room, open_up
from overstory.kernels.enlarging import Filters, grown_for, least_added, let_in, let_in_path, no_filters, path_cost
from overstory.kernels.fitting import fit, shrunk
from overstory.kernels.greedy import Ground, State
from overstory.kernels.recreating import Reach
from overstory.kernels.reserving import Ahead, reserve
from overstory.kernels.served import Items, Out, join, nothing_out, part, served_by
from overstory.kernels.taking_out import BOX, LEAF, PLACE, WAYS, drawn_way, learn, ways_for
from overstory.kernels.volumes import coarse_of, union_weight, weight_at_least

SIDE = 9
FEWER = settings(max_examples=30)


@st.composite
def boxes(draw: st.DrawFn, least: int = 1, most: int = 6) -> np.ndarray:
    found = []
    for _ in range(draw(st.integers(least, most))):
        ends = [sorted(draw(st.lists(st.integers(0, SIDE), min_size=2, max_size=2, unique=True))) for _ in range(2)]
        found.append([*ends[0], *ends[1]])
    return np.array(found, np.int64).reshape(-1, 4)


def sums_of(seed: int) -> np.ndarray:
    sums = np.zeros((SIDE + 1, SIDE + 1))
    sums[1:, 1:] = np.random.default_rng(seed).integers(0, 5, (SIDE, SIDE)).cumsum(0).cumsum(1)
    return sums


def plain_weight(sums: np.ndarray, some: np.ndarray) -> float:
    """Cell by cell."""
    cells = np.diff(np.diff(sums, axis=0), axis=1)
    inside = np.zeros_like(cells, bool)
    for box in some:
        inside[box[0] : box[1], box[2] : box[3]] = True
    return float(cells[inside].sum())


def plain_hull(*some: np.ndarray) -> np.ndarray:
    every = np.array(some)
    return np.array([every[:, 0].min(), every[:, 1].max(), every[:, 2].min(), every[:, 3].max()])


def plain_let_in(sums: np.ndarray, had: np.ndarray, box: np.ndarray, most: int) -> float:
    """All ways that the law of ``enlarging`` allows."""
    before = plain_weight(sums, had)
    if any(np.array_equal(plain_hull(one, box), one) for one in had):
        return 0.0
    ways = [[*had, box]] if len(had) < most else []
    ways += [[*np.delete(had, at, 0), plain_hull(had[at], box)] for at in range(len(had))]
    if len(had) == most:
        for one, other in combinations(range(len(had)), 2):
            ways.append([*np.delete(had, [one, other], 0), plain_hull(had[one], had[other]), box])
    return min(plain_weight(sums, np.array(way)) for way in ways) - before


@given(boxes(most=7), st.integers(0, 5))
def test_the_weight_of_a_union_is_that_of_its_cells(some: np.ndarray, seed: int) -> None:
    sums = sums_of(seed)
    assert union_weight(sums, some, len(some)) == plain_weight(sums, some)


@given(boxes(most=3), boxes(most=1), st.integers(0, 5))
def test_a_box_is_let_in_the_cheapest_way(some: np.ndarray, one: np.ndarray, seed: int) -> None:
    sums, room, grown = sums_of(seed), np.zeros((3, 4), np.int64), grown_for(3)
    room[: len(some)] = some
    added, count, changed = let_in(sums, room, len(some), plain_weight(sums, some), one[0], grown)
    assert added == plain_let_in(sums, some, one[0], 3)
    after = grown.boxes[:count] if changed else some
    assert plain_weight(sums, after) == plain_weight(sums, some) + added
    for box in [*some, one[0]]:
        assert any(np.array_equal(plain_hull(mine, box), mine) for mine in after)


@given(boxes(least=0, most=6), boxes(most=1), st.integers(0, 5), st.integers(0, 60), st.integers(0, 2))
def test_what_adds_too_much_is_above_what_is_allowed(
    some: np.ndarray, one: np.ndarray, seed: int, most: int, more: int
) -> None:
    sums, alpha = sums_of(seed), max(len(some) + more, 1)
    room = np.zeros((alpha, 4), np.int64)
    room[: len(some)] = some
    before, grown = plain_weight(sums, some), grown_for(alpha)
    whole = least_added(sums, coarse_of(sums), room, len(some), before, one[0], grown, np.inf)[0]
    part = least_added(sums, coarse_of(sums), room, len(some), before, one[0], grown, float(most))[0]
    assert whole == plain_let_in(sums, some, one[0], alpha)
    assert part == whole if whole <= most else part > most


@pytest.mark.parametrize("seed", range(3))
def test_coarse_sums_tell_what_a_box_weighs_at_least(seed: int) -> None:
    draw = np.random.default_rng(seed)
    sums = np.zeros((71, 45))
    sums[1:, 1:] = draw.integers(0, 5, (70, 44)).cumsum(0).cumsum(1)
    coarse, near = coarse_of(sums), 0
    for _ in range(300):
        x, y = np.sort(draw.choice(71, 2, replace=False)), np.sort(draw.choice(45, 2, replace=False))
        box = np.array([[*x, *y]])
        at_least, whole = weight_at_least(coarse, *box[0].tolist()), union_weight(sums, box, 1)
        assert 0 <= at_least <= whole
        near += at_least > 0.3 * whole
    assert near > 10


@given(boxes(least=1, most=12), st.integers(1, 4), st.integers(0, 5))
def test_fitted_boxes_hold_everything_and_are_few(some: np.ndarray, most: int, seed: int) -> None:
    sums = sums_of(seed)
    found = fit(sums, some, most)
    assert len(found) <= most
    for box in some:
        assert any(np.array_equal(plain_hull(mine, box), mine) for mine in found)
    tight = shrunk(some, found, len(found))
    assert plain_weight(sums, tight) <= plain_weight(sums, found)
    if most == 1:
        assert np.array_equal(found, plain_hull(*some)[None])


def instance(seed: int, leaves: int = 3, classes: int = 4, count: int = 14) -> tuple[Ground, np.ndarray, np.ndarray]:
    """One level, subscribers with rectangles and classes; capacities are tight, and may be too tight."""
    draw = np.random.default_rng(seed)
    low = draw.integers(0, SIDE - 1, (6, 2))
    high = low + draw.integers(1, SIDE - low + 1)
    rectangles = np.stack([low[:, 0], high[:, 0], low[:, 1], high[:, 1]], axis=1).astype(np.int64)
    words = draw.integers(1, 1 << leaves, classes).astype(np.uint64)[:, None]
    capacity = draw.multinomial(count + 2, np.ones(leaves) / leaves)
    ground = Ground(
        sums_of(seed),
        coarse_of(sums_of(seed)),
        np.ones(leaves),
        np.full(leaves, -1),
        rectangles,
        words,
        np.ones(leaves),
        capacity.astype(np.int64),
    )
    return ground, draw.integers(0, 6, count), draw.integers(0, classes, count)


def state_for(ground: Ground, count: int) -> State:
    leaves, nodes = len(ground.capacity), len(ground.prices)
    covered = np.zeros((len(ground.rectangles), 1), np.uint64)
    return State(no_filters(nodes, 2), covered, np.zeros(leaves, np.int64), np.full(count, -1))


def plain_gr_star(ground: Ground, rectangle: np.ndarray, which: np.ndarray) -> np.ndarray:
    """One by one, everything looked at anew each time."""
    leaves = len(ground.capacity)
    filters: list[np.ndarray] = [np.zeros((0, 4), np.int64) for _ in range(leaves)]
    load, found, left = [0] * leaves, np.full(len(rectangle), -1), set(range(len(rectangle)))
    current, full = -1, -1
    while left:
        free = [leaf for leaf in range(leaves) if load[leaf] < ground.capacity[leaf]]
        if len(free) != full or not any(which[one] == current for one in left):
            choices = {
                each: sum(int(ground.words[each, 0]) >> leaf & 1 for leaf in free) for each in range(len(ground.words))
            }
            current = min({int(which[one]) for one in left}, key=lambda each: (choices[each], each))
            full = len(free)
        one = min(one for one in left if which[one] == current)
        left.remove(one)
        mine = [leaf for leaf in free if int(ground.words[current, 0]) >> leaf & 1]
        if not mine:
            continue
        box = ground.rectangles[rectangle[one]]
        costs = {leaf: plain_let_in(ground.sums, filters[leaf], box, 2) for leaf in mine}
        changed = {leaf: not any(np.array_equal(plain_hull(had, box), had) for had in filters[leaf]) for leaf in mine}
        leaf = min(mine, key=lambda leaf: (costs[leaf], changed[leaf], load[leaf], leaf))
        grown, room = grown_for(2), np.zeros((2, 4), np.int64)
        room[: len(filters[leaf])] = filters[leaf]
        before = plain_weight(ground.sums, filters[leaf])
        _, count, new = let_in(ground.sums, room, len(filters[leaf]), before, box, grown)
        filters[leaf] = grown.boxes[:count].copy() if new else filters[leaf]
        load[leaf] += 1
        found[one] = leaf
    return found


def by_class(which: np.ndarray, classes: int) -> tuple[np.ndarray, np.ndarray]:
    members = np.argsort(which, kind="stable")
    return np.searchsorted(which[members], np.arange(classes + 1)), members


def nobody(ground: Ground) -> Ahead:
    return Ahead(np.zeros((0, 0), np.int32), ground.capacity, ground.capacity, ground.words)


@pytest.mark.parametrize("seed", range(20))
def test_gr_star_is_the_naive_one(seed: int) -> None:
    ground, rectangle, which = instance(seed)
    state = state_for(ground, len(rectangle))
    left = greedy.fewest_first(ground, state, rectangle, *by_class(which, 4), grown_for(2), nobody(ground))
    assert np.array_equal(state.leaf, plain_gr_star(ground, rectangle, which))
    assert left == (state.leaf < 0).sum()
    assert np.array_equal(state.load, np.bincount(state.leaf[state.leaf >= 0], minlength=3))


def plain_flow(words: np.ndarray, counts: np.ndarray, room: np.ndarray) -> tuple[int, np.ndarray]:
    """SciPy's maximum flow over classes, and how many of each go to each leaf."""
    classes, leaves = len(words), len(room)
    matrix = np.zeros((classes + leaves + 2, classes + leaves + 2), np.int32)
    matrix[0, 1 : classes + 1] = counts
    for each in range(classes):
        for leaf in range(leaves):
            matrix[1 + each, 1 + classes + leaf] = (int(words[each, 0]) >> leaf & 1) * 1000
    matrix[1 + classes : 1 + classes + leaves, -1] = room
    flow = maximum_flow(csr_array(matrix), 0, classes + leaves + 1)
    return int(flow.flow_value), flow.flow.toarray()[1 : classes + 1, 1 + classes : 1 + classes + leaves]


@pytest.mark.parametrize("seed", range(40))
def test_with_a_flow_ahead_everyone_finds_a_place_if_there_is_any(seed: int) -> None:
    ground, rectangle, which = instance(seed)
    counts = np.bincount(which, minlength=4)
    value, flow = plain_flow(ground.words, counts, ground.capacity)
    if value < len(which):
        return
    ahead = Ahead(flow.astype(np.int32), flow.sum(0).astype(np.int64), ground.capacity, ground.words)
    state = state_for(ground, len(rectangle))
    assert greedy.fewest_first(ground, state, rectangle, *by_class(which, 4), grown_for(2), ahead) == 0
    assert (state.load <= ground.capacity).all()
    assert all(int(ground.words[which[one], 0]) >> state.leaf[one] & 1 for one in range(len(which)))


@pytest.mark.parametrize("seed", range(30))
def test_a_place_is_refused_just_where_the_rest_would_have_no_flow(seed: int) -> None:
    ground, _, which = instance(seed)
    counts, room = np.bincount(which, minlength=4), ground.capacity.copy()
    value, flow = plain_flow(ground.words, counts, room)
    if value < len(which):
        return
    ahead = Ahead(flow.astype(np.int32), flow.sum(0).astype(np.int64), ground.capacity, ground.words)
    draw = np.random.default_rng(seed)
    for one in draw.permutation(len(which)):
        for leaf in draw.permutation(3):
            if not int(ground.words[which[one], 0]) >> leaf & 1 or not room[leaf]:
                continue
            counts[which[one]] -= 1
            room[leaf] -= 1
            possible = plain_flow(ground.words, counts, room)[0] == counts.sum()
            assert reserve(ahead, which[one], leaf) == possible
            if possible:
                break
            counts[which[one]] += 1
            room[leaf] += 1
        else:
            raise AssertionError("nobody may be left without a place")


def levels(seed: int) -> tuple[Ground, Reach]:
    """Four leaves below two brokers."""
    ground, _, _ = instance(seed, leaves=4)
    ground = ground._replace(
        prices=np.ones(6), parent=np.array([4, 4, 5, 5, -1, -1]), capacity=np.full(4, 40), shares=np.ones(4)
    )
    bits = [[leaf for leaf in range(4) if int(word) >> leaf & 1] for word in ground.words[:, 0]]
    offsets = np.cumsum([0, *map(len, bits)])
    return ground, Reach(offsets, np.concatenate(bits).astype(np.int64), np.array([0] * 5 + [2, 4]), np.arange(4))


def holds_all(filters: Filters, node: int, box: np.ndarray) -> bool:
    mine = filters.boxes[node, : filters.counts[node]]
    return any(np.array_equal(plain_hull(one, box), one) for one in mine)


def check_nested(ground: Ground, filters: Filters) -> None:
    for node in range(len(ground.prices)):
        mine = filters.boxes[node, : filters.counts[node]]
        assert filters.weights[node] == plain_weight(ground.sums, mine)
        if ground.parent[node] >= 0:
            assert all(holds_all(filters, ground.parent[node], box) for box in mine)


@pytest.mark.parametrize("seed", range(10))
def test_filters_stay_nested_and_a_path_costs_at_least_what_a_leaf_does(seed: int) -> None:
    ground, _ = levels(seed)
    filters, grown, draw = no_filters(6, 2), grown_for(2), np.random.default_rng(seed)
    for _ in range(12):
        leaf, box = int(draw.integers(4)), ground.rectangles[draw.integers(6)]
        alone = let_in(ground.sums, filters.boxes[leaf], filters.counts[leaf], filters.weights[leaf], box, grown)[0]
        assert (
            path_cost(ground.sums, ground.coarse, ground.prices, ground.parent, filters, leaf, box, grown, np.inf)
            >= alone
        )
        let_in_path(ground.sums, ground.parent, filters, leaf, box, grown)
        assert holds_all(filters, leaf, box)
        check_nested(ground, filters)


@pytest.mark.parametrize("seed", range(6))
def test_the_search_keeps_the_law_and_never_ends_dearer(seed: int) -> None:
    ground, reach = levels(seed)
    draw = np.random.default_rng(seed)
    items = Items(draw.integers(0, 6, 30), draw.integers(0, 4, 30), draw.integers(1, 4, 30))
    leaf = np.array([draw.choice(reach.leaves[reach.offsets[one] : reach.offsets[one + 1]]) for one in items.which])
    filters, grown = no_filters(6, 2), grown_for(2)
    for item in range(30):
        let_in_path(ground.sums, ground.parent, filters, leaf[item], ground.rectangles[items.rectangle[item]], grown)
    load = np.bincount(leaf, items.size, 4).astype(np.int64)
    state = State(filters, np.zeros((6, 1), np.uint64), load, leaf.copy())
    before = float(filters.weights.sum())
    cost, attempts = ruining.improve(ground, reach, items, state, grown, 20_000, 0.01, seed)
    assert cost <= before
    assert attempts > 1
    assert cost == pytest.approx(float(state.filters.weights.sum()))
    check_nested(ground, state.filters)
    assert np.array_equal(state.load, np.bincount(state.leaf, items.size, 4))
    assert (state.load <= ground.capacity).all()
    for item in range(30):
        assert state.leaf[item] in reach.leaves[reach.offsets[items.which[item]] : reach.offsets[items.which[item] + 1]]
        assert holds_all(state.filters, state.leaf[item], ground.rectangles[items.rectangle[item]])


def chain_of_three(capacity: int) -> tuple[Ground, Items, State, Chains, Out]:
    """Three leaves with one item each, who all want the same: item i may be at leaves i and i + 1."""
    ground, _ = levels(0)
    three = np.ones(3)
    ground = ground._replace(
        prices=three,
        parent=np.full(3, -1),
        shares=three,
        words=np.array([[3], [6], [4]], np.uint64),
        capacity=np.array([1, 1, capacity]),
    )
    items = Items(np.zeros(3, np.int64), np.arange(3), np.ones(3, np.int64))
    filters, grown = no_filters(3, 2), grown_for(2)
    for leaf in range(3):
        let_in_path(ground.sums, ground.parent, filters, leaf, ground.rectangles[0], grown)
    state = State(filters, np.zeros((6, 1), np.uint64), np.ones(3, np.int64), np.arange(3))
    return ground, items, state, chains_for(ground, items, state, 3, AHEAD), nothing_out(3, 6)


def test_a_full_leaf_makes_room_along_a_chain() -> None:
    ground, items, state, chains, out = chain_of_three(2)
    open_up(chains, state.load, ground.capacity, 1)
    assert chains.open[0] == 7
    assert make_room(chains, ground, items, state, out, 0, 1)[0]
    assert out.count[0] == 2
    assert state.leaf.tolist() == [1, 2, 2]
    assert state.load.tolist() == [0, 1, 2]
    assert dict(zip(out.items[:2].tolist(), out.leaf[:2].tolist(), strict=True)) == {0: 0, 1: 1}


def test_whoever_looks_sends_on_more_than_it_takes_if_there_is_room() -> None:
    ground, _, state, _, _ = chain_of_three(9)
    ground = ground._replace(capacity=np.array([1, 5, 9]))
    many = Items(np.zeros(6, np.int64), np.array([1] * 5 + [2]), np.ones(6, np.int64))
    state = state._replace(load=np.array([0, 5, 1]), leaf=np.array([1] * 5 + [2]))
    chains, out = chains_for(ground, many, state, 3, AHEAD), nothing_out(6, 6)
    open_up(chains, state.load, ground.capacity, 1)
    assert make_room(chains, ground, many, state, out, 1, 1)[0]
    assert state.load.tolist() == [0, 0, 6]
    assert sorted(out.items[: out.count[0]].tolist()) == [0, 1, 2, 3, 4]


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 2)), max_size=30))
def test_what_leaves_serve_is_what_a_set_says(moves: list[tuple[int, int]]) -> None:
    draw = np.random.default_rng(len(moves))
    items = Items(draw.integers(0, 6, 8), draw.integers(0, 4, 8), np.ones(8, np.int64))
    leaf = draw.integers(0, 3, 8)
    served, plain = served_by(items, leaf, 3), [set(np.flatnonzero(leaf == at).tolist()) for at in range(3)]
    for item, there in moves:
        part(served, leaf[item], item)
        plain[leaf[item]].remove(item)
        join(served, items, there, item)
        plain[there].add(item)
        leaf[item] = there
        for at in range(3):
            mine = served.members[at, : served.counts[at]]
            assert set(mine[:, 0].tolist()) == plain[at]
            assert np.array_equal(mine[:, 1:], np.stack([items.rectangle, items.which], axis=1)[mine[:, 0]])
            assert np.array_equal(served.places[mine[:, 0]], np.arange(len(mine)))


def test_without_room_at_the_end_of_a_chain_nothing_moves() -> None:
    ground, items, state, chains, out = chain_of_three(1)
    open_up(chains, state.load, ground.capacity, 1)
    assert chains.open[0] == 0
    assert not make_room(chains, ground, items, state, out, 0, 1)[0]
    assert state.leaf.tolist() == [0, 1, 2]
    assert state.load.tolist() == [1, 1, 1]


def test_ways_get_work_in_proportion_to_what_it_saves_and_none_is_forgotten() -> None:
    ways, share = ways_for(1000.0), np.zeros(WAYS)
    for number in range(40_000):
        way = drawn_way(ways)
        work = 20_000.0 if way < BOX else 5_000.0
        learn(ways, way, 1e-5 * work if way in (LEAF, PLACE) else 0.0, work)  # the rate is the same for both
        share[way] += work if number >= 10_000 else 0.0
    share /= share.sum()
    others = np.delete(share, [LEAF, PLACE])
    assert share[LEAF] == pytest.approx(share[PLACE], abs=0.1)
    assert (others > 0.02).all()
    assert (others < 0.1).all()
