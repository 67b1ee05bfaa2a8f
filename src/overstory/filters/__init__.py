"""Filters: text in, normal form inside, and the relations between them. Defined in docs/filters.md.

In reading order: ``lexer`` and ``sql`` (or ``padres``) make the tree of ``syntax``; ``evaluate`` gives it meaning;
``normal`` turns it into ``boxes`` of ``value_sets``, on which ``relations`` and ``volume`` work, with a ``grid`` of
many boxes and an ``automaton`` for each pattern; all of it spends ``work``. ``printing`` writes boxes down again;
``filter`` is what the user holds.
"""

from overstory.filters.filter import Filter
from overstory.filters.limits import Limits
from overstory.filters.padres import parse_publication
from overstory.filters.parse import DIALECTS, parse_filter
from overstory.filters.volume import Discrete, Distribution, Uniform

__all__ = [
    "DIALECTS",
    "Discrete",
    "Distribution",
    "Filter",
    "Limits",
    "Uniform",
    "parse_filter",
    "parse_publication",
]
