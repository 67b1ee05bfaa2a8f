"""Coordinates from a matrix of measured latencies, such as PlanetLab's: stress majorisation in five dimensions.

Latencies obey no metric, so coordinates are off by some error, which is said. Who is in time by coordinates may be late
by the matrix: ``misjudged`` tells how many pairs.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from overstory.errors import DataError
from overstory.model.network import Floats

ROUNDS = 60


class Embedding(NamedTuple):
    places: Floats
    error: float  # the median, over all pairs, of how far distances are off, relative to the latency


def read_matrix(path: Path) -> Floats:
    """Symmetric, in milliseconds: the mean of both directions. Raises a ``DataError`` for holes, naming the first."""
    try:
        matrix = np.loadtxt(path, delimiter="," if path.suffix == ".csv" else None, ndmin=2)
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as a matrix of numbers: {str(error)[:100]}") from None
    if matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise DataError(f"{path} is a matrix of {matrix.shape[0]:,} by {matrix.shape[1]:,}; it must be square")
    holes = ~np.isfinite(matrix) | (matrix <= 0)
    np.fill_diagonal(holes, False)
    if holes.any():
        row, column = (int(each) for each in np.argwhere(holes)[0])
        raise DataError(
            f"{path} has {int(holes.sum()):,} holes: the first is in row {row + 1}, column {column + 1}, which is "
            f"{matrix[row, column]:g}; leave out those sites, or fill in what is missing"
        )
    matrix = (matrix + matrix.T) / 2
    np.fill_diagonal(matrix, 0.0)
    return np.asarray(matrix)


def embedded(matrix: Floats, dimensions: int, seed: int) -> Embedding:
    """Classical scaling, improved by majorising the stress (de Leeuw, 1977)."""
    count = len(matrix)
    centred = -0.5 * (matrix**2 - (matrix**2).mean(axis=0) - (matrix**2).mean(axis=1)[:, None] + (matrix**2).mean())
    values, vectors = np.linalg.eigh(centred)
    top = np.argsort(values)[::-1][:dimensions]
    places = np.zeros((count, dimensions))
    places[:, : len(top)] = vectors[:, top] * np.sqrt(np.maximum(values[top], 0.0))
    places += np.random.default_rng(seed).normal(0, 1e-6, places.shape)
    for _ in range(ROUNDS):
        ratio = matrix / np.maximum(distances(places), 1e-12)
        np.fill_diagonal(ratio, 0.0)
        places = (ratio.sum(axis=1)[:, None] * places - ratio @ places) / count
    off = np.abs(distances(places) - matrix)[matrix > 0] / matrix[matrix > 0]
    return Embedding(places, float(np.median(off)))


def distances(places: Floats) -> Floats:
    squares = (places**2).sum(axis=1)
    return np.asarray(np.sqrt(np.maximum(squares[:, None] + squares - 2 * places @ places.T, 0.0)))


def misjudged(by_places: Floats, by_matrix: Floats, latest: Floats) -> float:
    """The share of pairs of a location and a broker in time by coordinates that are late by the matrix."""
    in_time = by_places <= latest[:, None]
    return float((by_matrix > latest[:, None])[in_time].mean()) if in_time.any() else 0.0
