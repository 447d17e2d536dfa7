"""Edits of the four kernels, each with what must be said of its meaning."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

ROPE: Final = "batched_rope.h32.d128.theta10000"
BACKWARD: Final = "batched_rope_backward.h32.d96.theta10000"
CHUNK: Final = "flash_decoding_chunk.d128.h32.c16.kv8.s131072"
REDUCE: Final = "flash_decoding_reduce.d80.h32.c64"

BITS: Final = ("same bits",)
REALS: Final = ("same over the reals",)
DIFFER: Final = ("results differ",)
UNSURE: Final = ("cannot tell",)


class Edit(NamedTuple):
    """An edit of a text.

    Attributes
    ----------
    name : str
    variant : str
        Of which kernel.
    changes : tuple of (str, str)
        What is there, and what comes in its place; white space may differ. Everywhere in the text.
    verdicts : tuple of str
        Those that are right, without looking at machine code.
    """

    name: str
    variant: str
    changes: tuple[tuple[str, str], ...]
    verdicts: tuple[str, ...]

    def apply(self, text: str) -> str:
        """Return the text with the changes, all of which must be possible."""
        for before, after in self.changes:
            pattern = r"\s+".join(re.escape(word) for word in before.split())
            text, count = re.subn(pattern, after.replace("\\", r"\\"), text)
            assert count, f"{self.name}: {before} is not in {self.variant}"
        return text


def _edit(name: str, variant: str, verdicts: tuple[str, ...], *changes: tuple[str, str]) -> Edit:
    return Edit(name, variant, changes, verdicts)


_STORE = "st.global.v2.f32 [%out], { %even, %odd };"
_TAIL_OF_SHUFFLES = [(16, 1), (8, 2), (2, 8), (1, 16)]


def _shuffle(value: str, old: int, new: str) -> tuple[str, str]:
    return (
        f"shfl.sync.bfly.b32 %other, {value}, {old}, 31, -1;",
        f"shfl.sync.bfly.b32 %other, {value}, {new}, 31, -1;",
    )


def _backwards(value: str) -> list[tuple[str, str]]:
    """Exchange lanes in the other order."""
    there = [_shuffle(value, old, f"@{new}") for old, new in _TAIL_OF_SHUFFLES]
    return [*there, (f"%other, {value}, @", f"%other, {value}, ")]


EDITS: Final = (
    # ---- nothing changes
    _edit("a comment", ROPE, BITS, ("// one thread rotates", "// each thread rotates")),
    _edit("a register renamed", ROPE, BITS, ("%short_sine", "%sin")),
    _edit("a label renamed", CHUNK, BITS, ("next_keys", "loop")),
    _edit(
        "commuted factors", ROPE, BITS,
        ("mul.rn.f32 %short_sine, %short_sine, %r;", "mul.rn.f32 %short_sine, %r, %short_sine;"),
    ),
    _edit(
        "commuted factors of a fused multiply-add", BACKWARD, BITS,
        ("fma.rn.f32 %odd, %odd, %cosine, %cross;", "fma.rn.f32 %odd, %cosine, %odd, %cross;"),
    ),
    _edit(
        "commuted maximum", CHUNK, BITS,
        ("max.f32 %step_max, %step_max, %score1;", "max.f32 %step_max, %score1, %step_max;"),
    ),
    _edit(
        "the two polynomials in the other order", ROPE, BITS,
        ("fma.rn.f32 %short_sine, %r, 0f40C90FDB /* 6.2831855 */, %short_sine;", ""),
        (
            "fma.rn.f32 %short_cosine, %short_cosine, %square, 0f3F800000 /* 1 */;",
            "fma.rn.f32 %short_cosine, %short_cosine, %square, 0f3F800000; fma.rn.f32 %short_sine, %r, 0f40C90FDB, %short_sine;",
        ),
    ),
    _edit(
        "a shift for a product of an index", ROPE, BITS,
        (
            "mad.wide.u32 %x, %pair, 8, %x;",
            "{ .reg .u64 %t; cvt.u64.u32 %t, %pair; shl.b64 %t, %t, 3; add.u64 %x, %t, %x; }",
        ),
    ),
    _edit(
        "a shift for the chunk size", CHUNK, BITS,
        ("mul.lo.u32 %first_key, %chunk, 16;", "shl.b32 %first_key, %chunk, 4;"),
    ),
    _edit(
        "a subtraction as an addition", REDUCE, BITS,
        ("sub.u32 %chunks, %seq_len, 1;", "add.u32 %chunks, %seq_len, -1;"),
    ),
    _edit("signed for unsigned where it is all the same", ROPE, BITS, ("sub.s32 %rest,", "sub.u32 %rest,")),
    _edit(
        "an address computed earlier", ROPE, BITS,
        ("mad.wide.u32 %out, %pair, 8, %out;", ""),
        (
            "cvta.to.global.u64 %out, %out;",
            "cvta.to.global.u64 %out, %out;\nmad.wide.u32 %out, %pair, 8, %out;",
        ),
    ),
    _edit(
        "a selection the other way round", CHUNK, BITS,
        ("setp.le.u32 %exists1, %key1, %last_key;", "setp.gt.u32 %exists1, %key1, %last_key;"),
        (
            "selp.f32 %score1, %score1, 0fFF800000 /* -inf */, %exists1;",
            "selp.f32 %score1, 0fFF800000, %score1, %exists1;\nnot.pred %exists1, %exists1;",
        ),
    ),
    _edit(
        "a comparison of data the other way round", REDUCE, BITS,
        (
            "selp.f32 %nothing_bias, 0f3F800000 /* 1 */, 0f00000000 /* 0 */, %nothing;",
            "selp.f32 %nothing_bias, 0f00000000, 0f3F800000, %nothing;",
        ),
        ("setp.eq.f32 %nothing, %maximum, 0fFF800000 /* -inf */; selp.f32 %nothing_bias,",
         "setp.neu.f32 %nothing, 0fFF800000, %maximum;\nselp.f32 %nothing_bias,"),
    ),
    _edit(
        "a pair of stores for one of both", ROPE, BITS,
        (_STORE, "st.global.f32 [%out], %even;\nst.global.f32 [%out + 4], %odd;"),
    ),
    _edit(
        "a pair loaded as 64 bits", ROPE, BITS,
        (
            "ld.global.v2.f32 { %even, %odd }, [%x];",
            "{ .reg .b64 %both; ld.global.b64 %both, [%x]; mov.b64 { %even, %odd }, %both; }",
        ),
    ),
    _edit(
        "a guard for a branch", CHUNK, BITS,
        (
            "@%leader st.global.v2.f32 [%partial + 512], { %maximum, %sum };",
            "@!%leader bra over;\nst.global.v2.f32 [%partial + 512], { %maximum, %sum };\nover:",
        ),
    ),
    # ---- rounding
    _edit(
        "a fused multiply-add split", ROPE, REALS,
        (
            "fma.rn.f32 %short_sine, %r, 0f40C90FDB /* 6.2831855 */, %short_sine;",
            "{ .reg .f32 %t; mul.rn.f32 %t, %r, 0f40C90FDB; add.rn.f32 %short_sine, %t, %short_sine; }",
        ),
    ),
    _edit("a dropped rounding of a product", ROPE, REALS, ("mul.rn.f32 %square, %r, %r;", "mul.f32 %square, %r, %r;")),
    _edit("a dropped rounding of a sum", CHUNK, REALS, ("add.rn.f32 %sum, %sum, %weight;", "add.f32 %sum, %sum, %weight;")),
    _edit("another rounding", ROPE, REALS, ("cvt.rn.f32.s32 %r, %rest;", "cvt.rz.f32.s32 %r, %rest;")),
    _edit("lanes exchanged in another order", CHUNK, REALS, *_backwards("%score0")),
    _edit("lanes of the reduction in another order", REDUCE, REALS, *_backwards("%sum")),
    _edit("subnormals flushed", CHUNK, REALS, ("mul.rn.f32 %sum, %sum, %rescale;", "mul.rn.ftz.f32 %sum, %sum, %rescale;")),
    _edit("subnormals flushed in the exponential", CHUNK, REALS, ("ex2.approx.f32 %rescale", "ex2.approx.ftz.f32 %rescale")),
    _edit(
        "a quotient for a reciprocal", REDUCE, DIFFER,
        ("mul.rn.f32 %acc0_even, %acc0_even, %inverse;", "div.rn.f32 %acc0_even, %acc0_even, %sum;"),
    ),
    _edit("an approximate reciprocal", REDUCE, REALS, ("rcp.rn.f32 %inverse, %sum;", "rcp.approx.f32 %inverse, %sum;")),
    _edit(
        "the sum of two keys exchanged", CHUNK, REALS,
        ("sub.rn.f32 %weight, %score0, %reference;", "sub.rn.f32 %weight, %score@, %reference;"),
        ("sub.rn.f32 %weight, %score1, %reference;", "sub.rn.f32 %weight, %score0, %reference;"),
        ("%score@", "%score1"),
        ("mad.wide.u32 %address, %key0, 512, %values;", "mad.wide.u32 %address, %key@, 512, %values;"),
        ("mad.wide.u32 %address, %key1, 512, %values;", "mad.wide.u32 %address, %key0, 512, %values;"),
        ("%key@", "%key1"),
        ("@%exists0", "@%exists@"), ("@%exists1", "@%exists0"), ("@%exists@", "@%exists1"),
    ),
    _edit("an arithmetic shift where only low bits count", ROPE, UNSURE, ("shr.s32 %quadrant", "shr.u32 %quadrant")),
    # ---- results
    _edit("swapped stores", ROPE, DIFFER, (_STORE, "st.global.v2.f32 [%out], { %odd, %even };")),
    _edit("a coefficient changed by one ulp", ROPE, DIFFER, ("0fC2255DD3", "0fC2255DD4")),
    _edit("the smallest coefficient changed by one ulp", ROPE, UNSURE, ("0f426A3D87", "0f426A3D88")),
    _edit("the scale changed by one ulp", CHUNK, DIFFER, ("0f3DB504F3", "0f3DB504F4")),
    _edit("a table entry changed by 2^-64 turns", ROPE, UNSURE, ("0x28be60db9391054a", "0x28be60db9391054b")),
    _edit("a table entry changed", ROPE, DIFFER, ("0x28be60db9391054a", "0x28be60eb9391054a")),
    _edit("the other predicate", ROPE, DIFFER, ("setp.ne.u32 %swap", "setp.eq.u32 %swap")),
    _edit("another bit for a sign", ROPE, DIFFER, ("and.b32 %sine_sign, %quadrant, 2;", "and.b32 %sine_sign, %quadrant, 1;")),
    _edit("the sign of the gradient", BACKWARD, DIFFER, ("neg.f32 %cross, %cross;", "")),
    _edit("nothing stored by one head", ROPE, DIFFER, (_STORE, "{ .reg .pred %p; setp.ne.u32 %p, %head, 17; @%p " + _STORE + " }")),
    _edit(
        "one lane only", CHUNK, DIFFER,
        (
            "mul.rn.f32 %sum, %sum, %rescale;",
            "mul.rn.f32 %sum, %sum, %rescale; { .reg .pred %p; setp.eq.u32 %p, %lane, 31; @%p neg.f32 %acc0_odd, %acc0_odd; }",
        ),
    ),
    _edit("one exchange forgotten", CHUNK, DIFFER, _shuffle("%score0", 16, "8")),
    _edit("another key head", CHUNK, DIFFER, ("shr.u32 %kv_head, %head, 2;", "shr.u32 %kv_head, %head, 3;")),
    _edit("wrong from the second chunk on", CHUNK, DIFFER, ("mul.lo.u32 %first_key, %chunk, 16;", "mul.lo.u32 %first_key, %chunk, 17;")),
    _edit("wrong in the second position of a step", CHUNK, DIFFER, ("setp.le.u32 %exists1", "setp.lt.u32 %exists1")),
    _edit(
        "wrong in empty rows alone", REDUCE, DIFFER,
        ("selp.u32 %chunks, 0, %chunks, %no_keys;", ""),
    ),
    _edit(
        "wrong for rows without a filled chunk", REDUCE, DIFFER,
        ("add.rn.f32 %sum, %sum, %nothing_bias;", ""),
    ),
    _edit("wrong behind the 32nd chunk", REDUCE, DIFFER, ("add.u32 %tile, %tile, 32;", "add.u32 %tile, %tile, 31;")),
    _edit("other terms, though a NaN spreads all the same", REDUCE, UNSURE, ("setp.geu.f32 %filled", "setp.ge.f32 %filled")),
    _edit(
        "values of missing keys added with weight 0", CHUNK, UNSURE,
        ("@%exists3 fma.rn.f32", "fma.rn.f32"),
    ),
    _edit("maximum and sum exchanged", CHUNK, DIFFER, ("{ %maximum, %sum }", "{ %sum, %maximum }")),
    # ---- mistakes, and what cannot be followed
    _edit("lengths no longer clamped", CHUNK, UNSURE, ("min.u32 %seq_len, %seq_len, 131072;", "")),
    _edit("chunks no longer clamped", REDUCE, UNSURE, ("min.u32 %chunks, %chunks, %max_chunks;", "")),
    _edit("an accumulator not set", REDUCE, UNSURE, ("mov.f32 %acc0_even, 0f00000000 /* 0 */;", "")),
    _edit("the next row's place", ROPE, UNSURE, ("mad.wide.u32 %offset, %row, 32, %wide_head;", "mad.wide.u32 %offset, %row, 33, %wide_head;")),
    _edit("a read-only load of what is written in place", ROPE, UNSURE, ("ld.global.v2.f32 { %even", "ld.global.nc.v2.f32 { %even")),
    _edit(
        "data decides the way", REDUCE, UNSURE,
        ("add.rn.f32 %sum, %sum, %nothing_bias;", "@!%nothing bra over;\nadd.rn.f32 %sum, %sum, %nothing_bias;\nover:"),
    ),
)  # fmt: skip
