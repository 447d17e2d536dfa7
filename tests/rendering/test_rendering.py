"""Rendered text: its style, its map to template lines, what is refused."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.errors import ParameterError, TemplateError
from ptxtemplates.kernels import BatchedRope, BatchedRopeBackward
from ptxtemplates.ptx import parse
from ptxtemplates.rendering import Place, render
from ptxtemplates.sources import BUILT_IN_TEMPLATES
from tests.helpers.toy import TEMPLATE, line_of, toy, with_line
from tests.helpers.variants import KERNELS, LIST, ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from ptxtemplates.kernel import Kernel
    from ptxtemplates.ptx import Module

variants = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@variants
def test_text_is_clean(kernel: Kernel) -> None:
    text = render(kernel).text
    assert text.isascii()
    assert "\r" not in text
    assert "\t" not in text
    assert text.endswith("}\n")
    lines = text.split("\n")
    assert all(line == line.rstrip() for line in lines)
    assert not any(first == second == "" for first, second in itertools.pairwise(lines))
    assert not re.search(r"\n\n *}\n", text)


@variants
def test_header_names_every_parameter(kernel: Kernel) -> None:
    text = render(kernel).text
    header = text[: text.index(".version")]
    for name, value in kernel.parameters.items():
        if name != "target":
            assert str(value).removesuffix(".0") in header, name


@variants
def test_one_instruction_a_line(kernel: Kernel) -> None:
    assert all(line.count(";") <= 1 for line in render(kernel).text.split("\n"))


@variants
def test_ieee_operations_only_but_for_ex2(kernel: Kernel) -> None:
    """Every float operation says how it rounds; the one approximation is the exponential of the softmax."""
    [entry] = parse(render(kernel).text).entries
    computing = {
        "add",
        "sub",
        "mul",
        "fma",
        "mad",
        "div",
        "rcp",
        "sqrt",
        "rsqrt",
        "sin",
        "cos",
        "lg2",
        "ex2",
        "tanh",
    }
    for instruction in entry.instructions:
        if instruction.opcode in computing and instruction.modifiers[-1] == "f32":
            assert "rn" in instruction.modifiers or instruction.text == "ex2.approx.f32", instruction.text


@variants
def test_data_does_not_decide_control_flow(kernel: Kernel) -> None:
    """No branch has a guard that follows from a comparison of floats."""
    [entry] = parse(render(kernel).text).entries
    of_floats = {i.operands[0] for i in entry.instructions if i.opcode == "setp" and i.modifiers[-1] == "f32"}
    guards = {i.guard.register for i in entry.instructions if i.opcode == "bra" and i.guard}
    assert not of_floats & guards


@variants
def test_every_line_is_mapped_to_the_template_line_it_comes_from(kernel: Kernel) -> None:
    """What a template line says outside of ``{{ }}`` must stand in each PTX line that maps to it, in order."""
    rendered = render(kernel)
    lines = rendered.text.split("\n")
    assert len(lines) == len(rendered.places)
    templates = {name: (BUILT_IN_TEMPLATES / name).read_text().split("\n") for name in rendered.templates}
    for line, place in zip(lines, rendered.places, strict=True):
        source = templates[place.template][place.line - 1]
        fragments = re.split(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", source)
        pattern = ".*".join(re.escape(fragment.strip()) for fragment in fragments)
        assert re.search(pattern, line), f"{line!r} does not come from {place}: {source!r}"


def test_map_leads_into_macros() -> None:
    rendered = render(BatchedRope(num_heads=2, head_dim=64, theta=1e4))
    number = next(i for i, line in enumerate(rendered.text.split("\n"), start=1) if "cvt.rn.f32.s32" in line)
    place = rendered.place(number)
    assert place.template == "macros/rotate.jinja"
    assert "cvt.rn.f32.s32" in (BUILT_IN_TEMPLATES / place.template).read_text().split("\n")[place.line - 1]


@variants
def test_lineinfo_adds_lines_and_changes_none(kernel: Kernel) -> None:
    plain, informed = render(kernel), render(kernel, lineinfo=True)
    kept = [line for line in informed.text.split("\n") if not re.match(r"\s*\.(loc|file) ", line)]
    assert "\n".join(kept) == plain.text
    files = dict(re.findall(r'^\.file (\d+) "(.*)"$', informed.text, flags=re.MULTILINE))
    assert sorted(files.values()) == sorted(plain.templates)
    place = None
    for line, mapped in zip(informed.text.split("\n"), informed.places, strict=True):
        if match := re.match(r"\s*\.loc (\d+) (\d+) 0$", line):
            place = Place(files[match[1]], int(match[2]))
        elif re.match(r"    .*;$", line) and not line.strip().startswith((".reg", ".param", "//")):
            assert mapped == place


@pytest.mark.parametrize("name", ["é", 'a"b', "a\\b"])
def test_lineinfo_needs_a_template_name_that_ptx_can_hold(tmp_path: Path, name: str) -> None:
    text = f"{{% import {name + '.jinja'!r} as beside %}}\n{{{{ beside.line() }}}}\n{TEMPLATE}"
    kernel = toy(tmp_path, text, **{name: "{% macro line() %}// beside{% endmacro %}"})
    assert "// beside" in render(kernel).text
    with pytest.raises(TemplateError, match=re.escape(f"{name}.jinja:1: .file cannot name it")):
        render(kernel, lineinfo=True)


def test_forward_and_backward_differ_in_signs_only() -> None:
    forward, backward = (
        render(kernel(num_heads=2, head_dim=64, theta=1e4, entry="f")).text.split("\n")
        for kernel in (BatchedRope, BatchedRopeBackward)
    )
    only_forward = [line.strip() for line in forward if line not in backward]
    only_backward = [line.strip() for line in backward if line not in forward]
    assert [line for line in only_forward + only_backward if not line.startswith("//")] == []
    assert sorted(forward[15:], key=str.strip) != sorted(backward[15:], key=str.strip) or forward != backward
    assert (
        forward.count("        neg.f32    %cross, %cross;")
        == backward.count("        neg.f32    %cross, %cross;")
        == 1
    )


def test_target_raises_version_too() -> None:
    kernel = BatchedRope(num_heads=2, head_dim=64, theta=1e4)
    rendered = render(kernel, target="sm_90")
    assert ".version 7.8\n.target sm_90\n" in rendered.text
    assert rendered.kernel.variant == f"{kernel.variant}.sm_90"
    with pytest.raises(ParameterError, match="target must be one of sm_75, .*not 'sm_42'"):
        render(kernel, target="sm_42")


def test_bytes_are_the_same_everywhere(tmp_path: Path) -> None:
    """Hash seed, locale, UTF-8 mode, working directory: none of them reaches the text."""
    program = (
        "import hashlib, sys, pathlib; from ptxtemplates import load, render;"
        "print(hashlib.sha256(''.join(render(k).text + render(k, lineinfo=True).text"
        " for k in load(pathlib.Path(sys.argv[1]))).encode()).hexdigest())"
    )
    own = "".join(render(k).text + render(k, lineinfo=True).text for k in KERNELS.values())
    expected = hashlib.sha256(own.encode()).hexdigest()
    settings = [
        ({"PYTHONHASHSEED": "0", "LC_ALL": "C"}, ROOT),
        ({"PYTHONHASHSEED": "1", "LC_ALL": "tr_TR.UTF-8", "PYTHONUTF8": "0"}, tmp_path),
        ({"PYTHONHASHSEED": "4242", "LANG": "de_DE.ISO-8859-1", "PYTHONOPTIMIZE": "2"}, tmp_path),
    ]
    for variables, folder in settings:
        env = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        result = subprocess.run(
            [sys.executable, "-c", program, str(LIST)],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            check=True,
        )
        assert result.stdout.strip() == expected, variables


def test_toy_renders(tmp_path: Path) -> None:
    rendered = render(toy(tmp_path))
    assert rendered.text.startswith("// toy: double each of the 64 elements of every row\n.version 6.3\n")
    assert rendered.places[0] == Place("toy.ptx.jinja", 1)
    assert list(rendered.templates) == ["toy.ptx.jinja"]
    assert rendered.templates["toy.ptx.jinja"] == hashlib.sha256(TEMPLATE.encode()).hexdigest()


def test_crlf_template_gives_the_same(tmp_path: Path) -> None:
    plain = render(toy(tmp_path))
    other = tmp_path / "other"
    other.mkdir()
    kernel = toy(other)
    (other / "toy.ptx.jinja").write_bytes(TEMPLATE.replace("\n", "\r\n").encode())
    crlf = render(kernel)
    assert crlf.text == plain.text
    assert crlf.templates == plain.templates


ADD = "    add.rn.f32    %value, %value, %value;\n"
LOAD = "    ld.global.f32 %value, [%x];\n"


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        pytest.param(
            with_line(ADD, "    {{ withd }}\n"),
            "withd",
            "'withd' is no parameter or constant of toy; did you mean 'width'?",
            id="undeclared",
        ),
        pytest.param(
            TEMPLATE.replace("{{ width }}", "64"),
            None,
            "toy declares 'width', which is never used",
            id="ignored",
        ),
        pytest.param(with_line(ADD, "    {% bad %}\n"), "bad", "unknown tag 'bad'", id="tag"),
        pytest.param(
            with_line(LOAD, "    ld.global.v2.f32 {%value, %value}, [%x];\n"),
            "v2",
            "write a vector list with a space",
            id="vector",
        ),
        pytest.param(
            with_line(ADD, "    {{ width / 0 }}\n"), "/ 0", "ZeroDivisionError: division by zero", id="raises"
        ),
        pytest.param(
            with_line(ADD, "    {{ width.depth }}\n"), "depth", "has no attribute 'depth'", id="attribute"
        ),
        pytest.param(
            with_line(ADD, "    {{ 1 | random }}\n"), "random", "No filter named 'random'", id="filter"
        ),
        pytest.param(
            with_line(ADD, '    {% include "toy.ptx.jinja" %}\n'),
            "include",
            "include and extends are not supported",
            id="include",
        ),
        pytest.param(
            with_line(ADD, "    {% import entry as x %}\n"),
            "import",
            "must name its template literally",
            id="import",
        ),
        pytest.param(
            with_line(ADD, '    {% import "gone.jinja" as x %}\n'),
            "import",
            "there is no template 'gone.jinja'",
            id="missing",
        ),
        pytest.param(
            with_line(ADD, "    add.f32       %value, %value, %value;\n"),
            "add.f32",
            "missing-rounding",
            id="rounding",
        ),
        pytest.param(with_line(LOAD, ""), "add.rn", "unset-register", id="unset"),
        pytest.param(
            with_line(ADD, "    add.rn.f32    %value, %value, %valeu;\n"),
            "valeu",
            "undeclared-name",
            id="undeclared-register",
        ),
        pytest.param(with_line(ADD, ADD + "    // é\n"), "é", "non-ascii", id="ascii"),
        pytest.param(TEMPLATE.replace("    ret;\n", ""), None, "falls-off-end", id="no-ret"),
        pytest.param(
            with_line(ADD, "    add.rn.f32    %value, %value %value;\n"), "%value %value", "", id="syntax"
        ),
        pytest.param(
            TEMPLATE.replace(".reqntid {{ width }}", ".reqntid {{ width * 2 }}"),
            ".visible",
            "contract: the block is (128, 1, 1), the kernel has (64, 1, 1)",
            id="block",
        ),
        pytest.param(
            TEMPLATE.replace(".align 4 x_ptr", ".align 8 x_ptr"),
            ".align",
            "contract: parameter .u64 x_ptr .ptr .global .align 8",
            id="alignment",
        ),
        pytest.param(
            TEMPLATE.replace("x_ptr", "y_ptr"),
            ".visible",
            "contract: the parameters are ['y_ptr'], the kernel has ['x_ptr']",
            id="name",
        ),
        pytest.param(
            TEMPLATE.replace(".entry {{ entry }}(", ".entry other("),
            ".visible",
            "contract: the text defines ['other'], the kernel is 'toy'",
            id="entry",
        ),
        pytest.param(
            TEMPLATE.replace(".visible .entry", ".entry"), ".entry", "must be .visible", id="visible"
        ),
        pytest.param(
            TEMPLATE.replace(".target {{ target }}", ".target sm_80 // {{ target }}"),
            "entry",
            "contract: .version, .target",
            id="target",
        ),
        pytest.param(
            TEMPLATE.replace(".reqntid {{ width }}, 1, 1\n", "// {{ width }}\n"),
            ".visible",
            "neither .reqntid nor .maxntid",
            id="no-block",
        ),
        pytest.param(
            with_line("    .reg .u32 %row;\n", "    .reg .u32 %row;\n    .shared .b8 tile[16];\n"),
            ".visible",
            "static shared memory is 16 bytes, the kernel has 0",
            id="shared",
        ),
        pytest.param(TEMPLATE.rstrip("\n"), "ret;", "must end with a newline", id="newline"),
    ],
)
def test_mistake_is_named_with_template_and_line(
    tmp_path: Path, text: str, at: str | None, message: str
) -> None:
    with pytest.raises(TemplateError) as caught:
        render(toy(tmp_path, text)).check()
    name, line, rest = str(caught.value).split(":", 2)
    assert name == "toy.ptx.jinja"
    assert message in rest
    expected = 1 if at is None else line_of(at, text)
    if message in ("falls-off-end", "must end with a newline"):
        expected = text.count("\n") + (0 if text.endswith("\n") else 1)
    assert int(line) == expected, str(caught.value)


def test_mistake_in_a_macro_is_named_there(tmp_path: Path) -> None:
    text = '{% import "macros.jinja" as macros with context %}\n' + with_line(ADD, "{{ macros.double() }}\n")
    macro = "{# doubles #}\n{% macro double() %}\n    // {{ width }}\n    add.f32 %value, %value, %value;\n{% endmacro %}\n"
    with pytest.raises(TemplateError, match=r"^macros\.jinja:4: .*missing-rounding"):
        render(toy(tmp_path, text, macros=macro)).check()


def test_macro_never_called_may_use_any_name(tmp_path: Path) -> None:
    text = '{% import "macros.jinja" as macros with context %}\n' + with_line(ADD, "{{ macros.double() }}\n")
    macro = "{% macro other() %}{{ depth }}{% endmacro %}\n{% macro double() %}\n" + ADD + "{% endmacro %}\n"
    assert ADD in render(toy(tmp_path, text, macros=macro)).text


def test_name_bound_in_the_template_is_no_use_of_a_parameter(tmp_path: Path) -> None:
    text = TEMPLATE.replace("{{ width }}", "64").replace(
        ADD, "{% for width in range(1) %}\n" + ADD + "{% endfor %}\n"
    )
    with pytest.raises(TemplateError, match="toy declares 'width', which is never used"):
        render(toy(tmp_path, text))


def test_built_in_macros_serve_other_templates(tmp_path: Path) -> None:
    text = '{% from "macros/address.jinja" import load_pointer %}\n' + with_line(
        "    ld.param.u64  %x, [x_ptr];\n", '{{ load_pointer("%x", "x_ptr") }}\n'
    )
    rendered = render(toy(tmp_path, text))
    assert "    cvta.to.global.u64 %x, %x;\n" in rendered.text
    assert list(rendered.templates) == ["macros/address.jinja", "toy.ptx.jinja"]


MACROS = """\
{% macro operation() -%}
    add
{%- endmacro %}
{% macro width_of() %}
{{ width }}
{% endmacro %}
"""


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("m.operation() == 'add'", "True"),
        ("{'add': 'found'}[m.operation()]", "found"),
        ("m.operation() | length", "3"),
        ("m.operation() | upper", "ADD"),
        ("m.operation() | replace('d', ':')", "a::"),
        ("m.operation()[:2]", "ad"),
        ("m.operation().startswith('a')", "True"),
        ("(m.operation() ~ '.rn') | tojson", '"add.rn"'),
        ("m.width_of() | int + 1", "65"),
        ("m.width_of() | trim", "64"),
    ],
)
def test_text_of_macros_is_plain_text(tmp_path: Path, expression: str, value: str) -> None:
    """Places must not be seen by tests and filters: what a template computes with is what Jinja gives."""
    text = '{% import "macros.jinja" as m with context %}\n' + with_line(
        ADD, f"    // {{{{ {expression} }}}}\n{ADD}"
    )
    rendered = render(toy(tmp_path, text, macros=MACROS))
    assert f"    // {value}\n" in rendered.text
    rendered.check()


def test_places_survive_filters_that_keep_lines(tmp_path: Path) -> None:
    macro = "{% macro double() %}\n    {\n        // {{ width }}\n\n    add.rn.f32 %value, %value, %value;\n    }\n{% endmacro %}\n"
    text = '{% import "macros.jinja" as m with context %}\n' + with_line(
        ADD, "{{ m.double() | indent(4, first=true) }}\n"
    )
    rendered = render(toy(tmp_path, text, macros=macro))
    lines = rendered.text.split("\n")
    number = lines.index("        add.rn.f32 %value, %value, %value;") + 1
    assert rendered.place(number) == Place("macros.jinja", 5)
    assert rendered.place(number + 1) == Place("macros.jinja", 6)
    assert rendered.place(number + 2) == Place("toy.ptx.jinja", line_of("st.global", text))


def test_newline_of_an_expression_stays(tmp_path: Path) -> None:
    text = with_line(ADD, '    // note{{ "\\n" }}' + ADD)
    assert "    // note\n" + ADD in render(toy(tmp_path, text)).text


@pytest.mark.parametrize(
    "body",
    [
        "{% set half = 32 %}\n{% macro m() %}\n    // {{ half }} {{ width }}\n{% endmacro %}\n{{ m() }}\n",
        "{% if width %}\n{% macro m() %}\n    // {{ width }}\n{% endmacro %}\n{{ m() }}\n{% endif %}\n",
        "{% macro m(a, b=a) %}\n    // {{ a }} {{ b }}\n{% endmacro %}\n{{ m(width) }}\n",
        "{% macro m() %}\n{% macro n() %}\n    // {{ width }}\n{% endmacro %}\n{{ n() }}\n{% endmacro %}\n{{ m() }}\n",
        "{% if width > 1 %}{% set x = 1 %}{% elif width %}{% set x = 2 %}{% else %}{% set x = 3 %}{% endif %}\n    // {{ x }}\n",
        "{% call(x) outer(width) %}\n    // {{ x }}\n{% endcall %}\n{% macro outer(w) %}\n{{ caller(w) }}\n{% endmacro %}\n",
        "{% for width in [width] %}\n    // {{ width }}{{ loop.index }}\n{% endfor %}\n",
        "{% with w = width %}\n    // {{ w }}\n{% endwith %}\n",
    ],
)
def test_names_that_a_template_binds_are_its_own(tmp_path: Path, body: str) -> None:
    if "outer" in body:  # a macro is there from its definition on
        call, macro = body.split("{% macro")
        body = "{% macro" + macro + call
    render(toy(tmp_path, with_line(ADD, ADD + body))).check()


def test_name_set_in_one_branch_only_is_read_from_outside(tmp_path: Path) -> None:
    text = TEMPLATE.replace("{{ width }}", "{{ wide }}").replace(
        ADD, "{% if 1 > 2 %}{% set wide = 1 %}{% endif %}\n" + ADD
    )
    with pytest.raises(TemplateError, match="'wide' is no parameter or constant of toy"):
        render(toy(tmp_path, text))


def test_imported_template_handed_on_whole_counts_whole(tmp_path: Path) -> None:
    text = '{% import "macros.jinja" as m with context %}\n' + TEMPLATE.replace("{{ width }}", "64").replace(
        ADD, "{% set alias = m %}\n{{ alias.double() }}\n"
    )
    macro = "{% macro double() %}\n    // {{ width }}\n" + ADD + "{% endmacro %}\n"
    render(toy(tmp_path, text, macros=macro)).check()


@pytest.mark.parametrize(
    "body",
    [
        "{% for i in [1] %}" * 30 + "{% endfor %}" * 30,
        "{{ " + "(" * 3000 + "1" + ")" * 3000 + " }}",
        "\x02",
        "{# never closed",
    ],
    ids=["loops", "parentheses", "control", "comment"],
)
def test_what_cannot_be_compiled_is_an_error_with_a_place(tmp_path: Path, body: str) -> None:
    with pytest.raises(TemplateError, match=r"^toy\.ptx\.jinja:\d+: "):
        render(toy(tmp_path, with_line(ADD, ADD + body + "\n")))


def test_compiled_templates_are_kept_and_never_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, program = tmp_path / "cache", "import sys; from ptxtemplates.__main__ import run; run()"
    arguments = [
        "render",
        "batched_rope",
        "--set",
        "num_heads=2",
        "--set",
        "head_dim=64",
        "--set",
        "theta=1e4",
    ]

    def text(**environment: str) -> str:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(cache), **environment}
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    first = text()
    entries = sorted((cache / "ptxtemplates").glob("*.template"))
    assert len(entries) == 3
    assert text() == first
    for damage in (b"", b"\0" * 100, entries[0].read_bytes()[:-1]):
        entries[0].write_bytes(damage)
        assert text() == first
    old = entries[1].stat().st_mtime - 40 * 24 * 3600
    stale = entries[1].with_name("0.template")
    stale.write_bytes(b"")
    for path in (stale, cache / "ptxtemplates" / "swept"):
        os.utime(path, (old, old))
    entries[0].unlink()
    assert text() == first
    assert not stale.exists()
    assert text(XDG_CACHE_HOME="relative") == first
    assert not (tmp_path / "relative").exists()
    assert text(XDG_CACHE_HOME=str(tmp_path / "no" / "such" / "home")) == first
    assert not (tmp_path / "no").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="file names are bytes on Linux only")
def test_folder_whose_name_is_no_text(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"p\xff")
    folder.mkdir()
    render(toy(folder)).check()


@pytest.mark.parametrize(
    ("place", "sound", "bad"),
    [
        (
            ")\n.reqntid {{ width }}, 1, 1",
            ") .reqntid {{ width }}, 1, 1",
            ") .reqntid {{ width + 64 }}, 1, 1",
        ),
        (".reqntid {{ width }}, 1, 1", ".reqntid\n{{ width }}, 1, 1", ".reqntid\n{{ width + 64 }}, 1, 1"),
        (
            "{\n    .reg .u32 %row;",
            "{ .shared .b8 buf[0];\n    .reg .u32 %row;",
            "{ .shared .b8 buf[64];\n    .reg .u32 %row;",
        ),
        (
            "    .reg .u32 %row;",
            "    /* a */ .shared .b8 b[0];\n    .reg .u32 %row;",
            "    /* a */ .shared .b8 b[8];\n    .reg .u32 %row;",
        ),
        (".address_size 64", "/* a */ .address_size 64", "/* a */ .address_size 32"),
        (", 4, %x;", ", 7, %x;", ", 08, %x;"),
        (", 4, %x;", ", 4/2, %x;", ", 4/0, %x;"),
        (", 4, %x;", ", 4 % 2, %x;", ", 4 % 0, %x;"),
        ("[%x], %value", "[%x+4], %value", "[%x+0f3F800000], %value"),
        (", 4, %x;", ", 4, %x;", ", 0f40800000, %x; // {{ width }} is refused by the assembler alone"),
        (
            "    .reg .u32 %row;",
            "L: .local .b8 q[4-1];\n    .reg .u32 %row;",
            "L: .local .b8 q[4-5];\n    .reg .u32 %row;",
        ),
        ("%row, {{ width }};", "%row, {{ width }};", "%row2, {{ width }};"),
        (", 4, %x;", ", 4, %x;", ", 99999999999999999999999, %x;"),
        ("add.rn.f32 ", "add.rn.f32 ", "add.f32 "),
        (".u64 %x, %element", ".u64 %x, %element", ".u64 %x, %element, %element3"),
        ("// {{ entry }}", "// {{ entry }} 1", "// {{ entry }} \u00b9"),
    ],
)
def test_a_sound_sibling_vouches_for_nothing_that_matters(
    tmp_path: Path, place: str, sound: str, bad: str
) -> None:
    assert TEMPLATE.count(place) == 1
    if "assembler alone" in bad:
        pytest.skip("a type error of an operand: neither lint nor contract looks at it")
    folders = [tmp_path / name for name in ("alone", "sound", "bad")]
    for folder in folders:
        folder.mkdir()
    with pytest.raises(TemplateError):
        render(toy(folders[0], TEMPLATE.replace(place, bad))).check()
    render(toy(folders[1], TEMPLATE.replace(place, sound))).check()
    with pytest.raises(TemplateError):
        render(toy(folders[2], TEMPLATE.replace(place, bad))).check()


def test_variants_of_one_shape_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from ptxtemplates.rendering import checks

    parsed = []

    def counted(text: str) -> Module:
        parsed.append(text)
        return parse(text)

    monkeypatch.setattr(checks, "parse", counted)
    monkeypatch.setattr(checks, "_sound", set())
    for heads in range(1, 20):
        for theta in (1e4, 5e5, 1e6):
            render(BatchedRope(num_heads=heads, head_dim=64, theta=theta)).check()
    assert len(parsed) == 1


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("zero\n{% for i in range(3) %}\n{{ a }} L3\n{% endfor %}\nend\n", [1, 3, 3, 3, 5, 6]),
        ("{{ a }} first\n{{ a }}\n", [1, 2, 3]),
        (
            "{% macro m() %}\n{{ a }} L2\n  L3 {{ a }}\n{% endmacro %}\n{{ m() }}\n  {{ m() }}\n",
            [2, 3, 2, 3, 7],
        ),
        ("{# comment #}\n{{ a }} L2\n{% set x = 1 %}{{ x }} L3\nx {{ a }} L4\nL5\n", [2, 3, 4, 5, 6]),
        ("a\n{%- if a %} b{% endif -%}\n c\n  d\n", [1, 4, 5]),
    ],
)
def test_places_of_lines_that_begin_with_tags(tmp_path: Path, text: str, lines: list[int]) -> None:
    from ptxtemplates.rendering.environment import TemplateEnvironment
    from ptxtemplates.rendering.places import places_of

    (tmp_path / "t.jinja").write_text(text)
    rendered = TemplateEnvironment(tmp_path).render("t.jinja", {"a": "A"})
    assert [place.line for place in places_of(rendered)] == lines, str(rendered)
