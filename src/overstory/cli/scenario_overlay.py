"""The kinds of ``overstory scenario make`` that are of the overlay problem."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from overstory.cli.options import share, whole
from overstory.lab.overlay_example import make_example, make_star
from overstory.lab.overlay_steinlib import make_reduction
from overstory.lab.quadratic import PRICES, Quadratic, make_quadratic
from overstory.lab.real_overlays import PLACES, RealOverlay, make_real
from overstory.lab.stp import read_stp

ADD = Callable[[argparse.ArgumentParser], None]
MAKE = Callable[[argparse.Namespace], list[str]]
MOST = 10**8
MEANING = {  # of the parameters of a quadratic scenario
    "users": "clients, which publish and subscribe",
    "brokers": "brokers",
    "access_core_ratio": "the mean price of an access link relative to that of a core link",
    "channels": "sub-channels that the paper's planners cut the content space into",
    "width": "of a subscription, on average, in a content space of width 1",
    "events": "in the log; 0: ten for each user",
    "prices": f"{' or '.join(PRICES)}",
    "correlation": "of a user's interest with its place, from 0 to 1",
    "capacity": "of all brokers together relative to all traffic of users; 0: no limits",
    "publishers": "the share of users that publish",
    "grid": "ends of subscriptions are multiples of its inverse",
    "bytes": "the size of an event",
    "known": "brokers that each client knows and may be attached to, by chance; 0: all",
    "densities": "pieces in which the table densities tells what each user publishes; 0: it is not written",
}


def _number(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < 1e12:
        raise argparse.ArgumentTypeError(f"{text} is not a number from 0 on")
    return found


def _add_quadratic(kind: argparse.ArgumentParser) -> None:
    for field in msgspec.structs.fields(Quadratic):
        readers: dict[type, Callable[[str], Any]] = {int: whole(0, MOST), float: _number, str: str}
        read = readers[type(field.default)]
        if field.name in ("width", "publishers"):
            read = share("all", with_one=True)
        option = f"--{field.name.replace('_', '-')}"
        text = f"{MEANING[field.name]} (default: %(default)s)"
        kind.add_argument(option, type=read, default=field.default, metavar="N", help=text)


def _make_quadratic(arguments: argparse.Namespace) -> list[str]:
    parameters = Quadratic(**{field: getattr(arguments, field) for field in MEANING})
    make_quadratic(arguments.folder, parameters, arguments.seed)
    return []


def _add_nothing(kind: argparse.ArgumentParser) -> None:
    """The example has no parameters."""


def _make_example(arguments: argparse.Namespace) -> list[str]:
    make_example(arguments.folder)
    return ["the paper's own prices and traffic are lost with its figures: these are ours"]


def _make_star(arguments: argparse.Namespace) -> list[str]:
    make_star(arguments.folder)
    return []


def _add_steinlib(kind: argparse.ArgumentParser) -> None:
    kind.add_argument("--problem", required=True, type=Path, metavar="FILE.stp", help="a Steiner tree problem")


def _make_steinlib(arguments: argparse.Namespace) -> list[str]:
    make_reduction(arguments.folder, read_stp(arguments.problem))
    return []


def _add_real(kind: argparse.ArgumentParser) -> None:
    usual = RealOverlay()
    kind.add_argument("--places", choices=PLACES, default=usual.places, help="whose latencies (default: %(default)s)")
    kind.add_argument(
        "--data", type=Path, required=True, metavar="DIR", help="the folder of latency_* and github_watches"
    )
    for name, what in (("users", "clients"), ("repositories", "that events are about"), ("events", "in the log")):
        text = f"{what} (default: %(default)s)"
        kind.add_argument(f"--{name}", type=whole(1, MOST), default=getattr(usual, name), metavar="N", help=text)


def _make_real(arguments: argparse.Namespace) -> list[str]:
    fields = {name: getattr(arguments, name) for name in ("places", "users", "repositories", "events")}
    return make_real(arguments.folder, arguments.data, RealOverlay(**fields), arguments.seed)


OVERLAY_KINDS: dict[str, tuple[str, ADD, MAKE]] = {
    "quadratic": ("users with quadratic densities, as in the overlay paper", _add_quadratic, _make_quadratic),
    "overlay-example": ("six users and three brokers, as in the overlay paper's example", _add_nothing, _make_example),
    "star": ("where a Steiner point beats every spanning tree (3 against 4)", _add_nothing, _make_star),
    "steinlib": ("a Steiner tree problem as an overlay problem", _add_steinlib, _make_steinlib),
    "watches": ("GitHub watchers at AWS regions or PlanetLab sites", _add_real, _make_real),
}
