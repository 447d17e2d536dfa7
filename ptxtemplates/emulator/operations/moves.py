"""Copies (ISA, "Data Movement and Conversion Instructions": mov, cvta)."""

from __future__ import annotations

from ptxtemplates.emulator.operations.forms import Form, Spelling
from ptxtemplates.emulator.operations.values import DTYPES, Array, Operation, UnsupportedInstruction
from ptxtemplates.ptx.operands import Vector
from ptxtemplates.ptx.statements import Instruction


def _copy(_: Instruction, spelling: Spelling) -> Operation:
    return Operation((spelling.type,), (spelling.type,), lambda a: (a,))


def _move(instruction: Instruction, spelling: Spelling) -> Operation:
    """``mov``; with a vector on a side it packs or unpacks, the first element in the lowest bits."""
    type_ = spelling.type
    result, source = (*instruction.operands, None)[:2]
    if isinstance(result, Vector) == isinstance(source, Vector):
        # two vectors, which ptxas rejects, are refused for their operands
        return _copy(instruction, spelling)
    source_types, result_types = _elements(instruction, source, type_), _elements(instruction, result, type_)
    dtype = DTYPES[type_]

    def compute(*sources: Array) -> tuple[Array, ...]:
        size = 8 * dtype.itemsize // len(source_types)
        whole = sources[0].astype(dtype)
        for place, part in enumerate(sources[1:], 1):
            whole = whole | part.astype(dtype) << dtype.type(size * place)
        size = 8 * dtype.itemsize // len(result_types)
        return tuple(
            (whole >> dtype.type(size * place)).astype(DTYPES[element])
            for place, element in enumerate(result_types)
        )

    return Operation(source_types, result_types, compute)


def _elements(instruction: Instruction, operand: object, type_: str) -> tuple[str, ...]:
    """Return the bit-size types that an operand of a packing ``mov`` is made of."""
    count = len(operand.elements) if isinstance(operand, Vector) else 1
    element = f"b{8 * DTYPES[type_].itemsize // count}"
    if type_[0] != "b" or count not in (1, 2, 4) or element not in DTYPES:
        raise UnsupportedInstruction(
            f"line {instruction.line}: {instruction.text} cannot take {count} elements: a vector of 2 or 4"
            " bit-size registers that together have the width of the type is packed or unpacked"
        )
    return (element,) * count


MOVE_FORMS: dict[str, tuple[Form, ...]] = {
    "mov": (Form("pred", _copy), Form("plain", _move)),
}
