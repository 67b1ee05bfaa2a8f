"""Filters as arrays, and the space of events: both against filters taken one by one."""

import random
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory import parse_filter
from overstory.model.settings import Settings
from overstory.pipeline import boxes as module
from overstory.pipeline.boxes import ABSENT, ENDLESS, KEYS, PRESENT, Boxes, boxes_of, joined
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.space import Space
from overstory.pipeline.workbench import Workbench

from ..tables import events_table, scenario_of, scenario_tables

FILTERS = [
    *["x > 5 AND y <= 3", "x >= 1 AND x < 2", "x = 1 AND x = 2", "x <> 5", "x IN (1, 2, 3)", "TRUE", "FALSE"],
    *["kind = 'a'", "kind >= 'b'", "kind <> 'b'", "kind IN ('a', 'c') AND x < 3", "kind LIKE 'a%'", "kind LIKE '%b'"],
    *["x + y > 3", "x IS NULL", "x IS NOT NULL", "here", "NOT here", "here IS NULL OR x < 1", "words HAS ANY ('a')"],
    *["words IS NULL", "x > 1e300", "x < 2 OR y > 2 OR kind = 'a'", "colour = 'red'", "colour IS NULL"],
    *["$broker = 7", "$broker IN (7, 8) AND x > 2", "$broker > 8", "kind < 'b' AND kind = 3", "x = TRUE"],
]
TYPES = {
    "x": pa.float64(),
    "y": pa.int64(),
    "kind": pa.string(),
    "here": pa.bool_(),
    "words": pa.list_(pa.string()),
}
VALUES: dict[str, list[Any]] = {
    "x": [None, -1.0, 1.0, 1.5, 2.0, 5.0, 6.0],
    "y": [None, 1, 3, 4],
    "kind": [None, "", "a", "ab", "b", "c"],
    "here": [None, True, False],
    "words": [None, ["a"], ["b"]],
    "$broker": [7, 9],
}
chosen = st.lists(st.sampled_from(FILTERS), max_size=6)
events = st.fixed_dictionaries({name: st.sampled_from(values) for name, values in VALUES.items()})


def code_of(space: Space, name: str, value: object) -> int | None:
    """The code of a value, found by asking for a filter that only it matches."""
    literal = f"'{value}'" if isinstance(value, str) else str(value).upper()
    if isinstance(value, list):
        return 1
    text = f"{name} IS NULL" if value is None else f"{name} = {literal}"
    parts = [space.boxes, boxes_of(pa.array([text]))]
    whole = Space(joined(parts), TYPES, [7, 9])
    assert whole.boxes.texts == space.boxes.texts, "the texts of all values are there from the start"
    pool = whole.pool()
    last = len(pool.offsets) - 2
    (box,) = range(pool.offsets[last], pool.offsets[last + 1])
    (at,) = range(pool.range_offsets[box], pool.range_offsets[box + 1])
    assert pool.low[at] == pool.high[at]
    return int(pool.low[at])


@given(chosen, events)
def test_an_event_is_in_the_boxes_of_what_it_matches(texts: list[str], event: dict[str, object]) -> None:
    known = [*texts, "kind IN ('', 'a', 'ab', 'b', 'c')", *(f"{name} IS NULL" for name in TYPES), "$broker = 7"]
    boxes = boxes_of(pa.array(known))
    space = Space(boxes, TYPES, [7, 9])
    pool = space.pool()
    codes = {name: code_of(space, name, event.get(name)) for name in boxes.names if name != "colour"}
    codes["colour"] = 0
    for number, text in enumerate(texts):
        inside = [box for box in range(pool.offsets[number], pool.offsets[number + 1]) if within(space, box, codes)]
        if parse_filter(text).matches({name: value for name, value in event.items() if value is not None}):
            assert inside, text
        else:
            assert not any(pool.exact[box] for box in inside), text


def within(space: Space, box: int, codes: dict[str, int | None]) -> bool:
    pool = space.pool()
    for at in range(pool.range_offsets[box], pool.range_offsets[box + 1]):
        code = codes[space.boxes.names[pool.attribute[at]]]
        assert code is not None
        if not pool.low[at] <= code <= pool.high[at]:
            return False
    return True


