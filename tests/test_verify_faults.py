"""Faults in PTX that ``verify --ptx`` must report, each by the case that is made for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from click.testing import CliRunner

from ptxtemplates.cli import main
from ptxtemplates.config import load
from ptxtemplates.references import FAMILIES
from ptxtemplates.rendering import render
from tests.helpers.variants import ROOT
from tests.helpers.verifying import BACKWARD, CHUNK, LIST, REDUCE, ROPE, verify

if TYPE_CHECKING:
    from pathlib import Path

DATA: Final = ROOT / "tests" / "data"


class Fault(NamedTuple):
    """An edit of a rendered text, and what must be said of it: a case, and words of its line."""

    variant: str
    old: str
    new: str
    case: str
    words: str


def mask(register: str, offset: str, factor: str) -> tuple[str, str]:
    """Return a 64-bit multiply-add, and the same with an offset of 32 bits."""
    old = f"mad.lo.u64   {register}, {offset}, {factor}, {register};"
    new = (
        f"mul.lo.u64 {offset}, {offset}, {factor}; and.b64 {offset}, {offset}, 0xffffffff;"
        f" add.u64 {register}, {register}, {offset};"
    )
    return old, new


LONG: Final = "flash_decoding_chunk.d8.h5.c40.kv5.s130"
LONG_LIST: Final = """
[[kernel]]
name = "flash_decoding_chunk"
num_heads = 5
num_kv_heads = 5
head_dim = 8
chunk_size = 40
max_seq_len = 130
"""


def before(old: str, *instructions: str) -> tuple[str, str]:
    """Return an instruction, and the same behind others in a scope with registers of their own."""
    return old, f"{{ {REGISTERS} {' '.join(instructions)} }} {old}"


def behind(old: str, *instructions: str) -> tuple[str, str]:
    """Return an instruction, and the same before others."""
    return old, f"{old} {{ {REGISTERS} {' '.join(instructions)} }}"


def within(old: str, new: str, *instructions: str) -> tuple[str, str]:
    """Return an instruction, and others and a changed one in its place."""
    return old, f"{{ {REGISTERS} {' '.join(instructions)} {new} }}"


REGISTERS: Final = ".reg .u32 %u; .reg .f32 %f; .reg .pred %p, %r;"
LENGTH: Final = "mad.wide.u32       %array, %row, 4, %array;"
CUT: Final = "and.b32 %u, %row, 31;"
VALUE: Final = "@%filled fma.rn.f32 %acc0_even, %value0_even,"
LOAD: Final = "ld.global.v2.f32 { %even, %odd }, [%x];"


def finite(register: str) -> str:
    """Return instructions that take infinity for the largest number."""
    return f"setp.eq.f32 %p, {register}, 0f7F800000; @%p mov.f32 {register}, 0f7F7FFFFF;"


def no_nan(register: str) -> str:
    """Return instructions that take NaN for 0."""
    return f"setp.nan.f32 %p, {register}, {register}; @%p mov.f32 {register}, 0f00000000;"


def row_in_16_bits(register: str, size: str) -> tuple[str, str]:
    """Return the offset of a row's heads, and the same cut to 16 bits."""
    multiply = f"\n        mad.lo.u64   {register}, %offset, {size}, {register};"
    old = f"mad.wide.u32 %offset, %row, 6, %wide_head;{multiply}"
    new = f"and.b64 %offset, %offset, 0xffff;{multiply}"
    return old, f"mad.wide.u32 %offset, %row, 6, %wide_head; {new}"


