"""The examples are built as their users would, in copies: nothing to do twice, and again when something changed."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.bindings.compilers import WARNINGS, cuda, run, tool
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the examples are run through a POSIX shell")

REDUCE = '\n[[kernel]]\nname = "flash_decoding_reduce"\nnum_heads = 8\nhead_dim = 64\nchunk_size = 16\n'
TEMPLATE, USED, UNUSED = "batched_rope.ptx.jinja", "macros/rotate.jinja", "macros/softmax.jinja"


class Package(NamedTuple):
    """A copy of the package whose templates may be changed, and the command that runs it."""

    command: Path
    templates: Path

    def touch(self, name: str) -> None:
        """Make a template newer."""
        os.utime(self.templates / name)

    def comment(self, name: str) -> None:
        """Change a comment that is rendered."""
        file = self.templates / name
        text = file.read_text()
        changed = re.sub(r"^    // ", "    // changed: ", text, count=1, flags=re.MULTILINE)
        assert changed != text
        file.write_text(changed)


@pytest.fixture
def package(tmp_path: Path) -> Package:
    home = tmp_path / "home"
    shutil.copytree(
        ROOT / "ptxtemplates", home / "ptxtemplates", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copytree(ROOT / "templates", home / "templates")
    command = home / "ptxtemplates.sh"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{home}" exec "{sys.executable}" -m ptxtemplates "$@"\n')
    command.chmod(0o755)
    return Package(command, home / "templates")


def example(name: str, tmp_path: Path) -> Path:
    copied = tmp_path / "a project" / name
    shutil.copytree(ROOT / "examples" / name, copied, ignore=shutil.ignore_patterns("build", "target"))
    return copied


def assert_follows_changes(build: Callable[[], str], package: Package, folder: Path) -> None:
    """Assert that a build whose first run is done renders and compiles after those changes that ask for it."""
    package.touch(USED)
    assert build() == "render "
    assert build() == ""
    package.touch(UNUSED)
    assert build() == ""
    package.comment(TEMPLATE)
    assert build() == "render compile"
    assert build() == ""
    (folder / "kernels.toml").write_text((folder / "kernels.toml").read_text() + REDUCE)
    assert build() == "render compile"
    assert build() == ""
    package.touch(UNUSED)
    assert build() == "render "


def test_make(tmp_path: Path, package: Package) -> None:
    folder = example("make", tmp_path)
    make = tool("make")
    tool("cc")

    def build() -> str:
        """Say what was done: render, compile."""
        output = run(make, f"PTXTEMPLATES={package.command}", "CFLAGS=-std=c99 -Wall -Werror", cwd=folder)
        return f"{'render ' * ('kernels:' in output)}{'compile' * (' -o ' in output)}"

    assert build() == "render compile"
    assert build() == ""
    assert run("build/geometry", "5", cwd=folder).startswith(
        "batched_rope: 24 bytes of parameters, grid 8 5 1, block 32 1 1, "
    )
    assert_follows_changes(build, package, folder)


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_cmake(tmp_path: Path, package: Package, generator: str) -> None:
    folder = example("cmake", tmp_path)
    cmake = tool("cmake")
    tool("ninja" if generator == "Ninja" else "make")
    root = cuda()
    if not (root / "bin" / "nvcc").exists():
        pytest.skip("CMake finds a CUDA toolkit by its nvcc, and there is none")
    configure = [f"-DPTXTEMPLATES={package.command}", f"-DCUDAToolkit_ROOT={root}"]
    driver = build_driver(tmp_path, root)
    run(cmake, "-G", generator, "-B", "build", *configure, f"-DCUDA_cuda_driver_LIBRARY={driver}", cwd=folder)

    def build() -> str:
        """Say what was done: render, compile."""
        output = run(cmake, "--build", "build", "--verbose", cwd=folder)
        if generator == "Ninja" and "kernels:" not in output:
            assert "no work to do" in output
        return f"{'render ' * ('kernels:' in output)}{'compile' * ('decode.cpp.o -c' in output)}"

    assert build() == "render compile"
    assert build() == ""
    assert re.match(
        r"batched_rope/batched_rope\.h8\.d64\.theta10000\.ptx: largest error \d\.\de-0[78]\n",
        run("build/decode", cwd=folder),
    )
    assert_follows_changes(build, package, folder)


def test_cmake_without_a_driver_compiles(tmp_path: Path, package: Package) -> None:
    folder = example("cmake", tmp_path)
    cmake, root = tool("cmake"), cuda()
    tool("ninja")
    if not (root / "bin" / "nvcc").exists():
        pytest.skip("CMake finds a CUDA toolkit by its nvcc, and there is none")
    options = [f"-DPTXTEMPLATES={package.command}", f"-DCUDAToolkit_ROOT={root}"]
    none = "-DCUDA_cuda_driver_LIBRARY=CUDA_cuda_driver_LIBRARY-NOTFOUND"
    output = run(cmake, "-G", "Ninja", "-B", "build", *options, none, cwd=folder)
    if "compiled, not linked" not in output:
        pytest.skip("CMake finds a libcuda here")
    run(cmake, "--build", "build", cwd=folder)
    assert "no work to do" in run(cmake, "--build", "build", cwd=folder)


def test_cpp_program_on_the_driver_api(tmp_path: Path, package: Package) -> None:
    """Strict compilers take it, and the driver gets the parameters as the kernel's ABI has them."""
    folder = example("cmake", tmp_path)
    root = cuda()
    run(package.command, "build", "--header", "kernels.h", "--embed", cwd=folder)
    driver = build_driver(tmp_path, root)
    options = ["-std=c++11", *WARNINGS, "-Wold-style-cast", "-isystem", f"{root}/include"]
    run(tool("g++"), *options, "decode.cpp", driver, "-o", "decode", cwd=folder)
    libraries = {"LD_LIBRARY_PATH": str(driver.parent)}
    assert "largest error" in run(folder / "decode", cwd=folder, env=libraries)


