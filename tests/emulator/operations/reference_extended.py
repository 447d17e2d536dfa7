"""Extended-precision arithmetic and packing conversions, for one lane, from the ISA's pseudo code."""

from __future__ import annotations

from collections.abc import Callable

from tests.emulator.operations.lanes import Reference, split, value, width


def carrying(name: str) -> Callable[[list[str]], Reference]:
    """add, addc, sub, subc, mad or madc: the flag is the last source and the last result, where there is one."""

    def reference(modifiers: list[str]) -> Reference:
        types, flags = split(modifiers)
        size = width(types[0])

        def whole(*patterns: int) -> tuple[int, ...]:
            numbers = list(patterns)
            flag = numbers.pop() if name.endswith("c") else 0
            if name.startswith("mad"):
                factors = [value(number, types[0]) for number in numbers[:2]]
                product = factors[0] * factors[1] >> (size if "hi" in flags else 0)
                numbers = [product % 2**size, numbers[2]]
            total = numbers[0] - numbers[1] - flag if name.startswith("sub") else sum(numbers) + flag
            carry = total < 0 or total >= 2**size
            return (total % 2**size, int(carry)) if "cc" in flags else (total % 2**size,)

        return whole

    return reference


def or_carrying(name: str, plain: Callable[[list[str]], Reference]) -> Callable[[list[str]], Reference]:
    """With ``.cc``, the carrying instruction of a name that others share."""
    return lambda modifiers: (carrying(name) if "cc" in modifiers else plain)(modifiers)


def pack(modifiers: list[str]) -> Reference:
    """cvt.pack"""
    kind = next(m for m in modifiers if m[0] in "us" and m not in ("sat", "s32"))
    size = int(kind[1:])
    low = -(2 ** (size - 1)) if kind[0] == "s" else 0

    def reference(a: int, b: int, c: int = 0) -> tuple[int, ...]:
        ta, tb = (min(max(value(each, "s32"), low), low + 2**size - 1) for each in (a, b))
        d = 0
        for i in range(32):
            bit = tb >> i if i < size else ta >> i - size if i < 2 * size else c >> i - 2 * size
            d |= (bit & 1) << i
        return (d,)

    return reference
