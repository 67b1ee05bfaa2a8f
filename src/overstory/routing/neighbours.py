"""What follows from a neighbour's message: one function for each kind of message.

``check`` comes first, and refuses an impossible message before anything changes.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from overstory.errors import UnknownTreeError, VersionError
from overstory.filters import Filter
from overstory.routing.flow import Flow, Orders
from overstory.routing.messages import (
    LATE,
    Advertise,
    Ask,
    Begin,
    Compare,
    Differ,
    Echo,
    Entered,
    Flush,
    Gate,
    Key,
    LinkState,
    Listed,
    Marker,
    Message,
    Missing,
    Output,
    Packed,
    Probe,
    Reach,
    Reached,
    Renew,
    Resynchronise,
    Retired,
    Send,
    Settled,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from overstory.routing.outlet import Order
from overstory.routing.state import State
from overstory.routing.summaries import SteeredFlow

OfFlow: TypeAlias = (
    Advertise | Unadvertise | Gate | Subscribe | Unsubscribe | Renew | Differ | Compare | Ask | Listed | Missing
)


def check(state: State, peer: int, message: Message) -> None:
    """Raises a ``RoutingError`` if the neighbour cannot have sent this message. Nothing has changed then."""
    if isinstance(message, (Packed, Retired, LinkState)) or message.epoch not in state.epochs:
        return
    flows = state.epochs[message.epoch].flows
    if isinstance(message, (Begin, Resynchronise)):
        return
    number = LATE if isinstance(message, Entered) else message.flow
    if number not in flows:
        raise UnknownTreeError(f"epoch {message.epoch} has no flow {number} at broker {state.broker}")
    if peer not in flows[number].share.neighbours:
        raise UnknownTreeError(f"broker {peer} is no neighbour of {state.broker} in the tree of flow {number}")
    if isinstance(message, Subscribe):
        if isinstance(flows[number], SteeredFlow) and message.host not in state.epochs[message.epoch]:
            raise UnknownTreeError(f"a summary in flow {number} names broker {message.host}, which is not known")
        flows[number].knows_subscription(peer, message.key, message.filter)
    elif isinstance(message, Advertise):
        flows[number].knows_advertisement(message.key, message.filter)


def check_together(packed: Packed) -> None:
    """Raises a ``VersionError`` if two parts of a packed message contradict each other."""
    said: dict[tuple[int, int, Key], Filter] = {}
    for part in packed.messages:
        if (
            isinstance(part, Subscribe)
            and said.setdefault((part.epoch, part.flow, part.key), part.filter) != part.filter
        ):
            raise VersionError(f"subscription {part.key[0]} wants two things as version {part.key[1]} in one message")


def advertised(state: State, hop: int, message: Advertise) -> list[Output]:
    """An advertisement floods the flow's tree, and subscriptions that meet it follow it back to the hop."""
    flow = _flow(state, message)
    if flow.knows_advertisement(message.key, message.filter):
        return []
    flow.advertise(hop, message.key, message.filter, state.now)
    return state.to_those_up([Send(peer, message) for peer in sorted(flow.outlets) if peer != hop])


def unadvertised(state: State, hop: int, message: Unadvertise) -> list[Output]:
    """An unadvertisement floods the flow's tree, and subscriptions that meet nothing else are withdrawn at the hop."""
    flow = _flow(state, message)
    known = flow.advertisements.get(message.key[0])
    flow.unadvertise(message.key, state.now, message.withdrawn)
    if known is None or known.version > message.key[1]:
        return []
    return state.to_those_up([Send(peer, message) for peer in sorted(flow.outlets) if peer != hop])


def gated(state: State, peer: int, message: Gate) -> list[Output]:
    """A neighbour opens or shuts its gate. This may change the gates from here to other neighbours, who are told."""
    flow = _flow(state, message)
    flow.gate(peer, message.is_open)
    return state.gates(message.epoch, flow)


