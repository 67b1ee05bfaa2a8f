"""Lower bounds: what no set of links that leads from a root to all its terminals can cost less than.

Wong's dual ascent. Links whose price is used up are *saturated*. Whatever reaches a terminal must enter the set of
nodes that reach it over saturated links, by one of the links of its *cut*. So while the root is not in that set, all
links of the cut can pay the least price that is left among them, and the bound rises by as much; this saturates at
least one more, and the set grows. A terminal rests as soon as its set holds the root or a terminal that is not at
rest, since that one then goes on for both. At the end saturated links lead from the root to all terminals.

1. No link pays more than its price, and each raise is paid by links that every solution has one of. So the bound holds
   whichever terminal is raised when. All is integer; nothing is rounded.
2. The terminal with the smallest cut is raised, which spends least for what the bound gains (Pajor, Uchoa, Werneck
   2018): as long as its cut has hardly more links than the last known cut of any other. That number may be out of date,
   and is put right when the terminal's turn comes. Among equals the lower node goes first.
3. Raises in a row are one Dijkstra search against the links: a node joins the set when the raises add up to its
   distance. So the bound of a single terminal is its distance.
4. Where all links cost the same, what is left of a price is all of it or nothing. So what a search comes upon later
   joins later, and a plain queue does for a heap.
5. The root is not asked for until a search comes upon it. So the same terminals are raised once for all their roots, up
   to the last terminal that is not at rest; one search from there gives what each root adds. Only for a root that an
   earlier search came upon all of it is done again. Each bound is the one that its root would get alone.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.nothing import NONE

UNLIMITED = 2**63 - 1
NOT_YET = NONE  # bounded
SLACK = 4  # "hardly": by up to one in so many; makes far fewer searches than none, and bounds that are as good


class Incoming(NamedTuple):
    """The links that enter node v stand between offsets v and v + 1."""

    offsets: Array
    sources: Array
    prices: Array
    even: bool  # all links cost the same


class Work(NamedTuple):
    """What all instances write on."""

    nodes: Array  # see NODE
    left: Array  # by link: the price that is left, once the link's target is known to the instance
    members: Array  # the set, in the order of joining
    queue: Array  # a heap of distances and nodes, as two rows
    waiting: Array  # a heap of terminals not at rest, by their cuts, then by their numbers


# Of a node: the last instance that met it, in which it is a terminal that is not at rest, and in which saturated links
# lead to it from the root. Its stage is the number of the last search that met it, and one more if it is in that one's
# set; then the raises after which it joins, its links into the set, and the next node on its way to the terminal. One
# row, half a cache line, since what a search needs of a node is then fetched at once.
NODE = np.dtype(
    [("distance", np.int64)]
    + [(name, np.int32) for name in ("stage", "entering", "following", "known", "awake", "connected")]
)
TERMINAL_BITS = 32
LAST_SEARCH = 2**30  # searches have even numbers; beyond this one they begin anew, before stages are too large


@kernel
def ascent_bounds(
    offsets: Array,
    targets: Array,
    prices: Array,
    terminal_offsets: Array,
    terminals: Array,
    root_offsets: Array,
    roots: Array,
    out: Array,
) -> None:
    """Sets ``out[i]`` to a bound for root i and all terminals of its set; all arrays are of int64.

    Set s has the terminals between ``terminal_offsets`` s and s + 1, and the roots between its ``root_offsets``. The
    links that leave node v stand between ``offsets`` v and v + 1. Prices are at least 0, together below 2**62, and
    rounded down if they were not whole. A way must lead from the root to each terminal. Terminals may come twice, and
    be the root; roots may come twice. Seldom a bound is below that of ``farthest_bounds``; the larger of the two holds
    as well.
    """
    graph = incoming_of(offsets, targets, prices)
    work = new_ascent(len(offsets) - 1, len(targets), len(terminals))
    instance, search = 0, 0
    for s in range(len(terminal_offsets) - 1):
        some = terminals[terminal_offsets[s] : terminal_offsets[s + 1]]
        first, end = root_offsets[s], root_offsets[s + 1]
        if end - first > 1:
            instance, search = _ascend_for_all(graph, work, instance, roots[first:end], some, search, out[first:end])
        for i in range(first, end):
            if end - first == 1 or out[i] == NOT_YET:
                search = room_for_searches(work, search)
                out[i], search, _ = ascend(graph, work, instance, roots[i], some, search, False)
                instance += 1


@kernel
def farthest_bounds(
    distances: Array, terminal_offsets: Array, terminals: Array, sets: Array, places: Array, out: Array
) -> None:
    """Weaker and faster: of each of these sets the distance of the farthest terminal, 0 if there is none.

    ``distances`` are those of all nodes from one root; what is found goes to the given places of ``out``.
    """
    for at in range(len(sets)):
        farthest = 0
        for i in range(terminal_offsets[sets[at]], terminal_offsets[sets[at] + 1]):
            farthest = max(farthest, distances[terminals[i]])
        out[places[at]] = farthest


@kernel
def incoming_of(offsets: Array, targets: Array, prices: Array) -> Incoming:
    size = len(offsets) - 1
    starts = np.zeros(size + 1, np.int64)
    for target in targets:
        starts[target + 1] += 1
    starts = np.cumsum(starts)
    places = starts.copy()
    sources, paid = np.empty(len(targets), np.int32), np.empty(len(targets), np.int64)
    for source in range(size):
        for link in range(offsets[source], offsets[source + 1]):
            place = places[targets[link]]
            places[targets[link]] += 1
            sources[place], paid[place] = source, prices[link]
    even = True
    for price in paid:
        even = even and price == paid[0]
    return Incoming(starts, sources, paid, even)


@kernel
def new_ascent(nodes: int, links: int, terminals: int) -> Work:
    work = Work(
        np.zeros(nodes, NODE),
        np.empty(links, np.int64),
        np.empty(nodes, np.int64),
        np.empty((2, links + 1), np.int64),
        np.empty((2, min(nodes, terminals)), np.int64),
    )
    for node in work.nodes:
        node.known = node.awake = node.connected = NONE
    return work


@kernel
def room_for_searches(work: Work, search: int) -> int:
    """The number of the last search, or 0 after all are forgotten."""
    if search <= LAST_SEARCH:
        return search
    for node in work.nodes:
        node.stage = 0
    return 0


@kernel
def _ascend_for_all(
    graph: Incoming, work: Work, i: int, roots: Array, terminals: Array, search: int, out: Array
) -> tuple[int, int]:
    """Bounds of the roots that no search comes upon but the last; those of the others are NOT_YET.

    Returns the number of the next instance, and that of the last search.
    """
    search = room_for_searches(work, search)
    bound, search, last = ascend(graph, work, i, NONE, terminals, search, False)
    wanted = 0
    for root in roots:
        if last != NONE and root != last and work.nodes[root].known != i and work.nodes[root].awake != i:
            work.nodes[root].awake = i
            wanted += 1
    search += 2
    if wanted:
        _reach(graph, work, i, last, wanted, search)
    for at in range(len(roots)):
        node = work.nodes[roots[at]]
        out[at] = bound + node.distance if wanted and node.connected == i else NOT_YET
    return i + 1, search


@kernel
def _reach(graph: Incoming, work: Work, i: int, terminal: int, wanted: int, search: int) -> None:
    """Distances of the wanted roots to the last terminal, in what is left of the prices; marks them as connected."""
    queued = 0
    work.nodes[terminal].stage, work.nodes[terminal].distance = search, 0
    _push(work.queue, queued, 0, terminal)
    queued += 1
    while queued:
        distance, node = work.queue[0, 0], work.queue[1, 0]
        _pop(work.queue, queued)
        queued -= 1
        here = work.nodes[node]
        if here.stage == search + 1:
            continue
        here.stage = search + 1
        if here.awake == i:
            here.connected = i
            wanted -= 1
            if wanted == 0:
                return
        paid = here.known == i
        for link in range(graph.offsets[node], graph.offsets[node + 1]):
            source = graph.sources[link]
            there = work.nodes[source]
            farther = distance + (work.left[link] if paid else graph.prices[link])
            if there.stage < search or (there.stage == search and farther < there.distance):
                there.stage, there.distance = search, farther
                _push(work.queue, queued, farther, source)
                queued += 1


@kernel
def ascend(
    graph: Incoming, work: Work, i: int, root: int, terminals: Array, search: int, to_the_end: bool
) -> tuple[int, int, int]:
    """The bound of instance i, the number of the last search, and NONE.

    If the root is NONE: only until one terminal is left that is not at rest, which then comes last. ``to_the_end`` says
    whether links pay for the last raise too, which no bound needs.
    """
    if root != NONE:
        work.nodes[root].connected = i
    count, bound = 0, 0
    for terminal in terminals:
        if terminal != root and work.nodes[terminal].awake != i:
            work.nodes[terminal].awake = i
            count = _wait(work, count, graph.offsets[terminal + 1] - graph.offsets[terminal], terminal)
    while count:
        terminal = work.waiting[1, 0]
        _pop(work.waiting, count)
        count -= 1
        if count == 0 and root == NONE:
            work.nodes[terminal].awake = NONE
            return bound, search, terminal
        smallest = work.waiting[0, 0] >> TERMINAL_BITS
        most = smallest + smallest // SLACK if count else UNLIMITED
        search += 2
        raised, cut, end, size = _raise(graph, work, i, terminal, most, search)
        bound += raised
        if end == NONE and cut > 0:
            count = _wait(work, count, cut, terminal)
        else:
            work.nodes[terminal].awake = NONE
            if end != NONE and work.nodes[end].connected == i:
                _connect(work, i, terminal, end)
        if raised and (count or to_the_end):
            _pay(graph, work, raised, size, search)
    return bound, search, NONE


@kernel
def _raise(graph: Incoming, work: Work, i: int, terminal: int, most: int, search: int) -> tuple[int, int, int, int]:
    """Raises a terminal until it can rest, or its cut has more links than ``most``.

    Returns by how much, the number of links then in the cut, the node that lets the terminal rest (else NONE), and
    how many members of the set may have links that paid.
    """
    raised, cut, queued, seen, size = 0, 0, 0, 0, 1
    head = 0  # of the queue, which is no heap, where all links cost the same
    work.members[0] = terminal
    work.nodes[terminal].stage, work.nodes[terminal].distance = search + 1, 0
    while True:
        while seen < size:
            node = work.members[seen]
            here = work.nodes[node]
            if here.connected == i or (here.awake == i and node != terminal):
                return raised, cut, node, seen
            seen += 1
            size, cut, queued = _look_back(graph, work, i, node, raised, search, size, cut, queued)
        while queued > head and work.nodes[work.queue[1, head]].stage == search + 1:
            if graph.even:
                head += 1
            else:
                _pop(work.queue, queued)
                queued -= 1
        if queued == head or (cut > most and work.queue[0, head] > raised):
            return raised, cut, NONE, seen
        raised = work.queue[0, head]
        size, cut = _join(work, work.queue[1, head], search, size, cut)


@inlined
def _look_back(
    graph: Incoming, work: Work, i: int, node: int, raised: int, search: int, size: int, cut: int, queued: int
) -> tuple[int, int, int]:
    """Adds the links that enter a new member to the cut, and to the set what they lead from if they are saturated."""
    start, stop = graph.offsets[node], graph.offsets[node + 1]
    if work.nodes[node].known != i:
        work.nodes[node].known = i
        for link in range(start, stop):  # a slice would be slower than the rest of the search
            work.left[link] = graph.prices[link]
    for link in range(start, stop):
        source, distance = graph.sources[link], raised + work.left[link]
        there = work.nodes[source]
        if there.stage == search + 1:
            continue
        if there.stage != search:
            there.stage, there.entering, there.distance = search, 0, UNLIMITED
        there.entering += 1
        cut += 1
        if distance < there.distance:
            there.distance, there.following = distance, node
            if distance == raised:
                size, cut = _join(work, source, search, size, cut)
            else:
                if graph.even:
                    work.queue[0, queued], work.queue[1, queued] = distance, source
                else:
                    _push(work.queue, queued, distance, source)
                queued += 1
    return size, cut, queued


@inlined
def _join(work: Work, node: int, search: int, size: int, cut: int) -> tuple[int, int]:
    work.nodes[node].stage = search + 1
    work.members[size] = node
    return size + 1, cut - work.nodes[node].entering


@kernel
def _pay(graph: Incoming, work: Work, raised: int, size: int, search: int) -> None:
    """Takes from each link what was raised between its target's joining and its source's."""
    for at in range(size):
        node = work.members[at]
        since = work.nodes[node].distance
        if since == raised:
            break
        for link in range(graph.offsets[node], graph.offsets[node + 1]):
            there = work.nodes[graph.sources[link]]
            until = there.distance if there.stage == search + 1 else raised
            if until > since:
                work.left[link] -= until - since


@kernel
def _connect(work: Work, i: int, terminal: int, node: int) -> None:
    """Marks the way to the terminal, all of it saturated, so that other searches need not go on to the root."""
    while node != terminal:
        node = work.nodes[node].following
        work.nodes[node].connected = i


@inlined
def _wait(work: Work, count: int, cut: int, terminal: int) -> int:
    """Returns how many terminals wait now."""
    _push(work.waiting, count, cut << TERMINAL_BITS | terminal, terminal)
    return count + 1


@kernel
def _push(heap: Array, count: int, key: int, item: int) -> None:
    at = count
    while at:
        above = (at - 1) >> 1
        if heap[0, above] <= key:
            break
        heap[0, at], heap[1, at] = heap[0, above], heap[1, above]
        at = above
    heap[0, at], heap[1, at] = key, item


@kernel
def _pop(heap: Array, count: int) -> None:
    """Removes the first of ``count`` entries."""
    last = count - 1
    key, item = heap[0, last], heap[1, last]
    at = 0
    while 2 * at + 1 < last:
        below = 2 * at + 1
        if below + 1 < last and heap[0, below + 1] < heap[0, below]:
            below += 1
        if key <= heap[0, below]:
            break
        heap[0, at], heap[1, at] = heap[0, below], heap[1, below]
        at = below
    heap[0, at], heap[1, at] = key, item
