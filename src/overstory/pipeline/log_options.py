"""How a user wants a log to be read: which columns tell what, of which types, and what becomes of odd values."""

from typing import NamedTuple

import msgspec

REFUSE, NULL = BAD_VALUES = "refuse", "null"


class Roles(NamedTuple):
    """Which columns tell what is ours to know of an event. Time and bytes then are no attributes; the publisher and its
    broker are, since filters ask for their names."""

    time: str | None = None
    bytes: str | None = None
    publisher: str | None = None
    broker: str | None = None


class Reading(msgspec.Struct, frozen=True):
    """How a log is to be read."""

    columns: tuple[str, ...] | None = None  # the attributes to keep, if not all
    types: dict[str, str] = {}  # of columns, as Spark calls them; the others are inferred
    bad_values: str = REFUSE  # or they become absent
    time_unit: str | None = None  # of numbers in the column of times; else it is inferred
    flatten: bool = False  # whether objects become columns with dots


def is_kept(name: str, reading: Reading, roles: Roles) -> bool:
    if reading.columns is None or name in roles:
        return True
    kept = [*reading.columns, *(role for role in roles if role is not None)]
    # The fields of an object are kept with it, and an object with a field of it
    return any(name == wanted or f"{name}.".startswith(f"{wanted}.") for wanted in kept) or (
        reading.flatten and any(wanted.startswith(f"{name}.") for wanted in kept)
    )
