"""What ``scenario.toml`` says: prices, limits, and how frames and access links are counted."""

from typing import Annotated, Literal

import msgspec

Amount = Annotated[float, msgspec.Meta(ge=0, le=1e300)]  # neither infinite nor NaN


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Of the parts of the one cost. A part with price 0 is measured, and costs nothing."""

    core: Amount = 1.0  # of a byte on a broker link, times the price of the link
    access: Amount = 0.0  # of a byte on a client link, times the price of the link
    upkeep_core: Amount = 0.0  # of an entry on a broker link, for an interval
    upkeep_access: Amount = 0.0  # of an entry on a client link, for an interval
    upkeep_association: Amount = 0.0  # of an association, for an interval
    control: Amount = 0.0  # of a message on a link


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):  # TOML has no null
    """A plan that exceeds one is not dearer but not allowed."""

    delay: Amount | None = None  # milliseconds from publisher to subscriber
    load: Amount | None = None  # the clients of a broker, relative to its share of all clients
    load_wanted: Amount | None = None  # the same, as it should be; more is allowed, up to ``load``
    boxes: Annotated[int, msgspec.Meta(ge=1)] | None = None  # of a filter that a plan gives to a link
    transit: bool = False  # whether the capacity of a broker counts what crosses its links to other brokers, too


class Access(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Client links that no table lists: priced by the distance of coordinates (``euclidean``: x and y; ``places``:
    place), or each by a number between 0 and 1 of its own (``independent``), which client, broker and seed give."""

    metric: Literal["none", "euclidean", "places", "independent"] = "none"
    price: Amount = 1.0  # of a byte, for a unit of distance
    delay: Amount = 0.0  # milliseconds for a unit of distance
    seed: int = 0  # of the metric independent


Curve = tuple[tuple[Amount, Amount], ...]


class Curves(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Prices that grow with the size of a flow, as points (clients, price): straight between two, as the last two go on
    beyond them, and 0 for a flow without clients."""

    upkeep: Curve = ()  # of keeping a flow alive for an interval, in place of ``upkeep_access`` for each entry


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format_version: int = 1
    name: str = "scenario"
    currency: str = ""  # of all prices, for people: what costs are printed in
    coalesce: bool = True  # one copy of an event while its flows share links
    intervals: Amount = 1.0  # renewals of leases in the window of the log
    prices: Prices = Prices()
    limits: Limits = Limits()
    access: Access = Access()
    curves: Curves = Curves()
    headers: bool = False  # whether what frames of steered flows say of their ways is priced
    made_by: dict[str, str | int | float | bool] = {}  # the generator and its parameters