def subscribed(state: State, peer: int, message: Subscribe) -> list[Output]:
    """A neighbour's subscription goes on. An older version that a client has made here stays until it is unsubscribed;
    a late one that came with a plan, and that no client has made here, ends."""
    flow = _flow(state, message)
    if flow.knows_subscription(peer, message.key, message.filter):
        return []
    void: Orders = []
    if message.key in flow.void[peer]:
        if flow.revives(peer, message.key, message.filter, state.now):
            return []
        void = flow.unsubscribe(peer, message.key, state.now, None, withdrawn=True)
    orders = void + flow.subscribe(peer, message.key, message.filter, state.now, host=message.host)
    if message.triggered:
        orders = [(other, order._replace(triggered=order.filter is not None)) for other, order in orders]
    outputs = state.messages(message.epoch, message.flow, orders)
    outputs += state.join_now(message.key[0])
    home = state.homes.get(message.key[0])
    is_idle = home is not None and home.planned and all(joined == LATE for _, joined in home.joined)
    if home is not None and is_idle and home.version < message.key[1]:
        del state.homes[message.key[0]]
        state.end(message.key[0], message.key[1] - 1)
        outputs += state.leave_all(message.key[0], home)
    return outputs


def unsubscribed(state: State, peer: int, message: Unsubscribe) -> list[Output]:
    """A neighbour's unsubscription goes on as far as the policy says."""
    orders = _flow(state, message).unsubscribe(peer, message.key, state.now, message.prunes, message.withdrawn)
    return state.messages(message.epoch, message.flow, orders)


def renewed(state: State, peer: int, message: Renew) -> list[Output]:
    """A neighbour renews all that it stands by. If that is not what is known here, the two have to compare."""
    flow = _flow(state, message)
    if flow.is_same(peer, message.subscriptions, message.advertisements, state.now):
        return []
    return [Send(peer, Differ(message.epoch, message.flow))]


def differed(state: State, peer: int, message: Differ) -> list[Output]:
    """A neighbour knows something else than what it was told: the two compare."""
    return [state.comparison(message.epoch, _flow(state, message), peer)] if peer in state.up else []


def compared(state: State, peer: int, message: Compare) -> list[Output]:
    """A neighbour tells the sums of what it stands by. Buckets that differ are asked for; the others are renewed."""
    flow = _flow(state, message)
    subscriptions = flow.heard[peer].compare(message.subscriptions, state.now)
    flow.compares(peer, bool(subscriptions))
    advertisements = flow.advertised_from(peer).compare(message.advertisements, state.now)
    return [Send(peer, Ask(message.epoch, message.flow, message.round, subscriptions, advertisements))]


def asked(state: State, peer: int, message: Ask) -> list[Output]:
    """A neighbour asks for the keys of some buckets, or for none: then it has all that it has to have."""
    flow = _flow(state, message)
    tasks = flow.outlets[peer].tasks
    if message.round != tasks.round or peer not in state.up:
        return []
    tasks.asked.extend((bucket, True) for bucket in message.advertisements)
    tasks.asked.extend((bucket, False) for bucket in message.subscriptions)
    if tasks.asked:
        flow.working.add(message.flow)
        return []
    tasks.is_agreed = True
    return state.let_go(message.epoch, flow, peer)


def listed(state: State, peer: int, message: Listed) -> list[Output]:
    """A neighbour lists what it stands by in one bucket. What is unknown here is asked for."""
    flow, keys = _flow(state, message), frozenset(message.keys)
    outputs: list[Output] = []
    missing: tuple[Key, ...] = ()
    unknown: tuple[Key, ...] = ()
    if message.advertisements:
        left_out, unknown = flow.listed_advertisements(peer, message.bucket, keys, state.now)
        outputs += ran_out(state, peer, message.epoch, message.flow, left_out)
    else:
        missing = flow.listed(peer, message.bucket, keys, state.now)
    if message.is_last:
        flow.listed_all(peer)
    if missing or unknown:
        outputs.append(Send(peer, Missing(message.epoch, message.flow, missing, unknown)))
    if message.is_last:
        outputs.append(Send(peer, Ask(message.epoch, message.flow, message.round)))
    return outputs


