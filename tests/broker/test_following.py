"""Frames of steered events that a kernel reads, sends on and hands out, against the functions that read and write one
event after the other."""

import random
from collections.abc import Sequence
from functools import cache
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from overstory.broker.following import _place_of, _ready
from overstory.kernels.following import CAME_IN, DONE, ENTRY, FLOW, ID, PUBLISHER, ROOM, TAKEN, WORK, follow
from overstory.kernels.steering import encode_trees
from overstory.model.tables import STEINER
from overstory.routing.epoch import Epoch
from overstory.routing.frames import Steered
from overstory.routing.recent import RecentEvents
from overstory.wire.encode import encode
from overstory.wire.frames import Events, Steering, decode_events, encode_events
from overstory.wire.packets import Publish
from overstory.wire.steering import first_byte

from .test_departing import EPOCH, begun

HERE, BROKERS, FLOWS = 0, 5, (1, 2, 3)
FASTER = 4
oddities = (
    (None,) * 12,
    "epoch",
    "marks",
    "statistics",
    "acknowledged",
    "counts",
    "flow",
    "entry",
    "header",
    "json",
    "cut",
)
ODD = [*oddities[0], *oddities[1:]]


class One(NamedTuple):
    """An event of a frame."""

    number: int
    entry: int
    header: bytes
    flow: int
    size: int


class Found(NamedTuple):
    """What becomes of frames."""

    taken: int
    stays: list[tuple[int, ...]]  # of each event that stays: its number, its publishers, its flow, and its frame
    packets: list[bytes]  # of these
    onward: dict[int, bytes]  # by neighbour


@cache
def there() -> tuple[Epoch, list[tuple[int, bytes]]]:
    """The epoch at one broker, and headers that may come there, each with the broker that published the event."""
    net, _ = begun([(STEINER, False)] * 3, [1] * BROKERS)
    epoch = net.brokers[HERE].state.router.state.epochs[EPOCH]
    whole, found = epoch.steered.whole, []
    first = first_byte(whole.digest)
    for root in range(1, BROKERS):
        for count in range(1, BROKERS):
            for ends in combinations([broker for broker in range(BROKERS) if broker != root], count):
                offsets, links = whole.trees(STEINER, root, np.array([0, count]), np.array(ends))
                nobody = np.empty(0, np.int64)
                known = np.array([root]), offsets, links, np.array([0, count]), np.array(ends), nobody, first
                sent = encode_trees(whole.ports, *known)
                for at in np.flatnonzero(whole.ports.targets[sent.link] == HERE).tolist():
                    found.append((root, sent.data[sent.offsets[at] : sent.offsets[at + 1]].tobytes()))
    return epoch, found


def packet(one: One, payload: bytes = b"x") -> bytes:
    """The packet of an event."""
    return encode(Publish("t", payload * one.size, properties={"user_properties": [("price", str(one.number))]}))


def frame_of(ones: Sequence[One], odd: str | None) -> bytes:
    """A frame with these events, of which something may be odd."""
    packets = [packet(one) for one in ones]
    if odd == "json":
        packets[-1] = encode(Publish("t", b"{}", properties={"content_type": "application/json"}))
    ids, entries = np.array([one.number for one in ones]), np.array([one.entry for one in ones])
    headers = [one.header for one in ones]
    if odd == "header":
        headers[0] += b"\1"
    if odd == "entry":
        entries[-1] = 77
    flows = np.array([one.flow for one in ones])
    sets = [frozenset({one.flow}) for one in ones]
    if odd == "flow":
        sets[-1] = frozenset({*sets[-1], 1, 2})
    counts, sizes = np.ones(len(ones), np.int64), np.array([len(header) for header in headers])
    data = np.frombuffer(b"".join(headers), np.uint8)
    if odd == "counts":
        counts[0], flows, sizes = 2, np.append(flows[0], flows), np.append(0, sizes)
    zeros = np.zeros(len(ones), np.int64)
    events = Events(
        EPOCH + (odd == "epoch"),
        b"".join(packets),
        np.array([len(one) for one in packets]),
        zeros + (odd == "marks"),
        ids,
        1000 + entries // 2,
        entries,
        sets,
        (zeros, zeros, zeros) if odd == "statistics" else None,
        Steering(counts, flows, sizes, data),
        {0: (1, 2)} if odd == "acknowledged" else {},
    )
    body = encode_events(events)
    return body[:-1] if odd == "cut" else body


def plain(epoch: Epoch, bodies: Sequence[bytes], odd: Sequence[str | None], seen: set[Any], most: int) -> Found:
    """What becomes of the first frames, event by event."""
    stays, packets, onward, work = list[tuple[int, ...]](), list[bytes](), dict[int, list[Any]](), 0
    known, taken = set(seen), 0
    for number, body in enumerate(bodies):
        if work >= most or odd[number]:
            break
        events = decode_events(body)
        assert events.steering is not None
        ends = np.concatenate([[0], np.cumsum(events.steering.sizes)])
        steered = Steered(np.arange(len(events) + 1), events.steering.flows, ends, events.steering.data)
        here = epoch.steered.read(steered)
        flows = [min(one) for one in events.flows]
        names = [(flows[at], int(events.entries[at]), int(events.ids[at])) for at in here.frames[here.stays].tolist()]
        if len({*names}) < len(names) or known & {*names}:
            break
        known |= {*names}
        begins = np.concatenate([[0], np.cumsum(events.sizes)])
        whole = [bytes(events.publishes[begin:end]) for begin, end in pairwise(begins.tolist())]
        for at in here.frames[here.stays].tolist():
            told = [int(column[at]) for column in (events.ids, events.publishers, events.entries)]
            stays.append((*told, flows[at], number))
            packets.append(whole[at])
        peers = epoch.steered.ids[epoch.steered.whole.ports.targets[here.onward.link]].tolist()
        for copy, (peer, at) in enumerate(zip(peers, here.onward.tree.tolist(), strict=True)):
            header = here.onward.data[here.onward.offsets[copy] : here.onward.offsets[copy + 1]].tobytes()
            told = [int(column[at]) for column in (events.ids, events.publishers, events.entries)]
            onward.setdefault(peer, []).append((*told, flows[at], whole[at], header))
        work += len(events) // FASTER + 1
        taken += 1
    return Found(taken, stays, packets, {peer: _written(copies) for peer, copies in onward.items()})


