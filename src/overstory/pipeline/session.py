"""The Spark session: made when it is first needed, with every setting explained. Only this package imports pyspark."""

import os
import shutil
import sys
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
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "16",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.session.timeZone": "UTC",
}
DRIVER_MEMORY = "2g"


def start(master: str = LOCAL, settings: dict[str, str] | None = None) -> "SparkSession":
    """Raises an ``EngineError`` if there is no Java, or Spark does not start."""
    _check_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need what we have installed
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).config("spark.driver.memory", DRIVER_MEMORY)
    chosen = SETTINGS | ({} if _is_local(master) else {"spark.driver.bindAddress": "0.0.0.0"}) | (settings or {})
    for name, value in chosen.items():
        builder = builder.config(name, value)
    cores = _cores(master)
    builder = builder.config("spark.sql.shuffle.partitions", str(4 * cores))  # each costs a Python worker its start
    try:
        session = builder.getOrCreate()
        session.sparkContext.setLogLevel("OFF" if _is_local(master) else "ERROR")
    except (PySparkException, RuntimeError, OSError) as error:
        reason = str(error).partition("\n")[0][:200]
        raise EngineError(f"Spark does not start with --master {master}: {reason}") from None
    return session


def _is_local(master: str) -> bool:
    return master.startswith("local")


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
