"""How commands that plan or install give way to brokers on the same machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

BEHIND = 10  # steps of niceness: a ninth of the share of a broker that wants the same processor


@contextmanager
def behind_brokers() -> Iterator[None]:
    """Lets this process have processors that nobody else wants, for as long as the block lasts. Whoever may not take
    that back stays behind."""
    before = os.nice(0)
    os.nice(BEHIND)
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.nice(before - os.nice(0))
