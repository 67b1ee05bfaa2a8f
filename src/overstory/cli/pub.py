"""overstory pub: publish events to a broker."""

import argparse
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from overstory.cli.input import events_in
from overstory.errors import UsageError

if TYPE_CHECKING:
    from overstory.client import Event

URL = "mqtt://127.0.0.1:1883"


def add_to(commands: Any) -> None:
    pub = commands.add_parser("pub", help="publish events to an MQTT 5 broker")
    pub.add_argument("topic", metavar="TOPIC", help="where to publish")
    pub.add_argument("--url", default=URL, metavar="URL", help=f"of the broker (default: {URL})")
    pub.add_argument("--payload", metavar="TEXT", help="the payload (default: none)")
    pub.add_argument(
        "--attribute", action="append", default=[], metavar="NAME=VALUE", help="an attribute; may be given many times"
    )
    pub.add_argument(
        "--events", metavar="FILE", help="publish one event for each JSON object of attributes, one a line ('-': stdin)"
    )
    pub.add_argument("--qos", type=int, choices=(0, 1, 2), default=1, help="of the messages (default: 1)")
    pub.add_argument("--retain", action="store_true", help="have the broker keep it as the topic's last message")
    pub.set_defaults(run=run_pub)


def run_pub(arguments: argparse.Namespace) -> None:
    from overstory.client import connect_sync

    events = events_of(arguments)
    with connect_sync(arguments.url) as bus:
        for event in events:
            bus.publish(event, qos=arguments.qos, retain=arguments.retain)
    print(f"published {len(events):,} event{'' if len(events) == 1 else 's'} to {arguments.topic}", file=sys.stderr)


def events_of(arguments: argparse.Namespace) -> list["Event"]:
    """The events that the command line asks for."""
    from overstory.client import Event

    attributes = attributes_in(arguments.attribute)
    payload = (arguments.payload or "").encode()
    if arguments.events is None:
        return [Event(arguments.topic, attributes, payload)]
    return [Event(arguments.topic, {**attributes, **event}, payload) for event in events_in(arguments.events)]


def attributes_in(pairs: Iterable[str]) -> dict[str, Any]:
    """The attributes that were given as NAME=VALUE. One that was given several times is a list."""
    attributes: dict[str, Any] = {}
    for given in pairs:
        name, equals, value = given.partition("=")
        if not equals or not name:
            raise UsageError(f"'{given}' is no attribute; write it as NAME=VALUE")
        if name in attributes:
            before = attributes[name]
            attributes[name] = [*before, value] if isinstance(before, list) else [before, value]
        else:
            attributes[name] = value
    return attributes
