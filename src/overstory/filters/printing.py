"""Prints syntax and the normal form as SQL. Parsing what is printed gives the same normal form."""

from collections.abc import Iterable
from functools import lru_cache

from overstory.filters.box import Box, intersection_of
from overstory.filters.cuts import Cuts, difference, intervals
from overstory.filters.lexer import is_bare_name
from overstory.filters.like import ESCAPE, Like, like_prefix
from overstory.filters.limits import DEFAULT_LIMITS
from overstory.filters.normal import implied_by
from overstory.filters.operators import BINDING, RESERVED
from overstory.filters.syntax import (
    Attribute,
    Compare,
    Condition,
    Function,
    LikeTest,
    Literal,
    Not,
    Signed,
    Value,
)
from overstory.filters.value_sets import (
    ALL_NUMBERS,
    ALL_STRINGS,
    ANY_NUMBER,
    NEXT,
    NUMBER_BOTTOM,
    Booleans,
    Keywords,
    Numbers,
    Presence,
    Strings,
    ValueSet,
    after_prefix,
    points_of,
)


def print_boxes(boxes: Iterable[Box]) -> str:
    """Prints a union of boxes. Boxes and attributes stand in a fixed order, whatever order they came in."""
    texts = sorted(print_box(box) for box in boxes)
    if len(texts) < 2:
        return texts[0] if texts else "FALSE"
    return " OR ".join(f"({text})" if " AND " in text else text for text in texts)


def print_box(box: Box) -> str:
    conditions, residuals = print_parts(box)
    return " AND ".join(conditions + residuals) or "TRUE"


def print_parts(box: Box) -> tuple[list[str], list[str]]:
    """Prints a box: its conditions on single attributes, without those that its residuals imply; and its residuals."""
    implied = intersection_of(known for residual in box.residuals if (known := implied_by(residual)))
    known_sets = implied.sets if implied else {}
    conditions = [
        part
        for name in sorted(box.sets)
        if box.sets[name] != known_sets.get(name)
        for part in print_set(print_name(name), box.sets[name])
    ]
    return conditions, sorted(map(print_condition, box.residuals))


# Value sets: each is printed as conditions that are to be joined by AND.


def print_set(name: str, allowed: ValueSet) -> list[str]:
    if isinstance(allowed, Presence):
        return [f"{name} IS NOT NULL" if allowed.present else f"{name} IS NULL"]
    if isinstance(allowed, Numbers):
        return [print_numbers(name, allowed.cuts)]
    if isinstance(allowed, Booleans):
        return [either(name if truth else f"NOT {name}" for truth in sorted(allowed.allowed, reverse=True))]
    if isinstance(allowed, Strings):
        return print_strings(name, allowed)
    if isinstance(allowed, Keywords):
        return print_keywords(name, allowed)
    # A text has one number face, so "some number" says it all, also where that number fits no literal.
    finite = points_of(allowed.strings.cuts) is not None and isinstance(allowed.other, Numbers)
    return print_set(name, allowed.strings) + print_set(name, ANY_NUMBER if finite else allowed.other)


def print_numbers(name: str, cuts: Cuts) -> str:
    if cuts == ALL_NUMBERS:
        return f"({name} < 0 OR {name} >= 0)"
    excluded = _number_points(difference(ALL_NUMBERS, cuts))
    if excluded is not None:
        return print_choice(name, excluded, negated=True)
    points = [start[0] for start, stop in intervals(cuts) if stop == (start[0], 1) and start[1] == 0]
    ranges = []
    for start, stop in intervals(cuts):
        if stop != (start[0], 1) or start[1] != 0:
            low = [] if start == NUMBER_BOTTOM else [f"{name} {'>' if start[1] else '>='} {print_literal(start[0])}"]
            high = [] if stop is None else [f"{name} {'<=' if stop[1] else '<'} {print_literal(stop[0])}"]
            ranges.append(" AND ".join(low + high))
    return either(ranges + ([print_choice(name, list(map(print_literal, points)))] if points else []))


def _number_points(cuts: Cuts) -> list[str] | None:
    points = []
    for start, stop in intervals(cuts):
        if start[1] != 0 or stop != (start[0], 1):
            return None
        points.append(print_literal(start[0]))
    return points or None


