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

    def compute(
        self, instruction: Instruction, operation: Operation, sources: Sequence[Value]
    ) -> list[Value]:
        """Return the results of an instruction that computes registers from registers."""
        found = super().compute(instruction, operation, sources)
        if found[0].shadow is None:
            return found
        numbers = self._real(instruction, operation, sources)
        if numbers is None:
            return found
        return [Value(found[0].bits, np.where(found[0].shadow == 0, np.uint64(0), numbers))]

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
        known = residues.of_floats(source.bits.view(np.float32))
        if source.shadow is None:
            finite = np.isfinite(source.bits.view(np.float32))
            return known if finite.all() else np.where(finite, known, residues.of_terms(self._whole(source)))
        terms = residues.of_terms(self._whole(source))
        if source.shadow.ndim == 1 and source.shadow.all():
            return terms
        certain = np.isfinite(source.bits.view(np.float32)) & ~unknown(source)
        return np.where(certain, known, terms)

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
