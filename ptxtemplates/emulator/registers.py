"""The registers of a wave, and which of them were set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ptxtemplates.emulator.grid import CLOCKS, spelled
from ptxtemplates.emulator.operations import DTYPES, constant
from ptxtemplates.emulator.types import BITS
from ptxtemplates.errors import EmulationError
from ptxtemplates.ptx.operands import Immediate, Negated, Register, Sink, SpecialRegister

if TYPE_CHECKING:
    import numpy.typing as npt

    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.types import Lanes, Values
    from ptxtemplates.ptx.operands import Operand


class Registers:
    """The registers of a machine: arrays of shape (blocks, threads), or 1 along an axis on which all agree.

    Parameters
    ----------
    machine : Machine
    count : int
        How many the program has.

    Attributes
    ----------
    carry : Register
        The condition code, which no program names.
    """

    def __init__(self, machine: Machine, count: int) -> None:
        self.carry = Register("condition code", "pred", 1, count, 0)
        self._machine = machine
        self._values: list[Values | None] = [None] * (count + 1)
        self._set: list[Lanes | None] = [None] * (count + 1)
        """For a register that some threads have not set: those that have; None where all have."""
        self._constants: dict[tuple[Immediate, str], Values] = {}

    def fetch(self, operand: Operand, kind: str, active: Lanes, *, copies: bool = False) -> Values:
        """Return an operand for every thread, as the NumPy type of the PTX type `kind`.

        Parameters
        ----------
        operand : Operand
        kind : str
        active : numpy.ndarray of bool
            Threads that use it.
        copies : bool
            Whether it is only copied, so that it need not be set.
        """
        if isinstance(operand, Register):
            return self._register(operand, kind, active, copies=copies)
        if isinstance(operand, Immediate):
            key = (operand, kind)
            if key not in self._constants:
                self._constants[key] = constant(operand, kind).reshape(1, 1)
            return self._constants[key]
        if isinstance(operand, Negated):
            return ~self.fetch(operand.operand, kind, active)
        if isinstance(operand, SpecialRegister):
            if operand.name in CLOCKS:
                now = self._machine.now >> (32 if operand.name.endswith("_hi") else 0)
                return as_type(np.array([[now]], np.uint64), kind)
            return as_type(self._machine.special[spelled(operand)], kind)
        raise EmulationError(
            f"line {self._machine.step.instruction.line}: cannot take {operand} as an operand"
        )

    def _register(self, register: Register, kind: str, active: Lanes, *, copies: bool) -> Values:
        values = self._values[register.number]
        known = self._set[register.number]
        if values is None:
            if not copies:
                self._machine.report_lanes(
                    "unset register", f"{register.name} is read and was never set", active
                )
            values = np.zeros(
                (1, 1), DTYPES["pred" if register.type == "pred" else f"b{BITS[register.type]}"]
            )
        elif known is not None and not copies:
            unset = active & ~known
            self._machine.report_lanes(
                "unset register", f"{register.name} is read and was not set on the way there", unset
            )
        return as_type(values, kind)

    def store(self, operand: Operand, result: Values, active: Lanes) -> None:
        """Set a register of the active threads; `result` has the NumPy type of the instruction's type."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register) or operand.width != 1:
            raise EmulationError(f"line {self._machine.step.instruction.line}: cannot store into {operand}")
        number = operand.number
        if operand.type != "pred":
            # a register wider than the result is filled with its sign (ISA, "Operand Size Exceeding
            # Instruction-Type Size"): NumPy extends by the sign of the type it comes from
            wanted = BITS[operand.type] // 8
            if result.dtype.kind not in "iu":
                result = result.view(f"u{result.dtype.itemsize}")
            if result.dtype.itemsize != wanted:
                result = result.astype(f"{result.dtype.kind}{wanted}")
            if result.dtype.kind == "i":
                result = result.view(f"u{wanted}")
        if self._machine.every:
            self._values[number] = result
            self._set[number] = None
            return
        before = self._values[number]
        if before is None:
            self._values[number] = np.where(active, result, result.dtype.type(0))
            self._set[number] = active.copy()
            return
        self._values[number] = np.where(active, result, before)
        known = self._set[number]
        if known is not None:
            known = known | active
            self._set[number] = None if known.all() else known

    def forget(self, operand: Operand, lanes: npt.NDArray[np.int64]) -> None:
        """Let a register count as unset in some threads."""
        if isinstance(operand, Register):
            known = self._set[operand.number]
            known = np.ones(self._machine.shape, np.bool_) if known is None else known.copy()
            known.reshape(-1)[lanes] = False
            self._set[operand.number] = known

    def known(self, operand: Operand, lanes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
        """Return whether a register was set in some threads; None if in all."""
        if not isinstance(operand, Register):
            return None
        if self._values[operand.number] is None:
            return np.zeros(lanes.size, np.bool_)
        known = self._set[operand.number]
        return None if known is None else known.reshape(-1)[lanes]


def as_type(values: Values, kind: str) -> Values:
    """Look at the low bits of values as another type."""
    wanted = DTYPES[kind]
    if values.dtype == wanted:
        return values
    if values.dtype.itemsize != wanted.itemsize:
        values = values.view(f"u{values.dtype.itemsize}").astype(f"u{wanted.itemsize}")
    return values.view(wanted)
