"""Order by importance, and which kernels are shown as one."""

from __future__ import annotations

import pytest

from ptxtemplates.review.groups import grouped
from ptxtemplates.review.importance import breaks, counts, ordered
from ptxtemplates.review.model import Change, ContractChange, CostChange
from tests.review.comparisons import BLOCK, HIGHER, added, changed, every_kind, hunk, removed, side, unchanged


def names(changes: list[Change]) -> str:
    return " ".join(change.name for change in changes)


def test_what_needs_a_reviewer_most_comes_first() -> None:
    found = ordered(every_kind().changes)
    assert names(found) == "d.wrong g.removed e.unknown c.rounding b.same a.comments f.added h.unchanged"


def test_among_equals_the_cost_decides() -> None:
    spills = CostChange("spill stores", "sm_90", 0, 8)
    fewer = CostChange("spill stores", "sm_90", 8, 0)
    unreadable = CostChange("spill loads", "sm_90", "unreadable", 8)
    found = ordered(
        [
            changed("a"),
            changed("b", moved=(HIGHER,)),
            changed("c", moved=(spills,)),
            changed("d", moved=(fewer,)),
            changed("e", moved=(unreadable,)),
        ]
    )
    assert names(found) == "c b d e a"


def test_breaking_callers_outranks_a_doubt() -> None:
    harmless = BLOCK._replace(breaking=False)
    found = ordered(
        [
            changed("a", "cannot tell"),
            changed("b", "same bits", contract=(harmless,)),
            changed("c", "same bits", contract=(harmless, BLOCK)),
        ]
    )
    assert names(found) == "c a b"
    assert [breaks(change) for change in found] == [True, False, False]
    assert breaks(removed("d"))


def test_a_kernel_that_nobody_looked_at_counts_as_cannot_tell() -> None:
    change = Change("a", "changed", side("a"), side("a"))
    assert counts([change])["cannot tell"] == 1
    assert [group.first for group in grouped([change])] == [change]


def test_counts_have_every_outcome_once() -> None:
    assert list(counts(every_kind().changes).values()) == [1] * 8
    assert sum(counts([]).values()) == 0


def mul(number: str) -> list[str]:
    return [f"    mul.wide.u32 %offset, %row, {number};"]


def test_variants_that_changed_alike_are_one_group() -> None:
    changes = [
        changed(f"v{size}", "same bits", [hunk(mul(str(size)), mul(str(size + 8)), times=size // 64)])
        for size in (64, 128, 256)
    ]
    [group] = grouped([added("x"), *changes, removed("y"), unchanged("z")])
    assert names([*group.changes]) == "v128 v256 v64"
    assert group.numbers == (
        {},
        {"128": "256", "136": "264", "x2": "x4"},
        {"128": "64", "136": "72", "x2": "x1"},
    )


@pytest.mark.parametrize(
    "other",
    [
        changed("b", "same over the reals", [hunk(mul("8"), mul("16"))]),
        changed("b", "same bits", [hunk(mul("8"), mul("16"))], kind="layout"),
        changed("b", "same bits", [hunk(mul("8"), ["    mul.wide.u32 %offset, %head, 16;"])]),
        changed("b", "same bits", [hunk(mul("8"), ["    mul.wide.u16 %offset, %row, 16;"])]),
        changed("b", "same bits", [hunk(mul("8"), mul("%r16"))]),
        changed("b", "same bits", [hunk(mul("8"), mul("16")), hunk(mul("8"), mul("16"))]),
        changed("b", "same bits", [hunk(mul("8"), mul("16"), places=(("other.jinja", 7),))]),
        changed("b", "same bits", [hunk(mul("8"), mul("16"))], contract=(BLOCK,)),
        changed("b", "same bits", [hunk([], mul("16"))]),
    ],
    ids=["verdict", "kind", "register", "type", "name", "hunks", "template", "contract", "gone"],
)
def test_anything_but_a_number_makes_two_groups(other: Change) -> None:
    assert len(grouped([changed("a", "same bits", [hunk(mul("8"), mul("16"))]), other])) == 2


def test_a_number_that_is_not_the_same_everywhere_makes_two_groups() -> None:
    """What one variant makes of 8 must be one number, or its lines do not follow from those shown."""
    first = changed("a", "same bits", [hunk(mul("8"), mul("16")), hunk(mul("8"), mul("16"))])
    other = changed("b", "same bits", [hunk(mul("4"), mul("16")), hunk(mul("2"), mul("16"))])
    assert len(grouped([first, other])) == 2


def test_many_numbers_make_two_groups() -> None:
    """A table of constants is not "the same but for some numbers"."""

    def table(start: int, size: int) -> Change:
        lines = [f"    .b32 0f{start + index:08X}" for index in range(size)]
        return changed(f"t{start}", "results differ", [hunk([], lines)])

    assert len(grouped([table(0x1000, 6), table(0x2000, 6)])) == 1
    assert len(grouped([table(0x1000, 7), table(0x2000, 7)])) == 2


def test_contract_changes_may_differ_in_numbers_alone() -> None:
    wider = ContractChange("block", "(128, 1, 1)", "(256, 1, 1)", True, "a launch passes the block")
    stepped = [changed("a", contract=(BLOCK,)), changed("b", contract=(wider,))]
    [group] = grouped(stepped)
    assert group.numbers[1] == {"32": "128", "64": "256"}
    assert len(grouped([*stepped, changed("c", contract=(wider._replace(what="grid"),))])) == 2
