"""The Spark session: made when it is first needed, with every setting explained. Only this package imports pyspark."""

import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
PATIENCE = 5.0  # seconds that a master has to answer


def start(master: str = LOCAL, settings: dict[str, str] | None = None) -> "SparkSession":
    """Raises an ``EngineError`` if there is no Java, or Spark does not start."""
    _check_java()
    _check_master(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers need what we have installed
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # what it logs is raised as well
    builder = SparkSession.builder.master(master).config("spark.driver.memory", DRIVER_MEMORY)
    chosen = SETTINGS | (ON_ONE_HOST if master.startswith("local") else {}) | (settings or {})
    for name, value in chosen.items():
        builder = builder.config(name, value)
    cores = _cores(master)
    builder = builder.config("spark.sql.shuffle.partitions", str(2 * cores))  # a task costs some tens of milliseconds
    with tempfile.TemporaryFile() as said:
        try:
            with _standard_error_to(said.fileno()), _java_ends_if_this_does_not_succeed():
                session = builder.getOrCreate()
        except (PySparkException, Py4JError, RuntimeError, OSError) as error:
            said.seek(0)
            reason = _reason(said.read().decode(errors="replace")) or str(error).partition("\n")[0]
            raise EngineError(f"Spark does not start with --master {master}: {reason[:200]}") from None
    return session


def stop(session: "SparkSession", at_once: bool = False) -> None:
    """``at_once``: the user has interrupted, so nothing that Spark is doing is waited for."""
    from py4j.protocol import Py4JError

    process = getattr(session.sparkContext._gateway, "proc", None)
    try:
        if at_once and process is not None:
            # What Python tidies up from here on may still ask Java, in vain: nobody wants to read that.
            sys.stderr = open(os.devnull, "w")  # noqa: SIM115
            process.kill()
            process.wait()
        else:
            session.stop()
    except (Py4JError, OSError):  # it has gone already
        return


@contextmanager
def _java_ends_if_this_does_not_succeed() -> Iterator[None]:
    """PySpark forgets the process that it has started when it is interrupted before that has answered."""
    from pyspark import java_gateway

    started: list[subprocess.Popen[bytes]] = []

    class Known(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            started.append(self)
            super().__init__(*arguments, **options)

    ours = vars(java_gateway)["Popen"]
    setattr(java_gateway, "Popen", Known)  # noqa: B010
    try:
        yield
    except BaseException:
        for process in started:
            if getattr(process, "pid", None) is not None:
                process.kill()
                process.wait()
        raise
    finally:
        setattr(java_gateway, "Popen", ours)  # noqa: B010


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


def _check_master(master: str) -> None:
    """A standalone master that is not there would be waited for by Spark, for minutes and without a word."""
    if not master.startswith("spark://"):
        return
    reasons = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE):
                return
        except (OSError, ValueError) as error:
            reasons.append(f"{address}: {error}")
    raise EngineError(f"no Spark master answers at --master {master} ({'; '.join(reasons)}); is it running there?")


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return
    if home is None and shutil.which("java"):
        return
    where = f"JAVA_HOME is {home}, which has none" if home else "there is none on the PATH"
    raise EngineError(f"Spark needs Java 17 or newer, and {where}; install it (Debian: openjdk-17-jre-headless)")
