"""The syntax tree that every front end builds.

*Values* are what can be compared; *conditions* are true, false or unknown. An attribute is both. What can make a
normal form too large knows the token where it stands, its ``position``.
"""

import sys
from functools import lru_cache
from typing import TypeAlias

import msgspec

from overstory.filters.like import Like


class Attribute(msgspec.Struct, frozen=True, gc=False):
    name: str


@lru_cache(4096)
def attribute(name: str) -> Attribute:
    """The attribute of this name. Many filters ask about few attributes, and share them."""
    return Attribute(sys.intern(name))


class Literal(msgspec.Struct, frozen=True, gc=False, eq=False):
    """A constant in a filter. Constants are equal only if their types are: x + 1, x + 1.0 and x + TRUE all differ."""

    value: bool | int | float | str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash((type(self.value), self.value))


class Signed(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    sign: str  # + or -
    operand: "Value"


class Arithmetic(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    operator: str  # + - * / %
    left: "Value"
    right: "Value"


class Function(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    name: str  # upper case, of operators.FUNCTIONS
    arguments: "tuple[Value, ...]"


class Compare(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    operator: str  # of operators.COMPARISONS
    left: "Value"
    right: "Value"


class In(msgspec.Struct, frozen=True, gc=False):
    operand: "Value"
    options: "tuple[Value, ...]"
    position: int = 0


class LikeTest(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    operand: "Value"
    like: Like


class IsNull(msgspec.Struct, frozen=True, gc=False):
    name: str


class HasAny(msgspec.Struct, frozen=True, gc=False):
    name: str
    words: frozenset[str]


class Not(msgspec.Struct, frozen=True, gc=False, cache_hash=True):
    operand: "Condition"


class And(msgspec.Struct, frozen=True, gc=False):
    operands: "tuple[Condition, ...]"
    position: int = 0


class Or(msgspec.Struct, frozen=True, gc=False):
    operands: "tuple[Condition, ...]"
    position: int = 0


Value: TypeAlias = Attribute | Literal | Signed | Arithmetic | Function
Condition: TypeAlias = Attribute | Signed | Literal | Compare | In | LikeTest | IsNull | HasAny | Not | And | Or
