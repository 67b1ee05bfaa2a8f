"""Where events may enter a flow: its predicate E can restrict the publishing broker."""

from collections.abc import Sequence
from functools import lru_cache

from overstory.errors import FilterLimitError
from overstory.filters import Filter, parse_filter
from overstory.pipeline.match import BROKER


def may_enter(events: str, brokers: Sequence[int]) -> list[int]:
    """Of the brokers where somebody publishes, those whose events E may match; ``events`` is its text."""
    parsed = parsed_or_none(events)
    if parsed is None or not all(BROKER in box.sets for box in parsed.boxes):
        return list(brokers)
    return [broker for broker in brokers if any(box.sets[BROKER].contains(broker) for box in parsed.boxes)]


@lru_cache(1 << 10)
def parsed_or_none(text: str) -> Filter | None:
    """The filter, or None if it is too large to be parsed."""
    try:
        return parse_filter(text)
    except FilterLimitError:
        return None
