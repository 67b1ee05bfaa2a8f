"""Entries: the routing state that a plan keeps alive, which upkeep prices.

An entry is one row of ``filters``; where a flow has no row for a directed link, one filter for each that members behind
the link have and that no other of theirs covers. Every broker announces everything, so there is an announcer behind
each link.
"""

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from overstory.filters import Filter, parse_filter
from overstory.kernels.travel import NONE, Rules
from overstory.matching import CoveringIndex
from overstory.model.plan import Plan
from overstory.pipeline.rules import Metered

Ints = NDArray[np.int64]


class Entries(NamedTuple):
    core: int
    access: int
    associations: int


def entries_of(plan: Plan, metered: Metered) -> Entries:
    rules = metered.rules
    texts = metered.predicates.texts
    flow_of_tree = np.arange(len(rules.flow_tree))
    core = access = 0
    for flow in flow_of_tree.tolist():
        mine = np.flatnonzero(rules.member_flow == flow)
        covers = Covers(
            {number: parse_filter(texts[number]) for number in np.unique(_predicates(rules, mine)).tolist()}
        )
        access += _access_entries(rules, flow, mine, covers)
        if not rules.flow_steered[flow]:
            core += _core_entries(rules, flow, mine, covers)
    return Entries(core, access, int(plan.flows["associations"].to_numpy().sum()))


class Covers:
    """Of some filters, which others cover each. Of equal ones the first stands for all."""

    def __init__(self, filters: dict[int, Filter]) -> None:
        numbers = list(filters)
        index = CoveringIndex(filters.values())
        self.same: dict[int, int] = {}
        self.above: dict[int, frozenset[int]] = {}
        for number, each in filters.items():
            found = [numbers[other] for other in index.covering(each)]
            equal = [other for other in found if each.covers(filters[other])]
            self.same[number] = min(equal, default=number)
            self.above[number] = frozenset(found) - frozenset(equal)

    def uncovered(self, numbers: set[int]) -> int:
        distinct = {self.same[number] for number in numbers}
        return sum(not (self.above[number] & numbers) for number in distinct)


def _predicates(rules: Rules, members: Ints) -> Ints:
    return np.searchsorted(rules.member_offsets, members, "right") - 1


def _access_entries(rules: Rules, flow: int, members: Ints, covers: Covers) -> int:
    """Of the clients of all groups: one for a row, else the uncovered filters."""
    wanted: dict[int, set[int]] = defaultdict(set)
    for member, predicate in zip(members.tolist(), _predicates(rules, members).tolist(), strict=True):
        if rules.member_row[member] == NONE:
            wanted[int(rules.member_group[member])].add(predicate)
    found = sum(covers.uncovered(numbers) * int(rules.group_size[group]) for group, numbers in wanted.items())
    if len(rules.access_offsets) > 1:
        brokers = rules.place.shape[1]
        first, last = rules.access_offsets[flow * brokers], rules.access_offsets[(flow + 1) * brokers]
        found += int(rules.group_size[rules.access_group[first:last]].sum())
    return found


def _core_entries(rules: Rules, flow: int, members: Ints, covers: Covers) -> int:
    """On both directions of every link of the tree. Behind a link from parent to child is what stands below the child;
    the other way round, all the rest."""
    place = rules.place[rules.flow_tree[flow]]
    nodes = place[place != NONE]
    behind: dict[int, dict[int, int]] = {node: {} for node in nodes.tolist()}  # by node: how often each filter is there
    for member, predicate in zip(members.tolist(), _predicates(rules, members).tolist(), strict=True):
        here = behind[int(place[rules.group_broker[rules.member_group[member]]])]
        here[predicate] = here.get(predicate, 0) + 1
    every: dict[int, int] = {}
    for here in behind.values():
        _put_in(every, here)
    found = 0
    for node in nodes[np.argsort(-rules.node_depth[nodes], kind="stable")].tolist():
        parent = int(rules.node_parent[node])
        if parent == NONE:
            continue
        below = behind.pop(node)
        found += _on_link(rules, parent, node, covers, set(below))
        rest = {number for number, count in every.items() if below.get(number, 0) < count}
        found += _on_link(rules, node, parent, covers, rest)
        behind[parent] = _put_in(*sorted((behind[parent], below), key=len, reverse=True))
    return found


def _put_in(larger: dict[int, int], smaller: dict[int, int]) -> dict[int, int]:
    for number, count in smaller.items():
        larger[number] = larger.get(number, 0) + count
    return larger


def _on_link(rules: Rules, node: int, other: int, covers: Covers, numbers: set[int]) -> int:
    edges = np.arange(rules.edge_offsets[node], rules.edge_offsets[node + 1])
    row = rules.edge_row[edges[rules.edge_node[edges] == other][0]]
    return covers.uncovered(numbers) if row == NONE else 1
