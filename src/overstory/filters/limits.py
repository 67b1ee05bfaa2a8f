"""How large a filter may be. Filters come from strangers, and all later work grows with their size."""

import msgspec

from overstory.errors import UsageError

MOST_DEPTH, MOST_OPERATORS = 80, 300


class Limits(msgspec.Struct, frozen=True):
    length: int = 65536  # characters of text
    tokens: int = 16384
    depth: int = 64  # levels of parentheses, NOT, signs and functions
    operators: int = 256  # arithmetic operators; a sum of n terms is a tree n levels high
    pattern: int = 256  # characters of a LIKE pattern
    patterns: int = 16  # LIKE patterns beyond a prefix, or HAS ANY lists, on one attribute of a box
    boxes: int = 256  # in the normal form, and while it is computed
    work: int = 150_000  # steps of computing the normal form, at most about a microsecond each

    def __post_init__(self) -> None:
        if self.depth > MOST_DEPTH or self.operators > MOST_OPERATORS:
            raise UsageError(
                f"depth can be at most {MOST_DEPTH} and operators {MOST_OPERATORS}: Python's stack ends there"
            )


DEFAULT_LIMITS = Limits()
