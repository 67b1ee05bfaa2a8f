"""Topic filters as boxes: they match what MQTT says, cover each other exactly, and are read with their expressions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.errors import FilterError, ProtocolError
from overstory.filters import parse_filter
from overstory.model.topics import topic_attributes
from overstory.model.values import Untyped
from overstory.wire.topics import Wanted, filter_of, read_filter, topic_filter

levels = st.sampled_from(["a", "b", "", "$a"])
topics = st.lists(levels, min_size=1, max_size=4).map("/".join).filter(bool)
filters = st.builds(
    lambda found, end: "/".join([*found, *end]),
    st.lists(st.sampled_from(["a", "b", "", "$a", "+"]), min_size=1, max_size=3),
    st.sampled_from([[], ["#"]]),
).filter(bool) | st.just("#")


def matches(wanted: str, topic: str) -> bool:
    """MQTT's own words, section 4.7, level by level."""
    ours, theirs = wanted.split("/"), topic.split("/")
    if topic.startswith("$") and ours[0] in "+#" and ours[0]:
        return False
    for place, level in enumerate(ours):
        if level == "#":
            return True
        if place >= len(theirs) or level not in ("+", theirs[place]):
            return False
    return len(ours) == len(theirs)


@given(filters, topics)
def test_filters_match_what_mqtt_says(wanted: str, topic: str) -> None:
    if wanted.endswith("/#") and topic == wanted[:-2]:
        assert matches(wanted, topic)  # a/# matches a as well
    made = topic_filter(wanted)
    assert made.matches(topic_attributes(topic)) == matches(wanted, topic)
    assert made.boxes[0].contains(topic_attributes(topic)) == matches(wanted, topic)


@given(filters, filters, st.lists(topics, min_size=20, max_size=60))
def test_covering_is_never_wrong(wanted: str, other: str, found: list[str]) -> None:
    if topic_filter(wanted).covers(topic_filter(other)):
        assert all(matches(wanted, topic) for topic in found if matches(other, topic))


@pytest.mark.parametrize(
    ("wide", "narrow", "covers"),
    [
        ("#", "a/b", True),
        ("#", "+/b", True),
        ("a/#", "a", True),
        ("a/#", "a/+/c", True),
        ("a/+", "a/b", True),
        ("a/+", "a/b/c", False),
        ("+/b", "a/b", True),
        ("#", "$a/b", False),
        ("$a/#", "$a/b", True),
        ("a/b", "a/b", True),
        ("a/+/c", "a/#", False),
    ],
)
def test_covering_is_exact(wide: str, narrow: str, covers: bool) -> None:
    assert topic_filter(wide).covers(topic_filter(narrow)) is covers


def test_a_list_of_topics_covers_each_of_them() -> None:
    assert parse_filter("topic IN ('a/b', 'c')").covers(topic_filter("a/b"))


def test_a_printed_filter_is_the_same_filter() -> None:
    for wanted in ("a/+/c", "#", "a/#", "a/b", "+/+"):
        assert parse_filter(str(topic_filter(wanted))) == topic_filter(wanted)


def test_expressions_come_after_a_question_mark_or_apart() -> None:
    assert read_filter("a/#?x > 1") == Wanted("a/#", "x > 1", None)
    assert read_filter("a/#", "x > 1") == Wanted("a/#", "x > 1", None)
    assert read_filter("$share/g/a/+?x + 1 > 2 OR y = '#'") == Wanted("a/+", "x + 1 > 2 OR y = '#'", "g")
    made = filter_of(read_filter("a/#?x > 1"))
    assert made.matches({**topic_attributes("a/b"), "x": Untyped("2")})
    assert not made.matches({**topic_attributes("b"), "x": Untyped("2")})
    assert filter_of(read_filter("#?x > 1")) == parse_filter("x > 1")


@pytest.mark.parametrize(
    "text", ["", "a/#/b", "a+", "a/b#", "##", "$share/g", "$share//a", "$share/+/a", "/".join("a" * 201)]
)
def test_invalid_filters_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError) as raised:
        filter_of(read_filter(text))
    assert raised.value.code == 0x8F


def test_an_expression_that_does_not_parse_shows_where() -> None:
    with pytest.raises(FilterError) as raised:
        filter_of(read_filter("a?x >"))
    assert "^" in str(raised.value)
