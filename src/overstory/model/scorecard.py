"""What a plan costs on a scenario, and where its traffic runs."""

import msgspec
import numpy as np
from numpy.typing import NDArray


class Scorecard(msgspec.Struct, frozen=True):
    """Costs are those of the whole log, but for those of its parts: ``fit``, which the planner learned from, and
    ``held_out``, which it never saw. A reference that cannot be installed has no flows, no upkeep and no delays."""

    cost: float  # the sum of the next four
    core: float
    access: float
    upkeep: float
    control: float
    cost_fit: float
    cost_held_out: float
    lower_bound: float  # on core, certified, for these attachments; rounded down
    lower_bound_held_out: float  # on the core of the held-out part
    lower_bound_estimate: float | None  # of the bound if all were bounded by dual ascent; None if all is. No bound
    bounded: float  # the share of the log's bytes that dual ascent bounds; the rest is bounded by distance
    gap: float | None  # core relative to the bound: 0.1 is ten per cent above it; None where the bound is 0
    bound_total: float  # on the whole cost, certified, with clients attached anywhere within capacities
    gap_total: float | None  # the whole cost relative to that; None where the bound is 0
    flood: float  # what core would cost if every event went to every broker along a cheapest spanning tree
    events: int
    deliveries: int  # pairs of an event and a subscription that it matched and reached
    frames: int  # that crossed a broker link
    duplicates: int  # frames that reached a broker beyond the event's first there
    false_positives: int  # frames that nobody behind the link wanted
    discards: int  # copies that a client threw away
    core_bytes: int
    access_bytes: int
    entries_core: int | None  # None where upkeep costs nothing, and too many filters would have to be compared
    entries_access: int | None
    flows: int
    mean_delay: float | None  # milliseconds from publisher to subscriber, over all copies
    max_delay: float | None
    load: float  # clients of the fullest broker, relative to its share
    filled: float | None  # bytes of the fullest broker, relative to its capacity; None where no broker has one
    messages: int | None = None  # that changes from the first event on send over broker links; None: not counted
    exceeded: tuple[str, ...] = ()  # the limits that it breaks


class Traffic(msgspec.Struct, frozen=True):
    """On each directed link of the network, in its order."""

    frames: NDArray[np.int64]
    bytes: NDArray[np.int64]
