"""Who wants an event, and the ways to them: the first half of the meter's kernel.

The predicates that hold are marked; they tell which members want the event in which flow. From the brokers of those,
each flow's tree is marked back to the publishing broker, so that a node is marked if and only if somebody behind it (or
at it) wants the event.

A steered flow has no tree. For each event its own tree, which was found before, becomes nodes with numbers beyond those
of the trees, which are there for that event alone. Where the flow has regions, the legs that begin at gateways grow on
the nodes of these.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.metering import EVERY, Ends, Rows, Rules, SteeredTrees
from overstory.kernels.nothing import NONE
from overstory.kernels.steering import Branches, branch, header_bytes, new_branches
from overstory.kernels.store import with_room


class Event(NamedTuple):
    """A row on its way: its number, the mark that it leaves, where it is published, and what is counted for it."""

    row: int
    stamp: int
    entry: int
    part: int
    events: int
    bytes: int


class Marks(NamedTuple):
    """What the kernel notes of one row, in arrays that are used again for the next. A mark stands if it is the number
    of the row, or of the frame."""

    held: Array  # by predicate
    entered: Array  # by flow
    top: Array  # by flow: the highest marked node above the publishing broker; if it is steered, the last of its wants
    step: Array  # by broker: its node in the steered tree at hand
    stay: Array  # by broker: its node in the steered flow at hand, if its event stays there
    stayed: Array  # by broker: the last steered tree, or that flow's first, whose event stays there
    region: Array  # by flow and broker: whether the summary of its region matches; see ``Rules.gateway``
    branches: Branches  # of the steered tree at hand
    trees: Array  # one number: how many steered trees there were
    arrived: Array  # by broker
    served: Array  # by group: the last frame that it got a copy of
    crossed: Array  # by link: see CROSSED
    for_all: Array  # the flows for every subscription that the event enters
    widest: int  # links that leave a broker, at most: copies of a frame are no more


# Of a node, apart from the marks: whether it is on the way to somebody who wants the event, or at it. If so, the first
# of its children that are, the next child of its parent, the link from there, whether the event goes up from it, and
# the last of those at it who want the event, which leads to the others. Anyhow: the next node in its frame. Of a node
# of a steered flow: that flow, whether the event stays there, whether somebody there or behind it wants the event, the
# length of the header of a copy that goes to it, and the node before it.
FIELDS = (
    "marked",
    "child",
    "sibling",
    "down",
    "rising",
    "want",
    "following",
    "flow",
    "stays",
    "wanted",
    "header",
    "before",
)
MARK = np.dtype([(name, np.int32) for name in FIELDS])

# Of a link: the last frame that went on over it, and where the copy waits.
CROSSED = np.dtype([("frame", np.int64), ("place", np.int64)])


@kernel
def empty_marks(rules: Rules) -> Marks:
    brokers = rules.place.shape[1]
    return Marks(
        np.zeros(len(rules.member_offsets) - 1, np.int64),
        np.zeros(len(rules.flow_events), np.int64),
        np.zeros(len(rules.flow_events), np.int64),
        np.zeros(brokers, np.int64),
        np.zeros(brokers, np.int64),
        np.zeros(brokers, np.int64),
        np.zeros(len(rules.gateway), np.int64),
        new_branches(brokers if (rules.flow_tree == NONE).any() else 0),
        np.zeros(1, np.int64),
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
    count, flows = 0, marks.for_all
    offsets, no_local = rules.member_offsets, rules.member_no_local
    member_group, member_flow = rules.member_group, rules.member_flow
    for i in range(rows.offsets[row], rows.offsets[row + 1]):
        predicate = rows.predicates[i]
        for member in range(offsets[predicate], offsets[predicate + 1]):
            if no_local[member] and member_group[member] == own:
                continue
            flow = member_flow[member]
            if flow == EVERY:
                for k in range(for_all):
                    wants = _with_want(wants, count, flows[k], member)
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
    rules: Rules, trees: SteeredTrees, event: Event, marks: Marks, nodes: Array, wants: Array, count: int, starts: Array
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
            mark_way(rules, marks, nodes, flow, node, event.stamp)
            wants[2, want], nodes[node].want = nodes[node].want, want
    used = len(rules.nodes)
    for i in range(entered):
        flow = starts[i]
        if rules.flow_tree[flow] == NONE:
            starts[i] = used
            used, nodes = _steer(rules, trees, event, flow, marks, nodes, wants, used)
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
            mark(nodes, here, event.stamp, NONE, NONE)
        marks.entered[flow], marks.top[flow] = event.stamp, here
        flows = with_room(flows, entered + 1)
        flows[entered] = flow
        entered += 1
    return entered, flows


@inlined
def mark(nodes: Array, node: int, stamp: int, child: int, down: int) -> None:
    its = nodes[node]
    its.marked, its.child, its.down = stamp, child, down
    its.sibling, its.rising, its.want, its.header, its.wanted = NONE, 0, NONE, 0, 1


@inlined
def mark_way(rules: Rules, marks: Marks, nodes: Array, flow: int, node: int, stamp: int) -> None:
    """Marks all nodes between this one and those that are marked already. These reach from the publishing broker up to
    ``top``, and down from there."""
    top, below = marks.top[flow], NONE
    while nodes[node].marked != stamp:
        if rules.nodes[node].depth >= rules.nodes[top].depth:
            mark(nodes, node, stamp, below, rules.nodes[node].down)
            below = node
            node = rules.nodes[node].parent
        else:
            nodes[top].rising = 1
            top = rules.nodes[top].parent
            mark(nodes, top, stamp, NONE, NONE)
    if below != NONE:
        nodes[below].sibling, nodes[node].child = nodes[node].child, below
    marks.top[flow] = top


@kernel
def _steer(
    rules: Rules, trees: SteeredTrees, event: Event, flow: int, marks: Marks, nodes: Array, wants: Array, used: int
) -> tuple[int, Array]:
    """Adds the nodes of an event's tree in a steered flow, the publishing broker's first. Returns how many are in use.

    Whoever wants the event gets it where it stays: at the ends, and at the publishing broker. Each broker is an end of
    one leg at most. The first leg comes first, since the gateways where the others begin are among its ends.
    """
    root, first = used, marks.trees[0] + 1
    nodes = with_room(nodes, used + 1)
    nodes[root].flow, nodes[root].stays = flow, 1
    mark(nodes, root, event.stamp, NONE, NONE)
    marks.stay[event.entry], marks.stayed[event.entry] = root, first
    used += 1
    begin, end = trees.ends.offsets[event.row], trees.ends.offsets[event.row + 1]
    for others in range(2):
        for k in range(begin, end):
            if trees.ends.flow[k] == flow and (trees.ends.roots[k] != event.entry) == (others == 1):
                used, nodes = _grow_leg(rules, trees, event, k, marks, nodes, used)
    want = marks.top[flow]
    while want != NONE:
        following = wants[2, want]
        broker = rules.group_broker[rules.member_group[wants[1, want]]]
        if marks.stayed[broker] >= first:
            there = marks.stay[broker]
            nodes[there].wanted = 1
            wants[2, want], nodes[there].want = nodes[there].want, want
        want = following
    for node in range(used - 1, root, -1):
        nodes[nodes[node].before].wanted |= nodes[node].wanted
    marks.trees[0] = max(marks.trees[0], first)
    return used, nodes


@kernel
def _grow_leg(
    rules: Rules, trees: SteeredTrees, event: Event, instance: int, marks: Marks, nodes: Array, used: int
) -> tuple[int, Array]:
    """Adds the nodes of one leg behind that of its root, where the event stays already."""
    ends = trees.ends.ends[trees.ends.end_offsets[instance] : trees.ends.end_offsets[instance + 1]]
    links = trees.links[trees.link_offsets[instance] : trees.link_offsets[instance + 1]]
    root, flow = trees.ends.roots[instance], trees.ends.flow[instance]
    marks.trees[0] += 1
    tree = marks.trees[0]
    branch(trees.ports, marks.branches, tree, root, links, ends, rules.flow_number_bits[flow])
    nodes = with_room(nodes, used + len(links))
    marks.step[root] = marks.stay[root]
    for link in links:
        broker, before = rules.link_target[link], marks.step[rules.link_source[link]]
        stays = marks.branches.stays[broker] == tree
        mark(nodes, used, event.stamp, NONE, link)
        nodes[used].sibling, nodes[before].child, nodes[used].before = nodes[before].child, used, before
        nodes[used].flow, nodes[used].stays, nodes[used].wanted = flow, stays, 0
        nodes[used].header = header_bytes(marks.branches.bits[broker]) if rules.headers[0] else 0
        marks.step[broker] = used
        if stays:
            marks.stay[broker], marks.stayed[broker] = used, tree
        used += 1
    return used, nodes


@kernel
def ends_of_rows(rules: Rules, rows: Rows) -> Ends:
    """Where the events of rows are to stay in steered flows, apart from where each leg begins."""
    marks, brokers = empty_marks(rules), rules.place.shape[1]
    wants, found = np.empty((3, 64), np.int64), np.empty(64, np.int64)
    offsets, end_offsets = np.zeros(len(rows.part) + 1, np.int64), np.zeros(64, np.int64)
    roots, flows, ends = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(256, np.int64)
    instances = total = 0
    for row in range(len(rows.part)):
        for i in range(rows.offsets[row], rows.offsets[row + 1]):
            marks.held[rows.predicates[i]] = row + 1
        count, wants = wants_of(rules, rows, row, marks, wants)
        size, found = _found_ends(rules, rows, row, marks, wants, count, found)
        keys = np.sort(found[:size])
        for k in range(size):
            leg, broker = keys[k] // brokers, keys[k] % brokers
            flow, root = leg // brokers, leg % brokers
            if broker == root or (k and keys[k] == keys[k - 1]):
                continue
            if instances == offsets[row] or flows[instances - 1] != flow or roots[instances - 1] != root:
                roots, flows = with_room(roots, instances + 1), with_room(flows, instances + 1)
                end_offsets = with_room(end_offsets, instances + 2)
                roots[instances], flows[instances] = root, flow
                instances += 1
            ends = with_room(ends, total + 1)
            ends[total] = broker
            total += 1
            end_offsets[instances] = total
        offsets[row + 1] = instances
    return Ends(offsets, roots[:instances], flows[:instances], end_offsets[: instances + 1], ends[:total])


@inlined
def _found_ends(
    rules: Rules, rows: Rows, row: int, marks: Marks, wants: Array, count: int, found: Array
) -> tuple[int, Array]:
    """The steered flow, the root of the leg and the broker of each end, as one number, perhaps more than once: how
    many, and which."""
    brokers, size = rules.place.shape[1], 0
    entry = rules.publisher_broker[rows.publisher[row]]
    summarised, with_regions = len(rules.has_summary) > 1, len(rules.gateway) > 1
    # First the summaries of regions, which say where legs may lead; then those of hosts
    for turn in range(0 if with_regions else 1, 2 if summarised else 0):
        for i in range(rows.offsets[row], rows.offsets[row + 1]):
            predicate = rows.predicates[i]
            for at in range(rules.summary_offsets[predicate], rules.summary_offsets[predicate + 1]):
                flow, broker = rules.summary_flow[at], rules.summary_broker[at]
                of_region = with_regions and rules.gateway[flow * brokers + broker] == broker
                if of_region != (turn == 0) or not holds(marks, rules.flow_events[flow], row):
                    continue
                if of_region:
                    marks.region[flow * brokers + broker] = row + 1
                    if rules.gateway[flow * brokers + entry] != broker:
                        found = with_room(found, size + 1)
                        found[size] = (flow * brokers + entry) * brokers + broker
                        size += 1
                else:
                    size, found = _add_end(rules, marks, row, entry, flow, broker, size, found)
    for want in range(count):
        flow = wants[0, want]
        if rules.flow_tree[flow] == NONE:
            broker = rules.group_broker[rules.member_group[wants[1, want]]]
            key = flow * brokers + broker
            by_row = summarised and rules.has_summary[key] and not (with_regions and rules.gateway[key] == broker)
            if not by_row:
                size, found = _add_end(rules, marks, row, entry, flow, broker, size, found)
    return size, found


@inlined
def _add_end(
    rules: Rules, marks: Marks, row: int, entry: int, flow: int, broker: int, size: int, found: Array
) -> tuple[int, Array]:
    """Adds an end of the first leg or, if it is in another region that the event goes to, of that region's leg, whose
    gateway is then an end of the first."""
    brokers = rules.place.shape[1]
    found = with_room(found, size + 2)
    gateway = rules.gateway[flow * brokers + broker] if len(rules.gateway) > 1 else NONE
    if gateway == NONE or gateway == rules.gateway[flow * brokers + entry]:
        found[size] = (flow * brokers + entry) * brokers + broker
        size += 1
    else:
        at = flow * brokers + gateway
        if len(rules.has_summary) == 1 or not rules.has_summary[at]:
            found[size] = (flow * brokers + entry) * brokers + gateway
            found[size + 1] = at * brokers + broker
            size += 2
        elif marks.region[at] == row + 1:
            found[size] = at * brokers + broker
            size += 1
    return size, found
