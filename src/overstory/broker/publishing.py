"""PUBLISH: a message comes in, the router says who gets it, sessions pass it on."""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from overstory.broker import faults
from overstory.broker.link import Link
from overstory.broker.message import Message, Origin, message_of, message_of_will
from overstory.broker.promises import Promise, both
from overstory.broker.session import Delivery, Session, Subscription
from overstory.broker.shared import Group
from overstory.broker.state import State
from overstory.errors import ProtocolError
from overstory.matching import Batch
from overstory.wire.attributes import attributes_of
from overstory.wire.encode import encode
from overstory.wire.packets import MQTT_5, PUBACK, PUBCOMP, PUBREC, Ack, Code, Publish, Will
from overstory.wire.topics import check_topic


def receive(state: State, link: Link, packet: Publish) -> None:
    """Takes a message from a client, and acknowledges it once it is safe."""
    session = link.session
    assert session is not None
    if "subscription_ids" in packet.properties:
        raise ProtocolError(Code.PROTOCOL_ERROR, "a client may not send subscription identifiers")
    message = message_of(packet, _topic(state, link, packet), session.number, state.now)
    state.counts.messages_in += 1
    state.sampling.left -= 1
    if state.sampling.left < 0:
        plain = encode(message.to_publish(state.now, 0, False), MQTT_5)
        state.sampling.packets(plain, [len(plain)], session.number, MQTT_5, state.now)
    if packet.qos == 0:
        publish(state, message)
        return
    state.entered(link, packet.packet_id, packet.qos)
    if link.window.is_exceeded and link.version == MQTT_5:
        raise link.window.too_many()
    if packet.qos == 1:
        promise = publish(state, message)
        _answer(state, link, Ack(PUBACK, packet.packet_id), promise)
        return
    promise = _once(state, session, packet.packet_id, message)
    if promise is not None:
        session.promised[packet.packet_id] = promise
        promise.then(lambda: session.promised.pop(packet.packet_id, None))
    _answer(state, link, Ack(PUBREC, packet.packet_id), session.promised.get(packet.packet_id))


def _once(state: State, session: Session, packet_id: int, message: Message) -> Promise | None:
    """Publishes a message of QoS 2, unless that was done before. Returns a promise if it is not safe yet.

    Where there are other brokers and a disk, the packet identifier and the event's number are committed before anybody
    is sent the event. After a crash the client sends it again, and it goes out under the same number: whoever has had
    it drops it.
    """
    again = session.uncertain.pop(packet_id, None)
    if again is not None:
        return publish(state, message, again)
    if state.fabric is None or not session.is_kept:
        return publish(state, message) if session.receive_once(packet_id) else None
    if not session.receive_once(packet_id, state.events):
        return None
    event, state.events = state.events, state.events + 1
    promise = Promise()
    promise.wait()

    def may_come_again() -> bool:
        is_unreleased = session.numbered.get(packet_id) == event and state.sessions.get(session.client_id) is session
        return promise.waits > 0 or is_unreleased

    state.fabric.marks.hold(event, may_come_again)

    def committed() -> None:
        later = publish(state, message, event)
        state.journal.note("handed", session.number, packet_id)
        if later is None:
            promise.kept()
        else:
            later.then(promise.kept)

    state.journal.call(committed)
    return promise


def release(state: State, link: Link, packet: Ack) -> None:
    """A client releases a message of QoS 2."""
    session = link.session
    assert session is not None
    known = session.release(packet.packet_id)
    link.window.release(packet.packet_id)
    _answer(state, link, Ack(PUBCOMP, packet.packet_id, Code.SUCCESS if known else Code.ID_NOT_FOUND))


def _answer(state: State, link: Link, ack: Ack, promise: Promise | None = None) -> None:
    counted = int(ack.kind == PUBACK), int(ack.kind == PUBREC)
    state.answers.send(link, encode(ack, link.version), promise, *counted)


