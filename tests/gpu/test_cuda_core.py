"""cuda.core itself, on a driver that needs no GPU: what stand-ins of cuda.core cannot show of its calls."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.bindings.compilers import cuda, run, tool
from tests.helpers.variants import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the stand-in of libcuda is built for Linux"
)

SOURCE = ROOT / "tests" / "data" / "loading" / "cuda_core.c"
ILLEGAL_ADDRESS = "700"


@pytest.fixture(scope="module")
def libcuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a libcuda that runs RoPE on the CPU."""
    folder = tmp_path_factory.mktemp("libcuda")
    options: list[str | Path] = [
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-shared",
        "-fPIC",
        "-I",
        cuda() / "include",
    ]
    run(tool("gcc"), *options, SOURCE, "-lm", "-o", folder / "libcuda.so.1", cwd=folder)
    return folder


def python(
    libcuda: Path, *words: str, cwd: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        cwd=cwd,
        env=os.environ | {"LD_LIBRARY_PATH": str(libcuda)} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_launches_and_graphs(libcuda: Path) -> None:
    calls = libcuda / "calls"
    result = python(libcuda, "-m", "tests.gpu.on_standin", LIBCUDA_CALLS=str(calls))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.split() == [
        "arrays_of_the_host",
        "handles_leave_no_garbage",
        "a_graph",
        "a_capture_that_fails",
        "a_thread_without_a_context",
        "errors_are_gpu_errors",
    ]
    loads = [line for line in calls.read_text().splitlines() if line.startswith("cuLibraryLoadData")]
    # this driver takes no machine code, as one that is older than the assembler
    assert loads[-1] == "cuLibraryLoadData PTX"


def test_a_kernel_that_reads_beside_its_memory(libcuda: Path, tmp_path: Path) -> None:
    """The answer is no, with what happened; cases behind it are not failures of their own."""
    (tmp_path / "kernels.toml").write_text(
        '[[kernel]]\nname = "batched_rope"\nnum_heads = 2\nhead_dim = 16\ntheta = 1e4\n'
    )
    result = python(
        libcuda, "-m", "ptxtemplates", "verify", "--on", "gpu",
        cwd=tmp_path, LIBCUDA_FAILS="cuLaunchKernel", LIBCUDA_ERROR=ILLEGAL_ADDRESS,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (1, "")
    said = result.stdout
    assert said.startswith("FAILED  batched_rope.h2.d16.theta10000")
    assert "out of bounds: batched_rope, on the device: the driver says CUDA_ERROR_ILLEGAL_ADDRESS" in said
    assert said.count("out of bounds") == 1
    assert ": skipped: the GPU runs nothing more in this process, since batched_rope ended with" in said
