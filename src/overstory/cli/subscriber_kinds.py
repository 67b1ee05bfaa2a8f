"""overstory scenario make google-groups|rss|hotspots: the workloads of subscriber assignment."""

import argparse
from collections.abc import Callable
from functools import partial

import msgspec

from overstory.cli.options import amount, whole
from overstory.lab.subscribers import BROKER_PLACES, DELAYS, KINDS, Subscribers, make_subscribers

WORDS = {
    "google-groups": "subscribers to groups of three continents, as in set #1 of the assignment paper",
    "rss": "subscribers to 50 feeds, each at ten places, as in its set #2",
    "hotspots": "rectangles around popular cells of a grid, as in its set #3",
    "broad-and-narrow": "one interest in everything for each broker, and narrow ones: greedy assignment is far off",
}
SIZES = {
    "subscribers": (whole(1, 10**8), "how many"),
    "brokers": (whole(1, 10_000), "how many, the publisher's not counted"),
    "boxes": (whole(1, 64), "rectangles of a broker's filter, at most"),
    "events": (whole(1, 10**9), "events in the log"),
}


def kinds() -> dict[str, tuple[str, Callable[[argparse.ArgumentParser], None], Callable[..., list[str]]]]:
    return {kind: (WORDS[kind], partial(_add_options, kind), partial(_make, kind)) for kind in KINDS}


def _add_options(kind: str, command: argparse.ArgumentParser) -> None:
    usual = Subscribers(kind=kind)
    for name, (read, what) in SIZES.items():
        command.add_argument(
            f"--{name}", type=read, default=getattr(usual, name), metavar="N", help=f"{what} (default: %(default)s)"
        )
    if kind == "google-groups":
        for name, what in (("interest-skew", "how unlike in popularity groups are"), ("broad-interests", "how many")):
            default = getattr(usual, name.replace("-", "_"))
            command.add_argument(
                f"--{name}", choices=("low", "high"), default=default, help=f"{what} (default: %(default)s)"
            )
    command.add_argument(
        "--levels", choices=("one", "several"), default=usual.levels, help="of brokers (default: %(default)s)"
    )
    command.add_argument(
        "--latency", choices=("tight", "loose"), default=usual.latency, help="with several levels (default: loose)"
    )
    delays = ", ".join(f"{name} {delay:g}" for name, delay in DELAYS.items())
    command.add_argument(
        "--delay", type=amount, metavar="SHARE", help=f"beyond the shortest way, relative to it (default: {delays})"
    )
    command.add_argument("--load", type=amount, metavar="FACTOR", help="the largest load (default: the paper's)")
    command.add_argument("--load-wanted", type=amount, metavar="FACTOR", help="the load to stay within if possible")
    command.add_argument(
        "--latencies",
        default="",
        metavar="FILE",
        help="a matrix of latencies between sites in milliseconds, as text: the sites are then the locations",
    )
    command.add_argument(
        "--raw",
        action="store_true",
        help="with --latencies: delays to clients are the matrix's own (a row of links for each pair), not those of "
        "coordinates",
    )
    command.add_argument(
        "--broker-places",
        choices=tuple(BROKER_PLACES),
        default=usual.broker_places,
        help="how brokers are spread over the regions: as subscribers are, or evenly (default: %(default)s)",
    )
    command.add_argument(
        "--events-from", default="", metavar="FILE", help="a log, CSV or JSON lines, to draw events from"
    )
    command.add_argument(
        "--event-columns", default="", metavar="X,Y", help="two columns of it, such as time,log:delta (default: none)"
    )
    command.add_argument(
        "--processing", type=amount, default=0.0, metavar="MS", help="milliseconds at each broker (default: 0)"
    )


def _make(kind: str, arguments: argparse.Namespace) -> list[str]:
    names = [field.name for field in msgspec.structs.fields(Subscribers) if hasattr(arguments, field.name)]
    what = Subscribers(**{**{name: getattr(arguments, name) for name in names}, "kind": kind})
    return make_subscribers(arguments.folder, what, arguments.seed)
