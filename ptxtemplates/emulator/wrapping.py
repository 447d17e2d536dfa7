"""32-bit arithmetic that does not fit 32 bits and ends in an address.

Only instructions that addresses are made of are watched (`slices`). For each of their registers it is known,
thread by thread, which line last produced a value that no longer is the exact result: exact as an unsigned
number, and exact as a signed one, since PTX leaves open which was meant until the value is widened. Masking,
shifting right, dividing make a value something else, and end the watch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ptxtemplates.ptx.operands import Immediate, Register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ptxtemplates.emulator.machine import Machine
    from ptxtemplates.emulator.types import Lanes, Values
    from ptxtemplates.ptx.operands import Operand
    from ptxtemplates.ptx.statements import Instruction

    Rule = Callable[[Machine, Lanes], None]

NEGATIVE: Final = 1 << 20
"""An unsigned number this close below 2^32 is taken for the negative one that it stands for."""


class Wrapped(NamedTuple):
    """Which line wrapped, for each thread, or 0: as unsigned and as signed numbers."""

    unsigned: Values
    signed: Values


CLEAN: Final = Wrapped(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.int32))


class Wraps:
    """The registers of a machine that hold wrapped values."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._of: dict[int, Wrapped] = {}
        self._instructions: dict[int, Instruction] = {}

    def __bool__(self) -> bool:
        return bool(self._of)

    def of(self, operand: Operand) -> Wrapped:
        """Return what is known of an operand."""
        return self._of.get(operand.number, CLEAN) if isinstance(operand, Register) else CLEAN

    def set(self, result: Operand, wrapped: Wrapped, active: Lanes) -> None:
        """Set what is known of a register of the active threads."""
        if not isinstance(result, Register):
            return
        known = result.number in self._of
        if not (known or wrapped.unsigned.any() or wrapped.signed.any()):
            return
        if not self._machine.every:
            before = self.of(result)
            wrapped = Wrapped(*(np.where(active, new, old) for new, old in zip(wrapped, before, strict=True)))
        if wrapped.unsigned.any() or wrapped.signed.any():
            self._of[result.number] = wrapped
        else:
            self._of.pop(result.number, None)

    def remember(self, instruction: Instruction) -> None:
        """Keep an instruction that wrapped, to report it if an address depends on it."""
        self._instructions[instruction.line] = instruction

    def check(self, address: Operand, active: Lanes) -> None:
        """Report an address that was made of a wrapped value, at the line that wrapped."""
        lines = self.of(address).unsigned
        bad = active & (lines != 0)
        if bad.any():
            lane = int(bad.argmax())
            line = int(self._machine.full(lines).reshape(-1)[lane])
            user = self._machine.step.instruction
            message = (
                f"the result does not fit 32 bits, and {user.text} in line {user.line} uses it as an address"
            )
            self._machine.report("32-bit wrap", message, lane, instruction=self._instructions[line])


def rule_of(instruction: Instruction) -> Rule:
    """Return what keeps the watch at an instruction that addresses are made of."""
    spelling = _spelling(instruction)
    if spelling in _ARITHMETIC:
        return _arithmetic(instruction, _ARITHMETIC[spelling])
    if spelling in _WIDENING:
        return _widening(instruction, _WIDENING[spelling])
    if spelling == "cvt.u32.u64":
        return _narrowing(instruction)
    if instruction.opcode in ("min", "max"):
        return _choosing(instruction)
    if instruction.opcode == "selp":
        return _selecting(instruction)
    if instruction.opcode in _KEEPING:
        return lambda machine, active: machine.wraps.set(
            instruction.operands[0], _merged(machine, instruction.operands[1:]), active
        )
    return lambda machine, active: machine.wraps.set(instruction.operands[0], CLEAN, active)


_KEEPING: Final = frozenset({"add", "sub", "mul", "mad", "shl", "mov", "or", "cvta"})


def _spelling(instruction: Instruction) -> str:
    spelled = instruction.text
    return spelled.replace(".b32", ".u32") if spelled == "shl.b32" else spelled


