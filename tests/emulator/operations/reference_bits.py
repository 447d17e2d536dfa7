"""What instructions do to bits, for one lane, from the ISA's pseudo code."""

from __future__ import annotations

import operator
from collections.abc import Callable

from tests.emulator.operations.lanes import BOOLEANS, Reference, split, typed, value, width


def bitwise(function: Callable[..., int]) -> Callable[[list[str]], Reference]:
    def reference(modifiers: list[str]) -> Reference:
        size = 1 if modifiers == ["pred"] else width(modifiers[0])
        return lambda *sources: (function(*sources) & ((1 << size) - 1),)

    return reference


def shift(modifiers: list[str], to_left: bool) -> Reference:
    type_ = modifiers[0]
    return typed(lambda a, b: a << min(b, 64) if to_left else a >> min(b, 64), (type_, "u32"), (type_,))


def funnel(modifiers: list[str]) -> Reference:
    def reference(a: int, b: int, c: int) -> tuple[int, ...]:
        n = min(c, 32) if "clamp" in modifiers else c & 31
        return (
            ((b << n) | (a >> (32 - n)) if "l" in modifiers else (b << (32 - n)) | (a >> n)) & 0xFFFFFFFF,
        )

    return reference


TABLE = 0x96
"""The constant that the general test gives lop3; others have a test of their own."""


def lop3(modifiers: list[str], table: int = TABLE) -> Reference:
    def reference(a: int, b: int, c: int, _: int, q: int = 0) -> tuple[int, ...]:
        d = sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))
        predicate = BOOLEANS[modifiers[0]](d != 0, bool(q)) if modifiers[0] in BOOLEANS else None
        return (d,) if predicate is None else (d, int(predicate))

    return reference


# the table of the ISA, as it is printed: bytes 3, 2, 1, 0 for each selector
PRMT: dict[str, tuple[str, ...]] = {
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}


def prmt(modifiers: list[str]) -> Reference:
    mode = next((m for m in modifiers if m in PRMT), None)

    def reference(a: int, b: int, c: int) -> tuple[int, ...]:
        whole, d = b << 32 | a, 0
        for i in range(4):
            control = c >> 4 * i & 15 if mode is None else int(PRMT[mode][c & 3][3 - i])
            byte = whole >> 8 * (control & 7) & 255
            if mode is None and control & 8:
                byte = 255 if byte & 128 else 0
            d |= byte << 8 * i
        return (d,)

    return reference


def bfe(modifiers: list[str]) -> Reference:
    type_ = modifiers[0]
    msb = width(type_) - 1

    def reference(a: int, b: int, c: int) -> tuple[int, ...]:
        pos, length = b & 255, c & 255
        sbit = 0 if type_[0] == "u" or length == 0 else a >> min(pos + length - 1, msb) & 1
        return (
            sum((a >> (pos + i) & 1 if i < length and pos + i <= msb else sbit) << i for i in range(msb + 1)),
        )

    return reference


def bfi(modifiers: list[str]) -> Reference:
    msb = width(modifiers[0]) - 1

    def reference(a: int, b: int, c: int, d: int) -> tuple[int, ...]:
        pos, length, f = c & 255, d & 255, b
        for i in range(length):
            if pos + i <= msb:
                f = f & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
        return (f,)

    return reference


def bfind(modifiers: list[str]) -> Reference:
    type_ = modifiers[-1]
    msb = width(type_) - 1

    def reference(a: int) -> tuple[int, ...]:
        if type_[0] == "s" and a >> msb:
            a ^= (1 << (msb + 1)) - 1
        d = next((i for i in range(msb, -1, -1) if a >> i & 1), 0xFFFFFFFF)
        return (msb - d if "shiftamt" in modifiers and d != 0xFFFFFFFF else d,)

    return reference


def fns(modifiers: list[str]) -> Reference:
    def reference(mask: int, base: int, offset: int) -> tuple[int, ...]:
        offset = value(offset, "s32")
        d = 0xFFFFFFFF
        if offset == 0:
            return (base if base < 32 and mask >> base & 1 else d,)
        pos, count, inc = base, abs(offset) - 1, 1 if offset > 0 else -1
        while 0 <= pos < 32:
            if mask >> pos & 1:
                if count == 0:
                    return (pos,)
                count -= 1
            pos += inc
        return (d,)

    return reference


def szext(modifiers: list[str]) -> Reference:
    def reference(a: int, b: int) -> tuple[int, ...]:
        b1 = b & 31
        too_large = b >= 32 and "clamp" in modifiers
        mask = 0 if too_large else (0xFFFFFFFF << b1) & 0xFFFFFFFF
        sign = 0 if b1 == 0 or too_large or "s32" not in modifiers else a >> (b1 - 1 & 31) & 1
        return ((a & ~mask) | (mask if sign else 0),)

    return reference


def bmsk(modifiers: list[str]) -> Reference:
    def reference(a: int, b: int) -> tuple[int, ...]:
        ones = 0xFFFFFFFF
        a1, b1 = a & 31, b & 31
        mask0, total = ones << a1 & ones, a1 + b1
        mask1 = ones << total & ones
        position = wide = False
        if "clamp" in modifiers:
            if a >= 32:
                position, mask0 = True, 0
            wide = b >= 32
        if total >= 32 or position or wide:
            mask1 = 0
        elif b1 == 0:
            mask1 = ones
        return (mask0 & ~mask1 & ones,)

    return reference


def dot(modifiers: list[str]) -> Reference:
    types, flags = split(modifiers)
    wide = bool(flags)

    def reference(a: int, b: int, c: int) -> tuple[int, ...]:
        size = 16 if wide else 8
        va = [value(a >> size * i & ((1 << size) - 1), f"{types[0][0]}{size}") for i in range(32 // size)]
        vb = [value(b >> 8 * i & 255, f"{types[1][0]}8") for i in range(4)]
        return ((c + sum(map(operator.mul, va, vb[2 if "hi" in flags else 0 :]))) & 0xFFFFFFFF,)

    return reference
