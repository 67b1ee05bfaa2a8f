"""Coverage: whether rows of ``filters`` let through all that members behind them want, and whether each subscription
gets every event that it wants just once.

Both are questions about boxes, which kernels answer for all members at once (``kernels.holding``): behind a link those
that stand together at a broker are asked about by their hull first. Only what is not just boxes is compared one by one.
"""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.errors import Problem
from overstory.kernels.forest import Forest
from overstory.kernels.holding import (
    LEFT_OUT,
    NOT_WHOLE,
    ONCE,
    TWICE,
    UNKNOWN,
    Groups,
    Pool,
    hulls_of,
    rows_left_out,
    served_once,
    work_for,
)
from overstory.kernels.nothing import NONE
from overstory.kernels.paths import root_forest
from overstory.model.plan import Plan
from overstory.model.regions import gateway_positions, regions_of
from overstory.pipeline.comparing import Comparing, conjunction
from overstory.pipeline.forest import both_ways
from overstory.pipeline.lookups import looked_up
from overstory.pipeline.wanted import Wanted

Ints = NDArray[np.int64]
MOST_PROBLEMS = 20
WRONG = {
    TWICE: "is served twice: two of its flows take the same events",
    NOT_WHOLE: "is not served whole: its flows leave events out",
}


class Asked(NamedTuple):
    """Rows of ``filters``, and for each of them the groups of members that stand behind its link: those from span 0 up
    to span 1, and from span 2 up to span 3. Members of a group are rows of ``members``, one for each want."""

    rows: Ints
    spans: Ints
    offsets: Ints
    members: Ints


