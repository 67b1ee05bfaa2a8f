"""Arithmetic worked out in columns gives what the evaluator gives, or leaves the question to it."""

import random
from pathlib import Path

import numpy as np
import pytest

from overstory import parse_filter
from overstory.filters.boxes import Box
from overstory.matching.arithmetic import FEW, Comparison, answers, comparison_of
from overstory.matching.batch import Batch, Numbers
from overstory.matching.frozen import FrozenIndex, freeze
from overstory.matching.index import FilterIndex
from overstory.matching.reference import ReferenceIndex

EVENTS = 120
CONSTANTS = ["0", "1", "2", "3", "0.5", "1.5", "7", "9007199254740991", "9007199254740992", "9007199254740993", "1e300"]
INTEGERS = [0, 1, 2, -3, 5, 2**53 - 1, 2**53, 2**53 + 1, 2**62, -(2**63)]
FLOATS = [0.0, -0.0, 1.5, 2.0, 0.1, 2.0**53, 1e-310, 1e308, np.nan, np.inf, -np.inf]


def value(dice: random.Random, depth: int) -> str:
    kind = dice.random()
    if depth == 0 or kind < 0.3:
        return dice.choice("abc") if dice.random() < 0.85 else dice.choice(CONSTANTS)
    if kind < 0.4:
        return f"{dice.choice('+-')} {dice.choice('abc')}"
    return f"({value(dice, depth - 1)} {dice.choice('+-*/%')} {value(dice, depth - 1)})"


def column(dice: random.Random) -> object:
    def some(values: list[object]) -> list[object]:
        return dice.choices(values, k=EVENTS)

    integers, floats = np.array(some([*INTEGERS])), np.array(some([*FLOATS]))
    return dice.choice(
        [
            integers,
            floats,
            Numbers(np.array(some([-2, 0, 3]), np.int8), np.array(some([True, True, False]), np.bool_)),
            np.array(some([0, 1, 2**53 + 1, 2**64 - 1]), np.uint64),
            floats.astype(np.float16),
            np.array(some([0.1, -2.5]), np.float32),
            np.array(some([True, False])),
            some([1, 2.5, "x", None, True]),
        ]
    )


@pytest.mark.filterwarnings("ignore:overflow")  # of floats too large for 16 bits
@pytest.mark.parametrize("seed", range(12))
def test_batches_find_what_asking_every_filter_finds(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    operators = ["<", "<=", ">", ">=", "=", "<>"]
    texts = [f"{value(dice, 2)} {dice.choice(operators)} {value(dice, 1)}" for _ in range(40)]
    texts += [f"a {operator} b {sign} {n}" for operator in operators for sign in "+*" for n in range(3)]
    filters = list(map(parse_filter, texts))
    index, plain = FilterIndex(filters), ReferenceIndex(filters)
    freeze(index, tmp_path / "index")
    batch = Batch({name: column(dice) for name in "abc"[: dice.choice([2, 3])]})
    wanted = plain.match_batch(batch)
    for each in (index, FrozenIndex(tmp_path / "index")):
        found = each.match_batch(batch)
        assert found.offsets.tolist() == wanted.offsets.tolist()
        assert found.filters.tolist() == wanted.filters.tolist()


def comparison(text: str) -> Comparison | None:
    (box,) = parse_filter(text).boxes
    return comparison_of(Box({}, box.residuals))


def test_comparisons_that_differ_in_constants_have_one_shape() -> None:
    one, other = comparison("high - low > 3"), comparison("high - low > 4.5")
    assert one is not None
    assert other is not None
    assert one.shape == other.shape
    assert (one.constants, other.constants) == ((3.0,), (4.5,))


@pytest.mark.parametrize("text", ["a < b", "a = b", "LOWER(a) = 'x'", "a + b > 1 AND a - b > 2", "NOT (a + 'x') = 'y'"])
def test_what_is_no_single_comparison_of_numbers_is_left_to_the_evaluator(text: str) -> None:
    assert comparison(text) is None


def test_there_is_no_answer_where_floats_are_not_exact() -> None:
    asked = [comparison("a + b > 1")]
    values = np.array([1, 2**53 - 1, 2**53, -(2**53), 2**62] * FEW)
    answered, _ = answers(
        asked, np.zeros(len(values), np.int64), np.arange(len(values)), Batch({"a": values, "b": values})
    )
    assert answered.tolist() == [True, False, False, False, False] * FEW
