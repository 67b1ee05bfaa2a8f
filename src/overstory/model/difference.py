"""What differs between two plans, in arrays: trees, attachments, filter rows and the clients of each broker.

Flow numbers mean nothing across plans. Trees are therefore paired by how many member subscriptions they share.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from scipy.sparse import csr_array

from overstory.model.network import Ints
from overstory.model.plan import Plan

END = ("source", "target")


class TreeChange(NamedTuple):
    """A tree of the first plan and its partner in the second. A tree that is new or gone lacks one of the two."""

    first: int | None  # its flow
    second: int | None
    subscriptions: tuple[int, int]  # how many each of the two serves
    shared: int  # subscriptions that both serve
    added: list[tuple[int, int]]  # links by the ids of their ends, the smaller one first
    removed: list[tuple[int, int]]


class ClientMove(NamedTuple):
    """A client that is attached elsewhere; None where a plan does not attach it."""

    client: int
    before: int | None
    after: int | None


class FilterChange(NamedTuple):
    """A filter row that differs; None where a plan has no row for that directed link in that tree."""

    first: int | None  # the flow
    second: int | None
    source: int
    target: int
    before: str | None
    after: str | None


class LoadChange(NamedTuple):
    """How many clients each plan attaches to a broker."""

    broker: int
    before: int
    after: int


class RegionChange(NamedTuple):
    """A broker that is in another region of a steered flow; None where the flow of a plan has no regions."""

    first: int | None  # the flow
    second: int | None
    broker: int
    before: int | None  # the gateway
    after: int | None


class Difference(NamedTuple):
    trees: list[TreeChange]  # those with other links or other members, most changed links first
    same_trees: int
    links: tuple[int, int]  # different links that some tree of the plan uses
    common_links: int
    clients: list[ClientMove]
    filters: list[FilterChange]
    loads: list[LoadChange]
    regions: list[RegionChange]


class Pairs(NamedTuple):
    """Flows that belong together, by their numbers, and how many subscriptions both have."""

    first: Ints
    second: Ints
    shared: Ints


class _Labels(NamedTuple):
    """One number for both flows of a pair, and one for each flow that is alone: what rows are compared by."""

    flows: tuple[Ints, Ints]  # of each plan, ascending
    labels: tuple[Ints, Ints]  # of those
    of_label: list[tuple[int | None, int | None]]
    shared: Ints

    def of(self, side: int, flows: Ints) -> Ints:
        return self.labels[side][np.searchsorted(self.flows[side], flows)]


def difference(one: Plan, other: Plan) -> Difference:
    labels = _labelled(one, other, paired(one, other))
    trees = _tree_changes(one, other, labels)
    used = [_used_links(plan) for plan in (one, other)]
    return Difference(
        trees=trees,
        same_trees=len(labels.of_label) - len(trees),
        links=(len(used[0]), len(used[1])),
        common_links=len(used[0]) - len(_without(used[0], used[1])),
        clients=_moves(one, other),
        filters=_filter_changes(one, other, labels),
        loads=_load_changes(one, other),
        regions=_region_changes(one, other, labels),
    )


def paired(one: Plan, other: Plan) -> Pairs:
    """The two flows that share most subscriptions first, the smaller numbers on ties; each flow has one partner.

    Flows without any subscription are partners if they have the same number.
    """
    flows = _flows(one), _flows(other)
    memberships = _memberships(one, other, flows)
    common = (memberships[0] @ memberships[1].T).tocoo()
    first, second, shared = _best_first(common.row.astype(np.int64), common.col.astype(np.int64), common.data)
    idle = [flow[np.diff(matrix.indptr) == 0] for flow, matrix in zip(flows, memberships, strict=True)]
    empty = np.intersect1d(*idle)
    return Pairs(
        np.concatenate([flows[0][first], empty]),
        np.concatenate([flows[1][second], empty]),
        np.concatenate([shared, np.zeros(len(empty), np.int64)]),
    )


def _flows(plan: Plan) -> Ints:
    tables = (plan.flows, plan.members, plan.trees, plan.filters, plan.regions)
    return np.unique(np.concatenate([rows["flow"].to_numpy() for rows in tables]))


def _memberships(one: Plan, other: Plan, flows: tuple[Ints, Ints]) -> list[csr_array]:
    """Flows by subscriptions: 1 where the flow serves a part of the subscription."""
    known = np.unique(np.concatenate([plan.members["subscription"].to_numpy() for plan in (one, other)]))
    found = []
    for plan, numbers in zip((one, other), flows, strict=True):
        row = np.searchsorted(numbers, plan.members["flow"].to_numpy())
        column = np.searchsorted(known, plan.members["subscription"].to_numpy())
        matrix = csr_array((np.ones(len(row), np.int64), (row, column)), shape=(len(numbers), len(known)))
        matrix.sum_duplicates()
        matrix.data[:] = 1
        found.append(matrix)
    return found


def _best_first(first: Ints, second: Ints, shared: Ints) -> tuple[Ints, Ints, Ints]:
    """Each round takes all pairs that are the best that is left for both partners: what one by one would take, too."""
    order = np.lexsort((second, first, -shared))
    first, second, shared = first[order], second[order], shared[order]
    taken: list[tuple[Ints, Ints, Ints]] = []
    while len(first):
        best = np.intersect1d(np.unique(first, return_index=True)[1], np.unique(second, return_index=True)[1])
        taken.append((first[best], second[best], shared[best]))
        left = ~(np.isin(first, first[best]) | np.isin(second, second[best]))
        first, second, shared = first[left], second[left], shared[left]
    columns = [np.concatenate([shared[:0], *(part[at] for part in taken)]) for at in range(3)]
    return columns[0], columns[1], columns[2]


def _labelled(one: Plan, other: Plan, pairs: Pairs) -> _Labels:
    flows = _flows(one), _flows(other)
    gone, new = np.setdiff1d(flows[0], pairs.first), np.setdiff1d(flows[1], pairs.second)
    both: list[tuple[int | None, int | None]] = [*zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)]
    of_label = both + [(flow, None) for flow in gone.tolist()] + [(None, flow) for flow in new.tolist()]
    labels = np.empty(len(flows[0]), np.int64), np.empty(len(flows[1]), np.int64)
    count = len(both)
    labels[0][np.searchsorted(flows[0], pairs.first)] = np.arange(count)
    labels[1][np.searchsorted(flows[1], pairs.second)] = np.arange(count)
    labels[0][np.searchsorted(flows[0], gone)] = count + np.arange(len(gone))
    labels[1][np.searchsorted(flows[1], new)] = count + len(gone) + np.arange(len(new))
    return _Labels(flows, labels, of_label, np.concatenate([pairs.shared, np.zeros(len(gone) + len(new), np.int64)]))


def _tree_changes(one: Plan, other: Plan, labels: _Labels) -> list[TreeChange]:
    links = [_tree_links(plan, labels, side) for side, plan in enumerate((one, other))]
    added, removed = _without(links[1], links[0]), _without(links[0], links[1])
    sizes = [_subscriptions(plan, labels, side) for side, plan in enumerate((one, other))]
    more, fewer = (np.bincount(rows[:, 0], minlength=len(labels.of_label)) for rows in (added, removed))
    alone = np.array([None in flows for flows in labels.of_label], bool)
    changed = (more + fewer > 0) | (sizes[0] != labels.shared) | (sizes[1] != labels.shared) | alone
    order = np.lexsort((np.arange(len(changed)), -(more + fewer)))
    return [
        TreeChange(
            labels.of_label[label][0],
            labels.of_label[label][1],
            (int(sizes[0][label]), int(sizes[1][label])),
            int(labels.shared[label]),
            _ends(added, label),
            _ends(removed, label),
        )
        for label in order[changed[order]].tolist()
    ]


def _tree_links(plan: Plan, labels: _Labels, side: int) -> Ints:
    """Rows of label and both ends, the smaller one first; ascending, each once."""
    ends = np.stack([plan.trees["source"].to_numpy(), plan.trees["target"].to_numpy()], axis=1)
    label = labels.of(side, plan.trees["flow"].to_numpy())
    return np.unique(np.column_stack([label, np.sort(ends, axis=1)]), axis=0)


def _without(rows: Ints, others: Ints) -> Ints:
    """The rows that are not among the others. Both have each row once; the result is ascending."""
    _, where, counts = np.unique(np.concatenate([rows, others]), axis=0, return_inverse=True, return_counts=True)
    alone: Ints = rows[counts[where.reshape(-1)[: len(rows)]] == 1]
    return alone


def _ends(rows: Ints, label: int) -> list[tuple[int, int]]:
    begin, end = np.searchsorted(rows[:, 0], [label, label + 1])
    return [(source, target) for _, source, target in rows[begin:end].tolist()]


def _subscriptions(plan: Plan, labels: _Labels, side: int) -> Ints:
    """By label how many subscriptions the flow serves."""
    label = labels.of(side, plan.members["flow"].to_numpy())
    members = np.unique(np.column_stack([label, plan.members["subscription"].to_numpy()]), axis=0)
    return np.bincount(members[:, 0], minlength=len(labels.of_label)).astype(np.int64)


def _used_links(plan: Plan) -> Ints:
    """Rows of both ends, the smaller one first: the links of all trees, each once."""
    ends = np.stack([plan.trees["source"].to_numpy(), plan.trees["target"].to_numpy()], axis=1)
    return np.unique(np.sort(ends, axis=1), axis=0)


def _moves(one: Plan, other: Plan) -> list[ClientMove]:
    """Clients that move, ascending by client."""
    rows = [plan.attachments.sort_by("client") for plan in (one, other)]
    clients = np.unique(np.concatenate([table["client"].to_numpy() for table in rows]))
    brokers = [_brokers_of(table, clients) for table in rows]
    changed = np.flatnonzero(_differs(*brokers))
    return [ClientMove(int(clients[at]), brokers[0][at].as_py(), brokers[1][at].as_py()) for at in changed.tolist()]


def _brokers_of(attachments: pa.Table, clients: Ints) -> pa.Array:
    """Of each client its broker, null where it has none."""
    known = attachments["client"].to_numpy()
    at = np.searchsorted(known, clients)
    found = np.isin(clients, known)
    return attachments["broker"].combine_chunks().take(pa.array(np.where(found, at, 0), mask=~found))


def _differs(before: pa.Array, after: pa.Array) -> np.ndarray:
    codes = pa.chunked_array([before, after]).dictionary_encode().combine_chunks().indices.fill_null(-1).to_numpy()
    return np.asarray(codes[: len(before)] != codes[len(before) :])


def _filter_changes(one: Plan, other: Plan, labels: _Labels) -> list[FilterChange]:
    """Ascending by tree, then by link."""
    rows = [
        np.column_stack(
            [labels.of(side, plan.filters["flow"].to_numpy()), *(plan.filters[end].to_numpy() for end in END)]
        )
        for side, plan in enumerate((one, other))
    ]
    keys, where = np.unique(np.concatenate(rows), axis=0, return_inverse=True)
    where = where.reshape(-1)
    split = len(rows[0])
    texts = [_texts(one, where[:split], len(keys)), _texts(other, where[split:], len(keys))]
    changed = np.flatnonzero(_differs(*texts)).tolist()
    return [
        FilterChange(
            labels.of_label[int(keys[at, 0])][0],
            labels.of_label[int(keys[at, 0])][1],
            int(keys[at, 1]),
            int(keys[at, 2]),
            texts[0][at].as_py(),
            texts[1][at].as_py(),
        )
        for at in changed
    ]


def _region_changes(one: Plan, other: Plan, labels: _Labels) -> list[RegionChange]:
    """Ascending by tree, then by broker."""
    known: list[dict[tuple[int, int], int]] = []
    for side, plan in enumerate((one, other)):
        flows = labels.of(side, plan.regions["flow"].to_numpy()).tolist()
        brokers, gateways = (plan.regions[name].to_pylist() for name in ("broker", "gateway"))
        known.append(dict(zip(zip(flows, brokers, strict=True), gateways, strict=True)))
    before, after = known
    return [
        RegionChange(*labels.of_label[label], broker, before.get((label, broker)), after.get((label, broker)))
        for label, broker in sorted(before.keys() | after.keys())
        if before.get((label, broker)) != after.get((label, broker))
    ]


def _texts(plan: Plan, where: Ints, size: int) -> pa.Array:
    """The filters by key, null where the plan has no row."""
    at, known = np.zeros(size, np.int64), np.zeros(size, bool)
    at[where], known[where] = np.arange(len(where)), True
    return plan.filters["filter"].combine_chunks().take(pa.array(at, mask=~known))


def _load_changes(one: Plan, other: Plan) -> list[LoadChange]:
    """Brokers whose load changes, ascending by broker."""
    attached = [plan.attachments["broker"].to_numpy() for plan in (one, other)]
    brokers = np.unique(np.concatenate(attached))
    counts = [np.bincount(np.searchsorted(brokers, each), minlength=len(brokers)) for each in attached]
    changed = np.flatnonzero(counts[0] != counts[1]).tolist()
    return [LoadChange(int(brokers[at]), int(counts[0][at]), int(counts[1][at])) for at in changed]
