"""Extended-precision integer arithmetic (ISA, "Extended-Precision Integer Arithmetic Instructions").

The carry flag is one more source of what reads it and one more result of what writes it. Signed integers
carry as unsigned ones do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxtemplates.emulator.operations.forms import Builder, Form, Spelling
from ptxtemplates.emulator.operations.integers import product
from ptxtemplates.emulator.operations.values import DTYPES, Array, Operation, bits_of
from ptxtemplates.ptx.statements import Instruction

_Step = Callable[[Array, Array, Array], tuple[Array, Array]]


def _sum(a: Array, b: Array, carry: Array) -> tuple[Array, Array]:
    """Return the sum of unsigned integers and a carry, and whether it is too large."""
    partial: Array = a + b
    total: Array = partial + carry
    return total, (partial < a) | (total < partial)


def _difference(a: Array, b: Array, borrow: Array) -> tuple[Array, Array]:
    """Return ``a - (b + borrow)`` of unsigned integers, and whether it is negative."""
    partial: Array = a - b
    total: Array = partial - borrow
    return total, (a < b) | (partial < total)


def _stepped(step: _Step, *, reads: bool, multiplies: bool = False) -> Builder:
    """Build an addition or subtraction of two sources, or of a product's half and the third."""

    def build(_: Instruction, spelling: Spelling) -> Operation:
        type_ = spelling.type
        writes = spelling.has("cc")
        part = "hi" if spelling.has("hi") else "lo"

        def compute(*sources: Array) -> tuple[Array, ...]:
            terms = sources[:-1] if reads else sources
            carry = sources[-1] if reads else np.zeros(sources[0].shape, np.bool_)
            if multiplies:
                terms = (product(terms[0], terms[1], type_, part), terms[2])
            total, flag = step(bits_of(terms[0]), bits_of(terms[1]), carry)
            result = total.view(DTYPES[type_])
            return (result, flag) if writes else (result,)

        count = 3 if multiplies else 2
        return Operation((type_,) * count, (type_,), compute, reads_carry=reads, writes_carry=writes)

    return build


_TYPES = "u32|s32|u64|s64"

EXTENDED_FORMS: dict[str, tuple[Form, ...]] = {
    "add": (Form(f"cc {_TYPES}", _stepped(_sum, reads=False)),),
    "addc": (Form(f"cc? {_TYPES}", _stepped(_sum, reads=True)),),
    "sub": (Form(f"cc {_TYPES}", _stepped(_difference, reads=False)),),
    "subc": (Form(f"cc? {_TYPES}", _stepped(_difference, reads=True)),),
    "mad": (Form(f"lo|hi cc {_TYPES}", _stepped(_sum, reads=False, multiplies=True)),),
    "madc": (Form(f"lo|hi cc? {_TYPES}", _stepped(_sum, reads=True, multiplies=True)),),
}
