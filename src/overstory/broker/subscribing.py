"""SUBSCRIBE and UNSUBSCRIBE: what a client asks for becomes a filter in the router."""

from collections.abc import Iterator

import msgspec

from overstory.broker import publishing
from overstory.broker.link import Link
from overstory.broker.session import Delivery, Session, Subscription
from overstory.broker.shared import Group, forget_group, group_name
from overstory.broker.state import State
from overstory.errors import FilterError, ProtocolError, RoutingError
from overstory.filters import Filter
from overstory.kernels.nothing import NONE
from overstory.wire.attributes import attributes_of
from overstory.wire.packets import Asked, Code, Properties, SubAck, Subscribe, UnsubAck, Unsubscribe
from overstory.wire.topics import WHERE, Wanted, filter_of, problem_of, read_filter

MOST_REASON = 4096  # characters
NOBODY = NONE
ALWAYS, IF_NEW = 0, 1  # retain handling


class Wish(msgspec.Struct, frozen=True):
    """What one filter of a SUBSCRIBE wants."""

    asked: Asked
    where: str | None
    identifier: int


def subscribe(state: State, link: Link, packet: Subscribe) -> Iterator[None]:
    """Subscribes to one filter after the other, answers, and sends the retained messages."""
    session = link.session
    assert session is not None
    where = next((value for name, value in packet.properties.get("user_properties", ()) if name == WHERE), None)
    identifier = packet.properties.get("subscription_ids", (0,))[0]
    codes: list[int] = []
    problems: list[str] = []
    new: list[tuple[Subscription, Wanted, bool]] = []
    for asked in packet.asked:
        try:
            new.append(add(state, session, Wish(asked, where, identifier)))
            codes.append(asked.qos)
        except (FilterError, ProtocolError, RoutingError) as error:
            codes.append(error.code if isinstance(error, ProtocolError) else Code.FILTER_INVALID)
            problems.append(problem_of(error) if not isinstance(error, RoutingError) else str(error))
        yield
    properties: Properties = {"reason_str": "\n".join(problems)[:MOST_REASON]} if problems else {}
    if not link.send(SubAck(packet.packet_id, tuple(codes), properties)):
        link.send(SubAck(packet.packet_id, tuple(codes)))
    yield
    for subscription, wanted, is_new in new:
        handling = subscription.asked.retain_handling
        if wanted.group is None and (handling == ALWAYS or (handling == IF_NEW and is_new)):
            yield from _send_retained(state, session, subscription, wanted)


def add(state: State, session: Session, wish: Wish) -> tuple[Subscription, Wanted, bool]:
    """Adds or replaces one subscription. Returns it, what it wants, and whether it is new."""
    name = wish.asked.filter
    wanted = read_filter(name, wish.where)
    known = session.subscriptions.get(name)
    if known is None and state.limits.subscriptions and len(session.subscriptions) >= state.limits.subscriptions:
        raise ProtocolError(Code.QUOTA_EXCEEDED, f"a session has at most {state.limits.subscriptions} subscriptions")
    if wanted.group is not None and wish.asked.no_local:
        raise ProtocolError(Code.PROTOCOL_ERROR, "a shared subscription may not ask for no-local")
    if wanted.group is not None and known is not None and known.where != wish.where:
        remove(state, session, name)  # another expression is another group
        known = None
    same = known is not None and known.where == wish.where
    filter_ = known.filter if same and known is not None else filter_of(wanted)
    number = _new_number(state, session, wanted, filter_, wish) if known is None else known.number
    version = 0 if known is None else known.version
    if known is not None and (not same or known.asked.no_local != wish.asked.no_local):
        version += 1 + session.copies
    group = None if wanted.group is None else group_name(wanted)
    made = Subscription(session, number, version, wish.asked, filter_, wish.identifier, group, wish.where)
    enter(state, session, made)
    if state.changed is not None and known is not None:
        state.changed(number)
    if session.is_kept:
        note(state, session, made)
    return made, wanted, known is None


def _new_number(state: State, session: Session, wanted: Wanted, filter_: Filter, wish: Wish) -> int:
    """The number of a new subscription: the plan's, if the plan was made for this one and nobody has taken it yet."""
    if wanted.group is None:
        planned = state.plan_subscriptions.get(session.number, {})
        for number in planned.get((filter_, wish.asked.no_local), ()):
            if state.is_free(number):
                return number
    return state.new_number()


