"""The compiled decision says what the router says, for any flows, filters, messages and versions of MQTT."""

from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from overstory.broker.message import Message, message_of
from overstory.filters import Filter, parse_filter
from overstory.kernels.gather import AS_PUBLISHED, SPECIAL
from overstory.kernels.mqtt import CHUNK, frame
from overstory.kernels.slots import COUNTED, OPEN, SLOT
from overstory.matching import Batch
from overstory.routing.compiled import Compiled
from overstory.routing.messages import LATE
from overstory.routing.policies import make_policy
from overstory.routing.router import Router
from overstory.routing.share import FlowShare, Member, Share
from overstory.wire.attributes import attributes_of
from overstory.wire.decode import decode, packet_size
from overstory.wire.encode import encode
from overstory.wire.packets import Publish
from overstory.wire.topics import filter_of, read_filter

BROKER = 3
TYPES = {"n": "number", "s": "string", "b": "boolean"}
TOPICS = ["a", "a/b", "a/b/c", "b", "b/", "/b", "$a", "$a/b", "é"]
WANTED = ["a", "#", "+", "a/#", "+/b", "a/+", "a/+/c", "/+", "$a/#", "+/#", "é", "b/"]
EXPRESSIONS = [None, "x > 1", "x = 'y'", "n >= 2", "s = '2'", "b", "x IS NULL", "x HAS ANY ('1', '2')", "n IS NOT NULL"]
HARD = ["x + n > 3", "x LIKE '%1_'"]  # parts that kernels cannot test
EVENTS = ["TRUE", "topic = 'a'", "NOT (topic = 'a')", "x > 1", "$broker = 3", "$broker = 4", "$level1 = 'a'"]
VALUES = ["1", "2", "2.5", "y", "true", "false", "", "1e400", "12345678901234567890"]


@st.composite
def wanted_filters(draw: st.DrawFn, hard: bool) -> Filter:
    expressions = [*EXPRESSIONS, *HARD] if hard else EXPRESSIONS
    return filter_of(read_filter(draw(st.sampled_from(WANTED)), draw(st.sampled_from(expressions))))


@st.composite
def routers(draw: st.DrawFn, hard: bool) -> Router:
    """A router of some flows, some planned members and some late subscriptions of clients from 0 to 4."""
    flows = {LATE: FlowShare(LATE, parse_filter("TRUE"), frozenset())}
    for number in range(draw(st.integers(0, 3))):
        flows[number] = FlowShare(number, parse_filter(draw(st.sampled_from(EVENTS))), frozenset())
    members = []
    for id_ in range(draw(st.integers(0, 4)) if len(flows) > 1 else 0):
        flow, client = draw(st.integers(0, len(flows) - 2)), draw(st.integers(0, 4))
        members.append(Member(flow, 100 + id_, client, draw(wanted_filters(hard)), draw(st.booleans())))
    router = Router(BROKER, make_policy("active"))
    planned = {member.subscription: 0 for member in members}
    router.install(Share(0, flows, tuple(members), planned, clients=frozenset(range(5))))
    router.activate(0)
    for id_ in range(draw(st.integers(0, 6))):
        router.subscribe(draw(st.integers(0, 4)), id_, 0, draw(wanted_filters(hard)), draw(st.booleans()))
    return router


messages = st.builds(
    lambda topic, pairs, qos, client, json: (
        Publish(
            topic,
            b'{"x": 2}',
            qos,
            False,
            1 if qos else 0,
            False,
            ({"user_properties": pairs} if pairs else {}) | ({"content_type": "application/json"} if json else {}),
        ),
        client,
    ),
    st.sampled_from(TOPICS),
    st.lists(st.tuples(st.sampled_from(["x", "n", "s", "b", "other"]), st.sampled_from(VALUES)), max_size=3),
    st.integers(0, 1),
    st.integers(0, 4),
    st.booleans(),
)


