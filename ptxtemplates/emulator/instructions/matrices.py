"""``ldmatrix``: 8 by 8 matrices of 16-bit elements from shared memory, spread over a warp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ptxtemplates.emulator.instructions.effect import Effect, EffectForm, flat, unsupported
from ptxtemplates.emulator.instructions.loads import Target
from ptxtemplates.emulator.types import WARP

if TYPE_CHECKING:
    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.operations.forms import Spelling
    from ptxtemplates.emulator.types import Lanes, Values
    from ptxtemplates.ptx.statements import Instruction

COUNTS: Final = {"x1": 1, "x2": 2, "x4": 4}
ROWS: Final = 8


def _load(instruction: Instruction, spelling: Spelling) -> Effect:
    """Lanes 8 m to 8 m + 7 give the addresses of the rows of matrix m; lane l takes two of its elements.

    They are elements 2 (l mod 4) and the next one of row l / 4, or of that column (``.trans``).
    """
    results = flat(instruction.operands[0])
    count = next(COUNTS[part] for part in instruction.modifiers if part in COUNTS)
    if len(results) != count:
        raise unsupported(instruction, f"it names {len(results)} registers, not {count}")
    target = Target(instruction, instruction.operands[1], 1)
    transposed = spelling.has("trans")

    def execute(machine: Machine, active: Lanes) -> None:
        missing = np.invert(np.all(machine.by_warp(active), axis=2, keepdims=True))
        message = "not all lanes of the warp run it together"
        machine.report_lanes("shuffle", message, active & machine.from_warps(missing))
        if machine.launch.counter is not None:
            # each row is read at once
            givers = active & (machine.special["%laneid"] < count * ROWS)
            rows_read = machine.reach(target.addresses(machine, active), givers, 16, 1)
            machine.launch.counter.access(machine, "shared", rows_read.access, stores=False)
        rows = machine.by_warp(target.addresses(machine, active))
        lane = np.arange(WARP)
        for matrix, result in enumerate(results):
            halves = []
            for part in range(2):
                row, column = lane // 4, 2 * (lane % 4) + part
                if transposed:
                    row, column = column, row
                addresses = rows[:, :, matrix * ROWS + row] + (2 * column).astype(np.uint64)
                halves.append(_element(machine, machine.from_warps(addresses), active))
            machine.store(result, halves[0] | halves[1] << np.uint32(16), active)

    return Effect(execute)


def _element(machine: Machine, addresses: Values, active: Lanes) -> Values:
    """Load 16 bits of each thread."""
    reach = machine.reach(addresses, active, 2, 1)
    access, [value] = machine.shared.load(reach.access)
    whole = np.zeros(machine.shape, np.uint32)
    whole.reshape(-1)[access.lanes] = value
    return whole


MATRIX_FORMS: Final[dict[str, tuple[EffectForm, ...]]] = {
    "ldmatrix": (EffectForm("sync aligned m8n8 x1|x2|x4 trans? shared|shared::cta b16", (2,), _load),)
}
