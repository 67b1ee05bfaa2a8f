"""The same job gives the same result wherever it runs, and also when a worker dies in the middle of it."""

import collections
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import topology
from overstory.model.scenario import read_scenario
from overstory.pipeline.pipeline import Pipeline
from overstory.planners.chains import make_plan

HOME = Path(pyspark.__file__).parent
TESTS = Path(__file__).parents[1]
SMALL = ("spark.executor.memory=600m", "spark.executor.cores=1", "spark.sql.files.maxPartitionBytes=64k")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cluster")
    parameters = Localized(keywords=60, events=40_000, locality=0.3)
    make_localized(place / "net", topology("transit-stub", 40, 1), parameters, seed=1)
    scenario = read_scenario(place / "net")
    with Pipeline() as pipeline:
        make_plan("mst", scenario, pipeline, {}).write(place / "plan")
    return place


def run(folder: Path, master: str, *settings: str, **environment: str) -> Any:
    command = [sys.executable, "-m", "pipeline.job", master, str(folder / "net"), str(folder / "plan"), *settings]
    env = (
        os.environ | environment | {"SPARK_HOME": str(HOME), "PYTHONPATH": str(TESTS), "PYSPARK_PYTHON": sys.executable}
    )
    ran = subprocess.run(command, cwd=TESTS, env=env, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)


@pytest.fixture(scope="module")
def expected(folder: Path) -> Any:
    return run(folder, "local[2]") | {"killed": []}


class Cluster:
    """A standalone master with two workers, on loopback and free ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []
        master = self._start("master.Master", "--port", "0", "--webui-port", "0")
        self.url = self._read(master, r"(spark://[\w.:-]+)")
        for _ in range(2):
            worker = self._start("worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", "0", self.url)
            self._read(worker, r"Successfully registered with master")

    def _start(self, kind: str, *arguments: str) -> "subprocess.Popen[str]":
        command = [
            str(HOME / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{kind}",
            "--host",
            "127.0.0.1",
            *arguments,
        ]
        log4j = self.folder / "log4j2.properties"
        log4j.write_text(
            "rootLogger.level=info\nrootLogger.appenderRef.a.ref=a\nappender.a.type=Console\nappender.a.name=a\n"
            "appender.a.target=SYSTEM_ERR\nappender.a.layout.type=PatternLayout\nappender.a.layout.pattern=%m%n\n"
        )
        env = os.environ | {
            "SPARK_HOME": str(HOME),
            "SPARK_WORKER_DIR": str(self.folder / f"work{len(self.processes)}"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={log4j}",
            "PYSPARK_PYTHON": sys.executable,
        }
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    @staticmethod
    def _read(process: "subprocess.Popen[str]", pattern: str) -> str:
        """Waits for a line of the log; what comes after it is read by a thread, so that nobody waits for us."""
        assert process.stderr is not None
        for line in process.stderr:
            found = re.search(pattern, line)
            if found:
                threading.Thread(target=collections.deque, args=(process.stderr, 0), daemon=True).start()
                return found[0]
        raise AssertionError("the process ended before it was ready")

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stderr is not None:
                process.stderr.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("there is no Java")
    started = Cluster(tmp_path)
    yield started
    started.stop()


def test_on_a_standalone_master_with_two_workers(folder: Path, expected: Any, cluster: Cluster) -> None:
    """Once undisturbed, and once with a worker that is killed in a shuffle."""
    assert run(folder, cluster.url, *SMALL) == expected
    victim = cluster.processes[-1].pid
    found = run(folder, cluster.url, *SMALL, "spark.sql.shuffle.partitions=24", KILL=str(victim))
    assert found.pop("killed") == [victim]
    assert found | {"killed": []} == expected
