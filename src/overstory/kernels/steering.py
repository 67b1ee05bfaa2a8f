"""The header of a steered frame: the part of its tree that is still ahead, in bits.

1. A header on its way to a broker says, of that broker: how many next hops follow (as many ones, then a zero); where
   any follow, whether the event also stays here (one bit; at a leaf it does); where the event stays and the flow is
   ordered, its number (``NUMBER_BITS``); then of each next hop its port (``Ports.bits``), and the same again of the
   broker there. The first byte stands before all that: see ``wire.steering``. Bits fill bytes from the highest on.
2. A port is the place of a link among those that leave a broker. So brokers that read a header need to know the same
   network as the broker that wrote it.
3. Next hops stand in ascending order of their ports: one tree has one header.
4. A broker takes its own part off, so that a header gets shorter with every hop and cannot circulate.

What is wrong with a header is found before anything is done with it: see the codes below.
"""

from typing import NamedTuple

import numpy as np

from overstory.kernels.compiling import Array, inlined, kernel
from overstory.kernels.nothing import NONE
from overstory.kernels.store import with_room

NUMBER_BITS = 16  # of an ordered flow: the last bits of an event's number for one broker

# What can be wrong with a header
RIGHT, TRUNCATED, NO_LINK, TWICE, TOO_LONG, OTHER_NETWORK = range(6)


class Ports(NamedTuple):
    """A network as headers count it: the links that leave broker v are between ``offsets`` v and v + 1, by target."""

    offsets: Array
    targets: Array
    sources: Array
    bits: Array  # by broker: of a port there


class Branches(NamedTuple):
    """One tree, in arrays that are used again for the next: see ``branch``."""

    child: Array  # by broker: its first next hop
    sibling: Array  # by broker: the next hop of its parent after it
    link: Array  # by broker: that leads to it
    stays: Array  # by broker: the number of the tree, if the event stays there
    number: Array  # by broker where it stays
    bits: Array  # by broker: of its part of the header, and of all parts behind it
    stack: Array


class Sent(NamedTuple):
    """Headers, each for one next hop: header i has the bytes between offsets i and i + 1."""

    tree: Array  # which of those that were given
    link: Array
    offsets: Array
    data: Array


class Met(NamedTuple):
    """Headers as one broker reads them, and what it sends on."""

    fault: Array  # by header: RIGHT, or what is wrong
    stays: Array  # by header: whether the event stays here
    number: Array  # by header, if it does
    onward: Sent


def ports_of(offsets: Array, targets: Array) -> Ports:
    """The ports of a network."""
    degrees = np.diff(offsets)
    bits = np.array([max(int(degree) - 1, 0).bit_length() for degree in degrees], np.int64)
    return Ports(offsets, targets, np.repeat(np.arange(len(offsets) - 1), degrees), bits)


@kernel
def new_branches(size: int) -> Branches:
    """Room for trees of a network of so many brokers."""
    none = np.full(size, NONE, np.int64)
    return Branches(
        none,
        none.copy(),
        none.copy(),
        none.copy(),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.empty(size + 1, np.int64),
    )


@kernel
def branch(ports: Ports, branches: Branches, tree: int, root: int, links: Array, ends: Array, number_bits: int) -> None:
    """Notes a tree: its links, each behind those that lead to it, and the brokers where the event stays."""
    for end in ends:
        branches.stays[end] = tree
    branches.child[root] = NONE
    for link in links:
        branches.child[ports.targets[link]] = NONE
    for link in links:
        _join(ports, branches, link)
    for at in range(len(links) - 1, -1, -1):
        _count_bits(ports, branches, tree, ports.targets[links[at]], number_bits)


@inlined
def _join(ports: Ports, branches: Branches, link: int) -> None:
    """Puts a next hop among those of the same broker, by port."""
    broker, there = ports.sources[link], ports.targets[link]
    branches.link[there] = link
    before, after = NONE, branches.child[broker]
    while after != NONE and branches.link[after] < link:
        before, after = after, branches.sibling[after]
    branches.sibling[there] = after
    if before == NONE:
        branches.child[broker] = there
    else:
        branches.sibling[before] = there


