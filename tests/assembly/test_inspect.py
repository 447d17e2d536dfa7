"""``ptxtemplates inspect``, as a user runs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ptxtemplates.assembly import assemble, toolchain
from ptxtemplates.assembly.tools import find_tool
from ptxtemplates.errors import MissingExtraError
from ptxtemplates.rendering import render
from tests.helpers.cli import assert_refused, ptxtemplates
from tests.helpers.toy import TEMPLATE, line_of, with_line
from tests.helpers.variants import KERNELS, LIST, ROOT

if TYPE_CHECKING:
    from pathlib import Path

ROPE = "batched_rope.h32.d128.theta10000"
REDUCE = "flash_decoding_reduce.d128.h32.c16"
DEFAULT = ["sm_80", "sm_90", "sm_100", "sm_120"]

PLAIN = """\
.version 8.0
.target {target}
.address_size 64
.visible .entry second(.param .u64 p)
{launch}
{{
    .reg .u64 %p;
    .reg .b32 %a;
    ld.param.u64 %p, [p];
    ld.global.b32 %a, [%p];
    st.global.b32 [%p+4], %a;
    ret;
}}
.visible .entry first() {{ ret; }}
"""


def table(stdout: str) -> list[list[str]]:
    """Split a table into cells, and assert that its columns are aligned."""
    *lines, footer = stdout.splitlines()
    assert footer == f"spills and shared memory in bytes; {toolchain()}"
    assert len({len(line) for line in lines}) == 1
    return [line.split() for line in lines]


def test_table_of_two_variants() -> None:
    result = ptxtemplates("inspect", "-c", LIST, REDUCE, ROPE)
    assert (result.returncode, result.stderr) == (0, "")
    header, *rows = table(result.stdout)
    assert header == ["kernel", "arch", "block", "registers", "spills", "shared", "instructions", "occupancy"]
    assert [row[:2] for row in rows] == [[name, arch] for name in (ROPE, REDUCE) for arch in DEFAULT]
    for name, architecture, block, *figures, share in rows:
        kernel = KERNELS[name]
        assert block == "x".join(map(str, kernel.block))
        needs = assemble(render(kernel).text, architecture).resources[kernel.entry]
        spills = needs.spill_stores + needs.spill_loads
        assert figures == [
            str(value) for value in (needs.registers, spills, needs.shared_memory, needs.instructions)
        ]
        assert re.fullmatch(r"[1-9]\d*%", share)


def test_json_of_two_variants() -> None:
    result = ptxtemplates("inspect", "-c", LIST, REDUCE, ROPE, "--json", "--arch", "sm_90", "--arch", "sm_75")
    assert (result.returncode, result.stderr) == (0, "")
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    assert [(row["name"], row["architecture"]) for row in rows] == [
        (name, architecture) for name in (ROPE, REDUCE) for architecture in ("sm_75", "sm_90")
    ]
    for row in rows:
        kernel = KERNELS[row["name"]]
        needs = assemble(render(kernel).text, row["architecture"]).resources[kernel.entry]
        assert {name: row[name] for name in needs._fields} == needs._asdict()
        assert (row["entry"], row["toolchain"]) == (kernel.entry, toolchain())
        assert row["block"] == list(kernel.block)
        assert 0 < row["occupancy"] <= 1
        assert "sass" not in row


def test_globs_and_the_whole_list() -> None:
    result = ptxtemplates("inspect", "-c", LIST, "batched_rope*.h32.d128.*", ROPE, "--arch", "sm_90")
    names = [row[0] for row in table(result.stdout)[1:]]
    assert names == sorted(name for name in KERNELS if re.match(r"batched_rope.*\.h32\.d128\.", name))
    result = ptxtemplates("inspect", "--arch", "sm_90", cwd=ROOT)
    assert [row[0] for row in table(result.stdout)[1:]] == sorted(KERNELS)


def test_files_of_any_producer(tmp_path: Path) -> None:
    (tmp_path / "a.ptx").write_text(PLAIN.format(target="sm_80", launch=".maxntid 32, 4"))
    (tmp_path / "kernel.txt").write_text(PLAIN.format(target="sm_90", launch=""))
    result = ptxtemplates("inspect", "kernel.txt", "a.ptx", "./a.ptx", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    rows = {(row[0], row[1]): row[2:] for row in table(result.stdout)[1:]}
    assert list(rows) == [
        *(
            (f"{file}:{entry}", arch)
            for file in ("./a.ptx", "a.ptx")
            for entry in ("first", "second")
            for arch in DEFAULT
        ),
        *((f"kernel.txt:{entry}", arch) for entry in ("first", "second") for arch in DEFAULT[1:]),
    ]
    # the text fixes the block of one entry of three: what depends on it is unknown for the others
    assert rows["a.ptx:second", "sm_90"][0] == "32x4x1"
    assert rows["a.ptx:second", "sm_90"][-1] == "100%"
    assert rows["a.ptx:first", "sm_90"][0] == rows["a.ptx:first", "sm_90"][-1] == "n/a"
    assert rows["kernel.txt:second", "sm_90"][0] == rows["kernel.txt:second", "sm_90"][-1] == "n/a"
    [first] = [
        row
        for row in json.loads(
            ptxtemplates("inspect", "a.ptx", "--json", "--arch", "sm_90", cwd=tmp_path).stdout
        )
        if row["entry"] == "first"
    ]
    assert (first["block"], first["occupancy"]) == (None, None)


def test_file_that_nvcc_writes(tmp_path: Path) -> None:
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("nvcc is not on PATH")
    (tmp_path / "k.cu").write_text(
        "__global__ void __launch_bounds__(96) k(float *x) { __shared__ float s[96]; s[threadIdx.x] = *x;\n"
        "__syncthreads(); x[threadIdx.x] = s[95 - threadIdx.x]; }\n"
    )
    subprocess.run([compiler, "-arch=sm_80", "-ptx", "k.cu"], cwd=tmp_path, check=True, timeout=120)
    result = ptxtemplates("inspect", "k.ptx", "--arch", "sm_80", cwd=tmp_path)
    [row] = table(result.stdout)[1:]
    assert row[:3] == ["k.ptx:_Z1kPf", "sm_80", "96x1x1"]
    assert row[5] == "384"
    result = ptxtemplates("inspect", "k.ptx", "--arch", "sm_80", "--sass", cwd=tmp_path)
    assert re.search(
        r"^k\.ptx:\d+: bar\.sync\b.*\n(  .*\n)*    [0-9a-f]{4}  BAR\.SYNC", result.stdout, re.MULTILINE
    )


def needs_disassembler() -> None:
    try:
        find_tool("nvdisasm")
    except MissingExtraError as error:
        pytest.skip(str(error))


def test_sass() -> None:
    needs_disassembler()
    result = ptxtemplates("inspect", "-c", LIST, ROPE, "--sass", "--arch", "sm_90", "--arch", "sm_80")
    assert (result.returncode, result.stderr) == (0, "")
    titles = [line for line in result.stdout.splitlines() if " on sm_" in line]
    counts = {
        architecture: assemble(render(KERNELS[ROPE]).text, architecture)
        .resources["batched_rope"]
        .instructions
        for architecture in ("sm_80", "sm_90")
    }
    assert titles == [f"{ROPE} on {name}, {count} instructions" for name, count in counts.items()]
    for listing, count in zip(result.stdout.split(" on sm_")[1:], counts.values(), strict=True):
        assert len(re.findall(r"^    [0-9a-f]{4}  \S", listing, re.MULTILINE)) == count
        assert re.search(
            r"^batched_rope\.ptx\.jinja:\d+: ld\.global\.v2\.f32 .*\n(    .*\n)*    [0-9a-f]{4}  LDG\.E\.64",
            listing,
            re.MULTILINE,
        )


def test_sass_as_json() -> None:
    needs_disassembler()
    result = ptxtemplates("inspect", "-c", LIST, ROPE, REDUCE, "--sass", "--json", "--arch", "sm_75")
    assert (result.returncode, result.stderr) == (0, "")
    for row in json.loads(result.stdout):
        groups = row["sass"][row["entry"]]
        assert sum(len(group["instructions"]) for group in groups) == row["instructions"]
        for group in groups:
            assert (group["source"] is None) == (group["file"] is None)
            assert (group["line"] is None) == (group["file"] is None)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a project with a kernel of its own, whose template the lint accepts and no assembler does."""
    (tmp_path / "engine.py").write_text(
        "from pathlib import Path\n"
        "from ptxtemplates import register\n"
        "from ptxtemplates.__main__ import run\n"
        "from tests.helpers import toy\n"
        "toy.Toy.template_folder = Path(__file__).parent\n"
        "register(toy.Toy)\n"
        "run()\n"
    )
    (tmp_path / "kernels.toml").write_text('[[kernel]]\nname = "toy"\nwidth = 64\n')
    (tmp_path / "toy.ptx.jinja").write_text(with_line("add.rn.f32", "add.rn.f64"))
    return tmp_path


