"""Wills of clients whose broker has died: another broker holds them, and publishes them then.

1. A broker gives the will of each of its clients to the *holder*: the first broker in the order of rendezvous hashing
   that is neither itself nor lost. For most clients that is the directory broker. When brokers are lost or come back,
   holders may be others: the wills are given to these, and taken back from those.
2. When the client's broker is lost, or has restarted, the holder publishes the will after its delay, but not within
   ``PATIENCE`` of a restart, unless the client has connected anywhere by then, or its broker is reached again.
3. Each connection of a client is told to the holder. So is each will that has been published or forgotten.
"""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from overstory.broker import publishing
from overstory.broker.facts import Facts
from overstory.broker.message import message_of_will
from overstory.broker.session import Session
from overstory.broker.state import State
from overstory.errors import LinkError
from overstory.wire.packets import Will

PATIENCE = 5.0  # seconds in which clients of a broker that has restarted may come back


class Testament(msgspec.Struct, frozen=True, tag=True):
    """A client is at the sender, with this will, or with none."""

    client: str
    number: int
    expiry: int
    will: bytes


class Held(msgspec.Struct):
    """A will that this broker publishes if the client's broker dies."""

    broker: int
    number: int
    expiry: int
    will: Will
    due: float | None = None  # when it is published; None: its broker is there


class Testaments:
    """The wills that one broker holds for others, and those that others hold for it."""

    def __init__(
        self, state: State, facts: Facts, order: Callable[[str], Iterable[int]], tell: Callable[[int, Any], None]
    ) -> None:
        """``order`` is that of all brokers for a client; ``tell`` sends a message to any other broker."""
        self._state, self._facts, self._order, self._send = state, facts, order, tell
        self._me = state.config.number
        self._held: dict[str, Held] = {}
        self._given: dict[str, int] = {}  # the holders of wills of clients here
        self._has_started = False
        facts.on_lost.append(self._lost)
        self.on: dict[type, Callable[[int, Any], None]] = {Testament: self._testament}

    def __len__(self) -> int:
        """How many wills are held here."""
        return len(self._held)

    def holder_of(self, client: str) -> int | None:
        """The broker that holds the will of a client here; None if nobody else is there."""
        away = {self._me, *self._facts.lost}
        return next((broker for broker in self._order(client) if broker not in away), None)

    def note(self, session: Session) -> None:
        """A client has come or gone, or its will is another, or none."""
        client, holder = session.client_id, self.holder_of(session.client_id)
        self._held.pop(client, None)
        will = session.will or self._state.wills.waits(session)
        before = self._given.pop(client, None)
        for broker in {before, holder} - {None}:
            mine = will is not None and broker == holder
            told = msgspec.msgpack.encode(will) if mine else b""
            if told or broker == before or session.link is not None:
                self._send(broker, Testament(client, session.number, session.expiry, told))  # type: ignore[arg-type]
        if will is not None and holder is not None:
            self._given[client] = holder

    def tick(self, now: float) -> None:
        """Publishes the wills that are due. A broker that remembers wills from before a restart tells of them."""
        if not self._has_started and self._state.fabric.is_active:
            self._has_started = True
            for session in list(self._state.sessions.values()):
                self.note(session)
        for client, held in list(self._held.items()):
            if held.due is not None and held.due <= now:
                del self._held[client]
                self._state.log("will", topic=held.will.topic, client=client)
                publishing.publish(self._state, message_of_will(held.will, held.number, now))

    def restarted(self, broker: int) -> None:
        """A broker has started: the wills that it held are gone, and so are the clients that it had."""
        for client in [client for client, holder in self._given.items() if holder == broker]:
            session = self._state.sessions.get(client)
            if session is not None:
                self.note(session)
        self._begin(broker, PATIENCE)

    def _lost(self, lost: frozenset[int]) -> None:
        """Some brokers are lost, or back."""
        for held in self._held.values():
            if held.broker not in self._facts.lost:
                held.due = None
        for broker in lost:
            self._begin(broker, 0)
        for client, holder in list(self._given.items()):
            session = self._state.sessions.get(client)
            if session is not None and self.holder_of(client) != holder:
                self.note(session)

    def _begin(self, broker: int, least: float) -> None:
        """The clients of a broker are not there any more: the delays of their wills begin."""
        for held in self._held.values():
            if held.broker == broker:
                delay = min(held.will.properties.get("will_delay_interval", 0), held.expiry)
                held.due = self._state.now + max(delay, least)

    def _testament(self, broker: int, message: Testament) -> None:
        if not message.will:
            self._held.pop(message.client, None)
            return
        try:
            will = msgspec.msgpack.decode(message.will, type=Will)
        except msgspec.MsgspecError as error:
            raise LinkError(f"a will cannot be read: {str(error).splitlines()[0]}") from None
        self._held[message.client] = Held(broker, message.number, message.expiry, will)
