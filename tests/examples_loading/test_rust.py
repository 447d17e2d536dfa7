"""The Rust example and the snippets: compiled with a crate that has cudarc's signatures, and run."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Final

import pytest

from tests.bindings.compilers import run, tool
from tests.examples_loading.building import (
    DATA,
    EXAMPLES,
    GUIDE,
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
    "cuModuleLoad PTX",
    "cuModuleGetFunction batched_rope",
    "cuMemAlloc 8192",
    "cuMemcpyHtoDAsync 8192",
    "cuMemAlloc 16",
    "cuMemcpyHtoDAsync 16",
    "cuMemAlloc 8192",
    "cuMemsetD8Async 8192",
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
FREEING: Final = ("cuMemFree", "cuModuleUnload", "cuStreamDestroy", "cuDevicePrimaryCtxRelease")

MAIN: Final = """
fn main() {{
    use cudarc::driver::CudaContext;
    let context = CudaContext::new(0).unwrap();
    let stream = context.new_stream().unwrap();
    let x = stream.alloc_zeros::<f32>(3 * 32 * 128).unwrap();
    let out = stream.alloc_zeros::<f32>(3 * 32 * 128).unwrap();
    let positions = stream.clone_htod(&vec![0u32; 3]).unwrap();
    snippet(&context, &stream, x, out, positions, 3).unwrap();
}}

fn snippet(
    context: &std::sync::Arc<cudarc::driver::CudaContext>,
    stream: &std::sync::Arc<cudarc::driver::CudaStream>,
    mut x: cudarc::driver::CudaSlice<f32>,
    mut out: cudarc::driver::CudaSlice<f32>,
    positions: cudarc::driver::CudaSlice<u32>,
    rows: u32,
) -> Result<(), cudarc::driver::DriverError> {{
    {0}
    Ok(())
}}
"""


def compiled(project: Path, libcuda: Path) -> Path:
    """Compile the package with the stand-in of cudarc, and return the program."""
    stub = f'patch.crates-io.cudarc.path="{DATA / "cudarc"}"'
    environment = {
        "RUSTFLAGS": f"-Dwarnings -L native={libcuda}",
        "CARGO_TARGET_DIR": str(project / "target"),
        "CARGO_INCREMENTAL": "0",
    }
    run(tool("cargo"), "build", "--offline", "--config", stub, cwd=project, env=environment)
    return project / "target" / "debug" / "rope"


def project(folder: Path, directory: Path) -> Path:
    """Copy the example, with a build directory in it as its user has it."""
    copied = folder / "rust"
    shutil.copytree(EXAMPLES / "rust", copied, ignore=shutil.ignore_patterns("build", "target", "Cargo.lock"))
    shutil.copytree(directory, copied / "build")
    return copied


@pytest.fixture(scope="module")
def program(texts: Path, libcuda: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(project(tmp_path_factory.mktemp("example"), texts), libcuda)


def test_calls_and_result(program: Path, libcuda: Path, texts: Path) -> None:
    assert_ok(program, libcuda, texts, CALLS)


def test_fat_binary_comes_first(program: Path, libcuda: Path, binaries: Path) -> None:
    assert_ok(program, libcuda, binaries, [call.replace("Load PTX", "Load a fat binary") for call in CALLS])


@pytest.mark.parametrize(
    "name", [name for name in dict.fromkeys(call.split()[0] for call in CALLS) if name not in FREEING]
)
def test_every_error_ends_it(program: Path, libcuda: Path, texts: Path, name: str) -> None:
    result, calls = execute(program, libcuda, [texts], fails=name)
    assert (result.returncode, result.stdout) == (1, "")
    assert "DriverError(CUDA_ERROR_UNKNOWN" in result.stderr
    assert name in {call.split()[0] for call in calls}


def test_what_the_assembler_says_is_shown(program: Path, libcuda: Path, tmp_path: Path) -> None:
    code, file, said = execute_broken(program, libcuda, tmp_path)
    assert code == 1
    assert said == [
        f"{file}: DriverError(CUDA_ERROR_INVALID_PTX)",
        "ptxas application ptx input, line 1; fatal : not an image",
    ]


def test_rows_that_no_grid_has_are_refused_before_anything_happens(
    program: Path, libcuda: Path, texts: Path
) -> None:
    result, calls = execute(program, libcuda, [texts, "65536"])
    assert (result.returncode, calls) == (1, [])
    assert "65536 rows are not possible in one launch" in result.stderr


LOADED: Final = """
    let rope = context
        .load_module(cudarc::nvrtc::Ptx::from_file("rust/build/{file}"))?
        .load_function("batched_rope")?;
    let config = cudarc::driver::LaunchConfig {{
        grid_dim: (32, rows, 1), block_dim: (64, 1, 1), shared_mem_bytes: 0,
    }};
    use cudarc::driver::PushKernelArg;
"""


@pytest.mark.parametrize("where", ["README.md", "docs/loading.md"])
def test_snippet(where: str, libcuda: Path, shown: Path, tmp_path: Path) -> None:
    """In a function with the names that it takes for granted; run from the project's folder."""
    if where == "README.md":
        text, load = snippet(README, "rust", "include_str!"), "cuModuleLoadData PTX"
    else:
        file = "batched_rope/batched_rope.h32.d128.theta10000.ptx"
        text, load = LOADED.format(file=file) + snippet(GUIDE, "rust", "device_ptr_mut"), "cuModuleLoad PTX"
    package = project(tmp_path, shown)
    manifest = package / "Cargo.toml"
    manifest.write_text(manifest.read_text().replace("main.rs", "src/main.rs"))
    (package / "src").mkdir()
    (package / "src" / "main.rs").write_text(f"#![allow(unused)]\n{MAIN.format(text)}")
    program = compiled(package, libcuda)
    assert loads_and_launches(program, libcuda, tmp_path) == [
        load,
        "cuModuleGetFunction batched_rope",
        "cuLaunchKernel batched_rope grid 32 3 1 block 64 1 1 shared 0",
        "cuModuleUnload",
    ]


def test_a_slice_that_is_borrowed_cannot_be_passed_as_written(
    libcuda: Path, shown: Path, tmp_path: Path
) -> None:
    """The stand-in of cudarc knows ownership: what cudarc refuses is refused."""
    text = snippet(README, "rust", "include_str!")
    wrong = text.replace(".arg(&x).arg(&mut out)", ".arg(&x).arg(&mut x)")
    assert wrong != text
    package = project(tmp_path, shown)
    (package / "main.rs").write_text(f"#![allow(unused)]\n{MAIN.format(wrong.replace('../build', 'build'))}")
    with pytest.raises(AssertionError, match="cannot borrow `x` as mutable because it is also borrowed"):
        compiled(package, libcuda)
