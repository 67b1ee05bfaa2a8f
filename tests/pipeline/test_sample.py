"""A sample of many rows is like all of them: its parts are drawn apart, and no row counts for more than it should."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from overstory.model.network import Network
from overstory.pipeline.match import CHOOSE, FIT, ROWS
from overstory.pipeline.pipeline import Pipeline
from overstory.pipeline.sample import Sample, sample_of, sampled

Ints = NDArray[np.int64]
BROKERS = 20
NO_ENDS, NO_PRICES = np.zeros(0, np.int64), np.zeros(0)
NETWORK = Network.between(np.arange(BROKERS), NO_ENDS, NO_ENDS, NO_PRICES, NO_PRICES)
ATTACHED = pa.table({"client": np.arange(BROKERS) + 100, "broker": np.arange(BROKERS)})


def log(sizes: Ints, seed: int = 0) -> pa.RecordBatch:
    """By set of filters, broker and part, the bytes of its row. Set i is of filter i alone."""
    which, broker, part = (axis.reshape(-1) for axis in np.indices(sizes.shape))
    hashes = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, (2, len(sizes)))
    sets = pa.ListArray.from_arrays(pa.array(np.arange(len(which) + 1), pa.int32()), pa.array(which, pa.int32()))
    ones = np.ones(len(which), np.int64)
    columns = [part, broker + 100, *hashes[:, which], sets, ones, sizes.reshape(-1)]
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=ROWS)


def taken(sizes: Ints, most: int, seed: int = 0) -> Sample:
    return sampled(log(sizes, seed), ATTACHED, NETWORK, most)


def weights_of(sample: Sample, sets: int) -> NDArray[np.float64]:
    """What the sample says about the bytes of each set, as shares of all."""
    found: NDArray[np.float64] = np.bincount(sample.predicates, sample.bytes, sets) / sample.bytes.sum()
    return found


def skewed(seed: int) -> Ints:
    """Some rows have a thousand times as many bytes as others."""
    dice = np.random.default_rng(seed)
    return (1 + dice.pareto(1.0, (50, BROKERS, 2))).clip(max=1000).astype(np.int64)


def test_the_part_to_choose_by_is_drawn_apart_from_the_part_to_fit() -> None:
    """Else the rows to choose by would be copies of those to fit, and what was merely remembered would seem right."""
    sample = taken(np.ones((400, BROKERS, 2), np.int64), 1600)  # one row of ten
    keys = sample.predicates * BROKERS + sample.broker
    fit, choose = keys[sample.part == FIT], keys[sample.part == CHOOSE]
    assert len(fit) + len(choose) == 1600
    assert len(np.intersect1d(fit, choose)) == pytest.approx(0.1 * len(choose), rel=0.25)
    assert len(np.unique(sample.predicates)) > 375  # four rows of each set, on average


def test_what_a_sample_says_is_right_on_average() -> None:
    sizes = skewed(1)
    truth = sizes.sum(axis=(1, 2)) / sizes.sum()
    told = np.stack([weights_of(taken(sizes, 200, seed), len(sizes)) for seed in range(200)])
    errors = told.std(axis=0) / np.sqrt(len(told))
    assert (np.abs(told.mean(axis=0) - truth) < 5 * errors + 0.002).all()


def test_a_row_with_many_bytes_is_never_missed() -> None:
    for seed in range(50):
        sizes = np.ones((500, BROKERS, 2), np.int64)
        sizes[7, 3, FIT] = 10_000  # a third of all bytes
        assert weights_of(taken(sizes, 300, seed), 500)[7] == pytest.approx(1 / 3, abs=0.08)


def test_the_rows_in_a_larger_sample_include_those_of_a_smaller_one() -> None:
    def rows(sample: Sample) -> set[tuple[int, ...]]:
        return set(zip(*(each.tolist() for each in (sample.part, sample.broker, sample.predicates)), strict=True))

    few, many, every = (taken(skewed(2), most) for most in (100, 500, 2000))
    assert rows(few) < rows(many) < rows(every)
    assert few.share == 0.05
    assert every.bytes.sum() == skewed(2).sum()


def test_rows_without_bytes_stand_for_nothing() -> None:
    sizes = skewed(3)
    sizes[10:20] = 0
    found = weights_of(taken(sizes, 300), len(sizes))
    assert not found[10:20].any()
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("most", [1, 300, 1999, 2000, 5000])
def test_spark_takes_the_same(pipeline: Pipeline, most: int) -> None:
    sizes = skewed(4)
    sizes[10:20] = 0
    rows = pipeline.spark.createDataFrame(pa.Table.from_batches([log(sizes)]))
    ours, theirs = taken(sizes, most), sample_of(rows, ATTACHED, NETWORK, most)
    assert [np.asarray(each).tolist() for each in ours] == [np.asarray(each).tolist() for each in theirs]
