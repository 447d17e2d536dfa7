"""Carries from one instruction to the next."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ptxtemplates.emulator.operations import decode
from tests.emulator.operations.running import instruction, register, run


def test_words_multiply_to_twice_as_many() -> None:
    """The ISA's example of extended-precision multiplication."""
    rng = np.random.default_rng(8)
    words = list(rng.integers(0, 2**32, (4, 1000), dtype=np.uint32))
    words[0][:9], words[1][:9] = 0xFFFFFFFF, 0xFFFFFFFF
    low_a, high_a, low_b, high_b = words
    carry = np.zeros(1000, np.bool_)

    def step(text: str, *sources: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        nonlocal carry
        operation = decode(instruction(text, *(register(number) for number in range(len(sources) + 1))))
        results = operation.compute(*sources, *([carry] if operation.reads_carry else []))
        if operation.writes_carry:
            carry = results[1]
        return results[0]

    zero = np.zeros(1000, np.uint32)
    r0, r1 = run("mul.lo.u32", low_a, low_b), run("mul.hi.u32", low_a, low_b)
    r1 = step("mad.lo.cc.u32", high_a, low_b, r1)
    r2 = step("madc.hi.u32", high_a, low_b, zero)
    r1 = step("mad.lo.cc.u32", low_a, high_b, r1)
    r2 = step("madc.hi.cc.u32", low_a, high_b, r2)
    r3 = step("addc.u32", zero, zero)
    r2 = step("mad.lo.cc.u32", high_a, high_b, r2)
    r3 = step("madc.hi.u32", high_a, high_b, r3)
    for lane in range(1000):
        a, b = (int(high[lane]) << 32 | int(low[lane]) for high, low in ((high_a, low_a), (high_b, low_b)))
        assert sum(int(word[lane]) << 32 * place for place, word in enumerate((r0, r1, r2, r3))) == a * b
