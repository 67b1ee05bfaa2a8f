"""Broker networks by the names that users write."""

from collections.abc import Callable
from difflib import get_close_matches
from pathlib import Path

from overstory.errors import UsageError
from overstory.lab.graphs import Topology, as_tables
from overstory.lab.known_networks import TOPOHUB, ZOO, graphml, topohub_network
from overstory.lab.random_networks import USUAL_DEGREE, random_regular, waxman
from overstory.lab.transit_stub import transit_stub
from overstory.lab.transit_stub_shape import Shape

__all__ = [
    "GENERATORS",
    "Shape",
    "Topology",
    "as_tables",
    "graphml",
    "random_regular",
    "topohub_network",
    "topology",
    "transit_stub",
    "waxman",
]

USUAL_BROKERS = 500
# Of brokers and a seed. A network too small for the usual degree is complete.
GENERATORS: dict[str, Callable[[int, int], Topology]] = {
    "transit-stub": transit_stub,
    "transit-stub-plain": lambda brokers, seed: transit_stub(brokers, seed, extra_transit_stub=0, extra_stub_stub=0),
    "waxman": waxman,
    "random-regular": lambda brokers, seed: random_regular(brokers, min(USUAL_DEGREE, brokers - 1), seed),
}


def topology(text: str, brokers: int | None = None, seed: int = 0) -> Topology:
    """``transit-stub``, ``transit-stub-plain`` (no further links), ``waxman``, ``random-regular``, all of 500 brokers
    unless told otherwise; or ``zoo:NAME``, ``topohub:KEY`` or a path that ends in ``.graphml``, which have as many
    brokers as they have."""
    if text in GENERATORS:
        return GENERATORS[text](USUAL_BROKERS if brokers is None else brokers, seed)
    if text.startswith((ZOO, TOPOHUB)):
        known = topohub_network(text)
    elif text.endswith(".graphml"):
        known = graphml(Path(text))
    else:
        near = get_close_matches(text, GENERATORS, n=1)
        advice = (
            f"did you mean {near[0]!r}?" if near else f"use {', '.join(GENERATORS)}, zoo:NAME, topohub:KEY or a path"
        )
        raise UsageError(f"there is no topology {text!r}; {advice}" + ("" if near else " that ends in .graphml"))
    if brokers not in (None, known.brokers):
        raise UsageError(f"{text} has {known.brokers} brokers, not {brokers}; leave out the number")
    return known
