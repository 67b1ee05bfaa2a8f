"""Events of a real log as points: columns are scaled, times are of the day, and what cannot be read is named."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from overstory.errors import DataError, UsageError
from overstory.lab.event_points import points_in
from overstory.lab.interests import SIDE
from overstory.lab.subscribers import Subscribers, make_subscribers
from overstory.model.scenario import read_scenario

DRAW = np.random.default_rng(1)


def log_in(folder: Path) -> Path:
    path = folder / "log.json.gz"
    rows = [{"time": f"2015-09-12T{hour:02}:00:00.000Z", "delta": 10**hour % 997 - 300} for hour in range(24)]
    with gzip.open(path, "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in [*rows, {"time": "none", "delta": 1}, {"delta": 1}])
    return path


def test_columns_become_coordinates(tmp_path: Path) -> None:
    points = points_in(log_in(tmp_path), "time,log:delta", 24, DRAW)
    assert points.shape == (24, 2)
    assert points.min() == 0
    assert SIDE * 0.999 < points.max() < SIDE
    assert np.allclose(np.diff(np.sort(points[:, 0])), SIDE / 23)  # an hour each
    assert len(points_in(log_in(tmp_path), "time,delta", 100, DRAW)) == 100
    (tmp_path / "log.csv").write_text("a,b\n1,2\n3,4\nNA,5\n")
    assert points_in(tmp_path / "log.csv", "a,b", 2, DRAW).max() < SIDE


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name two columns"):
        points_in(log_in(tmp_path), "time", 5, DRAW)
    with pytest.raises(DataError, match="no row with numbers or times in both time and none"):
        points_in(log_in(tmp_path), "time,none", 5, DRAW)
    with pytest.raises(DataError, match="cannot be read"):
        points_in(tmp_path / "missing.csv", "a,b", 5, DRAW)
    (tmp_path / "bad.json").write_text("not json\n")
    with pytest.raises(DataError, match="cannot be read"):
        points_in(tmp_path / "bad.json", "a,b", 5, DRAW)


def test_a_scenario_has_the_events_of_a_log(tmp_path: Path) -> None:
    what = Subscribers(
        subscribers=100, brokers=4, events=50, load=4.0, events_from=str(log_in(tmp_path)), event_columns="time,delta"
    )
    make_subscribers(tmp_path / "made", what, 1)
    import pyarrow.parquet as pq

    x = pq.read_table(read_scenario(tmp_path / "made").events)["x"].to_numpy()
    assert len(np.unique(x)) <= 24
