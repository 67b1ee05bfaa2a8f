"""The PADRES front end: ``[attribute,operator,value]`` triples, and ``[attribute,value]`` pairs for publications.

filter      = triple { , triple } [ ; ]
publication = pair { , pair } [ ; [ timestamp ; ] ]
"""

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from overstory.errors import EventError, FilterError, FilterLimitError, FilterSyntaxError
from overstory.filters.lexer import INT64
from overstory.filters.like import like_infix, like_prefix, like_suffix
from overstory.filters.limits import DEFAULT_LIMITS, Limits
from overstory.filters.operators import (
    COMPARISONS,
    PADRES_PATTERN_OPERATORS,
    PADRES_PRESENCE,
    PADRES_STRING_OPERATORS,
)
from overstory.filters.syntax import And, Attribute, Compare, Condition, LikeTest, Literal, Or
from overstory.filters.text import checked_text

NAME = re.compile(r"[A-Za-z_:/][\w:/-]*", re.ASCII)
NUMBER = re.compile(r"[+-]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]+)?|\.[0-9]+)(?![\w.])", re.ASCII)
TOKEN = re.compile(
    rf"""[ \t\r\n]*(
      '[^']*+' | "[^"]*+" | {NUMBER.pattern} | {NAME.pattern}
    | <> | <= | >= | [=<>\[\],;]
    | [^ \t\r\n]     # anything else is an error later
    )""",
    re.VERBOSE | re.ASCII,
)
TIMESTAMP = re.compile(r"\w{3} \w{3} \d\d \d\d:\d\d:\d\d [\w:+-]+ \d{4}\s*;?\s*", re.ASCII)
VARIABLE = re.compile(r"['\"]\$[SIF]\$")
END = ""
PATTERNS = dict(zip(PADRES_PATTERN_OPERATORS, (like_prefix, like_suffix, like_infix), strict=True))
T = TypeVar("T")
PadresValue = int | float | str


def parse_padres(text: str, limits: Limits) -> Condition:
    reader = Reader(text, limits, FilterSyntaxError)
    triples = reader.list_of(reader.triple)
    reader.end()
    return triples[0] if len(triples) == 1 else And(tuple(triples))


def parse_publication(text: str | bytes, *, limits: Limits = DEFAULT_LIMITS) -> dict[str, PadresValue]:
    """The attributes of a PADRES publication. Raises EventError."""
    try:
        reader = Reader(checked_text(text, limits), limits, EventError)
    except FilterError as error:
        raise EventError(*error.args) from None
    pairs = reader.list_of(reader.pair)
    reader.end(timestamp=True)
    return dict(pairs)


class Reader:
    def __init__(self, text: str, limits: Limits, error: type[FilterSyntaxError] | type[EventError]) -> None:
        self.text = text
        self.limits = limits
        self.error = error
        self.tokens: list[str] = TOKEN.findall(text.rstrip())
        if len(self.tokens) > limits.tokens:
            problem = f"there are more than {limits.tokens} tokens"
            raise FilterLimitError(problem, text, self.position(limits.tokens))
        self.tokens.append(END)
        self.index = 0
        self.names: set[str] = set()

    def list_of(self, item: Callable[[], T]) -> list[T]:
        if self.tokens[0] == "{":
            self.wrong("composite subscriptions join several publications and are not supported")
        items = [item()]
        while self.tokens[self.index] == ",":
            self.index += 1
            items.append(item())
        return items

    def end(self, timestamp: bool = False) -> None:
        if self.tokens[self.index] == ";":
            self.index += 1
            if timestamp and TIMESTAMP.fullmatch(self.text, self.position(self.index)):
                return
        if self.tokens[self.index] != END:
            self.wrong("expected ',' and another bracket, or the end")

    def triple(self) -> Condition:
        name = self.opening_name()
        at = self.index
        operator = self.take()
        self.expect(",")
        if operator in COMPARISONS:
            condition: Condition = Compare(operator, Attribute(name), Literal(self.number(operator)))
        elif operator in PADRES_STRING_OPERATORS:
            symbol = PADRES_STRING_OPERATORS[operator]
            condition = Compare(symbol, Attribute(name), Literal(self.string(operator)))
        elif operator in PATTERNS:
            condition = LikeTest(Attribute(name), PATTERNS[operator](self.pattern(operator)))
        elif operator == PADRES_PRESENCE:
            condition = _present(name, self.value())
        else:
            self.wrong(f"{operator!r} is no operator", at)
        self.expect("]")
        return condition

    def pair(self) -> tuple[str, PadresValue]:
        name = self.opening_name()
        value = self.value()
        self.expect("]")
        return name, value

    def opening_name(self) -> str:
        if self.index == 0 and self.tokens[0] != "[":
            self.wrong("expected '['", advice="what has no brackets is of the dialect sql")
        self.expect("[")
        name = self.tokens[self.index]
        if not NAME.fullmatch(name):
            self.wrong("expected the name of an attribute")
        if name in self.names:
            self.wrong(f"the attribute {name} stands here twice")
        self.names.add(name)
        self.index += 1
        self.expect(",")
        return name

    def value(self) -> PadresValue:
        return self.number("") if NUMBER.fullmatch(self.tokens[self.index]) else self.string("")

    def number(self, operator: str) -> int | float:
        token = self.tokens[self.index]
        if not NUMBER.fullmatch(token):
            self.wrong(f"expected a number after {operator}", advice="strings compare with eq, str-lt, …")
        value = float(token) if "." in token else int(token[:400])
        if value in (float("inf"), float("-inf")) or (isinstance(value, int) and value not in INT64):
            self.wrong("the number does not fit 64 bits")
        self.index += 1
        return value

    def string(self, operator: str) -> str:
        token = self.tokens[self.index]
        if token == "$" or VARIABLE.match(token):
            self.wrong("variables join several publications and are not supported")
        if token[:1] in ("'", '"') and len(token) > 1:
            self.index += 1
            return token[1:-1]
        if NAME.fullmatch(token):
            self.index += 1
            return token
        if token in ("'", '"'):
            self.wrong("this string is never closed")
        expected = f"expected a string after {operator}" if operator else "expected a number or a string"
        self.wrong(expected, advice="numbers compare with =, <, …" if operator else "")
        return None

    def pattern(self, operator: str) -> str:
        at = self.index
        text = self.string(operator)
        if len(text) > self.limits.pattern:
            problem = f"the string of {operator} is longer than {self.limits.pattern} characters"
            raise FilterLimitError(problem, self.text, self.position(at))
        return text

    def take(self) -> str:
        token = self.tokens[self.index]
        if token == END:
            self.wrong("expected an operator")
        self.index += 1
        return token

    def expect(self, token: str) -> None:
        if self.tokens[self.index] != token:
            self.wrong(f"expected {token!r}")
        self.index += 1

    def wrong(self, problem: str, index: int | None = None, advice: str = "") -> NoReturn:
        index = self.index if index is None else index
        if self.tokens[index] == END:
            problem += ", but the text ends"
        raise self.error(problem, self.text, self.position(index), advice)

    def position(self, index: int) -> int:
        return next((m.start(1) for i, m in enumerate(TOKEN.finditer(self.text)) if i == index), len(self.text))


def _present(name: str, example: PadresValue) -> Condition:
    """The condition that the attribute is present with the type of the example."""
    attribute = Attribute(name)
    if isinstance(example, str):
        return LikeTest(attribute, like_prefix(""))
    return Or((Compare("<", attribute, Literal(0)), Compare(">=", attribute, Literal(0))))
