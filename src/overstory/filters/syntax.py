"""The syntax tree that every front end builds.

*Values* are what can be compared; *conditions* are true, false or unknown. An attribute is both. ``And`` and
``Or`` know where they stand in the text, so that a filter that is too large can say where.
"""

from typing import TypeAlias

import msgspec

from overstory.filters.like import Like


class Attribute(msgspec.Struct, frozen=True, gc=False):
    name: str


class Literal(msgspec.Struct, frozen=True, gc=False):
    value: bool | int | float | str


class Signed(msgspec.Struct, frozen=True, gc=False):
    sign: str  # + or -
    operand: "Value"


class Arithmetic(msgspec.Struct, frozen=True, gc=False):
    operator: str  # + - * / %
    left: "Value"
    right: "Value"


class Function(msgspec.Struct, frozen=True, gc=False):
    name: str  # upper case, of operators.FUNCTIONS
    arguments: "tuple[Value, ...]"


class Compare(msgspec.Struct, frozen=True, gc=False):
    operator: str  # of operators.COMPARISONS
    left: "Value"
    right: "Value"


class In(msgspec.Struct, frozen=True, gc=False):
    operand: "Value"
    options: "tuple[Value, ...]"


class LikeTest(msgspec.Struct, frozen=True, gc=False):
    operand: "Value"
    like: Like


class IsNull(msgspec.Struct, frozen=True, gc=False):
    name: str


class HasAny(msgspec.Struct, frozen=True, gc=False):
    name: str
    words: frozenset[str]


class Not(msgspec.Struct, frozen=True, gc=False):
    operand: "Condition"


class And(msgspec.Struct, frozen=True, gc=False):
    operands: "tuple[Condition, ...]"
    position: int = 0


class Or(msgspec.Struct, frozen=True, gc=False):
    operands: "tuple[Condition, ...]"
    position: int = 0


Value: TypeAlias = Attribute | Literal | Signed | Arithmetic | Function
Condition: TypeAlias = Attribute | Signed | Literal | Compare | In | LikeTest | IsNull | HasAny | Not | And | Or