_EXACT: Final[dict[str, Callable[..., Any]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul.lo": lambda a, b: a * b,
    "mad.lo": lambda a, b, c: a * b + c,
    "shl": lambda a, n: np.ldexp(a, np.minimum(n, 64).astype(np.int64)),
}
"""Exact results of float64: products of 32-bit integers beyond 2^53 are rounded, and far from the limits."""

_ARITHMETIC: Final = {
    f"{name}.{kind}": function for kind in ("u32", "s32") for name, function in _EXACT.items()
}

_WIDENING: Final = {
    f"{name}.{suffix}": index
    for index, kinds in enumerate((("u64.u32", "u32"), ("s64.s32", "s32")))
    for name, suffix in (
        ("cvt", kinds[0]),
        ("mul.wide", kinds[1]),
        ("mad.wide", kinds[1]),
    )
}
"""What decides whether a number was unsigned (0) or signed (1)."""


def _merged(machine: Machine, operands: Iterable[Operand]) -> Wrapped:
    """Return the first line that wrapped among operands."""
    unsigned, signed = CLEAN
    for operand in operands:
        wrapped = machine.wraps.of(operand)
        if wrapped is not CLEAN:
            unsigned = np.where(unsigned != 0, unsigned, wrapped.unsigned)
            signed = np.where(signed != 0, signed, wrapped.signed)
    return Wrapped(unsigned, signed)


def _arithmetic(instruction: Instruction, function: Callable[..., Any]) -> Rule:
    result, *sources = instruction.operands
    line = np.int32(instruction.line)
    shifts = instruction.opcode == "shl"

    def rule(machine: Machine, active: Lanes) -> None:
        unsigned: list[Any] = []
        signed: list[Any] = []
        for number, source in enumerate(sources):
            value = machine.fetch(source, "u32", active)
            if isinstance(source, Immediate) or (shifts and number == 1):
                exact = source.value if isinstance(source, Immediate) else value
                unsigned.append(np.float64(exact))
                signed.append(np.float64(exact))
                continue
            as_signed = value.view(np.int32).astype(np.float64)
            signed.append(as_signed)
            small = value >= np.uint32((1 << 32) - NEGATIVE)
            unsigned.append(np.where(small, as_signed, value) if small.any() else value.astype(np.float64))
        exact_unsigned, exact_signed = function(*unsigned), function(*signed)
        beyond = (exact_unsigned >= 2.0**32) | (exact_unsigned < -NEGATIVE)
        beyond_signed = (exact_signed >= 2.0**31) | (exact_signed < -(2.0**31))
        before = _merged(machine, sources) if machine.wraps else CLEAN
        wraps = bool(beyond.any()), bool(beyond_signed.any())
        if any(wraps):
            machine.wraps.remember(instruction)
        lines = [
            np.atleast_2d(np.where(new, line, old)) if some else old
            for some, new, old in zip(wraps, (beyond, beyond_signed), before, strict=True)
        ]
        machine.wraps.set(result, Wrapped(*lines), active)

    return rule


def _widening(instruction: Instruction, interpretation: int) -> Rule:
    result, *sources = instruction.operands
    narrow, wide = (sources[:2], sources[2:]) if instruction.opcode != "cvt" else (sources, [])

    def rule(machine: Machine, active: Lanes) -> None:
        if not machine.wraps:
            return
        lines = _merged(machine, narrow)[interpretation]
        later = _merged(machine, wide).unsigned
        lines = np.where(lines != 0, lines, later)
        machine.wraps.set(result, Wrapped(lines, lines), active)

    return rule


def _narrowing(instruction: Instruction) -> Rule:
    result, source = instruction.operands
    line = np.int32(instruction.line)

    def rule(machine: Machine, active: Lanes) -> None:
        value = machine.fetch(source, "u64", active)
        top = value >> np.uint64(31)
        beyond = (value >> np.uint64(32) != 0) & (top != np.uint64((1 << 33) - 1))
        if beyond.any():
            machine.wraps.remember(instruction)
        before = _merged(machine, [source])
        lines = [np.where(beyond, line, old) for old in before]
        machine.wraps.set(result, Wrapped(*lines), active)

    return rule


def _choosing(instruction: Instruction) -> Rule:
    result, first, second = instruction.operands
    kind = instruction.modifiers[-1]
    smaller = instruction.opcode == "min"

    def rule(machine: Machine, active: Lanes) -> None:
        if not machine.wraps:
            return
        a, b = machine.fetch(first, kind, active), machine.fetch(second, kind, active)
        chosen = a <= b if smaller else a >= b
        _set_chosen(machine, result, chosen, first, second, active)

    return rule


def _selecting(instruction: Instruction) -> Rule:
    result, first, second, predicate = instruction.operands

    def rule(machine: Machine, active: Lanes) -> None:
        if machine.wraps:
            chosen = machine.fetch(predicate, "pred", active)
            _set_chosen(machine, result, chosen, first, second, active)

    return rule


def _set_chosen(
    machine: Machine, result: Operand, chosen: Values, first: Operand, second: Operand, active: Lanes
) -> None:
    pairs = zip(machine.wraps.of(first), machine.wraps.of(second), strict=True)
    machine.wraps.set(result, Wrapped(*(np.where(chosen, a, b) for a, b in pairs)), active)
