"""PUBLISH: a message comes in, the router says who gets it, sessions pass it on."""

from collections.abc import Iterable, Sequence

import msgspec
import numpy as np

from overstory.broker.link import Link
from overstory.broker.message import Message, message_of, message_of_will
from overstory.broker.session import Delivery, Session, Subscription
from overstory.broker.shared import Group
from overstory.broker.state import State
from overstory.errors import ProtocolError
from overstory.matching import Batch
from overstory.wire.attributes import attributes_of
from overstory.wire.encode import encode
from overstory.wire.packets import PUBACK, PUBCOMP, PUBREC, Ack, Code, Publish, Will
from overstory.wire.topics import check_topic


def receive(state: State, link: Link, packet: Publish) -> None:
    """Takes a message from a client, and acknowledges it once it is safe."""
    session = link.session
    assert session is not None
    if "subscription_ids" in packet.properties:
        raise ProtocolError(Code.PROTOCOL_ERROR, "a client may not send subscription identifiers")
    message = message_of(packet, _topic(state, link, packet), session.number, state.now)
    state.counts.messages_in += 1
    if packet.qos == 0:
        publish(state, message)
        return
    if packet.qos == 1:
        publish(state, message)
        _answer(state, link, Ack(PUBACK, packet.packet_id))
        return
    if packet.packet_id not in session.received:
        if len(session.received) >= state.limits.receive_max:
            raise ProtocolError(Code.RECEIVE_MAXIMUM, f"{state.limits.receive_max} messages are in flight already")
        session.receive_once(packet.packet_id)
        publish(state, message)
    _answer(state, link, Ack(PUBREC, packet.packet_id))


def release(state: State, link: Link, packet: Ack) -> None:
    """A client releases a message of QoS 2."""
    session = link.session
    assert session is not None
    known = session.release(packet.packet_id)
    _answer(state, link, Ack(PUBCOMP, packet.packet_id, Code.SUCCESS if known else Code.ID_NOT_FOUND))


def _answer(state: State, link: Link, ack: Ack) -> None:
    state.journal.send(link, encode(ack, link.version))


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


def publish(state: State, message: Message) -> None:
    """Publishes a message: the one door for what comes from clients, wills and the broker itself."""
    if message.retain:
        retain(state, message)
    if state.decide is None:
        decide(state, [message])
    else:
        state.decide([message])


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
    publish(state, message_of_will(will, session.number, state.now))


def decide(state: State, messages: Sequence[Message]) -> None:
    """Asks the router, by its plain way, who gets these messages, and hands them over."""
    state.counts.plain += len(messages)
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
    for event in sorted(found):
        for numbers in found[event].values():
            hand_out(state, messages[event], first + event, numbers)


def hand_out(state: State, message: Message, event: int, numbers: Iterable[int]) -> None:
    """Hands a message to one client, or to one member of a group, for these of its subscriptions."""
    subscriptions = [state.subscriptions[number] for number in numbers]
    holder = subscriptions[0].holder
    if isinstance(holder, Group):
        deliver_to_group(state, holder.name, message, event=event)
        return
    hand_over(state, holder, _delivery(message, subscriptions))


def _delivery(message: Message, subscriptions: Sequence[Subscription]) -> Delivery:
    qos = min(message.qos, max(subscription.asked.qos for subscription in subscriptions))
    retain = message.retain and any(subscription.asked.retain_as_published for subscription in subscriptions)
    ids = tuple(subscription.identifier for subscription in subscriptions if subscription.identifier)
    return Delivery(message, qos, retain, ids)


def deliver_to_group(
    state: State, name: str, message: Message, event: int | None = None, without: int | None = None
) -> None:
    """Hands a message to one member of a group."""
    group = state.groups.get(name)
    chosen = group and group.choose(state.events if event is None else event, without)
    if chosen:
        session, subscription = chosen
        delivery = _delivery(message, [subscription])
        delivery.group = name
        hand_over(state, session, delivery)


def hand_over(state: State, session: Session, delivery: Delivery) -> None:
    """Gives a message to a session. One that is too full will be ended."""
    state.counts.messages_out += 1
    session.deliver(delivery, state.now)
    if session.link is not None:
        state.dirty[session.link] = None
    if session.overflowed:
        session.overflowed = False
        state.full.append(session)