@inlined
def _count_bits(ports: Ports, branches: Branches, tree: int, broker: int, number_bits: int) -> None:
    """The bits of a broker's part and of those behind it, which have been counted."""
    bits, child = 1, branches.child[broker]
    if child != NONE:
        bits += 1
    while child != NONE:
        bits += 1 + ports.bits[broker] + branches.bits[child]
        child = branches.sibling[child]
    if branches.stays[broker] == tree:
        bits += number_bits
    branches.bits[broker] = bits


@inlined
def header_bytes(bits: int) -> int:
    """The length of a header whose parts have so many bits."""
    return 1 + (bits + 7) // 8


@kernel
def encode_trees(
    ports: Ports,
    roots: Array,
    link_offsets: Array,
    links: Array,
    end_offsets: Array,
    ends: Array,
    numbers: Array,
    first: int,
) -> Sent:
    """The headers of trees for the next hops of their roots. ``numbers`` are those of the ends; empty: not ordered."""
    branches = new_branches(len(ports.bits))
    number_bits = NUMBER_BITS if len(numbers) else 0
    tree_of, link_of = np.empty(16, np.int64), np.empty(16, np.int64)
    offsets, data = np.zeros(17, np.int64), np.zeros(256, np.uint8)
    count = 0
    for tree in range(len(roots)):
        mine = ends[end_offsets[tree] : end_offsets[tree + 1]]
        if number_bits:
            for at in range(len(mine)):
                branches.number[mine[at]] = numbers[end_offsets[tree] + at]
        branch(
            ports, branches, tree, roots[tree], links[link_offsets[tree] : link_offsets[tree + 1]], mine, number_bits
        )
        child = branches.child[roots[tree]]
        while child != NONE:
            tree_of, link_of = with_room(tree_of, count + 1), with_room(link_of, count + 1)
            offsets = with_room(offsets, count + 2)
            begin = offsets[count]
            end = begin + header_bytes(branches.bits[child])
            data = _with_zeros(data, begin, end)
            data[begin] = first
            _write_tree(ports, branches, tree, child, data, (begin + 1) * 8, number_bits)
            tree_of[count], link_of[count], offsets[count + 1] = tree, branches.link[child], end
            count += 1
            child = branches.sibling[child]
    return Sent(tree_of[:count], link_of[:count], offsets[: count + 1], data[: offsets[count]])


@inlined
def _with_zeros(data: Array, begin: int, end: int) -> Array:
    """Room up to ``end``, and nothing but zeros from ``begin`` on."""
    data = with_room(data, end)
    data[begin:end] = 0
    return data


@kernel
def _write_tree(
    ports: Ports, branches: Branches, tree: int, top: int, data: Array, place: int, number_bits: int
) -> None:
    """Writes the part of a broker and those behind it, from this bit on."""
    stack = branches.stack
    stack[0], height = top, 1
    while height:
        height -= 1
        broker = stack[height]
        if broker != top:
            link = branches.link[broker]
            before = ports.sources[link]
            place = _write(data, place, link - ports.offsets[before], ports.bits[before])
        low, child = height, branches.child[broker]
        while child != NONE:
            place = _write(data, place, 1, 1)
            stack[height] = child
            height += 1
            child = branches.sibling[child]
        place += 1  # the zero that ends them
        if height > low:
            place = _write(data, place, branches.stays[broker] == tree, 1)
            _reverse(stack, low, height)  # the lowest port is taken next
        if number_bits and branches.stays[broker] == tree:
            place = _write(data, place, branches.number[broker], number_bits)


