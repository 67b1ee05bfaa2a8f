"""What a job on Spark takes: its processes, looked at from outside, and its tasks, from Spark's log."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

EVERY = 0.5  # seconds between two looks
KILOBYTE = 1024


class Process(NamedTuple):
    """The most that it had, in bytes. Pages of a file that several processes map count fully in ``resident``, in shares
    in ``proportional``, and not at all in ``anonymous``."""

    role: str
    resident: float
    proportional: float
    anonymous: float
    busy: float  # seconds of a core


def watch(process: "subprocess.Popen[str]") -> list[Process]:
    """Until it ends: it, and all that it started. Empty where there is no /proc."""
    return watched(process)[0]


def watched(process: "subprocess.Popen[str]") -> tuple[list[Process], float]:
    """And the most bytes, proportional, that all of them together had at one look."""
    found: dict[int, Process] = {}
    peak = 0.0
    while process.poll() is None:
        together = 0.0
        for each in _family(process.pid):
            try:
                seen = _look(each, process.pid)
            except (OSError, KeyError):
                continue  # it has just ended
            together += seen.proportional
            before = found.get(each, seen)
            found[each] = Process(seen.role, *map(max, before[1:], seen[1:]))
        peak = max(peak, together)
        time.sleep(EVERY)
    return list(found.values()), peak


def told_by(module: str, folder: Path) -> tuple[dict[str, Any], list[Process], float]:
    """Runs a module on a folder in a process of its own. Returns the JSON that the module prints, its processes, and
    the most bytes that these had together."""
    command = [sys.executable, "-m", module, str(folder)]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, text=True)
        processes, peak = watched(process)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        said.seek(0)
        return json.load(said), processes, peak


def told_here(work: Callable[[], Any]) -> tuple[Any, list[Process], float]:
    """The same of work in this process: quicker to start, and no measurement of memory."""
    said = work()
    process = _look(os.getpid(), os.getpid())
    return said, [process], process.proportional


def on_cores(count: int) -> None:
    """Has this process, and all that it starts, use no more cores than that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def _family(root: int) -> list[int]:
    children = defaultdict(list)
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            children[int(_stat(folder)[1])].append(int(folder.name))
        except OSError:
            continue
    found = [root]
    for process in found:  # grows on the way
        found += children[process]
    return found


def _look(process: int, root: int) -> Process:
    folder = Path("/proc") / str(process)
    status, shares, stat = _fields(folder / "status"), _fields(folder / "smaps_rollup"), _stat(folder)
    role = "driver" if process == root else "Java" if status["Name"] == "java" else "Python worker"
    resident, shared, anonymous = (
        int(size.split()[0]) * KILOBYTE for size in (status["VmHWM"], shares["Pss"], status["RssAnon"])
    )
    busy = (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")
    return Process(role, resident, shared, anonymous, busy)


def _stat(folder: Path) -> list[str]:
    """What follows the name, in which there may be anything: the state, the parent …"""
    return (folder / "stat").read_text().rpartition(")")[2].split()


def _fields(path: Path) -> dict[str, str]:
    return {name: value.strip() for name, _, value in (line.partition(":") for line in path.read_text().splitlines())}


class Stage(NamedTuple):
    tasks: int
    largest: float  # seconds
    median: float
    read: int  # bytes, of shuffles
    written: int
    spilled: int  # bytes as they were in memory
    spilled_to_disk: int


def stages_of(log: Path) -> list[Stage]:
    """Of a log of events that Spark wrote, those stages that ran, in order."""
    ended = defaultdict(list)
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd":
            ended[event["Stage ID"]].append((event["Task Info"], event["Task Metrics"]))
    return [_stage(ended[stage]) for stage in sorted(ended)]


def _stage(tasks: list[tuple[dict[str, int], dict[str, object]]]) -> Stage:
    times = [(info["Finish Time"] - info["Launch Time"]) / 1000 for info, _ in tasks]
    sums: dict[str, int] = defaultdict(int)
    for _, metrics in tasks:
        for group in (metrics, metrics["Shuffle Read Metrics"], metrics["Shuffle Write Metrics"]):
            assert isinstance(group, dict)
            for name, value in group.items():
                if isinstance(value, int):
                    sums[name] += value
    return Stage(
        len(tasks),
        max(times),
        statistics.median(times),
        sums["Remote Bytes Read"] + sums["Local Bytes Read"],
        sums["Shuffle Bytes Written"],
        sums["Memory Bytes Spilled"],
        sums["Disk Bytes Spilled"],
    )
