"""A broker network of a NetworkX graph. NetworkX itself is not needed: the graph says all by its methods."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from overstory.errors import UsageError
from overstory.lab.graphml_links import DELAY, PRICES, Edges, links_of
from overstory.lab.graphs import Topology
from overstory.lab.known_networks import connected
from overstory.model.network import Floats

CALLED = Path("the graph")  # in what is said of it


def topology_of(graph: Any, price: str | None, delay: str | None) -> Topology:
    """Nodes are brokers in their order, called by their ``name`` or by themselves; edges are links, with the price and
    the delay that these attributes say. In a directed graph an edge is one direction of a link, as in GraphML."""
    if not hasattr(graph, "is_directed") or not hasattr(graph, "edges"):
        raise UsageError(f"a {type(graph).__name__} is no NetworkX graph; give one, or the name of a topology")
    nodes = list(graph.nodes(data=True))
    if not nodes:
        raise UsageError(f"{CALLED} has no nodes; give a network with at least one broker")
    at = {node: position for position, (node, _) in enumerate(nodes)}
    given = list(graph.edges(data=True))
    names = [str(known.get("name") or node) for node, known in nodes]
    tolls = [{PRICES[0]: known.get(price), DELAY: known.get(delay)} for _, _, known in given]
    edges = Edges(CALLED, names, [(at[one], at[other]) for one, other, _ in given], tolls, graph.is_directed())
    for wanted, name in ((price, PRICES[0]), (delay, DELAY)):
        if all(toll[name] is None for toll in tolls):
            for toll in tolls:
                del toll[name]
            if given and wanted not in (None, "weight", "delay"):
                raise UsageError(f"no edge of {CALLED} has an attribute '{wanted}', which was to be the {name}")
    links = links_of(edges)
    x, y = _places([known for _, known in nodes])
    own = [str(node) for node, _ in nodes]
    topology = Topology(
        len(nodes),
        links.sources,
        links.targets,
        names,
        x,
        y,
        links.prices,
        links.delays,
        {"topology": "graph"},
        links.back_prices,
        links.back_delays,
        own if len(set(own)) == len(own) else None,
        links.notes,
    )
    return connected(topology, str(CALLED), links.one_way)


def _places(nodes: Sequence[dict[str, Any]]) -> tuple[Floats | None, Floats | None]:
    """Coordinates, if every node has them."""
    found = [known.get("pos") or (known.get("x"), known.get("y")) for known in nodes]
    if any(len(place) != 2 or None in place for place in found):
        return None, None
    x, y = np.array(found, np.float64).T.copy()
    return x, y
