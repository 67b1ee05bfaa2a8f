"""Import: a log in CSV, JSON lines or Parquet becomes the events of a scenario.

Three rules. Events are numbered from 0 in the order of their file, however Spark cuts it into partitions. A column has
one type, of all its values, and an absent value is null. And the file of events is the same, byte for byte, whatever
cores there are: Spark writes a part for each partition, and the parts are strung together, row group by row group.

The log is parsed once, and kept by Spark. What was seen in it is told: no value becomes something else, or nothing,
without a word. In the order of the work: ``log_preview`` refuses what it can without Spark, ``numbered_log`` reads the
rows, ``log_inference`` finds the types of columns, ``log`` checks and writes.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from overstory.errors import DataError
from overstory.pipeline.log import Log
from overstory.pipeline.log_files import LogFiles, Reader, blaming
from overstory.pipeline.log_inference import inferred
from overstory.pipeline.log_options import Reading, Roles, is_kept
from overstory.pipeline.log_preview import check_names
from overstory.pipeline.log_types import Leaf, leaves_of
from overstory.pipeline.numbered_log import numbered_rows
from overstory.pipeline.pipeline import Pipeline


@contextmanager
def opened_log(pipeline: Pipeline, files: LogFiles, roles: Roles, beside: Path, reading: Reading) -> Iterator[Log]:
    """``beside`` is a folder for what is needed meanwhile."""
    _ = pipeline.spark  # which tells that it starts, and must not be the last to tell
    pipeline.tell("reading the log")
    reader = Reader(pipeline, files, beside)
    schema = reader.schema()
    leaves = _chosen(files, leaves_of(schema, reading.flatten), roles, reading)
    rows = numbered_rows(reader, schema, leaves, reading).persist()
    try:
        with blaming(files):
            counts, kinds, notes = inferred(reader, rows, schema, leaves, reading)
            if not counts:
                raise DataError(f"{files.path} has no events in it; give a log with at least one")
            log = Log(files, rows, leaves, kinds, counts, roles, reading, notes)
            log.check()
        yield log
    finally:
        rows.unpersist()


def _chosen(files: LogFiles, leaves: list[tuple[str, Leaf]], roles: Roles, reading: Reading) -> dict[str, Leaf]:
    check_names(files.path, [name for name, _ in leaves], roles, reading)
    return {name: leaf for name, leaf in leaves if is_kept(name, reading, roles)}
