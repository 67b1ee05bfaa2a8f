"""Random syntax trees, their text, and random events."""

import math
from typing import Any

from hypothesis import strategies as st

from overstory import Untyped
from overstory.filters import syntax as s
from overstory.filters.like import parse_like
from overstory.filters.operators import COMPARISONS
from overstory.filters.printing import print_like, print_literal, print_name

NUMBERS: list[int | float] = [-1, 0, 1, 2, 5, 0.5, -2.5, 2**53 + 1, float(2**53), -(2**63), 2**63 - 1, 1e300]
STRINGS = ["", "a", "ab", "b", "a\0", "5", "true", "-1", "1e5", "it's", "%", "é🙂"]
PATTERNS = ["", "%", "a%", "%a", "%b%", "a_", "_", "_%", "%_a", "a%b", "ab", "5%", "%%"]
WORDS = ["a", "b", "c"]
NAMES = ["x", "y", "order.id", "content-type", "AND"]

numbers = st.sampled_from(NUMBERS) | st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
numbers |= st.floats(allow_nan=False, allow_infinity=False)
strings = st.sampled_from(STRINGS) | st.text(max_size=4)
scalars = numbers | strings | st.booleans()
names = st.sampled_from(NAMES)
attributes = st.builds(s.Attribute, names)
operators = st.sampled_from(sorted(COMPARISONS))
likes = st.builds(parse_like, st.sampled_from(PATTERNS) | st.text("ab%_", max_size=5))
word_sets = st.frozensets(st.sampled_from(WORDS), min_size=1)


def literals(values: st.SearchStrategy[Any]) -> st.SearchStrategy[s.Literal]:
    return st.builds(s.Literal, values)


values = st.recursive(
    attributes | literals(scalars),
    lambda inner: (
        st.builds(s.Arithmetic, st.sampled_from("+-*/%"), inner, inner)
        | st.builds(s.Signed, st.sampled_from("+-"), inner)
        | st.builds(lambda name, value: s.Function(name, (value,)), st.sampled_from(["LOWER", "UPPER"]), inner)
        | st.builds(lambda name, *both: s.Function(name, both), st.sampled_from(["LEFT", "RIGHT"]), inner, inner)
    ),
    max_leaves=4,
)

leaves: st.SearchStrategy[Any] = (
    st.builds(s.Compare, operators, attributes, literals(scalars))
    | st.builds(s.Compare, operators, literals(scalars), attributes)
    | st.builds(s.In, attributes, st.lists(literals(scalars), min_size=1, max_size=4).map(tuple))
    | st.builds(s.LikeTest, attributes, likes)
    | st.builds(s.IsNull, names)
    | st.builds(s.HasAny, names, word_sets)
    | attributes
    | literals(st.booleans())
)
opaque_leaves: st.SearchStrategy[Any] = (
    st.builds(s.Compare, operators, values, values)
    | st.builds(s.In, values, st.lists(values, min_size=1, max_size=3).map(tuple))
    | st.builds(s.LikeTest, values, likes)
)


def trees(leaf: st.SearchStrategy[Any], most: int = 8) -> st.SearchStrategy[Any]:
    def larger(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        several = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.builds(s.Not, inner) | st.builds(s.And, several) | st.builds(s.Or, several)

    return st.recursive(leaf, larger, max_leaves=most)


conditions = trees(leaves | opaque_leaves)

# Filters that are exactly unions of boxes: one type to an attribute, no pattern beyond a prefix
small = st.sampled_from([0, 1, 2, 2.5])
texts = st.sampled_from(["", "a", "ab", "b", "a\0"])
box_leaves: st.SearchStrategy[Any] = (
    st.builds(s.Compare, operators, st.just(s.Attribute("n")), literals(small))
    | st.builds(s.In, st.just(s.Attribute("n")), st.lists(literals(small), min_size=1, max_size=3).map(tuple))
    | st.builds(s.Compare, operators, st.just(s.Attribute("t")), literals(texts))
    | st.builds(s.LikeTest, st.just(s.Attribute("t")), st.sampled_from(["a%", "%", "ab%"]).map(parse_like))
    | st.builds(s.HasAny, st.just("k"), word_sets)
    | st.builds(s.IsNull, st.sampled_from(["n", "t", "k", "b"]))
    | st.just(s.Attribute("b"))
)
box_conditions = trees(box_leaves, most=6)

event_values = (
    scalars
    | st.none()
    | st.lists(st.sampled_from([*WORDS, "z"]), max_size=3)
    | st.sampled_from([math.nan, math.inf, -math.inf, 2**70, {"a": 1}, [1, "a"], b"a"])
    | st.builds(Untyped, strings | st.sampled_from(["5.0", "+5", " 5", "05", "false", "1e999", "-0", "2.5"]))
)
events = st.dictionaries(names, event_values)


def text_of(node: Any) -> str:  # noqa: C901
    """SQL with every parenthesis that could matter."""
    match node:
        case s.Literal(value):
            return print_literal(value)
        case s.Attribute(name):
            return print_name(name)
        case s.Signed(sign, operand):
            return f"{sign}({text_of(operand)})"
        case s.Arithmetic(operator, left, right):
            return f"({text_of(left)}) {operator} ({text_of(right)})"
        case s.Function(name, arguments):
            return f"{name}({', '.join(map(text_of, arguments))})"
        case s.Compare(operator, left, right):
            return f"({text_of(left)}) {operator} ({text_of(right)})"
        case s.In(operand, options):
            return f"({text_of(operand)}) IN ({', '.join(map(text_of, options))})"
        case s.LikeTest(operand, like):
            return f"({text_of(operand)}) LIKE {print_like(like)}"
        case s.IsNull(name):
            return f"{print_name(name)} IS NULL"
        case s.HasAny(name, words):
            return f"{print_name(name)} HAS ANY ({', '.join(map(print_literal, sorted(words)))})"
        case s.Not(operand):
            return f"NOT ({text_of(operand)})"
        case s.And(operands):
            return " AND ".join(f"({text_of(operand)})" for operand in operands)
        case s.Or(operands):
            return " OR ".join(f"({text_of(operand)})" for operand in operands)
    raise AssertionError(node)
