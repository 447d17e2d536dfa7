"""Operations on the bits of integers (ISA, "Integer Arithmetic Instructions", from popc on)."""

from __future__ import annotations

import numpy as np

from ptxtemplates.emulator.operations import shifts
from ptxtemplates.emulator.operations.forms import Form, Spelling
from ptxtemplates.emulator.operations.values import DTYPES, Array, Operation, bits_of
from ptxtemplates.ptx.statements import Instruction

_MISSING = np.uint32(0xFFFFFFFF)


def _width(values: Array) -> int:
    return 8 * values.dtype.itemsize


def population(values: Array) -> Array:
    """Count the set bits of unsigned integers, as uint32."""
    octets = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, values.dtype.itemsize)
    counts: Array = _OCTET_COUNTS[octets].sum(axis=-1, dtype=np.uint32)
    return counts


_OCTET_COUNTS = np.array([value.bit_count() for value in range(256)], np.uint8)


def _highest(values: Array) -> Array:
    """Return the position of the highest set bit of unsigned integers, as int64; -1 for zero."""
    smeared = values
    shift = 1
    while shift < _width(values):
        smeared = smeared | smeared >> values.dtype.type(shift)
        shift *= 2
    return population(smeared).astype(np.int64) - 1


def _popc(_: Instruction, spelling: Spelling) -> Operation:
    return Operation((spelling.type,), ("u32",), lambda a: (population(a),))


def _clz(_: Instruction, spelling: Spelling) -> Operation:
    return Operation((spelling.type,), ("u32",), lambda a: ((_width(a) - 1 - _highest(a)).astype(np.uint32),))


def _bfind(_: Instruction, spelling: Spelling) -> Operation:
    as_shift = spelling.has("shiftamt")

    def compute(a: Array) -> tuple[Array]:
        magnitude = bits_of(np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a)
        place = _highest(magnitude)
        found = _width(a) - 1 - place if as_shift else place
        return (np.where(place < 0, _MISSING, found.astype(np.uint32)),)

    return Operation((spelling.type,), ("u32",), compute)


def _brev(_: Instruction, spelling: Spelling) -> Operation:
    def compute(a: Array) -> tuple[Array]:
        octets = np.ascontiguousarray(a)[..., np.newaxis].view(np.uint8)
        turned = np.packbits(np.unpackbits(octets, axis=-1, bitorder="little"), axis=-1, bitorder="big")
        return (np.ascontiguousarray(turned[..., ::-1]).view(a.dtype)[..., 0],)

    return Operation((spelling.type,), (spelling.type,), compute)


def _bfe(_: Instruction, spelling: Spelling) -> Operation:
    type_ = spelling.type

    def compute(a: Array, b: Array, c: Array) -> tuple[Array]:
        start, length = (b & np.uint32(255)).astype(np.int64), (c & np.uint32(255)).astype(np.int64)
        word = bits_of(a)
        present = shifts.low_mask(np.minimum(length, np.maximum(_width(a) - start, 0)), word.dtype)
        field = shifts.right(word, start) & present
        if a.dtype.kind == "i":
            top = np.clip(start + length - 1, 0, _width(a) - 1)
            negative = (shifts.right(word, top) & word.dtype.type(1) != 0) & (length > 0)
            field = np.where(negative, field | ~present, field)
        return (field.view(a.dtype),)

    return Operation((type_, "u32", "u32"), (type_,), compute)


def _bfi(_: Instruction, spelling: Spelling) -> Operation:
    type_ = spelling.type

    def compute(a: Array, b: Array, c: Array, d: Array) -> tuple[Array]:
        start, length = c & np.uint32(255), d & np.uint32(255)
        field = shifts.left(shifts.low_mask(length, a.dtype), start)
        return ((shifts.left(a, start) & field) | (b & ~field),)

    return Operation((type_, type_, "u32", "u32"), (type_,), compute)


