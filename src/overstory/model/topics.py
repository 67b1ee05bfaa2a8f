"""Topics and their levels, which are attributes like any other: ``$level1`` and so on, and ``$levels``, their number.

So a topic filter is a box over levels, and a scenario's events and a broker's messages mean the same.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

TOPIC = "topic"
LEVEL = "$level"
LEVELS = "$levels"
MOST_LEVELS = 200  # of a topic or a topic filter
SHORT = 128  # characters of a topic whose levels are remembered
SEPARATOR, ANY_LEVEL, ANY_LEVELS = "/", "+", "#"


def level_name(place: int) -> str:
    """The attribute that holds the level at this place, counted from 1."""
    return f"{LEVEL}{place}"


def level_place(name: str) -> int | None:
    """The place of the level that an attribute holds, counted from 1; None if the attribute holds none."""
    digits = name[len(LEVEL) :]
    if not name.startswith(LEVEL) or not digits.isascii() or not digits.isdigit() or digits[0] == "0":
        return None
    return int(digits)


def topic_attributes(topic: str) -> Mapping[str, object]:
    """The attributes that follow from a topic. Most topics come again: those of short ones are remembered."""
    return _remembered(topic) if len(topic) <= SHORT else _attributes(topic)


@lru_cache(maxsize=4096)
def _remembered(topic: str) -> Mapping[str, object]:
    return _attributes(topic)


def _attributes(topic: str) -> Mapping[str, object]:
    levels = topic.split(SEPARATOR)
    found: dict[str, object] = {TOPIC: topic, LEVELS: len(levels)}
    for place, level in enumerate(levels, 1):
        found[level_name(place)] = level
    return MappingProxyType(found)
