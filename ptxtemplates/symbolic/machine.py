"""Runs a program with data interpreted by a domain: all lanes of all blocks, in one legal order.

Control and addresses must be known; where they follow from data, nothing can be said. Races and the like are
not looked for: the emulator does that.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ptxtemplates.emulator.grid import CLOCKS, special_registers, spelled
from ptxtemplates.emulator.memory.instances import laid_out
from ptxtemplates.emulator.operations import DTYPES, constant
from ptxtemplates.emulator.types import BITS, WARP
from ptxtemplates.ptx.operands import Immediate, Negated, Register, Sink, SpecialRegister
from ptxtemplates.symbolic.memory import Region
from ptxtemplates.symbolic.order import Order
from ptxtemplates.symbolic.values import UndecidedError, Value, plain, resized

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy.typing as npt

    from ptxtemplates.emulator.program import Program, Step
    from ptxtemplates.ptx.operands import Operand
    from ptxtemplates.symbolic.domain import Domain
    from ptxtemplates.symbolic.memory import Memory
    from ptxtemplates.symbolic.values import Mask

UNKNOWN: Final = frozenset(
    {
        *CLOCKS,
        *("%smid", "%nsmid", "%gridid", "%warpid", "%nwarpid", "%dynamic_smem_size"),
        *("%clusterid", "%nclusterid", "%cluster_ctaid", "%cluster_nctaid", "%cluster_ctarank"),
        "%cluster_nctarank",
    }
)
"""Special registers that neither the text nor grid and block decide."""

STEP_LIMIT: Final = 60_000
"""Instructions of a launch, each counted once for all lanes that run it together."""

MOST_WORK: Final = 100_000_000
"""The same, counted for each lane that the launch has."""


class Machine:
    """A launch.

    Parameters
    ----------
    program : Program
    handlers : sequence of callable or None
        What runs each instruction that does not change the flow of control.
    memory : Memory
    domain : Domain
    blocks : sequence of (int, int, int)
        That run.
    grid, block : tuple of int

    Attributes
    ----------
    lanes : int
        Threads, those included that fill up the last warp of a block and never run.
    running : numpy.ndarray of bool
        Lanes that run the instruction.
    partial : bool
        Whether some that have not ended do not.
    line : int
        Of the instruction.
    order : Order
        Of accesses.
    storable : set of Region
        Buffers that stores may reach.
    """

    def __init__(
        self,
        program: Program,
        handlers: Sequence[Callable[[Machine, Value | None], None] | None],
        memory: Memory,
        domain: Domain,
        blocks: npt.NDArray[np.int64],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
    ) -> None:
        self.program = program
        self._handlers = handlers
        self.memory = memory
        self.domain = domain
        self.line = 0
        threads = math.prod(block)
        self.width = threads + -threads % WARP
        self.lanes = len(blocks) * self.width
        self.numbers = np.arange(self.lanes)
        self.alive: Mask = self.numbers % self.width < threads
        self.running: Mask = self.alive
        self.partial = True
        self._special = {
            name: self._spread(values, len(blocks), threads)
            for name, values in special_registers(blocks, grid, block, 0).items()
        }
        self.instances = {
            "shared": self._instances("shared", laid_out(program.shared), self.numbers // self.width),
            "local": self._instances("local", laid_out(program.local), self.numbers),
        }
        self._registers: list[Value | None] = [None] * (program.registers + 1)
        self.order = Order(self.lanes, self.width)
        self.storable: frozenset[Region] = frozenset()
        self.carry = Register("condition code", "pred", 1, program.registers, 0)
        self._constants: dict[tuple[Immediate, str], Value] = {}

    def _spread(self, values: npt.NDArray[Any], blocks: int, threads: int) -> npt.NDArray[Any]:
        full = np.broadcast_to(values, (blocks, threads))
        return np.pad(full, ((0, 0), (0, self.width - threads))).reshape(-1)

    def _instances(
        self, name: str, size: int, numbers: npt.NDArray[np.int64]
    ) -> tuple[Region, npt.NDArray[np.int64], int]:
        """Return memory that each block or lane has for itself, where each one's begins, and its size."""
        size += -size % 16
        count = int(numbers.max(initial=0)) + 1
        return Region(f"{self.domain.program}: {name}", 0, size * count, None), numbers * size, size

    # ---- registers

    def fetch(self, operand: Operand, kind: str) -> Value:
        """Return an operand of every lane, as wide as a PTX type."""
        if isinstance(operand, Register):
            value = self._registers[operand.number]
            if value is None:
                value = self._undefined(operand)
            return value if kind == "pred" else self.domain.resize(value, BITS[kind] // 8, signed=False)
        if isinstance(operand, Negated):
            return self.domain.negated(self.fetch(operand.operand, kind))
        if isinstance(operand, Immediate):
            key = (operand, kind)
            if key not in self._constants:
                bits = plain(np.repeat(constant(operand, kind).reshape(1), self.lanes)).bits
                self._constants[key] = self.domain.constant(bits)
            return self._constants[key]
        if isinstance(operand, SpecialRegister) and operand.name not in UNKNOWN:
            bits = self._special[spelled(operand)]
            return Value(resized(bits.view(f"u{bits.itemsize}"), BITS[kind] // 8, signed=False))
        name = spelled(operand) if isinstance(operand, SpecialRegister) else str(operand)
        raise self.undecided(f"reads {name}, which no launch fixes")

    def store(self, operand: Operand, value: Value, kind: str, guard: Value | None) -> None:
        """Set a register of the running lanes: of those, if there is a guard, where that is true."""
        if isinstance(operand, Sink):
            return
        assert isinstance(operand, Register)
        if operand.type != "pred":
            value = self.domain.resize(value, BITS[operand.type] // 8, signed=DTYPES[kind].kind == "i")
        before = self._registers[operand.number]
        if before is None:
            before = self._undefined(operand)
        if guard is not None:
            value = self.domain.select(guard, value, before)
        if self.partial:
            value = self.domain.where(self.running, value, before)
        self._registers[operand.number] = value

    def _undefined(self, register: Register) -> Value:
        return self.domain.undefined(f"%{register.number}", BITS[register.type] // 8, self.lanes)

    def known(self, value: Value) -> bool:
        """Say whether the running lanes' bits of a value are known."""
        return self.domain.known(value, self.running)

    def undecided(self, reason: str) -> UndecidedError:
        """Make the error for an instruction that cannot be followed."""
        return UndecidedError(f"PTX line {self.line} {reason}")

    # ---- control

    def run(self) -> None:
        """Run all lanes to their end.

        Raises
        ------
        UndecidedError
            If control or an address depends on data, or an instruction cannot be followed.
        """
        steps = self.program.steps
        groups: dict[int, Mask] = {0: self.alive.copy()}
        waiting: dict[int, Mask] = {}
        limit = min(STEP_LIMIT, MOST_WORK // self.lanes)
        for _ in range(limit):
            if not groups:
                if not waiting:
                    return
                self._meet(groups, waiting)
            place = self._next(groups)
            if place is None:
                if not waiting:
                    raise UndecidedError("lanes of a warp wait for others that do not come")
                self._meet(groups, waiting)
                continue
            mask = groups.pop(place)
            step = steps[place]
            self.line = step.instruction.line
            guard = None if step.guard is None else self.fetch(step.guard, "pred")
            active, doubtful = mask, None
            if guard is not None:
                if self.domain.known(guard, mask):
                    active = mask & guard.bits
                else:
                    doubtful = guard
            handler = self._handlers[place]
            if handler is not None:
                if active.any():
                    self.running = active
                    self.partial = bool((self.alive & ~active).any())
                    handler(self, doubtful)
                _join(groups, place + 1, mask)
                continue
            if doubtful is not None:
                raise self.undecided("lets data decide which way it goes")
            self._flow(step, place, mask, active, groups, waiting)
        raise UndecidedError(f"still running after {limit} steps")

    def _next(self, groups: dict[int, Mask]) -> int | None:
        """Return the lowest place whose lanes can run; None if all wait for others of their warps."""
        for place in sorted(groups):
            step = self.program.steps[place]
            if step.members is None or self._complete(step, groups[place]):
                return place
        return None

    def _complete(self, step: Step, lanes: Mask) -> bool:
        """Say whether all lanes that an instruction of a warp names are there, or have ended."""
        assert step.members is not None
        self.line = step.instruction.line
        elsewhere = self.alive & ~lanes
        if not elsewhere.any():
            return True
        named = self.fetch(step.members, "b32")
        if not self.domain.known(named, lanes):
            raise self.undecided("lets data decide which lanes it waits for")
        wanted = np.where(lanes, named.bits, np.uint32(0)).reshape(-1, WARP)
        asked = np.bitwise_or.reduce(wanted, axis=1)[:, None] >> np.arange(WARP, dtype=np.uint32) & np.uint32(
            1
        )
        return not ((asked != 0) & elsewhere.reshape(-1, WARP)).any()

    def _flow(
        self,
        step: Step,
        place: int,
        mask: Mask,
        active: Mask,
        groups: dict[int, Mask],
        waiting: dict[int, Mask],
    ) -> None:
        """Let lanes branch, end, or wait."""
        if step.barrier is not None:
            if step.barrier.needed is not None or step.barrier.arrives or step.barrier.combine is not None:
                raise self.undecided("is a barrier for a part of the block, or one that reduces")
            _join(waiting, place + 1, active)
        elif step.selector is not None:
            index = self.fetch(step.selector, "u32")
            if not self.domain.known(index, active):
                raise self.undecided("lets data decide which way it goes")
            for number, target in enumerate(step.targets):
                _join(groups, target, active & (index.bits == number))
        elif step.targets:
            _join(groups, step.targets[0], active)
        else:
            self.alive = self.alive & ~active
        _join(groups, place + 1, mask & ~active)

    def _meet(self, groups: dict[int, Mask], waiting: dict[int, Mask]) -> None:
        """Let the blocks go on all of whose lanes wait."""
        arrived = np.logical_or.reduce(list(waiting.values()))
        complete = ~(self.alive & ~arrived).reshape(-1, self.width).any(axis=1).repeat(self.width)
        self.order.meet(complete, of_warps=False)
        for place, lanes in list(waiting.items()):
            _join(groups, place, lanes & complete)
            del waiting[place]
            _join(waiting, place, lanes & ~complete)
        if not complete.any() or not (arrived & complete).any():
            raise UndecidedError("threads wait at a barrier that others do not reach")


def _join(groups: dict[int, Mask], place: int, lanes: Mask) -> None:
    if lanes.any():
        groups[place] = groups[place] | lanes if place in groups else lanes