def build_driver(folder: Path, root: Path) -> Path:
    """Compile driver.cpp, a libcuda that needs no GPU, and return it."""
    source = Path(__file__).parent / "driver.cpp"
    library = folder / "libcuda.so.1"
    options = ["-std=c++11", "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-I", f"{root}/include"]
    run(tool("g++"), *options, source, "-o", library, cwd=folder)
    return library


def test_rust_without_cargo(tmp_path: Path, package: Package) -> None:
    """What Cargo does: compile build.rs, run it in the package's folder, compile the program."""
    folder = example("rust", tmp_path)
    rustc = tool("rustc")
    out = tmp_path / "out dir"
    out.mkdir()
    environment = {"OUT_DIR": str(out), "PTXTEMPLATES": str(package.command)}
    run(rustc, "--edition=2021", "-Dwarnings", "build.rs", "-o", out / "build", cwd=folder)
    output = run(out / "build", cwd=folder, env=environment)
    watched = {line.partition("=")[2] for line in output.splitlines() if "rerun-if-changed=" in line}
    assert watched == {
        "build.rs",
        str(folder / "kernels.toml"),
        str(package.templates / TEMPLATE),
        str(package.templates / USED),
        str(package.templates / "macros/address.jinja"),
    }
    run(rustc, "--edition=2021", "-Dwarnings", "main.rs", "-o", out / "main", cwd=folder, env=environment)
    printed = run(out / "main", "5", cwd=folder)
    assert printed.startswith("batched_rope: 24 bytes of BatchedRopeParameters {")
    assert "grid (8, 5, 1), block (32, 1, 1)" in printed


def test_rust_with_cargo(tmp_path: Path, package: Package) -> None:
    folder = example("rust", tmp_path)
    cargo = tool("cargo")
    environment = {"PTXTEMPLATES": str(package.command), "CARGO_TARGET_DIR": str(tmp_path / "target")}

    def build() -> bool:
        """Say whether anything was done."""
        output = run(cargo, "build", "--offline", "--message-format=json", cwd=folder, env=environment)
        return '"fresh":false' in output

    assert build()
    assert not build()
    package.touch(UNUSED)
    assert not build()
    package.touch(USED)
    assert build()
    assert not build()


def test_documentation_shows_the_example() -> None:
    text = (ROOT / "docs" / "build-systems.md").read_text(encoding="utf-8")
    [rule] = re.findall(r"```cmake\n(.*?)```", text, re.DOTALL)
    assert rule in (ROOT / "examples" / "cmake" / "CMakeLists.txt").read_text()
