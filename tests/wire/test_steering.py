"""Headers of steered frames: a kernel and its plain twin write the same, and what is wrong with one is seen."""

import random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overstory.kernels import plain_steering as plain
from overstory.kernels.steering import (
    NO_LINK,
    NUMBER_BITS,
    OTHER_NETWORK,
    RIGHT,
    TOO_LONG,
    TRUNCATED,
    TWICE,
    Ports,
    encode_trees,
    ends_ahead,
    header_bytes,
    ports_of,
    take_hop,
)
from overstory.wire.steering import FAULTS, detours_of, digest_of, first_byte

Near = dict[int, list[int]]


def network(dice: random.Random, size: int) -> tuple[Near, Ports]:
    """A random connected network, some of whose brokers have many links."""
    pairs = {(dice.randrange(broker) if dice.random() < 0.7 else 0, broker) for broker in range(1, size)}
    pairs |= {tuple(sorted(dice.sample(range(size), 2))) for _ in range(dice.randint(0, 2 * size))}  # type: ignore[misc]
    near: Near = {broker: [] for broker in range(size)}
    for u, v in pairs:
        near[u].append(v)
        near[v].append(u)
    for broker in near:
        near[broker].sort()
    offsets = np.concatenate([[0], np.cumsum([len(near[broker]) for broker in range(size)])])
    return near, ports_of(offsets, np.array([v for u in range(size) for v in near[u]], np.int64))


class Tree:
    """A random tree from a root, whose leaves are ends."""

    def __init__(self, dice: random.Random, near: Near, ports: Ports) -> None:
        self.root = dice.choice(list(near))
        self.hops: dict[int, list[int]] = {}
        self.links: list[int] = []
        reached = [self.root]
        for _ in range(dice.randint(0, len(near))):
            u = dice.choice(reached)
            fresh = [v for v in near[u] if v not in reached]
            if fresh:
                v = dice.choice(fresh)
                reached.append(v)
                self.hops.setdefault(u, []).append(v)
                self.links.append(int(ports.offsets[u]) + near[u].index(v))
        leaves = {broker for broker in reached if broker not in self.hops} - {self.root}
        some = leaves | {broker for broker in reached[1:] if dice.random() < 0.3}
        self.numbers = {broker: dice.randrange(2**20) for broker in some}


def encoded(ports: Ports, trees: list[Tree], ordered: bool, first: int = 8) -> Any:
    links = [link for tree in trees for link in tree.links]
    ends = [end for tree in trees for end in tree.numbers]
    numbers = [number for tree in trees for number in tree.numbers.values()]
    return encode_trees(
        ports,
        np.array([tree.root for tree in trees], np.int64),
        np.cumsum([0, *(len(tree.links) for tree in trees)]),
        np.array(links, np.int64),
        np.cumsum([0, *(len(tree.numbers) for tree in trees)]),
        np.array(ends, np.int64),
        np.array(numbers if ordered else [], np.int64),
        first,
    )


@given(seed=st.integers(0, 10**9), size=st.integers(2, 40), ordered=st.booleans())
def test_a_header_is_what_its_plain_twin_writes(seed: int, size: int, ordered: bool) -> None:
    dice = random.Random(seed)
    near, ports = network(dice, size)
    trees = [Tree(dice, near, ports) for _ in range(dice.randint(1, 5))]
    sent = encoded(ports, trees, ordered)
    found = []
    for at, (tree, link) in enumerate(zip(sent.tree.tolist(), sent.link.tolist(), strict=True)):
        found.append((tree, link, sent.data[sent.offsets[at] : sent.offsets[at + 1]].tobytes()))
    assert found == [
        (
            number,
            int(ports.offsets[tree.root]) + near[tree.root].index(hop),
            plain.header(near, tree.hops, hop, tree.numbers, ordered, 8),
        )
        for number, tree in enumerate(trees)
        for hop in sorted(tree.hops.get(tree.root, ()))
    ]


@given(seed=st.integers(0, 10**9), size=st.integers(2, 40), ordered=st.booleans())
def test_hop_by_hop_a_frame_takes_the_links_of_its_tree_and_no_others(seed: int, size: int, ordered: bool) -> None:
    """Every end is reached once, with its number; a hop writes the headers that the root would have written."""
    dice = random.Random(seed)
    near, ports = network(dice, size)
    tree = Tree(dice, near, ports)
    sent = encoded(ports, [tree], ordered)
    ahead = [(link, sent.data[sent.offsets[at] : sent.offsets[at + 1]]) for at, link in enumerate(sent.link.tolist())]
    taken, stayed = [], {}
    while ahead:
        link, data = ahead.pop()
        here = int(ports.targets[link])
        taken.append(link)
        assert data.tobytes() == plain.header(near, tree.hops, here, tree.numbers, ordered, 8)
        out, numbers = np.empty(size, np.int64), np.empty(size, np.int64)
        count = ends_ahead(ports, here, data, 0, len(data), NUMBER_BITS if ordered else 0, out, numbers)
        assert set(out[:count].tolist()) == tree.numbers.keys() & behind(tree, here)
        met = take_hop(ports, here, np.array([0, len(data)]), data, np.array([ordered]), 1)
        assert met.fault.tolist() == [RIGHT]
        if met.stays[0]:
            stayed[here] = int(met.number[0])
        for at, onward in enumerate(met.onward.link.tolist()):
            ahead.append((onward, met.onward.data[met.onward.offsets[at] : met.onward.offsets[at + 1]]))
    assert sorted(taken) == sorted(tree.links)
    assert stayed == {end: number % 2**NUMBER_BITS if ordered else 0 for end, number in tree.numbers.items()}


