"""What an operation takes and gives: arrays with one element a lane, of the NumPy type of a PTX type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ptxtemplates.errors import PtxTemplatesError
from ptxtemplates.ptx.operands import Immediate
from ptxtemplates.ptx.statements import Instruction

Array: TypeAlias = npt.NDArray[Any]
Compute: TypeAlias = Callable[..., tuple[Array, ...]]


class _Dtypes(dict[str, np.dtype[Any]]):
    """NumPy types by PTX type; that of bf16 is added when it is asked for."""

    def __missing__(self, name: str) -> np.dtype[Any]:
        if name != "bf16":
            raise KeyError(name)
        import ml_dtypes  # takes longer than all else that an emulation imports, and few kernels need it

        return self.setdefault(name, np.dtype(ml_dtypes.bfloat16))


DTYPES: Final = _Dtypes(
    {
        **{f"{kind}{bits}": np.dtype(f"uint{bits}") for kind in "bu" for bits in (8, 16, 32, 64)},
        **{f"s{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
        "f16": np.dtype(np.float16),
        "f32": np.dtype(np.float32),
        "f64": np.dtype(np.float64),
        "f16x2": np.dtype(np.uint32),
        "bf16x2": np.dtype(np.uint32),
        "pred": np.dtype(np.bool_),
    }
)
"""NumPy type of a lane's value, by PTX type without its dot; packed types are one integer."""

# A NaN that an instruction makes has one bit pattern. The ISA names it for the packed formats of 16 bits
# ("canonical NaN") and leaves that of f32 open; of f64 it lets payloads through, which is not modelled.
CANONICAL_NAN: dict[str, int] = {
    "f16": 0x7FFF,
    "bf16": 0x7FFF,
    "f32": 0x7FFFFFFF,
    "f64": 0x7FF8000000000000,
}

HALVES = {"f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16"}
"""Type of each half of a packed type."""


class UnsupportedInstruction(PtxTemplatesError):
    """An instruction whose meaning the emulator does not know.

    Attributes
    ----------
    instruction : Instruction or None
        Which.
    """

    instruction: Instruction | None = None


class Operation(NamedTuple):
    """What an instruction computes from its sources.

    Attributes
    ----------
    source_types : tuple of str
        A PTX type for every operand after the results, in the order written: registers, immediates (also
        lop3's table) and addresses alike; the elements of a vector one by one. An operand ``!p`` is one
        source: who fetches it negates it.
    result_types : tuple of str
        A PTX type for every result: both of ``p|q``, each element of a vector, ``_`` included.
    compute : callable
        Takes one array a source, of the NumPy type in `DTYPES`, and returns a tuple of result arrays. The
        arrays have one shape, or can be broadcast to one. Sources are never written to; a result may be a
        source itself.
    outside : callable, optional
        Takes what `compute` takes and says in which lanes the ISA promises nothing of the result.
    reads_carry, writes_carry : bool
        Whether the carry flag (``CC.CF``) is one more source, the last, or one more result, the last: of type
        ``pred``, and not in the lists of types.
    worst : callable, optional
        Of what is approximate within a bound: makes another `compute`, whose results lie at either edge of
        the bound, out of a function that chooses: it takes the sources and is true where the result goes
        away from zero, or up.
    """

    source_types: tuple[str, ...]
    result_types: tuple[str, ...]
    compute: Compute
    outside: Callable[..., Array] | None = None
    reads_carry: bool = False
    writes_carry: bool = False
    worst: Callable[[Callable[..., Array]], Compute] | None = None


def bits_of(values: Array) -> Array:
    """Return the bit patterns of an array as unsigned integers (a view)."""
    return values.view(f"u{values.dtype.itemsize}")


def from_bits(bits: Array, type_: str) -> Array:
    """Return the values of a PTX type whose bit patterns an unsigned array holds (a view)."""
    return bits.view(DTYPES[type_])


def has_nan(values: Array) -> bool:
    """Say whether any element is NaN."""
    if values.dtype != np.float32:
        return bool(np.isnan(values).any())
    # the largest is, then: one pass and no memory, but slow for the other types
    return bool(values.size and np.isnan(np.maximum.reduce(values, axis=None)))


def canonical(values: Array, type_: str) -> Array:
    """Give every NaN of a freshly computed array the one bit pattern of its type, in place."""
    if has_nan(values):
        bits_of(values)[np.isnan(values)] = CANONICAL_NAN[type_]
    return values


def choose(condition: Array, a: Array, b: Array) -> Array:
    """Select among values of one type by their bits, so that NaN payloads go through.

    Without a branch: for conditions that vary from lane to lane, several times as fast as `numpy.where`.
    """
    if a.dtype == np.bool_:
        return np.where(condition, a, b)
    first, second = bits_of(a), bits_of(b)
    mask = np.negative(condition.astype(first.dtype))
    chosen: Array = first ^ second
    chosen &= mask
    chosen ^= second
    return chosen.view(a.dtype)


def constant(immediate: Immediate, type_: str) -> Array:
    """Return an immediate operand as the value of an instruction type, shape ``()``.

    Integers are truncated to the width of the type (ISA, "Integer Constants": 64 bits, converted where they
    are used). A floating constant keeps its bits in a bit-size or integer type of its width, and is rounded
    to nearest in a float type of another.
    """
    dtype = DTYPES[type_]
    if type_ == "pred":
        return np.asarray(immediate.value != 0)
    floating = immediate.type in ("f32", "f64")
    if dtype.kind in "iu" or not floating:
        mask = (1 << 8 * dtype.itemsize) - 1
        # in a float type an integer is a bit pattern: ptxas lets it stand for those of 16 bits alone
        return np.asarray(immediate.value & mask, dtype=f"u{dtype.itemsize}").view(dtype)
    if immediate.type == type_:
        return np.asarray(immediate.value, dtype=f"u{dtype.itemsize}").view(dtype)
    with np.errstate(all="ignore"):
        return np.asarray(immediate.number, dtype=np.float64).astype(dtype)
