"""The table of instructions that compute registers from registers, and the look-up in it."""

from __future__ import annotations

from functools import wraps

import numpy as np

from ptxtemplates.emulator.operations.approximate import APPROXIMATE_FORMS
from ptxtemplates.emulator.operations.bits import BIT_FORMS
from ptxtemplates.emulator.operations.comparison import COMPARISON_FORMS
from ptxtemplates.emulator.operations.conversion import CONVERSION_FORMS
from ptxtemplates.emulator.operations.floats import FLOAT_FORMS
from ptxtemplates.emulator.operations.forms import Form, Spelling
from ptxtemplates.emulator.operations.halves import HALF_FORMS
from ptxtemplates.emulator.operations.integers import INTEGER_FORMS
from ptxtemplates.emulator.operations.logic import LOGIC_FORMS
from ptxtemplates.emulator.operations.moves import MOVE_FORMS
from ptxtemplates.emulator.operations.values import Array, Compute, Operation, UnsupportedInstruction
from ptxtemplates.ptx.operands import Negated, Operand, Pair, Vector
from ptxtemplates.ptx.statements import Instruction

_FAMILIES = (
    INTEGER_FORMS,
    BIT_FORMS,
    FLOAT_FORMS,
    HALF_FORMS,
    APPROXIMATE_FORMS,
    LOGIC_FORMS,
    COMPARISON_FORMS,
    CONVERSION_FORMS,
    MOVE_FORMS,
)

TABLE: dict[str, tuple[Form, ...]] = {
    opcode: tuple(form for family in _FAMILIES for form in family.get(opcode, ()))
    for opcode in sorted({opcode for family in _FAMILIES for opcode in family})
}
"""Every form of every opcode: what is not in it is refused."""


def supports(instruction: Instruction) -> bool:
    """Say whether `decode` knows an instruction."""
    try:
        decode(instruction)
    except UnsupportedInstruction:
        return False
    return True


def decode(instruction: Instruction) -> Operation:
    """Look an instruction up.

    Parameters
    ----------
    instruction : Instruction
        Its guard is not looked at.

    Returns
    -------
    Operation
        What it computes, for all lanes.

    Raises
    ------
    UnsupportedInstruction
        If the table does not have it, or its operands are not those of the form.
    """
    forms = TABLE.get(instruction.opcode)
    if forms is None:
        raise _refused(instruction, f"the opcode {instruction.opcode} is not known")
    if not instruction.operands:
        raise _refused(instruction, "it has no operands")
    form, spelling = _spelled(instruction, forms)
    operation = form.build(instruction, spelling)
    _check_operands(instruction, operation)
    return operation._replace(compute=_guarded(operation.compute))


def _spelled(instruction: Instruction, forms: tuple[Form, ...]) -> tuple[Form, Spelling]:
    for form in forms:
        spelling = form.match(instruction.modifiers)
        if spelling is not None:
            return form, spelling
    known = ", ".join(f"{instruction.opcode} {form.syntax}" for form in forms)
    raise _refused(instruction, f"its modifiers are those of none of the known forms: {known}")


def _check_operands(instruction: Instruction, operation: Operation) -> None:
    results = _flat(instruction.operands[:1])
    sources = _flat(instruction.operands[1:])
    expected = len(operation.result_types), len(operation.source_types)
    if (len(results), len(sources)) != expected:
        raise _refused(
            instruction,
            f"it has {len(results)} results and {len(sources)} sources, not {expected[0]} and {expected[1]}",
        )
    for source, type_ in zip(sources, operation.source_types, strict=True):
        if isinstance(source, Negated) and (type_ != "pred" or source.operator != "!"):
            raise _refused(instruction, f"a source of type {type_} cannot be negated")


def _flat(operands: tuple[Operand, ...]) -> list[Operand]:
    flat: list[Operand] = []
    for operand in operands:
        inner = (
            operand.elements
            if isinstance(operand, Vector)
            else operand
            if isinstance(operand, Pair)
            else None
        )
        flat += [operand] if inner is None else inner
    return flat


# intermediate arrays of so many lanes stay in the cache: a fused multiply-add is several times faster for it
_AT_ONCE = 16384


def _guarded(compute: Compute) -> Compute:
    """Let NumPy's warnings be (infinities and NaN are results here), and give all sources one shape."""

    @wraps(compute)
    def quiet(*sources: Array) -> tuple[Array, ...]:
        shape = sources[0].shape
        if not shape or any(source.shape != shape for source in sources):
            sources = tuple(np.broadcast_arrays(*(np.atleast_1d(source) for source in sources)))
        with np.errstate(all="ignore"):
            if sources[0].size <= _AT_ONCE:
                return compute(*sources)
            starts = range(0, len(sources[0]), _AT_ONCE)
            parts = [compute(*(source[start : start + _AT_ONCE] for source in sources)) for start in starts]
            return tuple(np.concatenate(part) for part in zip(*parts, strict=True))

    return quiet


def _refused(instruction: Instruction, reason: str) -> UnsupportedInstruction:
    return UnsupportedInstruction(f"line {instruction.line}: {instruction.text} is not emulated: {reason}")
