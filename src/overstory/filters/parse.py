"""The door of the package: text in one of the dialects to a ``Filter``."""

from collections.abc import Callable

from overstory.errors import FilterLimitError, UsageError
from overstory.filters.filter import Filter
from overstory.filters.lexer import Tokens
from overstory.filters.limits import DEFAULT_LIMITS, Limits
from overstory.filters.normal import TooLargeError, normal_form
from overstory.filters.padres import parse_padres
from overstory.filters.room import with_room
from overstory.filters.sql import parse_sql
from overstory.filters.syntax import Condition
from overstory.filters.text import checked_text

SHORT = 256  # characters: no filter of so few takes long
DIALECTS = {"sql": parse_sql, "padres": parse_padres}


def parse_filter(text: str | bytes, dialect: str = "sql", *, limits: Limits = DEFAULT_LIMITS) -> Filter:
    """Makes a filter of its text. Bytes are read as UTF-8.

    Raises FilterSyntaxError or FilterLimitError, both with the position of what is wrong. Raises UsageError for
    something that is no text, and for a dialect that there is not.
    """
    parse = DIALECTS.get(dialect) if isinstance(dialect, str) else None
    if parse is None:
        raise UsageError(f"there is no dialect {dialect!r}; the dialects are {', '.join(DIALECTS)}")
    text = checked_text(text, limits)
    if len(text) <= SHORT:
        return _parsed(text, parse, limits)
    return with_room(lambda: _parsed(text, parse, limits))


def _parsed(text: str, parse: Callable[[str, Limits], Condition], limits: Limits) -> Filter:
    condition = parse(text, limits)
    try:
        return Filter(condition, normal_form(condition, limits))
    except TooLargeError as error:
        position = Tokens(text, limits).position(error.token) if parse is parse_sql else 0
        raise FilterLimitError(error.problem, text, position, "split the filter into several") from None
