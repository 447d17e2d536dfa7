"""Comparison and selection (ISA, "Comparison and Selection Instructions", "Half Precision Comparison")."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptxtemplates.emulator.operations.arithmetic import flush
from ptxtemplates.emulator.operations.forms import Form, Spelling
from ptxtemplates.emulator.operations.logic import LOGICAL
from ptxtemplates.emulator.operations.packing import join, split
from ptxtemplates.emulator.operations.values import DTYPES, HALVES, Array, Operation, choose
from ptxtemplates.ptx.operands import Pair
from ptxtemplates.ptx.statements import Instruction

Compare = Callable[[Array, Array], Array]

_RELATIONS: dict[str, Compare] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}


def _nan(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


def _float_relation(name: str) -> Compare:
    """Ordered relations are false for NaN (of NumPy's, all but ``ne`` are so already), the others true."""
    if name in ("num", "nan"):
        return _nan if name == "nan" else lambda a, b: ~_nan(a, b)
    if name == "ne":
        return lambda a, b: (a != b) & ~_nan(a, b)
    if name in _RELATIONS:
        return _RELATIONS[name]
    ordered = _RELATIONS[name.removesuffix("u")]
    return lambda a, b: ordered(a, b) | _nan(a, b)


def comparison(spelling: Spelling, type_: str) -> Compare:
    """Return the comparison that an instruction makes between arrays of a type."""
    name = next(value for slot, value in spelling.modifiers.items() if slot.endswith("compare"))
    if DTYPES[type_].kind in "iu":
        return _RELATIONS[name]
    relation = _float_relation(name)
    flushes = spelling.has("ftz")

    def compare(a: Array, b: Array) -> Array:
        if flushes:
            a, b = flush(a, type_), flush(b, type_)
        if type_ in ("f16", "bf16"):
            a, b = a.astype(np.float32), b.astype(np.float32)
        return relation(a, b)

    return compare


def _setp(instruction: Instruction, spelling: Spelling) -> Operation:
    type_ = spelling.type
    packed = type_ in HALVES
    compare = comparison(spelling, HALVES.get(type_, type_))
    logical = LOGICAL.get(spelling.modifiers.get("logical", ""))
    # the second result: of the upper halves, or with the complement of the comparison; f16 and bf16 have none
    two = type_ not in ("f16", "bf16") and isinstance(instruction.operands[0], Pair)

    def compute(a: Array, b: Array, *rest: Array) -> tuple[Array, ...]:
        if packed:
            (a, upper_a), (b, upper_b) = split(a, HALVES[type_]), split(b, HALVES[type_])
        first = compare(a, b)
        both = [first]
        if two:
            both.append(compare(upper_a, upper_b) if packed else ~first)
        if logical is not None:
            both = [logical(each, rest[0]) for each in both]
        return tuple(both)

    sources = (type_, type_) if logical is None else (type_, type_, "pred")
    return Operation(sources, ("pred",) * (2 if two else 1), compute)


def _truth(values: Array, type_: str) -> Array:
    """Write true as 1.0, or as an integer of ones."""
    dtype = DTYPES[type_]
    if dtype.kind in "iu":
        all_bits: Array = np.negative(values.astype(f"u{dtype.itemsize}")).view(dtype)
        return all_bits
    return values.astype(np.float32).astype(dtype)


def _set(_: Instruction, spelling: Spelling) -> Operation:
    result_type, type_ = spelling.types
    packed = type_ in HALVES
    compare = comparison(spelling, HALVES.get(type_, type_))
    logical = LOGICAL.get(spelling.modifiers.get("logical", ""))
    # halves of a packed result are written as 1.0, or as 16 ones
    element = HALVES.get(result_type, "u16") if packed else result_type

    def compute(a: Array, b: Array, *rest: Array) -> tuple[Array]:
        pairs = zip(split(a, HALVES[type_]), split(b, HALVES[type_]), strict=True) if packed else [(a, b)]
        truths = [compare(x, y) for x, y in pairs]
        if logical is not None:
            truths = [logical(truth, rest[0]) for truth in truths]
        written = [_truth(truth, element) for truth in truths]
        return (join(*written).view(DTYPES[result_type]) if packed else written[0],)

    sources = (type_, type_) if logical is None else (type_, type_, "pred")
    return Operation(sources, (result_type,), compute)


def _selp(_: Instruction, spelling: Spelling) -> Operation:
    type_ = spelling.type
    return Operation((type_, type_, "pred"), (type_,), lambda a, b, c: (choose(c, a, b),))


def _slct(_: Instruction, spelling: Spelling) -> Operation:
    """Select by the sign of the last source: -0 counts as zero, NaN selects the second."""
    type_, sign_type = spelling.types
    flushes = spelling.has("ftz")

    def compute(a: Array, b: Array, c: Array) -> tuple[Array]:
        return (choose((flush(c, "f32") if flushes else c) >= 0, a, b),)

    return Operation((type_, type_, sign_type), (type_,), compute)


# source types, the comparisons they allow, whether subnormal inputs can be flushed
_COMPARED = (
    ("bits", "bit_compare", ""),
    ("u16|u32|u64", "integer_compare", ""),
    ("s16|s32|s64", "signed_compare", ""),
    ("f32", "float_compare", "ftz?"),
    ("f64", "float_compare", ""),
    ("f16", "float_compare", "ftz?"),
    ("bf16", "float_compare", ""),
)
_SET_RESULTS = {"f16": "u16|s16|u32|s32|f16", "bf16": "u16|s16|u32|s32|bf16"}

COMPARISON_FORMS: dict[str, tuple[Form, ...]] = {
    "setp": (
        *(Form(f"{compare} logical? {ftz} {types}", _setp) for types, compare, ftz in _COMPARED),
        Form("float_compare logical? ftz? f16x2", _setp),
        Form("float_compare logical? bf16x2", _setp),
    ),
    "set": (
        *(
            Form(f"{compare} logical? {ftz} {_SET_RESULTS.get(types, 'u32|s32|f32|f16|bf16')} {types}", _set)
            for types, compare, ftz in _COMPARED
            if types != "f32"
        ),
        Form("float_compare logical? ftz? u32|s32|f32|f16 f32", _set),
        Form("float_compare logical? bf16 f32", _set),
        Form("float_compare logical? ftz? f16x2|u32|s32 f16x2", _set),
        Form("float_compare logical? bf16x2|u32|s32 bf16x2", _set),
    ),
    "selp": (Form("plain", _selp),),
    "slct": (Form("plain s32", _slct), Form("ftz? plain f32", _slct)),
}
