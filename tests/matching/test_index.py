"""The law of the index: whatever was added and removed, it finds what asking every filter finds."""

import random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from overstory import Filter
from overstory.kernels.leaves import CAPACITY
from overstory.matching.index import FilterIndex
from overstory.matching.reference import ReferenceIndex
from overstory.model.values import Attributes

from ..filters.strategies import events
from ..filters.test_laws import filters
from .agreement import assert_nothing_left, assert_same_matches
from .draws import Draws

seeds = st.integers(0, 2**32)
# Attributes of filters of both origins, the strategies' and the draws'
mixed_events = st.builds(lambda event, seed: {**Draws(seed).event(), **event}, events, seeds)


class IndexAgainstReference(RuleBasedStateMachine):
    """What comes in numbers comes from a seed: hypothesis would take too long over it, and shrink it too slowly."""

    def __init__(self) -> None:
        super().__init__()
        self.index, self.plain = FilterIndex(), ReferenceIndex()

    def add_each(self, some: list[Filter]) -> None:
        for wanted in some:
            assert self.index.add(wanted) == self.plain.add(wanted)

    def add_together(self, some: list[Filter]) -> None:
        assert self.index.add_all(some).tolist() == self.plain.add_all(some).tolist()

    def remove_each(self, numbers: list[int]) -> None:
        for number in numbers:
            self.index.remove(number)
            self.plain.remove(number)

    @rule(wanted=filters)
    def add(self, wanted: Filter) -> None:
        self.add_each([wanted])

    @rule(some=st.lists(filters, max_size=5))
    def add_all(self, some: list[Filter]) -> None:
        self.add_together(some)

    @rule(seed=seeds, count=st.integers(1, 100))
    def add_filters_of_all_kinds(self, seed: int, count: int) -> None:
        self.add_together(Draws(seed).filters(count))

    @rule(seed=seeds, count=st.integers(1, CAPACITY + 50))
    def add_similar_boxes(self, seed: int, count: int) -> None:
        self.add_each(Draws(seed).boxes(count))

    @rule(seed=seeds, count=st.integers(CAPACITY + 1, 2 * CAPACITY))
    def add_all_similar_boxes(self, seed: int, count: int) -> None:
        self.add_together(Draws(seed).boxes(count))

    @precondition(lambda self: bool(self.plain.filters))
    @rule(at=st.integers(0, 2**16))
    def add_one_again(self, at: int) -> None:
        self.add_each([self.plain.filters[self.number_at(at)]])

    @precondition(lambda self: bool(self.plain.filters))
    @rule(at=st.integers(0, 2**16))
    def remove(self, at: int) -> None:
        self.remove_each([self.number_at(at)])

    @precondition(lambda self: bool(self.plain.filters))
    @rule(seed=seeds, share=st.sampled_from([0.1, 0.5, 0.95]))
    def remove_many(self, seed: int, share: float) -> None:
        self.remove_each(random.Random(seed).sample(sorted(self.plain.filters), int(share * len(self.plain))))

    @rule(event=mixed_events)
    def match(self, event: Attributes) -> None:
        assert self.index.match(event).tolist() == self.plain.match(event).tolist()

    @rule(some=st.lists(mixed_events, max_size=8))
    def match_batch(self, some: list[Attributes]) -> None:
        assert_same_matches(self.index, self.plain, some)

    @rule()
    def remove_all(self) -> None:
        self.remove_each(sorted(self.plain.filters))
        assert_nothing_left(self.index)

    @invariant()
    def both_have_the_same_filters(self) -> None:
        assert len(self.index) == len(self.plain) == self.index.statistics().filters

    def number_at(self, at: int) -> int:
        numbers = sorted(self.plain.filters)
        return numbers[at % len(numbers)]

    def teardown(self) -> None:
        assert_same_matches(self.index, self.plain, Draws(len(self.plain)).events(5))
        self.remove_all()


# One example is up to fifty steps, many of them with a hundred filters
IndexAgainstReference.TestCase.settings = settings(max_examples=settings().max_examples // 12)
test_index_finds_what_asking_every_filter_finds = IndexAgainstReference.TestCase


@pytest.mark.parametrize("seed", range(3))
def test_index_stays_right_while_thousands_of_filters_come_and_go(seed: int) -> None:
    draws = Draws(seed)
    dice = draws.dice
    pool = draws.filters(1500) + draws.boxes(6 * CAPACITY) + draws.boxes(6 * CAPACITY)
    index, plain = FilterIndex(), ReferenceIndex()
    live: list[int] = []
    for removed in (0.2, 0.5, 0.8, 0.1, 0.5, 0.5, 0.9):  # the share of removals among changes
        some = dice.choices(pool, k=dice.randint(1, 6 * CAPACITY))
        live += index.add_all(some).tolist()
        plain.add_all(some)
        for _ in range(800):
            if live and dice.random() < removed:
                number = live.pop(dice.randrange(len(live)))
                index.remove(number)
                plain.remove(number)
            else:
                wanted = dice.choice(pool)
                live.append(index.add(wanted))
                assert plain.add(wanted) == live[-1]
        assert_same_matches(index, plain, draws.events(25))
    for number in dice.sample(live, len(live)):
        index.remove(number)
    assert_nothing_left(index)
