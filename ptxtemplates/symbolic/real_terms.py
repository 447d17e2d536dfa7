"""Data as terms over the real numbers: arithmetic of float32 as if nothing were rounded.

Sums, products and quotients are residues, so that another order, or a fused multiply-add split in two, gives
the same number. Every other function is what it is of terms, without regard to how it rounds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ptxtemplates.symbolic import residues
from ptxtemplates.symbolic.hashing import combined, number_of
from ptxtemplates.symbolic.spelling import ROUNDINGS
from ptxtemplates.symbolic.terms import Terms, unknown
from ptxtemplates.symbolic.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ptxtemplates.emulator.operations import Operation
    from ptxtemplates.ptx.statements import Instruction
    from ptxtemplates.symbolic.hashing import Numbers
    from ptxtemplates.symbolic.memory import Region
    from ptxtemplates.symbolic.terms import Offsets

_RING: Final[dict[str, Callable[..., Numbers]]] = {
    "add": residues.added,
    "sub": residues.subtracted,
    "mul": residues.multiplied,
    "fma": residues.fused,
    "mad": residues.fused,
    "neg": residues.negated,
    "rcp": residues.inverse,
    "div": residues.divided,
}
_FUNCTIONS: Final = frozenset({"sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"})
_HOW: Final = ROUNDINGS | {"approx", "full", "ftz", "f32"}
"""Modifiers that say how a result is rounded, and the type."""
_SIGN: Final = 1 << 31


class RealTerms(Terms):
    """The domain of terms over the real numbers. NaN and infinities are not looked at: they are none."""

    def __init__(self, program: str) -> None:
        super().__init__(program)
        self._constant_residues: dict[int, Numbers] = {}
        """Of constants, by the identity of their bits, which the base class keeps."""

    def leaves(self, region: Region, offsets: Offsets) -> Numbers:
        """Return the terms of elements; of float32 as residues from the start."""
        found = super().leaves(region, offsets)
        return residues.of_terms(found) if region.kind == "f32" else found

    def numbers(
        self, instruction: Instruction, operation: Operation, sources: Sequence[Value]
    ) -> list[Numbers]:
        """Return the numbers of an instruction's results, as if nothing were known."""
        real = self._real(instruction, operation, sources)
        return super().numbers(instruction, operation, sources) if real is None else [real]

    def _real(
        self, instruction: Instruction, operation: Operation, sources: Sequence[Value]
    ) -> Numbers | None:
        """Return the results as terms over the real numbers, None of what is no function of these."""
        opcode, modifiers = instruction.opcode, set(instruction.modifiers)
        if operation.result_types == ("b32",):
            return self._signed(opcode, sources)
        if operation.result_types != ("f32",):
            return None
        if opcode == "cvt" and modifiers <= _HOW | {"u32", "s32", "u64", "s64"}:
            return self._converted(instruction, sources[0])
        if not modifiers <= _HOW or operation.source_types != ("f32",) * len(sources):
            return None
        if opcode in _FUNCTIONS:
            return combined(number_of(f"real {opcode}"), self._number(sources[0]))
        if opcode in _RING:
            return _RING[opcode](*(self._number(source) for source in sources))
        return None

    def _number(self, source: Value) -> Numbers:
        """Return residues of what lanes hold."""
        tags = source.shadow
        if tags is not None and (source.full or (tags.ndim == 1 and tags.all())):
            return residues.of_terms(tags)
        if source.shadow is None and (kept := self._constant_residues.get(id(source.bits))) is not None:
            return kept
        values = source.bits.view(np.float32)
        certain = np.isfinite(values)
        if source.shadow is not None:
            certain &= ~unknown(source)
        found = residues.of_floats(values)
        if not certain.all():
            found = np.where(certain, found, residues.of_terms(self._whole(source)))
        if source.shadow is None and self.is_constant(source):
            self._constant_residues[id(source.bits)] = found
        return found

    def _converted(self, instruction: Instruction, source: Value) -> Numbers:
        """Return the number that an integer is; a float32 stays what it is."""
        if instruction.modifiers[-1] == "f32":
            return self._whole(source)
        return combined(number_of(f"real of {instruction.modifiers[-1]}"), self._whole(source))

    def _signed(self, opcode: str, sources: Sequence[Value]) -> Numbers | None:
        """Return the negative where the sign of a float32 is turned round."""
        for number, mask in (sources, sources[::-1]) if opcode == "xor" else ():
            if mask.shadow is None and not (mask.bits & ~np.uint32(_SIGN)).any():
                numbers = self._number(number)
                return np.where(mask.bits != 0, residues.negated(numbers), self._whole(number))
        return None
