"""Comparisons that reports are tested with, made of nothing but what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from collections.abc import Sequence

PLACE = ("scale.ptx.jinja", 7)
BLOCK = ContractChange("block", "(32, 1, 1)", "(64, 1, 1)", True, "a launch passes the block")
HIGHER = CostChange("registers", "sm_90", 18, 19)


def side(name: str, text: str = "") -> Side:
    return Side(name, text, None, None, f"{name}.ptx")


def hunk(
    old: Sequence[str] = (),
    new: Sequence[str] = (),
    *,
    times: int = 1,
    places: tuple[tuple[str, int], ...] = (PLACE,),
    around: str = "    // around",
) -> Hunk:
    first = 10
    return Hunk(
        tuple(enumerate(old, first)),
        tuple(enumerate(new, first)),
        ((first - 1, around),),
        ((first + len(new), around),),
        times,
        places,
    )


def changed(
    name: str,
    verdict: str = "same bits",
    hunks: Sequence[Hunk] = (),
    *,
    contract: tuple[ContractChange, ...] = (),
    moved: tuple[CostChange, ...] = (),
    kind: Any = "instructions",
    **meaning: Any,
) -> Change:
    text = TextChange(
        kind,
        tuple(hunks),
        sum(len(each.new_lines) * each.times for each in hunks),
        sum(len(each.old_lines) * each.times for each in hunks),
    )
    said = {"reason": "hashes are equal", "tried": ("one row: rows 1",), **meaning}
    return Change(
        name,
        "changed",
        side(name),
        side(name),
        text,
        contract,
        Cost(moved, 20, 24, ("sm_75: the assembler does not know it",)),
        Meaning(verdict, **said),
    )


def added(name: str) -> Change:
    return Change(name, "added", None, side(name))


def removed(name: str) -> Change:
    return Change(name, "removed", side(name), None)


def unchanged(name: str) -> Change:
    return Change(name, "unchanged", side(name), side(name))


def comparison(*changes: Change, failures: tuple[str, ...] = (), old: str = "main (1a2b3c4)") -> Comparison:
    return Comparison(old, "working tree", changes, ("sm_80", "sm_90"), failures)


def every_kind() -> Comparison:
    """Return one change of each outcome, in the order of names, which is not that of importance."""
    edit = hunk(["    mul.rn.f32 %y, %x, 2;"], ["    mul.f32 %y, %x, 2;"], times=4)
    example = Example("rows 1", 0, "y[0, 3]", "0.25", "-1.5")
    return comparison(
        changed("a.comments", "identical machine code", [hunk(["// a"], ["// b"])], kind="comments"),
        changed("b.same", "same bits", [edit], moved=(HIGHER,), largest_ulp=0),
        changed("c.rounding", "same over the reals", [edit], largest_ulp=2),
        changed("d.wrong", "results differ", [edit], contract=(BLOCK,), largest_ulp=9_000, example=example),
        changed("e.unknown", "cannot tell", [edit]),
        added("f.added"),
        removed("g.removed"),
        unchanged("h.unchanged"),
        failures=("d.wrong: results differ",),
    )


HOSTILE = (
    "```",
    "~~~~",
    "</details>",
    "</summary></details><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "@octocat and #123 and GH-7",
    "[a](https://example.com) ![b](https://example.com/c.png) www.example.com",
    "a|b|c",
    "\\|`|\\`",
    "`a``b```c",
    "\x1b[2J\x1b[1;31mred\x07\r",
    "\u202egnp.exe\u2066",
    "one\ntwo\n\n# three\n",
    "-->",
    "<!-- ptxtemplates-diff -->",
    "*bold* _it_ $x$ :tada: &lt; &#64;octocat",
    "  outer spaces  ",
    "-",
    "\udcff surrogate",
    "\t",
    "",
)
"""Texts that must be shown as they are, wherever they stand."""


def hostile(text: str) -> Comparison:
    """Return a comparison that has a text in every place that a kernel, a path or a title decides."""
    edit = hunk([text, f"{text} old"], [text * 2], around=text, places=((text, 1),))
    item = ContractChange(text, text, text, True, text)
    figure = CostChange(text, text, 1, 2)
    first = changed(
        text,
        "results differ",
        [edit, edit],
        contract=(item,),
        moved=(figure,),
        reason=text,
        tried=(text, text),
        example=Example(text, 0, text, text, text),
    )
    alike = changed(f"{text}2", "results differ", [edit, edit], contract=(item,), reason=text)
    cost = Cost((figure,), 1, 2, (text,))
    return comparison(
        first._replace(cost=cost),
        alike,
        added(text),
        removed(text),
        unchanged(text),
        failures=(text,),
        old=text,
    )
