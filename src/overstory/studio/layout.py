"""Where brokers stand in the picture: where the scenario says, else as far apart as they are in hops."""

import math

import numpy as np
import rustworkx as rx
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import dijkstra

from overstory.model.network import Floats, Network

MOST_SPRINGS = 1000  # brokers, beyond which springs are slow
WIDTH, LEAST_HEIGHT, MOST_HEIGHT, MARGIN = 1000, 380, 640, 36  # of the picture


def coordinates(network: Network, x: ArrayLike | None, y: ArrayLike | None) -> Floats:
    if x is not None and y is not None:
        given = np.stack([np.asarray(x, np.float64), -np.asarray(y, np.float64)], axis=1)
        if np.isfinite(given).all():
            return given
    start = _pivot_layout(network)
    return _level(_spring_layout(network, start) if 2 < len(network) <= MOST_SPRINGS else start)


def _pivot_layout(network: Network, pivots: int = 50) -> Floats:
    """Brokers as far apart as they are in hops, as well as a plane allows: PivotMDS (Brandes, Pich 2006), linear in
    the links."""
    size = len(network)
    if size < 2:
        return np.zeros((size, 2))
    links = network.weighted(np.ones(len(network.targets)))
    hops = np.zeros((size, 0))
    nearest = np.full(size, np.inf)
    for _ in range(min(pivots, size)):
        pivot = int(np.argmax(nearest))
        found = dijkstra(links, directed=False, indices=pivot, unweighted=True)
        hops = np.column_stack([hops, found])
        nearest = np.minimum(nearest, found)
        nearest[pivot] = -1
    hops[np.isinf(hops)] = 1.5 * hops[np.isfinite(hops)].max() + 1
    squares = hops**2
    centred = squares.mean(axis=0) + squares.mean(axis=1, keepdims=True) - squares - squares.mean()
    left, strength, _ = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((size, 2))
    plane[:, : left.shape[1]] = left[:, :2] * np.sqrt(strength[:2])
    # brokers that have the same distances would hide each other
    turns = np.arange(size) * (math.pi * (3 - math.sqrt(5)))
    spread = 0.25 / math.sqrt(size) * np.ptp(plane, axis=0).max()
    return np.asarray(plane + spread * np.stack([np.cos(turns), np.sin(turns)], axis=1))


def _spring_layout(network: Network, start: Floats) -> Floats:
    graph = rx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(len(network)))
    graph.add_edges_from_no_data(list(zip(network.sources.tolist(), network.targets.tolist(), strict=True)))
    scaled = start / max(np.abs(start).max(), 1e-9)
    placed = rx.spring_layout(graph, pos=dict(enumerate(scaled.tolist())), num_iter=50, seed=1)
    return np.array([placed[at] for at in range(len(network))])


def _level(points: Floats) -> Floats:
    """Turned so that it is widest from left to right, with the farthest broker to the right and above."""
    if len(points) < 2:
        return points
    centred = points - points.mean(axis=0)
    turned = centred @ np.linalg.svd(centred, full_matrices=False)[2].T
    farthest = turned[np.argmax(np.abs(turned), axis=0), [0, 1]]
    return np.asarray(turned * np.where(farthest * [1, -1] < 0, -1, 1))


def fitted(points: Floats) -> Floats:
    """To the picture's width and height, with one scale for both."""
    if not len(points):
        return points
    low, extent = points.min(axis=0), np.ptp(points, axis=0)
    wide = WIDTH - 2 * MARGIN
    height = wide * extent[1] / extent[0] if extent[0] else extent[1] and MOST_HEIGHT
    tall = np.clip(height, LEAST_HEIGHT, MOST_HEIGHT) - 2 * MARGIN
    scale = min(side / each for side, each in ((wide, extent[0]), (tall, extent[1])) if each) if extent.any() else 0.0
    middle = np.array([wide, tall]) / 2
    return np.asarray(MARGIN + middle + (points - low - extent / 2) * scale, np.float64)


def height_of(points: Floats) -> int:
    """Of a picture of fitted points, which stand in its middle."""
    if not len(points):
        return LEAST_HEIGHT
    return round(float(points[:, 1].min() + points[:, 1].max()))