def _fns(_: Instruction, spelling: Spelling) -> Operation:
    """Find the n-th set bit; a base above 31, which the ISA leaves open, finds nothing."""

    def compute(mask: Array, base: Array, offset: Array) -> tuple[Array]:
        place = base.astype(np.int64)
        step = np.where(offset < 0, -1, 1)
        left = np.abs(offset.astype(np.int64)) - 1
        found = np.full(mask.shape, _MISSING)
        # an offset of zero looks at the base alone
        seeking = np.ones(mask.shape, np.bool_)
        only_base = offset == 0
        for turn in range(32):
            seeking &= (place >= 0) & (place < 32)
            is_set = seeking & (mask >> np.where(seeking, place, 0).astype(np.uint32) & np.uint32(1) != 0)
            hit = is_set & ((left == 0) | only_base)
            found = np.where(hit, place.astype(np.uint32), found)
            seeking &= ~hit
            if turn == 0:
                seeking &= ~only_base
            left = np.where(is_set, left - 1, left)
            place = place + step
        return (found,)

    return Operation(("b32", "b32", "s32"), ("b32",), compute)


def _szext(_: Instruction, spelling: Spelling) -> Operation:
    clamps, type_ = spelling.has("clamp"), spelling.type

    def compute(a: Array, b: Array) -> tuple[Array]:
        count = np.minimum(b, np.uint32(32)) if clamps else b & np.uint32(31)
        word, kept = bits_of(a), shifts.low_mask(count, np.dtype(np.uint32))
        result = word & kept
        if type_ == "s32":
            top = np.where(count > 0, count - np.uint32(1), np.uint32(0))
            negative = (count > 0) & (word >> np.minimum(top, np.uint32(31)) & np.uint32(1) != 0)
            result = np.where(negative, result | ~kept, result)
        return (result.view(a.dtype),)

    return Operation((type_, "u32"), (type_,), compute)


def _bmsk(_: Instruction, spelling: Spelling) -> Operation:
    clamps = spelling.has("clamp")

    def compute(a: Array, b: Array) -> tuple[Array]:
        start = a if clamps else a & np.uint32(31)
        length = np.minimum(b, np.uint32(32)) if clamps else b & np.uint32(31)
        return (shifts.left(shifts.low_mask(length, np.dtype(np.uint32)), start),)

    return Operation(("b32", "b32"), ("b32",), compute)


def _fields(values: Array, bits: int, signed: bool) -> list[Array]:
    """Take words apart, lowest field first, as int64."""
    dtype = np.dtype(f"{'i' if signed else 'u'}{bits // 8}")
    parts = (values >> np.uint32(shift) for shift in range(0, 32, bits))
    return [part.astype(f"u{bits // 8}").view(dtype).astype(np.int64) for part in parts]


def _dot(_: Instruction, spelling: Spelling) -> Operation:
    """``dp4a`` and, where a half is named, ``dp2a``."""
    signs = [type_ == "s32" for type_ in spelling.types]
    accumulator = "s32" if any(signs) else "u32"
    first, bits = (2, 16) if spelling.has("hi") else (0, 16) if spelling.has("lo") else (0, 8)

    def compute(a: Array, b: Array, c: Array) -> tuple[Array]:
        left = _fields(a, bits, signs[0])
        right = _fields(b, 8, signs[1])[first:]
        total = c.astype(np.int64) + sum(x * y for x, y in zip(left, right, strict=False))
        return (total.astype(np.uint64).astype(np.uint32).view(DTYPES[accumulator]),)

    return Operation(("b32", "b32", accumulator), (accumulator,), compute)


BIT_FORMS: dict[str, tuple[Form, ...]] = {
    "popc": (Form("b32|b64", _popc),),
    "clz": (Form("b32|b64", _clz),),
    "bfind": (Form("shiftamt? u32|u64|s32|s64", _bfind),),
    "brev": (Form("b32|b64", _brev),),
    "bfe": (Form("u32|u64|s32|s64", _bfe),),
    "bfi": (Form("b32|b64", _bfi),),
    "fns": (Form("b32", _fns),),
    "szext": (Form("mode u32|s32", _szext),),
    "bmsk": (Form("mode b32", _bmsk),),
    "dp4a": (Form("u32|s32 u32|s32", _dot),),
    "dp2a": (Form("lo|hi u32|s32 u32|s32", _dot),),
}
