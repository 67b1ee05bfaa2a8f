"""A second, plain implementation of what filters mean, written from docs/filters.md to be obviously right.

``truth`` interprets a syntax tree directly. ``events_of`` lists one event for every combination of cells that the
constants of some filters cut, so that a statement about all events can be checked by enumeration.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain, combinations, pairwise, product

from overstory import Untyped
from overstory.filters import syntax as s
from overstory.filters.printing import print_like

Event = dict[str, object]


def truth(node: s.Condition, event: Event) -> bool | None:  # noqa: C901
    match node:
        case s.Literal(value):
            return value if isinstance(value, bool) else None
        case s.Attribute(name):
            return face(event.get(name), bool)  # type: ignore[return-value]
        case s.Signed():
            return None
        case s.IsNull(name):
            return event.get(name) is None
        case s.HasAny(name, words):
            given = event.get(name)
            if not isinstance(given, list) or not all(isinstance(word, str) for word in given):
                return None
            return any(word in words for word in given)
        case s.LikeTest(operand, like):
            text = face(value_of(operand, event), str)
            return None if text is None else re.fullmatch(regex(like), str(text), re.DOTALL) is not None
        case s.Compare(operator, left, right):
            return compare(operator, value_of(left, event), value_of(right, event))
        case s.In(operand, options):
            return any_of(compare("=", value_of(operand, event), value_of(o, event)) for o in options)
        case s.Not(operand):
            inner = truth(operand, event)
            return None if inner is None else not inner
        case s.And(operands):
            inverse = any_of(negate(truth(operand, event)) for operand in operands)
            return negate(inverse)
        case s.Or(operands):
            return any_of(truth(operand, event) for operand in operands)
    raise AssertionError(node)


def negate(value: bool | None) -> bool | None:
    return None if value is None else not value


def any_of(truths: Iterable[bool | None]) -> bool | None:
    known = list(truths)
    return True if True in known else None if None in known else False


def regex(like: object) -> str:
    """From the printed pattern, so that the matcher's own segments are not trusted."""
    text = print_like(like)  # type: ignore[arg-type]
    pattern = text.removesuffix(r" ESCAPE '\'").strip("'").replace("''", "'")
    result, escaped = "", False
    for character in pattern:
        if not escaped and character == "\\" and text.endswith("ESCAPE '\\'"):
            escaped = True
            continue
        wild = {"%": ".*", "_": "."}.get(character) if not escaped else None
        result += wild or re.escape(character)
        escaped = False
    return result


def value_of(node: s.Value, event: Event) -> object:
    match node:
        case s.Literal(value):
            return value
        case s.Attribute(name):
            return event.get(name)
        case s.Signed(sign, operand):
            number = face(value_of(operand, event), float)
            return held(None if number is None else -number if sign == "-" else number)  # type: ignore[operator]
        case s.Arithmetic(operator, left, right):
            x, y = face(value_of(left, event), float), face(value_of(right, event), float)
            return None if x is None or y is None else calculate(operator, x, y)
        case s.Function(name, arguments):
            text = face(value_of(arguments[0], event), str)
            if text is None:
                return None
            assert isinstance(text, str)
            if name in ("LOWER", "UPPER"):
                return text.lower() if name == "LOWER" else text.upper()
            count = face(value_of(arguments[1], event), float)
            if not isinstance(count, int) or count < 0:
                return None
            return text[:count] if name == "LEFT" else text[len(text) - min(count, len(text)) :]
    raise AssertionError(node)


def calculate(operator: str, x: object, y: object) -> object:
    try:
        result = {
            "+": lambda a, b: a + b,
            "-": lambda a, b: a - b,
            "*": lambda a, b: a * b,
            "/": lambda a, b: a / b,
            "%": lambda a, b: math.fmod(a, b) if float in (type(a), type(b)) else a - b * math.trunc(Fraction(a, b)),
        }[operator](x, y)  # type: ignore[no-untyped-call]
    except (ArithmeticError, ValueError):
        return None
    return held(result)


