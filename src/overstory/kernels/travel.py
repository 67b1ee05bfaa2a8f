"""The meter's kernel: many events travel under a plan, and what crosses each link is counted.

It follows the law (``routing.law``), with events that match the same predicates taken as one row. Everything that a
plan says is in ``Rules``: who wants what, trees, rows of ``filters``. Clients of one broker that want the same in the
same flows are one *group*: they receive the same copies.

For one row, the ways to all who want it are marked first (``kernels.wants``). Then frames go out from the publishing
broker, and split where their flows part. A frame is a chain of nodes, one for each of its flows. A flow without rows
goes just where the marks lead; only where there are rows are all links of a broker looked at. What is counted does not
depend on the order in which frames go.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.metering import (
    DELIVERIES,
    DISCARDS,
    DUPLICATES,
    EVENTS,
    FALSE_POSITIVES,
    Rows,
    Rules,
    SteeredTrees,
    Totals,
)
from overstory.kernels.nothing import NONE
from overstory.kernels.store import with_room
from overstory.kernels.travel_together import Run, end_of_run, flow_of_all, may_share, new_shared, travel_together
from overstory.kernels.wants import MARK, Event, Marks, empty_marks, holds, mark_ways, wants_of

# A frame that waits: the link that it crosses, NONE at the start; the broker that it comes from, or starts at; the
# first of its nodes; whether somebody behind the link wants it; the delay until it arrives; the length of its headers.
FRAME = np.dtype([(name, np.int64) for name in ("link", "source", "first", "wanted", "delay", "header")])


class Found(NamedTuple):
    """For one event: the nodes on its ways, and who wants it there (see ``wants_of``)."""

    nodes: Array
    wants: Array


class Arrival(NamedTuple):
    """A frame at a broker: its number, the first of its nodes, and the delay until then."""

    frame: int
    broker: int
    node: int
    delay: int


@kernel
def travel(rules: Rules, trees: SteeredTrees, rows: Rows, totals: Totals) -> None:
    marks = empty_marks(rules)
    nodes = np.zeros(len(rules.nodes) + 64, MARK)
    wants = np.empty((3, 64), np.int64)
    starts = np.empty(64, np.int64)
    waiting = np.empty(64, FRAME)
    frame, shared, sharing = 0, new_shared(rules), may_share(rules)
    end, together = 0, False  # of the run at hand: where it ends, and whether its rows have travelled
    for row in range(len(rows.part)):
        if row < end and together:
            continue
        for i in range(rows.offsets[row], rows.offsets[row + 1]):
            marks.held[rows.predicates[i]] = row + 1
        if sharing and row >= end:
            end, together = end_of_run(rows, row), False
            if end > row + 1:
                count, wants = wants_of(rules, rows, row, marks, wants)
                flow = flow_of_all(rules, marks, row, wants, count)
                if flow != NONE:
                    run, together = Run(row, end, flow, count), True
                    travel_together(rules, rows, run, totals, marks, nodes, wants, shared)
                    continue
        part = rows.part[row]
        totals.counts[part, EVENTS] += rows.events[row]
        totals.publisher_bytes[part, rows.publisher[row]] += rows.bytes[row]
        entry = rules.publisher_broker[rows.publisher[row]]
        event = Event(row, row + 1, entry, part, rows.events[row], rows.bytes[row])
        count, wants = wants_of(rules, rows, row, marks, wants)
        entered, starts, nodes = mark_ways(rules, trees, event, marks, nodes, wants, count, starts)
        if entered:
            waiting = with_room(waiting, entered)
            height = _start(rules, rows, row, marks, nodes, starts, entered, waiting)
            frame, waiting = _send(rules, event, totals, marks, Found(nodes, wants), frame, waiting, height)


@inlined
def _start(
    rules: Rules, rows: Rows, row: int, marks: Marks, nodes: Array, starts: Array, entered: int, waiting: Array
) -> int:
    """All flows in one frame, or each in its own. Returns how many frames wait."""
    publisher = rows.publisher[row]
    entry, delay = rules.publisher_broker[publisher], rules.publisher_delay[publisher]
    marks.arrived[entry] = row + 1
    height = 0
    for i in range(entered):
        if height == 0 or not rules.coalesce[0]:
            _wait(waiting, height, NONE, entry, delay)
            height += 1
        _carry(nodes, waiting, height - 1, starts[i], True)
    return height


@inlined
def _wait(waiting: Array, place: int, link: int, source: int, delay: int) -> None:
    frame = waiting[place]
    frame.link, frame.source, frame.first, frame.wanted, frame.delay = link, source, NONE, 0, delay
    frame.header = 0


@inlined
def _carry(nodes: Array, waiting: Array, place: int, node: int, wanted: bool) -> None:
    nodes[node].following, waiting[place].first = waiting[place].first, node
    waiting[place].wanted |= wanted


@kernel
def _send(  # noqa: C901
    rules: Rules,
    event: Event,
    totals: Totals,
    marks: Marks,
    found: Found,
    frame: int,
    waiting: Array,
    height: int,
) -> tuple[int, Array]:
    """The last of those that wait is taken next. Returns the number of the last frame.

    All in one, and each array under a name of its own: to hand tuples of arrays on, even to what is inlined, is to
    count the owners of each of them, which would take three quarters of the time.
    """
    stamp, part, events, size, widest = event.stamp, event.part, event.events, event.bytes, marks.widest
    nodes, wants = found
    link_frames, link_bytes, counts = totals.link_frames[part], totals.link_bytes[part], totals.counts[part]
    link_target, link_delay, crossed, arrived = rules.link_target, rules.link_delay, marks.crossed, marks.arrived
    tree_nodes, edge_offsets, edge_node = rules.nodes, rules.edge_offsets, rules.edge_node
    edge_link, edge_row, held = rules.edge_link, rules.edge_row, marks.held
    member_group, member_row, member_count = rules.member_group, rules.member_row, rules.member_count
    group_size, served, group_copies = rules.group_size, marks.served, totals.group_copies[part]
    group_bytes, group_delay, group_latest = totals.group_bytes[part], totals.group_delay, totals.group_latest
    watching, flow_is_watched = len(rules.flow_watched) > 0, rules.flow_is_watched
    while height:
        height -= 1
        frame += 1
        link, first, delay = waiting[height].link, waiting[height].first, waiting[height].delay
        came_from, broker = NONE, waiting[height].source
        if link != NONE:
            came_from, broker = broker, link_target[link]
            link_frames[link] += events
            link_bytes[link] += size + events * waiting[height].header
            counts[FALSE_POSITIVES] += 0 if waiting[height].wanted else events
            counts[DUPLICATES] += events if arrived[broker] == stamp else 0
            arrived[broker] = stamp
        waiting = with_room(waiting, height + widest)
        node = first
        while node != NONE:
            marked = nodes[node].marked == stamp
            want = np.int64(nodes[node].want) if marked else NONE
            while want != NONE:
                member = wants[1, want]
                if member_row[member] == NONE or held[member_row[member]] == stamp:
                    group = member_group[member]
                    counts[DELIVERIES] += events * group_size[group] * member_count[member]
                    if served[group] != frame:
                        served[group] = frame
                        group_copies[group] += events
                        group_bytes[group] += size
                        group_delay[group] += events * delay
                        group_latest[group] = max(group_latest[group], delay)
                want = wants[2, want]
            edge, last, child, rising = 0, 0, NONE, False
            if watching and node < len(tree_nodes) and flow_is_watched[tree_nodes[node].flow]:
                edge, last = edge_offsets[node], edge_offsets[node + 1]
            elif marked:
                child, rising = np.int64(nodes[node].child), nodes[node].rising != 0
            while True:
                there, wanted = NONE, True
                if edge < last:
                    there, link, given = edge_node[edge], edge_link[edge], edge_row[edge]
                    wanted = nodes[there].marked == stamp
                    crosses = wanted if given == NONE else held[given] == stamp
                    edge += 1
                    if not crosses or tree_nodes[there].broker == came_from:
                        continue
                elif child != NONE:
                    there, link, wanted = child, np.int64(nodes[child].down), nodes[child].wanted != 0
                    child = np.int64(nodes[child].sibling)
                elif rising:
                    there, link, rising = np.int64(tree_nodes[node].parent), np.int64(tree_nodes[node].up), False
                else:
                    break
                if crossed[link].frame != frame:
                    crossed[link].frame, crossed[link].place = frame, height
                    waiting[height].link, waiting[height].source = link, broker
                    waiting[height].first, waiting[height].wanted, waiting[height].header = NONE, 0, 0
                    waiting[height].delay = delay + link_delay[link]
                    height += 1
                place = crossed[link].place
                nodes[there].following, waiting[place].first = waiting[place].first, there
                waiting[place].wanted |= wanted
                waiting[place].header += nodes[there].header
            node = np.int64(nodes[node].following)
        if len(rules.access_offsets) > 1:
            _serve_by_rows(rules, event, totals, marks, nodes, Arrival(frame, broker, first, delay))
    return frame, waiting


@kernel
def _serve_by_rows(rules: Rules, event: Event, totals: Totals, marks: Marks, nodes: Array, arrival: Arrival) -> None:
    """The copies that clients of the broker get although they want nothing of them."""
    brokers, node = rules.place.shape[1], arrival.node
    while node != NONE:
        steered = node >= len(rules.nodes)
        flow = np.int64(nodes[node].flow if steered else rules.nodes[node].flow)
        at = flow * brokers + arrival.broker
        last = rules.access_offsets[at] if steered and not nodes[node].stays else rules.access_offsets[at + 1]
        for given in range(rules.access_offsets[at], last):
            group = rules.access_group[given]
            if holds(marks, rules.access_row[given], event.row) and marks.served[group] != arrival.frame:
                totals.counts[event.part, DISCARDS] += event.events * rules.group_size[group]
                _copy(event, totals, marks, group, arrival)
        node = np.int64(nodes[node].following)


@inlined
def _copy(event: Event, totals: Totals, marks: Marks, group: int, arrival: Arrival) -> None:
    """One for each client of the group, but one a frame."""
    if marks.served[group] == arrival.frame:
        return
    marks.served[group] = arrival.frame
    totals.group_copies[event.part, group] += event.events
    totals.group_bytes[event.part, group] += event.bytes
    totals.group_delay[group] += event.events * arrival.delay
    totals.group_latest[group] = max(totals.group_latest[group], arrival.delay)


@kernel
def terminal_sets(rules: Rules, rows: Rows) -> tuple[Array, Array, Array]:
    """For each row the publishing broker, and between two offsets the brokers where somebody wants it, each once."""
    roots, offsets = np.empty(len(rows.part), np.int64), np.zeros(len(rows.part) + 1, np.int64)
    seen = np.full(rules.place.shape[1], NONE, np.int64)
    terminals = np.empty(256, np.int64)
    total = 0
    for row in range(len(rows.part)):
        roots[row] = rules.publisher_broker[rows.publisher[row]]
        for i in range(rows.offsets[row], rows.offsets[row + 1]):
            predicate = rows.predicates[i]
            for member in range(rules.member_offsets[predicate], rules.member_offsets[predicate + 1]):
                broker = rules.group_broker[rules.member_group[member]]
                if seen[broker] != row:
                    seen[broker] = row
                    terminals = with_room(terminals, total + 1)
                    terminals[total] = broker
                    total += 1
        offsets[row + 1] = total
    return roots, offsets, terminals[:total]
