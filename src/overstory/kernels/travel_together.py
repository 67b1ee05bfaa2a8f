"""The meter's kernel for rows that match the same predicates, where a plan lets them share what is counted.

Whoever wants the events of one such row wants those of all. Where they all travel in one flow on a tree, each broker
gets one copy of an event, and its clients get it there. So rows only add up events, bytes and delays at brokers; who
wants them there is looked at once, for all rows. Publishers differ, and so do the ways: these are marked for each row,
from the brokers where somebody wants it.

Where that would take more steps than the tree has nodes, all rows sweep over the tree at once. An event crosses a link
if it comes from one side and somebody wants it on the other. So two passes suffice: towards the root they add up what
comes from below each node, and away from the root what comes to it from elsewhere.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, kernel
from overstory.kernels.metering import DELIVERIES, EVENTS, Rows, Rules, Totals
from overstory.kernels.nothing import NONE
from overstory.kernels.wants import Marks, holds, mark, mark_way


class Run(NamedTuple):
    """Rows that match the same predicates, and are of the same part of the log."""

    begin: int
    end: int
    flow: int  # that all of them travel in
    wants: int  # how many there are


class Sweep(NamedTuple):
    """Room for passes over one tree, whose nodes are counted from its first one."""

    tree: Array  # one number: which tree ``order`` is of
    roots: Array  # one number: how many it has; a lawful tree has one
    order: Array  # its nodes, parents before their children
    ends: Array  # by node: the brokers below it, or at it, that want the events
    below: Array  # by node: what comes from below, or from there (see COMING)
    every: Array  # by node: what comes from anywhere
    second: Array  # by node: the longest delay but that of ``via``
    via: Array  # by node: the child that the longest delay is of, NONE if it is of none


# What comes to a node: events, their bytes, the sum of their delays, and the longest one, NONE without events
COMING = np.dtype([(name, np.int64) for name in ("events", "bytes", "delay", "latest")])


class Shared(NamedTuple):
    """What rows of one run add up, by broker; it stands if ``run`` is the number of the run."""

    run: Array
    events: Array
    bytes: Array
    delay: Array
    latest: Array
    listed: Array  # the brokers where somebody wants the events of the run
    waiting: Array  # nodes that wait, and the delays until then
    delays: Array
    served: Array  # one number, which falls: the mark of whoever got what is shared in a run
    sweep: Sweep


@kernel
def new_shared(rules: Rules) -> Shared:
    size = rules.place.shape[1] + 1
    return Shared(
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros(1, np.int64),
        Sweep(
            np.full(1, NONE, np.int64),
            np.zeros(1, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size, np.int64),
            np.zeros(size, COMING),
            np.zeros(size, COMING),
            np.zeros(size, np.int64),
            np.zeros(size, np.int64),
        ),
    )


@kernel
def may_share(rules: Rules) -> bool:
    """Whether nothing in the plan tells events of one publisher from those of another, or sends events to who does not
    want them."""
    rows_for_clients = len(rules.access_offsets) > 1
    return len(rules.flow_watched) == 0 and not rows_for_clients and not rules.member_no_local.any()


@kernel
def end_of_run(rows: Rows, row: int) -> int:
    """The first row behind this one that matches other predicates, or is of another part of the log."""
    begin, end = rows.offsets[row], rows.offsets[row + 1]
    last = row + 1
    while last < len(rows.part) and rows.part[last] == rows.part[row]:
        if rows.offsets[last + 1] - rows.offsets[last] != end - begin:
            break
        same, shift = True, rows.offsets[last] - begin
        for i in range(begin, end):
            if rows.predicates[i] != rows.predicates[i + shift]:
                same = False
                break
        if not same:
            break
        last += 1
    return last


@kernel
def flow_of_all(rules: Rules, marks: Marks, row: int, wants: Array, count: int) -> int:
    """The flow that all who want the events of a row want them in, if it has a tree and they enter it; else NONE."""
    flow = wants[0, 0] if count else NONE
    for want in range(count):
        if wants[0, want] != flow:
            return NONE
    if flow == NONE or rules.flow_tree[flow] == NONE or not holds(marks, rules.flow_events[flow], row):
        return NONE
    return int(flow)


@kernel
def travel_together(
    rules: Rules, rows: Rows, run: Run, totals: Totals, marks: Marks, nodes: Array, wants: Array, shared: Shared
) -> None:
    """The rows of a run, with what ``wants_of`` has found of its first one."""
    number, tree, listed = run.begin + 1, rules.flow_tree[run.flow], _list_brokers(rules, run, wants, shared)
    size = _ordered(rules, tree, shared.sweep)
    if shared.sweep.roots[0] == 1 and (run.end - run.begin) * listed >= size:
        _sweep(rules, rows, run, totals, shared, listed, size)
    else:
        for row in range(run.begin, run.end):
            part, publisher = rows.part[row], rows.publisher[row]
            totals.counts[part, EVENTS] += rows.events[row]
            totals.publisher_bytes[part, publisher] += rows.bytes[row]
            here = rules.place[tree, rules.publisher_broker[publisher]]
            if here == NONE:
                continue  # only in a plan that breaks the law
            mark(nodes, here, row + 1, NONE, NONE)
            marks.top[run.flow] = here
            for i in range(listed):
                node = rules.place[tree, shared.listed[i]]
                mark_way(rules, marks, nodes, run.flow, node, row + 1)
            _follow(rules, rows, row, number, here, totals, nodes, shared)
    _serve(rules, run, rows.part[run.begin], totals, marks, wants, shared)


@kernel
def _list_brokers(rules: Rules, run: Run, wants: Array, shared: Shared) -> int:
    """Arrays have names of their own here and in ``_serve``, as in ``travel``: there are many wants."""
    member_group, group_broker, place = rules.member_group, rules.group_broker, rules.place[rules.flow_tree[run.flow]]
    seen, listed, number = shared.run, 0, run.begin + 1
    for want in range(run.wants):
        broker = group_broker[member_group[wants[1, want]]]
        if seen[broker] == number or place[broker] == NONE:
            continue
        seen[broker] = number
        shared.events[broker] = shared.bytes[broker] = shared.delay[broker] = shared.latest[broker] = 0
        shared.listed[listed] = broker
        listed += 1
    return listed


@kernel
def _ordered(rules: Rules, tree: int, sweep: Sweep) -> int:
    """Brings the nodes of a tree into an order in which parents stand before their children. Returns how many there
    are."""
    size = 0
    for node in rules.place[tree]:
        size += node != NONE
    if sweep.tree[0] == tree:
        return size
    first = _first_node(rules, tree)
    depth = np.empty(size, np.int64)
    sweep.roots[0], sweep.tree[0] = 0, tree
    for at in range(size):
        depth[at] = rules.nodes[first + at].depth
        sweep.roots[0] += depth[at] == 0
    sweep.order[:size] = np.argsort(depth, kind="mergesort")
    return size


@kernel
def _first_node(rules: Rules, tree: int) -> int:
    """The nodes of a tree have numbers in a row."""
    for node in rules.place[tree]:
        if node != NONE:
            return int(node)
    return 0


@kernel
def _sweep(rules: Rules, rows: Rows, run: Run, totals: Totals, shared: Shared, listed: int, size: int) -> None:
    """All rows of a run over their tree at once."""
    tree, part = rules.flow_tree[run.flow], rows.part[run.begin]
    sweep, first = shared.sweep, _first_node(rules, tree)
    for at in range(size):
        here = sweep.below[at]
        here.events = here.bytes = here.delay = 0
        here.latest = sweep.second[at] = sweep.via[at] = NONE
        sweep.ends[at] = 0
    for row in range(run.begin, run.end):
        publisher = rows.publisher[row]
        totals.counts[part, EVENTS] += rows.events[row]
        totals.publisher_bytes[part, publisher] += rows.bytes[row]
        node = rules.place[tree, rules.publisher_broker[publisher]]
        if node != NONE:  # which it is only in a plan that breaks the law
            here, delay = sweep.below[node - first], rules.publisher_delay[publisher]
            here.events += rows.events[row]
            here.bytes += rows.bytes[row]
            here.delay += rows.events[row] * delay
            here.latest = max(here.latest, delay)
    for i in range(listed):
        sweep.ends[rules.place[tree, shared.listed[i]] - first] += 1
    _towards_the_root(rules, sweep, first, size)
    _away_from_the_root(rules, part, totals, sweep, first, size, listed)
    for i in range(listed):
        broker = shared.listed[i]
        here = sweep.every[rules.place[tree, broker] - first]
        shared.events[broker], shared.bytes[broker] = here.events, here.bytes
        shared.delay[broker], shared.latest[broker] = here.delay, max(here.latest, 0)


@kernel
def _towards_the_root(rules: Rules, sweep: Sweep, first: int, size: int) -> None:
    for k in range(size - 1, -1, -1):
        at = sweep.order[k]
        node, here = rules.nodes[first + at], sweep.below[at]
        if node.depth == 0:
            continue
        above = node.parent - first
        sweep.ends[above] += sweep.ends[at]
        if here.events == 0:
            continue
        there, link_delay = sweep.below[above], rules.link_delay[node.up]
        there.events += here.events
        there.bytes += here.bytes
        there.delay += here.delay + here.events * link_delay
        latest = here.latest + link_delay
        if latest > there.latest:
            sweep.second[above], sweep.via[above], there.latest = there.latest, at, latest
        else:
            sweep.second[above] = max(sweep.second[above], latest)


@kernel
def _away_from_the_root(
    rules: Rules, part: int, totals: Totals, sweep: Sweep, first: int, size: int, listed: int
) -> None:
    """Also counts what crosses links."""
    frames, bytes_ = totals.link_frames[part], totals.link_bytes[part]
    for k in range(size):
        at = sweep.order[k]
        node, below, every = rules.nodes[first + at], sweep.below[at], sweep.every[at]
        every.events, every.bytes, every.delay, every.latest = below.events, below.bytes, below.delay, below.latest
        if node.depth == 0:
            continue
        above = node.parent - first
        there, up, down = sweep.every[above], node.up, node.down
        if below.events > 0 and sweep.ends[at] < listed:
            frames[up] += below.events
            bytes_[up] += below.bytes
        events, size_ = there.events - below.events, there.bytes - below.bytes
        if events == 0:
            continue
        if sweep.ends[at] > 0:
            frames[down] += events
            bytes_[down] += size_
        others = there.delay - below.delay - below.events * rules.link_delay[up]
        latest = (sweep.second[above] if sweep.via[above] == at else there.latest) + rules.link_delay[down]
        every.events += events
        every.bytes += size_
        every.delay += others + events * rules.link_delay[down]
        if latest > every.latest:
            sweep.second[at], sweep.via[at], every.latest = every.latest, NONE, latest
        else:
            sweep.second[at] = max(sweep.second[at], latest)


@kernel
def _follow(
    rules: Rules, rows: Rows, row: int, number: int, here: int, totals: Totals, nodes: Array, shared: Shared
) -> None:
    """Over all links that are marked for a row, and what is counted there."""
    part, events, size = rows.part[row], rows.events[row], rows.bytes[row]
    link_frames, link_bytes, tree_nodes = totals.link_frames[part], totals.link_bytes[part], rules.nodes
    waiting, delays = shared.waiting, shared.delays
    waiting[0], delays[0], height = here, rules.publisher_delay[rows.publisher[row]], 1
    while height:
        height -= 1
        node, delay = waiting[height], delays[height]
        broker = np.int64(tree_nodes[node].broker)
        if shared.run[broker] == number:
            shared.events[broker] += events
            shared.bytes[broker] += size
            shared.delay[broker] += events * delay
            shared.latest[broker] = max(shared.latest[broker], delay)
        child, rising = np.int64(nodes[node].child), nodes[node].rising != 0
        while child != NONE or rising:
            if child != NONE:
                there, link = child, np.int64(nodes[child].down)
                child = np.int64(nodes[child].sibling)
            else:
                there, link, rising = np.int64(tree_nodes[node].parent), np.int64(tree_nodes[node].up), False
            link_frames[link] += events
            link_bytes[link] += size
            waiting[height], delays[height] = there, delay + rules.link_delay[link]
            height += 1


@kernel
def _serve(rules: Rules, run: Run, part: int, totals: Totals, marks: Marks, wants: Array, shared: Shared) -> None:
    """Those who want the events of a run get what has been added up at their brokers. They come in the order in which
    predicates list them, in which their groups have numbers in a row: so memory is read along."""
    copies, bytes_, delays, latest = (
        totals.group_copies[part],
        totals.group_bytes[part],
        totals.group_delay,
        totals.group_latest,
    )
    member_group, member_row, member_count = rules.member_group, rules.member_row, rules.member_count
    group_broker, group_size, held, last = rules.group_broker, rules.group_size, marks.held, marks.served
    ran, ran_events, ran_bytes, ran_delay, ran_latest = (
        shared.run,
        shared.events,
        shared.bytes,
        shared.delay,
        shared.latest,
    )
    shared.served[0] -= 1  # frames of rows that travel alone have numbers above 0
    served, number, deliveries = shared.served[0], run.begin + 1, 0
    for want in range(run.wants):
        member = wants[1, want]
        group = member_group[member]
        broker = group_broker[group]
        if ran[broker] != number:
            continue  # only in a plan that breaks the law
        if member_row[member] == NONE or held[member_row[member]] == number:
            deliveries += ran_events[broker] * group_size[group] * member_count[member]
            if last[group] != served:
                last[group] = served
                copies[group] += ran_events[broker]
                bytes_[group] += ran_bytes[broker]
                delays[group] += ran_delay[broker]
                latest[group] = max(latest[group], ran_latest[broker])
    totals.counts[part, DELIVERIES] += deliveries