def _topic(state: State, link: Link, packet: Publish) -> str:
    """The topic of a message, which its alias may stand for."""
    alias = packet.properties.get("topic_alias")
    topic = packet.topic
    if alias is not None:
        if not 0 < alias <= state.limits.topic_aliases:
            raise ProtocolError(Code.ALIAS_INVALID, f"a topic alias is from 1 to {state.limits.topic_aliases}")
        if topic:
            link.aliases_in[alias] = topic
        elif alias in link.aliases_in:
            topic = link.aliases_in[alias]
        else:
            raise ProtocolError(Code.ALIAS_INVALID, f"the topic alias {alias} stands for no topic yet")
    check_topic(topic)
    return topic


def publish(state: State, message: Message, event: int | None = None) -> Promise | None:
    """Publishes a message: the one door for what comes from clients, wills and the broker itself. Returns a promise if
    the message is not safe yet. ``event`` is its number among the events of a network, if it has one already."""
    spread: Promise | None = None
    if message.retain:
        retain(state, message)
        if state.fabric is not None:
            spread = state.fabric.retained(message)
    if event is not None:
        return both(_publish_to_all(state, [message], event)[0], spread)
    plain = state.decide is None or (state.fabric is not None and message.qos == 2)  # it may have to be traced
    return both((decide if state.decide is None or plain else state.decide)(state, [message])[0], spread)


def retain(state: State, message: Message) -> None:
    """Keeps the message as its topic's last one, or forgets that if it has no payload."""
    state.retained.keep(message)
    if not state.journal.keeps:
        return
    if message.payload:
        state.journal.note("retain", message.topic, msgspec.msgpack.encode(message))
    else:
        state.journal.note("unretain", message.topic)


def publish_will(state: State, session: Session, will: Will) -> None:
    """Publishes the will of a client that is lost."""
    state.log("will", topic=will.topic, client=session.client_id)
    try:
        publish(state, message_of_will(will, session.number, state.now))
    except Exception as error:
        state.fault(error)  # the session that it was the will of ends all the same


def decide(state: State, messages: Sequence[Message]) -> list[Promise | None]:
    """Asks the router, by its plain way, who gets these messages, and hands them over. A message with which an error of
    our own comes up ends its publisher's connection, and no other. Returns a promise for each message that is not safe
    yet."""
    if state.fabric is not None:
        return _publish_to_all(state, messages)
    try:
        first, found = _receivers(state, messages)
    except Exception as error:
        if len(messages) == 1:
            faults.end_publisher(state, messages[0].publisher, error)
        else:
            for message in messages:
                decide(state, [message])
        return [None] * len(messages)
    state.counts.plain += len(messages)
    for event in sorted(found):
        for numbers in found[event].values():
            try:
                hand_out(state, messages[event], Origin(state.config.number, first + event), numbers)
            except Exception as error:
                faults.end_publisher(state, messages[event].publisher, error)
    return [None] * len(messages)


def _publish_to_all(state: State, messages: Sequence[Message], first: int | None = None) -> list[Promise | None]:
    """Has the fabric carry messages to clients here and to neighbours. Messages of which none has entered the router
    when an error comes up are tried again one by one. ``first`` is the number of the first, if it has one already."""
    before = state.events
    try:
        promises: list[Promise | None] = state.fabric.publish(messages, first)
    except Exception as error:
        if len(messages) > 1 and state.events == before:
            return [promise for message in messages for promise in _publish_to_all(state, [message])]
        for message in messages:
            faults.end_publisher(state, message.publisher, error)
        return [None] * len(messages)
    state.counts.plain += len(messages)
    return promises


def _receivers(state: State, messages: Sequence[Message]) -> tuple[int, dict[int, dict[int, list[int]]]]:
    """Of each message, by its place, the subscriptions that get it, by their holders; and the first event's number."""
    batch = Batch.of([attributes_of(message, state.config.types) for message in messages])
    ids = np.arange(state.events, state.events + len(messages))
    frames = state.router.enter(batch, ids, np.array([message.publisher for message in messages], np.int64))
    routed, _ = state.router.publish(frames)
    first, state.events = state.events, state.events + len(messages)
    found: dict[int, dict[int, list[int]]] = {}
    for frame, number in zip(routed.delivered_frames.tolist(), routed.delivered.tolist(), strict=True):
        event = int(frames.ids[frame]) - first
        holder = state.subscriptions[number].holder
        found.setdefault(event, {}).setdefault(holder.number, []).append(number)
    return first, found


