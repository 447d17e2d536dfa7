"""The table of instructions that compute registers from registers, and the look-up in it."""

from __future__ import annotations

import numpy as np

from ptxtemplates.emulator.operations.accuracy import Accuracy
from ptxtemplates.emulator.operations.approximate import APPROXIMATE_FORMS
from ptxtemplates.emulator.operations.bits import BIT_FORMS
from ptxtemplates.emulator.operations.comparison import COMPARISON_FORMS
from ptxtemplates.emulator.operations.conversion import CONVERSION_FORMS
from ptxtemplates.emulator.operations.extended import EXTENDED_FORMS
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
    EXTENDED_FORMS,
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


def decode(instruction: Instruction, accuracy: Accuracy | None = None, *, quiet: bool = True) -> Operation:
    """Look an instruction up.

    Parameters
    ----------
    instruction : Instruction
        Its guard is not looked at.
    accuracy : Accuracy, optional
        Of approximate instructions; without one they are rounded correctly.
    quiet : bool
        Whether the operation itself keeps NumPy from warning of infinities and NaN. That takes as long as
        thousands of lanes; who does not want it computes within ``numpy.errstate(all="ignore")``.

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
    compute = operation.compute
    if accuracy is not None and operation.worst is not None:
        compute = operation.worst(accuracy.chooser(instruction))
    return operation._replace(compute=_guarded(compute, quiet=quiet))


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


def _guarded(compute: Compute, *, quiet: bool) -> Compute:
    """Give all sources one shape, and let NumPy's warnings be: infinities and NaN are results here."""

    def whole(*sources: Array) -> tuple[Array, ...]:
        shape = sources[0].shape
        for source in sources:
            if source.shape != shape or not shape:
                return whole(*np.broadcast_arrays(*(np.atleast_1d(each) for each in sources)))
        if sources[0].size <= _AT_ONCE:
            return compute(*sources)
        first = compute(*(source[:_AT_ONCE] for source in sources))
        results = tuple(np.empty(shape, part.dtype) for part in first)
        for start in range(0, len(sources[0]), _AT_ONCE):
            piece = slice(start, start + _AT_ONCE)
            parts = compute(*(source[piece] for source in sources)) if start else first
            for result, part in zip(results, parts, strict=True):
                result[piece] = part
        return results

    if not quiet:
        return whole

    def silent(*sources: Array) -> tuple[Array, ...]:
        with np.errstate(all="ignore"):
            return whole(*sources)

    return silent


def _refused(instruction: Instruction, reason: str) -> UnsupportedInstruction:
    return UnsupportedInstruction(f"line {instruction.line}: {instruction.text} is not emulated: {reason}")