@inlined
def _reverse(stack: Array, low: int, high: int) -> None:
    for k in range((high - low) // 2):
        stack[low + k], stack[high - 1 - k] = stack[high - 1 - k], stack[low + k]


@inlined
def _write(data: Array, place: int, value: int, bits: int) -> int:
    """Writes the last bits of a value, the highest first. Returns where they end."""
    for bit in range(bits - 1, -1, -1):
        if (value >> bit) & 1:
            data[place >> 3] |= np.uint8(128 >> (place & 7))
        place += 1
    return place


@inlined
def _read(data: Array, place: int, bits: int) -> int:
    """The value of some bits. Whoever asks has seen to it that they are there."""
    value = 0
    for at in range(place, place + bits):
        value = (value << 1) | ((data[at >> 3] >> (7 - (at & 7))) & 1)
    return value


class Part(NamedTuple):
    """What a header says of one broker, and where its next hops begin; or what is wrong with it."""

    fault: int
    hops: int
    stays: bool
    number: int
    place: int


@kernel
def _read_part(ports: Ports, data: Array, place: int, end: int, broker: int, number_bits: int) -> Part:
    degree = ports.offsets[broker + 1] - ports.offsets[broker]
    hops = 0
    while place < end and _read(data, place, 1):
        hops, place = hops + 1, place + 1
        if hops > degree:
            return Part(NO_LINK, 0, False, 0, place)
    place += 1
    stays = True
    if hops:
        if place >= end:
            return Part(TRUNCATED, 0, False, 0, place)
        stays = _read(data, place, 1) == 1
        place += 1
    number = 0
    if stays and number_bits:
        if place + number_bits > end:
            return Part(TRUNCATED, 0, False, 0, place)
        number = _read(data, place, number_bits)
        place += number_bits
    return Part(RIGHT if place <= end else TRUNCATED, hops, stays, number, place)


class Walk(NamedTuple):
    """What walking through a header needs, by depth."""

    broker: Array
    hops: Array  # that are left of each broker on the way
    last: Array  # the port that was taken last there


@kernel
def new_walk(size: int) -> Walk:
    """Room for walks through headers of a network of so many brokers."""
    return Walk(
        np.empty(size + 1, np.int64),
        np.empty(size + 1, np.int64),
        np.empty(size + 1, np.int64),
    )


@inlined
def _read_port(ports: Ports, walk: Walk, depth: int, data: Array, place: int, end: int) -> tuple[int, int, int]:
    """What is wrong with the next port of the broker at this depth, the port, and where it ends."""
    here = walk.broker[depth]
    bits = ports.bits[here]
    fault, port = RIGHT, 0
    if place + bits > end:
        fault = TRUNCATED
    else:
        port = _read(data, place, bits)
        if port >= ports.offsets[here + 1] - ports.offsets[here] or port <= walk.last[depth]:
            fault = NO_LINK
        walk.last[depth] = port
    return fault, port, place + bits


@kernel
def take_hop(  # noqa: C901
    ports: Ports, here: int, offsets: Array, data: Array, ordered: Array, network: int
) -> Met:
    """Reads headers that have come to broker ``here``. ``network`` is what their first bytes should say of it.

    All in one, and each array under a name of its own: to hand tuples of arrays on for every broker of every header
    would take most of the time.
    """
    count, size = len(offsets) - 1, len(ports.bits)
    first_link, targets, port_bits = ports.offsets, ports.targets, ports.bits
    seen, way = np.full(size, NONE, np.int64), np.empty((3, size + 1), np.int64)
    broker_at, hops_at, port_at = way[0], way[1], way[2]  # on the way to the broker at hand, by depth
    fault, stays, number = np.zeros(count, np.int8), np.zeros(count, np.bool_), np.zeros(count, np.int64)
    tree_of, link_of = np.empty(count + 16, np.int64), np.empty(count + 16, np.int64)
    new_offsets, new_data = np.zeros(count + 17, np.int64), np.zeros(max(len(data), 16), np.uint8)
    starts, stops, links = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)
    total = 0
    for i in range(count):
        begin, end = offsets[i], offsets[i + 1] * 8
        wrong, place, depth, broker, parts = TRUNCATED, begin * 8 + 8, 0, here, 0
        if place <= end and data[begin] >> 3 != network:
            wrong = OTHER_NETWORK
        elif place < end:
            wrong = RIGHT
        while wrong == RIGHT:
            degree = first_link[broker + 1] - first_link[broker]
            hops = 0
            while place < end and (data[place >> 3] >> (7 - (place & 7))) & 1 and hops <= degree:
                hops, place = hops + 1, place + 1
            place += 1
            is_end = True
            if hops:
                is_end = place < end and (data[place >> 3] >> (7 - (place & 7))) & 1 == 1
                place += 1
            if ordered[i] and is_end:
                if depth == 0 and place + NUMBER_BITS <= end:
                    number[i] = _read(data, place, NUMBER_BITS)
                place += NUMBER_BITS
            if hops > degree:
                wrong = NO_LINK
            elif place > end:
                wrong = TRUNCATED
            elif seen[broker] == i:
                wrong = TWICE
            if depth == 0:
                stays[i] = is_end
            seen[broker] = i
            broker_at[depth], hops_at[depth], port_at[depth] = broker, hops, NONE
            while hops_at[depth] == 0 and depth:
                depth -= 1
                if depth == 0:
                    stops[parts - 1] = place
            if hops_at[depth] == 0 or wrong != RIGHT:
                break
            hops_at[depth] -= 1
            broker = broker_at[depth]
            bits = port_bits[broker]
            port = _read(data, place, bits) if place + bits <= end else NONE
            place += bits
            if place > end:
                wrong = TRUNCATED
            elif port <= port_at[depth] or port >= first_link[broker + 1] - first_link[broker]:
                wrong = NO_LINK
            else:
                port_at[depth] = port
                link = first_link[broker] + port
                if depth == 0:
                    links[parts], starts[parts] = link, place
                    parts += 1
                broker = targets[link]
                depth += 1
        if wrong == RIGHT and (end - place >= 8 or _read(data, place, end - place)):
            wrong = TOO_LONG
        fault[i] = wrong
        if wrong != RIGHT:
            stays[i] = False
            continue
        tree_of, link_of = with_room(tree_of, total + parts), with_room(link_of, total + parts)
        new_offsets = with_room(new_offsets, total + parts + 1)
        for k in range(parts):
            length = header_bytes(stops[k] - starts[k])
            new_data = _with_zeros(new_data, new_offsets[total], new_offsets[total] + length)
            new_data[new_offsets[total]] = data[begin]
            _copy(data, starts[k], stops[k], new_data, (new_offsets[total] + 1) * 8)
            tree_of[total], link_of[total] = i, links[k]
            new_offsets[total + 1] = new_offsets[total] + length
            total += 1
    sent = Sent(tree_of[:total], link_of[:total], new_offsets[: total + 1], new_data[: new_offsets[total]])
    return Met(fault, stays, number, sent)


