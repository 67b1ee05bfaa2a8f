"""The live log of a network, as a stream."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from overstory.errors import UsageError
from overstory.pipeline.live_log import follow_log
from overstory.pipeline.pipeline import Pipeline


def part(times: list[float], publishers: list[int]) -> pa.Table:
    size = len(times)
    columns = {
        "$id": range(size),
        "$time": times,
        "$publisher": publishers,
        "$bytes": [10] * size,
        "topic": ["a"] * size,
    }
    return pa.table({name: pa.array(values) for name, values in columns.items()})


def test_windows_are_told_when_they_are_over(pipeline: Pipeline, tmp_path: Path) -> None:
    log = tmp_path / "events.parquet"
    log.mkdir()
    pq.write_table(part([0.5, 9.0, 9.5], [1, 1, 2]), log / "part-000000.parquet")
    pq.write_table(part([12.0, 35.0], [2, 1]), log / "part-000001.parquet")
    told: list[dict[str, int]] = []
    with pytest.raises(UsageError, match="no log"):
        follow_log(pipeline.spark, tmp_path / "nothing", 10.0, lambda _: None, once=True)
    follow_log(pipeline.spark, tmp_path, 10.0, lambda table: told.extend(table.to_pylist()), once=True)
    assert told == [
        {"window": 0, "publisher": 1, "events": 2, "bytes": 20},
        {"window": 0, "publisher": 2, "events": 1, "bytes": 10},
        {"window": 1, "publisher": 2, "events": 1, "bytes": 10},
    ]
