"""The broker, beside those of others: CPU time of the broker for each message, on the same packets in the same run.

Every second message matches nobody, unless it is said otherwise. W is how many messages are in flight. Walls are in
messages a second; they say what the load generator and the machine allow, not only the broker.
"""

import gc
import select
import socket
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from benchmarks.broker_load import Load, Shape, Taken, connect, publish, subscribe
from benchmarks.broker_peers import Running, apart, running
from benchmarks.measure import Measurement
from overstory.broker.config import Config
from overstory.broker.core import Core
from overstory.broker.link import Link
from overstory.broker.pressure import Limits
from overstory.broker.state import State
from overstory.broker.tick import Tick
from overstory.wire.encode import encode
from overstory.wire.packets import Asked, Connect, Publish, Subscribe

PEER, AT_ONCE = "mosquitto", "mosquitto at once"
SHAPES = (  # with messages to send, and bars of the ratio, at W 2,000 and at W 50
    (Shape("one to one", 1, 1), 400_000, (12.0, 4.0)),
    (Shape("one to fifty", 50, 50), 40_000, (30.0, 7.0)),
    (Shape("1,000 subscribers, ten matches", 1000, 10, topics=100), 60_000, (5.0, 1.1)),
    (Shape("QoS 1, one to one", 1, 1, qos=1), 150_000, (4.0, None)),
    (Shape("QoS 1, one to fifty", 50, 50, qos=1), 20_000, (6.0, None)),
)
WINDOWS = (2000, 50)
FEWER = (1, 5)  # at W 50 a fifth of the messages
LEAST_CPU = 1e-6  # seconds, so that nothing is divided by none
MICRO = 1e6
ROUNDS = 15  # of latencies, of a second each, in which brokers take turns


