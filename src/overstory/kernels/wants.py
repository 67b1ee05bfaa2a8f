"""Who wants an event, and the ways to them: the first half of the meter's kernel.

The predicates that hold are marked; they tell which members want the event in which flow. From the brokers of those,
each flow's tree is marked back to the publishing broker, so that a node is marked if and only if somebody behind it (or
at it) wants the event.

A steered flow has no tree. For each event, the cheapest paths to those who want it become nodes with numbers beyond
those of the trees, which are there for that event alone.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.metering import EVERY, Rows, Rules, Ways
from overstory.kernels.nothing import NONE
from overstory.kernels.store import with_room


class Event(NamedTuple):
    """A row on its way: its number, the mark that it leaves, where it is published, and what is counted for it."""

    row: int
    stamp: int
    entry: int
    part: int
    events: int
    bytes: int


class Steered(NamedTuple):
    """An event in a steered flow, and the mark that it leaves at brokers."""

    flow: int
    stamp: int
    mark: int


class Marks(NamedTuple):
    """What the kernel notes of one row, in arrays that are used again for the next. A mark stands if it is the number
    of the row, or of the frame."""

    held: Array  # by predicate
    entered: Array  # by flow
    top: Array  # by flow: the highest marked node above the publishing broker; if it is steered, the last of its wants
    step: Array  # by broker: see STEP
    arrived: Array  # by broker
    served: Array  # by group: the last frame that it got a copy of
    crossed: Array  # by link: see CROSSED
    for_all: Array  # the flows for every subscription that the event enters
    widest: int  # links that leave a broker, at most: copies of a frame are no more


# Of a node, apart from the marks: whether it is on the way to somebody who wants the event, or at it. If so, the first
# of its children that are, the next child of its parent, the link from there, whether the event goes up from it, and
# the last of those at it who want the event, which leads to the others. Anyhow: the next node in its frame. The flow is
# that of a steered node. One cache line holds two nodes.
FIELDS = ("marked", "child", "sibling", "down", "rising", "want", "following", "flow")
MARK = np.dtype([(name, np.int32) for name in FIELDS])

# Of a broker: its node in a steered flow, if the mark is that of the flow and the event.
STEP = np.dtype([("mark", np.int64), ("node", np.int64)])

# Of a link: the last frame that went on over it, and where the copy waits.
CROSSED = np.dtype([("frame", np.int64), ("place", np.int64)])


@kernel
def empty_marks(rules: Rules) -> Marks:
    brokers = rules.place.shape[1]
    return Marks(
        np.zeros(len(rules.member_offsets) - 1, np.int64),
        np.zeros(len(rules.flow_events), np.int64),
        np.zeros(len(rules.flow_events), np.int64),
        np.zeros(brokers, STEP),
        np.zeros(brokers, np.int64),
        np.zeros(len(rules.group_broker), np.int64),
        np.zeros(len(rules.link_delay), CROSSED),
        np.zeros(len(rules.every_flow), np.int64),
        np.bincount(rules.link_source).max() if len(rules.link_source) else 0,
    )


@inlined
def holds(marks: Marks, predicate: int, row: int) -> bool:
    return predicate == NONE or marks.held[predicate] == row + 1


@kernel
def wants_of(rules: Rules, rows: Rows, row: int, marks: Marks, wants: Array) -> tuple[int, Array]:
    """Who wants the event: in three lines the flow and the member of each want, and, later, the next one at the same
    node."""
    own = rules.publisher_group[rows.publisher[row]]
    for_all = _for_all(rules, rows, row, marks)
    count = 0
    for i in range(rows.offsets[row], rows.offsets[row + 1]):
        predicate = rows.predicates[i]
        for member in range(rules.member_offsets[predicate], rules.member_offsets[predicate + 1]):
            if rules.member_no_local[member] and rules.member_group[member] == own:
                continue
            flow = rules.member_flow[member]
            if flow == EVERY:
                for k in range(for_all):
                    wants = _with_want(wants, count, marks.for_all[k], member)
                    count += 1
            elif holds(marks, rules.flow_events[flow], row) and holds(marks, rules.member_part[member], row):
                wants = _with_want(wants, count, flow, member)
                count += 1
    return count, wants


@inlined
def _for_all(rules: Rules, rows: Rows, row: int, marks: Marks) -> int:
    """Lists the flows that the event enters and that serve every subscription. How many there are."""
    count = 0
    if len(rules.every_flow):
        last = rows.offsets[row + 1]
        for i in range(rows.offsets[row], last + 1):
            predicate = rows.predicates[i] if i < last else len(rules.every_offsets) - 2
            for at in range(rules.every_offsets[predicate], rules.every_offsets[predicate + 1]):
                marks.for_all[count] = rules.every_flow[at]
                count += 1
    return count


@inlined
def _with_want(wants: Array, count: int, flow: int, member: int) -> Array:
    if count == wants.shape[1]:
        larger = np.empty((3, 2 * count), np.int64)
        larger[:, :count] = wants
        wants = larger
    wants[0, count], wants[1, count] = flow, member
    return wants


@kernel
def mark_ways(
    rules: Rules, ways: Ways, event: Event, marks: Marks, nodes: Array, wants: Array, count: int, starts: Array
) -> tuple[int, Array, Array]:
    """The nodes at the publishing broker of all flows that the event enters and may travel in: how many, and which.
    And all nodes, which may have become more."""
    entered, starts = _enter(rules, event, marks, nodes, wants, count, starts)
    for want in range(count):
        flow = wants[0, want]
        if marks.entered[flow] != event.stamp:
            continue
        if rules.flow_tree[flow] == NONE:
            wants[2, want], marks.top[flow] = marks.top[flow], want
            continue
        node = rules.place[rules.flow_tree[flow], rules.group_broker[rules.member_group[wants[1, want]]]]
        if node != NONE:
            _mark_way(rules, marks, nodes, flow, node, event.stamp)
            wants[2, want], nodes[node].want = nodes[node].want, want
    used = len(rules.nodes)
    for i in range(entered):
        flow = starts[i]
        if rules.flow_tree[flow] == NONE:
            starts[i] = used
            used, nodes = _steer(rules, ways, event, flow, marks, nodes, wants, used)
        else:
            starts[i] = rules.place[rules.flow_tree[flow], event.entry]
    return entered, starts, nodes


@inlined
def _enter(
    rules: Rules, event: Event, marks: Marks, nodes: Array, wants: Array, count: int, flows: Array
) -> tuple[int, Array]:
    """The flows that the event enters: those with rows, and those in which somebody wants it."""
    entered = 0
    for i in range(len(rules.flow_watched) + count):
        watched = i < len(rules.flow_watched)
        flow = rules.flow_watched[i] if watched else wants[0, i - len(rules.flow_watched)]
        if marks.entered[flow] == event.stamp or not holds(marks, rules.flow_events[flow], event.row):
            continue
        here = NONE
        if rules.flow_tree[flow] != NONE:
            here = rules.place[rules.flow_tree[flow], event.entry]
            if here == NONE:
                continue  # only in a plan that breaks the law
            _mark(nodes, here, event.stamp, NONE, NONE)
        marks.entered[flow], marks.top[flow] = event.stamp, here
        flows = with_room(flows, entered + 1)
        flows[entered] = flow
        entered += 1
    return entered, flows


@inlined
def _mark(nodes: Array, node: int, stamp: int, child: int, down: int) -> None:
    mark = nodes[node]
    mark.marked, mark.child, mark.down = stamp, child, down
    mark.sibling, mark.rising, mark.want = NONE, 0, NONE


@inlined
def _mark_way(rules: Rules, marks: Marks, nodes: Array, flow: int, node: int, stamp: int) -> None:
    """Marks all nodes between this one and those that are marked already. These reach from the publishing broker up to
    ``top``, and down from there."""
    top, below = marks.top[flow], NONE
    while nodes[node].marked != stamp:
        if rules.nodes[node].depth >= rules.nodes[top].depth:
            _mark(nodes, node, stamp, below, rules.nodes[node].down)
            below = node
            node = rules.nodes[node].parent
        else:
            nodes[top].rising = 1
            top = rules.nodes[top].parent
            _mark(nodes, top, stamp, NONE, NONE)
    if below != NONE:
        nodes[below].sibling, nodes[node].child = nodes[node].child, below
    marks.top[flow] = top


@kernel
def _steer(
    rules: Rules, ways: Ways, event: Event, flow: int, marks: Marks, nodes: Array, wants: Array, used: int
) -> tuple[int, Array]:
    """Adds the nodes of a steered flow, that at the publishing broker first. Returns how many are in use now."""
    line = ways.row[event.entry]
    mark = event.stamp * len(rules.flow_tree) + flow
    steered = Steered(flow, event.stamp, mark)
    used, nodes = _step(marks, nodes, used, steered, event.entry, NONE, NONE)
    want = marks.top[flow]
    while want != NONE:
        following = wants[2, want]
        end = rules.group_broker[rules.member_group[wants[1, want]]]
        broker, below = end, NONE
        while marks.step[broker].mark != mark:
            link = ways.link[line, broker]
            used, nodes = _step(marks, nodes, used, steered, broker, below, link)
            broker, below = rules.link_source[link], used - 1
        if below != NONE:
            here = marks.step[broker].node
            nodes[below].sibling, nodes[here].child = nodes[here].child, below
        there = marks.step[end].node
        wants[2, want], nodes[there].want = nodes[there].want, want
        want = following
    return used, nodes


@inlined
def _step(
    marks: Marks, nodes: Array, used: int, steered: Steered, broker: int, child: int, link: int
) -> tuple[int, Array]:
    nodes = with_room(nodes, used + 1)
    _mark(nodes, used, steered.stamp, child, link)
    nodes[used].flow = steered.flow
    marks.step[broker].mark, marks.step[broker].node = steered.mark, used
    return used + 1, nodes
