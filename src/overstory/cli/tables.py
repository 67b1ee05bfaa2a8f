"""Tables for people: numbers to the right, and no more digits than they are worth.

``rich`` lays them out, without colours, so that they are the same in a terminal, a pipe and a document. It takes a
third of a millisecond for each row, so the lines of a table with very many rows are aligned here: they look the same.
"""

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from io import StringIO
from math import floor

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDTH = 120
MOST_DRAWN = 1000  # rows that rich lays out
BETWEEN = "  "
DIGITS = 3  # of numbers below 1000


def table(
    header: Sequence[str], rows: Sequence[Sequence[object]], spare: Sequence[str] = (), width: int = WIDTH
) -> str:
    """Of the columns in ``spare`` the first ones are left out, as far as the table would be wider than ``width``."""
    texts = [list(header), *([shown(cell) for cell in row] for row in rows)]
    widths = [max(cell_len(row[at]) for row in texts) for at in range(len(header))]
    for name in spare:
        if sum(widths) + len(BETWEEN) * (len(widths) - 1) <= width:
            break
        left_out = texts[0].index(name)
        del widths[left_out]
        for row in texts:
            del row[left_out]
    texts.insert(1, ["─" * width for width in widths])
    return drawn(texts, widths) if len(rows) <= MOST_DRAWN else aligned(texts, widths)


def drawn(texts: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    """Lays a table out with rich. Cells are plain texts: what stands in brackets is no markup."""
    grid = Table.grid(padding=(0, len(BETWEEN), 0, 0))
    for at, width in enumerate(widths):
        grid.add_column(justify="right" if at else "left", no_wrap=True, min_width=width)
    for row in texts:
        grid.add_row(*map(Text, row))
    room = sum(widths) + len(BETWEEN) * len(widths)  # whatever the terminal has, nothing is cut or wrapped
    console = Console(file=StringIO(), width=max(room, 1), color_system=None)
    with console.capture() as found:
        console.print(grid)
    return "\n".join(line.rstrip() for line in found.get().splitlines())


def aligned(texts: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    """Lays a table out as rich does, and quickly, for very long ones."""
    lines = []
    for row in texts:
        spaces = [" " * (width - cell_len(cell)) for cell, width in zip(row, widths, strict=True)]
        pairs = enumerate(zip(row, spaces, strict=True))
        cells = [f"{space}{cell}" if at else f"{cell}{space}" for at, (cell, space) in pairs]
        lines.append(BETWEEN.join(cells).rstrip())
    return "\n".join(lines)


def shown(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.{DIGITS}g}"
    return str(value)


def shown_down(value: float, digits: int = DIGITS) -> str:
    """A lower bound, as ``shown`` shows numbers, but never rounded up."""
    if abs(value) >= 1000 and digits == DIGITS:
        return f"{floor(value):,}"
    floored = Context(prec=digits, rounding=ROUND_FLOOR).create_decimal(Decimal(value))
    return f"{float(floored):,.{digits}g}"


def percent(value: float | None) -> str:
    return "–" if value is None else f"{value:+.1%}"
