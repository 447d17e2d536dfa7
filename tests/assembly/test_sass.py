"""Machine code beside template lines; the assembler's complaints beside theirs."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.assembly import assemble
from ptxtemplates.assembly.faults import explain
from ptxtemplates.assembly.resources import count_instructions
from ptxtemplates.assembly.sass import (
    OWN,
    by_line,
    disassemble,
    listing,
    with_own_lines,
)
from ptxtemplates.assembly.tools import find_tool
from ptxtemplates.errors import AssemblyError, MissingExtraError
from ptxtemplates.rendering import render
from tests.helpers.toy import TEMPLATE, line_of, toy, with_line
from tests.helpers.variants import KERNELS, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from ptxtemplates.kernel import Kernel

ARCHITECTURES = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_120")
ROPE = "batched_rope.h32.d128.theta10000"
ONE_OF_EACH = list({kernel.name: kernel for kernel in KERNELS.values()}.values())


@pytest.fixture(autouse=True, scope="module")
def disassembler() -> None:
    """Skip where NVIDIA's disassembler cannot be had."""
    try:
        find_tool("nvdisasm")
    except MissingExtraError as error:
        pytest.skip(str(error))


def source_of(name: str) -> list[str] | None:
    path = ROOT / "templates" / name
    return path.read_text(encoding="utf-8").split("\n") if path.is_file() else None


@pytest.mark.parametrize("kernel", ONE_OF_EACH, ids=lambda kernel: kernel.variant)
def test_every_instruction_is_shown_once_with_its_line(kernel: Kernel) -> None:
    text = render(kernel, lineinfo=True).text
    plain = render(kernel).text
    for architecture in ARCHITECTURES:
        assembly = assemble(text, architecture, lineinfo=True)
        functions = disassemble(assembly.cubin)
        assert {name: len(each) for name, each in functions.items()} == count_instructions(assembly.cubin)
        code = functions[kernel.entry]
        assert len(code) == assembly.resources[kernel.entry].instructions
        # the lines change nothing: what is shown is the code of the text without them
        assert assembly.resources == assemble(plain, architecture).resources
        assert [item.address for item in code] == list(range(0, 16 * len(code), 16))
        groups = by_line(code)
        assert sorted(item.address for group in groups for item in group.instructions) == [
            item.address for item in code
        ]
        assert all(group.file is not None for group in groups)
        printed = [line for line in listing(code, source_of) if line.startswith("    ")]
        assert len(printed) == len(code)
        assert not printed[-1].endswith("NOP")


def test_template_line_of_a_load_has_the_load() -> None:
    rendered = render(KERNELS[ROPE], lineinfo=True)
    line = line_of("ld.global.v2.f32", (ROOT / "templates/batched_rope.ptx.jinja").read_text())
    for architecture in ARCHITECTURES:
        [code] = disassemble(assemble(rendered.text, architecture, lineinfo=True).cubin).values()
        group = next(
            each for each in by_line(code) if (each.file, each.line) == ("batched_rope.ptx.jinja", line)
        )
        assert any(item.text.startswith("LDG.E.64") for item in group.instructions), architecture
    shown = list(listing(code, source_of))
    heading = f"batched_rope.ptx.jinja:{line}: ld.global.v2.f32 {{ %even, %odd }}, [%x];"
    assert shown.count(heading) == 1


def test_branch_targets_are_labelled() -> None:
    kernel = next(kernel for kernel in ONE_OF_EACH if kernel.name == "flash_decoding_reduce")
    functions = disassemble(assemble(render(kernel, lineinfo=True).text, "sm_90", lineinfo=True).cubin)
    code = functions[kernel.entry]
    labels = {label for item in code for label in item.labels}
    targets = {item.text.split("`(")[1].removesuffix(")") for item in code if "BRA `" in item.text}
    assert labels >= targets
    assert len(targets) > 1
    # a label that nothing names is not shown
    assert all(any(label in item.text for item in code) for label in labels)
    for label in labels:
        assert list(listing(code, source_of)).count(f"  {label}:") == 1


def test_instructions_without_a_line_come_last() -> None:
    assembly = assemble(render(KERNELS[ROPE]).text, "sm_90")
    [code] = disassemble(assembly.cubin).values()
    assert len(code) == assembly.resources["batched_rope"].instructions
    shown = list(listing(code, source_of))
    assert shown[0] == "(no line)"
    mixed = (code[0], code[1]._replace(file="a", line=2), code[2]._replace(file="a", line=1))
    assert [(group.file, group.line) for group in by_line(mixed)] == [("a", 1), ("a", 2), (None, 0)]


HAND_WRITTEN = """\
.version 7.0
.target sm_80
.address_size 64
.visible .entry f(.param .u64 p)
{
    .reg .u64 %p; .reg .b32 %a, %b; .reg .pred %q;
    ld.param.u64 %p,
        [p]; ld.global.b32 %a, [%p];
    setp.ne.u32 %q, %a, 0;
    @%q bra DONE;
  AGAIN: // a comment
    { mul.lo.u32 %b, %a, %a; add.u32 %a, %b, 7; }
    /* one */ st.global.b32 [%p], %a;
DONE: st.global.b32 [%p+4], %a; ret;
}
"""


