"""Pastry (Rowstron and Druschel, 2001): nodes on a ring of 128-bit ids, and routes that get closer digit by digit.

A message for a key goes to the node whose id is numerically closest. A node knows its *leaf set*, the nearest ids on
both sides, and one node for each longer common prefix and next digit. Where the key is within the leaf set, the closest
of it is next; else the node that shares one more digit, else any known node that is closer and shares as much. Tables
are those that a network at rest has; of several nodes that fit an entry, a hash chooses, as without proximity.
"""

from bisect import bisect_left, insort

BITS, DIGIT = 128, 4
LEAVES = 24
SPACE = 1 << BITS
MIX = 0x9E3779B97F4A7C15F39CC0605CEDC835


def hashed(number: int, salt: int = 0) -> int:
    """An id on the ring, always the same for a number."""
    value = (number + 1) * MIX + salt * 0xD1342543DE82EF95
    for shift in (61, 67, 59):
        value = ((value ^ (value >> shift)) * MIX) % SPACE
    return value


class Pastry:
    """Nodes are known by their numbers."""

    def __init__(self, nodes: int, salt: int = 0) -> None:
        self.salt = salt
        self.id_of = {node: hashed(node, salt) for node in range(nodes)}
        self.node_of = {id_: node for node, id_ in self.id_of.items()}
        self.ring = sorted(self.node_of)

    def fail(self, node: int) -> None:
        id_ = self.id_of.pop(node)
        del self.node_of[id_]
        self.ring.pop(bisect_left(self.ring, id_))

    def join(self, node: int) -> None:
        id_ = self.id_of[node] = hashed(node, self.salt)
        self.node_of[id_] = node
        insort(self.ring, id_)

    def root(self, key: int) -> int:
        """The node that a key belongs to."""
        at = bisect_left(self.ring, key)
        near = {self.ring[at % len(self.ring)], self.ring[at - 1]}
        return self.node_of[min(near, key=lambda id_: (distance(id_, key), id_))]

    def route(self, node: int, key: int) -> list[int]:
        """The nodes that a message passes, the first and the last among them."""
        path = [node]
        while (after := self.next_hop(path[-1], key)) is not None:
            path.append(after)
        return path

    def next_hop(self, node: int, key: int) -> int | None:
        """None: the node itself is the one."""
        own = self.id_of[node]
        leaves = self._leaves(own)
        if self._within(leaves, own, key):
            best = min([*leaves, own], key=lambda id_: (distance(id_, key), id_))
            return None if best == own else self.node_of[best]
        shared = common_digits(own, key)
        entry = self._entry(own, key, shared)
        if entry is not None:
            return self.node_of[entry]
        closer = [
            id_ for id_ in leaves if common_digits(id_, key) >= shared and distance(id_, key) < distance(own, key)
        ]
        return self.node_of[min(closer, key=lambda id_: (distance(id_, key), id_))] if closer else None

    def _leaves(self, own: int) -> list[int]:
        at, count = bisect_left(self.ring, own), len(self.ring)
        half = min(LEAVES // 2, (count - 1) // 2)
        return [self.ring[(at + step) % count] for step in range(-half, half + 1) if step]

    def _within(self, leaves: list[int], own: int, key: int) -> bool:
        if len(self.ring) <= LEAVES + 1 or not leaves:
            return True
        low, high = leaves[0], leaves[-1]
        return (key - low) % SPACE <= (high - low) % SPACE

    def _entry(self, own: int, key: int, shared: int) -> int | None:
        """A node that shares one more digit with the key, of several the one that a hash of this node chooses."""
        shift = BITS - DIGIT * (shared + 1)
        low = (key >> shift) << shift
        first, last = bisect_left(self.ring, low), bisect_left(self.ring, low + (1 << shift))
        return self.ring[first + hashed(own % (1 << 60), shared) % (last - first)] if first < last else None


def distance(one: int, other: int) -> int:
    """Around the ring, the shorter way."""
    return min((one - other) % SPACE, (other - one) % SPACE)


def common_digits(one: int, other: int) -> int:
    different = one ^ other
    return BITS // DIGIT if not different else (BITS - different.bit_length()) // DIGIT