def engine(
    project: Path, *arguments: str, path: str = str(ROOT), **variables: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "engine.py", *arguments],
        cwd=project,
        env={**os.environ, "PYTHONPATH": path, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_what_does_not_assemble_is_shown_in_its_template(project: Path) -> None:
    line = line_of("add.rn.f32")
    for more in ([], ["--sass"], ["--json"]):
        result = engine(project, "inspect", *more)
        assert (result.returncode, result.stdout) == (2, "")
        first, file, *excerpt = result.stderr.splitlines()
        assert first.startswith(f"error: toy.ptx.jinja:{line}: toy.w64.ptx:{line}: Arguments mismatch")
        assert file == "  toy.ptx.jinja"
        assert len(excerpt) == 5
        assert excerpt[2] == f"  > {line} |     add.rn.f64    %value, %value, %value;"
    (project / "toy.ptx.jinja").write_text(TEMPLATE)
    assert engine(project, "inspect").returncode == 0


def test_file_that_does_not_assemble(tmp_path: Path) -> None:
    text = PLAIN.format(target="sm_80", launch="").replace(
        "st.global.b32 [%p+4], %a", "add.rn.f32 %p, %p, %p"
    )
    (tmp_path / "a.ptx").write_text(text)
    result = ptxtemplates("inspect", "a.ptx", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: a.ptx:11: Arguments mismatch")
    assert "\n  > 11 |     add.rn.f32 %p, %p, %p;\n" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (("old.ptx", "--arch", "sm_9x"), ["old.ptx: there is no architecture 'sm_9x'; known are sm_75, "]),
        (("old.ptx", "--arch", "sm_99"), ["knows no architecture 'sm_99'"]),
        (("new.ptx", "--arch", "sm_90", "--arch", "sm_80"), ["new.ptx: .target sm_90 does not run on sm_80"]),
        (("gone.ptx",), ["cannot read gone.ptx: No such file"]),
        (("folder.ptx",), ["cannot read folder.ptx: "]),
        (("text.ptx",), ["text.ptx:1: "]),
        (("binary.ptx",), ["binary.ptx:2: is not UTF-8"]),
        (("empty.ptx",), ["empty.ptx: defines no entry"]),
        (("batched_rop",), ["cannot read kernels.toml: No such file"]),
        (
            ("-c", str(LIST), "batched_rop"),
            ["no listed kernel matches 'batched_rop'; did you mean 'batched_rope'?"],
        ),
        ((), ["cannot read kernels.toml: No such file"]),
        (("old.ptx", "--arch"), ["--arch' requires an argument"]),
    ],
)
def test_refused_in_one_line(tmp_path: Path, arguments: tuple[str, ...], parts: list[str]) -> None:
    for name, target in (("old", "sm_80"), ("new", "sm_90")):
        (tmp_path / f"{name}.ptx").write_text(PLAIN.format(target=target, launch=""))
    (tmp_path / "folder.ptx").mkdir()
    (tmp_path / "text.ptx").write_text("hello\n")
    (tmp_path / "binary.ptx").write_bytes(b"// \n\xff\n")
    (tmp_path / "empty.ptx").write_text(".version 7.0\n.target sm_80\n.address_size 64\n")
    assert_refused(ptxtemplates("inspect", *arguments, cwd=tmp_path), *parts)


