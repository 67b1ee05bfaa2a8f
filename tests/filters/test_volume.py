"""Volume against counting, and against inclusion and exclusion."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory import Discrete, DistributionError, Uniform, parse_filter

from .strategies import box_conditions
from .test_laws import parsed


@given(box_conditions)
def test_volume_is_the_part_of_equally_likely_events_that_match(condition: object) -> None:
    domain: dict[str, list[object]] = {
        "n": [None, 0, 1, 1.5, 2, 2.5, 7],
        "t": [None, "", "a", "ab", "a\0", "c"],
        "k": [None, ("a",), ("a", "b"), ()],
        "b": [None, True, False],
    }
    wanted = parsed(condition)  # type: ignore[arg-type]
    events = [dict(zip(domain, values, strict=True)) for values in product(*domain.values())]
    expected = sum(wanted.matches(event) for event in events) / len(events)
    distributions = {name: Discrete(dict.fromkeys(values, 1.0)) for name, values in domain.items()}
    assert wanted.volume(distributions) == pytest.approx(expected)


numbers = st.integers(-2, 12) | st.sampled_from([0.5, 1.5, 9.5])
terms = st.sampled_from(["<", "<=", "=", "<>", ">", ">="]).flatmap(lambda o: numbers.map(lambda n: f"x {o} {n}"))
kinds = terms | st.sampled_from(["x IS NULL", "x IS NOT NULL", "x = 'a'", "x", "x LIKE '%a%'", "x IN (1, 2, 3)"])


@given(st.lists(kinds, min_size=1, max_size=5))
def test_a_cell_allows_what_its_middle_is_allowed(texts: list[str]) -> None:
    sets = [None, *(box.sets["x"] for text in texts for box in parse_filter(text).boxes)]
    cells = list(Uniform(0, 10).cells(sets))
    assert sum(weight for weight, _ in cells) == pytest.approx(1)
    start = 0.0
    for weight, allowing in cells:
        middle = start + 5 * weight
        assert allowing == sum(1 << i for i, allowed in enumerate(sets) if allowed is None or allowed.contains(middle))
        start += 10 * weight


sides = st.tuples(st.integers(-2, 12), st.integers(-2, 12)).map(sorted)
rectangles = st.lists(st.tuples(sides, sides), min_size=1, max_size=4)


@given(rectangles)
def test_uniform_volume_is_the_area_of_the_union(some: list[tuple[list[int], list[int]]]) -> None:
    text = " OR ".join(f"(x >= {x[0]} AND x < {x[1]} AND y > {y[0]} AND y <= {y[1]})" for x, y in some)
    unit_squares = product(range(10), range(10))
    inside = sum(any(x[0] <= i < x[1] and y[0] <= j < y[1] for x, y in some) for i, j in unit_squares)
    both = {"x": Uniform(0, 10), "y": Uniform(0, 10)}
    assert parse_filter(text).volume(both) == pytest.approx(inside / 100)


def test_volume_of_everything_nothing_and_points() -> None:
    assert parse_filter("TRUE").volume({}) == 1
    assert parse_filter("FALSE").volume({}) == 0
    assert parse_filter("x = 5").volume({"x": Uniform(0, 10)}) == 0
    assert parse_filter("x <> 5").volume({"x": Uniform(0, 10)}) == 1
    assert parse_filter("x IS NULL").volume({"x": Uniform(0, 10)}) == 0


def test_many_attributes_are_no_harder_than_few() -> None:
    names = [f"a{i}" for i in range(1500)]
    each = {name: Uniform(0, 10) for name in names}
    assert parse_filter(" AND ".join(f"{name} > 0" for name in names)).volume(each) == 1
    assert parse_filter(" OR ".join(f"{name} > 5" for name in names[:40])).volume(each) == pytest.approx(1 - 0.5**40)
    pairs = " OR ".join(f"({name} > 5 AND b{name} > 5)" for name in names[:40])
    both = each | {f"b{name}": Uniform(0, 10) for name in names}
    assert parse_filter(pairs).volume(both) == pytest.approx(1 - 0.75**40)


def test_a_volume_that_is_too_hard_is_refused() -> None:
    chain = " OR ".join(f"(a{i} > 5 AND a{(i * 7 + 3) % 40} > 5 AND a{(i * 11 + 5) % 40} < 8)" for i in range(40))
    with pytest.raises(DistributionError, match="too hard"):
        parse_filter(chain).volume({f"a{i}": Uniform(0, 10) for i in range(40)})


def test_residuals_count_as_true() -> None:
    assert parse_filter("x > 5 AND x * 2 > 18").volume({"x": Uniform(0, 10)}) == 0.5


def test_a_missing_or_senseless_distribution_is_named() -> None:
    with pytest.raises(DistributionError, match="'x'"):
        parse_filter("x > 5").volume({})
    for low, high in ((1, 1), (0, float("inf")), (-1e308, 1e308)):
        with pytest.raises(DistributionError, match="low must be less"):
            Uniform(low, high)
    with pytest.raises(DistributionError, match="weights"):
        Discrete({"a": float("inf"), "b": 1.0})
    with pytest.raises(DistributionError, match="weights"):
        Discrete({"a": -1.0})


@given(box_conditions, box_conditions)
def test_volume_grows_with_covering(a: object, b: object) -> None:
    first, second = parsed(a), parsed(b)  # type: ignore[arg-type]
    values: dict[str, list[object]] = {
        "n": [None, 0, 2, 3],
        "t": ["", "a", "b"],
        "k": [("a",), ("c",)],
        "b": [True, False],
    }
    distributions = {name: Discrete(dict.fromkeys(v, 1.0)) for name, v in values.items()}
    if first.covers(second):
        assert first.volume(distributions) >= second.volume(distributions) - 1e-12
