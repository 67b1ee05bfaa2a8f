"""One link without sockets, cut and mended at will: nothing is lost that may not be, and nothing comes twice."""

from collections import deque
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.broker.links import Neighbour
from overstory.broker.pressure import LinkLimits
from overstory.broker.promises import Promise
from overstory.errors import LinkError
from overstory.wire.frames import CONTROL, HANDLED, HELLO, PING, PONG, SAFE, Events, Raw, Reader, decode_events, framed
from overstory.wire.handshake import Known, decode_hello

WINDOW = LinkLimits(buffer=300)


def events(*numbers: int, qos: int = 1) -> Events:
    count = len(numbers)
    column = np.zeros(count, np.int64)
    ids = np.array(numbers)
    return Events(
        1,
        b"x" * count,
        column + 1,
        column + qos,
        ids,
        column,
        column,
        [frozenset({0})] * count,
        (column, column, column),
        None,
    )


class Side:
    """One end of a link, and what has come to it."""

    def __init__(self, broker: int, peer: int, incarnation: int) -> None:
        known = Known(broker, "plan", 1, frozenset({peer}))
        self.link = Neighbour(known, incarnation, peer, WINDOW)
        self.inbox: list[Raw] = []
        self.came: list[Any] = []

    def handle(self, most: int = 1000, safe: bool = True) -> None:
        """Handles frames that have come."""
        for raw in self.inbox[:most]:
            if raw.kind == CONTROL:
                self.came.append(bytes(raw.body))
            elif raw.kind == SAFE:
                self.link.safe_there(raw)
            else:
                found = decode_events(raw.body)
                self.came += found.ids.tolist()
                for place in np.flatnonzero(found.marks).tolist() if safe else ():
                    self.link.is_safe(self.link.incarnation, raw.number, place)
            self.link.done(raw.number)
        del self.inbox[:most]


class Pair:
    """Two ends and the bytes between them."""

    def __init__(self) -> None:
        self.sides = [Side(1, 2, 10), Side(2, 1, 20)]
        self.wires: list[deque[bytes]] = [deque(), deque()]
        self.now = 0.0
        self.mend()

    def mend(self) -> list[bool]:
        """Connects the two. Returns whether each of them finds the other one new."""
        hellos = []
        for side in self.sides:
            (raw,) = Reader().feed(side.link.hello())
            assert raw.kind == HELLO
            hellos.append(decode_hello(raw.body))
        self.wires = [deque(), deque()]
        return [side.link.connect(hellos[1 - at], self.now).is_new for at, side in enumerate(self.sides)]

    def cut(self) -> None:
        """Whatever is under way is lost."""
        for side in self.sides:
            side.link.disconnect()
        self.wires = [deque(), deque()]

    def restart(self, at: int, incarnation: int) -> None:
        self.cut()
        self.sides[at] = Side(at + 1, 2 - at, incarnation)

    def carry(self, at: int, most: int = 10**9) -> None:
        """Carries so many bytes from one side to the other."""
        self.wires[at].append(b"".join(self.sides[at].link.data_to_send()))
        data = b"".join(self.wires[at])
        self.wires[at] = deque([data[most:]])
        other = self.sides[1 - at]
        other.inbox += other.link.receive(data[:most], self.now)

    def settle(self) -> None:
        for _ in range(4):
            for at, side in enumerate(self.sides):
                self.carry(at)
                self.sides[1 - at].handle()
                side.handle()


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("tell"), st.integers(0, 1)),
        st.tuples(st.just("publish"), st.integers(0, 1)),
        st.tuples(st.just("carry"), st.integers(0, 1), st.integers(0, 300)),
        st.tuples(st.just("handle"), st.integers(0, 1), st.integers(0, 3)),
        st.tuples(st.just("cut"), st.just(0)),
    ),
    max_size=40,
)


@given(STEPS)
def test_a_link_that_is_cut_loses_nothing_and_doubles_nothing(steps: list[tuple[Any, ...]]) -> None:
    pair = Pair()
    for side in pair.sides:
        side.link.take_events()
    sent: list[list[Any]] = [[], []]
    promises: list[Promise] = []
    for number, (what, at, *more) in enumerate(steps):
        side = pair.sides[at]
        if what == "tell":
            side.link.tell(b"%d" % number, 1)
            sent[at].append(b"%d" % number)
        elif what == "publish":
            promises.append(Promise())
            side.link.publish(events(number), [promises[-1]])
            sent[at].append(number)
        elif what == "carry":
            pair.carry(at, *more)
        elif what == "handle":
            side.handle(*more)
        else:
            pair.cut()
            assert pair.mend() == [False, False]
    pair.settle()
    assert [side.came for side in pair.sides] == [sent[1], sent[0]]
    assert not any(promise.waits for promise in promises)
    assert all(side.link.waiting_bytes == 0 for side in pair.sides)


