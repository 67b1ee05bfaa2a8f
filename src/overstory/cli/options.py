"""Numbers on the command line, refused in the user's words before any work is done."""

import argparse
from collections.abc import Callable


def whole(least: int, most: int) -> Callable[[str], int]:
    """A whole number in a range."""

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"it is a whole number, not '{text}'") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"it is from {least:,} to {most:,}, not {value:,}")
        return value

    return read


def share(of: str, with_one: bool) -> Callable[[str], float]:
    """A part of a whole, more than 0."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"it is a number, not '{text}'") from None
        if not (0 < value < 1 or (with_one and value == 1)):
            end = "at most 1" if with_one else "less than 1"
            raise argparse.ArgumentTypeError(f"it is a share of {of}, more than 0 and {end}, not {text}")
        return value

    return read
