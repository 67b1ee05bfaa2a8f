"""Tables for people: numbers to the right, and no more digits than they are worth."""

from collections.abc import Sequence
from decimal import ROUND_FLOOR, Context, Decimal
from math import floor

WIDTH = 120
BETWEEN = "  "
DIGITS = 3  # of numbers below 1000


def table(
    header: Sequence[str], rows: Sequence[Sequence[object]], spare: Sequence[str] = (), width: int = WIDTH
) -> str:
    """Of the columns in ``spare`` the first ones are left out, as far as the table would be wider than ``width``."""
    texts = [list(header), *([shown(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in texts) for at in range(len(header))]
    for name in spare:
        if sum(widths) + len(BETWEEN) * (len(widths) - 1) <= width:
            break
        left_out = texts[0].index(name)
        del widths[left_out]
        for row in texts:
            del row[left_out]
    return _aligned(texts, widths)


def _aligned(texts: Sequence[Sequence[str]], widths: Sequence[int]) -> str:
    lines = []
    for number, row in enumerate(texts):
        cells = [
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(BETWEEN.join(cells).rstrip())
        if number == 0:
            lines.append(BETWEEN.join("─" * width for width in widths))
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
