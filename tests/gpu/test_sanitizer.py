"""compute-sanitizer, as far as a machine without a GPU can tell: found, run and read, with a script in its place."""

from __future__ import annotations

import subprocess
import sys
from math import prod
from typing import TYPE_CHECKING, Final

import pytest

from ptxtemplates.assembly import tools
from ptxtemplates.gpu.sanitizer import (
    ERROR_CODE,
    KILLED,
    TOOLS,
    Sanitized,
    command,
    find_sanitizer,
    run,
    summary_of,
)
from tests.gpu.everywhere import FREE, environment
from tests.gpu.sanitized import CASES, families, small_cases
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    sys.platform == "win32", reason="the script in its place is for a POSIX shell"
)

FAKE: Final = """\
#!/bin/sh
# takes options as compute-sanitizer does, writes them down, runs the program, and finds what it is told to
printf '%s\\n' "$@" > "{folder}/arguments"
while [ "${{1#--}}" != "$1" ]; do shift 2; done
echo "========= COMPUTE-SANITIZER"
"$@" || exit $?
{summary}
exit {code}
"""

CLEAN: Final = 'echo "========= ERROR SUMMARY: 0 errors"'
FOUND: Final = (
    'echo "========= Invalid __global__ read of size 4 bytes"; echo "========= ERROR SUMMARY: 1 error"'
)


def fake(folder: Path, summary: str = CLEAN, code: int = 0) -> Path:
    """Put a script in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "compute-sanitizer"
    script.write_text(FAKE.format(folder=folder, summary=summary, code=code))
    script.chmod(0o755)
    return script


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No toolkit, no package, and nothing on PATH but a shell's folder."""
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(tools, "_package_folders", list)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))


@pytest.mark.usefixtures("nowhere")
def test_where_it_is_looked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A toolkit that is named, then NVIDIA's package, then PATH."""
    assert find_sanitizer() is None
    assert find_sanitizer() is None, "and again"
    on_path = fake(tmp_path / "path")
    assert find_sanitizer() == on_path
    package = fake(tmp_path / "package" / "bin")
    monkeypatch.setattr(tools, "_package_folders", lambda: [str(package.parent)])
    assert find_sanitizer() == package
    for variable, folder in (("CUDA_PATH", "compute-sanitizer"), ("CUDA_HOME", "bin")):
        toolkit = fake(tmp_path / variable / folder)
        monkeypatch.setenv(variable, str(tmp_path / variable))
        assert find_sanitizer() == toolkit
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "has none"))
    assert find_sanitizer() == tmp_path / "CUDA_PATH" / "compute-sanitizer" / "compute-sanitizer"


@pytest.mark.parametrize(
    ("output", "findings"),
    [
        ("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", 0),
        ("========= ERROR SUMMARY: 1 error\n", 1),
        ("out\n========= ERROR SUMMARY: 12 errors\nmore\n", 12),
        ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)\n", 0),
        ("========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)\n", 1),
        ("========= Error: Target application terminated before first instrumented API call\n", None),
        ("it prints ERROR SUMMARY: 0 errors\n", None),
        ("", None),
    ],
)
def test_summaries(output: str, findings: int | None) -> None:
    assert summary_of(output) == findings


@pytest.mark.parametrize(
    ("code", "findings", "ok"),
    [
        (0, 0, True),
        (0, 1, False),
        (0, None, False),
        (1, 0, False),
        (ERROR_CODE, 2, False),
        (255, None, False),
    ],
)
def test_all_must_be_well(code: int, findings: int | None, ok: bool) -> None:
    """A tool that has not looked has found nothing, either."""
    assert Sanitized("memcheck", code, findings, "").ok is ok


@pytest.mark.parametrize("tool", TOOLS)
def test_a_program_runs_under_a_tool(tool: str, tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import os; print('in', os.getcwd())"]
    result = run(fake(tmp_path / "bin"), tool, program, timeout=60, folder=tmp_path)
    assert result.ok
    assert f"in {tmp_path}" in result.output
    arguments = (tmp_path / "bin" / "arguments").read_text().splitlines()
    assert arguments[:2] == ["--tool", tool]
    assert arguments[arguments.index("--error-exitcode") + 1] == str(ERROR_CODE)
    assert arguments[-len(program) :] == program
    assert ("--padding" in arguments) == (tool == "memcheck"), "an option of memcheck alone"


def test_what_is_found_is_shown(tmp_path: Path) -> None:
    result = run(fake(tmp_path, FOUND, ERROR_CODE), "memcheck", ["true"], timeout=60)
    assert (result.ok, result.code, result.findings) == (False, ERROR_CODE, 1)
    assert result.describe().splitlines() == [
        "memcheck: 1 findings, exit code 86",
        "========= COMPUTE-SANITIZER",
        "========= Invalid __global__ read of size 4 bytes",
        "========= ERROR SUMMARY: 1 error",
    ]


def test_a_program_that_fails(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "raise SystemExit('it has no GPU')"]
    result = run(fake(tmp_path), "synccheck", program, timeout=60)
    assert (result.ok, result.code, result.findings) == (False, 1, None)
    assert result.describe().startswith("synccheck: no summary, exit code 1\n")
    assert "it has no GPU" in result.describe()


def test_a_program_that_does_not_end(tmp_path: Path) -> None:
    """It is ended with the tool that runs it: until then it would hold what it writes to open."""
    result = run(fake(tmp_path), "racecheck", ["sh", "-c", "echo started; sleep 600"], timeout=1)
    assert (result.ok, result.code) == (False, KILLED)
    assert result.output.splitlines() == ["========= COMPUTE-SANITIZER", "started"]


def test_the_cases(tmp_path: Path) -> None:
    """What the GPU suite runs under each tool: every family, once, with nothing that hides a mistake."""
    variables = environment(tmp_path, **{FREE: str(1 << 28)})
    ended = subprocess.run(
        command(fake(tmp_path / "bin"), "initcheck", [sys.executable, "-m", "tests.gpu.sanitized"]),
        cwd=ROOT, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert summary_of(ended.stdout) == 0
    for name in families():
        told = [line for line in ended.stdout.splitlines() if line.startswith(f"{name}.")]
        assert 1 <= len(told) <= CASES


def test_every_family_has_small_cases() -> None:
    for name, kernel in families().items():
        chosen = list(small_cases(kernel))
        assert len(chosen) == CASES, name
        assert all(prod(launch.grid) for launch in chosen[0].launches), "it runs something"
