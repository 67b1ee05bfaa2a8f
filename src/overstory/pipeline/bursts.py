"""Bursts: what an operator wants to know before a broad subscription is removed.

A filter that covers others keeps them from being forwarded. When its last subscription goes, they are uncovered, and
every link on the way to the publishers carries all of them at once: the *new roots*. This ranks subscriptions by that,
and predicts what each routing policy would send. Covering acts within one flow's tree; flows whose events are
restricted are left out.

1. On a link, behind it the broker of the subscription, a filter that it covers is a new root if somebody behind the
   link has it, and nobody there has another filter that covers it. Seen from that broker all brokers behind the link
   are those not below its far end: so of each filter only the first and the last broker, in preorder, matter.
2. φ is the share of the subscription's publications that somebody else wants as well. On the way from a publisher, a
   publication is somebody else's as far as the lowest *hop* where another way leaves (``kernels.branching``). Hops are
   counted on Spark, from the whole log.
3. Selective pruning ends the unsubscription at the first hop up to which at least ``threshold`` of a publisher's
   publications are shared; beyond it the filter stays, and those that nobody else wants cross links in vain. The
   cost-based policy leaves that part of the tree for which messages and vain crossings together are fewest.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import UsageError
from overstory.kernels.branching import Candidates, Places, lowest_hops
from overstory.kernels.branching import Rows as MatchedRows
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import cheapest_paths
from overstory.model.plan import EVERYTHING, Plan
from overstory.model.scenario import Scenario
from overstory.model.tables import TREE
from overstory.pipeline.entries import Covers, covers_of
from overstory.pipeline.rows import rows_of
from overstory.pipeline.rules import Metered, metered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Ints = NDArray[np.int64]
MOST = 500  # candidates that are looked at link by link: those that cover most filters
POLICIES = ("none", "active", "lazy", "packing", "selective", "cost")


class Burst(NamedTuple):
    subscription: int
    flow: int
    broker: int
    filter: str
    events: int  # publications that match
    similarity: float  # φ: the share of them that somebody else wants, too
    links: int  # that it is forwarded over
    new_roots: int  # on the link with most of them
    messages: dict[str, int]  # by policy, on all links together
    false_positives: dict[str, int]  # by policy: publications that cross a link in vain, in a log like this one

    def per_link(self, policy: str) -> float:
        return self.messages[policy] / max(self.links, 1)

    def as_json(self) -> dict[str, Any]:
        return self._asdict() | {"messages_per_link": {name: self.per_link(name) for name in POLICIES}}


class Candidate(NamedTuple):
    subscription: int
    predicate: int
    broker: int  # by position
    covered: Ints  # predicates


class Ground(NamedTuple):
    """Of one flow: its tree, who wants what where, and the candidates."""

    flow: int
    offsets: Ints  # the tree's links, by broker
    neighbours: Ints
    first_id: Ints  # by predicate: the lowest id of its subscriptions
    broker_offsets: Ints  # by predicate
    brokers: Ints
    candidates: list[Candidate]


def check(top: int, threshold: float) -> None:
    if not 0 <= threshold <= 1:
        raise UsageError(f"threshold={threshold}: it is a share, from 0 to 1")
    if top < 1:
        raise UsageError(f"top={top}: it is a number from 1 on")


def bursts_of(
    scenario: Scenario, plan: Plan, publishers: Ints, rows_for: Any, top: int = 20, threshold: float = 0.9
) -> list[Burst]:
    """The ``top`` of them by what active covering would send. ``rows_for`` gives the reduced log for a plan's rules."""
    known = metered(scenario, plan, publishers)
    covers = covers_of(tuple(known.predicates.texts))
    grounds = grounds_of(scenario, plan, known, covers)
    hops = hops_of(rows_for(known), known, grounds, len(scenario.network))
    found = []
    for at, ground in enumerate(grounds):
        for number, candidate in enumerate(ground.candidates):
            mine = hops[(hops[:, 0] == at) & (hops[:, 1] == number)][:, 2:]
            if len(mine):
                text = known.predicates.texts[candidate.predicate]
                found.append(burst(scenario, ground, candidate, covers, mine, text, threshold))
    return sorted(found, key=lambda burst: (-burst.messages["active"], burst.subscription))[:top]


# Candidates


