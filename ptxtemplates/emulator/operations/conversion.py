"""Conversions (ISA, "Data Movement and Conversion Instructions: cvt").

Not here, so refused: formats of 8, 6 and 4 bits, s2f6 and ue8m0, and stochastic rounding (``.rs``).
"""

from __future__ import annotations

import numpy as np

from ptxtemplates.emulator.operations.arithmetic import flush, rectify, saturate
from ptxtemplates.emulator.operations.forms import Form, Spelling
from ptxtemplates.emulator.operations.packing import join
from ptxtemplates.emulator.operations.rounding import FORMATS, TO_INTEGER, directed, narrow, sum_error, to_odd
from ptxtemplates.emulator.operations.values import DTYPES, HALVES, Array, Operation, canonical
from ptxtemplates.ptx.statements import Instruction


def _extend(_: Instruction, spelling: Spelling) -> Operation:
    """Integer to integer: extended as the source's sign says, chopped, or clamped."""
    result_type, type_ = spelling.types
    dtype = DTYPES[result_type]
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    source = np.iinfo(DTYPES[type_])
    bounds = max(low, int(source.min)), min(high, int(source.max))

    def compute(a: Array) -> tuple[Array]:
        return ((np.clip(a, *bounds) if spelling.has("sat") else a).astype(dtype),)

    return Operation((type_,), (result_type,), compute)


def _to_integer(_: Instruction, spelling: Spelling) -> Operation:
    """Float to integer: rounded to an integral value, then clamped to the range of the type."""
    result_type, type_ = spelling.types
    dtype = DTYPES[result_type]
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    bits = 8 * dtype.itemsize
    # zero where neither side is 64 bits wide
    for_nan = 1 << (bits - 1) if type_ == "f64" or bits == 64 else 0
    nan_value = np.asarray(for_nan, f"u{dtype.itemsize}").view(dtype)
    round_ = TO_INTEGER[spelling.modifiers["irnd"].removesuffix("i")]

    def compute(a: Array) -> tuple[Array]:
        if spelling.has("ftz"):
            a = flush(a, type_)
        whole = round_(a.astype(np.float64))
        if bits < 64:
            # both ends are float64 numbers
            clamped = np.clip(whole, low, high)
            clamped[np.isnan(whole)] = float(nan_value)
            return (clamped.astype(dtype),)
        # both ends are exact: one more than the highest value is a power of two
        below, above, nan = whole < float(low), whole >= float(high + 1), np.isnan(whole)
        inside = np.where(below | above | nan, 0.0, whole).astype(dtype)
        inside = np.where(below, dtype.type(low), np.where(above, dtype.type(high), inside))
        return (np.where(nan, nan_value, inside),)

    return Operation((type_,), (result_type,), compute)


def _from_integer(_: Instruction, spelling: Spelling) -> Operation:
    result_type, type_ = spelling.types
    mode, half = spelling.rounding, np.asarray(32, DTYPES[type_])

    def compute(a: Array) -> tuple[Array]:
        if a.dtype.itemsize < 8:
            result = narrow(a.astype(np.float64), result_type, mode)
            return (saturate(result, result_type) if spelling.has("sat") else result,)
        # two exact parts whose sum is rounded once
        upper = (a >> half).astype(np.float64) * 2.0**32
        lower = a.astype(np.uint32).astype(np.float64)
        total = upper + lower
        error = sum_error(upper, lower, total)
        if result_type == "f64":
            result = total if mode == "rn" else directed(total, error, mode)
        else:
            result = narrow(to_odd(total, error), result_type, mode)
        return (saturate(result, result_type) if spelling.has("sat") else result,)

    return Operation((type_,), (result_type,), compute)


def _convert(a: Array, spelling: Spelling, result_type: str, type_: str) -> Array:
    """Round floats of one type to another; `tf32` results are float64."""
    if spelling.has("ftz") and type_ == "f32":
        a = flush(a, type_)
    mode = spelling.modifiers.get("narrow_rnd", spelling.modifiers.get("rna", spelling.rounding))
    integral = spelling.modifiers.get("irnd")
    if integral is not None:
        values = TO_INTEGER[integral.removesuffix("i")](a.astype(np.float64))
        result = values.astype(DTYPES[result_type])
    elif mode == "rn" and type_ == "f32" and result_type in ("f16", "bf16") and not spelling.has("satfinite"):
        result = a.astype(DTYPES[result_type])  # one rounding, the quick way
    else:
        values = a.astype(np.float64)
        if spelling.has("satfinite"):
            largest = FORMATS[result_type].largest
            values = np.clip(values, -largest, largest)
        result = narrow(values, result_type, mode)
    if spelling.has("ftz") and result_type == "f32":
        result = flush(result, result_type)
    if spelling.has("relu"):
        result = rectify(result)
    return saturate(result, result_type) if spelling.has("sat") else result


