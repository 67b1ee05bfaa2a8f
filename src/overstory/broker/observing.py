"""What a broker tells whoever observes the network: its clients, their subscriptions with their flows, and a sample of
what its own clients publish."""

from collections.abc import Iterator
from typing import Any

import msgspec

from overstory.broker.sampling import Sample
from overstory.broker.server import Server
from overstory.broker.shared import Group
from overstory.errors import UsageError
from overstory.routing.messages import LATE


class Client(msgspec.Struct, frozen=True, array_like=True):
    """A client whose session is here; a shared group counts as one, at the broker that subscribes for it."""

    number: int
    name: str
    connected: bool


class Subscribed(msgspec.Struct, frozen=True, array_like=True):
    """A subscription of a client here."""

    number: int
    client: int
    filter: str
    no_local: bool
    flows: list[int]  # of the plan that is in use; -1 is the late flow


class Observed(msgspec.Struct, frozen=True):
    """A broker's clients at one moment."""

    broker: int
    epoch: int  # of the plan that is in use; -1 if there is none
    incarnation: int
    types: dict[str, str]
    clients: list[Client]
    subscriptions: list[Subscribed]


class Late(msgspec.Struct, frozen=True):
    """A broker's subscriptions at one moment: of those that are not late only the numbers."""

    broker: int
    epoch: int  # of the plan that is in use; -1 if there is none
    numbers: list[int]  # of all subscriptions
    subscriptions: list[Subscribed]  # those that are in no flow of the plan


def observed(server: Server) -> Observed:
    """The clients of a broker, and what they want."""
    state = server.state
    clients = {session.number: (session.client_id, session.link is not None) for session in state.sessions.values()}
    found: list[Subscribed] = []
    for number, made, flows in _wanted(server):
        if isinstance(made.holder, Group):
            clients.setdefault(made.holder.number, (f"$share/{made.holder.name.partition(chr(0))[0]}", True))
        found.append(_subscribed(number, made, flows))
    return Observed(
        state.config.number,
        _epoch(server),
        state.router.state.incarnation,
        state.config.types,
        [Client(number, *rest) for number, rest in sorted(clients.items())],
        sorted(found, key=lambda one: one.number),
    )


def late(server: Server) -> Late:
    """The subscriptions of a broker's clients that have no flow of the plan yet, and the numbers of all."""
    numbers: list[int] = []
    found: list[Subscribed] = []
    for number, made, flows in _wanted(server):
        numbers.append(number)
        if all(flow == LATE for flow in flows):
            found.append(_subscribed(number, made, flows))
    return Late(server.state.config.number, _epoch(server), sorted(numbers), sorted(found, key=lambda one: one.number))


def _wanted(server: Server) -> Iterator[tuple[int, Any, list[int]]]:
    """The subscriptions whose host this broker is: number, what was asked for, and flows of the plan in use."""
    state = server.state
    active, homes = state.router.state.active, state.router.state.homes
    for number, made in state.subscriptions.items():
        home = homes.get(number)
        if home is not None and not state.is_elsewhere(number):
            yield number, made, sorted(flow for epoch, flow in home.joined if epoch == active)


def _subscribed(number: int, made: Any, flows: list[int]) -> Subscribed:
    return Subscribed(number, made.holder.number, str(made.filter), made.asked.no_local, flows)


def _epoch(server: Server) -> int:
    active = server.state.router.state.active
    return -1 if active is None else active


def sample(server: Server, after: int) -> Sample:
    """The packets that were taken behind a number."""
    state = server.state
    missed, taken = state.sampling.since(after)
    number, incarnation = state.config.number, state.router.state.incarnation
    return Sample(number, incarnation, state.sampling.rate, state.counts.messages_in, missed, taken)


def set_rate(server: Server, text: str) -> None:
    """Samples with this probability from now on. Raises a ``UsageError`` if it is none."""
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise UsageError(f"a sampling rate is a share, from 0 to 1, not '{text}'")
    server.state.sampling.set_rate(rate)
