"""The parts that Spark writes become one file of events, the same byte for byte however many parts there are."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from overstory.errors import EngineError

ROW_GROUP = 1 << 17  # events in memory at once


def join_parts(parts: list[Path], schema: pa.Schema, path: Path) -> None:
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        done = 0
        for table in _regrouped(_batches(parts, schema)):
            if table["$id"][0].as_py() != done:
                raise EngineError(f"Spark wrote the events of {path.parent} in another order; this is a fault of ours")
            writer.write_table(table, ROW_GROUP)
            done += len(table)


def _batches(parts: list[Path], schema: pa.Schema) -> Iterator[pa.Table]:
    for part in parts:
        with pq.ParquetFile(part) as file:
            for batch in file.iter_batches():
                yield pa.Table.from_batches([batch]).cast(schema)


def _regrouped(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same rows in tables of the same size, so that where the parts were cut does not show."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += len(table)
        while rows >= ROW_GROUP:
            every = pa.concat_tables(waiting)
            yield every.slice(0, ROW_GROUP).combine_chunks()
            waiting, rows = [every.slice(ROW_GROUP)], rows - ROW_GROUP
    if rows:
        yield pa.concat_tables(waiting).combine_chunks()
