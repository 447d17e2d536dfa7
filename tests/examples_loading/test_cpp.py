"""The C++ example: compiled, and run against a libcuda that records its calls and rotates on the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.bindings.compilers import WARNINGS, cuda, run, tool
from tests.examples_loading.building import (
    EXAMPLES,
    LAUNCH,
    LINUX_ONLY,
    README,
    assert_ok,
    execute,
    execute_broken,
    loads_and_launches,
    snippet,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = LINUX_ONLY

CALLS: Final = [
    "cuInit 0",
    "cuDeviceGet 0",
    "cuDevicePrimaryCtxRetain 0",
    "cuCtxSetCurrent",
    "cuStreamCreate non-blocking",
    "cuModuleLoadDataEx PTX",
    "cuModuleGetFunction batched_rope",
    "cuMemAlloc 8192",
    "cuMemAlloc 8192",
    "cuMemAlloc 16",
    "cuMemcpyHtoDAsync 8192",
    "cuMemcpyHtoDAsync 16",
    LAUNCH,
    "cuMemcpyDtoHAsync 8192",
    "cuStreamSynchronize",
    "cuMemFree",
    "cuMemFree",
    "cuMemFree",
    "cuModuleUnload",
    "cuStreamDestroy",
    "cuDevicePrimaryCtxRelease 0",
]


def compiled(source: Path, texts: Path, libcuda: Path, folder: Path) -> Path:
    program = folder / "program"
    includes: list[str | Path] = ["-I", texts, "-I", cuda() / "include"]
    command: list[str | Path] = [tool("g++"), "-std=c++17", *WARNINGS, *includes, source]
    run(*command, "-L", libcuda, "-lcuda", "-o", program, cwd=folder)
    return program


@pytest.fixture(scope="module")
def program(texts: Path, libcuda: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(EXAMPLES / "cpp" / "rope.cpp", texts, libcuda, tmp_path_factory.mktemp("cpp"))


def test_calls_and_result(program: Path, libcuda: Path, texts: Path) -> None:
    assert_ok(program, libcuda, texts, CALLS)


def test_fat_binary_comes_first(program: Path, libcuda: Path, binaries: Path) -> None:
    assert_ok(program, libcuda, binaries, [call.replace("Ex PTX", "Ex a fat binary") for call in CALLS])


@pytest.mark.parametrize("name", dict.fromkeys(call.split()[0] for call in CALLS))
def test_every_error_ends_it(program: Path, libcuda: Path, texts: Path, name: str) -> None:
    result, calls = execute(program, libcuda, [texts], fails=name)
    assert (result.returncode, result.stdout) == (2, "")
    first = result.stderr.splitlines()[0]
    assert first.startswith(name)
    assert first.endswith(": CUDA_ERROR_UNKNOWN")
    assert calls[-1].split()[0] == name


def test_what_the_assembler_says_is_shown(program: Path, libcuda: Path, tmp_path: Path) -> None:
    code, file, said = execute_broken(program, libcuda, tmp_path)
    assert code == 2
    assert said == [
        f"cuModuleLoadDataEx of {file}: CUDA_ERROR_INVALID_PTX",
        "ptxas application ptx input, line 1; fatal : not an image",
    ]


def test_no_build_directory(program: Path, libcuda: Path, tmp_path: Path) -> None:
    result, _ = execute(program, libcuda, [tmp_path])
    assert (result.returncode, result.stdout) == (2, "")
    assert "cannot be read" in result.stderr


@pytest.mark.parametrize("rows", ["0", "65536", "-1", "few"])
def test_rows_that_no_grid_has_are_refused_before_anything_happens(
    program: Path, libcuda: Path, texts: Path, rows: str
) -> None:
    result, calls = execute(program, libcuda, [texts, rows])
    assert (result.returncode, calls) == (2, [])
    assert f"{rows} rows are not possible in one launch" in result.stderr


def test_most_rows(program: Path, libcuda: Path, texts: Path) -> None:
    result, calls = execute(program, libcuda, [texts, "65535"])
    assert (result.returncode, result.stdout) == (0, "ok\n")
    assert LAUNCH.replace(" 4 ", " 65535 ") in calls


def test_a_wrong_value_is_seen(libcuda: Path, texts: Path, tmp_path: Path) -> None:
    text = (EXAMPLES / "cpp" / "rope.cpp").read_text()
    wrong = text.replace("std::cos(angle) - x", "std::cos(angle) + x")
    assert wrong != text
    (tmp_path / "wrong.cpp").write_text(wrong)
    result, _ = execute(compiled(tmp_path / "wrong.cpp", texts, libcuda, tmp_path), libcuda, [texts])
    assert result.returncode == 1
    assert "and it should be" in result.stdout


def test_snippet_of_the_readme(libcuda: Path, shown: Path, tmp_path: Path) -> None:
    """In a function with the names that it takes for granted; run from the project's folder."""
    include, _, body = snippet(README, "cpp", "cuModuleLoad").partition("\n\n")
    source = tmp_path / "snippet.cpp"
    source.write_text(
        f"{include}\n"
        "static void snippet(CUdeviceptr x, CUdeviceptr out, CUdeviceptr positions, unsigned rows, CUstream stream)\n"
        "{\n" + body + "}\n"
        "int main()\n"
        "{\n"
        "    CUdeviceptr x, positions;\n"
        "    CUstream stream;\n"
        "    cuMemAlloc(&x, 3 * 32 * 128 * 4);\n"
        "    cuMemAlloc(&positions, 3 * 4);\n"
        "    cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);\n"
        "    snippet(x, x, positions, 3, stream);\n"
        "}\n"
    )
    program = compiled(source, shown, libcuda, tmp_path)
    (tmp_path / "build").symlink_to(shown)
    assert loads_and_launches(program, libcuda, tmp_path) == [
        "cuModuleLoad PTX",
        "cuModuleGetFunction batched_rope",
        "cuLaunchKernel batched_rope grid 32 3 1 block 64 1 1 shared 0",
    ]