class Bench:
    """Messages of some clients, framed; and the kernels' view of a router."""

    def __init__(self, router: Router, published: list[tuple[Publish, int]], versions: list[int], flags: int) -> None:
        self.router = router
        self.slots = np.zeros(5, SLOT)
        for client in range(5):
            self.slots[client]["client"], self.slots[client]["flags"] = client, flags
            self.slots[client]["version"], self.slots[client]["largest"] = versions[client], 1 << 20
            self.slots[client]["head"] = self.slots[client]["next"] = 65534
            self.slots[client]["room"] = 2 + client
        self.data, self.chunks = self._framed(published, versions)
        self.frames = frame(self.data, self.chunks, self.slots, 1 << 20)
        self.messages = self._messages()

    def _framed(
        self, published: list[tuple[Publish, int]], versions: list[int]
    ) -> tuple[NDArray[np.uint8], NDArray[Any]]:
        pieces = [encode(packet, versions[client]) for packet, client in published]
        ends = np.cumsum([0, *map(len, pieces)])
        chunks = np.zeros(len(pieces), CHUNK)
        for number, (_, client) in enumerate(published):
            chunks[number] = (ends[number], ends[number + 1], client, versions[client], client, 0, 0, 0)
        return np.frombuffer(b"".join(pieces), np.uint8), chunks

    def _messages(self) -> list[Message]:
        found = []
        for here in self.frames:
            chunk = self.chunks[here["chunk"]]
            packet = decode(self.data[here["start"] : here["end"]].tobytes(), int(chunk["version"]))
            assert isinstance(packet, Publish)
            found.append(message_of(packet, packet.topic, int(chunk["client"]), 0.0))
        return found

    def expected(self) -> dict[tuple[int, int], set[int]]:
        """By message and client: the subscriptions that get it, as the router says."""
        if not self.messages:
            return {}
        batch = Batch.of([attributes_of(message, TYPES) for message in self.messages])
        publishers = np.array([message.publisher for message in self.messages])
        frames = self.router.enter(batch, np.arange(len(self.messages)), publishers)
        routed = self.router.decide(frames)
        found = defaultdict(set)
        for row, subscription in zip(routed.delivered_frames.tolist(), routed.delivered.tolist(), strict=True):
            client = self.router.state.homes[subscription].client
            found[int(frames.ids[row]), client].add(subscription)
        return dict(found)


def no_local(router: Router, subscription: int) -> bool:
    return router.state.homes[subscription].no_local


@given(st.data(), st.booleans(), st.lists(messages, min_size=1, max_size=8))
def test_the_same_subscriptions_get_a_message(
    data: st.DataObject, hard: bool, published: list[tuple[Publish, int]]
) -> None:
    bench = Bench(data.draw(routers(hard)), published, [5, 5, 4, 5, 4], flags=0)
    router = bench.router
    compiled = Compiled(router, TYPES, lambda client: client, lambda subscription: 2)
    assert compiled.can_decide
    if not len(bench.frames):
        return
    decision = compiled.decide(bench.data, bench.frames, bench.chunks, lambda: bench.slots)
    if decision is None:
        assert len(router.state.epochs[0].flows) > 1  # only which flows a message enters may be unsaid altogether
        return
    assert not decision.spans
    found = defaultdict(set)
    pairs = iter(decision.specials)
    for event, slot in zip(pairs, pairs, strict=True):
        for subscription in decision.matches(event, slot):
            if not no_local(router, subscription) or bench.messages[event].publisher != slot:
                found[event, slot].add(subscription)
    expected = {pair: wanted for pair, wanted in bench.expected().items() if pair[0] < decision.decided}
    assert {pair: wanted for pair, wanted in found.items() if wanted} == expected
    plain = all("content_type" not in message.properties for message in bench.messages)
    repeated = any(_repeats(message) or "1e400" in str(message.properties) for message in bench.messages)
    if plain and not hard and not repeated and "12345678901234567890" not in str(bench.messages):
        assert decision.decided == len(bench.messages)


