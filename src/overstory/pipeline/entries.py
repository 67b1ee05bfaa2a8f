"""Entries: the routing state that a plan keeps alive, which upkeep prices.

An entry is one row of ``filters``; where a flow has no row for a directed link, one filter for each that members behind
the link have and that no other of theirs covers. Equal filters are one. Every broker announces everything, so there is
an announcer behind each link. Steered flows have no tree: theirs are the summaries at publishing brokers
(``summaries``).

How they are counted without looking at every link's filters: let A be the brokers of a filter's members in a flow, and
B those of all filters that cover it. Behind a link it needs an entry if A is there and B is not.

- Below a node (behind the link down to it) that is the case if A is below it, but not the *tops*: for each of A the
  first node on the way to the root that has B below it. How many of a set are below a node, counted as one: a mark at
  each, less one where the ways of two that follow each other in preorder meet; the sum of marks below is 1 or 0.
- The other nodes (behind the link up from it) have some of A or B unless all of both stand below the node, that is,
  unless it is above where all their ways to the root meet; and likewise some of B. Where they have some of A or B and
  none of B, the filter needs an entry.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.filters import parse_filter
from overstory.kernels.forest import Forest
from overstory.kernels.metering import EVERY, Rules
from overstory.kernels.nothing import NONE
from overstory.matching import CoveringIndex
from overstory.matching.covering import covering_pairs
from overstory.matching.reading import Reading
from overstory.model.plan import Plan
from overstory.model.scenario import Scenario
from overstory.pipeline.columns import texts_of
from overstory.pipeline.rules import Metered, listed
from overstory.pipeline.summaries import (
    Places,
    Summaries,
    is_gateway,
    is_steered,
    is_summarised,
    summary_entries,
    with_rows,
)

Ints = NDArray[np.int64]
AT_ONCE = 1 << 22  # pairs of a broker and a covering filter that are looked at together
MOST_UNPRICED = 20_000  # different filters whose entries are counted although nobody pays for them


class Entries(NamedTuple):
    """None where they were not counted."""

    core: int | None
    access: int | None
    associations: int
    clients: tuple[int, ...] = ()  # by flow: those that have a share of it


def entries_of(plan: Plan, metered: Metered, priced: bool = True) -> Entries:
    """Where they are not ``priced``, core and access are counted only if there are few different filters: which of them
    cover which is then worth its time only to those who want to see it."""
    rules = metered.rules
    associations = int(plan.flows["associations"].to_numpy().sum())
    numbers, wanted = _filters_of(rules)
    clients = clients_of_flows(rules)
    if not priced and len(numbers) > MOST_UNPRICED:
        return Entries(None, None, associations, clients)
    covers = covers_of(tuple(metered.predicates.texts[number] for number in numbers.tolist()))
    wanted = covers.same[wanted]
    return Entries(
        _core_entries(rules, wanted, covers) + _steered_entries(metered, wanted, covers),
        _access_entries(rules, wanted, covers),
        associations,
        clients,
    )


def _filters_of(rules: Rules) -> tuple[Ints, Ints]:
    """The predicates that are filters of members, and by member which of them."""
    predicate = np.repeat(np.arange(len(rules.member_offsets) - 1), np.diff(rules.member_offsets))
    numbers, which = np.unique(predicate, return_inverse=True)
    return numbers, which


def entries_for(scenario: Scenario, plan: Plan, known: Metered) -> Entries:
    """The entries of a plan. Where flows serve everybody, members are listed first; not so where nobody pays for
    entries and there are many pairs of a flow and a filter."""
    priced = is_priced(scenario)
    curved = bool(scenario.settings.curves.upkeep)
    pairs = plan.flows.num_rows * len(np.flatnonzero(np.diff(known.rules.member_offsets)))
    if not priced and not curved and (known.rules.member_flow == EVERY).any() and pairs > MOST_UNPRICED:
        return Entries(None, None, int(plan.flows["associations"].to_numpy().sum()))
    return entries_of(plan, listed(scenario, plan, known), priced)


def clients_of_flows(rules: Rules) -> tuple[int, ...]:
    """How many clients have a share of each flow."""
    groups = max(len(rules.group_size), 1)
    flow, group = np.divmod(np.unique(rules.member_flow * groups + rules.member_group), groups)
    sizes = np.bincount(flow, rules.group_size[group], len(rules.flow_events))
    return tuple(sizes.astype(np.int64).tolist())


def is_priced(scenario: Scenario) -> bool:
    prices = scenario.settings.prices
    return scenario.settings.intervals > 0 and (prices.upkeep_core > 0 or prices.upkeep_access > 0)


class Covers(NamedTuple):
    """Which of some filters cover which, numbered from 0.

    Of equal ones the first stands for all, and it alone covers others."""

    same: Ints
    offsets: Ints
    above: Ints  # between offsets i and i + 1 those that cover i and are not equal to it


@lru_cache(maxsize=2)
def covers_of(texts: tuple[str, ...]) -> Covers:
    """Kept, since one plan after the other asks for those of the same subscriptions."""
    found = covering_pairs(Reading(texts_of(pa.array(texts, pa.large_string()))))
    return _parsed_covers(texts) if found is None else _covers(*found)


def _covers(same: Ints, offsets: Ints, above: Ints) -> Covers:
    """Of all pairs, those between filters that stand for their equals."""
    one, above = np.repeat(np.arange(len(same)), np.diff(offsets)), same[above]
    kept = (same[one] == one) & (above != one)
    one, above = np.divmod(np.unique(one[kept] * max(len(same), 1) + above[kept]), max(len(same), 1))
    return Covers(same, np.searchsorted(one, np.arange(len(same) + 1)), above)


def _parsed_covers(texts: tuple[str, ...]) -> Covers:
    """For filters of any kind."""
    filters = list(map(parse_filter, texts))
    index = CoveringIndex(filters)
    same = np.arange(len(filters))
    pairs: list[tuple[int, int]] = []
    for number, wanted in enumerate(filters):
        found = index.covering(wanted)
        if found == [number]:
            continue
        equal = {other for other in found if other == number or wanted.covers(filters[other])}
        same[number] = min(equal)
        if same[number] == number:
            pairs += [(number, other) for other in found if other not in equal]
    one, above = np.array(pairs, np.int64).reshape(-1, 2).T
    one, above = np.divmod(np.unique(one * max(len(filters), 1) + same[above]), max(len(filters), 1))
    return Covers(same, np.searchsorted(one, np.arange(len(filters) + 1)), above)


def _access_entries(rules: Rules, wanted: Ints, covers: Covers) -> int:
    """Of the clients of all groups: one for a row, else the uncovered filters."""
    exact = rules.member_row == NONE
    flow, group, wanted = rules.member_flow[exact], rules.member_group[exact], wanted[exact]
    places, place = _distinct(flow, group, len(rules.group_broker))
    keys, _ = _distinct(place, wanted, len(covers.same))
    covered = np.zeros(len(keys), bool)
    for places_covered, _ in _covering(keys, covers):
        covered[places_covered] = True
    sizes = rules.group_size[places % len(rules.group_broker)][keys // len(covers.same)]
    return int(sizes[~covered].sum() + rules.group_size[rules.access_group].sum())


def _distinct(one: Ints, other: Ints, width: int) -> tuple[Ints, Ints]:
    """Pairs as keys, ascending, and which of them each is."""
    keys, which = np.unique(one * max(width, 1) + other, return_inverse=True)
    return keys, which


def _covering(keys: Ints, covers: Covers) -> Iterator[tuple[Ints, Ints]]:
    """Of keys, each a place and a predicate, all pairs of one and another that covers it in the same place."""
    width = len(covers.same)
    counts = np.diff(covers.offsets)[keys % width] if len(keys) else np.empty(0, np.int64)
    for start, end in _portions(counts):
        each, at = _spread(counts[start:end])
        each += start
        wanted = keys[each] // width * width + covers.above[covers.offsets[keys[each] % width] + at]
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        there = keys[found] == wanted
        yield each[there], found[there]


def _portions(counts: Ints) -> Iterator[tuple[int, int]]:
    """Stretches whose counts are together about as many as are looked at at once."""
    ends = np.cumsum(counts)
    start = 0
    while start < len(counts) and ends[-1] > (done := int(ends[start - 1]) if start else 0):
        end = max(int(np.searchsorted(ends, done + AT_ONCE, "right")), start + 1)
        yield start, end
        start = end


def _spread(counts: Ints) -> tuple[Ints, Ints]:
    """As many as counts say of each: which one, and the how-manieth of it."""
    each = np.repeat(np.arange(len(counts)), counts)
    return each, np.arange(len(each)) - (np.cumsum(counts) - counts)[each]


def _steered_entries(metered: Metered, wanted: Ints, covers: Covers) -> int:
    """On the ways of summaries to publishing brokers."""
    return summary_entries(metered, *_unsummarised(metered, wanted, covers))


def steered_summaries(metered: Metered) -> Summaries:
    """The summaries of a plan's steered flows: all that brokers tell others, of hosts and of regions."""
    numbers, wanted = _filters_of(metered.rules)
    covers = covers_of(tuple(metered.predicates.texts[number] for number in numbers.tolist()))
    return with_rows(metered, *_unsummarised(metered, covers.same[wanted], covers))


