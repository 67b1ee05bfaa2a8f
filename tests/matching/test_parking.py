"""A graph that parks covered filters says of its roots what the whole graph says, and files few of them."""

import random

from hypothesis import given
from hypothesis import strategies as st

from overstory.filters import parse_filter
from overstory.matching import ContainmentGraph, ParkingGraph


def text(dice: random.Random) -> str:
    """Boxes that often cover or equal each other, at times with other spellings, unions and patterns."""
    low = dice.randint(0, 4)
    x = f"x BETWEEN {low} AND {low + dice.choice([1, 2, 5])}"
    y = f"y > {dice.randint(0, 3)}"
    return dice.choice([x, y, f"{x} AND {y}", f"{y} AND {x}", f"{x} OR {y}", "s LIKE 'a%'", "s LIKE '%a'", "x + y > 2"])


@given(seed=st.integers(0, 10**9))
def test_roots_and_what_rests_on_them_are_the_same(seed: int) -> None:
    dice = random.Random(seed)
    plain, parking = ContainmentGraph(), ParkingGraph()
    live: list[int] = []
    for _ in range(dice.randint(1, 40)):
        if live and dice.random() < 0.4:
            number = live.pop(dice.randrange(len(live)))
            if plain.is_root(number) and parking.is_root(number):
                assert parking.has_equals(number) == plain.has_equals(number)
                if not plain.has_equals(number):
                    assert parking.resting_on(number) == plain.resting_on(number)
            assert plain.remove(number) == parking.remove(number)
        else:
            wanted = parse_filter(text(dice))
            live.append(plain.add(wanted))
            assert parking.add(wanted) == live[-1]
            assert parking.is_lone_root(live[-1]) == plain.is_lone_root(live[-1])
        assert len(parking) == len(plain) == len(live)
        assert all(number in parking for number in live)
        assert {number for number in live if parking.is_root(number)} <= {n for n in live if plain.is_root(n)}


def test_what_is_covered_is_not_filed() -> None:
    parking = ParkingGraph([parse_filter("x > 0")])
    covered = [parking.add(parse_filter(f"x > {low}")) for low in range(1, 100)]
    assert parking.statistics().filters == 1
    assert not any(map(parking.is_root, covered))
    assert parking.resting_on(0) == [covered[0]]  # the largest; the others are parked there
    assert parking.remove(0) == [covered[0]]
    assert parking.statistics().filters == 1


def test_equals_that_were_parked_are_one_node_when_they_are_looked_at() -> None:
    parking = ParkingGraph([parse_filter("x > 0")])
    equals = [parking.add(parse_filter("x > 1")) for _ in range(3)]
    assert parking.resting_on(0) == equals[:1]
    assert parking.equals(equals[0]) == equals


def test_filters_that_are_known_to_be_unrelated_are_as_if_they_had_come_one_by_one() -> None:
    texts = ["x = 1", "x = 2", "y > 1 AND x = 3", "x = 1", "s = 'a'", "x = 2", "y < 0 AND x = 3"]
    wanted = [parse_filter(text) for text in texts]
    together, one_by_one = ParkingGraph(), ParkingGraph(wanted)
    assert together.add_unrelated(wanted[:3]) + together.add_unrelated(wanted[3:]) == list(range(7))
    assert (len(together), together.next_number, together.roots()) == (7, 7, one_by_one.roots())
    for graph in (together, one_by_one):
        assert [graph.equals(number) for number in range(7)] == [[0, 3], [1, 5], [2], [0, 3], [4], [1, 5], [6]]
    for number in (graph.add(parse_filter("x >= 1 AND x < 3")) for graph in (together, one_by_one)):
        assert number == 7
    assert together.children(7) == one_by_one.children(7)
    assert together.remove(7) == one_by_one.remove(7)
