"""What an experiment is: one file in ``lab/experiments/`` that says what is tried, measured and plotted.

1. An experiment is a list of *cells*. A cell is a set of settings, the seed among them, and gives rows of numbers. It
   depends on its settings and on the code, and on nothing else: so cells can run anywhere, in any order, and a result
   once stored is never computed again.
2. ``cells`` lists all of them for the parameters given, few and small if the run is to be *quick*, else as many as the
   paper has. ``run`` computes one.
3. *Measures* turn rows into one number for each seed. The claims of papers (``claims.toml``) name them.
4. *Figures* are what the report draws.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from overstory.model.plan import Value

Parameters = Mapping[str, Value]
Settings = dict[str, Value]
Row = dict[str, Value]
BySeed = dict[int, float]
Measure = Callable[[Sequence[Row]], BySeed]


@dataclass(frozen=True)
class Line:
    """Means, and how far they may be off (0 where there is one seed)."""

    label: str
    x: list[float]
    y: list[float]
    spread: list[float]
    span: tuple[float, float] | None = None  # of a bar: where most values are; drawn instead of the spread


@dataclass(frozen=True)
class Figure:
    name: str  # of a file
    title: str
    x: str
    y: str
    lines: list[Line]
    log_x: bool = False
    log_y: bool = False
    bars: bool = False  # one for each line, instead of points
    note: str = ""


def _no_figures(rows: Sequence[Row]) -> list[Figure]:
    return []


def _nothing_wrong(rows: Sequence[Row]) -> str | None:
    return None


def _no_totals(rows: Sequence[Row]) -> Row:
    return {}


@dataclass(frozen=True)
class Experiment:
    name: str
    summary: str
    cells: Callable[[Parameters, bool], Iterable[Settings]]
    run: Callable[[Settings], list[Row]]
    paper: str | None = None  # a key of ``claims.PAPERS``; none if the question is ours
    figure: str = "ours"
    parameters: Mapping[str, Value] = field(default_factory=dict)  # and their defaults; None must be given
    measures: Mapping[str, Measure] = field(default_factory=dict)
    figures: Callable[[Sequence[Row]], list[Figure]] = _no_figures
    totals: Callable[[Sequence[Row]], Row] = _no_totals
    refuses: Callable[[Sequence[Row]], str | None] = _nothing_wrong  # why nothing may be said of these rows
    alone: bool = False  # its cells measure time: nothing may run beside them
    on_driver: bool = False  # its cells use Spark themselves, so they cannot be tasks
    clocked: tuple[str, ...] = ("seconds",)  # columns that are never the same twice
