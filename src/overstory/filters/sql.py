"""The SQL front end: text to syntax tree, by recursive descent, one method per level of the grammar.

    condition   = conjunction { OR conjunction }
    conjunction = test { AND test }
    test        = NOT test | sum [ comparison sum | [NOT] (BETWEEN … | IN … | LIKE … | HAS ANY …) | IS [NOT] NULL ]
    sum         = primary { (+|-|*|/|%) primary }, the last three binding more tightly
    primary     = (+|-) primary | number | string | name | TRUE | FALSE | FUNCTION(…) | EXISTS(…) | (condition)

Parentheses hold conditions and values alike, so the levels below ``test`` may give either; ``as_condition`` and
``as_value`` tell them apart where it matters.
"""

from collections.abc import Callable
from typing import NoReturn, TypeVar

from overstory.errors import FilterSyntaxError
from overstory.filters.lexer import END, NUMBER_START, Tokens, is_bare_name, starts_name
from overstory.filters.like import parse_like
from overstory.filters.limits import Limits
from overstory.filters.operators import BINDING, COMPARISON_TOKENS, FUNCTIONS, RESERVED
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
    attribute,
)

ONLY_CONDITIONS = frozenset((Compare, In, LikeTest, IsNull, HasAny, Not, And, Or))
Node = Condition | Value
T = TypeVar("T")


def parse_sql(text: str, limits: Limits) -> Condition:
    parser = Parser(text, limits)
    condition = parser.as_condition(parser.condition(), 0)
    if parser.tokens[parser.index] != END:
        parser.wrong("expected AND, OR or the end of the filter")
    return condition


