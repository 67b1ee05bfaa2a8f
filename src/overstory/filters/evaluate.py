"""The meaning of a syntax tree: a function from an event's attributes to True, False or None for unknown.

A tree is turned once into nested Python functions, so that evaluating it costs a few calls and no dispatch. The
one case that must be fast is an attribute compared with a constant; the rest goes through ``compare``.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import fmod, isfinite
from typing import Any, TypeAlias

from overstory.filters.lexer import INT64
from overstory.filters.like import matcher
from overstory.filters.operators import COMPARISONS, Comparison
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
from overstory.model.values import (
    Attributes,
    boolean_face,
    is_absent,
    list_face,
    number_face,
    string_face,
)

Truth: TypeAlias = bool | None
Test: TypeAlias = Callable[[Attributes], Truth]
Operand: TypeAlias = Callable[[Attributes], object]  # None stands for unknown and for absent alike


def compile_condition(condition: Condition) -> Test:
    return CONDITIONS[type(condition)](condition)


def compile_value(value: Value) -> Operand:
    return VALUES[type(value)](value)


# Conditions


def _bare_attribute(node: Attribute) -> Test:
    name = node.name
    return lambda attributes: boolean_face(attributes.get(name))


def _constant(node: Literal) -> Test:
    truth = node.value if isinstance(node.value, bool) else None
    return lambda attributes: truth


def _signed_condition(node: Signed) -> Test:
    return lambda attributes: None  # a number or unknown, and never a truth


def _is_null(node: IsNull) -> Test:
    name = node.name
    return lambda attributes: is_absent(attributes.get(name))


def _has_any(node: HasAny) -> Test:
    name, words = node.name, node.words

    def has_any(attributes: Attributes) -> Truth:
        found = list_face(attributes.get(name))
        return None if found is None else not words.isdisjoint(found)

    return has_any


def _like(node: LikeTest) -> Test:
    operand, matches = compile_value(node.operand), matcher(node.like)

    def like(attributes: Attributes) -> Truth:
        text = operand(attributes)
        if type(text) is not str:
            text = string_face(text)
            if text is None:
                return None
        return matches(text)

    return like


def _not(node: Not) -> Test:
    operand = compile_condition(node.operand)

    def negation(attributes: Attributes) -> Truth:
        truth = operand(attributes)
        return None if truth is None else not truth

    return negation


def _and(node: And) -> Test:
    tests = tuple(map(compile_condition, node.operands))

    def conjunction(attributes: Attributes) -> Truth:
        result: Truth = True
        for test in tests:
            truth = test(attributes)
            if truth is False:
                return False
            if truth is None:
                result = None
        return result

    return conjunction


def _or(node: Or) -> Test:
    return _any_of(tuple(map(compile_condition, node.operands)))


def _any_of(tests: Sequence[Test]) -> Test:
    def disjunction(attributes: Attributes) -> Truth:
        result: Truth = False
        for test in tests:
            truth = test(attributes)
            if truth is True:
                return True
            if truth is None:
                result = None
        return result

    return disjunction


def _in(node: In) -> Test:
    values = [option.value for option in node.options if isinstance(option, Literal)]
    if isinstance(node.operand, Attribute) and len(values) == len(node.options):
        kinds = {type(value) for value in values}
        if kinds == {str}:
            return _attribute_in(node.operand.name, str, string_face, frozenset(values))
        if kinds <= {int, float}:
            return _attribute_in(node.operand.name, int, number_face, frozenset(values))
    return _any_of([compile_condition(Compare("=", node.operand, option)) for option in node.options])


def _attribute_in(name: str, usual: type, face: Callable[[object], object], options: frozenset[object]) -> Test:
    def is_in(attributes: Attributes) -> Truth:
        value = attributes.get(name)
        if type(value) is not usual:
            value = face(value)
            if value is None:
                return None
        return value in options

    return is_in


def _compare(node: Compare) -> Test:
    comparison = COMPARISONS[node.operator]
    if isinstance(node.left, Attribute) and isinstance(node.right, Literal):
        return _compare_with_constant(node.left.name, comparison, node.right.value)
    if isinstance(node.left, Literal) and isinstance(node.right, Attribute):
        return _compare_with_constant(node.right.name, COMPARISONS[comparison.flipped], node.left.value)
    left, right = compile_value(node.left), compile_value(node.right)
    return lambda attributes: compare(comparison, left(attributes), right(attributes))


def _compare_with_constant(name: str, comparison: Comparison, constant: Any) -> Test:
    if isinstance(constant, bool):
        return _compare_boolean(name, comparison, constant)
    return (_compare_string if isinstance(constant, str) else _compare_number)(name, comparison.holds, constant)


def _compare_number(name: str, holds: Callable[[Any, Any], bool], constant: int | float) -> Test:
    def compare_number(attributes: Attributes) -> Truth:
        value = attributes.get(name)
        if type(value) is not int and (type(value) is not float or value != value):
            value = number_face(value)
            if value is None:
                return None
        return holds(value, constant)

    return compare_number


def _compare_string(name: str, holds: Callable[[Any, Any], bool], constant: str) -> Test:
    def compare_string(attributes: Attributes) -> Truth:
        value = attributes.get(name)
        if type(value) is not str:
            value = string_face(value)
            if value is None:
                return None
        return holds(value, constant)

    return compare_string


def _compare_boolean(name: str, comparison: Comparison, constant: bool) -> Test:
    def compare_boolean(attributes: Attributes) -> Truth:
        value = None if comparison.ordering else boolean_face(attributes.get(name))
        return None if value is None else comparison.holds(value, constant)

    return compare_boolean


def compare(comparison: Comparison, left: object, right: object) -> Truth:
    """Compares two values by the face that both have: number, boolean or string. Unknown if they share none."""
    for face in (number_face, boolean_face, string_face):
        x, y = face(left), face(right)
        if x is not None and y is not None:
            return None if face is boolean_face and comparison.ordering else comparison.holds(x, y)
    return None


# Values


def _attribute(node: Attribute) -> Operand:
    name = node.name
    return lambda attributes: attributes.get(name)


def _literal(node: Literal) -> Operand:
    value = node.value
    return lambda attributes: value


def _signed(node: Signed) -> Operand:
    operand, negative = compile_value(node.operand), node.sign == "-"

    def signed(attributes: Attributes) -> object:
        number = _calculable(operand(attributes))
        return None if number is None else _held(-number if negative else number)

    return signed


def _arithmetic(node: Arithmetic) -> Operand:
    calculate = ARITHMETIC[node.operator]
    left, right = compile_value(node.left), compile_value(node.right)

    def arithmetic(attributes: Attributes) -> object:
        x, y = _calculable(left(attributes)), _calculable(right(attributes))
        if x is None or y is None:
            return None
        try:
            return _held(calculate(x, y))
        except (ZeroDivisionError, OverflowError, ValueError):
            return None

    return arithmetic


def _calculable(value: object) -> int | float | None:
    """The number that arithmetic takes a value for. A fraction counts as the nearest float."""
    number = number_face(value)
    if not isinstance(number, Fraction):
        return number
    try:
        return float(number)
    except OverflowError:
        return None


def _held(number: int | float) -> int | float | None:
    """The result itself, or unknown if it is beyond 64-bit integers or finite floats."""
    if isinstance(number, int):
        return number if number in INT64 else None
    return number if isfinite(number) else None


def _remainder(x: int | float, y: int | float) -> int | float:
    """The remainder has the sign of the dividend, as in Java and SQL and unlike Python's ``%``."""
    if isinstance(x, int) and isinstance(y, int):
        return x - y * (abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1))
    return fmod(x, y)


