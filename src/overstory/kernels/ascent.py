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
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel

NOWHERE = -1
UNLIMITED = 2**63 - 1
SLACK = 4  # "hardly": by up to one in so many; makes far fewer searches than none, and bounds that are as good


class Incoming(NamedTuple):
    """The links that enter node v stand between offsets v and v + 1."""

    offsets: Array
    sources: Array
    prices: Array


class Work(NamedTuple):
    """What all instances write on. Stamps say which entries are of the instance, or the search, at hand."""

    left: Array  # by link: the price that is left, once the link's target is known to the instance
    known: Array  # by node: the last instance that met it
    awake: Array  # by terminal: the last instance in which it is not at rest
    connected: Array  # by node: the last instance in which saturated links lead to it from the root
    met: Array  # by node: the last search that saw it
    joined: Array  # by node: the last search in whose set it is
    distances: Array  # by node met: the raises after which it joins
    following: Array  # by node met: the next one on its way to the terminal
    entering: Array  # by node met: its links into the set
    members: Array  # the set, in the order of joining
    queue: Array  # a heap of distances and nodes, as two rows
    waiting: Array  # a heap of cuts and terminals not at rest


@kernel
def ascent_bounds(
    offsets: Array,
    targets: Array,
    prices: Array,
    roots: Array,
    terminal_offsets: Array,
    terminals: Array,
    out: Array,
) -> None:
    """Sets ``out[i]`` to a bound for root i and the terminals between offsets i and i + 1; all arrays are of int64.

    The links that leave node v stand between ``offsets`` v and v + 1. Prices are at least 0, together below 2**62, and
    rounded down if they were not whole. A way must lead from the root to each terminal. Terminals may come twice, and
    be the root. Seldom a bound is below that of ``farthest_bounds``; the larger of the two holds as well.
    """
    graph = _reversed(offsets, targets, prices)
    work = _new_work(len(offsets) - 1, len(targets), len(terminals))
    searches = 0
    for i in range(len(roots)):
        some = terminals[terminal_offsets[i] : terminal_offsets[i + 1]]
        out[i], searches = _ascend(graph, work, i, roots[i], some, searches)


@kernel
def farthest_bounds(distances: Array, roots: Array, terminal_offsets: Array, terminals: Array, out: Array) -> None:
    """Weaker and faster: the distance of the farthest terminal, 0 if there is none.

    ``roots`` are rows of ``distances``, which has one for each root in use and a column for each node.
    """
    for i in range(len(roots)):
        out[i] = 0
        for at in range(terminal_offsets[i], terminal_offsets[i + 1]):
            out[i] = max(out[i], distances[roots[i], terminals[at]])


@kernel
def _reversed(offsets: Array, targets: Array, prices: Array) -> Incoming:
    size = len(offsets) - 1
    starts = np.zeros(size + 1, np.int64)
    for target in targets:
        starts[target + 1] += 1
    starts = np.cumsum(starts)
    places = starts.copy()
    sources, paid = np.empty(len(targets), np.int64), np.empty(len(targets), np.int64)
    for source in range(size):
        for link in range(offsets[source], offsets[source + 1]):
            place = places[targets[link]]
            places[targets[link]] += 1
            sources[place], paid[place] = source, prices[link]
    return Incoming(starts, sources, paid)


@kernel
def _new_work(nodes: int, links: int, terminals: int) -> Work:
    return Work(
        np.empty(links, np.int64),
        np.full(nodes, -1, np.int64),
        np.full(nodes, -1, np.int64),
        np.full(nodes, -1, np.int64),
        np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty(nodes, np.int64),
        np.empty((2, links + 1), np.int64),
        np.empty((2, min(nodes, terminals)), np.int64),
    )


@kernel
def _ascend(graph: Incoming, work: Work, i: int, root: int, terminals: Array, searches: int) -> tuple[int, int]:
    """The bound of instance i, and the number of the last search."""
    work.connected[root] = i
    count, bound = 0, 0
    for terminal in terminals:
        if terminal != root and work.awake[terminal] != i:
            work.awake[terminal] = i
            _push(work.waiting, count, graph.offsets[terminal + 1] - graph.offsets[terminal], terminal)
            count += 1
    while count:
        terminal = work.waiting[1, 0]
        _pop(work.waiting, count)
        count -= 1
        most = work.waiting[0, 0] + work.waiting[0, 0] // SLACK if count else UNLIMITED
        searches += 1
        raised, cut, end, size = _raise(graph, work, i, terminal, most, searches)
        bound += raised
        if end == NOWHERE and cut > 0:
            _push(work.waiting, count, cut, terminal)
            count += 1
        else:
            work.awake[terminal] = -1
            if end != NOWHERE and work.connected[end] == i:
                _connect(work, i, terminal, end)
        if raised and count:
            _pay(graph, work, raised, size, searches)
    return bound, searches


