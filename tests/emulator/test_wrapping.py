"""32-bit arithmetic that ends in an address: reported where it wrapped, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from ptxtemplates.emulator import SparseArray
from tests.emulator.bodies import START, run

LOAD = "ld.global.u8 %c, [%e];\nret;"
BIG = SparseArray((1 << 36,), np.uint8)

WRAPS = {
    "mul.lo.u32": ("mul.lo.u32 %b, %n, 65536;\nmul.wide.u32 %e, %b, 4;\nadd.u64 %e, %x, %e;\n", 65536),
    "mul.lo.s32": ("mul.lo.s32 %b, %n, 32768;\nmul.wide.s32 %e, %b, 1;\nadd.s64 %e, %x, %e;\n", 65536),
    "mad.lo": ("mad.lo.u32 %b, %n, 65536, %t;\nmul.wide.u32 %e, %b, 4;\nadd.u64 %e, %x, %e;\n", 65536),
    "shl": ("shl.b32 %b, %n, 2;\ncvt.u64.u32 %e, %b;\nadd.u64 %e, %x, %e;\n", 1 << 30),
    "add": ("add.u32 %b, %n, %n;\ncvt.u64.u32 %e, %b;\nadd.u64 %e, %x, %e;\n", 1 << 31),
    "sub below zero": ("sub.u32 %b, %n, 1048577;\ncvt.u64.u32 %e, %b;\nadd.u64 %e, %x, %e;\n", 0),
    "cvt.u32.u64": ("cvt.u32.u64 %b, %x;\ncvt.u64.u32 %e, %b;\n", 0),
    "through mov, selp and add": (
        (
            "mul.lo.u32 %b, %n, 65536;\nmov.u32 %a, %b;\nsetp.eq.u32 %q, %n, %n;\nselp.b32 %a, %a, 0, %q;\n"
            "add.u32 %a, %a, 4;\n"
            "mad.wide.u32 %e, %a, 4, %x;\n"
        ),
        65536,
    ),
    "through a function": ("call (%b), f, (%n);\nmad.wide.u32 %e, %b, 4, %x;\n", 65536),
    "in some threads": ("mul.lo.u32 %b, %t, 268435456;\nmad.wide.u32 %e, %b, 4, %x;\n", 0),
}
MODULE_LINE = 4
FUNCTION = ".func (.reg .u32 %o) f(.reg .u32 %i) { mul.lo.u32 %o, %i, 65536; ret; }"


@pytest.mark.parametrize("name", WRAPS)
def test_wrap(name: str) -> None:
    body, n = WRAPS[name]
    outcome = run(body + LOAD, n=n, x=BIG, module=FUNCTION)
    assert set(outcome.kinds) in ({"32-bit wrap"}, {"32-bit wrap", "out of bounds"})
    [line] = [finding.line for finding in outcome.findings if finding.kind == "32-bit wrap"]
    assert line == (MODULE_LINE if name == "through a function" else START + 1)


FITS = {
    "products that fit": ("mul.lo.u32 %b, %n, 65535;\nmad.wide.u32 %e, %b, 4, %x;\n", 65537),
    "negative index": (
        "sub.u32 %b, %n, 1;\nmul.wide.s32 %e, %b, 4;\nadd.u64 %e, %x, %e;\nadd.u64 %e, %e, 4;\n",
        0,
    ),
    "negative number added": ("add.u32 %b, %n, -4;\nmad.wide.u32 %e, %b, 1, %x;\n", 9),
    "hash, masked": ("mul.lo.u32 %b, %t, 2654435761;\nand.b32 %b, %b, 31;\nmad.wide.u32 %e, %b, 4, %x;\n", 0),
    "hash, shifted": (
        "mul.lo.u32 %b, %t, 2654435761;\nshr.u32 %b, %b, 27;\nmad.wide.u32 %e, %b, 4, %x;\n",
        0,
    ),
    "remainder": ("mul.lo.u32 %b, %t, 2654435761;\nrem.u32 %b, %b, 31;\nmad.wide.u32 %e, %b, 4, %x;\n", 0),
    "wrapped, and not chosen": (
        (
            "mul.lo.u32 %b, %n, 65536;\nsetp.ne.u32 %q, %n, %n;\nselp.b32 %a, %b, 8, %q;\n"
            "mad.wide.u32 %e, %a, 4, %x;\n"
        ),
        65536,
    ),
    "wrapped, and overwritten": (
        "mul.lo.u32 %b, %n, 65536;\nmov.u32 %b, 3;\nmad.wide.u32 %e, %b, 4, %x;\n",
        65536,
    ),
    "wrapped, and no address": (
        "mul.lo.u32 %b, %n, 65536;\nst.global.u32 [%x], %b;\nmov.u64 %e, %x;\n",
        65536,
    ),
    "64 bits": ("mul.wide.u32 %e, %n, 65536;\nadd.u64 %e, %x, %e;\n", 65536),
}


@pytest.mark.parametrize("name", FITS)
def test_no_wrap(name: str) -> None:
    body, n = FITS[name]
    array = SparseArray((1 << 36,), np.uint8)
    assert run(body + LOAD, n=n, x=array).findings == ()


def test_only_the_threads_that_wrapped() -> None:
    """Thread 4 is the first whose product does not fit; with four threads there is none."""
    body = "mul.lo.u32 %b, %t, 1073741824;\nmad.wide.u32 %e, %b, 1, %x;\n" + LOAD
    finding = run(body, x=BIG).only("32-bit wrap", 1)
    assert finding.thread == (4, 0, 0)
    assert "ld.global.u8" in finding.message
    assert run(body, threads=4, x=BIG).findings == ()
