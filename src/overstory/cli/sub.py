"""overstory sub: print the events that match a filter."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from overstory.cli.output import print_json
from overstory.cli.pub import URL
from overstory.model.values import Untyped

if TYPE_CHECKING:
    from overstory.client import Event


def add_to(commands: Any) -> None:
    sub = commands.add_parser("sub", help="print the events that match a filter, from any MQTT 5 broker")
    sub.add_argument("filter", metavar="FILTER", nargs="?", help='an expression, such as "price > 3"; default: all')
    sub.add_argument("--topics", default="#", metavar="TOPICS", help="a topic filter (default: #)")
    sub.add_argument("--url", default=URL, metavar="URL", help=f"of the broker (default: {URL})")
    sub.add_argument("--count", type=int, metavar="N", help="end after so many events")
    sub.add_argument("--qos", type=int, choices=(0, 1, 2), default=1, help="of the subscription (default: 1)")
    sub.add_argument("--json", action="store_true", help="print one JSON object for each event")
    sub.set_defaults(run=run_sub)


def run_sub(arguments: argparse.Namespace) -> None:
    from overstory.client import connect_sync

    with connect_sync(arguments.url) as bus:
        events = bus.subscribe(arguments.filter, topics=arguments.topics, qos=arguments.qos)
        for number, event in enumerate(events, 1):
            show(event, arguments.json)
            if number == arguments.count:
                return


def show(event: "Event", as_json: bool) -> None:
    """Prints one event that the subscription got."""
    attributes = {name: _plain(value) for name, value in event.attributes.items()}
    payload = event.payload.decode(errors="replace")
    if as_json:
        print_json({"topic": event.topic, "attributes": attributes, "payload": payload})
    else:
        words = [event.topic, *(f"{name}={value}" for name, value in attributes.items()), payload]
        print(" ".join(word for word in words if word))
    sys.stdout.flush()


def _plain(value: object) -> object:
    return value.text if isinstance(value, Untyped) else value
