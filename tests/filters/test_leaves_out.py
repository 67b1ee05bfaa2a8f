"""What a union surely does not hold: never a wrong yes, also where there is too much to find out."""

import random

import pytest

from overstory.filters import parse_filter, relations

from ..plans import random_filter


def test_never_where_it_covers() -> None:
    dice = random.Random(7)
    found = 0
    for _ in range(2000):
        one, other = parse_filter(random_filter(dice)), parse_filter(random_filter(dice))
        assert not (one.leaves_out(other) and one.covers(other))
        assert one.leaves_out(other) or one.covers(other) or not one.is_exact_with(other)
        found += one.leaves_out(other)
    assert found > 500


def partition(words: list[str]) -> list[str]:
    """Of all lists with an x: by the first of the words that they have."""
    parts = ["w HAS ANY ('x')"]
    for word in words:
        parts[-1:] = [f"{parts[-1]} AND w HAS ANY ('{word}')", f"{parts[-1]} AND w NOT HAS ANY ('{word}')"]
    return parts


def test_too_much_work_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = partition([f"k{number}" for number in range(14)])
    random.Random(3).shuffle(texts)
    wanted = parse_filter("w HAS ANY ('x')")
    whole, less = (parse_filter(" OR ".join(f"({text})" for text in some)) for some in (texts, texts[1:]))
    assert whole.covers(wanted)
    assert not whole.leaves_out(wanted)
    assert less.leaves_out(wanted)
    monkeypatch.setattr(relations, "MOST_WORK", 10)
    monkeypatch.setattr(relations, "WORK_PER_BOX", 0)
    assert not whole.covers(wanted)
    assert not whole.leaves_out(wanted)
