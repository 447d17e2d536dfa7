"""Sizes of PTX types, and of a warp."""

from __future__ import annotations

from typing import Final

from ptxtemplates.emulator.operations import DTYPES

BITS: Final = {name: 1 if name == "pred" else dtype.itemsize * 8 for name, dtype in DTYPES.items()}
"""Bits of each PTX type; a packed type has those of both halves."""

WARP: Final = 32
"""Threads of a warp."""