def print_strings(name: str, allowed: Strings) -> list[str]:
    likes = sorted(f"{name} {'' if wanted else 'NOT '}LIKE {print_like(like)}" for like, wanted in allowed.likes)
    if allowed.cuts == ALL_STRINGS:
        return likes or [f"{name} LIKE '%'"]
    excluded = _string_points(difference(ALL_STRINGS, allowed.cuts))
    if excluded is not None:
        return [print_choice(name, excluded, negated=True), *likes]
    points, ranges = [], []
    for start, stop in intervals(allowed.cuts):
        if stop == start + NEXT:
            points.append(print_literal(start))
        elif stop == after_prefix(start) and 0 < len(start) < DEFAULT_LIMITS.pattern:
            ranges.append(f"{name} LIKE {print_like(like_prefix(start))}")
        else:
            ranges.append(_print_string_range(name, start, stop))
    return [either(ranges + ([print_choice(name, points)] if points else [])), *likes]


def _print_string_range(name: str, start: str, stop: str | None) -> str:
    parts = []
    if start.endswith(NEXT):
        parts.append(f"{name} > {print_literal(start[:-1])}")
    elif start:
        parts.append(f"{name} >= {print_literal(start)}")
    if stop is not None and stop.endswith(NEXT):
        parts.append(f"{name} <= {print_literal(stop[:-1])}")
    elif stop is not None:
        parts.append(f"{name} < {print_literal(stop)}")
    return " AND ".join(parts)


def _string_points(cuts: Cuts) -> list[str] | None:
    points = [print_literal(start) for start, stop in intervals(cuts) if stop == start + NEXT]
    return points if points and len(points) * 2 == len(cuts) else None


def print_keywords(name: str, allowed: Keywords) -> list[str]:
    hits = sorted(f"{name} HAS ANY {print_words(words)}" for words in allowed.hits)
    return hits + ([f"{name} NOT HAS ANY {print_words(allowed.misses)}"] if allowed.misses else [])


def print_words(words: frozenset[str]) -> str:
    return f"({', '.join(map(print_literal, sorted(words)))})"


def print_choice(name: str, options: list[str], negated: bool = False) -> str:
    if len(options) == 1:
        return f"{name} {'<>' if negated else '='} {options[0]}"
    return f"{name} {'NOT ' if negated else ''}IN ({', '.join(options)})"


def either(alternatives: Iterable[str]) -> str:
    texts = list(alternatives)
    if len(texts) == 1:
        return texts[0]
    return f"({' OR '.join(f'({text})' if ' AND ' in text else text for text in texts)})"


# Syntax, as far as residuals are made of it


@lru_cache(maxsize=256)  # the boxes of a product have the same residuals
def print_condition(condition: Condition) -> str:
    if isinstance(condition, Compare):
        return f"{print_value(condition.left)} {condition.operator} {print_value(condition.right)}"
    if isinstance(condition, LikeTest):
        return f"{print_value(condition.operand)} LIKE {print_like(condition.like)}"
    if isinstance(condition, Not):
        return f"NOT {print_condition(condition.operand)}"
    raise AssertionError(f"{condition!r} is no residual")


def print_value(value: Value, within: int = 0) -> str:
    if isinstance(value, Attribute):
        return print_name(value.name)
    if isinstance(value, Literal):
        text = print_literal(value.value)
        return f"({text})" if within and text.startswith("-") else text
    if isinstance(value, Signed):
        text = print_value(value.operand, 3)
        return f"{value.sign}({text})" if isinstance(value.operand, Literal) else f"{value.sign}{text}"
    if isinstance(value, Function):
        return f"{value.name}({', '.join(map(print_value, value.arguments))})"
    own = BINDING[value.operator]
    text = f"{print_value(value.left, own)} {value.operator} {print_value(value.right, own + 1)}"
    return f"({text})" if own < within else text


def print_literal(value: bool | int | float | str) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def print_name(name: str) -> str:
    if is_bare_name(name) and name.upper() not in RESERVED:
        return name
    return '"' + name.replace('"', '""') + '"'


def print_like(like: Like) -> str:
    pattern, escaped = like.pattern()
    return print_literal(pattern) + (f" ESCAPE '{ESCAPE}'" if escaped else "")
