"""Networks that exist, from the package ``topohub`` or from a GraphML file."""

from collections.abc import Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal
from xml.etree import ElementTree

import msgspec
import numpy as np
import rustworkx as rx

from overstory.errors import DataError, UsageError
from overstory.lab.graphml_links import Edges, links_of
from overstory.lab.graphs import Topology, components, simple_links
from overstory.model.network import Floats

KILOMETRES_PER_MILLISECOND = 200  # light in fibre
ZOO, TOPOHUB = "zoo:", "topohub:"
PriceBy = Literal["hop", "distance"]


def topohub_network(name: str, price_by: PriceBy = "hop") -> Topology:
    """``zoo:Geant2012`` is the package's ``topozoo/Geant2012``; ``topohub:KEY`` names any of its keys. A byte costs 1
    on every link, or as much as the link has kilometres."""
    key = name.removeprefix(TOPOHUB)
    if name.startswith(ZOO):
        key = f"topozoo/{name.removeprefix(ZOO)}"
    if key not in _keys():
        raise UsageError(f"there is no network {name!r}{_advice(key)}")
    read = msgspec.json.decode(files("topohub").joinpath("data", f"{key}.json").read_bytes())
    position = {node["id"]: at for at, node in enumerate(read["nodes"])}
    sources = np.array([position[edge["source"]] for edge in read["edges"]], np.int64)
    targets = np.array([position[edge["target"]] for edge in read["edges"]], np.int64)
    lengths = np.array([edge["dist"] for edge in read["edges"]], np.float64)
    keep = simple_links(len(position), sources, targets, lengths)
    x, y = np.array([node["pos"] for node in read["nodes"]], np.float64).reshape(-1, 2).T.copy()
    topology = Topology(
        len(position),
        np.minimum(sources, targets)[keep],
        np.maximum(sources, targets)[keep],
        [str(node.get("name") or node["id"]) for node in read["nodes"]],
        x,
        y,
        lengths[keep] if price_by == "distance" else None,
        lengths[keep] / KILOMETRES_PER_MILLISECOND,
        {"topology": name, "topology_price_by": price_by},
    )
    return connected(topology, name)


@cache
def _keys() -> frozenset[str]:
    """What the package has. It offers no list, and reading through it leaves files open."""
    data = Path(str(files("topohub").joinpath("data")))
    return frozenset(path.relative_to(data).with_suffix("").as_posix() for path in data.rglob("*.json"))


def _advice(key: str) -> str:
    by_lower = {known.lower(): known for known in sorted(_keys())}
    near = [by_lower[known] for known in get_close_matches(key.lower(), by_lower, n=3, cutoff=0.5)]
    shown = [
        ZOO + known.removeprefix("topozoo/") if known.startswith("topozoo/") else TOPOHUB + known for known in near
    ]
    return f"; near to it are {', '.join(shown)}" if shown else "; zoo:Geant2012 and topohub:sndlib/polska are examples"


def graphml(path: Path) -> Topology:
    """Names are the labels, or else the ids; coordinates are there if every node has ``Longitude`` and ``Latitude``.
    Edges may have a ``price`` (or a ``weight``, which is taken for it) and a ``delay``. In a directed graph an edge is
    one direction of a link, with tolls of its own; links that go one way only are left out, as no tree can use them.
    Of parallel links the cheapest counts."""
    graph = _read_graphml(path)
    nodes: Sequence[dict[str, Any]] = graph.nodes()
    position = {node: at for at, node in enumerate(graph.node_indices())}
    ids = [str(node.get("id", at)) for at, node in enumerate(nodes)]
    names = [str(node.get("label") or own) for node, own in zip(nodes, ids, strict=True)]
    ends = [(position[source], position[target]) for source, target in graph.edge_list()]
    edges = Edges(path, names, ends, [edge or {} for edge in graph.edges()], isinstance(graph, rx.PyDiGraph))
    links = links_of(edges)
    x, y = _coordinate(nodes, "Longitude"), _coordinate(nodes, "Latitude")
    if x is None or y is None:
        x = y = None
    topology = Topology(
        len(position),
        links.sources,
        links.targets,
        names,
        x,
        y,
        links.prices,
        links.delays,
        {"topology": path.name},
        links.back_prices,
        links.back_delays,
        ids if len(set(ids)) == len(ids) else None,
        (*links.notes, *_unused(path, nodes)),
    )
    return connected(topology, str(path), links.one_way)


def _unused(path: Path, nodes: Sequence[dict[str, Any]]) -> list[str]:
    names = sorted({name for node in nodes for name in node} - {"id", "label", "Longitude", "Latitude"})
    return [f"{path.name}: not used of its nodes: {', '.join(names)}"] if names else []


def _read_graphml(path: Path) -> "rx.PyGraph[Any, Any] | rx.PyDiGraph[Any, Any]":
    if not path.is_file():
        raise UsageError(f"{path} is not there; give the path of a GraphML file")
    try:
        graphs = rx.read_graphml(str(path))
    except Exception as error:  # rustworkx raises no narrower one
        raise DataError(f"{path} cannot be read as GraphML: {' '.join(str(error).split())[:120]}") from None
    if len(graphs) != 1:
        raise DataError(f"{path} has {len(graphs) or 'no'} graphs in it; give a GraphML file with one")
    if not graphs[0].num_nodes():
        raise DataError(f"{path} has no nodes in its graph; give a network with at least one broker")
    _check_ends(path)
    return graphs[0]


def _check_ends(path: Path) -> None:
    """An edge to a node that is not there would be left out by rustworkx without a word."""
    nodes, ends = set(), []
    try:
        for _, element in ElementTree.iterparse(path):
            kind = element.tag.rpartition("}")[2]
            if kind == "node":
                nodes.add(element.get("id"))
            elif kind == "edge":
                ends += [element.get("source"), element.get("target")]
    except ElementTree.ParseError as error:
        raise DataError(f"{path} cannot be read as GraphML: it is not XML ({error})") from None
    missing = next((end for end in ends if end not in nodes), None)
    if missing is not None:
        raise DataError(f"{path} has an edge to '{missing}', which is no node; add the node or leave out the edge")


def _coordinate(nodes: Sequence[dict[str, Any]], name: str) -> Floats | None:
    values = [node.get(name) for node in nodes]
    if not all(isinstance(value, int | float) and np.isfinite(value) for value in values):
        return None
    return np.array(values, np.float64)


def connected(topology: Topology, name: str, one_way: int = 0) -> Topology:
    parts = np.bincount(components(topology.brokers, topology.sources, topology.targets))
    if len(parts) > 1:
        sizes = ", ".join(map(str, sorted(parts.tolist(), reverse=True)[:5])) + (", …" if len(parts) > 5 else "")
        if one_way:
            raise DataError(
                f"{name} is directed, and events have to come back as they go: without the {one_way:,} links that go "
                f"one way only it falls into {len(parts)} parts of {sizes} brokers; add the edges back, or make the "
                'graph undirected (edgedefault="undirected")'
            )
        raise DataError(
            f"{name} is not connected: it falls into {len(parts)} parts of {sizes} brokers; link them first"
        )
    return topology