def test_target_of_a_kernel_decides_the_default_architectures(tmp_path: Path) -> None:
    listed = (
        '[[kernel]]\nname = "batched_rope"\nnum_heads = 1\nhead_dim = 64\ntheta = 1e4\ntarget = "sm_{}"\n'
    )
    (tmp_path / "kernels.toml").write_text(listed.format(100))
    result = ptxtemplates("inspect", cwd=tmp_path)
    assert [row[1] for row in table(result.stdout)[1:]] == ["sm_100", "sm_120"]
    (tmp_path / "kernels.toml").write_text(listed.format("90a"))
    result = ptxtemplates("inspect", cwd=tmp_path)  # none of them runs it: its own
    assert [row[1] for row in table(result.stdout)[1:]] == ["sm_90a"]


@pytest.mark.parametrize(
    ("hidden", "arguments", "parts"),
    [
        ("ptxas", (), ["needs NVIDIA's ptxas", "pip install 'ptxtemplates[cuda]'"]),
        ("nvdisasm", ("--sass",), ["needs NVIDIA's nvdisasm", "pip install 'ptxtemplates[cuda]'"]),
    ],
)
def test_missing_extra(tmp_path: Path, hidden: str, arguments: tuple[str, ...], parts: list[str]) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['nvidia'] = None\n")
    if hidden != "ptxas":
        (tmp_path / "ptxas").symlink_to(find_tool("ptxas"))
    variables = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]), "PATH": str(tmp_path)}
    result = ptxtemplates("inspect", "-c", LIST, ROPE, *arguments, env=variables)
    assert_refused(result, *parts)


def test_progress_only_at_a_terminal() -> None:
    """Without a terminal stderr stays empty (above); at one, a bar is drawn there and not on stdout."""
    pty = pytest.importorskip("pty", reason="no pseudo-terminals on this system")
    leader, follower = pty.openpty()
    result = subprocess.run(
        [sys.executable, "-m", "ptxtemplates", "inspect", ROPE, "--arch", "sm_90"],
        stdout=subprocess.PIPE,
        stderr=follower,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm"},
        check=True,
    )
    os.close(follower)
    drawn = os.read(leader, 10_000).decode()
    os.close(leader)
    assert "assembling" in drawn
    assert b"assembling" not in result.stdout