def _unsummarised(metered: Metered, wanted: Ints, covers: Covers) -> tuple[Places, Places]:
    """The filters that are not covered, of hosts and of regions that have no summary row."""
    rules, brokers = metered.rules, metered.rules.place.shape[1]
    places = rules.member_flow * brokers + rules.group_broker[rules.member_group]
    steered = is_steered(metered)[rules.member_flow]
    # The row of a gateway is that of its region: what the gateway's own members want is not summarised
    alone = steered.copy()
    alone[steered] = ~is_summarised(metered, places[steered]) | is_gateway(rules, places[steered])
    hosts = _uncovered(places[alone], wanted[alone], covers)
    if len(rules.gateway) == 1:
        return hosts, Places(places[:0], places[:0])
    gateway = rules.gateway[places]
    regional = steered & (gateway != NONE)
    regions = rules.member_flow * brokers + gateway
    regional[regional] = ~is_summarised(metered, regions[regional])
    return hosts, _uncovered(regions[regional], wanted[regional], covers)


def _uncovered(places: Ints, wanted: Ints, covers: Covers) -> Places:
    """How many of the filters in each place no other one there covers."""
    place, which = np.unique(places, return_inverse=True)
    keys, _ = _distinct(which.reshape(-1), wanted, len(covers.same))
    covered = np.zeros(len(keys), bool)
    for places_covered, _ in _covering(keys, covers):
        covered[places_covered] = True
    return Places(place, np.bincount(keys[~covered] // max(len(covers.same), 1), minlength=len(place)))


def _core_entries(rules: Rules, wanted: Ints, covers: Covers) -> int:
    """On both directions of every link of the trees."""
    if not len(rules.nodes):
        return 0
    parent = rules.nodes["parent"].astype(np.int64)
    forest = Forest(parent, rules.nodes["depth"])
    count = _Count(rules, wanted, covers, forest)
    down = forest.sums_below(count.down)
    up = forest.sums_below(count.up) + count.everywhere[rules.nodes["flow"]]
    node, there = np.repeat(np.arange(len(parent)), np.diff(rules.edge_offsets)), rules.edge_node
    found = np.where(parent[there] == node, down[there], up[node])
    return int(np.where(rules.edge_row == NONE, found, 1).sum())


class _Count:
    """Marks in preorder, whose sums below a node are the entries of the links down to it and up from it; to those up,
    what ``everywhere`` has for the flow is to be added. A *want* is a filter in a flow, its *hosts* are A."""

    def __init__(self, rules: Rules, wanted: Ints, covers: Covers, forest: Forest) -> None:
        self.forest, self.nodes = forest, len(forest.number)
        flow = rules.member_flow
        mine = rules.flow_tree[flow] != NONE
        place = np.full(len(flow), NONE, np.int64)
        place[mine] = rules.place[rules.flow_tree[flow[mine]], rules.group_broker[rules.member_group[mine]]]
        mine &= place != NONE
        wants, want = _distinct(flow[mine], wanted[mine], len(covers.same))
        self.hosts = np.unique(want * self.nodes + forest.number[place[mine]])  # a want, and a preorder number
        self.starts = np.searchsorted(self.hosts, np.arange(len(wants) + 1) * self.nodes)
        first, last = self.hosts[self.starts[:-1]] % self.nodes, self.hosts[self.starts[1:] - 1] % self.nodes
        above_first, above_last = np.full(len(wants), self.nodes), np.full(len(wants), NONE)  # of B
        tops = np.full(len(self.hosts), NONE)
        for one, above in _covering(wants, covers):
            np.minimum.at(above_first, one, first[above])
            np.maximum.at(above_last, one, last[above])
            self._raise_tops(tops, one, above)
        self.down = self._marks(self.hosts) - self._marks(
            np.unique((self.hosts - self.hosts % self.nodes + tops)[tops != NONE])
        )
        free = above_last == NONE
        self.everywhere = np.bincount(wants[free] // max(len(covers.same), 1), minlength=len(rules.flow_tree))
        self.up = self._meetings(above_first[~free], above_last[~free]) - self._meetings(
            np.minimum(first, above_first), np.maximum(last, above_last)
        )

    def _raise_tops(self, tops: Ints, one: Ints, above: Ints) -> None:
        """Of two wants each, of which the second covers the first: the top of a host is where its way meets that of the
        nearest host of the other, before or after it in preorder."""
        counts = np.diff(self.starts)[one]
        for start, end in _portions(counts):
            pair, at = _spread(counts[start:end])
            host = self.starts[one[start:end][pair]] + at
            number, other = self.hosts[host] % self.nodes, above[start:end][pair]
            after = np.searchsorted(self.hosts, other * self.nodes + number)
            for near in (after, after - 1):
                inside = (self.starts[other] <= near) & (near < self.starts[other + 1])
                meeting = self.forest.meeting(number[inside], self.hosts[near[inside]] % self.nodes)
                np.maximum.at(tops, host[inside], meeting)

    def _marks(self, hosts: Ints) -> Ints:
        """Whose sum below a node is how many wants have a host there."""
        want, number = np.divmod(hosts, self.nodes)
        together = want[1:] == want[:-1]
        meeting = self.forest.meeting(number[:-1][together], number[1:][together])
        return np.bincount(number, minlength=self.nodes) - np.bincount(meeting, minlength=self.nodes)

    def _meetings(self, first: Ints, last: Ints) -> Ints:
        return np.bincount(self.forest.meeting(first, last), minlength=self.nodes)
