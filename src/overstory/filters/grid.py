"""Many boxes side by side, attribute by attribute: which of them hold a given box, and which does it meet?

The boxes of a union are often a product, and have few different sets in each attribute. Each of these is compared
once and stands for all boxes that have it: boxes are bits of a number. Patterns are taken apart in the same way, since
a set of strings holds another if its cuts do and each of its patterns is implied.
"""

from collections.abc import Iterable, Sequence

import overstory.filters.value_sets as value_sets
from overstory.filters.box import Box, Residuals, negation
from overstory.filters.like import Like
from overstory.filters.value_sets import Faces, Known, Strings, ValueSet
from overstory.filters.work import Work

COLUMNS, SETS = 4, 2  # that are looked at in one step


class Column:
    """The sets that boxes allow one attribute to be in, and for each set its boxes, as bits."""

    def __init__(self) -> None:
        self.constrained = 0
        self.sets: dict[ValueSet, int] = {}
        self.parts: dict[ValueSet, int] = {}  # the sets without their patterns
        self.likes: dict[tuple[Like, bool], int] = {}

    def add(self, allowed: ValueSet, box: int) -> None:
        self.constrained |= box
        self.sets[allowed] = self.sets.get(allowed, 0) | box
        likes: Iterable[tuple[Like, bool]] = ()
        part = allowed
        if isinstance(allowed, Strings) and allowed.likes:
            part, likes = Strings(allowed.cuts), allowed.likes
        self.parts[part] = self.parts.get(part, 0) | box
        for like in likes:
            self.likes[like] = self.likes.get(like, 0) | box

    def cost(self) -> tuple[int, int]:
        """How dear it is to compare the sets. Dear attributes are looked at late, when few boxes are left."""
        return len(self.likes), sum(map(value_sets.weight, self.parts))

    def holding(self, given: ValueSet, among: int, work: Work) -> int:
        """The boxes of ``among`` whose set holds all of the given one."""
        compared = 0
        for part, boxes in self.parts.items():
            if boxes & among:
                compared += 1
                if part is not given and not value_sets.covers(part, given, work):
                    among &= ~boxes
        work.spend(compared // SETS)
        text = given.strings if isinstance(given, Faces) else given
        if self.likes and among and isinstance(text, Strings):
            known = Known(text, work)
            for (like, wanted), boxes in self.likes.items():
                if boxes & among and not known.implies(like, wanted, text.likes):
                    among &= ~boxes
        return among

    def meeting(self, given: ValueSet, among: int, work: Work) -> int:
        """The boxes of ``among`` whose set meets the given one."""
        compared = 0
        for allowed, boxes in self.sets.items():
            if boxes & among:
                compared += 1
                if not value_sets.meet(allowed, given, work):
                    among &= ~boxes
        work.spend(compared // SETS)
        return among


class Grid:
    """The boxes of a union, of which the first is bit 0."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.everything = (1 << len(boxes)) - 1
        columns: dict[str, Column] = {}
        self.residuals: dict[Residuals, int] = {}
        for i, box in enumerate(boxes):
            for name, allowed in box.sets.items():
                if name not in columns:
                    columns[name] = Column()
                columns[name].add(allowed, 1 << i)
            if box.residuals:
                self.residuals[box.residuals] = self.residuals.get(box.residuals, 0) | 1 << i
        self.columns = sorted(columns.items(), key=lambda item: item[1].cost())

    def holding(self, box: Box, among: int, work: Work) -> int:
        """The boxes of ``among`` that hold all of this one."""
        work.spend(1 + len(self.columns) // COLUMNS)
        for name, column in self.columns:
            if column.constrained & among:
                given = box.sets.get(name)
                among = among & ~column.constrained if given is None else column.holding(given, among, work)
        for residuals, boxes in self.residuals.items():
            if boxes & among and not residuals <= box.residuals:
                among &= ~boxes
        return among

    def meeting(self, box: Box, among: int, work: Work) -> int:
        """The boxes of ``among`` that this one meets, as far as sets and opposite residuals tell."""
        work.spend(1 + len(self.columns) // COLUMNS)
        for name, column in self.columns:
            given = box.sets.get(name)
            if given is not None and column.constrained & among:
                among = column.meeting(given, among, work)
        if self.residuals and box.residuals:
            opposites = frozenset(map(negation, box.residuals))
            for residuals, boxes in self.residuals.items():
                if not opposites.isdisjoint(residuals):
                    among &= ~boxes
        return among


def bits_of(boxes: int) -> Iterable[int]:
    """The places of the boxes, ascending."""
    while boxes:
        lowest = boxes & -boxes
        yield lowest.bit_length() - 1
        boxes ^= lowest
