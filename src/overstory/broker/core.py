"""A broker without I/O: connections come and go, packets come in, packets go out.

The rules that a maintainer may rely on:

1. Bad input ends the connection that it came on, with a reason, and touches nothing else. So does an error of our own:
   it is logged and counted, and whoever is not concerned is served.
2. Packets of one connection are handled in order. A long answer is an iterator (``Link.work``), so that others get
   their turn; what comes on its connection meanwhile waits.
3. What is acknowledged is safe: with a journal, acknowledgements wait until everything before them is on disk.
4. Time is what ``set_time`` or ``tick`` was last told.

How to think about it: the router decides who gets what; a session is the mailbox of one client; a link is the wire to
it, if there is one. ``connecting``, ``subscribing`` and ``publishing`` say what the packets do to these.
"""

import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from overstory.broker import connecting, faults, publishing, subscribing
from overstory.broker.link import Link
from overstory.broker.state import State
from overstory.errors import ProtocolError
from overstory.wire.decode import FOR_SERVER, decode
from overstory.wire.packets import (
    CONNECT,
    PUBACK,
    PUBREL,
    Ack,
    Auth,
    Code,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    Publish,
    Subscribe,
    Unsubscribe,
)

PLAIN = frozenset((0x30, 0x32, 0x3A, 0x40))  # the first bytes of packets that kernels handle
PLAIN_PUBACK = bytes((PUBACK << 4, 2))  # how one begins that says nothing but a packet identifier
STEPS = 200  # of a long answer in one turn: some milliseconds
LONGER = 4  # times that a step takes where there are other brokers


