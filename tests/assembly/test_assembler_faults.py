"""Assemblers that misbehave: each is named with what it did, and nothing of it is kept."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.assembly import assemble, assembler
from ptxtemplates.assembly.tools import find_tool
from ptxtemplates.errors import AssemblyError, MissingExtraError
from ptxtemplates.kernels import BatchedRope
from ptxtemplates.rendering import render

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the assemblers here are shell scripts")

TEXT = render(BatchedRope(num_heads=1, head_dim=64, theta=1e4)).text
REAL = find_tool("ptxas")
OUT = 'while [ "$1" != -o ]; do shift; done\n'


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the place of a ptxas that is found instead of the real one, with a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tool = tmp_path / "ptxas"
    monkeypatch.setattr(assembler, "find_tool", lambda name: tool)
    return tool


def write(tool: Path, body: str) -> None:
    """Make a script that tells the real version, and otherwise does as `body` says."""
    tool.unlink(missing_ok=True)
    tool.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {REAL} --version\n{body}\n')
    tool.chmod(0o755)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("kill -SEGV $$", "failed: it was ended by signal SIGSEGV and said nothing"),
        ("exit 3", "failed: it ended with exit code 3 and said nothing"),
        ("echo no license >&2; exit 1", "failed: no license"),
        ("exit 0", "failed: it ended with exit code 0 and wrote nothing"),
        (f"{OUT}echo junk > $2", "this is no cubin"),
    ],
)
def test_what_it_did_is_said_and_not_kept(script: Path, body: str, message: str) -> None:
    write(script, body)
    with pytest.raises(AssemblyError, match=message):
        assemble(TEXT, "sm_90")
    write(script, f'exec {REAL} "$@"')
    assert assemble(TEXT, "sm_90").resources["batched_rope"].registers > 0


def test_one_that_says_nothing_of_resources(script: Path) -> None:
    write(script, f'exec {REAL} "$@" > /dev/null 2>&1')
    found = assemble(TEXT, "sm_90")
    with pytest.raises(AssemblyError, match=r"does not say what batched_rope needs on sm_90$"):
        found.resources_of("batched_rope")


def test_text_without_entries() -> None:
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .func f() { ret; }\n"
    assert assemble(text, "sm_80").resources == {}


def test_noise_with_a_nul_byte(script: Path) -> None:
    write(script, f"printf 'odd\\000 \\377 noise\\n' >&2; exec {REAL} \"$@\"")
    first = assemble(TEXT, "sm_90")
    assert assemble(TEXT, "sm_90") == first


def test_another_program_of_the_same_version_assembles_anew(script: Path) -> None:
    write(script, f'exec {REAL} -O0 "$@"')
    slow = assemble(TEXT, "sm_90").resources["batched_rope"].instructions
    write(script, f'exec {REAL} "$@"')
    assert assemble(TEXT, "sm_90").resources["batched_rope"].instructions < slow / 2


@pytest.mark.parametrize("content", [b"", b"\x7fELFnot really"])
def test_no_program(script: Path, content: bytes) -> None:
    script.write_bytes(content)
    script.chmod(0o755)
    with pytest.raises(AssemblyError, match=r"^cannot run .*ptxas: Exec format error$"):
        assemble(TEXT, "sm_90")


def test_a_file_that_may_not_be_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ptxas").touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "nvidia", None)
    with pytest.raises(MissingExtraError, match=r"ptxas is no program that may be run$"):
        find_tool("ptxas")


def test_target_after_a_brace_in_a_comment() -> None:
    with pytest.raises(AssemblyError, match=r"^\.target sm_75 does not run on sm_70$"):
        assemble("// {\n" + TEXT, "sm_70")


def test_renamed_architecture() -> None:
    with pytest.raises(AssemblyError, match="no architecture 'sm_101'; it is called sm_110 today"):
        assemble(TEXT, "sm_101")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_ending_the_build_ends_what_it_runs(script: Path, tmp_path: Path, number: signal.Signals) -> None:
    """A supervisor signals the process alone, not its group."""
    write(script, f"echo $$ >> {tmp_path}/started; exec sleep 600")
    (tmp_path / "temporary").mkdir()
    (tmp_path / "kernels.toml").write_text(
        '[[kernel]]\nname = "batched_rope"\nnum_heads = [1, 2, 3, 4]\nhead_dim = 64\ntheta = 1e4\n'
    )
    program = (
        "from pathlib import Path\nfrom ptxtemplates.assembly import assembler\n"
        f"assembler.find_tool = lambda name: Path({str(script)!r})\n"
        "from ptxtemplates.__main__ import run\nrun()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "build", "--arch", "sm_90"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        stderr=subprocess.PIPE,
        text=True,
    )
    started = tmp_path / "started"
    for _ in range(600):
        if started.exists() and started.read_text().endswith("\n"):
            break
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors.lstrip("\n")) == (
        2,
        "error: interrupted\n",
    )  # click ends the line of a ^C
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not (tmp_path / "build" / "manifest.json").exists()
    for each in started.read_text().split():
        assert (
            shutil.which("ps") is None
            or each
            not in subprocess.run(
                ["ps", "-eo", "pid"], capture_output=True, text=True, check=True
            ).stdout.split()
        )
