"""Logic and shifts (ISA, "Logic and Shift Instructions"), and prmt."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxtemplates.emulator.operations import shifts
from ptxtemplates.emulator.operations.forms import Builder, Form, Spelling
from ptxtemplates.emulator.operations.values import Array, Operation, UnsupportedInstruction
from ptxtemplates.ptx.operands import Immediate
from ptxtemplates.ptx.statements import Instruction


def _elementwise(function: Callable[..., Array], sources: int) -> Builder:
    def build(_: Instruction, spelling: Spelling) -> Operation:
        type_ = spelling.type
        return Operation((type_,) * sources, (type_,), lambda *values: (function(*values),))

    return build


def _shift(function: Callable[[Array, Array], Array]) -> Builder:
    def build(_: Instruction, spelling: Spelling) -> Operation:
        return Operation((spelling.type, "u32"), (spelling.type,), lambda a, b: (function(a, b),))

    return build


def _funnel(_: Instruction, spelling: Spelling) -> Operation:
    wraps, to_left = spelling.has("wrap"), spelling.has("l")
    word = np.uint64(32)

    def compute(a: Array, b: Array, c: Array) -> tuple[Array]:
        amount = (c & np.uint32(31) if wraps else np.minimum(c, np.uint32(32))).astype(np.uint64)
        both = b.astype(np.uint64) << word | a
        shifted = (both << amount) >> word if to_left else both >> amount
        return (shifted.astype(np.uint32),)

    return Operation(("b32", "b32", "u32"), ("b32",), compute)


LOGICAL: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _lookup(instruction: Instruction, spelling: Spelling) -> Operation:
    """``lop3``: bit ``4a + 2b + c`` of the table is the result for bits a, b, c."""
    immediate = instruction.operands[4] if len(instruction.operands) > 4 else None
    if not isinstance(immediate, Immediate) or not 0 <= immediate.value <= 255:
        raise UnsupportedInstruction(
            f"line {instruction.line}: the table of {instruction.text} is a constant from 0 to 255"
        )
    table = immediate.value

    def combine(a: Array, b: Array, c: Array) -> Array:
        # the smaller half of the table is enough
        inverted = table.bit_count() > 4
        result = np.zeros_like(a)
        for row in range(8):
            if bool(table >> row & 1) != inverted:
                terms = zip((a, b, c), (4, 2, 1), strict=True)
                x, y, z = (value if row & weight else ~value for value, weight in terms)
                result |= x & y & z
        return ~result if inverted else result

    if not spelling.modifiers:
        return Operation(("b32",) * 4, ("b32",), lambda a, b, c, _: (combine(a, b, c),))
    logical = LOGICAL[spelling.modifiers["predicate_logical"]]

    def with_predicate(a: Array, b: Array, c: Array, _: Array, q: Array) -> tuple[Array, Array]:
        result = combine(a, b, c)
        return result, logical(result != 0, q)

    return Operation((*("b32",) * 4, "pred"), ("b32", "pred"), with_predicate)


# source byte of each result byte, lowest first, by the two lowest bits of the selector (ISA, table in "prmt")
_BYTES: dict[str, tuple[tuple[int, int, int, int], ...]] = {
    "f4e": ((0, 1, 2, 3), (1, 2, 3, 4), (2, 3, 4, 5), (3, 4, 5, 6)),
    "b4e": ((0, 7, 6, 5), (1, 0, 7, 6), (2, 1, 0, 7), (3, 2, 1, 0)),
    "rc8": ((0, 0, 0, 0), (1, 1, 1, 1), (2, 2, 2, 2), (3, 3, 3, 3)),
    "ecl": ((0, 1, 2, 3), (1, 1, 2, 3), (2, 2, 2, 3), (3, 3, 3, 3)),
    "ecr": ((0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 2), (0, 1, 2, 3)),
    "rc16": ((0, 1, 0, 1), (2, 3, 2, 3), (0, 1, 0, 1), (2, 3, 2, 3)),
}


def _permute(_: Instruction, spelling: Spelling) -> Operation:
    table = np.array(_BYTES[spelling.modifiers["byte"]], np.uint64) if spelling.modifiers else None

    def compute(a: Array, b: Array, c: Array) -> tuple[Array]:
        both = b.astype(np.uint64) << np.uint64(32) | a
        result = np.zeros_like(a)
        for place in range(4):
            if table is not None:
                index, replicates = table[c & np.uint32(3), place], None
            else:
                selector = c >> np.uint32(4 * place)
                index, replicates = (selector & np.uint32(7)).astype(np.uint64), selector & np.uint32(8) != 0
            byte = (both >> (index * np.uint64(8))).astype(np.uint8)
            if replicates is not None:
                byte = np.where(replicates, np.where(byte >= 128, np.uint8(255), np.uint8(0)), byte)
            result |= byte.astype(np.uint32) << np.uint32(8 * place)
        return (result,)

    return Operation(("b32",) * 3, ("b32",), compute)


_BITS = "pred|b16|b32|b64"

LOGIC_FORMS: dict[str, tuple[Form, ...]] = {
    **{name: (Form(_BITS, _elementwise(function, 2)),) for name, function in LOGICAL.items()},
    "not": (Form(_BITS, _elementwise(np.invert, 1)),),
    "cnot": (Form("bits", _elementwise(lambda a: (a == 0).astype(a.dtype), 1)),),
    "shl": (Form("bits", _shift(shifts.left)),),
    "shr": (Form("b16|b32|b64|u16|u32|u64|s16|s32|s64", _shift(shifts.right)),),
    "shf": (Form("l|r mode b32", _funnel),),
    "lop3": (Form("b32", _lookup), Form("predicate_logical b32", _lookup)),
    "prmt": (Form("b32 byte?", _permute),),
}