class Core:
    """The broker: inputs are methods. What is to be sent stands in the links that ``dirty`` names."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.for_kernels = False  # whether somebody has kernels handle what they can
        self.chores: deque[Iterator[None]] = state.chores

    def receive(self, link: Link) -> None:
        """Handles the packets in a link's buffer, until a long answer has taken its share of this turn."""
        steps = STEPS if self.state.fabric is None else STEPS // LONGER
        if link.work is not None:
            steps = self._went_on(link, steps)
        while link.buffer and link.work is None and not (link.closed or link.waits):
            try:
                if self._acknowledged(link):
                    continue
                data = link.next_packet()
                if data is None:
                    break
                self.handle(link, data)
                if link.work is not None:
                    steps = self.work(link, steps)
                elif self.for_kernels and self.is_plain(link):
                    break
            except ProtocolError as error:
                self.fail(link, error)
            except Exception as error:
                faults.end(self.state, link, error)
        self.end_full()

    def _acknowledged(self, link: Link) -> bool:
        """Handles a run of PUBACKs that kernels do not, all at once. Returns whether there was one."""
        session, buffer = link.session, link.buffer
        if session is None or session.is_counted or not buffer.startswith(PLAIN_PUBACK):
            return False
        end = 0
        while buffer.startswith(PLAIN_PUBACK, end) and end + 4 <= len(buffer):
            end += 4
        ids = [packet_id for _, packet_id in struct.iter_unpack(">HH", buffer[:end])]
        if not ids or 0 in ids:
            return False  # not all of one has come, or one is malformed
        del buffer[:end]
        session.acknowledge_many(ids, self.state.now)
        self.state.dirty[link] = None
        return True

    def _went_on(self, link: Link, steps: int) -> int:
        """Goes on with a long answer. Returns how many steps are left."""
        try:
            return self.work(link, steps)
        except Exception as error:
            faults.end(self.state, link, error)
            return 0

    def end_full(self) -> None:
        """Ends the sessions in which too much waits."""
        while self.state.full:
            try:
                connecting.end_full(self.state)
            except Exception as error:
                self.state.fault(error)

    def is_plain(self, link: Link) -> bool:
        """Whether the next packet of a link is one that kernels usually handle. Before a client has its session, none
        is."""
        buffer, session = link.buffer, link.session
        if not buffer or session is None:
            return False
        return buffer[0] in PLAIN and (buffer[0] != PUBACK << 4 or session.is_counted)

    def handle(self, link: Link, data: bytes) -> None:
        """Handles one whole packet."""
        kind = data[0] >> 4
        if link.session is None:
            if kind != CONNECT:
                link.closed = True  # who does not say who it is gets no answer
                return
            self._connect(link, data)
            return
        if kind == CONNECT or kind not in FOR_SERVER:
            raise ProtocolError(Code.PROTOCOL_ERROR, f"a client may not send packet type {kind} now")
        self._act(link, decode(data, link.version))
        self.state.dirty[link] = None

    def _connect(self, link: Link, data: bytes) -> None:
        self.state.dirty[link] = None
        try:
            packet = decode(data, link.version)
            assert isinstance(packet, Connect)
            connecting.connect(self.state, link, packet)
        except ProtocolError as error:
            link.version = data[8] if len(data) > 8 and data[8] in (4, 5) else link.version
            link.refuse(error)

    def _act(self, link: Link, packet: Packet) -> None:
        state, session = self.state, link.session
        assert session is not None
        if isinstance(packet, Publish):
            publishing.receive(state, link, packet)
        elif isinstance(packet, Ack):
            if packet.kind == PUBREL:
                publishing.release(state, link, packet)
            else:
                session.acknowledge(packet, state.now)
        elif isinstance(packet, Subscribe):
            link.work = subscribing.subscribe(state, link, packet)
        elif isinstance(packet, Unsubscribe):
            link.work = subscribing.unsubscribe(state, link, packet)
        elif isinstance(packet, PingReq):
            link.send(PingResp())
        elif isinstance(packet, Disconnect):
            connecting.disconnect(state, link, packet)
        elif isinstance(packet, Auth):
            raise ProtocolError(Code.PROTOCOL_ERROR, "there is no authentication here")

    def fail(self, link: Link, error: ProtocolError) -> None:
        """A client broke the rules: its connection ends."""
        self.state.counts.protocol_errors += 1
        self.state.log("protocol_error", link, reason=error.problem, code=error.code)
        faults.hang_up(self.state, link, error)

    def lost(self, link: Link) -> None:
        """The connection is gone."""
        self._guarded(connecting.lost, self.state, link)

    def congested(self, link: Link, congested: bool) -> None:
        """The client has stopped reading, or reads again."""
        link.congested = congested
        session = link.session
        if session is None or session.link is not link:
            return
        session.settle()
        session.open()
        if not congested:
            session.send_waiting(self.state.now)
            self.state.dirty[link] = None

    def work(self, link: Link, steps: int) -> int:
        """Goes on with a long answer, for so many steps. Returns how many are left."""
        assert link.work is not None
        self.state.dirty[link] = None
        if steps <= 0:
            return 0
        for _ in link.work:
            steps -= 1
            if steps <= 0 or link.closed:
                self.state.file()
                return 0
        link.work = None
        self.state.file()
        return steps

    def tidy(self, steps: int) -> None:
        """Goes on with what nobody waits for, such as the end of a large session, for so many steps."""
        steps = steps if self.state.fabric is None else steps // LONGER
        while self.chores and steps > 0:
            try:
                for _ in self.chores[0]:
                    steps -= 1
                    if steps <= 0:
                        break
                else:
                    self.chores.popleft()
            except Exception as error:
                self.chores.popleft()
                self.state.fault(error)

    def set_time(self, now: float) -> None:
        """Says what the time is: what happens next happens then."""
        self.state.now = now

    def tick(self, now: float) -> None:
        """Sets the time: sessions end, wills are published, silent clients are lost."""
        state = self.state
        state.now = now
        reason = "nothing was heard for one and a half keep-alives"
        for link in list(state.links):
            if link.is_paused:
                link.heard = now  # it may have spoken, and we do not listen
            elif link.keep_alive and now - link.heard > link.keep_alive:
                self._guarded(faults.hang_up, state, link, ProtocolError(Code.KEEP_ALIVE_TIMEOUT, reason))
        if state.fabric is not None:
            self._guarded(state.fabric.roaming.tick, now)
            self._guarded(state.fabric.testaments.tick, now)
            self._guarded(state.fabric.moving.tick, now)
        for session, will in state.wills.due(now):
            self._guarded(publishing.publish_will, state, session, will)
            if state.fabric is not None:
                self._guarded(state.fabric.testaments.note, session)
        for session in [s for s in state.away.values() if s.ends is not None and s.ends <= now]:
            self._guarded(connecting.end_session, state, session)
        for topic in state.retained.expired(now) if len(state.retained) < 100_000 else ():
            state.retained.remove(topic)
            state.journal.note("unretain", topic)

    def _guarded(self, action: Callable[..., None], *given: Any) -> None:
        """Does one thing of many. An error of our own is logged and counted, and the others are done all the same."""
        try:
            action(*given)
        except Exception as error:
            self.state.fault(error)

    def shut_down(self) -> None:
        """Tells all clients that the broker goes down."""
        reason = ProtocolError(Code.SHUTTING_DOWN, "the broker is shutting down")
        for link in list(self.state.links):
            self._guarded(faults.hang_up, self.state, link, reason)
