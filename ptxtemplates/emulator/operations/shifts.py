"""Shifts whose amount may exceed the width, and masks: what several families share."""

from __future__ import annotations

import numpy as np

from ptxtemplates.emulator.operations.values import Array


def left(values: Array, amount: Array) -> Array:
    """Shift unsigned integers left; amounts of the width and above give zero."""
    bits = 8 * values.dtype.itemsize
    inside = values << np.minimum(amount, bits - 1).astype(values.dtype)
    shifted: Array = np.where(amount >= bits, values.dtype.type(0), inside)
    return shifted


def right(values: Array, amount: Array) -> Array:
    """Shift integers right; amounts of the width and above give zero, or copies of a signed type's sign."""
    bits = 8 * values.dtype.itemsize
    inside: Array = values >> np.minimum(amount, bits - 1).astype(values.dtype)
    if values.dtype.kind == "i":
        return inside
    return np.where(amount >= bits, values.dtype.type(0), inside)


def low_mask(count: Array, dtype: np.dtype[np.unsignedinteger]) -> Array:
    """Return unsigned integers whose lowest `count` bits are set: all of them from the width on."""
    ones = np.full(count.shape, np.iinfo(dtype).max, dtype)
    return ~left(ones, count)
