"""What a broker says of its plans to whoever installs them: values that travel as JSON."""

from typing import Any

import msgspec

from overstory.broker.facts import AT


class Address(msgspec.Struct, frozen=True):
    """Where a broker is."""

    admin: str  # the URL of its HTTP endpoint
    clients: str  # address and port for MQTT clients


class EpochStanding(msgspec.Struct, frozen=True):
    """One epoch at one broker."""

    epoch: int
    plan: str  # the fingerprint of its tables
    held: bool
    drained: bool
    waiting: int  # frames with events of it that neighbours have not handled, or not said to be safe
    frames: int  # that have come
    left: int = 0  # subscriptions that are still to be entered or to join it


class Standing(msgspec.Struct, frozen=True):
    """A broker at one moment, as a coordinator needs to know it."""

    broker: int
    network: str  # the fingerprint of the brokers and links
    active: int  # the epoch in use; 0: none yet
    epochs: list[EpochStanding]
    latest: int  # the highest epoch that was ever here
    fence: int  # of the coordinator that was heard last
    leader: str  # its name; empty if nobody leads
    heard: float  # seconds since it was heard
    paused: bool
    brokers: dict[int, Address]  # where the brokers of the plan in use are, as far as this one knows
    lost: list[int]  # brokers that cannot be reached from here
    clients: int
    subscriptions: int
    incarnation: int = 0
    moving: int = 0  # clients that were asked to move, and are still here
    stayed: int = 0  # clients that were asked to move, and came back
    moved: int = 0  # clients that came here since the plan is in use, as it wants
    outside: dict[int, Address] = {}  # where brokers are that the plan in use is without


class Subscribed(msgspec.Struct, frozen=True):
    """A subscription at a broker."""

    id: int
    client: int
    name: str  # of the client; empty if it is not connected, or is a shared group
    filter: str
    no_local: bool
    version: int
    made: bool  # by a client; else it came with the plan
    late: bool  # it is in the flow for late subscriptions


class Where(msgspec.Struct, frozen=True):
    """Where a client is, and where the plan wants it to be."""

    client: str
    broker: int | None  # that has its session, as far as is known
    home: int | None  # that the plan attaches it to
    address: str  # of the home, for clients


def standing_of(fabric: Any, now: float) -> Standing:
    """A broker among its neighbours at this moment; ``now`` is the time by which coordinators are heard."""
    known = addresses_of(fabric)
    inside = {*fabric.place.next_hops, fabric.state.config.number}
    state, epochs, moving, lead = fabric.state, fabric.epochs, fabric.moving, fabric.lead
    return Standing(
        state.config.number,
        fabric.place.network,
        epochs.active,
        [_epoch(fabric, number) for number in epochs.installed],
        max([state.router.state.retired, *epochs.installed]),
        lead.fence,
        lead.leader,
        min(now - lead.heard, 1e9),
        lead.paused,
        {broker: address for broker, address in known.items() if broker in inside},
        sorted(fabric.facts.lost),
        len(state.links),
        len(state.subscriptions),
        fabric.place.incarnation,
        moving.asked,
        moving.stayed,
        moving.came,
        {broker: address for broker, address in known.items() if broker not in inside},
    )


def _epoch(fabric: Any, number: int) -> EpochStanding:
    epochs = fabric.epochs
    came = epochs.came.get(number)
    return EpochStanding(
        number,
        fabric.first_plan if came is None else came.package.plan,
        number in epochs.held,
        number in epochs.drained,
        sum(
            neighbour.waiting_of(number)
            for peer, neighbour in fabric.neighbours.items()
            if peer in fabric.place.next_hops
        ),
        epochs.frames.get(number, 0),
        _left(fabric.state.router.state, number),
    )


def _left(state: Any, number: int) -> int:
    """How many subscriptions are still to be entered or to join before a broker can hold an epoch."""
    return state.coming[number].left if number in state.coming else len(state.epochs[number].joining or ())


def addresses_of(fabric: Any) -> dict[int, Address]:
    """Where all brokers are, as far as this one knows."""
    return {broker: msgspec.json.decode(value, type=Address) for broker, _, value in fabric.facts.of(AT)}
