"""overstory trace: publish one event, and see its way through a running network."""

import argparse
import asyncio
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.tree import Tree

from overstory.broker.traces import TRACE, Hop
from overstory.cli.output import print_json
from overstory.cli.pub import attributes_in
from overstory.cli.watching import Listening, read_network
from overstory.errors import DisconnectedError, UsageError
from overstory.lab.live import HOST, fetch_hops


def add_to(commands: Any) -> None:
    command = commands.add_parser("trace", help="publish one event, and see its way through a network")
    command.add_argument("folder", type=Path, metavar="FOLDER", help="the one that was given to 'overstory up'")
    command.add_argument("topic", metavar="TOPIC", help="to publish to")
    command.add_argument("--attribute", action="append", default=[], metavar="NAME=VALUE", help="may be repeated")
    command.add_argument("--at", type=int, metavar="BROKER", help="where it is published (default: the first broker)")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    command.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    places = {place.broker: place for place in read_network(arguments.folder)}
    broker = min(places) if arguments.at is None else arguments.at
    if broker not in places:
        raise UsageError(f"the network has no broker {broker}; it has {', '.join(map(str, sorted(places)))}")
    name = secrets.token_hex(6)
    attributes = {**attributes_in(arguments.attribute), TRACE: name}
    asyncio.run(_publish(places[broker], arguments.topic, attributes))
    hops = [hop for place in places.values() for hop in fetch_hops(HOST, place.monitor, name)]
    if not hops:
        raise DisconnectedError(f"broker {broker} says nothing of the event; does its monitor still run?")
    if arguments.json:
        print_json({"hops": msgspec.to_builtins(hops)})
    else:
        Console().print(tree_of(hops))


async def _publish(place: Listening, topic: str, attributes: dict[str, Any]) -> None:
    """Publishes with QoS 2: when that is acknowledged, the event has been everywhere."""
    from overstory.client import Event, connect

    async with connect(f"mqtt://{HOST}:{place.clients}") as bus:
        await bus.publish(Event(topic, attributes, b""), qos=2)


def tree_of(hops: Iterable[Hop]) -> Tree:
    """The hops as a tree, from the broker where the event was published."""
    by_origin: dict[int | None, list[Hop]] = {}
    for hop in hops:
        by_origin.setdefault(hop.origin, []).append(hop)
    (first,) = by_origin[None]
    tree = Tree(_about(first, "published"))
    _grow(tree, first, by_origin, {first.broker})
    return tree


def _grow(tree: Tree, hop: Hop, by_origin: dict[int | None, list[Hop]], seen: set[int]) -> None:
    for step in hop.steps:
        flows = ", ".join(map(str, step.flows))
        header = f", {step.header_bytes} bytes of header" if step.header_bytes else ""
        found = [one for one in by_origin.get(hop.broker, []) if one.broker == step.peer]
        if not found:
            tree.add(f"broker {step.peer}: no word of it (flow {flows}{header})")
        for one in found[:1]:
            _grow(tree.add(_about(one, f"in flow {flows}{header}")), one, by_origin, seen | {one.broker})
    for peer, why in hop.stopped.items():
        tree.add(f"[dim]not to broker {peer}: {why}[/dim]")


def _about(hop: Hop, how: str) -> str:
    clients = f", to {escape(', '.join(hop.clients))}" if hop.clients else ""
    some = "1 subscription" if len(hop.matched) == 1 else f"{len(hop.matched)} subscriptions"
    matched = f"matches {some}{clients}" if hop.matched else "nobody here wants it"
    return f"broker {hop.broker}, {how}: {matched}"