def test_a_neighbour_that_restarts_gets_what_is_not_safe_once_it_takes_events() -> None:
    pair = Pair()
    one, other = pair.sides
    one.link.take_events()
    promises = [Promise() for _ in range(4)]
    one.link.publish(events(1, 2), promises[:2])
    one.link.tell(b"old news", 1)
    one.link.publish(events(3), [promises[2]])
    pair.carry(0)
    other.handle(safe=False)
    other.link.is_safe(10, 1, 0)
    pair.carry(1)
    one.handle()
    assert [promise.waits for promise in promises] == [0, 1, 1, 0]
    pair.restart(1, 21)
    assert pair.mend() == [True, True]
    one.link.publish(events(4), [promises[3]])
    one.link.tell(b"news", 1)
    pair.settle()
    assert pair.sides[1].came == [b"news"]
    one.link.take_events()
    pair.settle()
    assert pair.sides[1].came == [b"news", 2, 3, 4]
    assert not any(promise.waits for promise in promises)


def test_events_of_qos_0_beyond_the_buffer_are_dropped_and_counted_others_never() -> None:
    pair = Pair()
    one = pair.sides[0].link
    one.take_events()
    pair.cut()
    kept = 0
    while not one.traffic.lost:
        one.publish(events(kept, qos=0), [])
        kept += 1
    one.publish(events(77), [Promise()])
    assert one.traffic.lost == 1 < kept
    pair.mend()
    pair.settle()
    assert pair.sides[1].came == [*range(kept - 1), 77]
    assert one.traffic.events == kept


def test_a_ping_is_answered_whatever_waits_and_silence_is_noticed() -> None:
    pair = Pair()
    one, other = pair.sides
    for number in range(100):
        one.link.tell(b"%d" % number, 1)
    pair.carry(0)
    pair.now = 1.0
    one.link.tick(1.0)
    pair.carry(0)
    assert len(other.inbox) == 100  # nothing is handled
    (raw,) = Reader().feed(b"".join(other.link.data_to_send()))
    assert raw.kind == PONG
    one.link.tick(3.0)
    with pytest.raises(LinkError, match=r"broker 2 has been silent for 4\.0 seconds"):
        one.link.tick(4.0)


def test_that_frames_are_handled_is_said_with_what_is_sent_next_or_when_the_shell_does_not_ask_again() -> None:
    pair = Pair()
    one, other = (side.link for side in pair.sides)
    one.tell(b"a", 1)
    pair.carry(0)
    pair.sides[1].handle()
    assert other.owes
    assert other.data_to_send(may_wait=True) == []
    other.tell(b"b", 1)
    sent = b"".join(other.data_to_send(may_wait=True))
    assert [raw.kind for raw in Reader().feed(sent)] == [CONTROL, HANDLED]
    one.tell(b"c", 1)
    pair.carry(0)
    pair.sides[1].handle()
    assert other.data_to_send(may_wait=True) == []
    assert [raw.kind for raw in Reader().feed(b"".join(other.data_to_send()))] == [HANDLED]
    assert not other.owes


def test_that_large_frames_are_handled_is_said_at_once() -> None:
    pair = Pair()
    one, other = (side.link for side in pair.sides)
    one.tell(b"a", 1)
    pair.carry(0)
    other.done(1, WINDOW.full)
    assert [raw.kind for raw in Reader().feed(b"".join(other.data_to_send(may_wait=True)))] == [HANDLED]
    assert not other.owes


def test_who_hung_itself_does_not_blame_its_neighbour() -> None:
    pair = Pair()
    pair.sides[0].link.tick(100.0)  # what came meanwhile is not read yet
    with pytest.raises(LinkError, match="silent"):
        pair.sides[0].link.tick(101.0)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (framed(CONTROL, b"", 2), "frame 2 came behind frame 0"),
        (framed(HELLO, b""), "kind 0 came in the middle"),
        (framed(HANDLED, b"\1"), "not whole"),
        (framed(HANDLED, bytes(7) + b"\5"), "frame 5 is acknowledged, and was never sent"),
        (framed(1, b"I do not like you"), "I do not like you"),
        (b"\xff\xff\xff\xff\xff", "cannot be"),
    ],
)
def test_what_no_neighbour_sends(data: bytes, said: str) -> None:
    with pytest.raises(LinkError, match=said):
        Pair().sides[0].link.receive(data, 0.0)


@pytest.mark.parametrize(("body", "said"), [(b"\1", "not whole"), (bytes(12), "waits for nobody")])
def test_what_was_never_promised_is_not_safe(body: bytes, said: str) -> None:
    with pytest.raises(LinkError, match=said):
        Pair().sides[0].link.safe_there(Raw(SAFE, 1, memoryview(body)))


@given(st.binary(max_size=100))
def test_other_bytes_are_a_link_error_and_nothing_else(data: bytes) -> None:
    link = Pair().sides[0].link
    with suppress(LinkError):
        link.receive(framed(PING, b"") + data, 0.0)
    assert link.received <= 1


def test_traffic_says_what_was_sent() -> None:
    pair = Pair()
    one = pair.sides[0].link
    one.take_events()
    one.publish(events(1, 2, 3, qos=0), [])
    one.tell(b"12345", 2)
    said = msgspec.structs.asdict(one.traffic)
    assert said["events"] == said["event_bytes"] == 3
    assert (said["messages"], said["control_bytes"], said["frames"]) == (2, 5, 1)