class Parser(Tokens):
    operators = 0  # arithmetic ones so far

    # Logic

    def condition(self) -> Node:
        start = self.index
        first = self.conjunction()
        operator = self.index
        if self.words[operator] != "OR":
            return first
        operands = [*_operands(self.as_condition(first, start), Or)]
        while self.words[self.index] == "OR":
            self.index = start = self.index + 1
            operands += _operands(self.as_condition(self.conjunction(), start), Or)
        return Or(tuple(operands), operator)

    def conjunction(self) -> Node:
        start = self.index
        first = self.test()
        operator = self.index
        if self.words[operator] != "AND":
            return first
        operands = [*_operands(self.as_condition(first, start), And)]
        while self.words[self.index] == "AND":
            self.index = start = self.index + 1
            operands += _operands(self.as_condition(self.test(), start), And)
        return And(tuple(operands), operator)

    def negation(self) -> Node:
        self.deeper()
        self.index = start = self.index + 1
        operand = self.as_condition(self.test(), start)
        self.depth -= 1
        return Not(operand)

    def test(self) -> Node:
        start = self.index
        if self.words[start] == "NOT":
            return self.negation()
        left = self.sum()
        token = self.tokens[self.index]
        symbol = COMPARISON_TOKENS.get(token)
        if symbol is not None:
            value = self.as_value(left, start)
            self.index += 1
            return Compare(symbol, value, self.operand())
        keyword = self.words[self.index]
        negated = keyword == "NOT"
        if negated:
            keyword = self.words[self.index + 1]
        rest = TESTS.get(keyword)
        if rest is None or (negated and keyword == "IS"):
            if negated:
                self.wrong("expected BETWEEN, IN, LIKE or HAS ANY after NOT", self.index + 1)
            return left
        value = self.as_value(left, start)
        self.index += 1 + negated
        condition = rest(self, value, start)
        return Not(condition) if negated else condition

    def is_null(self, left: Value, start: int) -> Condition:
        negated = self.words[self.index] == "NOT"
        self.index += negated
        self.expect("NULL")
        if isinstance(left, Literal):
            return Literal(negated)
        if not isinstance(left, Attribute):
            self.wrong("only an attribute can be tested with IS NULL", start)
        return Not(IsNull(left.name)) if negated else IsNull(left.name)

    def between(self, left: Value, start: int) -> Condition:
        operator = self.index - 1
        low = self.operand()
        self.expect("AND")
        return And((Compare(">=", left, low), Compare("<=", left, self.operand())), operator)

    def is_in(self, left: Value, start: int) -> Condition:
        operator = self.index - 1
        return In(left, tuple(self.list_of(self.operand)), operator)

    def like(self, left: Value, start: int) -> Condition:
        at = self.index
        pattern = self.string("the pattern of LIKE")
        escape = None
        if self.words[self.index] == "ESCAPE":
            self.index += 1
            escape = self.string("the escape character")
            if len(escape) != 1:
                self.wrong("the escape is not one character", self.index - 1)
        try:
            like = parse_like(pattern, escape)
        except ValueError as error:
            self.wrong(str(error), at)
        if like.length() > self.limits.pattern:
            self.over_limit(f"the LIKE pattern is longer than {self.limits.pattern} characters", at)
        return LikeTest(left, like)

    def has_any(self, left: Value, start: int) -> Condition:
        if type(left) is not Attribute:
            self.wrong("only an attribute can be tested with HAS ANY", start)
        self.expect("ANY")
        return HasAny(left.name, frozenset(self.list_of(lambda: self.string("a word of HAS ANY"))))

    def list_of(self, item: Callable[[], T]) -> list[T]:
        self.expect("(")
        items = [item()]
        while self.tokens[self.index] == ",":
            self.index += 1
            items.append(item())
        self.expect(")", "expected ',' or ')'")
        return items

    # Values

    def operand(self) -> Value:
        start = self.index
        node = self.sum()
        return self.as_value(node, start) if type(node) in ONLY_CONDITIONS else node  # type: ignore[return-value]

    def sum(self, loosest: int = 0) -> Node:
        """Reads values joined by operators that bind more tightly than ``loosest``, from left to right."""
        start = self.index
        token = self.tokens[start]
        if token.isidentifier() and self.tokens[start + 1] != "(" and self.words[start] not in RESERVED:
            self.index = start + 1  # a plain name, as nearly all are
            left: Node = attribute(token)
        else:
            left = PRIMARIES.get(token[:1], Parser.name)(self)
        while (operator := self.tokens[self.index]) in BINDING and BINDING[operator] > loosest:
            self.operators += 1
            if self.operators > self.limits.operators:
                self.over_limit(f"the filter has more than {self.limits.operators} arithmetic operators")
            value = self.as_value(left, start)
            self.index = right_start = self.index + 1
            left = Arithmetic(operator, value, self.as_value(self.sum(BINDING[operator]), right_start))
        return left

    def string_literal(self) -> Node:
        return Literal(self.string("a value"))

    def number_literal(self) -> Node:
        return Literal(self.number())

    def sign(self) -> Node:
        sign = self.tokens[self.index]
        self.index += 1
        start = self.index
        first = self.tokens[start][:1]
        if first and first in NUMBER_START:
            return Literal(self.number(sign))
        self.deeper()
        operand = self.as_value(PRIMARIES.get(first, Parser.name)(self), start)
        self.depth -= 1
        return Signed(sign, operand)

    def parenthesis(self) -> Node:
        self.deeper()
        opening = self.index
        self.index += 1
        inner = self.condition()
        if self.tokens[self.index] == END:
            self.wrong("this parenthesis is never closed", opening)
        self.expect(")", "expected an operator or ')'")
        self.depth -= 1
        return inner

    def name(self) -> Node:
        token = self.tokens[self.index]
        if token[:1] == '"':
            return attribute(self.quoted_name())
        if not starts_name(token):
            missing = token in (END, ")", ",") or token in COMPARISON_TOKENS
            self.wrong("expected a value" if missing else f"{token!r} is not expected here")
        word = self.words[self.index]
        if word == "TRUE" or word == "FALSE":
            self.index += 1
            return Literal(word == "TRUE")
        if word in RESERVED:
            self.wrong(f"expected a value, not the keyword {word}", advice="a name like that stands in double quotes")
        if not token.isascii() and not is_bare_name(token):
            self.wrong_character(token)
        self.index += 1
        return self.call(word) if self.tokens[self.index] == "(" else attribute(token)

    def wrong_character(self, name: str) -> NoReturn:
        bad = next(i for i, c in enumerate(name) if not f"_{c}".replace("$", "_").replace(".", "_").isidentifier())
        problem, advice = f"{name[bad]!r} stands in no name", "any name can stand in double quotes"
        raise FilterSyntaxError(problem, self.text, self.position(self.index) + bad, advice)

    def quoted_name(self) -> str:
        token = self.tokens[self.index]
        if len(token) == 1:
            self.wrong("this name is never closed")
        if token == '""':
            self.wrong("a name is empty")
        self.index += 1
        return token[1:-1].replace('""', '"')

    def call(self, word: str) -> Node:
        start = self.index - 1
        if word not in FUNCTIONS and word != "EXISTS":
            self.wrong(f"there is no function {self.tokens[start]}", start)
        self.deeper()
        arguments = self.list_of(self.operand)
        self.depth -= 1
        if len(arguments) != FUNCTIONS.get(word, 1):
            self.wrong(f"{word} takes {FUNCTIONS.get(word, 1)} argument(s), not {len(arguments)}", start)
        if word in FUNCTIONS:
            return Function(word, tuple(arguments))
        argument = arguments[0]
        if type(argument) is not Attribute:
            self.wrong("EXISTS takes an attribute", start + 2)
        return Not(IsNull(argument.name))

    # Telling conditions from values

    def as_condition(self, node: Node, start: int) -> Condition:
        if type(node) in ONLY_CONDITIONS or type(node) is Attribute:
            return node  # type: ignore[return-value]
        if isinstance(node, Literal) and isinstance(node.value, bool):
            return node
        if isinstance(node, Signed) and isinstance(node.operand, Attribute):
            return node
        self.wrong("a number or a string is no condition", start, advice="compare it with something")

    def as_value(self, node: Node, start: int) -> Value:
        if type(node) in ONLY_CONDITIONS:
            self.wrong("a condition is not a value", start, advice="join conditions with AND and OR")
        return node  # type: ignore[return-value]


# What a value starts with; everything else is a name, or wrong.
PRIMARIES: dict[str, Callable[[Parser], Node]] = {
    "'": Parser.string_literal,
    "(": Parser.parenthesis,
    "+": Parser.sign,
    "-": Parser.sign,
    **dict.fromkeys(NUMBER_START, Parser.number_literal),
}
# What may follow a value beside a comparison
TESTS: dict[str, Callable[[Parser, Value, int], Condition]] = {
    "IS": Parser.is_null,
    "BETWEEN": Parser.between,
    "IN": Parser.is_in,
    "LIKE": Parser.like,
    "HAS": Parser.has_any,
}


def _operands(condition: Condition, kind: type[And] | type[Or]) -> tuple[Condition, ...]:
    """The operands of a condition of this kind, or the condition itself. So an AND within an AND is one long AND."""
    return condition.operands if type(condition) is kind else (condition,)
