"""The meter's kernel: many events travel under a plan, and what crosses each link is counted.

It follows the law (``routing.law``), with events that match the same predicates taken as one row. Everything that a
plan says is in ``Rules``: who wants what, trees, rows of ``filters``. Clients of one broker that want the same in the
same flows are one *group*: they receive the same copies.

For one row, the ways to all who want it are marked first (``kernels.wants``). Then frames go out from the publishing
broker, and split where their flows part. A frame is a chain of nodes, one for each of its flows. A flow without rows
goes just where the marks lead; only where there are rows are all links of a broker looked at. What is counted does not
depend on the order in which frames go.
"""

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.metering import (
    DELIVERIES,
    DISCARDS,
    DUPLICATES,
    EVENTS,
    FALSE_POSITIVES,
    NONE,
    Rows,
    Rules,
    Totals,
    Ways,
)
from overstory.kernels.store import with_room
from overstory.kernels.wants import MARK, Marks, empty_marks, holds, mark_ways, wants_of

# A frame that waits: the link that it crosses, NONE at the start; the broker that it comes from, or starts at; the
# first of its nodes; whether somebody behind the link wants it; the delay until it arrives.
FRAME = np.dtype([(name, np.int64) for name in ("link", "source", "first", "wanted", "delay")])


@kernel
def travel(rules: Rules, ways: Ways, rows: Rows, totals: Totals) -> None:
    marks = empty_marks(rules)
    nodes = np.zeros(len(rules.nodes) + 64, MARK)
    wants = np.empty((3, 64), np.int64)
    starts = np.empty(64, np.int64)
    waiting = np.empty(64, FRAME)
    frame = 0
    for row in range(len(rows.part)):
        for i in range(rows.offsets[row], rows.offsets[row + 1]):
            marks.held[rows.predicates[i]] = row + 1
        part = rows.part[row]
        totals.counts[part, EVENTS] += rows.events[row]
        totals.publisher_bytes[part, rows.publisher[row]] += rows.bytes[row]
        entry = rules.publisher_broker[rows.publisher[row]]
        count, wants = wants_of(rules, rows, row, marks, wants)
        entered, starts, nodes = mark_ways(rules, ways, entry, row, marks, nodes, wants, count, starts)
        if entered:
            waiting = with_room(waiting, entered)
            height = _start(rules, rows, row, marks, nodes, starts, entered, waiting)
            frame, waiting = _send(rules, rows, row, totals, marks, nodes, wants, frame, waiting, height)


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
        _carry(nodes, waiting[height - 1], starts[i], True)
    return height


@inlined
def _wait(waiting: Array, place: int, link: int, source: int, delay: int) -> None:
    frame = waiting[place]
    frame.link, frame.source, frame.first, frame.wanted, frame.delay = link, source, NONE, 0, delay


@inlined
def _carry(nodes: Array, frame: Array, node: int, wanted: bool) -> None:
    nodes[node].following, frame.first = frame.first, node
    frame.wanted |= wanted


@kernel
def _send(
    rules: Rules,
    rows: Rows,
    row: int,
    totals: Totals,
    marks: Marks,
    nodes: Array,
    wants: Array,
    frame: int,
    waiting: Array,
    height: int,
) -> tuple[int, Array]:
    """The last of those that wait is taken next. Returns the number of the last frame."""
    while height:
        height -= 1
        frame += 1
        link, first, delay, came_from = waiting[height].link, waiting[height].first, waiting[height].delay, NONE
        broker = waiting[height].source
        if link != NONE:
            came_from, broker = broker, rules.link_target[link]
            _count(rows, row, totals, marks, link, broker, waiting[height].wanted != 0)
        node = first
        while node != NONE:
            _serve(rules, rows, row, totals, marks, nodes, wants, node, delay, frame)
            height, waiting = _go_on(rules, row, marks, nodes, node, broker, came_from, delay, frame, waiting, height)
            node = np.int64(nodes[node].following)
        if len(rules.access_offsets) > 1:
            _serve_by_rows(rules, rows, row, totals, marks, nodes, first, broker, delay, frame)
    return frame, waiting


