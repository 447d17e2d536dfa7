"""The build directory that the examples load, and the library that stands for the driver's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.bindings.compilers import cuda, run, tool
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

EXAMPLES: Final = ROOT / "examples" / "loading"
DATA: Final = ROOT / "tests" / "data" / "loading"
README: Final = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE: Final = (ROOT / "docs" / "loading.md").read_text(encoding="utf-8")

VARIANT: Final = "batched_rope.h8.d64.theta10000"
LAUNCH: Final = "cuLaunchKernel batched_rope grid 8 4 1 block 32 1 1 shared 0"

LINUX_ONLY: Final = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the stand-in of libcuda is built for Linux"
)


def build(out: Path, config: Path, *options: str) -> Path:
    """Render into a directory, with the header and the module in it, and return the directory."""
    header, module = out / "kernels.h", out / "kernels.rs"
    command = [sys.executable, "-m", "ptxtemplates", "build", "-c", str(config), "--out", str(out)]
    run(*command, "--header", header, "--rust", module, *options, cwd=ROOT)
    return out


def driver(folder: Path) -> Path:
    """Compile libcuda.c, and return the folder that it is in."""
    library = folder / "driver" / "libcuda.so"
    library.parent.mkdir()
    options = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{library.name}"]
    source = DATA / "libcuda.c"
    run(tool("gcc"), *options, "-I", cuda() / "include", source, "-lm", "-o", library, cwd=folder)
    return library.parent


def execute(
    program: Path, driver: Path, words: Sequence[str | Path], *, fails: str = ""
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run a program against the stand-in; return what came of it, and the calls of the driver."""
    calls = driver / "calls"
    calls.unlink(missing_ok=True)
    environment = {"LD_LIBRARY_PATH": str(driver), "LIBCUDA_CALLS": str(calls), "LIBCUDA_FAILS": fails}
    result = subprocess.run(
        [str(program), *map(str, words)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return result, calls.read_text().splitlines() if calls.exists() else []


def assert_ok(program: Path, driver: Path, directory: Path, calls: Sequence[str]) -> None:
    """Assert that a program finds its result right, says nothing else, and has made these calls alone."""
    result, made = execute(program, driver, [directory])
    assert (result.returncode, result.stdout, result.stderr) == (0, "ok\n", "")
    assert made == calls


def execute_broken(program: Path, driver: Path, folder: Path) -> tuple[int, Path, list[str]]:
    """Run a program on half of a text; return its exit code, the file of the text, and what it said."""
    file = folder / "batched_rope" / f"{VARIANT}.ptx"
    file.parent.mkdir()
    file.write_text("// half of a text\n.version 6.3\n")
    result, _ = execute(program, driver, [folder])
    return result.returncode, file, result.stderr.splitlines()


def loads_and_launches(program: Path, driver: Path, folder: Path) -> list[str]:
    """Run a snippet's program in a folder, and return its calls about modules and launches."""
    calls = folder / "calls"
    run(program, cwd=folder, env={"LD_LIBRARY_PATH": str(driver), "LIBCUDA_CALLS": str(calls)})
    return [call for call in calls.read_text().splitlines() if call.startswith(("cuModule", "cuLaunch"))]


def snippet(text: str, language: str, word: str) -> str:
    """Return the one block of a document that is in a language and has a word."""
    [found] = [
        str(block) for block in re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL) if word in block
    ]
    return found