class Coverage:
    """``trusted`` counts the questions that nobody could answer."""

    def __init__(self, wanted: Wanted, comparing: Comparing) -> None:
        self.wanted, self.comparing = wanted, comparing
        self.trusted_rows = self.trusted_subscriptions = 0

    def rows_too_narrow(self, rows: Ints) -> list[Problem]:
        """Of rows that stand on links, those that do not cover what is wanted behind them."""
        plan, wanted = self.wanted.plan, self.wanted
        targets = plan.filters["target"].to_numpy()[rows]
        to_broker = np.isin(targets, wanted.scenario.network.ids)
        summary = plan.filters["source"].to_numpy()[rows] == targets
        of_region = summary & is_region_summary(plan, rows)
        lost: dict[int, int] = {}
        for asked in (
            behind_links(wanted, rows[to_broker & ~summary]),
            behind_access(wanted, rows[~to_broker]),
            behind_summaries(wanted, rows[summary & ~of_region]),
            behind_regions(wanted, rows[of_region]),
        ):
            lost |= self._lost(asked)
        ids = plan.members["subscription"].to_numpy()
        return [
            Problem("filters", row + 1, "filter", f"it does not cover subscription {ids[member]}, which is behind")
            for row, member in sorted(lost.items())
        ]

    def _lost(self, asked: Asked) -> dict[int, int]:
        """By row that leaves something out: a row of ``members`` that wants it."""
        if not len(asked.rows):
            return {}
        (pool, _), domains = self.wanted.pooled, self.wanted.space.domains
        unions, filters = self.wanted.want[asked.members], self.wanted.row[asked.rows]
        groups = Groups(asked.offsets, unions, hulls_of(pool, asked.offsets, unions))
        work = work_for(domains, *_room(pool, filters))
        found, doubts, count = rows_left_out(
            pool, domains, filters, asked.spans, groups, work, max(self.comparing.left, 0)
        )
        sure = np.flatnonzero(found != NONE)
        lost = dict(zip(asked.rows[sure].tolist(), asked.members[found[sure]].tolist(), strict=True))
        self.trusted_rows += count - len(doubts)
        for row, member in zip(asked.rows[doubts[:, 0]].tolist(), asked.members[doubts[:, 1]].tolist(), strict=True):
            if row not in lost:
                answer = self._compared(row, member)
                self.trusted_rows += answer == UNKNOWN
                if answer == LEFT_OUT:
                    lost[row] = member
        return lost

    def _compared(self, row: int, member: int) -> int:
        self.comparing.left -= 1
        return self.comparing.holds([self.wanted.plan.filters["filter"][row].as_py()], self._share(member))

    def _share(self, member: int) -> str:
        """What a row of ``members`` stands for, as a text."""
        plan, wanted = self.wanted.plan, self.wanted
        events = plan.flows["events"][int(wanted.flow[member])].as_py()
        part = plan.members["part"][member].as_py()
        return conjunction([self._filter(int(wanted.subscription[member])), events, *([part] if part else [])])

    def _filter(self, subscription: int) -> str:
        text: str = self.wanted.scenario.subscriptions["filter"][subscription].as_py()
        return text

    def not_once(self) -> list[Problem]:
        """Subscriptions whose flows' shares are not disjoint, or do not cover them. Of equal cases one is said."""
        wanted = self.wanted
        order = np.argsort(wanted.subscription, kind="stable")
        subscriptions, starts = np.unique(wanted.subscription[order], return_index=True)
        ends = np.append(starts, len(order))
        simple = (wanted.events[wanted.flow] == wanted.everything) & (wanted.part == wanted.everything)
        asked = np.flatnonzero((np.diff(ends) > 1) | ~simple[order[starts]]) if len(starts) else starts
        counts = np.diff(ends)[asked]
        offsets = np.concatenate([[0], np.cumsum(counts)])
        members = order[np.repeat(starts[asked] - offsets[:-1], counts) + np.arange(offsets[-1])]
        pool = wanted.pooled[0]
        filters = wanted.filter[subscriptions[asked]]
        answers = served_once(pool, wanted.space.domains, filters, offsets, wanted.want[members])
        found: dict[object, Problem] = {}
        for at in np.flatnonzero(answers != ONCE).tolist():
            ours = members[offsets[at] : offsets[at + 1]]
            case = int(filters[at]), *sorted(zip(wanted.flow[ours].tolist(), wanted.part[ours].tolist(), strict=True))
            if case in found:
                continue
            what = self._what(int(subscriptions[asked[at]]), int(answers[at]), ours)
            if what:
                id_ = wanted.plan.members["subscription"][int(ours[0])]
                found[case] = Problem("members", None, "subscription", f"subscription {id_} {what}")
            if len(found) == MOST_PROBLEMS:
                break
        return list(found.values())

    def _what(self, subscription: int, answer: int, members: Ints) -> str:
        if answer in WRONG:
            return WRONG[answer]
        if self.comparing.left <= 0:
            self.trusted_subscriptions += 1
            return ""
        self.comparing.left -= 1 + len(members) * len(members)  # pairs, and as many again for all of them together
        shares = [self._share(member) for member in members.tolist()]
        answer = self.comparing.once(self._filter(subscription), shares)
        self.trusted_subscriptions += answer not in (ONCE, *WRONG)
        return WRONG.get(answer, "")


def _room(pool: Pool, unions: Ints) -> tuple[int, int]:
    """The most boxes of one of these unions, and attributes."""
    first, last = pool.offsets[unions], pool.offsets[unions + 1]
    ranges = pool.range_offsets[last] - pool.range_offsets[first]
    return max(int((last - first).max(initial=0)), 1), max(int(ranges.max(initial=0)), 1)


def behind_links(wanted: Wanted, rows: Ints) -> Asked:
    """What rows between brokers must cover. Groups are the members at a node of a flow's tree, in preorder."""
    brokers = len(wanted.scenario.network)
    tree, (flow, source, target) = _links(wanted, wanted.plan.trees), _links(wanted, wanted.plan.filters.take(rows))
    inner = np.isin(tree[0], flow)
    ends = [tree[0][inner] * brokers + end[inner] for end in tree[1:]]
    nodes = np.unique(np.concatenate(ends))
    _, there, offsets = both_ways(np.searchsorted(nodes, ends[0]), np.searchsorted(nodes, ends[1]), len(nodes))
    parent, depth = np.empty(len(nodes), np.int64), np.empty(len(nodes), np.int64)
    root_forest(offsets, there, parent, depth)
    forest = Forest(parent, depth)
    one, other = (np.searchsorted(nodes, flow * brokers + end) for end in (source, target))
    down, up = parent[other] == one, parent[one] == other
    kept = down | up  # else the links have a circle, which is said elsewhere
    spans = _spans(forest, parent, one, other, down)[kept]
    number = looked_up(wanted.flow * brokers + wanted.broker, nodes, forest.number)
    return Asked(rows[kept], spans, *_grouped(number, wanted.want, len(nodes)))


