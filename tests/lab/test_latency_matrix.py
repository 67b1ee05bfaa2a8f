"""Coordinates from latencies: exact where a metric fits, with an honest error where none does; holes are named."""

from pathlib import Path

import numpy as np
import pytest

from overstory.errors import DataError
from overstory.lab.latency_matrix import distances, embedded, misjudged, read_matrix


def test_points_of_a_space_are_found_again() -> None:
    far = distances(np.random.default_rng(1).normal(0, 50, (40, 5)))
    found = embedded(far, 5, 1)
    assert found.error < 0.01
    assert np.abs(distances(found.places) - far).max() < 2
    assert embedded(far, 1, 1).error > 0.05  # one dimension is not enough, and that is said
    latest = np.full(40, 100.0)
    assert misjudged(far, far, latest) == 0
    assert misjudged(far, far + 1000, latest) == 1


def test_holes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "matrix.txt"
    path.write_text("0 5 7\n5 0 0\n7 9 0\n")
    with pytest.raises(DataError, match="1 holes: the first is in row 2, column 3, which is 0"):
        read_matrix(path)
    path.write_text("0 5\n7 0\n")
    assert read_matrix(path).tolist() == [[0, 6], [6, 0]]
    path.write_text("0 5 1\n7 0 2\n")
    with pytest.raises(DataError, match="2 by 3; it must be square"):
        read_matrix(path)
    path.write_text("none\n")
    with pytest.raises(DataError, match="cannot be read"):
        read_matrix(path)