def grounds_of(scenario: Scenario, plan: Plan, known: Metered, covers: Covers) -> list[Ground]:
    members = _members(scenario, plan, known, covers)
    flows = plan.flows.to_pylist()
    open_ones = [row["flow"] for row in flows if row["kind"] == TREE and row["events"] == EVERYTHING]
    grounds = [_ground(scenario, plan, members[members[:, 0] == flow], flow, covers) for flow in open_ones]
    ranked = sorted(
        (-len(candidate.covered), candidate.subscription) for ground in grounds for candidate in ground.candidates
    )
    chosen = {subscription for _, subscription in ranked[:MOST]}
    cut = [
        ground._replace(candidates=[candidate for candidate in ground.candidates if candidate.subscription in chosen])
        for ground in grounds
    ]
    return [ground for ground in cut if ground.candidates]


def _members(scenario: Scenario, plan: Plan, known: Metered, covers: Covers) -> Ints:
    """Flow, subscription, predicate and broker of all members; of equal filters the first stands for all."""
    table = scenario.subscriptions
    ids = table["id"].to_numpy()
    order = np.argsort(ids)
    subscription = plan.members["subscription"].to_numpy()
    at = order[np.searchsorted(ids[order], subscription)]
    predicate = covers.same[known.predicates.numbers(table["filter"])[at]]
    clients, brokers = (plan.attachments[name].to_numpy() for name in ("client", "broker"))
    place = np.argsort(clients)
    broker = brokers[place][np.searchsorted(clients[place], table["client"].to_numpy()[at])]
    columns = plan.members["flow"].to_numpy(), subscription, predicate, scenario.network.positions(broker)
    return np.stack(columns, axis=1)