def held(number: object) -> object:
    if isinstance(number, int):
        return number if -(2**63) <= number < 2**63 else None
    return number if isinstance(number, float) and math.isfinite(number) else None


def compare(operator: str, left: object, right: object) -> bool | None:
    for kind in (float, bool, str):
        x, y = face(left, kind), face(right, kind)
        if x is not None and y is not None:
            if kind is bool and operator not in ("=", "<>"):
                return None
            less, equal = bool(x < y), x == y  # type: ignore[operator]
            return {
                "=": equal,
                "<>": not equal,
                "<": less,
                "<=": less or equal,
                ">": not less and not equal,
                ">=": not less,
            }[operator]
    return None


def face(value: object, kind: type) -> object:
    """The number (kind float), boolean or string that a value shows."""
    if isinstance(value, Untyped):
        if kind is str:
            return value.text
        if re.fullmatch(r"\s.*|.*\s|.*[NI].*|", value.text, re.DOTALL):
            return None  # Python's JSON reader takes NaN, Infinity and spaces around; JSON texts here do not
        try:
            value = json.loads(value.text)
        except ValueError:
            return None
        if isinstance(value, str):
            return None
        if value in (math.inf, -math.inf):
            return None  # the text was no float
    if isinstance(value, bool):
        return value if kind is bool else None
    if isinstance(value, (int, float)):
        return value if kind is float and value == value else None
    return value if isinstance(value, str) and kind is str else None


# Enumeration


def constants(node: object) -> Iterator[tuple[str, object]]:
    """Every attribute with each constant that it is compared with anywhere in the tree."""
    if isinstance(node, (s.And, s.Or)):
        yield from chain.from_iterable(map(constants, node.operands))
    elif isinstance(node, s.Not):
        yield from constants(node.operand)
    elif isinstance(node, (s.Attribute, s.IsNull)):
        yield node.name, None
    elif isinstance(node, s.HasAny):
        yield from ((node.name, [word]) for word in node.words)
    elif isinstance(node, s.LikeTest) and isinstance(node.operand, s.Attribute):
        yield node.operand.name, node.like.prefix()
        yield node.operand.name, node.like.prefix() + "\U0010ffff"
    elif isinstance(node, (s.Compare, s.In)):
        values = [node.left, node.right] if isinstance(node, s.Compare) else [node.operand, *node.options]
        names = [v.name for v in values if isinstance(v, s.Attribute)]
        for name in names:
            yield name, None
            yield from ((name, v.value) for v in values if isinstance(v, s.Literal))


def events_of(*conditions: s.Condition) -> Iterator[Event]:
    found: dict[str, list[object]] = {}
    for name, constant in chain.from_iterable(map(constants, conditions)):
        found.setdefault(name, []).append(constant)
    names = sorted(found)
    for values in product(*(representatives(found[name]) for name in names)):
        yield dict(zip(names, values, strict=True))


def representatives(constants: list[object]) -> list[object]:
    """One value of every cell: absent, of no kind, both booleans, and around every number, string and word."""
    numbers = sorted({c for c in constants if isinstance(c, (int, float)) and not isinstance(c, bool)})
    strings = sorted({c for c in constants if isinstance(c, str)})
    words = sorted({word for c in constants if isinstance(c, list) for word in c})
    values: list[object] = [None, math.nan]
    if any(isinstance(c, bool) for c in constants) or None in constants:
        values += [True, False]
    if numbers:
        between = [(a + b) / 2 for a, b in pairwise(numbers)]
        values += [*numbers, *between, numbers[0] - 1, numbers[-1] + 1, math.inf, -math.inf]
        values += [Untyped(json.dumps(n)) for n in numbers]
    if strings:
        after = [text + "\0" for text in strings]
        values += sorted({"", *strings, *after, *(next_prefix(text) for text in strings)})
        values += [Untyped(text) for text in strings]
    if words:
        values += [list(c) for n in range(len(words) + 1) for c in combinations([*words, "other"], n)]
    return values


def next_prefix(text: str) -> str:
    stem = text.rstrip("\U0010ffff")
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else text
