"""One family of errors: whose fault it is, what exactly is wrong, what to do next.

Every error that Overstory raises on purpose is an ``OverstoryError``. Its first line stands alone; an error
about a text adds the offending line with a caret under the column.
"""

from unicodedata import combining, east_asian_width

CARET_WINDOW = 60  # characters shown on each side of the caret


class OverstoryError(Exception):
    """Base of all errors that are raised on purpose."""


class TextError(OverstoryError):
    """Something is wrong at ``position``, an index into ``text``."""

    subject = "text"

    def __init__(self, problem: str, text: str, position: int, advice: str = "") -> None:
        super().__init__(problem, text, position, advice)
        self.problem = problem
        self.text = text
        self.position = position
        self.advice = advice

    def summary(self) -> str:
        """One line: what is wrong, where, and what to do."""
        advice = f"; {self.advice}" if self.advice else ""
        return f"{self.subject}: {self.problem} (character {self.position + 1}){advice}"

    def __str__(self) -> str:
        return f"{self.summary()}\n{caret(self.text, self.position)}"


class FilterError(TextError):
    """The filter's author has to change it."""

    subject = "filter"


class FilterSyntaxError(FilterError):
    """The text is not a filter of the dialect."""


class FilterLimitError(FilterError):
    """The filter is larger than ``Limits`` allow."""


class EventError(TextError):
    """The publisher's event cannot be read."""

    subject = "event"


class DistributionError(OverstoryError):
    """The caller's distributions do not fit the filter."""


class IndexFileError(OverstoryError):
    """A file cannot be used as an index: it is not one, not whole, or of another version."""


class UsageError(OverstoryError):
    """The command line, or the call, is wrong."""


def caret(text: str, position: int) -> str:
    """The part of ``text`` around ``position`` on one line, and under it a caret at that position."""
    start = max(0, position - CARET_WINDOW)
    stop = position + CARET_WINDOW
    before = ("…" if start else "") + _one_line(text[start:position])
    after = _one_line(text[position:stop]) + ("…" if stop < len(text) else "")
    return f"  {before}{after}\n  {' ' * _columns(before)}^"


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else " " if c.isspace() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _columns(text: str) -> int:
    """The width on a terminal: East Asian characters take two columns, combining marks none."""
    return sum(2 if east_asian_width(c) in "WF" else not combining(c) for c in text)
