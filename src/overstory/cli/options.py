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


SEED = whole(0, 2**63 - 1)


def amount(text: str) -> float:
    """A number from 0 on."""
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"it is a number, not '{text}'") from None
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"it is a number from 0 on, not {text}")
    return value


def share(of: str, with_one: bool, with_zero: bool = False) -> Callable[[str], float]:
    """A part of a whole, more than 0 unless that is allowed."""

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"it is a number, not '{text}'") from None
        if not (0 < value < 1 or (with_one and value == 1) or (with_zero and value == 0)):
            start = "at least 0" if with_zero else "more than 0"
            end = "at most 1" if with_one else "less than 1"
            raise argparse.ArgumentTypeError(f"it is a share of {of}, {start} and {end}, not {text}")
        return value

    return read
