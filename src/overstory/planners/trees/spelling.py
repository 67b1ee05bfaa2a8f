"""Cells of channels as predicates: text that is true of exactly the events that a cell holds."""

from overstory.errors import FilterLimitError
from overstory.filters import parse_filter
from overstory.filters.boxes import EVERYTHING, Box, simplified
from overstory.filters.difference import difference
from overstory.filters.limits import DEFAULT_LIMITS
from overstory.filters.printing import print_boxes
from overstory.planners.trees.channels import Cell

MOST_BOXES = DEFAULT_LIMITS.boxes
NOTHING = "FALSE"


class Spelling:
    """``texts`` are the filters that cells are made of."""

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.boxes = [parse_filter(text).boxes for text in texts]
        self.known: dict[Cell, str | None] = {}
        self.unions: dict[frozenset[int], tuple[Box, ...]] = {}

    def fits(self, cell: Cell) -> bool:
        return self.text(cell) is not None

    def text(self, cell: Cell) -> str | None:
        """None if no filter within the limits says it."""
        if cell not in self.known:
            self.known[cell] = self._spelled(cell)
        return self.known[cell]

    def _spelled(self, cell: Cell) -> str | None:
        if not cell.misses and len(cell.hits) == 1:
            (hit,) = cell.hits
            if len(hit) == 1:
                return self.texts[next(iter(hit))]
        boxes: tuple[Box, ...] = (EVERYTHING,)
        for hit in sorted(cell.hits, key=sorted):
            options = self._union(hit)
            if len(boxes) * len(options) > MOST_BOXES**2:
                return None
            boxes = simplified([both for a in boxes for b in options if (both := a.intersect(b)) is not None])
        left = difference(boxes, self._union(cell.misses), MOST_BOXES)
        return None if left is None else within_limits(print_boxes(simplified(left)))

    def _union(self, filters: frozenset[int]) -> tuple[Box, ...]:
        if filters not in self.unions:
            self.unions[filters] = simplified([box for number in sorted(filters) for box in self.boxes[number]])
        return self.unions[filters]


def within_limits(text: str) -> str | None:
    try:
        parse_filter(text)
    except FilterLimitError:
        return None
    return text


def unions(texts: list[str]) -> list[str]:
    """As few predicates as may be that together say what all of these do; each must be within the limits."""
    whole = texts[0] if len(texts) == 1 else within_limits(" OR ".join(f"({text})" for text in texts))
    if whole is not None:
        return [whole]
    return unions(texts[: len(texts) // 2]) + unions(texts[len(texts) // 2 :])