def test_the_numbers_of_ranges() -> None:
    found = boxes_of(pa.array(["x > 5 AND y <= -3", "x >= 0.1 AND x < 0.2", "kind = 'a'", "x = 0"]))
    low, high, open_low, open_high = found.ends()
    assert low.tolist()[:3] == [5, -np.inf, 0.1]
    assert high.tolist()[:3] == [np.inf, -3, 0.2]
    assert np.isnan(low[3])
    assert (low[4], high[4]) == (0, 0)
    assert open_low.tolist() == [True, False, False, False, False]
    assert open_high.tolist() == [False, False, True, False, False]


def test_which_filters_are_pure() -> None:
    found = boxes_of(
        pa.array(["x > 5", "x + y > 3", "kind LIKE '%a'", "kind LIKE 'a%'", "x <> 5", "FALSE", "x > 1e300"])
    )
    assert found.pure.tolist() == [True, False, False, True, True, True, False]
    assert np.diff(found.offsets).tolist() == [1, 1, 1, 1, 2, 0, 1]


def test_kinds_of_ranges() -> None:
    found = boxes_of(pa.array(["x IS NULL AND y IS NOT NULL AND kind >= 'b' AND z < 5"]))
    assert found.names == ("kind", "x", "y", "z")
    assert found.kind.tolist() == [1, ABSENT, PRESENT, KEYS]
    assert found.texts == ("b",)
    assert (found.low[0], found.high[0]) == (0, ENDLESS)


def test_what_does_not_parse_is_named() -> None:
    found = boxes_of(pa.array(["x > 1", "x >", "y ="]))
    assert list(found.wrong) == [1, 2]
    assert "x >" in found.wrong[1]


def equal(one: Boxes, other: Boxes) -> bool:
    columns: list[tuple[Any, Any]] = list(zip(one[:-1], other[:-1], strict=True))
    return all(np.array_equal(a, b) for a, b in columns) and one.wrong == other.wrong


@given(chosen, chosen)
def test_joined_are_as_if_read_together(one: list[str], other: list[str]) -> None:
    together = boxes_of(pa.array([*one, *other], pa.string()))
    assert equal(joined([boxes_of(pa.array(some, pa.string())) for some in (one, other)]), together)


@pytest.mark.parametrize("cores", [1, 3])
def test_the_step_is_the_same_for_any_number_of_partitions(
    cores: int, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Most filters here cannot be read without the parser, which runs on Spark once they are too many."""
    dice = random.Random(1)
    texts = [f"({dice.choice(FILTERS[:-7])}) OR x = {number}" for number in range(200)] + ["x > 3", "kind = 'z'"]
    monkeypatch.setattr(module, "AT_ONCE", 10)
    pipeline.spark.conf.set("spark.sql.shuffle.partitions", cores)
    subscriptions = [(number, 10, text, False) for number, text in enumerate(texts)]
    scenario = scenario_of(
        tmp_path / str(cores),
        Settings(),
        scenario_tables([1], [], [10], subscriptions),
        events_table([(10, 1, 1.0)], {"x": pa.float64()}),
    )
    assert equal(pipeline.boxes(scenario), boxes_of(pa.array(dict.fromkeys(texts))))
    assert equal(Workbench(scenario).boxes(scenario), pipeline.boxes(scenario))


def test_many_intervals_make_many_boxes_or_one_that_is_wider() -> None:
    some = boxes_of(
        pa.array([" AND ".join(f"{name} IN ({', '.join(map(str, range(n)))})" for name, n in (("x", 10), ("y", 20)))])
    )
    assert len(some.exact) == 200
    assert some.exact.all()
    more = boxes_of(pa.array([" AND ".join(f"{name} IN ({', '.join(map(str, range(40)))})" for name in "xy")]))
    assert not more.exact.any()
    for point in product(range(0, 40, 13), repeat=2):
        assert point_in(more, point)


def point_in(boxes: Boxes, point: tuple[int, ...]) -> bool:
    low, high, _, _ = boxes.ends()
    spans = [range(boxes.range_offsets[box], boxes.range_offsets[box + 1]) for box in range(len(boxes.exact))]
    return any(all(low[at] <= point[boxes.attribute[at]] <= high[at] for at in span) for span in spans)
