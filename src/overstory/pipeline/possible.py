"""Which events there can be: what a plan says of others does not matter.

An attribute that is a column of the log is absent or of the column's type, one that is not is absent, and ``$broker``
is a broker where somebody publishes. So ``topic = 'a'``, ``topic <> 'a'`` and ``topic IS NULL`` are together
everything, although a number is none of them.
"""

from collections.abc import Iterable, Sequence

import pyarrow as pa

from overstory.filters import Filter, Limits, parse_filter
from overstory.filters.boxes import Box
from overstory.model.topics import LEVELS, TOPIC, level_place
from overstory.pipeline.match import BROKER

ABSENT = parse_filter("x IS NULL")
NUMBER = parse_filter("x <= 0 OR x > 0")
OF_TYPE = (  # lists of strings are equal whatever their items are called, but their hashes are not
    (pa.bool_(), parse_filter("x = TRUE OR x = FALSE")),
    (pa.int64(), NUMBER),
    (pa.float64(), NUMBER),
    (pa.string(), parse_filter("x LIKE '%'")),
    (pa.list_(pa.string()), parse_filter("x HAS ANY ('') OR x NOT HAS ANY ('')")),
)
MOST_BOXES = 256  # that a filter is cut into
UNLIMITED = Limits(length=1 << 30, tokens=1 << 30)


class Possible:
    def __init__(self, attributes: dict[str, pa.DataType], brokers: Sequence[int]) -> None:
        """``brokers`` are those where somebody publishes."""
        self.values = {name: _renamed(name, ABSENT, *_values(type_)) for name, type_ in attributes.items()}
        known = f"x IN ({', '.join(map(str, brokers))})" if brokers else "FALSE"
        self.values[BROKER] = _renamed(BROKER, parse_filter(known, limits=UNLIMITED))

    def of(self, wanted: Filter, names: Iterable[str]) -> Filter | None:
        """The events of a filter that can be, as far as these attributes tell; None if that is too much to say."""
        boxes = wanted.boxes
        for name in names:
            if len(boxes) > MOST_BOXES:
                return None
            values = self.values[name] if name in self.values else self._derived(name)
            found = [box.intersect(value) for box in boxes for value in values]
            boxes = tuple(box for box in found if box is not None)
        return Filter(wanted.condition, boxes)

    def _derived(self, name: str) -> list[Box]:
        """What can be in an attribute that is no column: levels of a topic, if there are topics."""
        type_ = pa.int64() if name == LEVELS else pa.string() if level_place(name) is not None else None
        if type_ is None or TOPIC not in self.values:
            return _renamed(name, ABSENT)
        return _renamed(name, ABSENT, *_values(type_))


def _values(type_: pa.DataType) -> list[Filter]:
    return [values for known, values in OF_TYPE if known == type_]


def _renamed(name: str, *filters: Filter) -> list[Box]:
    return [Box({name: box.sets["x"]}) for wanted in filters for box in wanted.boxes]


def names_in(filters: Iterable[Filter]) -> list[str]:
    return sorted({name for wanted in filters for box in wanted.boxes for name in box.sets})
