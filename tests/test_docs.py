"""What docs/templates.md, docs/verify.md and docs/emulator.md show works as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.helpers.assembler import assemble
from tests.helpers.cli import assert_refused
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Write the kernel, its template and the script of docs/templates.md into a folder."""
    text = (ROOT / "docs" / "templates.md").read_text(encoding="utf-8")
    section = text[text.index("## A kernel of your own") :]
    kernel, script = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    [template] = re.findall(r"```jinja\n(.*?)```", section, re.DOTALL)
    (tmp_path / "templates").mkdir()
    (tmp_path / "scale.py").write_text(kernel)
    (tmp_path / "templates" / "scale.ptx.jinja").write_text(template)
    (tmp_path / "engine.py").write_text(script)
    (tmp_path / "kernels.toml").write_text('[[kernel]]\nname = "scale"\nwidth = [64, 128]\n')
    return tmp_path


def engine(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "engine.py", *arguments]
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)


def test_own_kernel_builds_and_assembles(project: Path) -> None:
    result = engine(project, "build")
    assert (result.returncode, result.stderr) == (0, "")
    assert engine(project, "build", "--check").returncode == 0
    assert "kernels: 2; files: 0 written" in engine(project, "build").stdout
    text = (project / "build" / "scale" / "scale.w64.ptx").read_text()
    assemble(text, "sm_75")
    assert engine(project, "render", "scale", "--set", "width=64").stdout == text
    assert "scale: double every element of each row" in engine(project, "list").stdout


def test_own_template_is_watched(project: Path) -> None:
    engine(project, "build")
    template = project / "templates" / "scale.ptx.jinja"
    template.write_text(template.read_text().replace("in place", "overwritten"))
    assert "kernels: 2; files: 3 written" in engine(project, "build").stdout


def test_own_macro_hides_a_built_in_one(project: Path) -> None:
    engine(project, "build")
    macros = project / "templates" / "macros"
    macros.mkdir()
    original = (ROOT / "templates" / "macros" / "address.jinja").read_text()
    (macros / "address.jinja").write_text(original.replace("ld.param.u64 ", "ld.param.b64 "))
    assert "files: 3 written" in engine(project, "build").stdout
    assert "ld.param.b64" in (project / "build" / "scale" / "scale.w64.ptx").read_text()


def test_own_kernel_is_verified(project: Path) -> None:
    text = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    [script] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (project / "engine.py").write_text(script)
    result = engine(project, "verify")
    assert (result.returncode, result.stderr) == (0, "")
    assert "2 variants, 2 cases: every result within its bound" in result.stdout
    template = project / "templates" / "scale.ptx.jinja"
    template.write_text(
        template.read_text().replace("%value, %value;\n    st", "%value, 0f40000000;\n    st")
    )
    result = engine(project, "verify", "--kernel", "scale.w64")
    assert (result.returncode, result.stderr) == (1, "")
    assert "doubled: x[" in result.stdout


@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ("rows=3)", "row=3)", ["scale.w128: case doubled: TypeError", "needs rows=", "engine.py"]),
        ('launch(kernel, "x"', 'launch(kernel, "y"', ["case doubled", "'y'"]),
        ("np.zeros(x.shape)", "np.zeros(5)", ["case doubled: ValueError"]),
        ("lambda kernel: Baked()", "lambda kernel: 1 // 0", ["what its text must hold: ZeroDivisionError"]),
    ],
)
def test_mistake_in_a_case_is_one_line(project: Path, before: str, after: str, parts: list[str]) -> None:
    text = (ROOT / "docs" / "verify.md").read_text(encoding="utf-8")
    [script] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert before in script
    (project / "engine.py").write_text(script.replace(before, after))
    result = engine(project, "verify", "--kernel", "scale.w128")
    assert_refused(result, *parts)


def test_emulator_example_prints_what_is_shown() -> None:
    text = (ROOT / "docs" / "emulator.md").read_text(encoding="utf-8")
    [(script, output)] = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", text, re.DOTALL)
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == output
