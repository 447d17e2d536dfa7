"""Comparisons that the page is tried with: one such as people see, one as somebody with bad intentions makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ptxtemplates.config import load
from ptxtemplates.manifest import description_of
from ptxtemplates.rendering import render
from ptxtemplates.review.model import (
    Change,
    Comparison,
    ContractChange,
    Cost,
    CostChange,
    Example,
    Hunk,
    Meaning,
    Side,
    TextChange,
)
from ptxtemplates.review.text import text_change
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

ROPE = "batched_rope.h32.d128.theta10000"
REDUCE = "flash_decoding_reduce.d128.h32.c16"
CHUNK = "flash_decoding_chunk.d128.h32.c16.kv8.s131072"
SAME = "batched_rope.h1.d256.theta10000"

KERNELS = {kernel.variant: kernel for kernel in load(ROOT / "kernels.toml")}

EVIL = "<script>document.title='run'</script>\"'><img src=x onerror=\"document.title='run'\"> ]]> </script> </style> {{ 7*7 }} \u202e\u2066\x1b\x00\u2028 é"
"""Markup, ends of elements, template syntax, and characters that hide or turn round what stands beside them."""
SHOWN = EVIL.replace("\u202e\u2066\x1b\x00\u2028", r"\u202e\u2066\x1b\x00\u2028")


def side(name: str, edit: Callable[[str], str] = lambda text: text) -> Side:
    """Render a variant of the list, and change its text."""
    kernel = KERNELS[name]
    rendered = render(kernel)
    text = edit(rendered.text)
    places = rendered.places if text.count("\n") == rendered.text.count("\n") else None
    return Side(name, text, description_of(kernel), places, f"snapshots/{name}.ptx")


def changed(name: str, edit: Callable[[str], str], **more: Any) -> Change:
    """Return a changed kernel with its true text change, and all else as it is given."""
    old, new = side(name), side(name, edit)
    assert old.text != new.text
    return Change(name, "changed", old, new, text_change(old, new))._replace(**more)


def loosened(text: str) -> str:
    """Let the assembler contract a product."""
    return text.replace("mul.rn.f32     %square, %r, %r;", "mul.f32        %square, %r, %r;")


COST = Cost(
    (
        CostChange("registers", "sm_80", 18, "unreadable"),
        CostChange("registers", "sm_90", 18, 19),
        CostChange("machine instructions", "sm_90", 96, 95),
        CostChange("occupancy", "sm_90", 0.75, 0.5),
        CostChange("spill stores", "sm_90", 0, 16),
        CostChange("sectors", "emulator", "n/a", 12),
    ),
    17,
    20,
    ("sm_75: the assembler does not know it",),
)


def usual() -> Comparison:
    """Return a comparison with a kernel of each kind."""
    gone = side(REDUCE)._replace(name="gone.kernel", file="snapshots/gone.kernel.ptx")
    changes = [
        Change("new.kernel", "added", None, side(ROPE)._replace(name="new.kernel")),
        Change("gone.kernel", "removed", gone, None),
        changed(
            ROPE,
            loosened,
            cost=COST,
            meaning=Meaning(
                "same over the reals",
                "the product may be contracted",
                ("one row", "three rows"),
                largest_ulp=2,
            ),
        ),
        changed(
            CHUNK,
            lambda text: text.replace("// ", "//  ", 3),
            cost=Cost((), 20, 20, ()),
            meaning=Meaning("identical machine code", "for sm_80, sm_90"),
        ),
        changed(
            REDUCE,
            lambda text: text.replace(
                "add.rn.f32         %sum, %sum, %other;", "sub.rn.f32         %sum, %sum, %other;"
            ),
            cost=COST,
            contract=(
                ContractChange("block", "(32, 1, 1)", "(64, 1, 1)", True, "callers pass the block"),
                ContractChange(".target", "sm_80", "sm_75", False, "older GPUs can load it too"),
            ),
            meaning=Meaning(
                "results differ",
                "not the same operations",
                ("one key",),
                99,
                Example("one key: max_chunks 1", 7, "output_ptr[0, 3, 17]", "0.25", "-1.5"),
            ),
        ),
        Change(SAME, "unchanged", side(SAME), side(SAME)),
    ]
    failures = (f"{REDUCE}: breaks callers: block, from (32, 1, 1) to (64, 1, 1)",)
    return Comparison("main (1a2b3c4d)", "working tree", tuple(sorted(changes)), ("sm_80", "sm_90"), failures)


def hostile() -> Comparison:
    """Return a comparison that has `EVIL` wherever text can be."""
    text = side(ROPE).text
    new = f"// {EVIL}\r\n" + loosened(text).replace("entry", f"entry /* {EVIL} */", 1) + f"// {'x' * 3000}"
    old_side = Side(EVIL, text, None, None, EVIL)
    new_side = Side(EVIL, new, None, [(EVIL, index) for index in range(new.count("\n") + 1)], EVIL)
    evil_line = ((1, EVIL),)
    change = Change(
        EVIL,
        "changed",
        old_side,
        new_side,
        TextChange(
            "instructions",
            (Hunk(evil_line, ((1, f"x {EVIL}"),), evil_line, evil_line, 4, ((EVIL, 3),)),),
            1,
            1,
        ),
        (ContractChange(EVIL, EVIL, EVIL, True, EVIL),),
        Cost((CostChange("registers", EVIL, 1, 2), CostChange(EVIL, "sm_90", 1, "n/a")), 1, 2, (EVIL,)),
        Meaning("results differ", EVIL, (EVIL, EVIL), 5, Example(EVIL, 1, EVIL, EVIL, EVIL)),
    )
    others = (
        Change(f"a {EVIL}", "added", None, new_side),
        Change(f"r {EVIL}", "removed", old_side, None),
        Change(f"u {EVIL}", "unchanged", old_side, old_side),
    )
    return Comparison(EVIL, EVIL, (change, *others), ("sm_90", EVIL), (f"{EVIL}: {EVIL}", EVIL))
