"""Arguments of calls, refused as the command line refuses those of commands."""

import argparse
from collections.abc import Callable

from overstory.cli.options import SEED, whole
from overstory.errors import UsageError

MOST_EFFORT = 10**18


def check_numbers(*, seed: int = 0, bound_effort: int = 0) -> None:
    """Raises a ``UsageError`` unless both are whole numbers in the range that the command line allows."""
    _check("seed", seed, SEED)
    _check("bound_effort", bound_effort, whole(0, MOST_EFFORT))


def _check(name: str, value: object, read: Callable[[str], int]) -> None:
    try:
        read(str(value))
    except argparse.ArgumentTypeError as error:
        raise UsageError(f"argument {name}: {error}") from None
