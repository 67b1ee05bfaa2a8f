"""What an event's attribute can hold, and the faces that it shows to a filter.

A *face* is a value under one type. A typed value has one face; an ``Untyped`` one has its text and, if all of
the text is a JSON number or boolean, that as well. Absent (``None``) and malformed values have no face. A NumPy
scalar has the face of what it holds. Faces are plain Python values, whatever the event was made of: NumPy's would
compare in ways of their own.
"""

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import TypeAlias

import msgspec

Number: TypeAlias = int | float | Fraction  # a fraction only where neither of the others is exact
Attributes: TypeAlias = Mapping[str, object]

JSON_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
JSON_BOOLEAN = {"true": True, "false": False}


class Untyped(msgspec.Struct, frozen=True):
    """A value without a type of its own, such as an MQTT user property."""

    text: str

    def number(self) -> Number | None:
        return number_in(self.text)

    def boolean(self) -> bool | None:
        return JSON_BOOLEAN.get(self.text)


def number_in(text: str) -> Number | None:
    """The JSON number that ``text`` is, exactly; None if it is none, or is too large to be held."""
    match = JSON_NUMBER.fullmatch(text)
    if match is None:
        return None
    try:
        number = float(text) if match[1] or match[2] else int(text)
    except ValueError:  # more digits than Python converts
        return None
    return None if number in (float("inf"), float("-inf")) else number


PLAIN = frozenset((bool, int, float, Fraction, str, list, tuple, Untyped, type(None)))


def plain(value: object) -> object:
    """The value itself, or what it holds if it is a NumPy scalar or an array without dimensions."""
    if type(value) in PLAIN or not hasattr(value, "dtype"):
        return value
    from overstory.model.numpy_values import held_by  # not at the top: most who read filters have no arrays

    held = held_by(value)
    return held if held is value else plain(held)  # an array of objects may hold another scalar


def is_absent(value: object) -> bool:
    return value is None or (type(value) not in PLAIN and plain(value) is None)


def number_face(value: object) -> Number | None:
    if type(value) not in PLAIN:
        value = plain(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float, Fraction)):
        return value if value == value else None  # NaN compares with nothing
    return value.number() if isinstance(value, Untyped) else None


def string_face(value: object) -> str | None:
    if type(value) not in PLAIN:
        value = plain(value)
    if isinstance(value, str):
        return value
    return str(value.text) if isinstance(value, Untyped) else None


def boolean_face(value: object) -> bool | None:
    if type(value) not in PLAIN:
        value = plain(value)
    if isinstance(value, bool):
        return value
    return value.boolean() if isinstance(value, Untyped) else None


def list_face(value: object) -> list[str] | tuple[str, ...] | None:
    if not isinstance(value, (list, tuple)):
        return None
    if all(type(word) is str for word in value):
        return value
    words = list(map(plain, value))
    return words if all(isinstance(word, str) for word in words) else None  # type: ignore[return-value]
