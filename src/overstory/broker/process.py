"""How a process becomes fit to be a broker: as many connections as the system allows, and no long pauses."""

import gc
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress

COLLECTED = 10_000, 10, 10**9  # objects; young collections; and never the old ones
CROWDED = 2  # brokers for each processor, from which on none is interrupted for another


def prepare_process() -> None:
    """Lets the process have as many connections as it may, and spares it long pauses to look for garbage: only what is
    young is looked through, for what is old is much and hardly ever goes. Processes that it forks are prepared, too."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED)


def are_crowded(brokers: int) -> bool:
    """Whether so many brokers have to take turns on the processors that this process may use."""
    return hasattr(os, "SCHED_BATCH") and brokers >= CROWDED * len(os.sched_getaffinity(0))


def take_turns() -> None:
    """Has the system let whoever runs go on when another one wakes up: a broker that sends something to a neighbour is
    not interrupted for it, and both handle more at once. Processes that it forks take turns, too."""
    with suppress(OSError):  # where the system forbids it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


@contextmanager
def prepared_process() -> Iterator[None]:
    """Prepares the process for as long as the block lasts, apart from the number of its connections."""
    before = gc.get_threshold()
    prepare_process()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
