"""The edges of a GraphML file as links: what they cost, in which direction, and what of them was left out."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from overstory.errors import DataError
from overstory.lab.graphs import HOP
from overstory.model.network import Floats, Ints

PRICES = ("price", "weight")  # what the price of a link may be called; the first that is there counts
DELAY = "delay"


class Edges(NamedTuple):
    """The edges of a network as its file has them."""

    path: Path
    names: list[str]  # of the nodes, by position
    ends: list[tuple[int, int]]
    attributes: list[dict[str, Any]]
    directed: bool


class Links(NamedTuple):
    """Each stands once, from the lower to the higher position. Tolls are None where no edge has any."""

    sources: Ints
    targets: Ints
    prices: Floats | None
    delays: Floats | None
    back_prices: Floats | None
    back_delays: Floats | None
    one_way: int  # links that were left out, since no edge goes back
    notes: tuple[str, ...]


def links_of(edges: Edges) -> Links:
    known = {name for attributes in edges.attributes for name in attributes}
    priced = next((name for name in PRICES if name in known), None)
    prices, delays = _tolls(edges, priced), _tolls(edges, DELAY if DELAY in known else None)
    sources, targets = np.array(edges.ends, np.int64).reshape(-1, 2).T.copy()
    if not edges.directed:
        sources, targets = np.concatenate((sources, targets)), np.concatenate((targets, sources))
        prices, delays = np.tile(prices, 2), np.tile(delays, 2)
    size = len(edges.names)
    keys, kept = _cheapest(size, sources, targets, prices, delays)
    back = (keys % size) * size + keys // size
    ahead = np.flatnonzero((keys // size < keys % size) & np.isin(back, keys))
    behind = np.searchsorted(keys, back[ahead])
    there, again = kept[ahead], kept[behind]
    both_prices = (prices[there], prices[again]) if priced is not None else (None, None)
    both_delays = (delays[there], delays[again]) if DELAY in known else (None, None)
    one_way = len(keys) - 2 * len(ahead)
    return Links(
        sources[there],
        targets[there],
        both_prices[0],
        both_delays[0],
        both_prices[1],
        both_delays[1],
        one_way,
        _notes(edges, known, priced, len(keys), one_way),
    )


def _tolls(edges: Edges, name: str | None) -> Floats:
    """What edges say of their price or delay; ``HOP`` where they say nothing."""
    found = np.full(len(edges.ends), HOP)
    for at, attributes in enumerate(edges.attributes):
        value = attributes.get(name) if name is not None else None
        if value is None or value == "":
            continue
        try:
            found[at] = float(value)
        except (TypeError, ValueError):
            found[at] = np.nan
        if not 0 <= found[at] < np.inf:
            one, other = (edges.names[end] for end in edges.ends[at])
            raise DataError(
                f"{edges.path}: the edge from {one} to {other} has the {name} {value!r}; a {name} is a number from 0 up"
            )
    return found


def _cheapest(size: int, sources: Ints, targets: Ints, prices: Floats, delays: Floats) -> tuple[Ints, Ints]:
    """One edge for each pair of ends, in their order, without loops."""
    keys = sources * size + targets
    order = np.lexsort((delays, prices, keys))
    order = order[sources[order] != targets[order]]
    found, first = np.unique(keys[order], return_index=True)
    return found, order[first]


def _notes(edges: Edges, known: set[str], priced: str | None, different: int, one_way: int) -> tuple[str, ...]:
    file = edges.path.name
    notes = []
    if priced is None:
        notes.append(f"{file} has no prices: a byte costs 1 on every link")
    elif priced != PRICES[0]:
        notes.append(f"{file}: '{priced}' is taken for the price of a byte")
    for name in (priced, DELAY):
        missing = sum(attributes.get(name) in (None, "") for attributes in edges.attributes) if name in known else 0
        if missing:
            notes.append(f"{file}: {missing:,} edges have no {name}, and take {HOP:g}")
    loops = sum(one == other for one, other in edges.ends)
    if loops:
        notes.append(f"{file}: {loops:,} edges from a node to itself were left out")
    parallel = (len(edges.ends) - loops) * (1 if edges.directed else 2) - different
    if parallel:
        many = parallel if edges.directed else parallel // 2
        notes.append(f"{file}: {many:,} edges are beside another between the same nodes; the cheapest counts")
    if one_way:
        notes.append(f"{file}: {one_way:,} links go one way only and were left out, as no tree can use them")
    unused = sorted(known - {priced, DELAY, "id"})
    if unused:
        notes.append(f"{file}: not used of its edges: {', '.join(unused)}")
    return tuple(notes)