@kernel
def _raise(graph: Incoming, work: Work, i: int, terminal: int, most: int, search: int) -> tuple[int, int, int, int]:
    """Raises a terminal until it can rest, or its cut has more links than ``most``.

    Returns by how much, the number of links then in the cut, the node that lets the terminal rest (else NOWHERE), and
    how many members of the set may have links that paid.
    """
    raised, cut, queued, seen, size = 0, 0, 0, 0, 1
    work.members[0] = terminal
    work.joined[terminal], work.distances[terminal] = search, 0
    while True:
        while seen < size:
            node = work.members[seen]
            if work.connected[node] == i or (work.awake[node] == i and node != terminal):
                return raised, cut, node, seen
            seen += 1
            size, cut, queued = _look_back(graph, work, i, node, raised, search, size, cut, queued)
        while queued and work.joined[work.queue[1, 0]] == search:
            _pop(work.queue, queued)
            queued -= 1
        if queued == 0 or (cut > most and work.queue[0, 0] > raised):
            return raised, cut, NOWHERE, seen
        raised = work.queue[0, 0]
        size, cut = _join(work, work.queue[1, 0], search, size, cut)


@inlined
def _look_back(
    graph: Incoming, work: Work, i: int, node: int, raised: int, search: int, size: int, cut: int, queued: int
) -> tuple[int, int, int]:
    """Adds the links that enter a new member to the cut, and to the set what they lead from if they are saturated."""
    start, stop = graph.offsets[node], graph.offsets[node + 1]
    if work.known[node] != i:
        work.known[node] = i
        for link in range(start, stop):  # a slice would be slower than the rest of the search
            work.left[link] = graph.prices[link]
    for link in range(start, stop):
        source, distance = graph.sources[link], raised + work.left[link]
        if work.joined[source] == search:
            continue
        if work.met[source] != search:
            work.met[source], work.entering[source], work.distances[source] = search, 0, UNLIMITED
        work.entering[source] += 1
        cut += 1
        if distance < work.distances[source]:
            work.distances[source], work.following[source] = distance, node
            if distance == raised:
                size, cut = _join(work, source, search, size, cut)
            else:
                _push(work.queue, queued, distance, source)
                queued += 1
    return size, cut, queued


@inlined
def _join(work: Work, node: int, search: int, size: int, cut: int) -> tuple[int, int]:
    work.joined[node] = search
    work.members[size] = node
    return size + 1, cut - work.entering[node]


@kernel
def _pay(graph: Incoming, work: Work, raised: int, size: int, search: int) -> None:
    """Takes from each link what was raised between its target's joining and its source's."""
    for at in range(size):
        node = work.members[at]
        since = work.distances[node]
        if since == raised:
            break
        for link in range(graph.offsets[node], graph.offsets[node + 1]):
            source = graph.sources[link]
            until = work.distances[source] if work.joined[source] == search else raised
            if until > since:
                work.left[link] -= until - since


@kernel
def _connect(work: Work, i: int, terminal: int, node: int) -> None:
    """Marks the way to the terminal, all of it saturated, so that other searches need not go on to the root."""
    while node != terminal:
        node = work.following[node]
        work.connected[node] = i


@kernel
def _push(heap: Array, count: int, key: int, item: int) -> None:
    at = count
    while at:
        above = (at - 1) >> 1
        if heap[0, above] < key or (heap[0, above] == key and heap[1, above] <= item):
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
        other = below + 1
        if other < last and (
            heap[0, other] < heap[0, below] or (heap[0, other] == heap[0, below] and heap[1, other] < heap[1, below])
        ):
            below = other
        if key < heap[0, below] or (key == heap[0, below] and item <= heap[1, below]):
            break
        heap[0, at], heap[1, at] = heap[0, below], heap[1, below]
        at = below
    heap[0, at], heap[1, at] = key, item
