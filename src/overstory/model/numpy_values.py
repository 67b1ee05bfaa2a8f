"""What NumPy's scalars hold, as plain Python values. Imported only once such a value has come."""

from fractions import Fraction

import numpy as np


def held_by(value: object) -> object:
    """The plain value that a NumPy scalar, or an array without dimensions, holds; anything else as it is.

    A time is no number, so it stays what it is, and no condition but presence is known of it.
    """
    if not isinstance(value, (np.generic, np.ndarray)) or value.ndim:
        return value
    if np.ma.is_masked(value):
        return None
    kind = value.dtype.kind
    if kind == "f" and value.dtype.itemsize > 8:
        return exactly(np.longdouble(value))
    if isinstance(value, str):
        return str(value)
    if kind == "O":
        return value.item()
    return value.item() if kind in "biufU" else value


def exactly(value: np.longdouble) -> float | Fraction:
    """The same number as a float if one is equal to it, else as a fraction."""
    near = float(value)
    return near if near == value or near != near else Fraction(*value.as_integer_ratio())
