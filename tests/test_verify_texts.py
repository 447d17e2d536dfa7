"""``verify --ptx`` and ``--kernel``: texts that cannot be run, and variants named more than once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.helpers.cli import assert_refused, ptxtemplates
from tests.helpers.variants import LIST, ROOT

if TYPE_CHECKING:
    from pathlib import Path

VARIANT = "batched_rope.h1.d256.theta10000"
TEXT = (ROOT / "snapshots" / f"{VARIANT}.ptx").read_text(encoding="utf-8")


def line_of(text: str, part: str) -> int:
    return text[: text.index(part)].count("\n") + 1


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        (
            "sub.s32        %rest, %turn, %rest;",
            "sub.s32 %rest, %turn, %nobody;",
            ["nothing declares %nobody"],
        ),
        (
            "sub.s32        %rest, %turn, %rest;",
            "sub.s32 %rest, %turn, %fraction;",
            ["%fraction is a u64, and it takes 32 bits there"],
        ),
        ("mov.f32    %even, %new_even;", "mbarrier.inval.b64 [%x];", ["mbarrier", "is not emulated"]),
    ],
)
def test_text_that_cannot_be_run_is_told_by_file_and_line(
    tmp_path: Path, before: str, after: str, parts: list[str]
) -> None:
    assert TEXT.count(before) == 1
    file = tmp_path / "tuned.ptx"
    file.write_text(TEXT.replace(before, after), encoding="utf-8")
    result = ptxtemplates("verify", "-c", LIST, "--kernel", VARIANT, "--ptx", file)
    assert_refused(result, f"{file}:{line_of(TEXT, before)}: ", *parts)


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\xff\xfe"])
def test_byte_order_mark_is_named(tmp_path: Path, mark: bytes) -> None:
    file = tmp_path / "tuned.ptx"
    file.write_bytes(mark + TEXT.encode())
    result = ptxtemplates("verify", "-c", LIST, "--kernel", VARIANT, "--ptx", file)
    assert_refused(result, f"{file}:1: begins with a byte order mark")


def test_kernels_named_one_by_one() -> None:
    words = [word for name in (VARIANT, "batched_rope_backward.h1.*") for word in ("--kernel", name)]
    result = ptxtemplates("verify", "-c", LIST, *words)
    assert (result.returncode, result.stderr) == (0, "")
    assert [line.split()[1] for line in result.stdout.splitlines()[:-1]] == [
        VARIANT,
        VARIANT.replace("rope", "rope_backward"),
    ]
