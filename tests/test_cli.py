"""The command line, as a user runs it: output, files, exit codes."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ptxtemplates.kernels import BatchedRope
from ptxtemplates.registry import registered
from ptxtemplates.rendering import render
from tests.helpers.cli import assert_refused, ptxtemplates
from tests.helpers.variants import KERNELS, LIST, ROOT

ROPE = ("render", "batched_rope", "--set", "num_heads=32", "--set", "head_dim=128")
TEXT = render(BatchedRope(num_heads=32, head_dim=128, theta=1e4)).text
TABLE = '[[kernel]]\nname = "batched_rope"\nnum_heads = [8, 32]\nhead_dim = 128\ntheta = 1e4\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "kernels.toml").write_text(TABLE)
    return tmp_path


def test_list_shows_every_kernel_and_parameter() -> None:
    result = ptxtemplates("list")
    assert (result.returncode, result.stderr) == (0, "")
    for name, kernel in registered().items():
        assert f"{name}: {kernel.summary}\n" in result.stdout
    assert "an even integer from 2 to 512; required" in result.stdout
    assert "default head_dim ** -0.5" in result.stdout
    assert "default the kernel's name" in result.stdout
    assert "default sm_75" in result.stdout


@pytest.mark.parametrize("theta", ["10000", "1e4", "10000.0"])
def test_render_to_stdout(theta: str) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "ptxtemplates", *ROPE, "--set", f"theta={theta}"],
        capture_output=True,
        check=True,
        cwd=ROOT,
    )
    assert result.stdout == TEXT.encode()
    assert result.stderr == b""


def test_render_to_file(tmp_path: Path) -> None:
    output = tmp_path / "rope.ptx"
    output.write_text("old")
    result = ptxtemplates(*ROPE, "--set", "theta=1e4", "-o", output)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert output.read_bytes() == TEXT.encode()
    assert list(tmp_path.iterdir()) == [output]


def test_render_target_and_lines() -> None:
    result = ptxtemplates(*ROPE, "--set", "theta=1e4", "--target", "sm_90", "--lineinfo")
    assert result.returncode == 0
    assert ".version 7.8\n.target sm_90\n" in result.stdout
    assert '.file 1 "batched_rope.ptx.jinja"\n' in result.stdout
    assert (
        ptxtemplates(*ROPE, "--set", "theta=1e4", "--set", "target=sm_90", "--lineinfo").stdout
        == result.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("render", "batched_rop"), ["no kernel is named 'batched_rop'; did you mean 'batched_rope'?"]),
        (ROPE, ["batched_rope: theta is missing and has no default"]),
        ((*ROPE, "--set", "theta"), ["--set takes name=value, not 'theta'"]),
        ((*ROPE, "--set", "tetha=1"), ["there is no parameter 'tetha'; did you mean 'theta'?"]),
        ((*ROPE, "--set", "theta=1", "--set", "theta=2"), ["theta is set twice"]),
        *(
            ((*ROPE, "--set", f"theta={theta}"), ["batched_rope: theta must be a finite number above 0"])
            for theta in ("0", "-1", "nan", "inf", "many", "", "1e999")
        ),
        *(
            (
                (
                    "render",
                    "batched_rope",
                    "--set",
                    f"head_dim={value}",
                    "--set",
                    "num_heads=1",
                    "--set",
                    "theta=1",
                ),
                ["head_dim must be an even integer from 2 to 512, not"],
            )
            for value in ("0", "-2", "127", "1024", "64.0", "x", "", "0x40")
        ),
        ((*ROPE, "--set", "theta=1", "--set", "entry=a b"), ["entry must be an identifier"]),
        ((*ROPE, "--set", "theta=1", "--target", "sm_60"), ["target must be one of sm_75,"]),
        ((*ROPE, "--set", "theta=1", "-o", "/"), ["cannot write /"]),
        (
            (*ROPE, "--set", "theta=1", "-o", "/no/such/folder/x.ptx"),
            ["cannot write /no/such/folder/x.ptx: No such file"],
        ),
        (("render",), ["Missing argument 'KERNEL'"]),
        (("render", "batched_rope", "--frobnicate"), ["No such option"]),
        (("bild",), ["No such command 'bild'"]),
        (("build", "-c", "gone.toml"), ["cannot read gone.toml: No such file"]),
        (("lint",), ["Missing argument 'FILE...'"]),
        (("lint", "gone.ptx"), ["cannot read gone.ptx: No such file"]),
    ],
)
def test_refused_in_one_line(arguments: tuple[str, ...], parts: list[str]) -> None:
    assert_refused(ptxtemplates(*arguments), *parts)


def test_full_device_leaves_nothing(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    assert_refused(
        ptxtemplates(*ROPE, "--set", "theta=1e4", "-o", "/dev/full"), "cannot write /dev/full: No space left"
    )
    result = subprocess.run(
        [sys.executable, "-m", "ptxtemplates", *ROPE, "--set", "theta=1e4"],
        stdout=os.open("/dev/full", os.O_WRONLY),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert result.returncode == 2
    assert result.stderr == "error: cannot write the output: No space left on device\n"


def test_build_then_nothing_then_check(project: Path) -> None:
    first = ptxtemplates("build", cwd=project)
    assert (first.returncode, first.stderr) == (0, "")
    files = [
        "build/batched_rope/batched_rope.h32.d128.theta10000.ptx",
        "build/batched_rope/batched_rope.h8.d128.theta10000.ptx",
        "build/manifest.json",
    ]
    assert first.stdout.splitlines() == [
        *(f"wrote {file}" for file in files),
        "kernels: 2; files: 3 written, 0 unchanged, 0 removed",
    ]
    assert (project / files[0]).read_bytes() == TEXT.encode()
    assert (
        ptxtemplates("build", cwd=project).stdout == "kernels: 2; files: 0 written, 3 unchanged, 0 removed\n"
    )
    result = ptxtemplates("build", "--check", cwd=project)
    assert (result.returncode, result.stdout, result.stderr) == (0, "build is current: 3 files\n", "")


def test_check_names_what_is_stale_and_the_cure(project: Path) -> None:
    ptxtemplates("build", cwd=project)
    (project / "build/batched_rope/batched_rope.h32.d128.theta10000.ptx").write_text("")
    (project / "kernels.toml").write_text(TABLE.replace("[8, 32]", "[1, 32]"))
    result = ptxtemplates("build", "--check", "--out", "build", cwd=project)
    assert (result.returncode, result.stderr) == (1, "")
    assert result.stdout.splitlines() == [
        "build/batched_rope/batched_rope.h1.d128.theta10000.ptx: missing",
        "build/batched_rope/batched_rope.h32.d128.theta10000.ptx: differs from what would be built",
        "build/batched_rope/batched_rope.h8.d128.theta10000.ptx: no longer listed",
        "build/manifest.json: differs from what would be built",
        "to mend it: ptxtemplates build --out build",
    ]
    command = shlex.split(result.stdout.splitlines()[-1].removeprefix("to mend it: ptxtemplates "))
    assert ptxtemplates(*command, cwd=project).returncode == 0
    assert ptxtemplates("build", "--check", cwd=project).returncode == 0


def test_check_tells_line_ends_from_text(project: Path) -> None:
    ptxtemplates("build", cwd=project)
    file = project / "build/batched_rope/batched_rope.h32.d128.theta10000.ptx"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    result = ptxtemplates("build", "--check", cwd=project)
    assert result.returncode == 1
    assert "h32.d128.theta10000.ptx: differs in line ends only (with Git: '* text eol=lf'" in result.stdout


def test_reports_as_json(project: Path) -> None:
    stale = ptxtemplates("build", "--check", "--json", cwd=project)
    assert stale.returncode == 1
    assert set(json.loads(stale.stdout)["stale"].values()) == {"missing"}
    assert not (project / "build").exists()
    built = json.loads(ptxtemplates("build", "--json", cwd=project).stdout)
    assert built["out"] == "build"
    assert (len(built["written"]), built["unchanged"], built["removed"]) == (3, [], [])
    current = ptxtemplates("build", "--check", "--json", cwd=project)
    assert current.returncode == 0
    assert json.loads(current.stdout)["stale"] == {}
    assert len(json.loads(current.stdout)["unchanged"]) == 3


def test_build_one_kernel(project: Path) -> None:
    ptxtemplates("build", cwd=project)
    result = ptxtemplates("build", "--kernel", "*.h8.*", cwd=project)
    assert result.stdout == "kernels: 1; files: 0 written, 2 unchanged, 0 removed\n"
    assert ptxtemplates("build", "--check", cwd=project).returncode == 0
    assert_refused(
        ptxtemplates("build", "--kernel", "*.h9.*", cwd=project), "no listed kernel matches '*.h9.*'"
    )


def test_build_stamp_notices_what_changed(project: Path) -> None:
    """A build with nothing to do renders nothing, and is not fooled by a build of a part in between."""
    ptxtemplates("build", cwd=project)
    (project / "kernels.toml").write_text(TABLE.replace("1e4", "5e5"))
    ptxtemplates("build", "--kernel", "*.h8.*", cwd=project)
    (project / "kernels.toml").write_text(TABLE)
    assert ptxtemplates("build", "--check", cwd=project).returncode == 1
    ptxtemplates("build", cwd=project)
    assert ptxtemplates("build", "--check", cwd=project).returncode == 0


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("", ["kernels.toml:1: lists no kernels"]),
        (
            "[[kernel]]\nname = 'batched_rope'\nhead_dim = 3\nnum_heads = 1\ntheta = 1\n",
            ["kernels.toml:3: batched_rope: head_dim must be"],
        ),
        ("[[kernel]\n", ["kernels.toml:1: is not TOML"]),
    ],
)
def test_bad_list_is_refused_and_nothing_is_written(tmp_path: Path, content: str, parts: list[str]) -> None:
    (tmp_path / "kernels.toml").write_text(content)
    assert_refused(ptxtemplates("build", cwd=tmp_path), *parts)
    assert [path.name for path in tmp_path.iterdir()] == ["kernels.toml"]


def test_unwritable_output(project: Path) -> None:
    (project / "build").write_text("mine")
    assert_refused(ptxtemplates("build", cwd=project), "build is a file; give a directory")
    assert_refused(
        ptxtemplates("build", "--out", "/proc/none", cwd=project), "cannot read or write /proc/none"
    )


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_output(project: Path) -> None:
    (project / "build").mkdir()
    (project / "build").chmod(stat.S_IRUSR | stat.S_IXUSR)
    assert_refused(ptxtemplates("build", cwd=project), "cannot read or write build", "Permission denied")


def test_own_list_builds_and_lints(tmp_path: Path) -> None:
    assert ptxtemplates("build", "-c", LIST, "--out", tmp_path).returncode == 0
    files = sorted(tmp_path.rglob("*.ptx"))
    assert [file.stem for file in files] == sorted(KERNELS)
    result = ptxtemplates("lint", *files)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_lint_names_ptx_and_template_line(tmp_path: Path) -> None:
    file = tmp_path / "hand.ptx"
    text = ptxtemplates(*ROPE, "--set", "theta=1e4", "--lineinfo").stdout
    before = next(line for line in text.split("\n") if "neg.f32" in line)
    file.write_text(text.replace(before, before + "\n        mul.f32    %cross, %cross, %cross;"))
    number = text.split("\n").index(before) + 2
    result = ptxtemplates("lint", file)
    assert (result.returncode, result.stderr) == (1, "")
    [line] = result.stdout.splitlines()
    assert line.startswith(f"{file}:{number}: missing-rounding: ")
    assert "[macros/rotate.jinja:" in line


def test_lint_of_what_is_no_ptx(tmp_path: Path) -> None:
    file = tmp_path / "x.ptx"
    for content, part in (
        (b"hello\n", "x.ptx:1:"),
        (b"\x7fELF\0\1", "x.ptx:1:"),
        (b".version 6.3\n.target sm_75\n.entry f( {\n", "x.ptx:3:"),
    ):
        file.write_bytes(content)
        assert_refused(ptxtemplates("lint", file), part)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_closed_pipe_ends_as_other_tools_do() -> None:
    command = f"{shlex.quote(sys.executable)} -m ptxtemplates list | head -n 1"
    result = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert result.stderr == ""
    assert result.stdout.count("\n") == 1
    assert result.returncode in (0, 141)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
def test_closed_streams(project: Path) -> None:
    program = f"{shlex.quote(sys.executable)} -m ptxtemplates"
    result = subprocess.run(
        ["bash", "-c", f"{program} build 2>&-"], cwd=project, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0
    assert (project / "build" / "manifest.json").exists()
    result = subprocess.run(
        ["bash", "-c", f"{program} list >&-"], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="links need a privilege")
def test_render_writes_through_links(tmp_path: Path) -> None:
    (tmp_path / "real.ptx").write_text("old")
    (tmp_path / "link.ptx").symlink_to("real.ptx")
    assert ptxtemplates(*ROPE, "--set", "theta=1e4", "-o", tmp_path / "link.ptx").returncode == 0
    assert (tmp_path / "link.ptx").is_symlink()
    assert (tmp_path / "real.ptx").read_text() == TEXT
    command = f"{shlex.quote(sys.executable)} -m ptxtemplates {' '.join(ROPE)} --set theta=1e4 -o /dev/stdout"
    for end in (">> out.ptx", "| cat >> out.ptx"):
        (tmp_path / "out.ptx").write_text("before\n")
        subprocess.run(["bash", "-c", f"{command} {end}"], cwd=tmp_path, check=True)
        assert (tmp_path / "out.ptx").read_text() == "before\n" + TEXT
    both = f"{{ echo before; {command.replace('/dev/stdout', '/dev/fd/3')} 3>&1 >/dev/null; echo after; }} > out.ptx"
    subprocess.run(["bash", "-c", both], cwd=tmp_path, check=True)
    assert (tmp_path / "out.ptx").read_text() == f"before\n{TEXT}after\n"
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    looped = ptxtemplates(*ROPE, "--set", "theta=1e4", "-o", tmp_path / "a")
    assert "Traceback" not in looped.stderr
    (tmp_path / "real.ptx").chmod(0o600)
    ptxtemplates(*ROPE, "--set", "theta=1e4", "-o", tmp_path / "real.ptx")
    assert stat.S_IMODE((tmp_path / "real.ptx").stat().st_mode) == 0o600
    assert_refused(
        ptxtemplates(*ROPE, "--set", "theta=1e4", "-o", tmp_path / "real.ptx" / "x"),
        "real.ptx/x: Not a directory",
    )


def test_progress_only_at_a_terminal(project: Path) -> None:
    """Without a terminal stderr stays empty (above); at one, a bar is drawn there and not on stdout."""
    pty = pytest.importorskip("pty", reason="no pseudo-terminals on this system")
    leader, follower = pty.openpty()
    result = subprocess.run(
        [sys.executable, "-m", "ptxtemplates", "build"],
        stdout=subprocess.PIPE,
        stderr=follower,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"},
        check=True,
    )
    os.close(follower)
    drawn = os.read(leader, 10_000).decode()
    os.close(leader)
    assert "rendering" in drawn
    assert b"rendering" not in result.stdout


def test_version_and_help() -> None:
    assert ptxtemplates("--version").stdout == "ptxtemplates 0.1.0\n"
    result = ptxtemplates("--help")
    assert result.returncode == 0
    without = ptxtemplates()
    assert (without.returncode, without.stdout, without.stderr) == (2, "", result.stdout)
    for name in ("build", "lint", "list", "render"):
        assert f"\n  {name} " in result.stdout


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ptxtemplates", "re"], ["render"]),
        (["ptxtemplates", "render", "flash"], ["flash_decoding_chunk", "flash_decoding_reduce"]),
        (["ptxtemplates", "render", "batched_rope", "--set", "th"], ["theta="]),
        (["ptxtemplates", "render", "batched_rope", "--set", "n"], ["num_heads="]),
        (["ptxtemplates", "render", "flash_decoding_chunk", "--set", "n"], ["num_heads=", "num_kv_heads="]),
    ],
)
def test_shell_completion(words: list[str], offered: list[str]) -> None:
    environment = {
        "_PTXTEMPLATES_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; sys.argv[0] = 'ptxtemplates'; from ptxtemplates.cli import run; run()",
        ],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert [line.split(",")[-1] for line in result.stdout.splitlines()] == offered
