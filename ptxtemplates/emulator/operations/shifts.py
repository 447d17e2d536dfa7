"""Shifts whose amount may exceed the width, and masks: what several families share."""

from __future__ import annotations

import numpy as np

from ptxtemplates.emulator.operations.values import Array


def left(values: Array, amount: Array) -> Array:
    """Shift unsigned integers left; amounts of the width and above give zero."""
    shifted: Array = values << _fitting(amount, values.dtype)
    return shifted


def right(values: Array, amount: Array) -> Array:
    """Shift integers right; amounts of the width and above give zero, or copies of a signed type's sign."""
    shifted: Array = values >> _fitting(amount, values.dtype)
    return shifted


def _fitting(amount: Array, dtype: np.dtype[np.integer]) -> Array:
    """Return shift amounts in the type of the values; NumPy shifts by the width and more as PTX does."""
    if dtype.itemsize < amount.dtype.itemsize or dtype.kind == "i":
        amount = np.minimum(amount, 8 * dtype.itemsize)
    return amount.astype(dtype, copy=False)


def low_mask(count: Array, dtype: np.dtype[np.unsignedinteger]) -> Array:
    """Return unsigned integers whose lowest `count` bits are set: all of them from the width on."""
    ones = np.full(count.shape, np.iinfo(dtype).max, dtype)
    return ~left(ones, count)
