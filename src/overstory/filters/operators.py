"""The operators and functions of the language, once, as data: parsers, evaluation, normal form and docs read it."""

import operator
from collections.abc import Callable
from typing import Any

import msgspec


class Comparison(msgspec.Struct, frozen=True):
    symbol: str
    holds: Callable[[Any, Any], bool]
    negated: str  # NOT (a op b) is a negated b, also where the result is unknown
    flipped: str  # a op b is b flipped a
    ordering: bool  # needs an order, which booleans do not have


COMPARISONS = {
    comparison.symbol: comparison
    for comparison in (
        Comparison("=", operator.eq, "<>", "=", False),
        Comparison("<>", operator.ne, "=", "<>", False),
        Comparison("<", operator.lt, ">=", ">", True),
        Comparison("<=", operator.le, ">", ">=", True),
        Comparison(">", operator.gt, "<=", "<", True),
        Comparison(">=", operator.ge, "<", "<=", True),
    )
}
COMPARISON_TOKENS = {symbol: symbol for symbol in COMPARISONS} | {"!=": "<>"}  # as written, and as meant

BINDING = {"+": 1, "-": 1, "*": 2, "/": 2, "%": 2}  # how tightly an arithmetic operator binds

FUNCTIONS = {"LOWER": 1, "UPPER": 1, "LEFT": 2, "RIGHT": 2}  # and their number of arguments
RESERVED = frozenset(["AND", "OR", "NOT", "TRUE", "FALSE", "NULL", "IS", "IN", "LIKE", "BETWEEN", "ESCAPE"])

# PADRES writes numeric comparisons as SQL does
PADRES_STRING_OPERATORS = {
    "eq": "=",
    "neq": "<>",
    "str-lt": "<",
    "str-le": "<=",
    "str-gt": ">",
    "str-ge": ">=",
}
PADRES_PATTERN_OPERATORS = ("str-prefix", "str-postfix", "str-contains")
PADRES_PRESENCE = "isPresent"
