"""How a process becomes fit to be a broker: as many connections as the system allows, and no long pauses."""

import gc
import resource
from collections.abc import Iterator
from contextlib import contextmanager

COLLECTED = 10_000, 10, 10**9  # objects; young collections; and never the old ones


def prepare_process() -> None:
    """Lets the process have as many connections as it may, and spares it long pauses to look for garbage: only what is
    young is looked through, for what is old is much and hardly ever goes. Processes that it forks are prepared, too."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTED)


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
