"""CONNECT and DISCONNECT: how sessions begin, go on and end."""

import secrets
from collections.abc import Iterator

import msgspec

from overstory.broker import publishing, subscribing
from overstory.broker.link import Link
from overstory.broker.session import FOR_EVER, Session
from overstory.broker.state import State
from overstory.errors import ProtocolError
from overstory.wire.packets import MQTT_5, Code, ConnAck, Connect, Disconnect, Properties
from overstory.wire.topics import FILTERS, TAKES

EXPIRY = "session_expiry_interval"
PATIENCE = 1.5  # keep-alives without a word


def connect(state: State, link: Link, packet: Connect) -> None:
    """Lets a client in, or refuses it. Its session may be at another broker, and is then fetched from there first."""
    link.version = packet.version
    _check(state, packet)
    if state.fabric is not None and packet.client_id:
        state.fabric.moving.send_on(link, packet)
    if state.fabric is not None and packet.client_id:
        state.fabric.roaming.arrive(link, packet)
    else:
        accept(state, link, packet)


def accept(state: State, link: Link, packet: Connect) -> None:
    """A client gets its session back, or a new one."""
    given = packet.properties
    link.window.limit, link.window.above = state.limits.receive_max, state.window
    link.receive_max = given.get("receive_max", link.receive_max)
    link.largest = given.get("max_packet_size", link.largest)
    link.says_problems = given.get("request_problem_info", True)
    link.most_aliases_out = min(given.get("topic_alias_max", 0), state.limits.topic_aliases)
    client_id = packet.client_id or f"auto-{secrets.token_hex(8)}"
    session, present = _session(state, client_id, packet)
    most = state.limits.keep_alive
    keep_alive = min(packet.keep_alive or most, most) if most else packet.keep_alive
    link.keep_alive, link.heard = keep_alive * PATIENCE, state.now
    answer = _answer(state, session, packet, keep_alive)
    state.links[link] = None
    state.counts.connections += 1
    state.log("connected", link, version=packet.version, session_present=present)
    link.session = session
    if TAKES in answer["user_properties"]:
        state.takers[session.number] = session
    if not link.send(ConnAck(Code.SUCCESS, present, answer)):
        link.closed = True
    session.will = packet.will
    session.attach(link, state.now)
    if state.fabric is not None:
        state.fabric.groups.seated(session)
        state.fabric.testaments.note(session)
        state.fabric.moving.arrived(client_id)
    note(state, session)


def _check(state: State, packet: Connect) -> None:
    if "authentication_method" in packet.properties:
        raise ProtocolError(Code.BAD_AUTHENTICATION_METHOD, "there is no authentication here")
    if not packet.client_id and packet.version != MQTT_5 and not packet.clean_start:
        raise ProtocolError(Code.CLIENT_ID_NOT_VALID, "a client without an id needs a clean session")
    if state.limits.connections and len(state.links) >= state.limits.connections:
        raise ProtocolError(Code.SERVER_BUSY, f"there are {state.limits.connections} connections already")


def _session(state: State, client_id: str, packet: Connect) -> tuple[Session, bool]:
    """The session of a client, and whether it was there before."""
    session = state.sessions.get(client_id)
    if session is not None and session.link is not None:
        take_over(state, session)
        session = state.sessions.get(client_id)
    if session is not None and packet.clean_start:
        end_session(state, session)
        session = None
    present = session is not None
    if session is None:
        session = state.sessions[client_id] = Session(client_id, _number(state, client_id), state.house)
    state.away.pop(client_id, None)
    state.wills.cancel(session)
    before = session.expiry
    if packet.version == MQTT_5:
        session.expiry = min(packet.properties.get(EXPIRY, 0), state.limits.session_expiry)
    else:
        session.expiry = 0 if packet.clean_start else state.limits.session_expiry
    if before and not session.expiry and state.journal.keeps:
        state.journal.note("end", session.number)
    return session, present


def take_over(state: State, session: Session) -> None:
    """Another connection has the client's session from now on: the present one ends."""
    old = session.link
    assert old is not None
    old.end(ProtocolError(Code.TAKEN_OVER, "another connection has taken over the session"))
    state.dirty[old] = None
    _away(state, old, session, will=True)


def _number(state: State, client_id: str) -> int:
    """The number of a new session: that of the client that the plan knows by this name, or a new one. (A session that
    is about to end keeps its number to itself.)"""
    planned = state.plan_clients.get(client_id)
    return state.new_number() if planned is None or planned in state.slots.by_client else planned


