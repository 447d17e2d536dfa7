"""Executes one function over many threads at once.

All threads of a wave of blocks run in step, each a lane; where they diverge, those that are furthest behind
run first, so that they meet again as early as the program allows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ptxtemplates.emulator.operations import DTYPES, constant
from ptxtemplates.emulator.types import BITS
from ptxtemplates.errors import EmulationError
from ptxtemplates.ptx.operands import (
    Immediate,
    Negated,
    Register,
    Sink,
    SpecialRegister,
    Symbol,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator.memory import Memory
    from ptxtemplates.emulator.program import Program, Step
    from ptxtemplates.ptx.operands import Operand

    Values = npt.NDArray[Any]
    Lanes = npt.NDArray[np.bool_]


class Finding(NamedTuple):
    """A mistake that an execution showed: the first of its kind on its line.

    Attributes
    ----------
    kind : str
        Such as ``out of bounds``.
    line : int
        PTX line.
    message : str
        What happened.
    block, thread : tuple of int
        Who did it, in x, y, z.
    """

    kind: str
    line: int
    message: str
    block: tuple[int, ...]
    thread: tuple[int, ...]


class Wave(NamedTuple):
    """The blocks that run at once. A block's threads fill whole warps; lanes behind the last do not exist.

    Attributes
    ----------
    special : dict of str to numpy.ndarray
        Special registers by name and component, ``%tid.x``; a value for each lane.
    exists : numpy.ndarray
        Which lanes are threads.
    """

    special: dict[str, npt.NDArray[np.uint32]]
    exists: Lanes


class Machine:
    """One wave of a launch.

    Parameters
    ----------
    program : Program
        What to run.
    wave : Wave
        The threads.
    memory : Memory
        Global memory; its findings come to `report`.
    addresses : mapping of str to int
        Of the module's variables.
    parameters : mapping of str to int
        Values of the kernel's parameters, as bits.
    findings : dict
        Where findings go, by kind and line.
    """

    def __init__(
        self,
        program: Program,
        wave: Wave,
        memory: Memory,
        addresses: Mapping[str, int],
        parameters: Mapping[str, int],
        findings: dict[tuple[str, int], Finding],
    ) -> None:
        self.wave = wave
        self.memory = memory
        self.parameters = parameters
        self.lanes = wave.exists.size
        self.steps = 0
        self._program = program
        self._addresses = addresses
        self._findings = findings
        self._line = 0
        self._values: list[Values | None] = [None] * program.registers
        self._set: list[Lanes | None] = [None] * program.registers
        """For a register that some lanes have not set: those that have; None where all have."""
        self._constants: dict[tuple[Immediate, str], Values] = {}

    def run(self, limit: int) -> None:
        """Run all lanes to their end.

        Raises
        ------
        EmulationError
            If that takes more than `limit` steps.
        """
        steps: Sequence[Step] = self._program.steps
        alive = self.wave.exists.copy()
        mask = alive
        places: npt.NDArray[np.int32] | None = None
        place = 0
        while alive.any():
            if places is not None:
                place = int(places[alive].min())
                mask = alive & (places == place)
                if np.array_equal(mask, alive):
                    places = None
            step = steps[place]
            self._line = step.line
            self.steps += 1
            if self.steps > limit:
                raise EmulationError(
                    f"line {step.line}: still running after {limit} steps: a loop does not end"
                )
            active = mask if step.guard is None else mask & self.fetch(step.guard, "pred", mask)
            if step.execute is not None:
                if active.any():
                    step.execute(self, active)
            elif step.target is None:
                alive &= ~active
                mask = mask & alive
            else:
                left = mask & ~active
                if not left.any():
                    place = step.target - 1
                elif active.any():
                    if places is None:
                        places = np.full(self.lanes, place, np.int32)
                    places[active] = step.target
                    places[left] = place + 1
                    continue
            if places is not None:
                places[mask] = place + 1
            place += 1

    def report(self, kind: str, message: str, lane: int) -> None:
        """Note a finding at the line that is being executed."""
        key = (kind, self._line)
        if key not in self._findings:
            block, thread = (
                tuple(int(self.wave.special[f"%{name}.{axis}"][lane]) for axis in "xyz")
                for name in ("ctaid", "tid")
            )
            self._findings[key] = Finding(kind, self._line, message, block, thread)

    def fetch(self, operand: Operand, kind: str, active: Lanes) -> Values:
        """Return an operand for every lane, as the NumPy type of the PTX type `kind`."""
        if isinstance(operand, Register):
            return self._register(operand, kind, active)
        if isinstance(operand, SpecialRegister):
            name = operand.name if operand.component is None else f"{operand.name}.{operand.component}"
            return _as(self.wave.special[name], kind)
        if isinstance(operand, Negated):
            return ~self.fetch(operand.operand, kind, active)
        if isinstance(operand, Symbol) and operand.name in self._addresses:
            operand = Immediate(self._addresses[operand.name] + operand.offset, "u64")
        if not isinstance(operand, Immediate):
            raise EmulationError(f"line {self._line}: cannot take {operand} as an operand")
        key = (operand, kind)
        if key not in self._constants:
            self._constants[key] = np.repeat(constant(operand, kind), self.lanes)
        return self._constants[key]

    def _register(self, register: Register, kind: str, active: Lanes) -> Values:
        values = self._values[register.number]
        known = self._set[register.number]
        if values is None:
            self.report("unset register", f"{register.name} is read and was never set", int(active.argmax()))
            values = np.zeros(
                self.lanes, DTYPES["pred" if register.type == "pred" else f"b{BITS[register.type]}"]
            )
        elif known is not None:
            unset = active & ~known
            if unset.any():
                message = f"{register.name} is read and was not set on the way there"
                self.report("unset register", message, int(unset.argmax()))
        return _as(values, kind)

    def store(self, operand: Operand, result: Values, active: Lanes) -> None:
        """Set a register of the active lanes; `result` has the NumPy type of the instruction's type."""
        if isinstance(operand, Sink):
            return
        if not isinstance(operand, Register):
            raise EmulationError(f"line {self._line}: cannot store into {operand}")
        number = operand.number
        value = np.ascontiguousarray(np.broadcast_to(result, (self.lanes,)))
        if operand.type != "pred":
            # a register wider than the result is filled with its sign (ISA, "Operand Size Exceeding
            # Instruction-Type Size"): NumPy extends by the sign of the type it comes from
            bits = value if value.dtype.kind == "i" else value.view(f"u{value.dtype.itemsize}")
            value = bits.astype(f"u{BITS[operand.type] // 8}", copy=False)
        before = self._values[number]
        if before is None:
            self._values[number] = np.where(active, value, np.zeros((), value.dtype))
            self._set[number] = None if active.all() else active.copy()
            return
        self._values[number] = np.where(active, value, before)
        known = self._set[number]
        if known is not None:
            known = known | active
            self._set[number] = None if known.all() else known


def _as(values: Values, kind: str) -> Values:
    """Look at the low bits of values as another type."""
    wanted = np.dtype(DTYPES[kind])
    if values.dtype == wanted:
        return values
    if values.dtype.itemsize != wanted.itemsize:
        values = values.view(f"u{values.dtype.itemsize}").astype(f"u{wanted.itemsize}")
    return values.view(wanted)
