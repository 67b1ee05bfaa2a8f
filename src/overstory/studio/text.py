"""How values become text: in HTML only through ``escaped``, in JSON only through ``as_json``."""

import html
import json
import math
from collections.abc import Iterable

from overstory.model.network import Floats

NOTHING = "–"


def plain(value: str) -> str:
    return "".join(each if each.isprintable() else "\N{REPLACEMENT CHARACTER}" for each in value)


def escaped(value: str) -> str:
    return html.escape(plain(value))


def as_json(value: object) -> str:
    """JSON that can stand between script tags."""
    dumped = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return dumped.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def aligned(values: Iterable[float | None], most: float | None = None) -> list[str]:
    """With as many decimals as ``most``, or else the largest, needs for four digits, and none if all are whole; from a
    hundred million on in millions."""
    known = [None if value is None or not math.isfinite(value) else value for value in values]
    sizes = [abs(value) for value in known if value is not None]
    most = max(sizes, default=0) if most is None else most
    if most >= 1e8:
        return [NOTHING if value is None else f"{value / 1e6:,.{1 + (most < 1e10)}f} M" for value in known]
    whole = all(size == int(size) for size in sizes)
    decimals = 0 if whole or not most else min(max(3 - math.floor(math.log10(most)), 0), 4)
    return [NOTHING if value is None else f"{value:,.{decimals}f}" for value in known]


def size_of(value: float) -> str:
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 1000 or unit == "TB":
            break
        value /= 1000
    digits = 0 if unit == "B" or value >= 100 else 1
    return f"{value:,.{digits}f} {unit}"


def short_numbers(values: Floats) -> list[float | int | None]:
    """As short as JSON can have them, to six digits."""
    rounded = [float(f"{value:.6g}") if math.isfinite(value) else None for value in values.tolist()]
    return [int(value) if value is not None and value == int(value) else value for value in rounded]


def shortened(name: str, length: int = 24) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"
