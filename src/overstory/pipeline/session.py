"""The Spark session: made when it is first needed, with every setting explained. Only this package imports pyspark."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from overstory.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
# Why each is as it is
SETTINGS = {
    "spark.app.name": "overstory",
    "spark.ui.enabled": "false",  # nobody looks at it, and it takes a port
    "spark.ui.showConsoleProgress": "false",  # we show our own
    "spark.log.level": "ERROR",  # what matters becomes an error of ours
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",  # kernels like long columns; a batch stays a few MB
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.python.worker.reuse": "true",  # a worker keeps its kernels and its index
    "spark.sql.files.maxPartitionBytes": "16m",  # so that a log of 100 MB still keeps all cores busy
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",  # as attributes are
}
ON_ONE_HOST = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}  # nobody else may connect
DRIVER_MEMORY = "2g"


def start(master: str = LOCAL, settings: dict[str, str] | None = None) -> "SparkSession":
    """Raises an ``EngineError`` if there is no Java, or Spark does not start."""
    _check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need what we have installed
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.driver.memory", DRIVER_MEMORY)
    chosen = SETTINGS | (ON_ONE_HOST if master.startswith("local") else {}) | (settings or {})
    for name, value in chosen.items():
        builder = builder.config(name, value)
    cores = _cores(master)
    builder = builder.config("spark.sql.shuffle.partitions", str(2 * cores))  # a task costs some tens of milliseconds
    with tempfile.TemporaryFile() as said:
        try:
            with _standard_error_to(said.fileno()):
                session = builder.getOrCreate()
        except (PySparkException, Py4JError, RuntimeError, OSError) as error:
            said.seek(0)
            reason = _reason(said.read().decode(errors="replace")) or str(error).partition("\n")[0]
            raise EngineError(f"Spark does not start with --master {master}: {reason[:200]}") from None
    return session


@contextmanager
def _standard_error_to(file: int) -> Iterator[None]:
    """Java greets whoever starts it, on a stream that it keeps for good. What it has to say becomes errors of ours."""
    sys.stderr.flush()
    ours = os.dup(2)
    os.dup2(file, 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


def _reason(said: str) -> str:
    telling = [line.strip() for line in said.splitlines() if "Exception" in line or "Error" in line or "error" in line]
    return telling[0] if telling else ""


def spark_path(path: Path) -> str:
    """Where Spark reads, it takes a path for a pattern."""
    return re.sub(r"([{}\[\]*?\\])", r"\\\1", str(path.absolute()))


def _cores(master: str) -> int:
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if master.startswith("local[") and master[6:-1].isdigit():
        return max(1, int(master[6:-1]))
    return here


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return
    if home is None and shutil.which("java"):
        return
    where = f"JAVA_HOME is {home}, which has none" if home else "there is none on the PATH"
    raise EngineError(f"Spark needs Java 17 or newer, and {where}; install it (Debian: openjdk-17-jre-headless)")