def _written(copies: Sequence[Any]) -> bytes:
    """A frame of copies."""
    ids, publishers, entries, flows, packets, headers = zip(*copies, strict=True)
    count = len(copies)
    sizes = np.array([len(header) for header in headers])
    steering = Steering(np.ones(count, np.int64), np.array(flows), sizes, np.frombuffer(b"".join(headers), np.uint8))
    lengths, marks = np.array([len(one) for one in packets]), np.zeros(count, np.uint8)
    named = np.array(ids), np.array(publishers), np.array(entries)
    sets = [frozenset({one}) for one in flows]
    return encode_events(Events(EPOCH, b"".join(packets), lengths, marks, *named, sets, None, steering))


def by_kernel(epoch: Epoch, bodies: Sequence[bytes], recent: RecentEvents, most: int) -> Found:
    """What the kernel says of the first frames that it can follow."""
    data, ends = np.frombuffer(b"".join(bodies), np.uint8), np.cumsum([0, *map(len, bodies)])
    before = len(recent)
    while True:
        report, staying, frames, out = follow(data, ends, _place_of(epoch), recent.arrays, most, FASTER)
        told = report.tolist()
        if told[ROOM]:
            recent.make_room(told[ROOM])
        elif told[DONE] or not told[TAKEN]:
            break
        else:
            ends = ends[: told[TAKEN] + 1]
    assert len(recent) == before
    if not told[DONE]:
        return Found(0, [], [], {})
    assert told[WORK] >= told[TAKEN]
    stays = [tuple(row) for row in staying[:, [ID, PUBLISHER, ENTRY, FLOW, CAME_IN]].tolist()]
    packets = [data[one["start"] : one["end"]].tobytes() for one in frames]
    onward = {}
    for peer, ready in _ready(told, epoch, out.data):
        onward[peer] = bytes(ready.body)
        events = decode_events(ready.body)
        assert (ready.events, ready.event_bytes) == (len(events), len(events.publishes))
        assert (ready.header_bytes, ready.epoch) == (events.header_bytes, EPOCH)
    return Found(told[TAKEN], stays, packets, onward)


@given(st.integers(0, 10**9))
def test_frames_are_followed_as_event_by_event(seed: int) -> None:
    dice = random.Random(seed)
    epoch, headers = there()
    recent, seen = RecentEvents(4), set()
    for _ in range(dice.randrange(6)):
        flow, entry, number = dice.choice(FLOWS), dice.randrange(1, BROKERS), dice.randrange(40)
        recent.add(epoch.steered.place_of[flow], entry, number, 0.0)
        seen.add((flow, entry, number))
    bodies, odd = [], []
    for _ in range(dice.randint(1, 4)):
        flows, sizes = dice.choice([FLOWS, FLOWS[:1]]), dice.choice([[1], [0, 1, 200]])
        numbers, ones = dice.choice([range(40), range(5), range(1 << 40, (1 << 40) + 99)]), []
        for _ in range(dice.choice([1, 1, 2, 5, 20])):
            entry, header = dice.choice(headers)
            ones.append(One(dice.choice(numbers), entry, header, dice.choice(flows), dice.choice(sizes)))
        odd.append(dice.choice(ODD))
        if odd[-1] == "json" and ones[-1].header not in {header for _, header in headers if _stays(header)}:
            odd[-1] = None
        bodies.append(frame_of(ones, odd[-1]))
    most = dice.choice([1, 3, 1000])
    assert by_kernel(epoch, bodies, recent, most) == plain(epoch, bodies, odd, seen, most)


def _stays(header: bytes) -> bool:
    """Whether the event of a header stays here."""
    epoch, _ = there()
    data, one = np.frombuffer(header, np.uint8), np.array([0, 1])
    return bool(epoch.steered.read(Steered(one, np.array(FLOWS[:1]), one * len(header), data)).stays[0])


@given(st.binary(max_size=200), st.integers(0, 10**9))
def test_bytes_that_are_no_frame_are_left_alone(noise: bytes, seed: int) -> None:
    """Nothing is read beyond them, and nothing is done; frames with a few wrong bytes are followed, if at all, to where
    they say."""
    dice = random.Random(seed)
    epoch, headers = there()
    whole = bytearray(frame_of([One(number, *dice.choice(headers), 1, 3) for number in range(3)], None))
    for _ in range(dice.randrange(1, 4)):
        whole[dice.randrange(len(whole))] = dice.randrange(256)
    recent = RecentEvents(16)
    for body in (noise, bytes(whole), bytes(whole[: dice.randrange(len(whole))])):
        for peer_body in by_kernel(epoch, [body], recent, 10).onward.values():
            assert len(decode_events(peer_body)) <= 3
