"""What a kernel's definition bakes into its text, computed anew and not by the code that renders.

The coefficients of RoPE's polynomials are themselves the definition, since they were fitted: that the text
has them is all that can be compared. What they give is judged by the case cosine-and-sine.
"""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ptxtemplates.kernels.rope import COSINE, SINE
from ptxtemplates.ptx.literals import float32_bits
from ptxtemplates.references.rope import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ptxtemplates.kernels.flash_decoding import FlashDecodingChunk, FlashDecodingReduce
    from ptxtemplates.kernels.rope import Rope

PLAIN: Final = frozenset({0x00000000, 0x3F800000, 0xBF800000, 0xFF800000})
"""float32 bits of 0, 1, -1 and -inf, which any text may use."""


class Baked(NamedTuple):
    """What the text must hold.

    Attributes
    ----------
    tables : mapping of str to (tuple of int)
        Elements of each module variable, by its name.
    floats : mapping of str to int
        float32 bits of each constant; the text has these and the `PLAIN` ones, and no others.
    integers : mapping of str to int
        Integers above 2^32, likewise.
    """

    tables: Mapping[str, tuple[int, ...]] = MappingProxyType({})
    floats: Mapping[str, int] = MappingProxyType({})
    integers: Mapping[str, int] = MappingProxyType({})


def of_rope(kernel: Rope) -> Baked:
    """Return the turns, 2^-32, and the coefficients of the polynomials."""
    names = [f"sine coefficient {number}" for number in range(len(SINE))]
    names += [f"cosine coefficient {number}" for number in range(len(COSINE))]
    floats = dict(zip(names, SINE + COSINE, strict=True))
    return Baked(
        {"turns": table(kernel.theta, kernel.head_dim)}, {"2^-32": float32_bits(2.0**-32), **floats}, {}
    )


def of_reduce(kernel: FlashDecodingReduce) -> Baked:
    """Return log2(e), and the reciprocal of chunk_size unless that is a power of two."""
    return Baked({}, {"log2(e)": _log2_e()}, _reciprocal("chunk_size", kernel.chunk_size))


def of_chunk(kernel: FlashDecodingChunk) -> Baked:
    """Return log2(e), the scale, and the reciprocal of the group size unless that is a power of two."""
    scale = int(np.float32(kernel.scale).view(np.uint32))
    group = kernel.num_heads // kernel.num_kv_heads
    return Baked({}, {"log2(e)": _log2_e(), "scale": scale}, _reciprocal("group size", group))


def _log2_e() -> int:
    with localcontext(Context(prec=50)):
        return float32_bits(1 / Decimal(2).ln())


def _reciprocal(name: str, divisor: int) -> dict[str, int]:
    """Return ceil(2^64 / divisor), by which a division is a multiplication; none where it is a shift."""
    if divisor & (divisor - 1) == 0:
        return {}
    return {f"2^64 / {name}": -(-(2**64) // divisor)}
