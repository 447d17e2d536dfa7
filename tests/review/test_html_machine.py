"""The machine instructions of a line, as a page carries them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.assembly.tools import find_tool
from ptxtemplates.errors import AssemblyError, MissingExtraError
from ptxtemplates.ptx.parser import parse
from ptxtemplates.rendering import render
from ptxtemplates.review.page import machine
from ptxtemplates.review.page.machine import TOOLS, MachineCode, machine_code_by_line, machine_codes
from tests.review.page_samples import KERNELS, ROPE, side

if TYPE_CHECKING:
    from pathlib import Path

TEXT = side(ROPE).text


def _missing() -> str:
    try:
        for tool in TOOLS:
            find_tool(tool)
    except MissingExtraError as error:
        return str(error)
    return ""


needs_tools = pytest.mark.skipif(bool(_missing()), reason=_missing() or "-")


def code_of(text: str, architecture: str = "sm_80") -> MachineCode:
    found = machine_code_by_line(text, architecture)
    assert not isinstance(found, str), found
    return found


@needs_tools
def test_instructions_stand_at_lines_of_instructions() -> None:
    code = code_of(TEXT)
    lines = TEXT.split("\n")
    stores = [line for line, text in enumerate(lines, 1) if text.strip().startswith("st.global.v2.f32")]
    assert [line for line in code.lines if "STG.E.64" in code.lines[line]] == stores
    instructions = {item.line for function in parse(TEXT).functions for item in function.instructions}
    assert {*code.lines} <= instructions
    assert [*code.lines] == sorted(code.lines)
    assert sum(" " in line for text in code.lines.values() for line in text.split("\n")) == code.total
    assert code.toolchain.startswith("ptxas ")


@needs_tools
def test_loc_lines_of_a_text_do_not_count() -> None:
    """A text with line info tells of its template: the page means lines of the text."""
    lined = render(KERNELS[ROPE], lineinfo=True).text
    lines = lined.split("\n")
    assert any(line.strip().startswith(".loc") for line in lines)
    code = code_of(lined)
    assert [lines[line - 1].strip().split()[0] for line in code.lines if "STG" in code.lines[line]] == [
        "st.global.v2.f32"
    ]


@needs_tools
@pytest.mark.parametrize(
    ("text", "architecture", "reason"),
    [
        ("no PTX", "sm_80", "line 1: "),
        (TEXT.replace("mul.rn.f32", "mul.f99", 1), "sm_80", ".f99"),
        (TEXT.replace(".target sm_75", ".target sm_90"), "sm_80", ".target sm_90 does not run on sm_80"),
        (TEXT, "sm_1", "there is no architecture 'sm_1'"),
    ],
)
def test_reasons(text: str, architecture: str, reason: str) -> None:
    found = machine_code_by_line(text, architecture)
    assert isinstance(found, str)
    assert reason in found
    assert "\n" not in found


@needs_tools
def test_in_order() -> None:
    first, second = machine_codes([TEXT, "no PTX"], "sm_80")
    assert isinstance(first, MachineCode)
    assert isinstance(second, str)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("/usr/local/bin/ptxas failed: it wrote nothing", "ptxas failed: it wrote nothing"),
        (r"C:\tools\ptxas.exe failed: no", "ptxas.exe failed: no"),
        ("cannot run /a/b/nvdisasm: denied", "cannot run nvdisasm: denied"),
    ],
)
def test_programs_go_by_their_names(monkeypatch: pytest.MonkeyPatch, message: str, said: str) -> None:
    def fail(name: str) -> Path:
        raise AssemblyError(message)

    monkeypatch.setattr(machine, "find_tool", fail)
    assert machine_code_by_line(TEXT, "sm_80") == said


def test_data_ends_no_element() -> None:
    code = MachineCode({3: "0000  A </script><!-- & >"}, 1, "ptxas 1")
    assert not set("<>&") & set(code.data())
    assert json.loads(code.data()) == {"3": "0000  A </script><!-- & >"}
