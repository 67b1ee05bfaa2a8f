"""What a planner may ask of the pipeline, which it gets as an argument and never imports."""

from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from overstory.model.scenario import Scenario

Ints = NDArray[np.int64]
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


class Steps(Protocol):
    def publishers(self, scenario: Scenario) -> Ints:
        """The clients that published, ascending."""

    def predicates(self, scenario: Scenario) -> Ints:
        """The number of each subscription's filter: equal filters have the same."""

    def sample(self, scenario: Scenario, attachments: pa.Table, most: int) -> Sample:
        """Of the parts fit and choose, in an order that depends on nothing but their content. Where there are more than
        ``most`` rows, it is so many of them, drawn independently, the heavier the more probably; each then counts for
        those like it that were not drawn, so that sums over the sample are right on average."""

    def multiplicities(self, scenario: Scenario, attachments: pa.Table, tree_effort: str) -> Ints:
        """By directed link: the bytes of the part fit that cross it, if each event takes a Steiner tree of its own. The
        effort is one of those of ``kernels.steiner``."""
