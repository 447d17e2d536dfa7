"""Two values in one integer: the same operation on each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxtemplates.emulator.operations.values import DTYPES, Array, bits_of


def split(values: Array, type_: str, width: int = 16) -> tuple[Array, Array]:
    """Return the lower and the upper half of integers as values of a type of half their width."""
    unsigned = np.dtype(f"u{width // 8}")
    low = values.astype(unsigned)
    high = (values >> values.dtype.type(width)).astype(unsigned)
    return low.view(DTYPES[type_]), high.view(DTYPES[type_])


def join(low: Array, high: Array) -> Array:
    """Put two arrays of values into one of unsigned integers of twice their width."""
    width = low.dtype.itemsize * 8
    wide = np.dtype(f"u{width // 4}")
    joined: Array = bits_of(low).astype(wide) | bits_of(high).astype(wide) << wide.type(width)
    return joined


def on_halves(function: Callable[..., Array], type_: str, width: int = 16) -> Callable[..., tuple[Array]]:
    """Return what applies a function to the lower and the upper halves of packed sources.

    Parameters
    ----------
    function : callable
        Takes and returns arrays of the type.
    type_ : str
        Type of a half.
    width : int
        Its bits.
    """
    half = type_.removesuffix("x2")

    def compute(*sources: Array) -> tuple[Array]:
        halves = [split(source, half, width) for source in sources]
        return (join(function(*(low for low, _ in halves)), function(*(high for _, high in halves))),)

    return compute
