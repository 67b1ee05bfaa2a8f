"""An index of many filters: which of them match an event, and which cover another filter. See docs/matching.md.

In reading order: ``batch`` takes events as columns; ``encoding`` turns boxes into what kernels compare, ``filing`` puts
it into the ``memory`` of an index; ``matcher`` finds it again, with ``arithmetic`` for what kernels cannot test;
``index`` is the fast index, ``reference`` the plain one with the same interface, ``frozen`` the fast one as a file.
``covering``, ``containment`` and ``parking`` know which filters hold which others. ``trial`` tries it all on
somebody's data.
"""

from overstory.matching.batch import Batch, Lists, Numbers, Texts, Values
from overstory.matching.containment import ContainmentGraph
from overstory.matching.covering import CoveringIndex, CoveringStatistics
from overstory.matching.frozen import FrozenIndex, freeze
from overstory.matching.index import FilterIndex
from overstory.matching.matcher import Matches, Statistics
from overstory.matching.parking import ParkingGraph
from overstory.matching.reference import ReferenceIndex

__all__ = [
    "Batch",
    "ContainmentGraph",
    "CoveringIndex",
    "CoveringStatistics",
    "FilterIndex",
    "FrozenIndex",
    "Lists",
    "Matches",
    "Numbers",
    "ParkingGraph",
    "ReferenceIndex",
    "Statistics",
    "Texts",
    "Values",
    "freeze",
]
