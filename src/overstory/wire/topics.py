"""Topic filters as boxes over levels, so that covering between them is exact; and what a SUBSCRIBE asks for.

``a/+/c`` wants ``$level1 = 'a' AND $level3 = 'c' AND $levels = 3``, ``a/#`` wants ``$level1 = 'a' AND $levels >= 1``.
An exact topic has its levels and ``topic`` itself. A wildcard at the beginning does not match topics that begin with
``$``. ``#`` with an expression is the expression alone.
"""

from functools import lru_cache
from typing import NamedTuple

from overstory.errors import FilterError, ProtocolError
from overstory.filters import Filter, parse_filter
from overstory.filters.box import Box, intersection_of
from overstory.filters.syntax import And, Compare, Condition, Literal, Not, attribute
from overstory.filters.value_sets import NEXT, Numbers, Strings, ValueSet
from overstory.model.topics import ANY_LEVEL, ANY_LEVELS, LEVELS, MOST_LEVELS, SEPARATOR, TOPIC, level_name
from overstory.wire.packets import Code

SHARE = "$share/"
HIDDEN = "$"  # topics that begin with this are not matched by a wildcard at the beginning
EXPRESSION = "?"
WHERE = "$where"  # the user property of SUBSCRIBE that holds an expression
FOLLOWS = ("$follows", "1")  # the user property of CONNECT by which a client says that it goes where it is sent
# The user property of CONNECT by which a client says that it discards what it has not asked for, so that it may be
# given all events of a cluster (a flow with ``access = events``); in CONNACK a broker says by it that it does so
TAKES = ("$takes", "clusters")
FILTERS = ("$filters", "sql")  # the user property of CONNACK by which a broker says that it knows expressions
MOST_REMEMBERED = 4096
NOT_HIDDEN = Strings(("", "$", "%"))  # "%" is the character after "$"
LEVEL_1 = attribute(level_name(1))
NOT_HIDDEN_TEST = Not(And((Compare(">=", LEVEL_1, Literal("$")), Compare("<", LEVEL_1, Literal("%")))))


class Wanted(NamedTuple):
    """What one filter of a SUBSCRIBE asks for."""

    topics: str  # the topic filter
    expression: str | None
    group: str | None  # of a shared subscription


def read_filter(text: str, where: str | None = None) -> Wanted:
    """Takes the text of a subscription apart. Raises a ``ProtocolError`` if its topic filter is not valid."""
    group = None
    rest = text
    if text.startswith(SHARE):
        group, _, rest = text[len(SHARE) :].partition(SEPARATOR)
        if not group or ANY_LEVEL in group or ANY_LEVELS in group or not rest:
            raise ProtocolError(Code.FILTER_INVALID, "a shared subscription is written $share/GROUP/TOPICS")
    topics, mark, expression = rest.partition(EXPRESSION)
    check_topic_filter(topics)
    if where is not None and mark:
        raise ProtocolError(Code.FILTER_INVALID, "an expression stands either after ? or in $where, not in both")
    return Wanted(topics, expression if mark else where, group)


def check_topic_filter(topics: str) -> None:
    """Raises a ``ProtocolError`` if this is no topic filter."""
    levels = topics.split(SEPARATOR)
    if not topics or len(levels) > MOST_LEVELS:
        raise ProtocolError(Code.FILTER_INVALID, f"a topic filter has from 1 to {MOST_LEVELS} levels")
    for place, level in enumerate(levels, 1):
        if (ANY_LEVELS in level and (len(level) > 1 or place < len(levels))) or (ANY_LEVEL in level and len(level) > 1):
            raise ProtocolError(Code.FILTER_INVALID, f"level {place} of a topic filter has a wildcard out of place")


def check_topic(topic: str) -> None:
    """Raises a ``ProtocolError`` if no message may be published to this topic."""
    if topic.count(SEPARATOR) >= MOST_LEVELS:
        raise ProtocolError(Code.TOPIC_INVALID, f"a topic has at most {MOST_LEVELS} levels")


def filter_of(wanted: Wanted) -> Filter:
    """The filter that a subscription stands for. Raises a ``FilterError`` if its expression does not parse."""
    if wanted.expression is None:
        return topic_filter(wanted.topics)
    expression = parse_filter(wanted.expression)
    if wanted.topics == ANY_LEVELS:
        return expression
    topics = topic_filter(wanted.topics)
    boxes = [intersection_of((topics.boxes[0], box)) for box in expression.boxes]
    condition = And((topics.condition, expression.condition))
    return Filter(condition, tuple(box for box in boxes if box is not None))


def topic_filter(topics: str) -> Filter:
    """The filter that a topic filter stands for: one box."""
    levels = topics.split(SEPARATOR)
    sets: dict[str, ValueSet] = {}
    tests: list[Condition] = []
    if levels[0] in (ANY_LEVEL, ANY_LEVELS):
        sets[level_name(1)] = NOT_HIDDEN
        tests.append(NOT_HIDDEN_TEST)
    is_exact = ANY_LEVEL not in levels and levels[-1] != ANY_LEVELS
    if is_exact:
        sets[TOPIC] = _only(topics)
    for place, level in enumerate(levels, 1):
        if level not in (ANY_LEVEL, ANY_LEVELS):
            sets[level_name(place)] = _only(level)
            tests.append(_level_test(place, level))
    open_ended = levels[-1] == ANY_LEVELS
    count = max(1, len(levels) - open_ended)
    sets[LEVELS] = _count(count, open_ended)
    tests.append(_count_test(count, open_ended))
    condition = Compare("=", attribute(TOPIC), Literal(topics)) if is_exact else And(tuple(tests))  # the shortest
    return Filter(condition, (Box(sets),))


def problem_of(error: FilterError | ProtocolError) -> str:
    """What a client is told about a filter that is refused, with the caret under what is wrong."""
    return str(error) if isinstance(error, FilterError) else error.problem


@lru_cache(MOST_REMEMBERED)
def _only(text: str) -> Strings:
    return Strings((text, text + NEXT))


@lru_cache(MOST_REMEMBERED)
def _level_test(place: int, level: str) -> Condition:
    return Compare("=", attribute(level_name(place)), Literal(level))


@lru_cache(MOST_REMEMBERED)
def _count(count: int, open_ended: bool) -> Numbers:
    return Numbers(((count, 0),) if open_ended else ((count, 0), (count, 1)))


@lru_cache(MOST_REMEMBERED)
def _count_test(count: int, open_ended: bool) -> Condition:
    return Compare(">=" if open_ended else "=", attribute(LEVELS), Literal(count))