@inlined
def _copy(data: Array, start: int, stop: int, out: Array, place: int) -> None:
    """Copies bits to where bytes are zero; ``place`` is the first bit of a byte."""
    shift, at, to = start & 7, start >> 3, place >> 3
    left = stop - start
    while left > 0:
        byte = np.int64(data[at]) << shift
        if shift and left > 8 - shift:
            byte |= np.int64(data[at + 1]) >> (8 - shift)
        byte &= 255
        if left < 8:
            byte &= 255 ^ (255 >> left)
        out[to] = byte
        at, to, left = at + 1, to + 1, left - 8


@kernel
def ends_ahead(
    ports: Ports, there: int, data: Array, begin: int, end: int, number_bits: int, out: Array, numbers: Array
) -> int:
    """The brokers where the event of a header is to stay, and its numbers there: returns how many.

    The header is one for broker ``there``, and right.
    """
    walk = new_walk(len(ports.bits))
    count, depth, broker, place, last = 0, 0, there, (begin + 1) * 8, end * 8
    while True:
        part = _read_part(ports, data, place, last, broker, number_bits)
        place = part.place
        if part.stays:
            out[count], numbers[count] = broker, part.number
            count += 1
        walk.broker[depth], walk.hops[depth], walk.last[depth] = broker, part.hops, NONE
        while walk.hops[depth] == 0:
            if depth == 0:
                return count
            depth -= 1
        walk.hops[depth] -= 1
        _, port, place = _read_port(ports, walk, depth, data, place, last)
        broker = ports.targets[ports.offsets[walk.broker[depth]] + port]
        depth += 1