def behind(tree: Tree, broker: int) -> set[int]:
    return {broker}.union(*[behind(tree, hop) for hop in tree.hops.get(broker, ())])


@given(seed=st.integers(0, 10**9), size=st.integers(2, 12), ordered=st.booleans(), data=st.binary(max_size=30))
def test_any_bytes_are_a_header_of_one_tree_or_are_refused(seed: int, size: int, ordered: bool, data: bytes) -> None:
    """What is followed goes on shorter than it came; what a broker reads as right is right to the next hops, too."""
    dice = random.Random(seed)
    _, ports = network(dice, size)
    here = dice.randrange(size)
    given_bytes = np.frombuffer(bytes([8]) + data, np.uint8)
    met = take_hop(ports, here, np.array([0, len(given_bytes)]), given_bytes, np.array([ordered]), 1)
    if met.fault[0] != RIGHT:
        assert met.fault[0] in FAULTS
        assert not len(met.onward.link)
        return
    for at, link in enumerate(met.onward.link.tolist()):
        onward = met.onward.data[met.onward.offsets[at] : met.onward.offsets[at + 1]]
        assert len(onward) <= len(given_bytes)
        assert ports.sources[link] == here
        there = int(ports.targets[link])
        then = take_hop(ports, there, np.array([0, len(onward)]), onward, np.array([ordered]), 1)
        assert then.fault.tolist() == [RIGHT]


LINE = ports_of(np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1]))  # 0–1–2


def fault_of(bits: str, here: int = 1, first: int = 8) -> int:
    bits += "0" * (-len(bits) % 8)
    data = np.array([first, *(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))], np.uint8)
    return int(take_hop(LINE, here, np.array([0, len(data)]), data, np.array([False]), 1).fault[0])


def test_what_is_wrong_with_a_header_has_a_name() -> None:
    assert fault_of("10" + "1" + "1" + "0") == RIGHT  # stays at 1, and goes on to 2
    assert fault_of("10" + "0" + "1" + "10" + "1" + "0") == TWICE  # from 2 back to 1
    assert fault_of("1110") == NO_LINK  # broker 1 has two links
    assert fault_of("110" + "0" + "1" + "0" + "0" + "0") == NO_LINK  # its ports do not stand in order
    assert fault_of("1" * 8, 1) == NO_LINK
    assert fault_of("10" + "0" + "1" + "1111") == NO_LINK  # broker 2 has one
    assert fault_of("0" + "0" * 8) == TOO_LONG
    assert fault_of("01") == TOO_LONG
    assert fault_of("0", first=16) == OTHER_NETWORK
    for empty in ([], [8]):
        met = take_hop(LINE, 1, np.array([0, len(empty)]), np.array(empty, np.uint8), np.array([False]), 1)
        assert met.fault.tolist() == [TRUNCATED]


def test_a_header_cut_short_is_refused_at_every_length() -> None:
    dice = random.Random(5)
    near, ports = network(dice, 30)
    tree = max((Tree(dice, near, ports) for _ in range(20)), key=lambda each: len(each.links))
    sent = encoded(ports, [tree], ordered=True)
    for at, link in enumerate(sent.link.tolist()):
        whole = sent.data[sent.offsets[at] : sent.offsets[at + 1]]
        for length in range(len(whole)):
            met = take_hop(ports, int(ports.targets[link]), np.array([0, length]), whole[:length], np.array([True]), 1)
            assert met.fault[0] != RIGHT


def test_the_first_byte_tells_networks_and_detours_apart() -> None:
    ids = np.array([3, 5, 9])
    digest = digest_of(ids, LINE.offsets, LINE.targets)
    assert 0 <= digest < 32
    assert len({digest_of(ids + shift, LINE.offsets, LINE.targets) for shift in range(20)}) > 1
    assert first_byte(digest, 5) >> 3 == digest
    assert detours_of(first_byte(digest, 5)) == 5
    assert header_bytes(0) == 1
