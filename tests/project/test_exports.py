"""The public door: these names and no others."""

import overstory
from overstory import errors

NAMES = [
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


def test_public_names() -> None:
    assert overstory.__all__ == NAMES
    assert all(hasattr(overstory, name) for name in NAMES)


def test_every_error_is_of_the_family() -> None:
    raised = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, BaseException)]
    assert raised
    assert all(issubclass(error, errors.OverstoryError) for error in raised)
