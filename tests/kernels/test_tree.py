"""The rules that ``kernels.tree`` opens with, and that what stands in two places of the store agrees."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from overstory import parse_filter
from overstory.kernels.keys import LEAST, MOST
from overstory.kernels.leaves import BINS, IN_USE, SETS, bin_of, bins_size, first_bins, row_at
from overstory.kernels.nothing import NONE
from overstory.kernels.plain import Record, record_of
from overstory.kernels.store import (
    BLOCK,
    BOXES,
    EITHER,
    FREE_ROWS,
    HIGH,
    LEAF,
    LIVE_BOXES,
    LIVE_LEAVES,
    LOW,
    ROOT,
    TOKENS,
    TOKENS_USED,
    Store,
)
from overstory.matching.index import FilterIndex

from ..matching.draws import Draws

# Filters that nearly every event matches, so that no way to part them is better than another
UNLIKE = [parse_filter(f"p <> {number}") for number in range(400)]


class Step(NamedTuple):
    """From an inner node to a child of it."""

    node: int
    child: int


class Leaf(NamedTuple):
    """A leaf or block, the way there, and the token on top of it all."""

    node: int
    token: int
    way: list[Step]


def leaves_in(store: Store) -> Iterator[Leaf]:
    tops = {NONE: ROOT}
    for token in range(store.counts[TOKENS_USED]):
        if store.tokens["uses"][token] and store.tokens["child"][token] != NONE:
            tops[token] = int(store.tokens["child"][token])
    for token, top in tops.items():
        assert store.nodes["parent"][top] == NONE
        waiting: list[tuple[int, list[Step]]] = [(top, [])]
        while waiting:
            node, way = waiting.pop()
            if store.nodes["kind"][node] <= BLOCK:
                yield Leaf(node, token, way)
                continue
            for child in children(store, node):
                assert store.nodes["parent"][child] == node
                waiting.append((child, [*way, Step(node, child)]))


def rows(store: Store, leaf: int) -> list[tuple[int, int]]:
    node = store.nodes[leaf]
    start, count = int(node["threshold"]), int(node["left"])
    if node["kind"] == LEAF:
        return [(row, int(store.words[start + 2 * row])) for row in range(count)]
    found = [row for row in range(64 * store.words[start]) if is_in(store, start + IN_USE, row)]
    assert len(found) == count
    return [(row, int(store.words[row_at(store, leaf, row)])) for row in found]


def is_in(store: Store, where: int, row: int) -> bool:
    """Whether the set of rows that starts there has the row."""
    return bool(store.words[where + row // 64] >> (row % 64) & 1)


def children(store: Store, node: int) -> list[int]:
    row = store.nodes[node]
    if row["kind"] != TOKENS:
        return [int(row["left"]), int(row["right"])]
    table = store.words[row["threshold"] : row["threshold"] + (1 << row["left"])]
    entries = table[table != 0].tolist()
    assert len(entries) == row["right"] > 0
    for entry in entries:
        assert store.nodes["token"][(entry & 0xFFFFFFFF) - 1] == entry >> 32
    return [int(row["attribute"]), *((entry & 0xFFFFFFFF) - 1 for entry in entries)]


def range_in(record: Record, attribute: int) -> tuple[int, int]:
    return next(((low, high) for name, low, high in record.ranges if name == attribute), (LEAST, MOST))


def assert_on_the_right_side(store: Store, record: Record, step: Step) -> None:
    """Rules 1 and 2."""
    node = store.nodes[step.node]
    if node["kind"] == TOKENS:
        token = int(store.nodes["token"][step.child])
        assert step.child == node["attribute"] or any(clause == (False, [token]) for clause in record.clauses)
    elif node["kind"] != EITHER:
        low, high = range_in(record, int(node["attribute"]))
        assert node["kind"] in (LOW, HIGH)
        is_left = (low if node["kind"] == LOW else high) < node["threshold"]
        side = "left" if is_left else "right"
        assert node[side] == step.child
        assert node[f"{side}_low"] <= low <= high <= node[f"{side}_high"]


def assert_in_bins(store: Store, record: Record, block: int, row: int) -> None:
    """The bit of a row is set in the bins that its range reaches into, and in no other."""
    start, words = int(store.nodes["threshold"][block]), store.words
    width = int(words[start])
    for binned in range(words[start + 1]):
        at = first_bins(words, start) + bins_size(width) * binned
        low, high = range_in(record, int(words[at]))
        assert is_in(store, at + SETS, row) == (low == LEAST)
        within = range(bin_of(words, at, low), bin_of(words, at, high) + 1)
        for i in range(BINS):
            assert is_in(store, at + SETS + width * (1 + i), row) == (i in within)


def assert_one_clause_in_all(store: Store, record: Record, tokens: list[int]) -> None:
    """Rule 3: once under each token of one clause, or once under the number of one range, or once in all."""
    if tokens == [NONE]:
        return
    numbers = [store.attributes["facts"][attribute][0] for attribute, _, _ in record.ranges]
    assert any(not negated and wanted == sorted(tokens) for negated, wanted in record.clauses) or (
        len(tokens) == 1 and tokens[0] in numbers
    )


def live_boxes(store: Store) -> set[int]:
    free, row = set(), int(store.counts[FREE_ROWS + BOXES])
    while row:
        free.add(row - 1)
        row = int(store.boxes["link"][row - 1])
    return set(range(store.counts[BOXES])) - free


def assert_may_be_empty(store: Store, leaf: Leaf) -> None:
    """The root, and the leaf for boxes that stand under none of the tokens of a node, stay when they are empty."""
    if leaf.way:
        above = store.nodes[leaf.way[-1].node]
        assert (above["kind"], above["attribute"]) == (TOKENS, leaf.node)
    else:
        assert leaf.node == ROOT


def assert_sound(store: Store) -> None:
    tokens: dict[int, list[int]] = {}
    count = 0
    for leaf in leaves_in(store):
        count += 1
        found = rows(store, leaf.node)
        if not found:
            assert_may_be_empty(store, leaf)
        for row, entry in found:
            box, place = entry & 0x7FFFFFFF, store.places[entry >> 32]
            assert (place["box"], place["leaf"], place["row"]) == (box, leaf.node, row)
            record = record_of(store, box)
            for step in leaf.way:
                assert_on_the_right_side(store, record, step)
            if store.nodes["kind"][leaf.node] == BLOCK:
                assert_in_bins(store, record, leaf.node, row)
            tokens.setdefault(box, []).append(leaf.token)
    assert count == store.counts[LIVE_LEAVES]
    assert tokens.keys() == live_boxes(store)
    assert len(tokens) == store.counts[LIVE_BOXES]
    for box, above in tokens.items():
        assert_one_clause_in_all(store, record_of(store, box), above)


@pytest.mark.parametrize("seed", range(4))
def test_the_rules_hold_while_filters_come_and_go(seed: int) -> None:
    draws = Draws(seed)
    dice = draws.dice
    index = FilterIndex()
    live: list[int] = []
    for removed in (0.3, 0.5, 0.97):
        live += index.add_all(draws.boxes(dice.randint(500, 2500)) + draws.filters(300)).tolist()
        live += [index.add(wanted) for wanted in draws.boxes(dice.randint(500, 2500)) + draws.filters(300)]
        assert_sound(index.store)
        dice.shuffle(live)
        for _ in range(int(len(live) * removed)):
            index.remove(live.pop())
        assert_sound(index.store)


def test_every_kind_of_node_is_made_by_these_filters() -> None:
    """Else the test above would say less than it seems to."""
    kinds: set[int] = set()
    for seed in range(6):
        draws = Draws(seed)
        store = FilterIndex(draws.boxes(3000) + draws.boxes(3000) + UNLIKE).store
        for leaf in leaves_in(store):
            kinds.update(int(store.nodes["kind"][node]) for node in (*(step.node for step in leaf.way), leaf.node))
    assert kinds == {LEAF, BLOCK, LOW, HIGH, EITHER, TOKENS}
