"""Scenarios with topics mean what a broker means by them: the pipeline derives the levels of a topic."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from overstory.filters import parse_filter
from overstory.matching import FilterIndex
from overstory.model.topics import topic_attributes
from overstory.pipeline.columns import batch_of
from overstory.pipeline.possible import Possible
from overstory.wire.topics import topic_filter

FILTERS = ["a", "a/b", "#", "+", "+/b", "a/#", "/#", "a/+/c", "$x/#", "a//c"]
topics = st.none() | st.lists(st.sampled_from(["a", "b", "c", "", "$x"]), min_size=1, max_size=4).map("/".join)


@given(st.lists(topics, min_size=1, max_size=8))
def test_topic_filters_match_the_same_events_as_at_a_broker(found: list[str | None]) -> None:
    filters = [topic_filter(text) for text in FILTERS]
    index = FilterIndex(filters)
    events = pa.RecordBatch.from_pydict({"topic": pa.array(found, pa.string()), "x": list(range(len(found)))})
    matches = index.match_batch(batch_of(events, asked=index.numbers))
    for row, topic in enumerate(found):
        attributes = {} if topic is None else topic_attributes(topic)
        assert matches.of(row).tolist() == [
            number for number, wanted in enumerate(filters) if wanted.matches(attributes)
        ]


def test_levels_that_nobody_asks_for_are_not_worked_out() -> None:
    events = pa.RecordBatch.from_pydict({"topic": ["a/b"], "x": [1]})
    assert list(batch_of(events).columns) == ["topic", "x"]
    assert list(batch_of(events, asked=["$level2", "x"]).columns) == ["topic", "x", "$level2"]
    assert list(batch_of(events.select(["x"]), asked=["$level2"]).columns) == ["x"]


def test_levels_are_possible_where_there_are_topics() -> None:
    wanted = parse_filter("$level1 = 'a' AND $levels >= 2")
    names = ["$level1", "$levels"]
    assert Possible({"topic": pa.string()}, [0]).of(wanted, names) == wanted
    assert Possible({"x": pa.int64()}, [0]).of(wanted, names) == parse_filter("FALSE")
