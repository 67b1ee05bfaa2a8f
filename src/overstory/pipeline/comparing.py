"""Filters compared one by one, where they are not just boxes: what they surely hold, surely leave out, and neither.

It takes far longer than the kernels that compare boxes, so only so many questions are answered. What cannot be told,
and what there was no room for, is taken on trust, and counted.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

from overstory.errors import FilterLimitError
from overstory.filters import Filter, parse_filter
from overstory.kernels.holding import HELD, LEFT_OUT, NOT_WHOLE, ONCE, TWICE, UNKNOWN, UNSURE
from overstory.model.plan import EVERYTHING
from overstory.pipeline.possible import Possible, names_in

MOST_COMPARED = 20_000  # questions


class Comparing:
    def __init__(self, possible: Possible) -> None:
        self.possible = possible
        self.left = MOST_COMPARED

    def holds(self, texts: Sequence[str], want: str) -> int:
        """Whether all possible events of a filter match one of others."""
        parsed = [part for part in map(_parsed, (want, *texts)) if part is not None]
        if len(parsed) <= len(texts):
            return UNKNOWN
        wanted, whole = parsed[0], parsed[1].union(*parsed[2:])
        if whole.covers(wanted):
            return HELD
        possible = self.possible.of(wanted, names_in(parsed))
        if possible is None:
            return UNKNOWN
        if whole.covers(possible):
            return HELD
        return LEFT_OUT if whole.leaves_out(wanted) and whole.leaves_out(possible) else UNKNOWN

    def once(self, want: str, shares: Sequence[str]) -> int:
        """Whether all possible events of a filter match just one of others, which are parts of it."""
        parsed = list(map(_parsed, shares))
        answer = ONCE
        for one, other in combinations(parsed, 2):
            found = UNSURE if one is None or other is None else self._share(one, other)
            if found == TWICE:
                return TWICE
            if found == UNSURE:
                answer = UNSURE
        found = self.holds(shares, want)
        if found == LEFT_OUT:
            return NOT_WHOLE
        return UNSURE if found == UNKNOWN else answer

    def _share(self, one: Filter, other: Filter) -> int:
        """Whether some possible event matches both: TWICE if surely."""
        if not one.intersects(other):
            return ONCE
        possible = self.possible.of(one, names_in([one, other]))
        if possible is not None and not possible.intersects(other):
            return ONCE
        return TWICE if possible is not None and one.is_exact_with(other) else UNSURE


def conjunction(texts: Sequence[str]) -> str:
    return " AND ".join(f"({text})" for text in texts if text != EVERYTHING) or EVERYTHING


@lru_cache(MOST_COMPARED)
def _parsed(text: str) -> Filter | None:
    """None if it is too large, as a conjunction of filters can be: then nothing is known of it."""
    try:
        return parse_filter(text)
    except FilterLimitError:
        return None
