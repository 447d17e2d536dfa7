"""Threads of a wave of blocks: their registers and special registers, and how instructions reach memory.

A register is an array of shape (blocks, threads); along an axis on which all agree its extent is 1, so that
what is the same for a whole block, or in all blocks, is computed once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ptxtemplates.emulator.findings import Finding
from ptxtemplates.emulator.memory.accesses import ANYWHERE, WEAK, Access
from ptxtemplates.emulator.memory.asynchronous import Copies
from ptxtemplates.emulator.memory.conflicts import SEVERAL
from ptxtemplates.emulator.memory.local import LocalMemory
from ptxtemplates.emulator.memory.shared import SharedMemory
from ptxtemplates.emulator.registers import Registers
from ptxtemplates.emulator.types import WARP
from ptxtemplates.emulator.wrapping import Wraps
from ptxtemplates.ptx.operands import Register

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator.counts import Counter
    from ptxtemplates.emulator.findings import Lines
    from ptxtemplates.emulator.memory.buffers import Memory
    from ptxtemplates.emulator.memory.instances import Placed
    from ptxtemplates.emulator.operations import Operation
    from ptxtemplates.emulator.program import Program, Step
    from ptxtemplates.emulator.types import Lanes, Values
    from ptxtemplates.ptx.operands import Operand
    from ptxtemplates.ptx.statements import Instruction

    Shape = tuple[int, int]


class Launch(NamedTuple):
    """What all waves of a launch share.

    Attributes
    ----------
    kernel : str
        Name of the entry.
    program : Program
        What runs.
    memory : Memory
        Global memory.
    shared : tuple of Placed
        Variables in shared memory.
    findings : dict
        Where findings go, by kind and line.
    lines : Lines
        Where PTX lines come from.
    counter : Counter or None
        Counts what is executed.
    """

    kernel: str
    program: Program
    memory: Memory
    shared: tuple[Placed, ...]
    findings: dict[tuple[str, int], Finding]
    lines: Lines
    counter: Counter | None


class Reach(NamedTuple):
    """Threads that take part in an access, and where their results belong.

    Attributes
    ----------
    access : Access
    shape : tuple of int or None
        Shape of the addresses, if all threads take part; None if some do.
    """

    access: Access
    shape: Shape | None


class Machine:
    """One wave of a launch.

    Parameters
    ----------
    launch : Launch
    special : dict of str to numpy.ndarray
        Special registers by name and component, such as ``%tid.x``.
    first_block : int
        Number of the first block, from 1.

    Attributes
    ----------
    alive : numpy.ndarray of bool, shape (blocks, threads)
        Threads that have not ended.
    every : bool
        Whether the instruction that is being executed runs in all of them.
    now : int
        Step of the launch.
    """

    def __init__(self, launch: Launch, special: dict[str, Values], first_block: int, now: int) -> None:
        self.launch = launch
        self.memory = launch.memory
        self.special = special
        self.blocks = special["%ctaid.x"].shape[0]
        self.threads = special["%tid.x"].shape[1]
        self.shape: Shape = (self.blocks, self.threads)
        self.alive: Lanes = np.ones(self.shape, np.bool_)
        self.all_alive = True
        self.ended_at = np.full(self.shape, -1, np.int32)
        """Place at which each thread ended."""
        self.running: Lanes = self.alive
        """Threads that are at the instruction, whether its guard lets them run it or not."""
        self.every = True
        self.now = now
        self.wraps = Wraps(self)
        self.copies = Copies(self)
        self.shared = SharedMemory(self, launch.shared, launch.program.granules["shared"])
        local = launch.program.local
        self.local = LocalMemory(self.blocks * self.threads, local, self.report)
        self.waited: Lanes = np.zeros(self.shape, np.bool_)
        """Threads behind griddepcontrol.wait."""
        self.step: Step = launch.program.steps[0]
        self._numbers: dict[Shape, tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]] = {}
        self._first_block = first_block
        registers = Registers(self, launch.program.registers)
        self.carry = registers.carry
        self.fetch = registers.fetch
        self.store = registers.store
        self.forget = registers.forget
        self.known = registers.known

    # ---- findings

    def report(
        self,
        kind: str,
        message: str,
        lane: int,
        *,
        address: int | None = None,
        buffer: str | None = None,
        instruction: Instruction | None = None,
    ) -> None:
        """Note a finding of one thread, at the instruction that is being executed or another."""
        instruction = instruction or self.step.instruction
        key = (kind, instruction.line)
        if key not in self.launch.findings:
            block, thread = divmod(lane, self.threads)
            self.launch.findings[key] = Finding(
                kind,
                instruction.line,
                message,
                tuple(int(self.special[f"%ctaid.{axis}"][block, 0]) for axis in "xyz"),
                tuple(int(self.special[f"%tid.{axis}"][0, thread]) for axis in "xyz"),
                self.launch.kernel,
                self.launch.lines.source_of(instruction),
                address,
                buffer,
            )

    def report_lanes(self, kind: str, message: str, lanes: Values) -> None:
        """Note a finding of the first of the threads in a mask, if there is one."""
        if lanes.any():
            self.report(kind, message, int(np.broadcast_to(lanes, self.shape).argmax()))

    # ---- computing

    def apply(self, operation: Operation, sources: Sequence[Values]) -> list[Values]:
        """Compute an operation; sources that agree along an axis are computed with once."""
        shape = sources[0].shape
        for source in sources:
            if source.shape != shape:
                shape = (
                    max(each.shape[0] for each in sources),
                    max(each.shape[1] for each in sources),
                )
                sources = [np.broadcast_to(each, shape) for each in sources]
                break
        results = operation.compute(*(source.reshape(-1) for source in sources))
        return [result.reshape(shape) for result in results]

    # ---- memory

    def full(self, values: Values) -> Values:
        """Return a value for each thread of each block."""
        return np.broadcast_to(values, self.shape)

    def reach(
        self,
        addresses: Values,
        active: Lanes,
        size: int,
        elements: int,
        *,
        scope: int = WEAK,
        spread: Shape | None = None,
    ) -> Reach:
        """Return the access of the active threads.

        Parameters
        ----------
        addresses : numpy.ndarray of uint64
        active : numpy.ndarray of bool
        size, elements : int
            Bytes of an element, elements of a thread.
        scope : int
            As in `Access`.
        spread : tuple of int, optional
            The shape of what is stored there, if it is larger.
        """
        if self.every and self.all_alive and self.launch.counter is None:
            shape = addresses.shape
            if spread is not None and spread != shape:
                shape = (max(shape[0], spread[0]), max(shape[1], spread[1]))
                addresses = np.broadcast_to(addresses, shape)
            lanes, blocks = self._numbered(shape)
            return Reach(Access(addresses.reshape(-1), lanes, blocks, size, elements, scope), shape)
        every, blocks = self._numbered(self.shape)
        lanes = np.flatnonzero(active)
        access = Access(self.full(addresses)[active], every[lanes], blocks[lanes], size, elements, scope)
        return Reach(access, None)

    def _numbered(self, shape: Shape) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Return the numbers of the threads, and of their blocks, that an array of a shape stands for."""
        if shape not in self._numbers:
            lanes = np.arange(shape[0])[:, None] * self.threads + np.arange(shape[1])
            blocks = lanes // self.threads + self._first_block
            if shape[0] < self.blocks:
                blocks[:] = SEVERAL
            self._numbers[shape] = lanes.reshape(-1), blocks.astype(np.int32).reshape(-1)
        return self._numbers[shape]

    def part(self, values: Values, reach: Reach, active: Lanes) -> npt.NDArray[Any]:
        """Return the values of the threads of an access."""
        if reach.shape is not None:
            if values.shape != reach.shape:
                values = np.broadcast_to(values, reach.shape)
            return values.reshape(-1)
        return self.full(values)[active]

    def whole(self, part: npt.NDArray[Any], reach: Reach) -> Values:
        """Return values of the threads of an access as values of a register."""
        if reach.shape is not None:
            return part.reshape(reach.shape)
        values = np.zeros(self.shape, part.dtype)
        values.reshape(-1)[reach.access.lanes] = part
        return values

    def fence(self, lanes: npt.NDArray[np.int64], scope: int) -> None:
        """Note that threads, by number, ran a fence."""
        self.shared.races.fence(lanes, self.now)
        if scope == ANYWHERE:
            self.memory.conflicts.fence(self._numbered(self.shape)[1][lanes])

    def check_previous(self, access: Access) -> None:
        """Report a use of what the kernel before writes by threads that have not waited for it."""
        if self.memory.has_previous:
            early = ~self.waited.reshape(-1)[access.lanes]
            if early.any():
                self.memory.report_previous(access.at(early))

    def check_set(self, operand: Operand, lanes: npt.NDArray[np.int64]) -> None:
        """Report a register that some threads read and have not set."""
        known = self.known(operand, lanes)
        if known is not None and isinstance(operand, Register) and not known.all():
            message = f"{operand.name} is read and was not set on the way there"
            self.report("unset register", message, int(lanes[~known][0]))

    def release(self) -> None:
        """Drop everything: the parts of a machine refer to it, and would keep its arrays alive."""
        vars(self).clear()

    # ---- warps

    def check_members(self, members: Operand, active: Lanes) -> Values:
        """Report lanes that a warp instruction names and that do not run it; return who names whom.

        Returns
        -------
        numpy.ndarray of uint32
            The mask of each thread.
        """
        named = self.fetch(members, "b32", active)
        own = self.special["%laneid"]
        outside = active & ((named >> own) & np.uint32(1) == 0)
        self.report_lanes("shuffle", "the executing lane is not in its own member mask", outside)
        if not (self.every and self.all_alive and self.threads % WARP == 0):
            here = self.mask_of(active)
            alive = self.mask_of(self.alive)
            absent = active & (named & alive & ~here != 0)
            self.report_lanes("shuffle", "a lane that the member mask names does not take part", absent)
        return named

    def mask_of(self, lanes: Lanes) -> Values:
        """Return the lanes of each warp for which something holds, as the bits of a number."""
        bits = self.by_warp(lanes).astype(np.uint32) << np.arange(WARP, dtype=np.uint32)
        return self.from_warps(np.bitwise_or.reduce(bits, axis=2, keepdims=True))

    def by_warp(self, lanes: Values, padding: bool = False) -> Values:
        """Return values of shape (blocks, warps, 32); threads that do not exist have `padding`."""
        full = self.full(lanes)
        missing = -self.threads % WARP
        if missing:
            full = np.pad(full, ((0, 0), (0, missing)), constant_values=padding)
        return full.reshape(self.blocks, -1, WARP)

    def from_warps(self, values: Values) -> Values:
        """Return values of shape (blocks, warps, 32 or 1) as values of a register."""
        if values.shape[2] == 1:
            values = np.broadcast_to(values, (*values.shape[:2], WARP))
        return np.ascontiguousarray(values.reshape(self.blocks, -1)[:, : self.threads])
