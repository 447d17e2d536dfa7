"""What each instruction computes, for one lane, in Python integers and rational numbers, from the ISA's pseudo code."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from tests.emulator.operations import ieee
from tests.emulator.operations.lanes import (
    BOOLEANS,
    FLOATS,
    PACKED,
    Reference,
    bits,
    clamp,
    same,
    split,
    typed,
    value,
    width,
)
from tests.emulator.operations.reference_bits import (
    bfe,
    bfi,
    bfind,
    bitwise,
    bmsk,
    dot,
    fns,
    funnel,
    lop3,
    prmt,
    shift,
    szext,
)
from tests.emulator.operations.reference_extended import carrying, or_carrying, pack


def flushed(number: float, type_: str) -> float:
    tiny = abs(number) < 2.0 ** ieee.LAYOUTS[type_].lowest
    return math.copysign(0.0, number) if tiny else number


def finish(number: float, type_: str, flags: set[str]) -> float:
    if "ftz" in flags:
        number = flushed(number, type_)
    if "relu" in flags and ieee.negative(number) and not math.isnan(number):
        number = 0.0
    if "sat" in flags:
        number = 0.0 if math.isnan(number) or number <= 0 else min(number, 1.0)
    return number


def with_flags(function: Callable[..., float], type_: str, flags: set[str]) -> Callable[..., float]:
    def whole(*sources: float) -> float:
        if "ftz" in flags:
            sources = tuple(flushed(source, type_) for source in sources)
        return finish(function(*sources), type_, flags)

    return whole


def mode_of(flags: set[str]) -> str:
    return next((mode for mode in ("rn", "rz", "rm", "rp", "rna") if mode in flags), "rn")


def arithmetic(
    name: str, integer: Callable[[list[str]], Reference] | None = None
) -> Callable[[list[str]], Reference]:
    """Integers by `integer`, floats by the function of that name in `ieee`."""
    function: Callable[..., float] = getattr(ieee, "fma" if name == "mad" else name)
    count = {"fma": 3, "mad": 3, "rcp": 1, "sqrt": 1}.get(name, 2)

    def reference(modifiers: list[str]) -> Reference:
        types, flags = split(modifiers)
        type_ = types[0]
        if PACKED.get(type_, type_) not in FLOATS:
            assert integer is not None
            return integer(modifiers)
        mode = mode_of(flags)
        if len(types) == 2:  # mixed precision
            whole = with_flags(lambda *s: function(*s, "f32", mode), "f32", flags)
            return typed(whole, (*(types[1],) * (count - 1), "f32"), ("f32",))
        single = PACKED.get(type_, type_)
        if name == "div" and "approx" in flags:
            return typed(with_flags(_approximate_division, "f32", flags), ("f32",) * 2, ("f32",))
        if name == "rcp" and "approx" in flags and type_ == "f64":
            return gross(lambda a: ieee.rcp(a, "upper", "rn"))
        return same(with_flags(lambda *s: function(*s, single, mode), single, flags), type_, count)

    return reference


def _approximate_division(a: float, b: float) -> float:
    if 2.0**126 < abs(b) < math.inf and not math.isnan(a):
        return math.nan if math.isinf(a) else math.copysign(0.0, math.copysign(1, a) * math.copysign(1, b))
    return ieee.div(a, b, "f32", "rn")


def gross(function: Callable[[float], float]) -> Reference:
    def reference(pattern: int) -> tuple[int, ...]:
        if math.isnan(ieee.from_bits(pattern, "f64")):
            return (0x7FFFFFFF00000000,)
        upper = ieee.from_bits(pattern >> 32 << 32, "f64")
        outcome = flushed(function(flushed(upper, "f64")), "f64")
        return (0x7FFFFFFF00000000 if math.isnan(outcome) else ieee.to_bits(outcome, "f64"),)

    return reference


def approximate(name: str) -> Callable[[list[str]], Reference]:
    def reference(modifiers: list[str]) -> Reference:
        types, flags = split(modifiers)
        single = PACKED.get(types[0], types[0])
        if types[0] == "f64" and "ftz" in flags:
            return gross(lambda a: ieee.transcendental(name, a, "upper"))
        return same(with_flags(lambda a: ieee.transcendental(name, a, single), single, flags), types[0], 1)

    return reference


def integer_op(function: Callable[..., int], count: int) -> Callable[[list[str]], Reference]:
    def reference(modifiers: list[str]) -> Reference:
        types, flags = split(modifiers)
        kind = PACKED.get(types[0], types[0])

        def whole(*sources: int) -> int:
            outcome = function(*sources)
            outcome = max(outcome, 0) if "relu" in flags else outcome
            return clamp(outcome, kind) if "sat" in flags else outcome

        return same(whole, types[0], count)

    return reference


def multiply(count: int, low: int = 0, digits: int | None = None) -> Callable[[list[str]], Reference]:
    """``mul`` and ``mad``; of `digits` bits of each source, where ``hi`` starts at bit `low`."""

    def reference(modifiers: list[str]) -> Reference:
        types, flags = split(modifiers)
        type_ = types[0]
        size = width(type_)
        result = f"{type_[0]}{2 * size}" if "wide" in flags else type_

        def narrowed(number: int) -> int:
            if digits is None:
                return number
            number &= (1 << digits) - 1
            return number - (1 << digits) if type_[0] == "s" and number >> (digits - 1) else number

        def whole(a: int, b: int, c: int = 0) -> int:
            product = narrowed(a) * narrowed(b)
            if "hi" in flags:
                product >>= low or size
            if "sat" in flags:
                return clamp(value(bits(product, type_), type_) + c, type_)
            return product + c

        return typed(whole, (type_, type_, result)[:count], (result,))

    return reference


def quotient(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def remainder(a: int, b: int) -> int:
    return -1 if b == 0 else a - b * quotient(a, b)


def sign_op(name: str) -> Callable[[list[str]], Reference]:
    function = abs if name == "abs" else operator.neg

    def reference(modifiers: list[str]) -> Reference:
        types, flags = split(modifiers)
        single = PACKED.get(types[0], types[0])
        return same(with_flags(function, single, flags) if single in FLOATS else function, types[0], 1)

    return reference


def extremum(name: str) -> Callable[[list[str]], Reference]:
    pick = min if name == "min" else max

    def reference(modifiers: list[str]) -> Reference:
        types, flags = split(modifiers)
        single = PACKED.get(types[0], types[0])
        if single not in FLOATS:
            return integer_op(pick, 2)(modifiers)

        def two(a: float, b: float) -> float:
            if math.isnan(a) or math.isnan(b):
                return math.nan if "NaN" in flags else b if math.isnan(a) else a
            return pick((a, math.copysign(1, a)), (b, math.copysign(1, b)))[0]

        def whole(*sources: float) -> float:
            used = [abs(source) for source in sources] if "abs" in flags else list(sources)
            outcome = two(used[0], used[1])
            for other in used[2:]:
                outcome = two(outcome, other)
            if "xorsign" in flags and not math.isnan(outcome):
                outcome = math.copysign(outcome, math.copysign(1, sources[0]) * math.copysign(1, sources[1]))
            return outcome

        count = 3 if "abs" in flags and "xorsign" not in flags else 2
        return same(with_flags(whole, single, flags), types[0], count)

    return reference


RELATIONS = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "lo": operator.lt, "ls": operator.le, "hi": operator.gt, "hs": operator.ge,
}  # fmt: skip


def compared(flags: set[str], type_: str) -> Callable[[Any, Any], bool]:
    name = next(
        flag for flag in flags if flag in RELATIONS or flag in ("num", "nan") or flag[:-1] in RELATIONS
    )

    def compare(a: Any, b: Any) -> bool:
        if type_ not in FLOATS:
            return bool(RELATIONS[name](a, b))
        if "ftz" in flags:
            a, b = flushed(a, type_), flushed(b, type_)
        nan = math.isnan(a) or math.isnan(b)
        if name in ("num", "nan"):
            return nan == (name == "nan")
        if nan:
            return name not in RELATIONS
        return bool(RELATIONS[name if name in RELATIONS else name[:-1]](a, b))

    return compare


def setp(modifiers: list[str], results: int = 1) -> Reference:
    types, flags = split(modifiers)
    type_ = types[0]
    compare = compared(flags, PACKED.get(type_, type_))
    combine = next((BOOLEANS[flag] for flag in flags if flag in BOOLEANS), lambda t, c: t)

    def reference(a: int, b: int, c: int = 0) -> tuple[int, ...]:
        if type_ in PACKED:
            half = PACKED[type_]
            truths = [
                compare(value(x, half), value(y, half))
                for x, y in ((a & 0xFFFF, b & 0xFFFF), (a >> 16, b >> 16))
            ]
        else:
            first = compare(value(a, type_), value(b, type_))
            truths = [first, not first]
        return tuple(int(combine(truth, bool(c))) for truth in truths[:results])

    return reference


def set_(modifiers: list[str]) -> Reference:
    types, _ = split(modifiers)
    result, type_ = types
    compare = list(modifiers)
    compare.remove(result)
    predicates = setp(compare, 2 if type_ in PACKED else 1)

    def truth(flag: int, kind: str) -> int:
        return bits(float(flag), kind) if kind in FLOATS else bits(-flag, kind)

    def reference(*sources: int) -> tuple[int, ...]:
        flags = predicates(*sources)
        if type_ in PACKED:
            kind = PACKED.get(result, "u16")
            return (truth(flags[0], kind) | truth(flags[1], kind) << 16,)
        return (truth(flags[0], result),)

    return reference


def slct(modifiers: list[str]) -> Reference:
    types, flags = split(modifiers)

    def reference(a: int, b: int, c: int) -> tuple[int, ...]:
        sign = value(c, types[-1])
        return (a if (flushed(sign, "f32") if "ftz" in flags else sign) >= 0 else b,)

    return reference


def testp(modifiers: list[str]) -> Reference:
    name, type_ = modifiers
    tests: dict[str, Callable[[float], bool]] = {
        "finite": math.isfinite,
        "infinite": math.isinf,
        "number": lambda a: a == a,
        "notanumber": math.isnan,
        "normal": lambda a: math.isfinite(a) and (a == 0 or flushed(a, type_) != 0),
        "subnormal": lambda a: a != 0 and flushed(a, type_) == 0,
    }
    return typed(tests[name], (type_,), ("pred",))


def copysign(modifiers: list[str]) -> Reference:
    sign = 1 << (width(modifiers[0]) - 1)
    return lambda a, b: ((a & sign) | (b & ~sign),)


INTEGRAL: dict[str, Callable[[float], int]] = {
    "rni": round,
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}


def cvt(modifiers: list[str]) -> Reference:
    if "pack" in modifiers:
        return pack(modifiers)
    types, flags = split(modifiers)
    result, type_ = types
    integral = next((INTEGRAL[flag] for flag in flags if flag in INTEGRAL), None)
    mode = mode_of(flags)

    def to_float(number: Any, kind: str) -> float:
        if type_ in FLOATS and "ftz" in flags and type_ == "f32":
            number = flushed(number, type_)
        if integral is not None and math.isfinite(number):
            number = math.copysign(float(integral(number)), number)
        elif type_ not in FLOATS or (math.isfinite(number) and number != 0):
            number = ieee.rounded(Fraction(number), kind, mode) if number else 0.0
        if "satfinite" in flags and not math.isnan(number):
            largest = ieee.LAYOUTS[kind].largest
            number = min(max(number, -largest), largest)
        return finish(number, "f32", flags - (set() if kind == "f32" else {"ftz"}))

    def to_integer(number: float) -> int:
        size = width(result)
        if math.isnan(number):
            return 1 << (size - 1) if type_ == "f64" or size == 64 else 0
        number = flushed(number, "f32") if "ftz" in flags else number
        if math.isinf(number):
            return clamp(2**70 if number > 0 else -(2**70), result)
        assert integral is not None
        return clamp(integral(number), result)

    if result in PACKED:
        half = PACKED[result]

        def halves(a: int, b: int) -> tuple[int, ...]:
            high, low = (bits(to_float(value(x, "f32"), half), half) for x in (a, b))
            return (high << 16 | low,)

        return halves
    if result == "tf32":
        return lambda a: (bits(to_float(value(a, "f32"), "tf32"), "f32"),)
    if result in FLOATS:
        return typed(lambda a: to_float(a, result), (type_,), (result,))
    if type_ in FLOATS:
        return typed(to_integer, (type_,), (result,))
    return typed(lambda a: clamp(a, result) if "sat" in flags else a, (type_,), (result,))


def copy(modifiers: list[str]) -> Reference:
    return lambda a: (a,)


REFERENCES: dict[str, Callable[[list[str]], Reference]] = {
    "add": or_carrying("add", arithmetic("add", integer_op(operator.add, 2))),
    "sub": or_carrying("sub", arithmetic("sub", integer_op(operator.sub, 2))),
    "mul": arithmetic("mul", multiply(2)),
    "mad": or_carrying("mad", arithmetic("mad", multiply(3))),
    **{name: carrying(name) for name in ("addc", "subc", "madc")},
    "fma": arithmetic("fma"),
    "div": arithmetic("div", integer_op(quotient, 2)),
    "rcp": arithmetic("rcp"),
    "sqrt": arithmetic("sqrt"),
    "mul24": multiply(2, 16, 24),
    "mad24": multiply(3, 16, 24),
    "rem": integer_op(remainder, 2),
    "sad": integer_op(lambda a, b, c: c + abs(a - b), 3),
    "abs": sign_op("abs"),
    "neg": sign_op("neg"),
    "min": extremum("min"),
    "max": extremum("max"),
    **{name: approximate(name) for name in ("sin", "cos", "lg2", "ex2", "tanh", "rsqrt")},
    "and": bitwise(operator.and_),
    "or": bitwise(operator.or_),
    "xor": bitwise(operator.xor),
    "not": bitwise(operator.invert),
    "cnot": bitwise(lambda a: int(a == 0)),
    "shl": lambda modifiers: shift(modifiers, True),
    "shr": lambda modifiers: shift(modifiers, False),
    "shf": funnel,
    "lop3": lop3,
    "prmt": prmt,
    "popc": lambda modifiers: lambda a: (int.bit_count(a),),
    "clz": lambda modifiers: lambda a: (width(modifiers[0]) - int.bit_length(a),),
    "brev": lambda modifiers: lambda a: (int(f"{a:0{width(modifiers[0])}b}"[::-1], 2),),
    "bfind": bfind,
    "bfe": bfe,
    "bfi": bfi,
    "fns": fns,
    "szext": szext,
    "bmsk": bmsk,
    "dp4a": dot,
    "dp2a": dot,
    "setp": setp,
    "set": set_,
    "selp": lambda modifiers: lambda a, b, c: (a if c else b,),
    "slct": slct,
    "testp": testp,
    "copysign": copysign,
    "cvt": cvt,
    "mov": copy,
}
