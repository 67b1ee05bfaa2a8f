"""Ctrl-C ends a command at once, with one line, and leaves no process behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from overstory.errors import EngineError
from overstory.lab.localized import Localized, make_localized
from overstory.lab.topologies import topology
from overstory.pipeline import session


def processes_of(leader: int) -> list[str]:
    """The command lines of all processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == leader and fields[0] != "Z":
                    found.append((entry / "cmdline").read_text().replace("\0", " "))
            except OSError:  # it has ended meanwhile
                continue
    return found


def _heed_ctrl_c() -> None:
    """What was started in the background may ignore it, and hand that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupted") / "scenario"
    make_localized(folder, topology("transit-stub", 30, 1), Localized(keywords=20, events=20_000), 1)
    return folder


@pytest.mark.parametrize("step", ["starting Spark", "checking events", "matching events"])
def test_ctrl_c_leaves_no_process_behind(scenario: Path, step: str) -> None:
    """At that step: when Java has been started and has not answered yet, or while Spark works."""
    command = [sys.executable, "-m", "overstory.cli", "compare", str(scenario), "--planners", "spt", "--no-cache"]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=_heed_ctrl_c
    ) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith(step):
                break
        while step == "starting Spark" and not any("java" in each for each in processes_of(process.pid)):
            assert process.poll() is None
        os.kill(process.pid, signal.SIGINT)
        said += process.stderr.readlines()
        code = process.wait()
        left = [each for each in processes_of(process.pid) if "java" in each]
    assert (code, said[-1]) == (1, "overstory: interrupted\n")
    assert not [line for line in said if "Traceback" in line or "Error" in line], "".join(said)
    assert not left


def test_a_master_that_does_not_answer_is_said_at_once() -> None:
    with pytest.raises(EngineError, match=r"no Spark master answers at --master spark://127\.0\.0\.1:1 .*refused"):
        session.start("spark://127.0.0.1:1")
