"""What is left of filters: exactly the events that match one and do not match the other, also where that is unknown."""

import random

import pytest

from overstory.filters import parse_filter
from overstory.filters.difference import difference
from overstory.model.values import Untyped

from ..plans import random_filter

VALUES: dict[str, list[object]] = {
    "topic": [None, "a", "b", "it's", 3, True],
    "price": [None, 0, 2.5, 7, 9, float("nan"), "7", Untyped("7"), Untyped("a"), ["p"]],
    "volume": [None, 0, 5, 9, Untyped("5"), "x"],
    "symbol": [None, "IBM", "IBX", "AIG", 1, Untyped("IBM")],
    "tags": [None, [], ["p"], ["q", "r"], ["p", "s"], "p", 4],
}


def events(dice: random.Random, count: int) -> list[dict[str, object]]:
    return [{name: dice.choice(some) for name, some in VALUES.items()} for _ in range(count)]


def test_exactly_what_is_outside() -> None:
    dice = random.Random(4)
    said = 0
    for _ in range(3000):
        one, other = parse_filter(random_filter(dice)), parse_filter(random_filter(dice))
        left = difference(one.boxes, other.boxes, 100)
        if left is None:
            continue
        said += 1
        for event in events(dice, 30):
            expected = one.matches(event) and not other.matches(event)
            assert any(box.contains(event) for box in left) == expected
    assert said > 1000


@pytest.mark.parametrize(
    ("one", "other", "left"),
    [
        ("price > 3", "price > 5", "price > 3 AND price <= 5"),
        ("price > 5", "price > 3", "FALSE"),
        ("tags HAS ANY ('a')", "tags HAS ANY ('b')", "tags HAS ANY ('a') AND tags NOT HAS ANY ('b')"),
        ("topic = 'a' AND price > 3", "price > 5", "topic = 'a' AND price > 3 AND price <= 5"),
        ("topic = 'a'", "price IS NULL", "topic = 'a' AND price IS NOT NULL"),
        ("topic = 'a'", "topic = 'b' AND price > 5", "topic = 'a'"),
        ("topic LIKE 'a%'", "topic LIKE 'a%z'", "topic LIKE 'a%' AND topic NOT LIKE 'a%z'"),
        ("price > 3 AND a < b", "price > 5 AND a < b", "price > 3 AND price <= 5 AND a < b"),
    ],
)
def test_what_is_left(one: str, other: str, left: str) -> None:
    found = difference(parse_filter(one).boxes, parse_filter(other).boxes, 100)
    assert found is not None
    assert {box.key() for box in found} == {box.key() for box in parse_filter(left).boxes}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("topic = 'a'", "price > 5"),  # a price may be absent, or a string
        ("price IS NOT NULL", "price > 5"),
        ("price > 3", "price > 3 AND a < b"),  # where a < b is unknown
        ("price > 3", "price LIKE '5%'"),  # of two faces
    ],
)
def test_what_boxes_cannot_say(one: str, other: str) -> None:
    assert difference(parse_filter(one).boxes, parse_filter(other).boxes, 100) is None


def test_too_many_pieces() -> None:
    words = [f"tags HAS ANY ('{i}', 'x{i}') AND n > {i}" for i in range(20)]
    boxes = parse_filter("tags HAS ANY ('a') AND n > 0").boxes
    others = [box for text in words for box in parse_filter(text).boxes]
    assert difference(boxes, others, 4) is None
    assert difference(boxes, others, 10_000) is not None
