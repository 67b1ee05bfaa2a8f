"""What a planner may ask of the pipeline, which it gets as an argument and never imports."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.model.scenario import Scenario

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
FIT, CHOOSE = 0, 1  # the parts of the log that a planner may learn from, and select on


class Sample(Protocol):
    """Distinct rows of the log, by publishing broker and set of filters that match; events that nobody wants are not
    among them."""

    @property
    def part(self) -> Ints: ...
    @property
    def broker(self) -> Ints:
        """The publishing one, by position in the network."""

    @property
    def offsets(self) -> Ints: ...
    @property
    def predicates(self) -> Ints:
        """Those of row i are between offsets i and i + 1, ascending."""

    @property
    def bytes(self) -> Ints:
        """Of each row; where rows are left out, how many units of bytes it stands for. Only their ratios tell."""

    @property
    def share(self) -> float:
        """Of all rows that there are in these parts."""


class Boxes(Protocol):
    """Filters as unions of boxes. Of filter i the boxes between ``offsets`` i and i + 1, of box j the ranges between
    ``range_offsets`` j and j + 1, one for each attribute that it speaks of, in their order."""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the attributes, ascending."""

    @property
    def texts(self) -> tuple[str, ...]:
        """Where ranges of strings begin and end, ascending."""

    @property
    def offsets(self) -> Ints: ...
    @property
    def range_offsets(self) -> Ints: ...
    @property
    def attribute(self) -> NDArray[np.int32]: ...
    @property
    def kind(self) -> NDArray[np.int8]:
        """Of a range: 0 of numbers, 1 of strings (``low`` and ``high`` then are numbers of texts, the last one not
        within, -1 if there is none), 2 if the attribute is there at all, 3 if it is absent."""

    @property
    def low(self) -> Ints:
        """Numbers as keys, both ends within: see ``kernels.keys``, and ``ends`` for the numbers themselves."""

    @property
    def high(self) -> Ints: ...
    @property
    def pure(self) -> NDArray[np.bool_]:
        """By filter: whether its boxes say just what it says; else they are wider."""

    def ends(self) -> tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.bool_]]:
        """Of ranges of numbers: where they begin and end, and whether the ends themselves are outside."""


class Histogram(Protocol):
    """One row for each part of the log, publisher and channel that has events, in this order."""

    @property
    def part(self) -> Ints: ...
    @property
    def publisher(self) -> Ints: ...
    @property
    def channel(self) -> Ints: ...
    @property
    def events(self) -> Ints: ...
    @property
    def bytes(self) -> Ints: ...


class Rates(Protocol):
    """One row for each publisher and channel, in this order."""

    @property
    def publisher(self) -> Ints: ...
    @property
    def channel(self) -> Ints: ...
    @property
    def bytes(self) -> Floats:
        """In a window as long as that of the log."""


class Candidates(Protocol):
    """Of client i, bit b % 64 of word b // 64 of row i tells whether broker b, by its position, is within reach."""

    @property
    def clients(self) -> Ints:
        """Their ids, in the order of the table."""

    @property
    def words(self) -> NDArray[np.uint64]: ...


class Interests(Protocol):
    """Who wants which topics. Of subscription i, in the order of the table, the topics between ``offsets`` i and
    i + 1, ascending."""

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that someone wants or that have an event, ascending."""

    @property
    def offsets(self) -> Ints: ...
    @property
    def topics(self) -> NDArray[np.int32]: ...
    @property
    def bytes(self) -> Floats:
        """By topic: of its events in the whole log, estimated from the parts that planners see."""


class Partners(Protocol):
    """By topic those others that most of its users want as well, and how many do; -1 where there are fewer."""

    @property
    def topics(self) -> Ints: ...
    @property
    def shared(self) -> Ints: ...


Csr = tuple[Ints, NDArray[np.int32], Ints, NDArray[np.int32]]  # topics of users, users of topics


class Trial(Protocol):
    """What a plan costs by the one cost, without control: on some events, scaled up to the whole log."""

    @property
    def cost(self) -> float: ...
    @property
    def core(self) -> float: ...
    @property
    def upkeep(self) -> float: ...
    @property
    def header_bytes(self) -> float:
        """Of steered frames, summed over links; 0 where headers do not count."""

    @property
    def frames(self) -> float:
        """Copies that cross links between brokers."""

    @property
    def entries(self) -> int | None:
        """Those between brokers; None where upkeep is free, and nobody counted them."""


class Steps(Protocol):
    def publishers(self, scenario: Scenario) -> Ints:
        """The clients that published, ascending."""

    def predicates(self, scenario: Scenario) -> Ints:
        """The number of each subscription's filter: equal filters have the same."""

    def boxes(self, scenario: Scenario) -> Boxes:
        """The distinct filters of the subscriptions, by the numbers of ``predicates``."""

    def histograms(self, scenario: Scenario, channels: Sequence[str] | Mapping[str, Sequence[float]]) -> Histogram:
        """The bytes of each publisher in each channel, of the parts fit and choose. Channels are a partition of all
        events: filters, of which each event matches one, or a grid, given by the edges of each attribute."""

    def rates(self, scenario: Scenario, grid: Mapping[str, Sequence[float]], source: str) -> Rates:
        """What each publisher publishes in each channel of a grid, without a log: by the table ``densities``
        (``density``), or by what clients have announced (``advertisements``). Raises a ``UsageError`` where nothing is
        said."""

    def candidates(
        self, scenario: Scenario, limit: float | None = None, before: Floats | None = None, by: str = "delay"
    ) -> Candidates:
        """The brokers through which events reach each client in time: what they took to the broker (``before``), and
        the delay of the access link, are at most what the client allows, or ``limit`` where it does not say. By
        ``price``: a byte on the access link costs at most the limit."""

    def sample(self, scenario: Scenario, attachments: pa.Table, most: int) -> Sample:
        """Of the parts fit and choose, in an order that depends on nothing but their content. Where there are more than
        ``most`` rows, it is so many of them, drawn independently, the heavier the more probably; each then counts for
        those like it that were not drawn, so that sums over the sample are right on average."""

    def multiplicities(self, scenario: Scenario, attachments: pa.Table, tree_effort: str) -> Ints:
        """By directed link: the bytes of the part fit that cross it, if each event takes a Steiner tree of its own. The
        effort is one of those of ``kernels.steiner``."""

    def some_events(self, scenario: Scenario, part: int, most: int) -> pa.RecordBatch:
        """At most so many events of the part fit or choose, with all their attributes, in the order of their ids."""

    def interests(self, scenario: Scenario) -> Interests:
        """The topics that each subscription wants. Raises a ``DataError`` if one is no subscription to topics."""

    def partners(self, scenario: Scenario, interests: Csr, most: int) -> Partners:
        """Of each topic at most so many others, those with most common users."""

    def trial(self, scenario: Scenario, tables: Mapping[str, pa.Table], part: int, most: int) -> Trial:
        """What a plan would cost, by the meter itself, on at most so many events of the part fit or choose."""
