"""Batches of the reduced log that are brought together: the same rows, in the same order."""

from collections.abc import Iterator

import pyarrow as pa
import pytest

from overstory.pipeline import rows as rows_module
from overstory.pipeline.rows import in_large_batches

SIZES = [[3, 1], [], [0, 0], [2], [9], [1, 1, 1]]  # of batches: predicates of each row


def batches() -> Iterator[pa.RecordBatch]:
    number = 0
    for sizes in SIZES:
        sets = [list(range(number + at, number + at + size)) for at, size in enumerate(sizes)]
        number += len(sizes)
        yield pa.record_batch({"predicates": pa.array(sets, pa.list_(pa.int64())), "row": pa.array(sizes, pa.int64())})


@pytest.mark.parametrize("most", [1, 4, 6, 1000])
def test_rows_stay_as_they_are_and_in_their_order(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "AT_ONCE", most)
    found = list(in_large_batches(batches()))
    assert [row for batch in found for row in batch.to_pylist()] == [
        row for batch in batches() for row in batch.to_pylist()
    ]
    assert all(sum(batch.column("row").to_pylist()) <= most for batch in found if len(batch) > 3)


def test_few_predicates_are_one_batch() -> None:
    assert len(list(in_large_batches(batches()))) == 1
    assert list(in_large_batches([])) == []
    nothing = next(batches()).slice(0, 0)
    assert [len(batch) for batch in in_large_batches([nothing, nothing])] == [0]