def _float(_: Instruction, spelling: Spelling) -> Operation:
    result_type, type_ = spelling.types

    def compute(a: Array) -> tuple[Array]:
        return (canonical(_convert(a, spelling, result_type, type_), result_type),)

    return Operation((type_,), (result_type,), compute)


def _pack(_: Instruction, spelling: Spelling) -> Operation:
    """Two f32 into halves: the first source into the upper one."""
    result_type = spelling.type
    half = HALVES[result_type]

    def compute(a: Array, b: Array) -> tuple[Array]:
        upper, lower = (canonical(_convert(each, spelling, half, "f32"), half) for each in (a, b))
        return (join(lower, upper),)

    return Operation(("f32", "f32"), (result_type,), compute)


def _tensor_float(_: Instruction, spelling: Spelling) -> Operation:
    """``tf32``: an f32 with 10 bits of fraction, in a b32 register."""

    def compute(a: Array) -> tuple[Array]:
        values = _convert(a, spelling, "tf32", "f32").astype(np.float32)
        return (canonical(values, "f32").view(np.uint32),)

    return Operation(("f32",), ("b32",), compute)


def _pack_integers(_: Instruction, spelling: Spelling) -> Operation:
    """``cvt.pack``: two s32, clamped, the second lowest; what is left of the word from the third source."""
    kind = spelling.modifiers.get("small_integer", spelling.type)
    bits = int(kind[1:])
    low = -(1 << bits - 1) if kind[0] == "s" else 0
    bounds = low, low + (1 << bits) - 1
    field = np.uint32((1 << bits) - 1)

    def compute(a: Array, b: Array, *rest: Array) -> tuple[Array]:
        upper, lower = (np.clip(each, *bounds).view(np.uint32) & field for each in (a, b))
        whole = lower | upper << np.uint32(bits)
        return (whole | rest[0] << np.uint32(2 * bits) if rest else whole,)

    return Operation(("s32", "s32", "b32")[: 2 if bits == 16 else 3], ("u32",), compute)


_INTEGERS = tuple(f"{kind}{bits}" for kind in "us" for bits in (8, 16, 32, 64))
_INTEGER = "|".join(_INTEGERS)


def _clamped_from(result_type: str) -> str:
    """Return the integer types that have values outside a type: only from them can ``.sat`` convert."""
    result = np.iinfo(DTYPES[result_type])
    sources = ((type_, np.iinfo(DTYPES[type_])) for type_ in _INTEGERS)
    return "|".join(type_ for type_, info in sources if info.min < result.min or info.max > result.max)


CONVERSION_FORMS: dict[str, tuple[Form, ...]] = {
    "cvt": (
        Form(f"{_INTEGER} {_INTEGER}", _extend),
        *(Form(f"sat {type_} {_clamped_from(type_)}", _extend) for type_ in _INTEGERS),
        Form(f"irnd ftz? sat? {_INTEGER} f32", _to_integer),
        Form(f"irnd sat? {_INTEGER} f16|f64", _to_integer),
        Form("irnd integer bf16", _to_integer),
        Form(f"rnd ftz? sat? f32 {_INTEGER}", _from_integer),
        Form(f"rnd sat? f16|f64 {_INTEGER}", _from_integer),
        Form("rnd bf16 integer", _from_integer),
        # wider, or the same: no rounding
        Form("ftz? sat? f32 f16", _float),
        Form("ftz? f32 bf16", _float),
        Form("sat? f64 f16", _float),
        Form("f64 bf16", _float),
        Form("ftz? sat? f64 f32", _float),
        Form("irnd? ftz? sat? f32 f32", _float),
        Form("irnd? sat? f64 f64", _float),
        Form("irnd? sat? f16 f16", _float),
        Form("irnd? bf16 bf16", _float),
        # narrower
        Form("rnd ftz? sat? f32 f64", _float),
        Form("rnd ftz? sat? f16 f32", _float),
        Form("narrow_rnd relu satfinite? f16|bf16 f32", _float),
        Form("narrow_rnd satfinite f16|bf16 f32", _float),
        Form("rnd ftz? bf16 f32", _float),
        Form("rnd sat? f16 f64", _float),
        Form("rnd f16 bf16", _float),
        Form("rnd bf16 f64|f16", _float),
        Form("narrow_rnd relu? satfinite? f16x2|bf16x2 f32", _pack),
        Form("pack sat u16|s16 s32", _pack_integers),
        Form("pack sat u8|s8 s32 b32", _pack_integers),
        Form("pack sat small_integer s32 b32", _pack_integers),
        Form("rna satfinite? tf32 f32", _tensor_float),
        Form("narrow_rnd relu? satfinite? tf32 f32", _tensor_float),
    ),
}