@inlined
def _go_on(
    rules: Rules,
    row: int,
    marks: Marks,
    nodes: Array,
    node: int,
    broker: int,
    came_from: int,
    delay: int,
    frame: int,
    waiting: Array,
    height: int,
) -> tuple[int, Array]:
    """Where a node of a frame leads: there a copy waits, which the other nodes of the frame may join. Returns how many
    wait."""
    if len(rules.flow_watched) and node < len(rules.nodes) and rules.flow_is_watched[rules.nodes[node].flow]:
        for edge in range(rules.edge_offsets[node], rules.edge_offsets[node + 1]):
            there, given = rules.edge_node[edge], rules.edge_row[edge]
            wanted = nodes[there].marked == row + 1
            crosses = wanted if given == NONE else marks.held[given] == row + 1
            if crosses and rules.nodes[there].broker != came_from:
                link = rules.edge_link[edge]
                height, waiting = _copy_on(rules, marks, link, broker, delay, frame, waiting, height)
                _carry(nodes, waiting[marks.crossed[link].place], there, wanted)
    elif nodes[node].marked == row + 1:
        child = np.int64(nodes[node].child)
        while child != NONE:
            link = nodes[child].down
            height, waiting = _copy_on(rules, marks, link, broker, delay, frame, waiting, height)
            _carry(nodes, waiting[marks.crossed[link].place], child, True)
            child = np.int64(nodes[child].sibling)
        if nodes[node].rising:
            link = rules.nodes[node].up
            height, waiting = _copy_on(rules, marks, link, broker, delay, frame, waiting, height)
            _carry(nodes, waiting[marks.crossed[link].place], rules.nodes[node].parent, True)
    return height, waiting


@inlined
def _copy_on(
    rules: Rules, marks: Marks, link: int, broker: int, delay: int, frame: int, waiting: Array, height: int
) -> tuple[int, Array]:
    """Sees to it that a copy of the frame waits to cross the link."""
    if marks.crossed[link].frame != frame:
        marks.crossed[link].frame, marks.crossed[link].place = frame, height
        waiting = with_room(waiting, height + 1)
        _wait(waiting, height, link, broker, delay + rules.link_delay[link])
        height += 1
    return height, waiting


@inlined
def _count(rows: Rows, row: int, totals: Totals, marks: Marks, link: int, target: int, wanted: bool) -> None:
    """A copy that crosses a link."""
    part, events = rows.part[row], rows.events[row]
    totals.link_frames[part, link] += events
    totals.link_bytes[part, link] += rows.bytes[row]
    if not wanted:
        totals.counts[part, FALSE_POSITIVES] += events
    if marks.arrived[target] == row + 1:
        totals.counts[part, DUPLICATES] += events
    marks.arrived[target] = row + 1


@inlined
def _serve(
    rules: Rules,
    rows: Rows,
    row: int,
    totals: Totals,
    marks: Marks,
    nodes: Array,
    wants: Array,
    node: int,
    delay: int,
    frame: int,
) -> None:
    """The copies of a frame for the clients at one of its nodes who want it."""
    want = np.int64(nodes[node].want) if nodes[node].marked == row + 1 else NONE
    while want != NONE:
        member = wants[1, want]
        group = rules.member_group[member]
        if holds(marks, rules.member_row[member], row):
            copies = rules.group_size[group] * rules.member_count[member]
            totals.counts[rows.part[row], DELIVERIES] += rows.events[row] * copies
            _copy(rules, rows, row, totals, marks, group, delay, frame)
        want = wants[2, want]


@inlined
def _serve_by_rows(
    rules: Rules,
    rows: Rows,
    row: int,
    totals: Totals,
    marks: Marks,
    nodes: Array,
    node: int,
    broker: int,
    delay: int,
    frame: int,
) -> None:
    """The copies that clients of the broker get although they want nothing of them."""
    brokers = rules.place.shape[1]
    while node != NONE:
        flow = np.int64(rules.nodes[node].flow if node < len(rules.nodes) else nodes[node].flow)
        at = flow * brokers + broker
        for given in range(rules.access_offsets[at], rules.access_offsets[at + 1]):
            group = rules.access_group[given]
            if holds(marks, rules.access_row[given], row) and marks.served[group] != frame:
                totals.counts[rows.part[row], DISCARDS] += rows.events[row] * rules.group_size[group]
                _copy(rules, rows, row, totals, marks, group, delay, frame)
        node = np.int64(nodes[node].following)


@inlined
def _copy(rules: Rules, rows: Rows, row: int, totals: Totals, marks: Marks, group: int, delay: int, frame: int) -> None:
    """One for each client of the group, but one a frame."""
    if marks.served[group] == frame:
        return
    marks.served[group] = frame
    totals.group_copies[rows.part[row], group] += rows.events[row]
    totals.group_bytes[rows.part[row], group] += rows.bytes[row]
    totals.group_delay[group] += rows.events[row] * delay
    totals.group_latest[group] = max(totals.group_latest[group], delay)


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
