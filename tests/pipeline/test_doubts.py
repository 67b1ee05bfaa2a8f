"""Filters that can never match are seen against the columns of a log, with what may have been meant."""

import pyarrow as pa
import pytest

from overstory.pipeline.doubts import Columns, attributes_in

COLUMNS = Columns(
    {
        "status": pa.string(),
        "temp": pa.float64(),
        "n": pa.int64(),
        "ok": pa.bool_(),
        "tags": pa.list_(pa.string()),
        "order.price": pa.float64(),
    },
    {"size": "--bytes"},
)


@pytest.mark.parametrize(
    ("text", "doubts"),
    [
        ("stauts = 'fail'", ["no event has 'stauts'; near to it: status"]),
        ("temp > 'thirty'", ["'temp' is a number, and is compared with 'thirty', which is a string"]),
        ("size > 100", ["'size' is no attribute, as --bytes took the column"]),
        ("status = fail", ["no event has 'fail'; a string stands in single quotes: status = 'fail'"]),
        ('status = "fail"', ["no event has 'fail'; a string stands in single quotes: status = 'fail'"]),
        ("n IN (1, 'x')", ["'n' is a number, and is compared with 'x', which is a string"]),
        ("temp LIKE '3%'", ["'temp' has to be LIKE a text as if it were a string, and is a number"]),
        ("status HAS ANY ('a')", ["'status' is asked what it HAS ANY of as if it were a list, and is a string"]),
        (
            "tags = 'a'",
            ["'tags' is a list, and is compared with 'a', which is a string; ask a list what it HAS ANY of"],
        ),
        ("status", ["'status' stands alone as if it were true or false, and is a string"]),
        ("NOT (n > 1 AND zone IS NULL)", ["no event has 'zone'"]),
        ("status + 1 > 2", ["'status' is reckoned with as if it were a number, and is a string"]),
        ("LOWER(n) = 'x'", ["'n' stands in LOWER() as if it were a string, and is a number"]),
        ("ok = 'yes' OR n = 1", ["'ok' is true or false, and is compared with 'yes', which is a string"]),
        ("order.prize > 1", ["no event has 'order.prize'; near to it: order.price"]),
        ("status = 'x' AND temp > n AND ok AND tags HAS ANY ('a') AND -n < 5 AND LEFT(status, 1) = 'f'", []),
        ("temp BETWEEN 1 AND 2.5 AND order.price IS NOT NULL", []),
    ],
)
def test_what_is_doubtful_is_said(text: str, doubts: list[str]) -> None:
    assert COLUMNS.doubts(text) == doubts


def test_attributes_of_a_filter() -> None:
    assert attributes_in("LEFT(a, 1) = 'x' AND NOT (b + c > 1 OR d IS NULL) AND e HAS ANY ('f') AND g IN (1, h)") == [
        *"abcdegh"
    ]