def restore(state: State, session: Session, wish: Wish, known: tuple[int, int]) -> None:
    """Makes a subscription that was kept again, under the number and version that it had."""
    wanted = read_filter(wish.asked.filter, wish.where)
    group = None if wanted.group is None else group_name(wanted)
    enter(
        state, session, Subscription(session, *known, wish.asked, filter_of(wanted), wish.identifier, group, wish.where)
    )


def enter(state: State, session: Session, made: Subscription) -> None:
    """Gives a subscription to the router, for its client or for its group."""
    if made.group is not None:
        _join(state, session, made.group, made)
    else:
        if state.is_free(made.number):
            state.take(made.number, made.filter)
            if state.changed is not None:
                state.changed(made.number)
        outputs = state.router.subscribe(session.number, made.number, made.version, made.filter, made.asked.no_local)
        state.subscriptions[made.number] = made
        if outputs and state.fabric is not None:
            state.unserved.add(made.number)
        state.act(outputs)
    session.subscriptions[made.asked.filter] = made


def note(state: State, session: Session, made: Subscription) -> None:
    """Notes a subscription in the journal."""
    options = msgspec.msgpack.encode((made.asked, made.identifier, made.where, made.version, session.copies))
    state.journal.note("subscribe", session.number, made.number, options)


def _join(state: State, session: Session, name: str, made: Subscription) -> None:
    """Joins a group, which is made if it is new."""
    group = state.groups.get(name)
    if group is None:
        shared = msgspec.structs.replace(made, number=NOBODY, version=0)
        group = shared.holder = state.groups[name] = Group(name, state.new_number(), NOBODY, shared)
        if state.is_alone:
            open_group(state, group, state.new_number(), 0)
    group.members[session.number] = (session, made)
    if state.fabric is not None:
        state.fabric.groups.joined(name, session)


def open_group(state: State, group: Group, number: int, version: int) -> None:
    """Subscribes for a group, or, under a higher version, once more."""
    shared = group.subscription
    shared.number, shared.version = number, version
    if group.place == NOBODY:
        group.place = state.slots.take(group.number, group)
    state.subscriptions[number] = shared
    state.act(state.router.subscribe(group.number, number, version, shared.filter))
    if state.changed is not None:
        state.changed(number)


def close_group(state: State, group: Group) -> None:
    """Does not subscribe for a group any more."""
    shared = group.subscription
    state.act(state.router.unsubscribe(group.number, shared.number, shared.version))
    del state.subscriptions[shared.number]
    state.slots.give(group.place)
    group.place = NOBODY


def unsubscribe(state: State, link: Link, packet: Unsubscribe) -> Iterator[None]:
    """Takes one subscription after the other back, and answers."""
    session = link.session
    assert session is not None
    codes = []
    for name in packet.filters:
        known = name in session.subscriptions
        if known:
            remove(state, session, name)
        codes.append(Code.SUCCESS if known else Code.NO_SUBSCRIPTION_EXISTED)
        yield
    link.send(UnsubAck(packet.packet_id, tuple(codes)))


def remove(state: State, session: Session, name: str) -> None:
    """Removes a subscription of a session."""
    gone = session.subscriptions.pop(name)
    if session.is_kept:
        state.journal.note("unsubscribe", gone.number)
    if gone.group is None:
        state.act(state.router.unsubscribe(session.number, gone.number, gone.version))
        if state.subscriptions.get(gone.number) is gone:  # else a newer session of the client has it
            del state.subscriptions[gone.number]
            state.unserved.discard(gone.number)
        return
    group = state.groups[gone.group]
    group.members.pop(session.number, None)
    if state.fabric is not None:
        state.fabric.groups.left(gone.group, session.number)
    elif not group.members:
        if state.is_alone:
            close_group(state, group)
        forget_group(state.groups, gone.group)


def _send_retained(state: State, session: Session, made: Subscription, wanted: Wanted) -> Iterator[None]:
    """Sends the retained messages that a subscription matches."""
    ids = (made.identifier,) if made.identifier else ()
    for message in state.retained.matching(wanted.topics, state.now):
        yield
        if wanted.expression is not None and not made.filter.matches(attributes_of(message, state.config.types)):
            continue
        if made.asked.no_local and message.publisher == session.number:
            continue
        delivery = Delivery(message, min(message.qos, made.asked.qos), True, ids)
        publishing.hand_over(state, session, delivery)
