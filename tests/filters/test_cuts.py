"""Cuts against sets of numbers held as plain Python sets."""

from hypothesis import given
from hypothesis import strategies as st

from overstory.filters import cuts
from overstory.filters.value_sets import NUMBER_BOTTOM, points_of, points_of_strings

VALUES = [value / 2 for value in range(-1, 10)]  # the integers 0 to 4, and what lies between and beyond

cut_lists = st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 1])), unique=True, max_size=8)
sets = st.builds(lambda c, below: (NUMBER_BOTTOM,) * below + tuple(sorted(c)), cut_lists, st.booleans())


def members(some: cuts.Cuts) -> set[float]:
    return {value for value in VALUES if cuts.contains(some, (value, 0))}


@given(sets, sets)
def test_operations_are_those_of_sets(a: cuts.Cuts, b: cuts.Cuts) -> None:
    assert members(cuts.union(a, b)) == members(a) | members(b)
    assert members(cuts.intersection(a, b)) == members(a) & members(b)
    assert members(cuts.difference(a, b)) == members(a) - members(b)
    assert cuts.is_subset(a, b) == (members(a) <= members(b))
    assert cuts.overlap(a, b) == bool(members(a) & members(b))


@given(sets, sets)
def test_equal_sets_have_equal_cuts(a: cuts.Cuts, b: cuts.Cuts) -> None:
    assert (a == b) == (members(a) == members(b))


@given(st.lists(sets, max_size=5))
def test_a_set_inside_the_union_of_many(some: list[cuts.Cuts]) -> None:
    for inner in some:
        assert cuts.is_subset_of_union(inner, some)
        others = [other for other in some if other != inner]
        together = set().union(*map(members, others))
        assert cuts.is_subset_of_union(inner, others) == (members(inner) <= together)


@given(st.sets(st.text("ab\0", max_size=3)))
def test_few_strings_are_found_again(texts: set[str]) -> None:
    assert points_of(points_of_strings(texts)) == sorted(texts)