def throughput(quick: bool) -> Iterator[Measurement]:
    """CPU time for a message, against mosquitto; then against nats-server and amqtt, where they are installed."""
    shapes = SHAPES[:1] if quick else SHAPES
    with ExitStack() as stack:
        ours, theirs = stack.enter_context(running("overstory")), stack.enter_context(running(PEER))
        assert ours is not None
        for shape, count, bars in shapes:
            for window, fewer, bar in zip(WINDOWS, FEWER, bars, strict=True):
                messages = 2000 if quick else count // fewer
                a = taken(ours, shape, messages * (1 if quick else 3), window)
                b = taken(theirs, shape, messages, window)
                yield _compared(shape, window, a, PEER, b, None if b is None else bar)
    for name in ("nats-server", "amqtt") if not quick else ():
        with running("overstory") as ours, running(name) as theirs:
            for shape in (SHAPES[0][0], SHAPES[1][0]):
                a = taken(ours, shape, 60_000 // shape.matches, 2000)
                b = taken(theirs, shape, 20_000 // shape.matches, 2000)
                if b is not None:
                    yield _compared(shape, 2000, a, name, b, None)


def durable(quick: bool) -> Iterator[Measurement]:
    """QoS 1 for sessions that outlive their connections: each message is on disk before it is acknowledged. Beside it
    mosquitto, which keeps them in memory alone."""
    with running("overstory with a store") as ours, running(PEER) as theirs:
        assert ours is not None
        for subscribers, count in ((1, 20_000), (50, 1000)):
            name = f"QoS 1, durable, one to {subscribers}"
            shape = Shape(name, subscribers, subscribers, qos=1, lasting=True)
            messages = 200 if quick else count
            a, b = taken(ours, shape, messages, 2000), taken(theirs, shape, messages, 2000)
            yield _compared(shape, 2000, a, PEER, b, None)


def _compared(shape: Shape, window: int, a: Taken | None, peer: str, b: Taken | None, bar: float | None) -> Measurement:
    assert a is not None
    size = f"{shape.name}, W {window:,}; wall {a.messages / a.wall_seconds:,.0f}/s"
    if b is None:
        return Measurement(_subject(shape), size, _cpu(a), unit="µs CPU")
    size += f", theirs {b.messages / b.wall_seconds:,.0f}/s"
    return Measurement(_subject(shape), size, _cpu(a), peer, _cpu(b), bar_ratio=bar, unit="µs CPU")


def _subject(shape: Shape) -> str:
    return "broker-durable" if shape.lasting else "broker"


def _cpu(run: Taken) -> float:
    return max(run.cpu_seconds, LEAST_CPU) / run.messages * MICRO


def taken(broker: Running | None, shape: Shape, messages: int, window: int) -> Taken | None:
    """A run, after a short one to warm up."""
    if broker is None:
        return None
    load = Load(broker, shape)
    load.run(2 * window, window)
    found = load.run(messages & ~1, window)
    load.close()
    return found


def filters(quick: bool) -> Iterator[Measurement]:
    """Many content filters, and one delivery for each event."""
    count, messages, connections = (200, 400, 2) if quick else (100_000, 200_000, 10)
    with running("overstory") as broker:
        assert broker is not None
        readers = [_talk(broker, connect(b"r%d" % number, 5)) for number in range(connections)]
        each = count // connections
        for number, reader in enumerate(readers):
            names = range(number * each, (number + 1) * each)
            for first in range(0, each, 500):
                texts = [b"q?symbol = 'S%06d' AND price > 5" % name for name in names[first : first + 500]]
                reader.sendall(subscribe(texts, 0, 5))
                reader.recv(1 << 16)
        writer = _talk(broker, connect(b"writer", 5))
        packets = [
            publish(b"q", 5, 0, ((b"symbol", b"S%06d" % (7919 * number % count)), (b"price", b"7")))
            for number in range(20_000)
        ]
        _flow(broker, writer, readers, packets, min(messages, 2000))
        run = _flow(broker, writer, readers, packets, messages)
        size = f"{count:,} filters, one delivery an event; wall {run.messages / run.wall_seconds:,.0f}/s"
        yield Measurement("broker-filters", size, _cpu(run), bar=10.0, unit="µs CPU")


def _talk(broker: Running, packet: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", broker.port))
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.sendall(packet)
    made.recv(4096)
    return made


def _flow(
    broker: Running, writer: socket.socket, readers: Sequence[socket.socket], packets: Sequence[bytes], count: int
) -> Taken:
    """Sends messages that one reader each gets, 2,000 in flight."""
    size, sent, came = len(packets[0]), 0, 0
    cpu, wall = broker.cpu_seconds(), time.perf_counter()
    while came < count * size:
        room = min(2000 - (sent - came // size), count - sent)
        if room >= min(1000, count - sent) and room > 0:
            writer.sendall(b"".join(packets[(sent + i) % len(packets)] for i in range(room)))
            sent += room
        for reader in select.select(readers, [], [], 30)[0]:
            came += len(reader.recv(1 << 20))
    return Taken(count, count, broker.cpu_seconds() - cpu, time.perf_counter() - wall)


def tick(quick: bool) -> Iterator[Measurement]:
    """The whole tick for one message, sockets aside: frame, decide, write."""
    ticks, link = _wired()
    data = encode(Publish("bench/a", b"x" * 200))
    fresh = [encode(Publish(f"bench/{number}", b"x" * 200)) for number in range(5000)]  # more than are remembered
    for size, sent, bar in (
        ("one message that is like one before", [data], 25.0),
        ("one message that is like none before", fresh, 25.0),
        ("50 messages", [data * 50], None),
        ("1,000 messages", [data * 1000], None),
    ):
        rounds = 20 if quick else max(50, 20_000 * len(data) // len(sent[0]))
        best = float("inf")
        for _ in range(2 if quick else 7):
            gc.collect()
            started = time.process_time()
            for number in range(rounds):
                if not ticks.passed_on(link, sent[number % len(sent)]):
                    ticks.add(link, sent[number % len(sent)])
                    ticks.run()
            best = min(best, time.process_time() - started)
        yield Measurement("broker-tick", size, max(best, 1e-6) / rounds * MICRO, bar=bar, unit="µs CPU")


def _wired() -> tuple[Tick, Link]:
    """A broker without sockets: one subscriber, whose bytes go nowhere, and a publisher."""
    state = State(Config(limits=Limits()), False, 0.0)
    made = Tick(Core(state))
    reader, writer = Link(), Link()
    reader.write = lambda data: None
    made.add(reader, encode(Connect("reader")) + encode(Subscribe(1, (Asked("bench/+"),))))
    made.add(writer, encode(Connect("writer")))
    made.run()
    state.dirty.clear()
    return made, writer


def latency(quick: bool) -> Iterator[Measurement]:
    """Median and 99th percentile, at a rate that both can take. The brokers have a core, and the load has another. The
    brokers take turns, and each percentile is the median of those of all rounds: some milliseconds in which the machine
    does something else, which meet one broker and not the other, would else decide the 99th percentile of all."""
    with running("overstory") as ours, running(AT_ONCE) as theirs:
        assert ours is not None
        shape = Shape("one to one", 1, 1)
        full = taken(theirs, shape, 2000 if quick else 100_000, 2000)
        most = 20_000.0 if full is None else full.messages / full.wall_seconds
        for rate, bars in ((1000.0, True), (most / 2, False)):
            count = 50 if quick else int(min(20_000, rate))
            a: list[list[float]] = []
            b: list[list[float]] = []
            with apart([ours, theirs]):
                for _ in range(1 if quick else ROUNDS):
                    a.append(_delays(ours, rate, count))
                    b += [] if theirs is None else [_delays(theirs, rate, count)]
            for percent in (50, 99):
                value, other = _usual(a, percent), _usual(b, percent) if b else None
                bar = None if other is None else other + 50 if bars else other
                size = f"{percent}th percentile at {rate:,.0f} messages a second; median of {len(a)} rounds"
                yield Measurement("broker-latency", size, value, AT_ONCE if b else "", other, bar)


def _usual(rounds: Sequence[Sequence[float]], percent: int) -> float:
    """The median over rounds of a percentile, in microseconds."""
    return statistics.median(_percentile(times, percent) for times in rounds)


def _percentile(times: Sequence[float], percent: int) -> float:
    return sorted(times)[min(len(times) - 1, len(times) * percent // 100)] * MICRO


def _delays(broker: Running, rate: float, count: int) -> list[float]:
    """Seconds that messages take, sent one by one at a fixed rate."""
    reader, writer = (
        _talk(broker, connect(b"lr", broker.peer.version)),
        _talk(broker, connect(b"lw", broker.peer.version)),
    )
    reader.sendall(subscribe([b"late"], 0, broker.peer.version))
    reader.recv(4096)
    reader.setblocking(False)
    packet = publish(b"late", broker.peer.version)
    sent: list[float] = []
    came: list[float] = []
    held = 0
    started = time.perf_counter()
    while len(came) < count:
        now = time.perf_counter()
        if len(sent) < count and now >= started + len(sent) / rate:
            sent.append(now)
            writer.sendall(packet)
        try:
            held += len(reader.recv(1 << 16))
        except BlockingIOError:
            continue
        now = time.perf_counter()
        while len(came) < held // len(packet):
            came.append(now)
    reader.close()
    writer.close()
    return [end - begin for begin, end in zip(sent, came, strict=True)]


def memory(quick: bool) -> Iterator[Measurement]:
    """Bytes of the broker for each subscription, sessions and all."""
    for count in (1000,) if quick else (100_000, 1_000_000):
        with running("overstory") as broker:
            assert broker is not None
            before = broker.resident_bytes()
            readers = []
            for first in range(0, count, 500):
                if first % 5000 == 0:
                    readers.append(_talk(broker, connect(b"m%d" % first, 5)))
                texts = [b"site/%d/device/%d" % (name % 1000, name) for name in range(first, first + 500)]
                readers[-1].sendall(subscribe(texts, 1, 5))
                readers[-1].recv(1 << 16)
            _talk(broker, connect(b"w", 5)).sendall(publish(b"site/1/device/1", 5))
            used = broker.resident_bytes() - before
            yield Measurement("broker-memory", f"{count:,} subscriptions", used / count / 1000, bar=3.0, unit="kB")
            for reader in readers:
                reader.close()
