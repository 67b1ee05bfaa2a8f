"""What makes a process fit to be one of many brokers on few processors."""

import os
import subprocess
import sys

import pytest

from overstory.broker.process import CROWDED, are_crowded, take_turns

PROGRAM = """
import os
from overstory.broker.process import take_turns

take_turns()
child = os.fork()
if not child:
    os._exit(os.sched_getscheduler(0))
print(os.sched_getscheduler(0), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_brokers_take_turns_where_there_are_many_for_each_processor() -> None:
    processors = len(os.sched_getaffinity(0))
    assert are_crowded(CROWDED * processors)
    assert not are_crowded(CROWDED * processors - 1)
    assert not are_crowded(1)


def test_whoever_takes_turns_has_children_that_do() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(os.SCHED_BATCH)] * 2


@pytest.mark.parametrize("missing", [["SCHED_BATCH"], ["SCHED_BATCH", "sched_getaffinity", "sched_setscheduler"]])
def test_nobody_takes_turns_where_the_system_knows_no_turns(
    missing: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """FreeBSD has processors to choose from and no such turns, macOS has neither."""
    for name in missing:
        monkeypatch.delattr(os, name)
    assert not are_crowded(10**6)


def test_a_system_that_forbids_turns_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    before = os.sched_getscheduler(0)
    monkeypatch.setattr(os, "sched_setscheduler", forbid)
    take_turns()
    assert os.sched_getscheduler(0) == before
