"""The meter's kernel: many events travel under a plan, and what crosses each link is counted.

It follows the law (``routing.law``), with events that match the same predicates taken as one row. Everything that a
plan says is in ``Rules``: who wants what, trees, rows of ``filters``. Clients of one broker that want the same in the
same flows are one *group*: they receive the same copies.

For one row: the predicates that hold are marked; they tell which members want it in which flow; from the brokers of
those, each flow's tree is marked back to the publishing broker, so that a broker is marked if and only if somebody
behind it (or at it) wants the event. Then frames go out from the publishing broker, and split where their flows part.
A flow without rows goes just where the marks lead; only where there are rows are all links of a broker looked at.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.store import with_room

NONE = -1


class Rules(NamedTuple):
    """Brokers, links, flows, groups, publishers and predicates are numbers from 0. Where a predicate is NONE, it is
    true, or in a row of ``filters``: exact."""

    # Of predicate i, those between offsets i and i + 1: members for whom it is the filter
    member_offsets: Array
    member_flow: Array
    member_group: Array
    member_part: Array  # a predicate
    member_row: Array  # of the client's link in this flow: a predicate
    member_count: Array  # subscriptions of each client of the group
    member_shy: Array  # whether they leave out what their own client publishes; the group then has one client
    group_broker: Array
    group_size: Array  # clients
    publisher_broker: Array
    publisher_group: Array
    publisher_delay: Array  # of the uplink
    flow_events: Array  # a predicate
    flow_tree: Array  # a tree; of a steered flow that of the first broker, and those of the others behind it
    flow_steered: Array
    flow_watched: Array  # the flows with rows: events may travel in them that nobody wants
    flow_is_watched: Array  # by flow
    place: Array  # by tree and by broker: the node, NONE if the broker is not in the tree
    nodes: Array  # see NODE
    edge_offsets: Array  # by node
    edge_node: Array
    edge_link: Array
    edge_row: Array  # a predicate
    access_offsets: Array  # by flow and broker: rows for clients; of length one if there are none
    access_group: Array
    access_row: Array  # a predicate
    link_target: Array
    link_delay: Array  # microseconds
    coalesce: Array  # one truth


# A node of a tree: its broker, its parent and depth, and the links from the parent and to it. One row, since what a
# frame needs of a node is then fetched at once.
NODE = np.dtype([(name, np.int32) for name in ("broker", "parent", "depth", "down", "up")])


class Rows(NamedTuple):
    """Events of a part of the log, by one publisher, that match the same predicates: how many, and their bytes."""

    part: Array
    publisher: Array
    offsets: Array
    predicates: Array
    events: Array
    bytes: Array


class Totals(NamedTuple):
    """What is counted, by part of the log; delays are of all parts."""

    link_frames: Array
    link_bytes: Array
    group_copies: Array  # for each client of the group
    group_bytes: Array
    group_delay: Array  # sum over the copies
    group_latest: Array  # the longest
    publisher_bytes: Array
    counts: Array


DELIVERIES, DUPLICATES, FALSE_POSITIVES, DISCARDS, EVENTS = range(5)
COUNTS = 5
PARTS = 3


def empty_totals(rules: Rules) -> Totals:
    links, groups = len(rules.link_delay), len(rules.group_broker)
    return Totals(
        np.zeros((PARTS, links), np.int64),
        np.zeros((PARTS, links), np.int64),
        np.zeros((PARTS, groups), np.int64),
        np.zeros((PARTS, groups), np.int64),
        np.zeros(groups, np.int64),
        np.zeros(groups, np.int64),
        np.zeros((PARTS, len(rules.publisher_broker)), np.int64),
        np.zeros((PARTS, COUNTS), np.int64),
    )


class Marks(NamedTuple):
    """Scratch. A mark stands if it is the number of the row, or of the frame."""

    held: Array  # by predicate
    nodes: Array  # see MARK
    entered: Array  # by flow
    top: Array  # by flow: the highest marked node above the publishing broker
    arrived: Array  # by broker
    served: Array  # by group: the last frame that it got a copy of


# Of a node: whether it is on the way to somebody who wants the event, or at it; if so, the first of its children that
# are, and the next child of its parent; whether the event goes up from it; whether somebody at it wants the event, and
# the last such want, which leads to the others.
MARK = np.dtype([(name, np.int32) for name in ("marked", "child", "sibling", "rising", "wanting", "want")])


@kernel
def travel(rules: Rules, rows: Rows, totals: Totals) -> None:
    marks = Marks(
        np.zeros(len(rules.member_offsets) - 1, np.int64),
        np.zeros(len(rules.nodes), MARK),
        np.zeros(len(rules.flow_events), np.int64),
        np.zeros(len(rules.flow_events), np.int64),
        np.zeros(rules.place.shape[1], np.int64),
        np.zeros(len(rules.group_broker), np.int64),
    )
    flows = np.empty(64, np.int64)
    wants = np.empty((3, 64), np.int64)
    frame = 0
    for row in range(len(rows.part)):
        for i in range(rows.offsets[row], rows.offsets[row + 1]):
            marks.held[rows.predicates[i]] = row + 1
        part = rows.part[row]
        totals.counts[part, EVENTS] += rows.events[row]
        totals.publisher_bytes[part, rows.publisher[row]] += rows.bytes[row]
        count, wants = _wants(rules, rows, row, marks, wants)
        entered, flows = _flows(rules, row, rows.publisher[row], marks, wants, count, flows)
        if entered:
            frame = _send(rules, rows, row, totals, marks, wants, flows, entered, frame)


@inlined
def _holds(marks: Marks, predicate: int, row: int) -> bool:
    return predicate == NONE or marks.held[predicate] == row + 1


@inlined
def _node(rules: Rules, flow: int, entry: int, broker: int) -> int:
    return rules.place[rules.flow_tree[flow] + (entry if rules.flow_steered[flow] else 0), broker]


@kernel
def _wants(rules: Rules, rows: Rows, row: int, marks: Marks, wants: Array) -> tuple[int, Array]:
    """Who wants the event: in three lines the flow and the member of each want, and, later, the next one at the same
    node."""
    own = rules.publisher_group[rows.publisher[row]]
    count = 0
    for i in range(rows.offsets[row], rows.offsets[row + 1]):
        predicate = rows.predicates[i]
        for member in range(rules.member_offsets[predicate], rules.member_offsets[predicate + 1]):
            flow = rules.member_flow[member]
            if not _holds(marks, rules.flow_events[flow], row) or not _holds(marks, rules.member_part[member], row):
                continue
            if rules.member_shy[member] and rules.member_group[member] == own:
                continue
            if count == wants.shape[1]:
                larger = np.empty((3, 2 * count), np.int64)
                larger[:, :count] = wants
                wants = larger
            wants[0, count], wants[1, count] = flow, member
            count += 1
    return count, wants


@kernel
def _flows(
    rules: Rules, row: int, publisher: int, marks: Marks, wants: Array, count: int, flows: Array
) -> tuple[int, Array]:
    """The flows that the event enters and may travel in; marks the way to all who want it."""
    entry = rules.publisher_broker[publisher]
    entered = 0
    for i in range(len(rules.flow_watched) + count):
        watched = i < len(rules.flow_watched)
        flow = rules.flow_watched[i] if watched else wants[0, i - len(rules.flow_watched)]
        if marks.entered[flow] == row + 1 or not _holds(marks, rules.flow_events[flow], row):
            continue
        here = _node(rules, flow, entry, entry)
        if here == NONE:
            continue  # only in a plan that breaks the law
        marks.entered[flow], marks.top[flow] = row + 1, here
        marks.nodes[here].marked, marks.nodes[here].child = row + 1, NONE
        flows = with_room(flows, entered + 1)
        flows[entered] = flow
        entered += 1
    for want in range(count):
        flow = wants[0, want]
        node = _node(rules, flow, entry, rules.group_broker[rules.member_group[wants[1, want]]])
        if marks.entered[flow] != row + 1 or node == NONE:
            continue
        mark = marks.nodes[node]
        wants[2, want] = mark.want if mark.wanting == row + 1 else NONE
        mark.want, mark.wanting = want, row + 1
        _mark_way(rules, marks, flow, node, row + 1)
    return entered, flows


@inlined
def _mark_way(rules: Rules, marks: Marks, flow: int, node: int, stamp: int) -> None:
    """Marks all nodes between this one and those that are marked already. These reach from the publishing broker up to
    ``top``, and down from there."""
    top, below = marks.top[flow], NONE
    while marks.nodes[node].marked != stamp:
        if rules.nodes[node].depth >= rules.nodes[top].depth:
            marks.nodes[node].marked, marks.nodes[node].child = stamp, below
            if below != NONE:
                marks.nodes[below].sibling = NONE
            below = node
            node = rules.nodes[node].parent
        else:
            marks.nodes[top].rising = stamp
            top = rules.nodes[top].parent
            marks.nodes[top].marked, marks.nodes[top].child = stamp, NONE
    if below != NONE:
        marks.nodes[below].sibling = marks.nodes[node].child
        marks.nodes[node].child = below
    marks.top[flow] = top


@kernel
def _send(
    rules: Rules,
    rows: Rows,
    row: int,
    totals: Totals,
    marks: Marks,
    wants: Array,
    flows: Array,
    entered: int,
    frame: int,
) -> int:
    """Frames wait one behind the other, each with its list of flows. The last one is taken next, so that whatever
    stands behind its list is done with. Returns the number of the last frame."""
    publisher = rows.publisher[row]
    entry = rules.publisher_broker[publisher]
    marks.arrived[entry] = row + 1
    carried = np.empty(4 * entered + 64, np.int64)
    carried[:entered] = flows[:entered]
    waiting = np.empty(5 * entered + 320, np.int64)  # broker, where from, begin and end of the list, delay
    height = 0
    if rules.coalesce[0]:
        height = _wait(waiting, height, entry, NONE, 0, entered, rules.publisher_delay[publisher])
    else:
        for i in range(entered):
            height = _wait(waiting, height, entry, NONE, i, i + 1, rules.publisher_delay[publisher])
    crossing = np.empty((2, 64), np.int64)  # link << 1 | whether wanted, and flow
    while height:
        height -= 5
        broker, source, delay = waiting[height], waiting[height + 1], waiting[height + 4]
        begin, end = waiting[height + 2], waiting[height + 3]
        frame += 1
        _serve(rules, rows, row, totals, marks, wants, carried, begin, end, broker, delay, frame)
        count, crossing = _crossings(rules, marks, row, carried, begin, end, broker, source, entry, crossing)
        carried = with_room(carried, end + count)
        waiting = with_room(waiting, height + 5 * count)
        start, wanted = end, False
        for i in range(count):
            link = crossing[0, i] >> 1
            carried[end + i] = crossing[1, i]
            wanted |= (crossing[0, i] & 1) != 0
            if i + 1 == count or crossing[0, i + 1] >> 1 != link:
                target = _cross(rules, rows, row, totals, marks, link, carried[start], entry, broker, wanted)
                later = delay + rules.link_delay[link]
                height = _wait(waiting, height, target, broker, start, end + i + 1, later)
                start, wanted = end + i + 1, False
    return frame


@inlined
def _crossings(
    rules: Rules,
    marks: Marks,
    row: int,
    carried: Array,
    begin: int,
    end: int,
    broker: int,
    source: int,
    entry: int,
    crossing: Array,
) -> tuple[int, Array]:
    """Where the flows of a frame go on from its broker: in two lines the link, with a bit that tells whether somebody
    behind it wants the event, and the flow; in the order of links."""
    count = 0
    for i in range(begin, end):
        flow = carried[i]
        node = _node(rules, flow, entry, broker)
        edges = rules.edge_offsets[node + 1] - rules.edge_offsets[node]
        if count + edges > crossing.shape[1]:
            larger = np.empty((2, 2 * (count + edges)), np.int64)
            larger[:, :count] = crossing[:, :count]
            crossing = larger
        if rules.flow_is_watched[flow]:
            for edge in range(rules.edge_offsets[node], rules.edge_offsets[node + 1]):
                there, given = rules.edge_node[edge], rules.edge_row[edge]
                wanted = marks.nodes[there].marked == row + 1
                crosses = wanted if given == NONE else marks.held[given] == row + 1
                if crosses and rules.nodes[there].broker != source:
                    count = _enter(crossing, count, rules.edge_link[edge] << 1 | wanted, flow)
        elif marks.nodes[node].marked == row + 1:
            child = marks.nodes[node].child
            while child != NONE:
                count = _enter(crossing, count, np.int64(rules.nodes[child].down) << 1 | 1, flow)
                child = marks.nodes[child].sibling
            if marks.nodes[node].rising == row + 1:
                count = _enter(crossing, count, np.int64(rules.nodes[node].up) << 1 | 1, flow)
    return count, crossing


@inlined
def _enter(crossing: Array, count: int, link: int, flow: int) -> int:
    """In the order of links: there are few. Returns how many there are now."""
    at = count
    while at and crossing[0, at - 1] >> 1 > link >> 1:
        crossing[0, at], crossing[1, at] = crossing[0, at - 1], crossing[1, at - 1]
        at -= 1
    crossing[0, at], crossing[1, at] = link, flow
    return count + 1


@inlined
def _wait(waiting: Array, height: int, broker: int, source: int, begin: int, end: int, delay: int) -> int:
    waiting[height], waiting[height + 1] = broker, source
    waiting[height + 2], waiting[height + 3], waiting[height + 4] = begin, end, delay
    return height + 5


@inlined
def _cross(
    rules: Rules,
    rows: Rows,
    row: int,
    totals: Totals,
    marks: Marks,
    link: int,
    flow: int,
    entry: int,
    broker: int,
    wanted: bool,
) -> int:
    """Counts a copy on a link; returns the broker where it ends."""
    part, events = rows.part[row], rows.events[row]
    totals.link_frames[part, link] += events
    totals.link_bytes[part, link] += rows.bytes[row]
    target = rules.link_target[link]
    if not wanted:
        totals.counts[part, FALSE_POSITIVES] += events
    if marks.arrived[target] == row + 1:
        totals.counts[part, DUPLICATES] += events
    marks.arrived[target] = row + 1
    return target


@inlined
def _serve(
    rules: Rules,
    rows: Rows,
    row: int,
    totals: Totals,
    marks: Marks,
    wants: Array,
    carried: Array,
    begin: int,
    end: int,
    broker: int,
    delay: int,
    frame: int,
) -> None:
    """The copies of a frame for the clients of its broker."""
    part, events = rows.part[row], rows.events[row]
    entry = rules.publisher_broker[rows.publisher[row]]
    for i in range(begin, end):
        node = _node(rules, carried[i], entry, broker)
        want = np.int64(marks.nodes[node].want) if marks.nodes[node].wanting == row + 1 else NONE
        while want != NONE:
            member = wants[1, want]
            group = rules.member_group[member]
            if _holds(marks, rules.member_row[member], row):
                totals.counts[part, DELIVERIES] += events * rules.group_size[group] * rules.member_count[member]
                _copy(rules, rows, row, totals, marks, group, delay, frame)
            want = wants[2, want]
    if len(rules.access_offsets) > 1:
        brokers = rules.place.shape[1]
        for i in range(begin, end):
            at = carried[i] * brokers + broker
            for given in range(rules.access_offsets[at], rules.access_offsets[at + 1]):
                group = rules.access_group[given]
                if _holds(marks, rules.access_row[given], row) and marks.served[group] != frame:
                    totals.counts[part, DISCARDS] += events * rules.group_size[group]
                    _copy(rules, rows, row, totals, marks, group, delay, frame)


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
