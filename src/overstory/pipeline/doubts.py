"""Why a filter may never match: what it asks for is in no event, or is of another type than it is compared with.

A filter is right or wrong by its syntax alone, and what it does not find is only unknown. So a misspelt attribute is no
error anywhere; here it is seen, against the columns of a log.
"""

from collections.abc import Iterator, Mapping

import pyarrow as pa

from overstory.filters import parse_filter
from overstory.filters.printing import print_literal
from overstory.filters.syntax import (
    And,
    Arithmetic,
    Attribute,
    Compare,
    Condition,
    Function,
    HasAny,
    In,
    IsNull,
    LikeTest,
    Literal,
    Not,
    Or,
    Signed,
    Value,
)
from overstory.model.naming import near_words

NUMBER, STRING, TRUTH, LIST = "a number", "a string", "true or false", "a list"
ORDERINGS = ("<", "<=", ">", ">=")


class Columns:
    """The attributes of a log, and the columns that it had for other ends."""

    def __init__(self, types: Mapping[str, pa.DataType], taken: Mapping[str, str]) -> None:
        """``taken`` are columns that an option took away, by name: ``{"size": "--bytes"}``."""
        self.families = {name: _family(type_) for name, type_ in types.items()}
        self.taken = taken

    def doubts(self, text: str) -> list[str]:
        """What is doubtful in a filter, in words; nothing if all that it asks for can be."""
        return list(dict.fromkeys(self._condition(parse_filter(text).condition)))

    def _condition(self, condition: Condition) -> Iterator[str]:
        if isinstance(condition, And | Or):
            for operand in condition.operands:
                yield from self._condition(operand)
        elif isinstance(condition, Not):
            yield from self._condition(condition.operand)
        elif isinstance(condition, Attribute):
            yield from self._wanted(condition, TRUTH, "stands alone")
        elif isinstance(condition, Compare):
            yield from self._compared(condition.left, condition.right, condition.operator)
        elif isinstance(condition, In):
            for option in condition.options:
                yield from self._compared(condition.operand, option, "=")
        elif isinstance(condition, LikeTest):
            yield from self._wanted(condition.operand, STRING, "has to be LIKE a text")
        elif isinstance(condition, HasAny):
            yield from self._wanted(Attribute(condition.name), LIST, "is asked what it HAS ANY of")
        elif isinstance(condition, IsNull):
            yield from self._absent(condition.name)

    def _compared(self, left: Value, right: Value, operator: str) -> Iterator[str]:
        yield from self._inside(left)
        yield from self._inside(right)
        for one, other in ((left, right), (right, left)):
            if isinstance(one, Attribute) and one.name not in self.families:
                hint = ""
                if isinstance(other, Attribute) and other.name in self.families and operator not in ORDERINGS:
                    hint = f"; a string stands in single quotes: {other.name} {operator} {print_literal(one.name)}"
                yield from self._absent(one.name, hint)
        ours, theirs = self._family(left), self._family(right)
        if ours is None or theirs is None:
            return
        if ours != theirs or LIST in (ours, theirs):
            hint = "; ask a list what it HAS ANY of" if LIST in (ours, theirs) else ""
            yield f"{self._shown(left)} is {ours}, and is compared with {self._shown(right)}, which is {theirs}{hint}"
        elif ours == TRUTH and operator in ORDERINGS:
            yield f"{self._shown(left)} is {ours}, and has no order"

    def _wanted(self, value: Value, family: str, how: str) -> Iterator[str]:
        yield from self._inside(value)
        if isinstance(value, Attribute) and value.name not in self.families:
            yield from self._absent(value.name)
            return
        found = self._family(value)
        if found is not None and found != family:
            yield f"{self._shown(value)} {how} as if it were {family}, and is {found}"

    def _inside(self, value: Value) -> Iterator[str]:
        if isinstance(value, Signed):
            yield from self._wanted(value.operand, NUMBER, "is reckoned with")
        elif isinstance(value, Arithmetic):
            for operand in (value.left, value.right):
                yield from self._wanted(operand, NUMBER, "is reckoned with")
        elif isinstance(value, Function):
            for argument in value.arguments[:1]:
                yield from self._wanted(argument, STRING, f"stands in {value.name}()")

    def _absent(self, name: str, hint: str = "") -> Iterator[str]:
        if name in self.families:
            return
        if name in self.taken:
            yield f"'{name}' is no attribute, as {self.taken[name]} took the column"
        else:
            yield f"no event has '{name}'{hint or near_words(name, self.families)}"

    def _family(self, value: Value) -> str | None:
        """None if that is not known, or if there is no such attribute."""
        if isinstance(value, Attribute):
            return self.families.get(value.name)
        if isinstance(value, Literal):
            kind = type(value.value)
            return TRUTH if kind is bool else STRING if kind is str else NUMBER
        return STRING if isinstance(value, Function) else NUMBER

    def _shown(self, value: Value) -> str:
        if isinstance(value, Attribute):
            return f"'{value.name}'"
        return print_literal(value.value) if isinstance(value, Literal) else "the other side"


def attributes_in(text: str) -> list[str]:
    """The attributes that a filter asks for, in the order in which it does."""
    found: dict[str, None] = {}

    def visit(node: object) -> None:
        if isinstance(node, Attribute | IsNull | HasAny):
            found[node.name] = None
        elif isinstance(node, tuple):
            for child in node:
                visit(child)
        elif isinstance(node, Signed | Arithmetic | Function | Compare | In | LikeTest | Not | And | Or):
            for name in node.__struct_fields__:
                visit(getattr(node, name))

    visit(parse_filter(text).condition)
    return list(found)


def _family(type_: pa.DataType) -> str:
    if pa.types.is_boolean(type_):
        return TRUTH
    if pa.types.is_string(type_):
        return STRING
    return LIST if pa.types.is_list(type_) else NUMBER
