"""The table of instructions that touch memory, other threads, or nothing at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ptxtemplates.emulator.instructions.atomics import ATOMIC_FORMS
from ptxtemplates.emulator.instructions.copies import COPY_FORMS
from ptxtemplates.emulator.instructions.effect import unsupported
from ptxtemplates.emulator.instructions.loads import LOAD_FORMS
from ptxtemplates.emulator.instructions.matrices import MATRIX_FORMS
from ptxtemplates.emulator.instructions.ordering import ORDER_FORMS
from ptxtemplates.emulator.instructions.shuffles import SHUFFLE_FORMS
from ptxtemplates.emulator.instructions.votes import VOTE_FORMS

if TYPE_CHECKING:
    from ptxtemplates.emulator.instructions.effect import Effect, EffectForm
    from ptxtemplates.ptx.statements import Instruction

EFFECTS: Final[dict[str, tuple[EffectForm, ...]]] = {
    **LOAD_FORMS,
    **ATOMIC_FORMS,
    **SHUFFLE_FORMS,
    **VOTE_FORMS,
    **COPY_FORMS,
    **MATRIX_FORMS,
    **ORDER_FORMS,
}
"""Every form of every such opcode."""


def effect_of(instruction: Instruction) -> Effect | None:
    """Look an instruction up; None if its opcode is not in the table.

    Raises
    ------
    UnsupportedInstruction
        If the opcode is, and none of its forms fits.
    """
    forms = EFFECTS.get(instruction.opcode)
    if forms is None:
        return None
    for form in forms:
        spelling = form.match(instruction)
        if spelling is not None:
            return form.make(instruction, spelling)
    known = ", ".join(f"{instruction.opcode} {form.syntax}" for form in forms)
    raise unsupported(instruction, f"its modifiers or operands are those of none of the known forms: {known}")
