"""What follows from a neighbour's message: one function for each kind of message.

``check`` comes first, and refuses an impossible message before anything changes.
"""

from collections.abc import Callable, Iterable
from typing import Any

from overstory.errors import UnknownTreeError, VersionError
from overstory.filters import Filter
from overstory.routing.flow import Flow
from overstory.routing.messages import (
    LATE,
    Advertise,
    Begin,
    Echo,
    Entered,
    Flush,
    Gate,
    Key,
    LinkState,
    Marker,
    Message,
    Missing,
    Output,
    Packed,
    Probe,
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
        if number in state.epochs[message.epoch].steered.place_of and message.host not in state.epochs[message.epoch]:
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
    outputs: list[Output] = [Send(peer, message) for peer in sorted(flow.outlets) if peer != hop]
    orders = flow.advertise(hop, message.key, message.filter, state.now)
    return outputs + state.messages(message.epoch, message.flow, orders)


def unadvertised(state: State, hop: int, message: Unadvertise) -> list[Output]:
    """An unadvertisement floods the flow's tree, and subscriptions that meet nothing else are withdrawn at the hop."""
    flow = _flow(state, message)
    known = flow.advertisements.get(message.key[0])
    orders = flow.unadvertise(message.key, state.now, message.withdrawn)
    if known is None or known.version > message.key[1]:
        return []
    outputs: list[Output] = [Send(peer, message) for peer in sorted(flow.outlets) if peer != hop]
    return outputs + state.messages(message.epoch, message.flow, orders)


def gated(state: State, peer: int, message: Gate) -> list[Output]:
    """A neighbour opens or shuts its gate. This may change the gates from here to other neighbours, who are told."""
    flow = _flow(state, message)
    orders = flow.gate(peer, message.is_open)
    return [*state.messages(message.epoch, message.flow, orders), *state.gates(message.epoch, flow)]


def subscribed(state: State, peer: int, message: Subscribe) -> list[Output]:
    """A neighbour's subscription goes on. If it is a newer version of one that a client has here, that one ends."""
    flow = _flow(state, message)
    if flow.knows_subscription(peer, message.key, message.filter):
        return []
    orders = flow.subscribe(peer, message.key, message.filter, state.now, host=message.host)
    if message.triggered:
        orders = [(other, order._replace(triggered=order.filter is not None)) for other, order in orders]
    outputs = state.messages(message.epoch, message.flow, orders)
    home = state.homes.get(message.key[0])
    if home is not None and home.version < message.key[1]:  # its client has subscribed again elsewhere
        del state.homes[message.key[0]]
        state.end(message.key[0], message.key[1] - 1)
        outputs += state.leave_all(message.key[0], home)
    return outputs


def unsubscribed(state: State, peer: int, message: Unsubscribe) -> list[Output]:
    """A neighbour's unsubscription goes on as far as the policy says."""
    orders = _flow(state, message).unsubscribe(peer, message.key, state.now, message.prunes, message.withdrawn)
    return state.messages(message.epoch, message.flow, orders)


def renewed(state: State, peer: int, message: Renew) -> list[Output]:
    """A neighbour renews what it stands by. What it leaves out is withdrawn, and what is unknown here is asked for."""
    flow = _flow(state, message)
    left_out, unknown = flow.renew_advertisements(peer, message.advertisements, state.now)
    outputs = ran_out(state, peer, message.epoch, message.flow, left_out)
    orders, missing = flow.renew(peer, message.keys, state.now)
    outputs += state.messages(message.epoch, message.flow, orders)
    if missing or unknown:
        outputs.append(Send(peer, Missing(message.epoch, message.flow, missing, unknown)))
    return outputs


def ran_out(state: State, hop: int, epoch: int, flow: int, advertisements: Iterable[Key]) -> list[Output]:
    """Withdraws advertisements that a hop no longer stands by."""
    return [
        output
        for key in advertisements
        for output in unadvertised(state, hop, Unadvertise(epoch, flow, key, withdrawn=True))
    ]


def missed(state: State, peer: int, message: Missing) -> list[Output]:
    """A neighbour does not know subscriptions or advertisements that were renewed: it is told of them again."""
    flow = _flow(state, message)
    outlet = flow.outlets.get(peer)
    if outlet is None:
        return []
    known = flow.renewed_advertisements(peer) & set(message.advertisements)
    again: list[Output] = [
        Send(peer, Advertise(message.epoch, message.flow, key, flow.advertisements[key[0]].filter))
        for key in sorted(known)
    ]
    orders = [(peer, Order(key, outlet.filters[key])) for key in message.keys if key in outlet.sent]
    return again + state.messages(message.epoch, message.flow, orders)


def settled(state: State, peer: int, message: Settled) -> list[Output]:
    """A wave of settling came from a neighbour. It goes on, and this broker may hold the epoch now."""
    epoch = state.epochs[message.epoch]
    before = epoch.is_held
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


def asked_again(state: State, peer: int, message: Resynchronise) -> list[Output]:
    """A neighbour asks for everything about an epoch. If the neighbour is down, it is told when it comes up."""
    return state.introduced(message.epoch, peer, again=True) if peer in state.up else []


def voided(state: State, peer: int) -> list[Output]:
    """A neighbour has restarted: the messages of its earlier incarnations, in all epochs, are void."""
    state.retirements.pop(peer, None)
    outputs: list[Output] = []
    for number, epoch in state.epochs.items():
        for flow in epoch.flows.values():
            if peer in flow.share.neighbours:
                outputs += ran_out(state, peer, number, flow.share.number, flow.advertised_by(peer))
                outputs += state.messages(number, flow.share.number, flow.void(peer, state.now))
                outputs += state.gates(number, flow)
        epoch.ended.forget(lambda ended: ended[1] == peer)
    return outputs


def _flow(state: State, message: Advertise | Unadvertise | Gate | Subscribe | Unsubscribe | Renew | Missing) -> Flow:
    return state.epochs[message.epoch].flows[message.flow]


HANDLERS: dict[type, Callable[[State, int, Any], list[Output]]] = {
    Advertise: advertised,
    Unadvertise: unadvertised,
    Gate: gated,
    Subscribe: subscribed,
    Unsubscribe: unsubscribed,
    Renew: renewed,
    Missing: missed,
    Settled: settled,
    Marker: marked,
    Entered: entered,
    Resynchronise: asked_again,
}
MOVING = (Flush, Probe, Echo)  # messages that ``routing.moves`` handles
