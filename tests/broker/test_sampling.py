"""The sample of what clients publish."""

from itertools import accumulate

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from overstory.broker.sampling import Sampling
from overstory.kernels.mqtt import CHUNK, FRAME
from overstory.wire.decode import decode
from overstory.wire.packets import Publish

from .house import House


def give(sampling: Sampling, packets: list[bytes]) -> None:
    sampling.packets(b"".join(packets), list(accumulate(map(len, packets))), 7, 5, 0.0)


def offered(sampling: Sampling, sizes: list[int]) -> list[int]:
    """The numbers of messages that were taken, when they come in turns of these sizes."""
    number = 0
    for size in sizes:
        sampling.left -= size
        if sampling.left < 0:
            give(sampling, [b"%d" % (number + at) for at in range(size)])
        number += size
    return [int(one.packet) for one in sampling.since(0)[1]]


@given(st.lists(st.integers(0, 40), max_size=30), st.integers(0, 5), st.sampled_from([0.03, 0.3, 0.9]))
def test_what_is_taken_does_not_depend_on_turns(sizes: list[int], seed: int, rate: float) -> None:
    together = offered(Sampling(rate, seed), [sum(sizes)])
    assert offered(Sampling(rate, seed), sizes) == together == offered(Sampling(rate, seed), [1] * sum(sizes))


def test_every_message_has_the_same_chance() -> None:
    counts = np.zeros(50)
    for seed in range(2000):
        counts[offered(Sampling(0.2, seed), [50])] += 1
    assert abs(counts.mean() / 2000 - 0.2) < 0.01  # 12 standard errors
    assert np.abs(counts / 2000 - 0.2).max() < 0.05  # 5 of them


def test_a_rate_of_one_takes_all_and_of_nothing_none() -> None:
    assert offered(Sampling(1.0, 0), [3, 4]) == list(range(7))
    assert offered(Sampling(0.0, 0), [3, 4]) == []
    sampling = Sampling(0.0, 0)
    offered(sampling, [3])
    sampling.set_rate(1.0)
    assert offered(sampling, [2]) == [0, 1]


def test_frames_are_taken_as_packets_are() -> None:
    data = np.frombuffer(b"aabbbcccc", np.uint8)
    frames, chunks = np.zeros(3, FRAME), np.zeros(2, CHUNK)
    frames["start"], frames["end"], frames["chunk"] = [0, 2, 5], [2, 5, 9], [0, 1, 1]
    chunks["client"], chunks["version"] = [11, 12], [4, 5]
    sampling = Sampling(1.0, 0)
    sampling.left -= 3
    sampling.frames(data, frames, chunks, 1.5)
    found = [(one.number, one.publisher, one.version, one.packet, one.time) for one in sampling.since(0)[1]]
    assert found == [(1, 11, 4, b"aa", 1.5), (2, 12, 5, b"bbb", 1.5), (3, 12, 5, b"cccc", 1.5)]


def test_whoever_asks_too_late_is_told_what_was_missed() -> None:
    sampling = Sampling(1.0, 0, most=4)
    sampling.left -= 10
    give(sampling, [b"%d" % at for at in range(10)])
    missed, taken = sampling.since(2)
    assert missed == 4
    assert [one.number for one in taken] == [7, 8, 9, 10]
    missed, taken = sampling.since(8)
    assert (missed, [one.number for one in taken]) == (0, [9, 10])
    assert sampling.since(10) == (0, [])


@given(st.lists(st.sampled_from(["plain", "again", "once", "many", "twice"]), max_size=12))
def test_all_ways_that_a_message_takes_are_sampled(ways: list[str]) -> None:
    """By kernels, straight after one that is alike, with QoS 2, and many in one turn."""
    house = House()
    house.state.sampling.set_rate(1.0)
    client = house.connect("one")
    client.subscribe("#")
    for number, way in enumerate(ways, start=1):
        if way == "many":
            client.send(*[Publish(f"m/{at}", b"%d" % number) for at in range(3)])
        elif way == "twice":
            client.publish("a", b"%d" % number, qos=2, packet_id=number)
        else:
            client.publish("a" if way == "again" else f"t/{number}", b"%d" % number, qos=int(way == "once"))
    missed, taken = house.state.sampling.since(0)
    assert (missed, len(taken)) == (0, house.state.counts.messages_in)
    found = [decode(one.packet, one.version) for one in taken]
    sent = [number for number, way in enumerate(ways, start=1) for _ in range(3 if way == "many" else 1)]
    assert [int(packet.payload) for packet in found if isinstance(packet, Publish)] == sent
    assert {one.publisher for one in taken} <= {client.link.session.number}
