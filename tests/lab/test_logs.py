"""Generated filters parse, mean what their makers count, and match the wanted share of the log."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overstory import parse_filter
from overstory.errors import DataError, UsageError
from overstory.lab.log_columns import FEW_NUMBERS, column_of
from overstory.lab.logs import MOST_ROWS, _read, add_subscriptions


def a_log(events: int = 4000) -> pa.Table:
    draw = np.random.default_rng(1)
    words = [f"w{number}" for number in range(50)]
    return pa.table(
        {
            "$id": np.arange(events),
            "symbol": [f"S{min(number, 500)}" for number in draw.zipf(1.3, events)],
            "price": draw.lognormal(3, 1, events),
            "quantity": draw.integers(0, 10**6, events),
            "status": draw.choice([200, 404, 500], events, p=[0.9, 0.07, 0.03]),
            "ok": draw.random(events) < 0.1,
            "tags": [[words[min(at, 49)] for at in draw.zipf(1.5, many)] for many in draw.integers(0, 4, events)],
            'odd "name"-': [None if at % 3 == 0 else f"it's 50%_\\{at}" for at in range(events)],
            "in": draw.choice(["a", "b"], events),  # a reserved word
            "when": pa.array(np.arange(events), pa.timestamp("s")),  # of no use
        }
    )


LOG = a_log()
texts = st.text(st.characters(codec="utf-8"), max_size=5) | st.sampled_from(["a", "ab", "abc", "a'%", "a_", "\\"])
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "string": (pa.string(), texts),
    "boolean": (pa.bool_(), st.booleans()),
    "code": (pa.int64(), st.integers(-3, 3)),
    "integer": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "float": (pa.float64(), st.floats()),
    "list": (pa.list_(pa.string()), st.lists(texts, max_size=3)),
}


@pytest.mark.parametrize("kind", VALUES)
@settings(max_examples=40)
@given(data=st.data())
def test_a_condition_is_met_by_the_events_that_match_it(kind: str, data: st.DataObject) -> None:
    arrow_type, values = VALUES[kind]
    column = data.draw(st.lists(st.none() | values, min_size=1, max_size=12))
    if kind == "integer":  # so many that they are quantities
        column += range(FEW_NUMBERS)
    dice = np.random.default_rng(data.draw(st.integers(0, 1000)))
    made = column_of("n", pa.chunked_array([pa.array(column, arrow_type)]), dice)
    if made is None:
        assert not any(isinstance(value, bool | int | str) or value for value in column if value == value)
        return
    for share in (0.01, 0.3, 0.9):
        term = made.draw(share, dice)
        assert term.met.tolist() == [parse_filter(term.text).matches({"n": value}) for value in column]


@pytest.mark.parametrize("selectivity", [0.002, 0.02, 0.1, 0.5, 0.9])
def test_the_mean_share_is_the_wanted_one(selectivity: float) -> None:
    filters = [parse_filter(text) for text in add_subscriptions(LOG, 120, 7, selectivity)]
    events = LOG.drop(["when"]).to_pylist()[::2]
    shares = [np.mean([each.matches(event) for event in events]) for each in filters]
    assert np.mean(shares) == pytest.approx(selectivity, rel=0.25)
    assert np.std(shares) > selectivity / 10  # they are not all alike


def test_every_form_occurs_and_parses() -> None:
    filters = add_subscriptions(LOG, 400, 1, 0.05)
    assert len(filters) == 400
    assert len(set(filters)) > 300
    for text in filters:
        parse_filter(text)
    everything = "\n".join(filters)
    for form in (
        "symbol = 'S",
        "symbol IN ('S",
        "symbol LIKE 'S",
        "price BETWEEN ",
        "price >= ",
        "quantity <= ",
        "status = ",
        "tags HAS ANY ('w",
        "NOT ok",
        '"odd ""name""-" LIKE \'it\'\'s 50\\%\\_\\\\',
        '"in" = ',
    ):
        assert form in everything
    assert "$id" not in everything
    assert "when" not in everything
    terms = {text.count(" AND ") - text.count(" BETWEEN ") + 1 for text in filters}
    assert terms == {1, 2, 3}


def test_the_seed_decides() -> None:
    assert add_subscriptions(LOG, 50, 1) == add_subscriptions(LOG, 50, 1)
    assert add_subscriptions(LOG, 50, 1) != add_subscriptions(LOG, 50, 2)
    assert add_subscriptions(LOG, 0, 1) == []


def test_one_term_if_asked() -> None:
    filters = add_subscriptions(LOG.select(["symbol", "status"]), 50, 1, most_terms=1)
    assert not any(" AND " in text for text in filters)


def test_a_file_is_read_in_part_and_all_over(tmp_path: Path) -> None:
    path = tmp_path / "events.parquet"
    pq.write_table(pa.table({"n": np.arange(300_000)}), path, row_group_size=20_000)
    read = _read(path)["n"].to_numpy()
    assert len(read) <= MOST_ROWS
    assert read.max() > 280_000
    filters = add_subscriptions(path, 30, 1, 0.1)
    numbers = [parse_filter(text) for text in filters]
    shares = [np.mean([each.matches({"n": n}) for n in range(0, 300_000, 1000)]) for each in numbers]
    assert np.mean(shares) == pytest.approx(0.1, rel=0.4)


@pytest.mark.parametrize("array", [pa.array([1, 2**64 - 1], pa.uint64()), pa.array(["x", "y"]).dictionary_encode()])
def test_other_types_of_logs_that_can_be_used(array: pa.Array) -> None:
    texts = add_subscriptions(pa.table({"n": array}), 10, 1)
    assert len(list(map(parse_filter, texts))) == 10


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    nothing = pa.table({"$id": [1], "empty": pa.nulls(1, pa.string()), "long": ["x" * 1000]})
    with pytest.raises(UsageError, match="have no attribute to filter by"):
        add_subscriptions(nothing, 1, 1)
    with pytest.raises(UsageError, match="have no attribute to filter by"):
        add_subscriptions(LOG.slice(0, 0), 1, 1)
    with pytest.raises(UsageError, match=r"selectivity is the share of events .* more than 0 and less than 1"):
        add_subscriptions(LOG, 1, 1, 1.5)
    (tmp_path / "events.parquet").write_text("no")
    for path in (tmp_path / "events.parquet", tmp_path / "missing.parquet"):
        with pytest.raises(DataError, match="is not a Parquet file that can be read"):
            add_subscriptions(path, 1, 1)


def test_an_empty_file_has_no_attributes(tmp_path: Path) -> None:
    pq.write_table(LOG.slice(0, 0), tmp_path / "events.parquet")
    with pytest.raises(UsageError, match="have no attribute"):
        add_subscriptions(tmp_path / "events.parquet", 1, 1)