FAULTS: Final = {
    "table-entry": Fault(ROPE, "0x28be60db9391054a", "0x28be60db9391054b", "constants", "turns[0] is"),
    "coefficient": Fault(ROPE, "0f42A32CCE", "0f42A34CCE", "cosine-and-sine", "must be"),
    "signed-position": Fault(
        ROPE, "cvt.u64.u32      %wide_position", "cvt.s64.s32      %wide_position", "cosine-and-sine", "must be"
    ),
    "quadrant": Fault(
        ROPE, "add.s32     %cosine_sign, %quadrant, 1", "add.s32     %cosine_sign, %quadrant, 0",
        "cosine-and-sine", "must be",
    ),
    "half-turn": Fault(
        ROPE,
        *before("add.s32        %quadrant, %turn, 536870912;", "setp.eq.b32 %p, %turn, 0x80000000;",
                "@%p mov.b32 %turn, 0;"),
        "eighths", "must be",
    ),
    "clamped": Fault(
        ROPE,
        *behind(LOAD, "abs.f32 %f, %even; setp.gt.f32 %p, %f, 0f477FE000;",
                "@%p copysign.f32 %even, %even, 0f477FE000;"),
        "magnitudes", "must be",
    ),
    "scaled": Fault(
        ROPE, *behind(LOAD, "mul.rn.f32 %even, %even, 0f5F800000; mul.rn.f32 %even, %even, 0f1F800000;"),
        "magnitudes", "inf, must be",
    ),
    "lost-infinity": Fault(ROPE, *behind(LOAD, finite("%even"), finite("%odd")), "special-values", "must be inf"),
    "direction": Fault(BACKWARD, "neg.f32    %cross, %cross;", "", "rotation", "must be"),
    "row-of-positions": Fault(ROPE, "mad.wide.u32       %array, %row, 4", "mad.wide.u32       %array, %head, 4",
                              "rotation", "must be"),
    "tail-guard": Fault(REDUCE, "%owns_tail, %lane, 4;", "%owns_tail, %lane, 5;", "every-head", "conflict"),
    "skipped-tail": Fault(REDUCE, "@%owns_tail st.global", "// st.global", "every-head", "is nan"),
    "no-clamp": Fault(REDUCE, "min.u32      %chunks, %chunks, %max_chunks;", "", "beyond-max-chunks", "must be"),
    "no-empty-row": Fault(REDUCE, "selp.u32     %chunks, 0, %chunks, %no_keys;", "", "empty-rows", "must be 0"),
    "base-two": Fault(
        REDUCE, "mul.rn.f32     %weight, %weight, 0f3FB8AA3B /* 1.442695 */;", "", "unequal-mass", "must be"
    ),
    "empty-threshold": Fault(
        REDUCE,
        "setp.eq.f32 %empty, %chunk_max, 0fFF800000", "setp.le.f32 %empty, %chunk_max, 0fF149F2CA",
        "far-maxima", "must be",
    ),
    "dropped-nan": Fault(
        REDUCE,
        "fma.rn.f32  %sum, %chunk_sum",
        "setp.num.f32 %empty, %weight, %weight; selp.f32 %weight, %weight, 0f00000000, %empty;"
        " fma.rn.f32  %sum, %chunk_sum",
        "spoilt-chunks", "must be nan",
    ),
    "lanes": Fault(REDUCE, "%other, %sum, 16,", "%other, %sum, 8,", "chunk-counts", "must be"),
    "chunk-count": Fault(REDUCE, "add.u32      %chunks, %chunks, 1;", "", "chunk-counts", "must be"),
    "128-chunks": Fault(
        REDUCE, *behind("min.u32      %chunks, %chunks, %max_chunks;", "min.u32 %chunks, %chunks, 128;"),
        "many-chunks", "must be",
    ),
    "8-bit-chunk": Fault(
        REDUCE, *behind("add.u32      %own_chunk, %tile, %lane;", "and.b32 %own_chunk, %own_chunk, 255;"),
        "many-chunks", "must be",
    ),
    "tiles-of-a-head": Fault(
        REDUCE,
        *behind("setp.gt.u32 %more_tiles, %left, 32;", "setp.ne.and.u32 %more_tiles, %head, 1, %more_tiles;"),
        "every-head", "must be",
    ),
    "length-of-another-row": Fault(
        REDUCE, *within(LENGTH, "mad.wide.u32 %array, %u, 4, %array;", CUT), "last-rows", "must be"
    ),
    "length-of-row-0": Fault(
        REDUCE,
        *within(LENGTH, "mad.wide.u32 %array, %u, 4, %array;", "setp.gt.u32 %p, %row, 40; selp.u32 %u, 0, %row, %p;"),
        "last-rows", "must be",
    ),
    "scaled-sum": Fault(
        REDUCE,
        *before("mul.rn.f32 %acc0_even, %acc0_even, %inverse;", "mul.rn.f32 %acc0_even, %acc0_even, 0f5F800000;",
                "mul.rn.f32 %acc0_even, %acc0_even, 0f1F800000;"),
        "magnitudes", "inf, must be",
    ),
    "clamped-value": Fault(
        REDUCE,
        *before(VALUE, "abs.f32 %f, %value0_even; setp.gt.f32 %p, %f, 0f7E000000;",
                "@%p mov.f32 %value0_even, 0f7E000000;"),
        "magnitudes", "must be",
    ),
    "lost-infinite-value": Fault(REDUCE, *before(VALUE, finite("%value0_even")), "spoilt-chunks", "must be inf"),
    "32-bit-partials": Fault(REDUCE, *mask("%partials", "%offset", "%head_bytes"), "last-rows", "unwritten memory"),
    "32-bit-output": Fault(CHUNK, *mask("%partial", "%offset", "%head_bytes"), "last-places", "must be"),
    "kv-head": Fault(CHUNK, "cvt.u64.u32  %kv_offset, %kv_head;", "cvt.u64.u32  %kv_offset, %head;",
                     "every-head", "out of bounds"),
    "last-key": Fault(CHUNK, "setp.le.u32  %exists1", "setp.lt.u32  %exists1", "lengths", "must be"),
    "no-room": Fault(CHUNK, "min.u32     %seq_len, %seq_len, 23;", "", "last-places", "out of bounds"),
    "scale": Fault(CHUNK, "mul.rn.f32   %score2, %score2,", "mul.rn.f32   %score2, %score1,", "attention", "must be"),
    "query-row": Fault(CHUNK, "mad.wide.u32 %offset, %row, 6, %wide_head;\n        mad.lo.u64   %query",
                       "mad.wide.u32 %offset, 0, 6, %wide_head;\n        mad.lo.u64   %query", "lengths", "must be"),
    "room-for-another-chunk": Fault(
        CHUNK, "min.u32     %seq_len, %seq_len, 23;", "min.u32     %seq_len, %seq_len, 28;", "last-places", "must be"
    ),
    "16-bit-first-key": Fault(
        CHUNK, *behind("mul.lo.u32  %first_key, %chunk, 5;", "and.b32 %first_key, %first_key, 65535;"),
        "chunk-numbers", "must be",
    ),
    "first-key-of-some": Fault(
        CHUNK,
        *behind("mul.lo.u32  %first_key, %chunk, 5;", "setp.gt.u32 %p, %chunk, 255; setp.lt.and.u32 %r, %chunk, 8000, %p;",
                "@%r mov.u32 %first_key, 0;"),
        "chunk-numbers", "must be",
    ),
    "keys-of-another-row": Fault(
        CHUNK,
        *within("mad.wide.u32       %keys, %row, 8, %keys;", "mad.wide.u32 %keys, %u, 8, %keys;", CUT),
        "last-rows", "must be",
    ),
    "keys-of-another-length": Fault(
        CHUNK, *within(LENGTH, "mad.wide.u32 %array, %u, 4, %array;", CUT), "last-rows", "must be"
    ),
    "16-bit-query": Fault(CHUNK, *row_in_16_bits("%query", "288"), "last-rows", "must be"),
    "16-bit-partial": Fault(CHUNK, *row_in_16_bits("%partial", "%head_bytes"), "last-rows", "must be"),
    "steps-of-a-head": Fault(
        LONG,
        *behind("setp.le.u32 %more_keys, %key, %last_key;", "sub.u32 %u, %key, %first_key;",
                "setp.ge.u32 %p, %u, 16; @%p setp.ne.and.u32 %more_keys, %head, 2, %more_keys;"),
        "every-head", "must be",
    ),
    "dropped-nan-value": Fault(
        CHUNK, *before("@%exists0 fma.rn.f32 %acc0_even, %v0_even,", no_nan("%v0_even")), "spoilt-keys", "must be nan"
    ),
    "dropped-nan-value-of-key-1": Fault(
        CHUNK, *before("@%exists1 fma.rn.f32 %acc0_odd, %v0_odd,", no_nan("%v0_odd")), "spoilt-keys", "must be nan"
    ),
    "dropped-nan-of-query": Fault(
        CHUNK, *behind("ld.global.nc.v2.f32 { %q0_even, %q0_odd }, [%query];", no_nan("%q0_even")),
        "spoilt-keys", "must be nan",
    ),
    "lost-infinite-value-of-key-1": Fault(
        CHUNK, *before("@%exists1 fma.rn.f32 %acc0_even, %v0_even,", finite("%v0_even")), "spoilt-keys", "must be inf"
    ),
    "lost-infinite-score": Fault(
        CHUNK, *before("mov.f32    %step_max, %score0;", finite("%score0")), "spoilt-keys", "must be nan"
    ),
    # an older engine's chunk kernel: the address of an empty chunk is computed only after the branch
    "wild-store": Fault(CHUNK, "    mad.wide.u32 %partial, %chunk, 296, %partial;\n", "", "lengths", "must be"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_fault(tmp_path: Path, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kernels.toml").write_text(LIST + LONG_LIST)
    [kernel] = [kernel for kernel in load(tmp_path / "kernels.toml") if kernel.variant == fault.variant]
    family = FAMILIES[type(kernel)]
    alone = {name: make for name, make in family.cases.items() if name == fault.case}
    monkeypatch.setitem(FAMILIES, type(kernel), family._replace(cases=alone or family.cases))
    text = render(kernel).text
    assert fault.old in text
    (tmp_path / "edited.ptx").write_text(text.replace(fault.old, fault.new))
    # in this process: starting one takes longer than most of these
    words = ["verify", "-c", "kernels.toml", "--kernel", fault.variant, "--ptx", "edited.ptx"]
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, words, standalone_mode=False, catch_exceptions=False)
    assert result.return_value == 1, result.output
    lines = result.output.splitlines()
    assert lines[0].split()[:2] == ["FAILED", fault.variant]
    named = [line for line in lines if line.startswith(f"    {fault.case}: ")]
    assert any(fault.words in line for line in named), result.output
    assert lines[-1] == "1 of 1 variant failed (emulator, exact accuracy, seed 0)"


OLDER: Final = """\
[[kernel]]
name = "batched_rope"
num_heads = 128
head_dim = 256
theta = 1e4

[[kernel]]
name = "flash_decoding_reduce"
num_heads = 3
head_dim = [128, 136]
chunk_size = 16
"""


def older(folder: Path, variant: str, text: Path) -> dict[str, list[str]]:
    """Verify an older engine's text; return what is said of each case."""
    (folder / "kernels.toml").write_text(OLDER)
    result = verify(folder, "--kernel", variant, "--ptx", text)
    assert (result.returncode, result.stderr) == (1, ""), result
    said: dict[str, list[str]] = {}
    for line in result.stdout.splitlines():
        if line.startswith("    "):
            case, _, what = line.strip().partition(": ")
            said.setdefault(case, []).append(what)
    return said


def test_older_rope(tmp_path: Path) -> None:
    """Angles in float32, approximate functions far beyond their range, and offsets that wrap at 4 GiB."""
    said = older(tmp_path, "batched_rope.h128.d256.theta10000", DATA / "older_rope.ptx")
    for case in ("cosine-and-sine", "rotation", "there-and-back"):
        assert any("must be" in line for line in said[case])
        assert any("outside the documented range" in line and "sin.approx" in line for line in said[case])
    wrapped = [line for line in said["last-rows"] if line.startswith("32-bit wrap")]
    assert len(wrapped) == 2
    assert "block (127, 32768, 0)" in wrapped[0]
    assert any(line.startswith("out[32768, 127, ") for line in said["last-rows"])
    assert "position-zero" not in said


def test_older_reduce(tmp_path: Path) -> None:
    """Every fault by the case that is made for it, and no other case."""
    said = older(tmp_path, "flash_decoding_reduce.d128.h3.c16", DATA / "older_reduce.ptx")
    assert any(line.startswith("output[0, ") and "is nan, must be 0" in line for line in said["empty-rows"])
    assert any(line.startswith("unset register") and "%at0" in line for line in said["empty-rows"])
    assert any("is nan, must be" in line for line in said["far-maxima"])
    assert any("must be" in line for line in said["beyond-max-chunks"])
    assert any("is nan, must be" in line for line in said["longest-lengths"])
    assert any("must be nan" in line for line in said["spoilt-chunks"])
    assert any(line.startswith("32-bit wrap") for line in said["last-rows"])
    assert set(said) == {
        "empty-rows", "no-chunks", "far-maxima", "beyond-max-chunks", "longest-lengths", "spoilt-chunks", "last-rows",
    }  # fmt: skip


def test_older_reduce_of_a_wide_head(tmp_path: Path) -> None:
    """Four elements a lane are 128: the upper part of a wider head is never written."""
    text = (DATA / "older_reduce.ptx").read_text()
    for old, new in ((" 128;", " 136;"), (" 130;", " 138;"), (" 384;", " 408;"), (" 128, ", " 136, ")):
        text = text.replace(old, new)
    (tmp_path / "wide.ptx").write_text(text)
    said = older(tmp_path, "flash_decoding_reduce.d136.h3.c16", tmp_path / "wide.ptx")
    [line] = said["every-head"]
    assert line.startswith("output[0, 0, 128] is nan, must be ")
    assert line.endswith("; 72 elements are wrong")  # eight of each of 9 rows and heads