def _answer(state: State, session: Session, packet: Connect, keep_alive: int) -> Properties:
    """What CONNACK says beside yes."""
    limits = state.limits
    takes = state.fabric is not None and TAKES in packet.properties.get("user_properties", ())
    answer: Properties = {
        "receive_max": limits.receive_max,
        "user_properties": [FILTERS, TAKES] if takes else [FILTERS],
        "max_packet_size": limits.packet,
        "topic_alias_max": limits.topic_aliases,
    }
    if not packet.client_id:
        answer["assigned_client_id"] = session.client_id
    if keep_alive != packet.keep_alive:
        answer["server_keep_alive"] = keep_alive
    if session.expiry != packet.properties.get(EXPIRY, 0):
        answer[EXPIRY] = session.expiry
    return answer


def disconnect(state: State, link: Link, packet: Disconnect) -> None:
    """A client says goodbye. Its will is forgotten, unless it asks for it."""
    session = link.session
    assert session is not None
    expiry = packet.properties.get(EXPIRY)
    if expiry:
        if not session.expiry:
            raise ProtocolError(Code.PROTOCOL_ERROR, "a session that ends with its connection cannot be prolonged")
        session.expiry = min(expiry, state.limits.session_expiry)
    elif expiry == 0:
        if session.is_kept:
            state.journal.note("end", session.number)
        session.expiry = 0
    link.closed = True
    state.dirty[link] = None
    if session.link is link:
        _away(state, link, session, will=packet.code != Code.SUCCESS)


def lost(state: State, link: Link) -> None:
    """A connection is gone, whoever ended it."""
    link.closed = True
    link.work = None
    link.window.leave()
    state.links.pop(link, None)
    state.dirty.pop(link, None)
    state.answers.forget(link)
    session = link.session
    if session is not None and session.link is link:
        _away(state, link, session, will=True)


def leave(state: State, link: Link, session: Session) -> None:
    """A client is sent elsewhere. Its session waits to be fetched, and its will is not published: it is not lost."""
    _away(state, link, session, will=False)


def _away(state: State, link: Link, session: Session, will: bool) -> None:
    """A client has gone: its session waits for it, or ends."""
    state.links.pop(link, None)
    state.takers.pop(session.number, None)
    state.log("disconnected", link)
    session.detach()
    left, session.will = session.will, None
    if will and left is not None:
        delay = min(left.properties.get("will_delay_interval", 0), session.expiry)
        if delay:
            state.wills.wait(session, left, state.now + delay)
        else:
            publishing.publish_will(state, session, left)
    if state.fabric is not None:
        state.fabric.testaments.note(session)
    if not session.expiry:
        end_session(state, session)
        return
    session.ends = None if session.expiry == FOR_EVER else state.now + session.expiry
    state.away[session.client_id] = session
    if state.fabric is not None:
        state.fabric.groups.seated(session)
    note(state, session)


def note(state: State, session: Session) -> None:
    """Notes a session in the journal, if it outlives its connection."""
    if session.is_kept:
        will = msgspec.msgpack.encode(session.will)
        values = session.number, session.client_id, session.expiry, session.ends, session.link is None, will
        state.journal.note("session", *values)


def end_session(state: State, session: Session, says: bool = True) -> None:
    """Ends a session for good. Its subscriptions go little by little. ``says``: other brokers are to know."""
    if state.sessions.get(session.client_id) is session:
        del state.sessions[session.client_id]
        if state.fabric is not None and says:
            state.fabric.roaming.ended(session.client_id)
    state.away.pop(session.client_id, None)
    will = state.wills.take(session)
    if will is not None:
        publishing.publish_will(state, session, will)
        if state.fabric is not None:
            state.fabric.testaments.note(session)
    state.journal.note("end", session.number)
    state.takers.pop(session.number, None)
    if session.subscriptions:
        steps = _ended(state, session)
        if len(session.subscriptions) <= 1:
            for _ in steps:
                pass
        else:
            state.chores.append(steps)
    else:
        state.slots.give(session.place)


def _ended(state: State, session: Session) -> Iterator[None]:
    for name in list(session.subscriptions):
        subscribing.remove(state, session, name)
        yield
    for delivery in [*session.inflight.values(), *session.queue]:
        if delivery.group is not None and delivery.message is not None:
            publishing.deliver_to_group(state, delivery.group, delivery.message, without=session.number)
            yield
    session.inflight.clear()
    session.queue.clear()
    state.slots.give(session.place)


def end_full(state: State) -> None:
    """Ends the sessions in which too much waits, and says so to their clients."""
    while state.full:
        session = state.full.pop()
        if state.sessions.get(session.client_id) is not session:
            continue
        waiting = len(session.queue)
        state.log("session_full", client=session.client_id, queued=waiting)
        link = session.link
        if link is not None:
            link.end(ProtocolError(Code.QUOTA_EXCEEDED, f"{waiting:,} messages wait in the session"))
            session.detach()
            state.links.pop(link, None)
            state.dirty[link] = None
        session.will = None
        end_session(state, session)