def _repeats(message: Message) -> bool:
    names = [name for name, _ in message.properties.get("user_properties", ())]
    return len(names) != len(set(names))


@given(
    st.data(), st.lists(messages, min_size=1, max_size=10), st.lists(st.sampled_from([4, 5]), min_size=5, max_size=5)
)
def test_clients_get_the_bytes_that_they_should(
    data: st.DataObject, published: list[tuple[Publish, int]], versions: list[int]
) -> None:
    """A plain twin of the gathering: packets one by one, with the QoS, the identifiers and the room of each slot."""
    router = data.draw(routers(False))
    options = {
        id_: data.draw(st.integers(0, 2)) | data.draw(st.sampled_from([0, 0, SPECIAL, AS_PUBLISHED]))
        for id_ in [*range(6), *range(100, 104)]
    }
    bench = Bench(router, published, versions, flags=OPEN | data.draw(st.sampled_from([0, COUNTED])))
    if not len(bench.frames):
        return
    before = bench.slots.copy()
    compiled = Compiled(
        router, TYPES, lambda c: c, lambda id_: options[id_] | (SPECIAL if no_local(router, id_) else 0)
    )
    decision = compiled.decide(bench.data, bench.frames, bench.chunks, lambda: bench.slots)
    if decision is None:
        return
    written: dict[int, list[Publish]] = {}
    spans = iter(decision.spans)
    for slot, begin, end in zip(spans, spans, spans, strict=True):
        written[slot] = _packets(decision.out[begin:end].tobytes(), versions[slot])
    wanted, special = _twin(bench, options, before, versions, decision.decided)
    assert written == wanted
    assert sorted(zip(decision.specials[::2], decision.specials[1::2], strict=True)) == special
    assert decision.copies == sum(map(len, wanted.values()))


def _packets(data: bytes, version: int) -> list[Publish]:
    found, at = [], 0
    while at < len(data):
        size = packet_size(data, at)
        assert size is not None
        packet = decode(data[at : at + size], version)
        assert isinstance(packet, Publish)
        found.append(packet)
        at += size
    return found


def _twin(
    bench: Bench, options: dict[int, int], slots: NDArray[Any], versions: list[int], decided: int
) -> tuple[dict[int, list[Publish]], list[tuple[int, int]]]:
    written: dict[int, list[Publish]] = defaultdict(list)
    special = []
    room, next_id = slots["room"].tolist(), slots["next"].tolist()
    matches = _all_matches(bench)
    for event in range(decided):
        for client in range(5):
            subscriptions = matches.get((event, client))
            if not subscriptions:
                continue
            message = bench.messages[event]
            qos = min(message.qos, max(options[id_] & 3 for id_ in subscriptions))
            counted = bool(slots[client]["flags"] & COUNTED) and room[client] > 0
            if any(options[id_] & SPECIAL or no_local(bench.router, id_) for id_ in subscriptions) or (
                qos and not counted
            ):
                special.append((event, client))
                continue
            properties = message.properties if versions[client] == 5 else {}
            written[client].append(
                Publish(message.topic, message.payload, qos, False, next_id[client] if qos else 0, False, properties)
            )
            if qos:
                room[client] -= 1
                next_id[client] = next_id[client] % 65535 + 1
    return dict(written), sorted(special)


def _all_matches(bench: Bench) -> dict[tuple[int, int], set[int]]:
    """The router's answer as if nobody had asked for no-local."""
    found = {pair: set(ids) for pair, ids in bench.expected().items()}
    batch = [attributes_of(message, TYPES) for message in bench.messages]
    state = bench.router.state
    for event, attributes in enumerate(batch):
        entering = {**attributes, "$broker": BROKER}
        for flow in state.epochs[0].flows.values():
            if flow.share.events.matches(entering):
                for (client, (id_, _)), entry in flow.entries.items():
                    if entry.filter.matches(attributes):
                        found.setdefault((event, client), set()).add(id_)
    return found
