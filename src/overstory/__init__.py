"""Publish/subscribe that plans its own trees."""

from overstory.errors import (
    DistributionError,
    EventError,
    FilterError,
    FilterLimitError,
    FilterSyntaxError,
    OverstoryError,
    UsageError,
)
from overstory.filters import Discrete, Filter, Limits, Uniform, parse_filter, parse_publication
from overstory.model.values import Untyped

__all__ = [
    "Discrete",
    "DistributionError",
    "EventError",
    "Filter",
    "FilterError",
    "FilterLimitError",
    "FilterSyntaxError",
    "Limits",
    "OverstoryError",
    "Uniform",
    "Untyped",
    "UsageError",
    "parse_filter",
    "parse_publication",
]
