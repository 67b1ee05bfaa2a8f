"""How large a filter may be. Filters come from strangers, and all later work grows with their size."""

import msgspec


class Limits(msgspec.Struct, frozen=True):
    length: int = 65536  # characters of text
    tokens: int = 16384
    depth: int = 64  # levels of parentheses, NOT, signs and functions
    pattern: int = 1024  # characters of a LIKE pattern
    boxes: int = 256  # in the normal form, and while it is computed


DEFAULT_LIMITS = Limits()
