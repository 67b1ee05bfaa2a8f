"""A plan on its way to brokers: what each of them needs of it, in one piece that any of them can give to any other.

A broker reads only its own portion. The portions of the others stay bytes: a broker that was away gets the whole
package from a neighbour, and finds its own portion in it.
"""

from collections.abc import Collection, Iterator, Mapping

import msgspec

from overstory.broker.place import Place
from overstory.broker.places import Who, next_hops
from overstory.errors import LinkError
from overstory.kernels.nothing import NONE
from overstory.model.tables import TREE
from overstory.routing.messages import LATE
from overstory.routing.share import FlowShare, Foreseen, Member, Share
from overstory.wire.control import MOST, Codec, known_filter


class Portion(msgspec.Struct, frozen=True, tag=True):
    """What one broker needs of a plan, apart from what all need."""

    flows: list[FlowShare]
    members: list[Member]
    clients: list[int]  # that the plan attaches here, or that are here
    subscriptions: list[tuple[int, int, str, bool]]  # of these clients: client, id, filter, no-local
    expected: dict[int, list[int]] = {}  # subscriptions of clients that are still to come here, and their flows


class Package(msgspec.Struct, frozen=True, tag=True):
    """A plan for all brokers of a network."""

    epoch: int
    plan: str  # the fingerprint of the plan's tables
    network: str  # the fingerprint of the brokers and links that it is for
    planned: dict[int, int]  # all subscriptions that the plan serves, and their versions
    prices: list[tuple[int, int, float]]  # of links between brokers, if there are steered flows
    coalesce: bool
    late: dict[int, list[int]]  # the neighbours of each broker in the late tree
    names: dict[str, int]  # the plan's clients, by name
    homes: dict[str, int]  # where the plan wants clients to be that are elsewhere, by name
    portions: dict[int, bytes]
    source: dict[str, bytes] = {}  # the files of the plan's folder
    trees: dict[int, list[tuple[int, int]]] = {}  # the links of the flows with trees that subscriptions are foreseen in
    foreseen: bytes = b""  # subscriptions that brokers need not be told of, as a list of ``Row``


Row = tuple[int, int, int, int, str]  # a subscription in a flow: the flow, the host, id, version, filter


_CODEC: Codec[Package] = Codec([Package])
_PORTIONS: Codec[Portion] = Codec([Portion])


def encode_package(package: Package) -> bytes:
    """The bytes of a package."""
    return _CODEC.encode([package])


def decode_package(data: bytes) -> Package:
    """Decodes the bytes of one package. Raises a ``LinkError`` if it is none."""
    found = _CODEC.decode(data)
    if len(found) != 1:
        raise LinkError("a plan comes in a package of its own")
    return found[0]


def encode_portion(portion: Portion) -> bytes:
    """The bytes of one broker's portion."""
    return _PORTIONS.encode([portion])


def portion_of(package: Package, broker: int) -> Portion:
    """The portion of a broker. Raises a ``LinkError`` if the plan has none for it."""
    data = package.portions.get(broker)
    if data is None:
        raise LinkError(f"the plan is for other brokers: it has nothing for broker {broker}")
    return _PORTIONS.decode(data)[0]


def encode_rows(rows: list[Row]) -> bytes:
    """The bytes of what is foreseen."""
    return msgspec.msgpack.encode(rows) if rows else b""


class Foreseeing(Collection[Foreseen]):
    """What a package foresees, as one broker sees it. Filters are read one after the other, when they are asked for."""

    def __init__(self, package: Package, portion: Portion, broker: int) -> None:
        """Raises a ``LinkError`` if that cannot be read."""
        try:
            rows = msgspec.msgpack.decode(package.foreseen, type=list[Row]) if package.foreseen else []
        except msgspec.MsgspecError as error:
            raise LinkError(f"what a plan foresees cannot be read: {str(error).splitlines()[0]}") from None
        if any(max(row[:4]) >= MOST for row in rows):
            raise LinkError("what a plan foresees has an integer that is too large")
        late = [(u, v) for u, peers in package.late.items() for v in peers]
        steered = {flow.number for flow in portion.flows if flow.kind != TREE}
        self._hops: dict[int, dict[int, int]] = {}  # by flow and host
        for number in (flow.number for flow in portion.flows):
            links = late if number == LATE or number in steered else package.trees.get(number, [])
            self._hops[number] = {broker: NONE, **_first_hops(broker, links)}
        self._rows = [row for row in rows if row[1] in self._hops.get(row[0], ())]

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, one: object) -> bool:
        return one in list(self)

    def __iter__(self) -> Iterator[Foreseen]:
        for flow, host, id_, version, text in self._rows:
            yield Foreseen(flow, self._hops[flow][host], host, (id_, version), known_filter(text))


def _first_hops(broker: int, links: Collection[tuple[int, int]]) -> dict[int, int]:
    """The neighbour by which each other broker of a tree is reached."""
    near: dict[int, set[int]] = {}
    for u, v in links:
        near.setdefault(u, set()).add(v)
        near.setdefault(v, set()).add(u)
    found: dict[int, int] = {}
    waiting = [(peer, peer) for peer in sorted(near.get(broker, ()))]
    while waiting:
        here, first = waiting.pop()
        if here != broker and here not in found:
            found[here] = first
            waiting += [(peer, first) for peer in near[here]]
    return found


def share_of(package: Package, portion: Portion, broker: int) -> Share:
    """A broker's share of the plan, as its router installs it. Raises a ``LinkError`` if it cannot be read."""
    return Share(
        package.epoch,
        {flow.number: flow for flow in portion.flows},
        tuple(portion.members),
        package.planned,
        {(source, target): price for source, target, price in package.prices},
        package.coalesce,
        frozenset(portion.clients),
        Foreseeing(package, portion, broker),
    )


def place_in(package: Package, portion: Portion, before: Place, broker: int) -> Place:
    """A broker's place in the network under the plan. Links stay: every link of the network has its connection."""
    share = share_of(package, portion, broker)
    hops = next_hops(broker, _late_shares(package.late))
    return msgspec.structs.replace(before, share=share, next_hops=hops)


def who_in(package: Package, portion: Portion) -> Who:
    """Who is who, as far as a broker needs to know."""
    subscriptions: dict[int, list[tuple[int, str, bool]]] = {}
    for client, number, text, no_local in portion.subscriptions:
        subscriptions.setdefault(client, []).append((number, text, no_local))
    return Who(package.names, subscriptions)


def _late_shares(late: Mapping[int, list[int]]) -> dict[int, Share]:
    """Shares that have the late tree, and nothing else."""
    return {
        broker: Share(0, {LATE: FlowShare(LATE, None, frozenset(peers))})  # type: ignore[arg-type]
        for broker, peers in late.items()
    }