def _links(wanted: Wanted, table: pa.Table) -> tuple[Ints, Ints, Ints]:
    """The numbers of flows, and the positions of both ends."""
    positions = wanted.scenario.network.positions
    ends = positions(table["source"].to_numpy()), positions(table["target"].to_numpy())
    return wanted.flow_numbers(table["flow"].to_numpy()), *ends


def _spans(forest: Forest, parent: Ints, one: Ints, other: Ints, down: NDArray[np.bool_]) -> Ints:
    """Behind a link down is all below its end; behind a link up, all of the tree but what is below its beginning."""
    roots = np.append(np.sort(forest.number[parent == NONE]), len(parent))
    at = np.searchsorted(roots, forest.number[one], "right")
    below = np.where(down, other, one)
    start = forest.number[below]
    stop = start + forest.size[below]
    first, last = np.where(down, start, roots[at - 1]), np.where(down, stop, start)
    return np.stack([first, last, np.where(down, 0, stop), np.where(down, 0, roots[at] if len(at) else stop)], axis=1)


def behind_access(wanted: Wanted, rows: Ints) -> Asked:
    """What rows for clients must cover. Groups are the members of one client in one flow."""
    return _behind(wanted, rows, wanted.plan.filters["target"].to_numpy()[rows], wanted.client)


def behind_summaries(wanted: Wanted, rows: Ints) -> Asked:
    """What summaries of hosts must cover. Groups are the members at one broker in one flow."""
    brokers = wanted.scenario.network.positions(wanted.plan.filters["target"].to_numpy()[rows])
    return _behind(wanted, rows, brokers, wanted.broker)


def is_region_summary(plan: Plan, rows: Ints) -> NDArray[np.bool_]:
    """Whether rows that are summaries are those of regions."""
    of_region = {(flow, gateway) for flow, gateways in regions_of(plan).items() for gateway in gateways.values()}
    flows, sources = (plan.filters[name].to_numpy()[rows].tolist() for name in ("flow", "source"))
    return np.array([each in of_region for each in zip(flows, sources, strict=True)], bool)


def behind_regions(wanted: Wanted, rows: Ints) -> Asked:
    """What summaries of regions must cover. Groups are the members in one region of one flow."""
    network, regions = wanted.scenario.network, regions_of(wanted.plan)
    region = np.full(len(wanted.broker), NONE)
    for flow, gateway_of in regions.items():
        mine = wanted.flow == wanted.flow_numbers(np.array([flow]))[0]
        region[mine] = gateway_positions(network, gateway_of)[wanted.broker[mine]]
    return _behind(wanted, rows, network.positions(wanted.plan.filters["target"].to_numpy()[rows]), region)


def _behind(wanted: Wanted, rows: Ints, place: Ints, member_place: Ints) -> Asked:
    """What rows must cover: for each row, the members in its flow whose place is that of the row."""
    flow = wanted.flow_numbers(wanted.plan.filters["flow"].to_numpy()[rows])
    places = np.unique(np.concatenate([place, member_place]))
    keys = flow * max(len(places), 1) + np.searchsorted(places, place)
    groups, which = np.unique(keys, return_inverse=True)
    mine = wanted.flow * max(len(places), 1) + np.searchsorted(places, member_place)
    number = looked_up(mine, groups, np.arange(len(groups)))
    which = which.reshape(-1)
    spans = np.stack([which, which + 1, which * 0, which * 0], axis=1)
    return Asked(rows, spans, *_grouped(number, wanted.want, len(groups)))


def _grouped(group: Ints, want: Ints, count: int) -> tuple[Ints, Ints]:
    """Members by group, one for each want in it: offsets, and their rows; NONE is no group."""
    inside = np.flatnonzero(group != NONE)
    width = int(want.max(initial=0)) + 1
    keys, first = np.unique(group[inside] * width + want[inside], return_index=True)
    return np.searchsorted(keys, np.arange(count + 1) * width), inside[first]
