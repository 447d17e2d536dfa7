"""Dependencies: what Make and Ninja read of them, and that none is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

import pytest

from ptxtemplates.bindings.depfile import dependencies_of, depfile
from ptxtemplates.errors import ArtifactError
from ptxtemplates.kernels import BatchedRope
from ptxtemplates.manifest import entry_of
from ptxtemplates.rendering import render
from ptxtemplates.sources import BUILT_IN_TEMPLATES
from tests.bindings.compilers import run, tool
from tests.helpers.toy import TEMPLATE, toy
from tests.helpers.variants import KERNELS, LIST

if TYPE_CHECKING:
    from ptxtemplates.manifest import Entry

POSIX_ONLY = pytest.mark.skipif(sys.platform == "win32", reason="names that Windows does not allow")

NAMES = ["plain.toml", "with space", " $HOME#1: 100% [a] (b) {c} ~ @ ! + , -", "two  spaces$", "größe"]


def test_format() -> None:
    paths = [PurePosixPath("/b/x y"), PurePosixPath("/a/$#:"[:-1]), PurePosixPath("/b/x y")]
    assert depfile(PurePosixPath("out/k.stamp"), paths) == "out/k.stamp: \\\n  /a/$$\\# \\\n  /b/x\\ y\n"
    assert depfile(PurePosixPath("k.stamp"), []) == "k.stamp:\n"


def test_windows() -> None:
    path = PureWindowsPath(r"C:\Program Files\kernels.toml")
    assert depfile(PureWindowsPath(r"out\k.stamp"), [path]) == (
        "out/k.stamp: \\\n  C:/Program\\ Files/kernels.toml\n"
    )


@pytest.mark.parametrize("character", ["\n", "\t", ";", "=", "|", "*", "\\"])
def test_what_no_tool_reads_is_refused(character: str) -> None:
    with pytest.raises(ArtifactError, match="a depfile cannot hold the"):
        depfile(PurePosixPath("k.stamp"), [PurePosixPath(f"a{character}b")])


def test_pattern_as_target_is_refused() -> None:
    with pytest.raises(ArtifactError, match="% in a%b"):
        depfile(PurePosixPath("a%b"), [])


@POSIX_ONLY
@pytest.mark.parametrize("name", NAMES)
def test_make_and_ninja_see_each_name(tmp_path: Path, name: str) -> None:
    """Both see nothing to do, and something once the file is newer."""
    file = tmp_path / name
    file.touch()
    os.utime(file, (1, 1))
    target = Path("a $1 #.stamp")
    rule = depfile(target, [file])
    (tmp_path / "source.d").write_text(rule)
    (tmp_path / "Makefile").write_text("a\\ $$1\\ \\#.stamp:\n\ttouch '$@'\n-include source.d\n")
    (tmp_path / "build.ninja").write_text(
        "rule r\n  command = cp source.d used.d && touch 'a $$1 #.stamp'\n  depfile = used.d\n"
        "build a$ $$1$ #.stamp: r\n"
    )
    make, ninja = tool("make"), tool("ninja")
    run(ninja, cwd=tmp_path)
    assert "no work to do" in run(ninja, cwd=tmp_path)
    run(make, "-q", cwd=tmp_path)
    os.utime(file, (2**31, 2**31))
    assert "no work to do" not in run(ninja, "-n", cwd=tmp_path)
    assert subprocess.run([make, "-q"], cwd=tmp_path, check=False).returncode == 1


def test_built_in_kernels_depend_on_list_and_templates() -> None:
    kernels = list(KERNELS.values())
    entries = [entry_of(render(kernel)) for kernel in kernels]
    found = dependencies_of(LIST, kernels, entries)
    templates = set(BUILT_IN_TEMPLATES.rglob("*.jinja"))
    assert found == sorted(templates | {LIST})


def test_only_what_was_read_counts() -> None:
    rope = BatchedRope(num_heads=8, head_dim=64, theta=1e4)
    names = {path.name for path in dependencies_of(Path("k.toml"), [rope], [entry_of(render(rope))])}
    assert "batched_rope.ptx.jinja" in names
    assert not {"softmax.jinja", "flash_decoding_chunk.ptx.jinja"} & names


def test_relative_list_becomes_absolute() -> None:
    assert dependencies_of(Path("k.toml"), [], []) == [Path.cwd() / "k.toml"]


def test_own_kernel_depends_on_its_module_and_templates(tmp_path: Path) -> None:
    text = '{% import "macros/address.jinja" as address %}\n' + TEMPLATE.replace(
        "    ld.param.u64  %x, [x_ptr];", '{{ address.load_pointer("%x", "x_ptr") }}'
    )
    kernel = toy(tmp_path, text)
    entry: Entry = entry_of(render(kernel))
    module = sys.modules["tests.helpers.toy"].__file__
    assert module is not None
    expected = [
        tmp_path / "toy.ptx.jinja",
        BUILT_IN_TEMPLATES / "macros" / "address.jinja",
        Path(module),
        LIST,
    ]
    assert dependencies_of(LIST, [kernel], [entry, {"variant": "other"} | entry]) == sorted(expected)
    (tmp_path / "macros").mkdir()
    (tmp_path / "macros" / "address.jinja").write_bytes(expected[1].read_bytes())
    assert tmp_path / "macros" / "address.jinja" in dependencies_of(LIST, [kernel], [entry])
    assert expected[1] not in dependencies_of(LIST, [kernel], [entry])
