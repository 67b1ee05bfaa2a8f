"""Brokers brought together in regions, where there are too many for a picture of each: communities of the links, found
by greedily merging those whose union has the most links in it (Clauset, Newman and Moore 2004), which leaves nothing to
chance. A region stands in the middle of its brokers, and regions are pushed apart until none hides another."""

from dataclasses import dataclass

import numpy as np

from overstory.model.network import Floats, Ints
from overstory.studio.layout import MARGIN, WIDTH, height_of
from overstory.studio.picture import Picture

FROM = 500  # brokers, from which on regions are drawn first
MOST = 24  # regions
LEAST_RADIUS, MOST_RADIUS = 9.0, 30.0
GAP = 26.0  # between two regions, with room for a name
MOST_STRETCHED = 1.8  # one axis relative to the other
ROUNDS = 400  # of pushing


@dataclass(frozen=True, eq=False)
class Regions:
    """``of`` is the region of each broker, ``ends`` those of each pair of regions that is linked, ``pair_of`` which of
    these each pair of brokers is in: -1 if it is within a region."""

    names: list[str]
    of: Ints
    points: Floats
    radii: Floats
    ends: Ints
    pair_of: Ints


def regions_of(picture: Picture) -> Regions:
    of = _communities(picture)
    sizes = np.bincount(of)
    radii = LEAST_RADIUS + (MOST_RADIUS - LEAST_RADIUS) * np.sqrt(sizes / sizes.max())
    middles = np.stack([np.bincount(of, picture.points[:, axis]) / sizes for axis in (0, 1)], axis=1)
    ends = np.sort(of[picture.pairs], axis=1)
    keys = ends[:, 0] * len(sizes) + ends[:, 1]
    between = ends[:, 0] != ends[:, 1]
    linked, at = np.unique(keys[between], return_inverse=True)
    pair_of = np.full(len(ends), -1, np.int64)
    pair_of[between] = at.reshape(-1)
    height = height_of(picture.points)
    points = _apart(_spread(middles, height), radii, height)
    return Regions(
        _names(picture, of, sizes), of, points, radii, np.stack(np.divmod(linked, len(sizes)), axis=1), pair_of
    )


def _communities(picture: Picture) -> Ints:
    """The region of each broker; regions are numbered by their sizes, the largest first. Where a network has more parts
    that are not joined than there may be regions, the last region has all the others."""
    import igraph  # it takes a tenth of a second, and most pages are of few brokers

    graph = igraph.Graph(n=len(picture.network), edges=picture.pairs.tolist())
    merged = graph.community_fastgreedy()
    found = np.array(merged.as_clustering(max(min(merged.optimal_count, MOST), _parts(graph))).membership, np.int64)
    sizes = np.bincount(found)
    rank = np.empty(len(sizes), np.int64)
    rank[np.lexsort((np.arange(len(sizes)), -sizes))] = np.arange(len(sizes))
    return np.asarray(np.minimum(rank, MOST - 1)[found])


def _parts(graph: "object") -> int:
    """Components cannot be merged."""
    return len(graph.connected_components())  # type: ignore[attr-defined]


def _names(picture: Picture, of: Ints, sizes: Ints) -> list[str]:
    """A region is called by its broker with most links."""
    degrees = np.bincount(picture.pairs.reshape(-1), minlength=len(of))
    first = [int(np.flatnonzero(of == region)[np.argmax(degrees[of == region])]) for region in range(len(sizes))]
    return [picture.names[broker] for broker in first]


def _spread(points: Floats, height: int) -> Floats:
    """Over the whole picture, as middles lie closer together than brokers do; at most so much wider than tall."""
    room = np.array([WIDTH, max(height, 1)]) - 2 * (MARGIN + MOST_RADIUS)
    middle, extent = (points.min(axis=0) + points.max(axis=0)) / 2, np.ptp(points, axis=0)
    scale = np.maximum(room, 0) / np.maximum(extent, 1e-9)
    scale[0] = min(scale[0], MOST_STRETCHED * scale[1]) if extent[1] else scale[0]
    scale[1] = min(scale[1], MOST_STRETCHED * scale[0]) if extent[0] else scale[1]
    return np.asarray(np.array([WIDTH, height]) / 2 + (points - middle) * np.where(extent > 0, scale, 1))


def _apart(points: Floats, radii: Floats, height: int) -> Floats:
    """Regions pushed away from each other until they do not touch, within the picture."""
    placed = points + 0.5 * np.stack([np.cos(np.arange(len(points))), np.sin(np.arange(len(points)))], axis=1)
    wanted = radii[:, None] + radii + GAP
    low, high = radii[:, None] + MARGIN / 2, np.array([WIDTH, max(height, 1)]) - radii[:, None] - MARGIN / 2
    for _ in range(ROUNDS):
        between = placed[:, None] - placed
        far = np.maximum(np.hypot(between[..., 0], between[..., 1]), 1e-6)
        short = np.maximum(wanted - far, 0)
        np.fill_diagonal(short, 0)
        if short.max(initial=0) < 0.5:
            break
        placed = placed + (between / far[..., None] * (short / 2)[..., None]).sum(axis=1) * 0.6
        placed = np.clip(placed, low, np.maximum(high, low))
    return np.asarray(placed, np.float64)
