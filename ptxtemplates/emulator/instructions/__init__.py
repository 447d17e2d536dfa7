"""What instructions do beside computing registers from registers: one file a family.

`EFFECTS` is their table, as `operations.TABLE` is that of the rest; what is in neither is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxtemplates.emulator.barriers import barrier_of
from ptxtemplates.emulator.instructions.computing import compute
from ptxtemplates.emulator.instructions.table import EFFECTS, effect_of
from ptxtemplates.emulator.operations import UnsupportedInstruction

if TYPE_CHECKING:
    from ptxtemplates.emulator.instructions.effect import Effect, Execute
    from ptxtemplates.emulator.operations import Accuracy
    from ptxtemplates.ptx.statements import Instruction

__all__ = ["EFFECTS", "Effect", "Execute", "UnsupportedInstruction", "barrier_of", "look_up"]


def look_up(instruction: Instruction, accuracy: Accuracy | None) -> Effect:
    """Return what an instruction does.

    Raises
    ------
    UnsupportedInstruction
        If no table has it.
    """
    return effect_of(instruction) or compute(instruction, accuracy)
