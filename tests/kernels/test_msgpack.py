"""Values of msgpack, written and read by kernels, against ``msgspec``."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overstory.kernels.msgpack import put_bytes, put_integer, put_list, read_bytes, read_integer, read_list
from overstory.kernels.nothing import NONE

encode = msgspec.msgpack.encode
SIZES = [0, 1, 15, 16, 255, 256, 65535, 65536]
EDGES = [sign * (1 << bits) + more for bits in range(63) for sign in (1, -1) for more in (-1, 0, 1)]


def as_array(data: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(data, np.uint8)


@given(st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from(EDGES)))
def test_integers(value: int) -> None:
    data, out = encode(value), np.zeros(20, np.uint8)
    end = put_integer(out, 3, value)
    assert out[3:end].tobytes() == data
    assert read_integer(out, 3, end) == (value, end)
    assert read_integer(out, 3, end - 1)[1] == NONE  # it is not whole


def test_what_is_no_integer_of_ours_is_none() -> None:
    for value in (1 << 63, "a", b"a", None, True, 1.5, [1], {1: 1}):
        data = encode(value)
        assert read_integer(as_array(data), 0, len(data))[1] == NONE


@pytest.mark.parametrize("size", SIZES)
def test_bytes_and_lists(size: int) -> None:
    out = np.zeros(8, np.uint8)
    data = encode(bytes(size))
    begin = put_bytes(out, 0, size)
    assert (out[:begin].tobytes(), begin + size) == (data[:begin], len(data))
    assert read_bytes(as_array(data), 0, len(data)) == (begin, len(data))
    assert read_bytes(as_array(data), 0, len(data) - 1)[1] == NONE
    items = encode([0] * size)
    begin = put_list(out, 0, size)
    assert out[:begin].tobytes() == items[:begin]
    assert read_list(as_array(items), 0, len(items)) == (size, begin)
    assert read_list(as_array(items), 0, begin - 1)[1] == NONE
    assert read_list(as_array(data), 0, len(data))[1] == read_bytes(as_array(items), 0, len(items))[1] == NONE