def hand_out(state: State, message: Message, origin: Origin, numbers: Iterable[int]) -> Promise | None:
    """Hands a message to one client, or to one member of a group, for these of its subscriptions. Returns a promise if
    the member is elsewhere and does not have it yet."""
    subscriptions = [state.subscriptions[number] for number in numbers]
    holder = subscriptions[0].holder
    if message.qos == 2 and state.fabric is not None:
        new = _got_first(state, holder, origin, [one.number for one in subscriptions])
        subscriptions = [one for one in subscriptions if one.number in new]
        if not subscriptions:
            return None
    if isinstance(holder, Group):
        return deliver_to_group(state, holder.name, message, event=origin.event)
    delivery = _delivery(message, subscriptions)
    delivery.entry, delivery.event = origin
    if message.qos == 2:
        delivery.numbers = tuple(one.number for one in subscriptions)
    return hand_over(state, holder, delivery)


def pass_over(state: State, session: Session, delivery: Delivery) -> Promise | None:
    """Gives a session a message that another broker got for it, unless the session has it already."""
    if delivery.numbers:
        origin = Origin(delivery.entry, delivery.event)
        if not _got_first(state, session, origin, delivery.numbers):
            return None
    return hand_over(state, session, delivery)


def _got_first(state: State, holder: Session | Group, origin: Origin, numbers: Sequence[int]) -> Sequence[int]:
    """Those of a holder's subscriptions that get an event of QoS 2 for the first time. A session that only passes it on
    to another broker does not get it."""
    if isinstance(holder, Session) and holder.forward is not None:
        return numbers
    keeps = isinstance(holder, Session) and holder.is_kept
    new: list[int] = state.fabric.seen.once(*origin, numbers, keeps)
    return new


def hand_rest(state: State, session: Session, message: Message) -> None:
    """Hands a message to a client that takes all events of its clusters, and has no subscription for this one. It will
    be thrown away, so it goes as QoS 0, without a subscription identifier, and only to who is there."""
    if session.link is not None and session.forward is None:
        hand_over(state, session, Delivery(message, 0, False))


def hand_to_unserved(state: State, message: Message) -> None:
    """Hands a retained message that was published elsewhere to those whom its event may miss."""
    for number in list(state.unserved):
        made = state.subscriptions.get(number)
        if made is None or (made.asked.no_local and message.publisher == made.holder.number):
            continue
        if made.filter.matches(attributes_of(message, state.config.types)):
            hand_over(state, made.holder, _delivery(message, [made]))


def _delivery(message: Message, subscriptions: Sequence[Subscription]) -> Delivery:
    qos = min(message.qos, max(subscription.asked.qos for subscription in subscriptions))
    retain = message.retain and any(subscription.asked.retain_as_published for subscription in subscriptions)
    ids = tuple(subscription.identifier for subscription in subscriptions if subscription.identifier)
    return Delivery(message, qos, retain, ids)


def deliver_to_group(
    state: State, name: str, message: Message, event: int | None = None, without: int | None = None
) -> Promise | None:
    """Hands a message to one member of a group. Returns a promise if it is elsewhere and does not have it yet."""
    if state.fabric is not None:
        given = -1 if event is None else event, message, -1 if without is None else without
        promise: Promise | None = state.fabric.groups.offer(name, *given)
        return promise
    group = state.groups.get(name)
    chosen = group and group.choose(state.events if event is None else event, without)
    if chosen:
        deliver_to_member(state, name, chosen, message)
    return None


def deliver_to_member(state: State, name: str, member: tuple[Session, Subscription], message: Message) -> None:
    """Hands a message to a member of a group that is here."""
    session, subscription = member
    delivery = _delivery(message, [subscription])
    delivery.group = name
    hand_over(state, session, delivery)


def hand_over(state: State, session: Session, delivery: Delivery) -> Promise | None:
    """Gives a message to a session. One that is too full will be ended. Returns a promise if the session is at another
    broker, which does not have the message yet."""
    state.counts.messages_out += 1
    promise = session.deliver(delivery, state.now)
    if session.link is not None:
        state.dirty[session.link] = None
    if session.overflowed:
        session.overflowed = False
        state.full.append(session)
    return promise