def ran_out(state: State, hop: int, epoch: int, flow: int, advertisements: Iterable[Key]) -> list[Output]:
    """Withdraws advertisements that a hop no longer stands by."""
    return [
        output
        for key in advertisements
        for output in unadvertised(state, hop, Unadvertise(epoch, flow, key, withdrawn=True))
    ]


def missed(state: State, peer: int, message: Missing) -> list[Output]:
    """A neighbour does not know subscriptions or advertisements that were listed: it is told of them again.

    It waits for each subscription before it lets go of others, so it is also told of those that have gone meanwhile.
    """
    flow = _flow(state, message)
    outlet = flow.outlets[peer]
    again = [
        Send(peer, Advertise(message.epoch, message.flow, key, flow.advertisements[key[0]].filter))
        for key in message.advertisements
        if flow.stands_by(peer, key)
    ]
    orders = [
        (peer, Order(key, outlet.filters[key]) if key in outlet.sent else Order(key, None, withdrawn=True))
        for key in message.keys
    ]
    return state.to_those_up(again) + state.messages(message.epoch, message.flow, orders)


def settled(state: State, peer: int, message: Settled) -> list[Output]:
    """A wave of settling came from a neighbour. It goes on, and this broker may hold the epoch now."""
    epoch = state.epochs[message.epoch]
    before = epoch.is_held
    epoch.flows[message.flow].settled(peer)
    outputs = state.to_those_up(epoch.settled(peer, message))
    return outputs if before else outputs + state.held(message.epoch)


def marked(state: State, peer: int, message: Marker) -> list[Output]:
    """A marker came from a neighbour. It goes on, and the epoch may have drained here now."""
    epoch = state.epochs[message.epoch]
    before = epoch.has_drained
    outputs = state.to_those_up(epoch.marked(peer, message))
    return outputs if before else outputs + state.drained(message.epoch)


def entered(state: State, peer: int, message: Entered) -> list[Output]:
    """No event enters steered flows of the epoch at some broker any more. The epoch may have drained here now."""
    epoch = state.epochs[message.epoch]
    before = epoch.has_drained
    outputs = state.to_those_up(epoch.entry_ended(peer, message, state.now))
    return outputs if before else outputs + state.drained(message.epoch)


def left_epochs(state: State, peer: int, message: Retired) -> list[Output]:
    """A neighbour has let go of epochs that are still here: these need not wait for its markers to drain."""
    state.retirements[peer] = message
    outputs: list[Output] = []
    for number, epoch in state.epochs.items():
        if message.has_left(number):
            before = epoch.has_drained
            outputs += state.to_those_up(epoch.left_by(peer, state.now))
            outputs += [] if before else state.drained(number)
    return outputs


def voided(state: State, peer: int) -> list[Output]:
    """A neighbour has restarted: the messages of its earlier incarnations, in all epochs, are void."""
    state.retirements.pop(peer, None)
    outputs: list[Output] = []
    for number, epoch in state.epochs.items():
        for flow in epoch.flows.values():
            if peer in flow.share.neighbours:
                outputs += ran_out(state, peer, number, flow.share.number, list(flow.advertised_from(peer).keys))
                flow.restarted(peer)
                outputs += state.gates(number, flow)
        epoch.ended.forget(lambda ended: ended[1] == peer)
    return outputs


def _flow(state: State, message: OfFlow) -> Flow:
    return state.epochs[message.epoch].flows[message.flow]


HANDLERS: dict[type, Callable[[State, int, Any], list[Output]]] = {
    Advertise: advertised,
    Unadvertise: unadvertised,
    Gate: gated,
    Subscribe: subscribed,
    Unsubscribe: unsubscribed,
    Renew: renewed,
    Differ: differed,
    Compare: compared,
    Ask: asked,
    Listed: listed,
    Missing: missed,
    Settled: settled,
    Marker: marked,
    Entered: entered,
}
ANSWERS = (Ask, Differ, Missing, Reached)  # to what this broker has told; they say nothing of the sender's own
SERVING = (Reach, Reached)  # messages that ``routing.service`` handles
MOVING = (Flush, Probe, Echo)  # messages that ``routing.moves`` handles
