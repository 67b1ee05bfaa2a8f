"""One family of errors: whose fault it is, what exactly is wrong, what to do next.

Every error that Overstory raises on purpose is an ``OverstoryError``. Its first line stands alone; an error
about a text adds the offending line with a caret under the column.
"""

from collections.abc import Sequence
from typing import NamedTuple
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


class Problem(NamedTuple):
    """One thing that is wrong with a table. Rows are counted from 1."""

    table: str
    row: int | None
    column: str | None
    what: str
    problems: int = 1  # that this one stands for

    def __str__(self) -> str:
        row = f" row {self.row}" if self.row is not None else ""
        column = f" column {self.column}" if self.column is not None else ""
        return f"{self.table}{row}{column}: {self.what}"


class DataError(OverstoryError):
    """Something is wrong with the user's data. All that is wrong with its tables is said at once."""

    def __init__(self, summary: str, problems: Sequence[Problem] = ()) -> None:
        super().__init__(summary, problems)
        self.summary, self.problems = summary, tuple(problems)

    @classmethod
    def about(cls, subject: str, problems: Sequence[Problem]) -> "DataError":
        """Says how many problems the subject has, and each of them on a line of its own."""
        count = sum(problem.problems for problem in problems)
        return cls(f"{subject} has {count:,} problem{'' if count == 1 else 's'}:", problems)

    def __str__(self) -> str:
        return "\n".join([self.summary, *(f"  {problem}" for problem in self.problems)])


class StalePlanError(OverstoryError):
    """The plan was made for another scenario, or for what this one was before."""


class InfeasibleError(OverstoryError):
    """There is no plan, or this one exceeds a limit."""


class RoutingError(OverstoryError):
    """A router was told something that cannot be; its state is as it was before."""


class UnknownTreeError(RoutingError):
    """The epoch has no such flow here, or the link is not one of its tree."""


class EpochError(RoutingError):
    """The epoch is not there, is there already, or has not drained."""


class VersionError(RoutingError):
    """A subscription or an advertisement says something else than it did under the same id and version."""


class ProtocolError(OverstoryError):
    """A peer broke the rules of MQTT, or asked for something that is not to be had. ``code`` is the reason code."""

    def __init__(self, code: int, problem: str) -> None:
        super().__init__(code, problem)
        self.code, self.problem = code, problem

    def __str__(self) -> str:
        return f"{self.problem} (MQTT reason code 0x{self.code:02X})"


class BrokerError(OverstoryError):
    """The broker cannot start, or cannot go on: a port in use, a disk that is full."""


class LinkError(OverstoryError):
    """A neighbour sent something that no broker sends, or is not one that a link can be had with. The link ends."""


class DisconnectedError(OverstoryError):
    """The connection to the broker is gone, or could not be made."""


class EngineError(OverstoryError):
    """Spark cannot be started, or a job of it failed."""


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