def test_text_without_lines_is_given_its_own() -> None:
    lined = with_own_lines(HAND_WRITTEN)
    added = [line for line in lined.split("\n") if line.startswith(".loc")]
    # line 8 begins within a statement and line 13 with a comment: they get none
    assert added == [f".loc 1 {number} 0" for number in (7, 9, 10, 12, 14)]
    assert [line for line in lined.split("\n") if not line.startswith((".loc", ".file"))][
        :-1
    ] == HAND_WRITTEN.split("\n")
    assembly = assemble(lined, "sm_80", lineinfo=True)
    assert assembly.resources == assemble(HAND_WRITTEN, "sm_80").resources
    code = disassemble(assembly.cubin, own="f.ptx")["f"]
    assert {item.file for item in code} == {"f.ptx"}
    assert disassemble(assembly.cubin)["f"][0].file == OWN
    stores = {item.line for item in code if "STG" in item.text}
    assert stores == {12, 14}


def test_lines_of_a_producer_are_kept(tmp_path: Path) -> None:
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("nvcc is not on PATH")
    source = (
        "__device__ __noinline__ float f(float a, int n) { while (n--) a = a * a + n; return a; }\n"
        "__global__ void k(float *x, int n) {\n"
        "    x[threadIdx.x] = f(x[0], n);\n"
        "}\n"
    )
    (tmp_path / "k.cu").write_text(source)
    command = [compiler, "-arch=sm_80", "-lineinfo", "-ptx", "k.cu", "-o", "k.ptx"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=120)
    text = (tmp_path / "k.ptx").read_text()
    assert with_own_lines(text) == text
    assembly = assemble(text, "sm_90", lineinfo=True)
    functions = disassemble(assembly.cubin)
    [(entry, resources)] = assembly.resources.items()
    assert len(functions[entry]) == resources.instructions
    lines = {item.line for item in functions[entry] if "STG" in item.text}
    assert lines == {3}
    assert {1, 3} <= {item.line for item in functions[entry]}  # with the function that it calls
    assert all(str(item.file).endswith("k.cu") for item in functions[entry] if item.file is not None)


def test_disassembler_refuses_what_is_no_cubin() -> None:
    with pytest.raises(AssemblyError, match="nvdisasm failed: "):
        disassemble(b"no cubin")


WRONG = with_line("add.rn.f32", "add.rn.f64").replace(
    "    add.rn.f64    %value, %value, %value;", "    add.rn.f64    %value, %value, %value; // wrong"
)


def refused(text: str) -> AssemblyError:
    with pytest.raises(AssemblyError) as caught:
        assemble(text, "sm_90")
    return caught.value


def test_excerpt_of_the_template(tmp_path: Path) -> None:
    kernel = toy(tmp_path, WRONG)
    rendered = render(kernel)
    rendered.check()  # the lint has nothing against it
    line = line_of("// wrong", WRONG)
    assert rendered.text.split("\n")[line - 1].endswith("// wrong")
    error = refused(rendered.text)
    lines = explain(
        error, rendered.text, rendered.places, lambda name: WRONG.split("\n"), name="toy.w64.ptx"
    ).split("\n")
    assert lines[0].startswith(f"toy.ptx.jinja:{line}: toy.w64.ptx:{line}: Arguments mismatch")
    assert lines[1] == "  toy.ptx.jinja"
    source = WRONG.split("\n")
    assert lines[2:] == [
        f"  {'>' if number == line else ' '} {number} | {source[number - 1]}"
        for number in range(line - 2, line + 3)
    ]


def test_excerpt_of_a_macro_and_of_a_text_alone(tmp_path: Path) -> None:
    macro = (
        "{% macro double(value) %}\n    add.rn.f64 {{ value }}, {{ value }}, {{ value }};\n{% endmacro %}\n"
    )
    template = '{% import "double.jinja" as double %}\n' + with_line(
        "    add.rn.f32    %value, %value, %value;", '{{ double.double("%value") }}'
    )
    rendered = render(toy(tmp_path, template, double=macro))
    error = refused(rendered.text)
    [(line, _)] = error.faults
    shown = explain(error, rendered.text, rendered.places, lambda name: macro.split("\n"), name="v.ptx")
    assert shown.startswith(f"double.jinja:2: v.ptx:{line}: ")
    assert "\n  > 2 |     add.rn.f64 {{ value }}" in shown
    alone = explain(error, rendered.text, None, lambda name: None, name="dir/f.ptx")
    assert alone.startswith(f"dir/f.ptx:{line}: Arguments mismatch")
    assert f"\n  > {line} |     add.rn.f64 %value, %value, %value;" in alone
    unread = explain(error, rendered.text, rendered.places, lambda name: None, name="v.ptx")
    assert "\n" not in unread


def test_many_faults_are_counted_and_one_place_is_shown_once(tmp_path: Path) -> None:
    loop = "{% for i in range(5) %}\n    add.rn.f64    %value, %value, %value;\n{% endfor %}"
    template = with_line("    add.rn.f32    %value, %value, %value;", loop)
    rendered = render(toy(tmp_path, template))
    error = refused(rendered.text)
    assert len(error.faults) == 5
    shown = explain(error, rendered.text, rendered.places, lambda name: template.split("\n"), name="v.ptx")
    assert shown.split("\n")[0].endswith("; and 2 more")
    assert shown.count("> ") == 1


def test_fault_without_a_line() -> None:
    error = refused(TEMPLATE.split("{{")[0])  # no PTX at all
    assert explain(AssemblyError("no"), "", None, lambda name: None, name="x.ptx") == "x.ptx: no"
    fault = AssemblyError("no", faults=((None, "cannot"), (9, "beyond the end")))
    assert explain(fault, "one line", None, lambda name: None, name="x.ptx") == (
        "x.ptx: cannot; x.ptx: beyond the end"
    )
    assert "x.ptx" in explain(error, "", None, lambda name: None, name="x.ptx")