def _ground(scenario: Scenario, plan: Plan, members: Ints, flow: int, covers: Covers) -> Ground:
    network, count = scenario.network, len(covers.same)
    mine = plan.trees["flow"].to_numpy() == flow
    one, other = (network.positions(plan.trees[name].to_numpy()[mine]) for name in ("source", "target"))
    ends = np.concatenate([one, other]), np.concatenate([other, one])
    order = np.lexsort((ends[1], ends[0]))
    offsets = np.searchsorted(ends[0][order], np.arange(len(network) + 1))
    first = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first, members[:, 2], members[:, 1])
    keys = np.unique(members[:, 2] * len(network) + members[:, 3])
    starts = np.searchsorted(keys // len(network), np.arange(count + 1))
    found = Ground(flow, offsets, ends[1][order], first, starts, keys % len(network), [])
    return found._replace(candidates=list(_candidates(members, found, covers)))


def _candidates(members: Ints, ground: Ground, covers: Covers) -> Iterator[Candidate]:
    """Filters of one subscription alone that none of the flow covers, and that cover some."""
    here, many = np.unique(members[:, 2], return_counts=True)
    is_here = np.zeros(len(covers.same), bool)
    is_here[here] = True
    lower = np.repeat(np.arange(len(covers.same)), np.diff(covers.offsets))
    both = is_here[lower] & is_here[covers.above]
    lower, above = lower[both], covers.above[both]
    order = np.argsort(above, kind="stable")
    starts = np.searchsorted(above[order], np.arange(len(covers.same) + 1))
    is_root = is_here.copy()
    is_root[lower] = False
    for predicate in here[many == 1].tolist():
        covered = lower[order][starts[predicate] : starts[predicate + 1]]
        if is_root[predicate] and len(covered):
            broker = int(ground.brokers[ground.broker_offsets[predicate]])
            yield Candidate(int(ground.first_id[predicate]), predicate, broker, covered)


# Hops, on Spark


def hops_of(rows: "DataFrame", known: Metered, grounds: list[Ground], brokers: int) -> Ints:
    """Ground, candidate, publishing broker, lowest hop and how many events, for all that there are."""
    context = rows.sparkSession.sparkContext
    same = covers_of(tuple(known.predicates.texts)).same
    trees = [_rooted(ground, [candidate.broker for candidate in ground.candidates]) for ground in grounds]
    given = context.broadcast((known.publishers, known.rules.publisher_broker, same, grounds, trees))
    names = ("ground", "candidate", "broker", "hop", "events")

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            counted = counted_hops(batch, *given.value)
            yield pa.RecordBatch.from_pydict(dict(zip(names, counted.T.copy(), strict=True)))

    found = rows.mapInArrow(count, ", ".join(f"{name} bigint" for name in names)).toArrow()
    return np.stack([found[name].to_numpy() for name in names], axis=1)


def counted_hops(
    batch: pa.RecordBatch,
    publishers: Ints,
    publisher_broker: Ints,
    same: Ints,
    grounds: list[Ground],
    trees: list[tuple[Ints, Ints]],
) -> Ints:
    """Counts hops as Spark's workers do, in this process.

    Of filters that are equal a row has all, so each counts once."""
    rows = rows_of(batch, publishers)
    row = np.repeat(np.arange(len(rows.events)), np.diff(rows.offsets))
    keys = np.unique(row * len(same) + same[rows.predicates])
    offsets = np.searchsorted(keys // len(same), np.arange(len(rows.events) + 1))
    roots = publisher_broker[rows.publisher]
    every = [np.empty((0, 5), np.int64)]
    for number, (ground, (parents, depths)) in enumerate(zip(grounds, trees, strict=True)):
        candidate_of = np.full(len(same), NONE)
        candidate_of[[candidate.predicate for candidate in ground.candidates]] = np.arange(len(ground.candidates))
        matched, places = MatchedRows(roots, offsets, keys % len(same)), Places(ground.broker_offsets, ground.brokers)
        which, mine, hops = lowest_hops(Candidates(candidate_of, parents, depths), matched, places)
        distinct, at = np.unique(np.stack([which, roots[mine], hops]), axis=1, return_inverse=True)
        events = np.zeros(distinct.shape[1], np.int64)
        np.add.at(events, at.reshape(-1), rows.events[mine])
        every.append(np.column_stack([np.full(len(events), number), *distinct, events]))
    return np.concatenate(every)


def _rooted(ground: Ground, brokers: list[int]) -> tuple[Ints, Ints]:
    """The tree seen from each of these brokers: parents, and depths."""
    shape = len(brokers), len(ground.offsets) - 1
    distances, before = np.empty(shape), np.empty(shape, np.int64)
    prices = np.ones(len(ground.neighbours))
    cheapest_paths(ground.offsets, ground.neighbours, prices, np.array(brokers, np.int64), distances, before)
    return before, np.where(np.isfinite(distances), distances, 0).astype(np.int64)


# What would be sent


def burst(
    scenario: Scenario,
    ground: Ground,
    candidate: Candidate,
    covers: Covers,
    hops: Ints,
    text: str,
    threshold: float,
) -> Burst:
    """``hops`` has publishing broker, lowest hop and events."""
    parents, depths = (table[0] for table in _rooted(ground, [candidate.broker]))
    links = _links_to(parents, np.unique(hops[:, 0]))
    roots, late = new_roots(ground, candidate, covers, parents, depths, links)
    total = int(hops[:, 2].sum())
    alone = int(hops[hops[:, 1] == NONE, 2].sum())
    messages = {
        "none": len(links),
        "active": int((1 + roots).sum()),
        "lazy": int((1 + late).sum()),
        "packing": int((1 + (roots > 0)).sum()),
    }
    vain = dict.fromkeys(messages, 0)
    ways = _ways(parents, links, hops)
    messages["selective"], vain["selective"] = _selective(ways, 1 + roots, threshold)
    messages["cost"], vain["cost"] = _cheapest(ways, 1 + roots, parents[links], links, depths)
    ids = scenario.network.ids
    most = int(roots.max(initial=0))
    similarity = 1 - alone / total
    where = int(ids[candidate.broker])
    return Burst(candidate.subscription, ground.flow, where, text, total, similarity, len(links), most, messages, vain)


def _links_to(parents: Ints, brokers: Ints) -> Ints:
    """The far ends of all links from the root of a tree to these brokers."""
    found: set[int] = set()
    for broker in brokers.tolist():
        while parents[broker] != NONE and broker not in found:
            found.add(broker)
            broker = int(parents[broker])
    return np.array(sorted(found), np.int64)


def new_roots(
    ground: Ground, candidate: Candidate, covers: Covers, parents: Ints, depths: Ints, links: Ints
) -> tuple[Ints, Ints]:
    """By link, how many filters are uncovered; and how many of them came after the subscription: lazy covering has
    forwarded the others long ago."""
    number, size = _preorder(parents, depths)
    wanted = candidate.covered
    outside = _outside([wanted], ground, number, size, links)
    above = [covers.above[covers.offsets[predicate] : covers.offsets[predicate + 1]] for predicate in wanted.tolist()]
    others = [covering[(covering != candidate.predicate)] for covering in above]
    covered = _outside(others, ground, number, size, links, lists=True)
    new = outside & ~covered
    later = ground.first_id[wanted] > candidate.subscription
    return new.sum(axis=0), new[later].sum(axis=0)


def _outside(
    lists_of: list[Ints], ground: Ground, number: Ints, size: Ints, links: Ints, lists: bool = False
) -> NDArray[np.bool_]:
    """By filter, or list of filters, and by link: whether a broker that has one stands not below the link's end."""
    groups = lists_of if lists else [np.array([predicate]) for predicate in lists_of[0].tolist()]
    low, high = np.empty(len(groups), np.int64), np.empty(len(groups), np.int64)
    for at, group in enumerate(groups):
        places = np.concatenate(
            [np.empty(0, np.int64)]
            + [
                ground.brokers[ground.broker_offsets[predicate] : ground.broker_offsets[predicate + 1]]
                for predicate in group.tolist()
            ]
        )
        low[at], high[at] = (number[places].min(), number[places].max()) if len(places) else (len(number), -1)
    start, end = number[links], number[links] + size[links]
    found: NDArray[np.bool_] = (low[:, None] < start) | (high[:, None] >= end)
    found[high < 0] = False
    return found


def _preorder(parents: Ints, depths: Ints) -> tuple[Ints, Ints]:
    """By broker: its number, and how many there are from it down."""
    size = np.ones(len(parents), np.int64)
    order = np.argsort(-depths, kind="stable")
    for node in order.tolist():
        if parents[node] != NONE:
            size[parents[node]] += size[node]
    number, free = np.zeros(len(parents), np.int64), np.ones(len(parents), np.int64)
    for node in order[::-1].tolist():
        above = parents[node]
        if above != NONE:
            number[node] = number[above] + free[above]
            free[above] += size[node]
    return number, size


class Way(NamedTuple):
    """From the subscription's broker to one that publishes: places of its links, the nearest first, and for each the
    events that cross it for this subscription alone."""

    links: Ints
    lonely: Ints
    events: int


def _ways(parents: Ints, links: Ints, hops: Ints) -> list[Way]:
    place = np.full(len(parents), NONE)
    place[links] = np.arange(len(links))
    found = []
    for broker in np.unique(hops[:, 0]).tolist():
        mine, way = hops[hops[:, 0] == broker], []
        while parents[broker] != NONE:
            way.append(place[broker])
            broker = int(parents[broker])
        lowest = np.where(mine[:, 1] == NONE, len(way), mine[:, 1])
        counts = np.bincount(lowest, mine[:, 2], len(way) + 1).astype(np.int64)
        lonely = counts[::-1].cumsum()[::-1][1:]
        found.append(Way(np.array(way[::-1], np.int64), lonely, int(mine[:, 2].sum())))
    return found


def _selective(ways: list[Way], costs: Ints, threshold: float) -> tuple[int, int]:
    """Messages and vain crossings: each publisher's way is left at the nearest hop from which on enough is shared."""
    paid, vain = np.zeros(len(costs), bool), 0
    for way in ways:
        shared = np.flatnonzero(way.events - way.lonely >= threshold * way.events)
        hop = int(shared[0]) if len(shared) else len(way.links)
        paid[way.links[:hop]] = True
        vain += int(way.lonely[hop:].sum())
    return int(costs[paid].sum()), vain


def _cheapest(ways: list[Way], costs: Ints, above: Ints, links: Ints, depths: Ints) -> tuple[int, int]:
    """The part of the tree, from the subscription's broker on, that costs least to leave: from the farthest links
    inwards, a link is left if its messages and the best for what is beyond are fewer than all that would cross in
    vain."""
    lonely = np.zeros(len(costs), np.int64)
    for way in ways:
        lonely[way.links] += way.lonely
    kept, best = lonely.copy(), costs.copy()  # all that crosses in vain from here on; the least that can be had
    messages, vain = costs.copy(), np.zeros(len(costs), np.int64)  # of that least
    inner = {int(broker): at for at, broker in enumerate(links)}
    total = [0, 0]
    for at in np.argsort(-depths[links], kind="stable").tolist():
        if kept[at] <= best[at]:
            best[at], messages[at], vain[at] = kept[at], 0, kept[at]
        over = inner.get(int(above[at]))
        if over is None:
            total[0] += int(messages[at])
            total[1] += int(vain[at])
            continue
        kept[over] += kept[at]
        best[over] += best[at]
        messages[over] += messages[at]
        vain[over] += vain[at]
    return total[0], total[1]
