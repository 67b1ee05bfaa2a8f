"""Room on Python's stack for a question that makes millions of calls.

CPython keeps the frames of calls in pieces of 16 KB of memory. A call that does not fit into the last piece gets a new
one from the system and gives it back on return, which takes ten to twenty times as long as the call itself. A loop
that happens to run at such a depth does so on every turn, and its author chooses the depth with parentheses. A call
that needs more than such a piece gets a larger one, and what it calls finds room there.
"""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
SLOTS = 16_500  # more than 128 KB, so that the piece has 256 KB, and half of it is left


def with_room(ask: Callable[[], T]) -> T:
    """Calls ``ask`` and returns what it returns. Room takes some microseconds: ask for it where much is to do."""
    return ask()


with_room.__code__ = with_room.__code__.replace(co_stacksize=SLOTS)