ARITHMETIC: dict[str, Callable[[int | float, int | float], int | float]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "%": _remainder,
}


def _function(node: Function) -> Operand:
    if node.name in CASES:
        return _case(node)
    text, count = map(compile_value, node.arguments)
    from_left = node.name == "LEFT"

    def part(attributes: Attributes) -> object:
        whole, length = string_face(text(attributes)), number_face(count(attributes))
        if whole is None or not isinstance(length, int) or length < 0:
            return None
        return whole[:length] if from_left else whole[max(0, len(whole) - length) :]

    return part


def _case(node: Function) -> Operand:
    convert, operand = CASES[node.name], compile_value(node.arguments[0])

    def case(attributes: Attributes) -> object:
        text = string_face(operand(attributes))
        return None if text is None else convert(text)

    return case


CASES: dict[str, Callable[[str], str]] = {"LOWER": str.lower, "UPPER": str.upper}

CONDITIONS: dict[type, Callable[[Any], Test]] = {
    Attribute: _bare_attribute,
    Literal: _constant,
    Signed: _signed_condition,
    IsNull: _is_null,
    HasAny: _has_any,
    LikeTest: _like,
    Compare: _compare,
    In: _in,
    Not: _not,
    And: _and,
    Or: _or,
}
VALUES: dict[type, Callable[[Any], Operand]] = {
    Attribute: _attribute,
    Literal: _literal,
    Signed: _signed,
    Arithmetic: _arithmetic,
    Function: _function,
}
