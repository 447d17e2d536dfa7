"""PTX that nvcc writes: it parses, line for line, and the rules that mean a bug stay silent."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ptxtemplates.ptx import Module, lint, parse

SOURCE = r"""
#include <cuda_fp16.h>
#include <cstdio>
struct Point { int a; float b[3]; char c; };
__device__ int counter;
__device__ int *pointer = &counter;
__constant__ float table[4] = {1, 2, 3, 4};
extern __shared__ float dynamic[];
__device__ __noinline__ float horner(float a, float b, int n) {
    float s = a;
    for (int i = 0; i < n; i++) { s = s * b + a; if (s > 100.f) break; }
    return s;
}
__device__ __noinline__ Point make(int a) { return Point{a, {1.f * a, 2.f * a, 1.f}, 'x'}; }
typedef float (*function)(float);
__device__ float plus(float a) { return a + 1; }
__device__ float twice(float a) { return a * 2; }
__device__ function functions[2] = {plus, twice};
__global__ void __launch_bounds__(128, 2) work(float *x, const __half *h, Point p, char c, int n) {
    __shared__ float tile[128];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    tile[threadIdx.x] = x[i] * __half2float(h[i]) + table[i & 3];
    __syncthreads();
    float v = tile[127 - threadIdx.x] + p.b[1] + c;
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    if (threadIdx.x == 0) atomicAdd(x, v);
    atomicAdd(&counter, 1);
    int r;
    asm volatile("{ .reg .pred p; .reg .b32 t; setp.eq.s32 p, %1, 0; @p mov.b32 t, 1; @!p mov.b32 t, 2;"
                 " mov.b32 %0, t; }" : "=r"(r) : "r"(n));
    asm volatile("{ .reg .pred p; .reg .b32 t; mov.b32 t, 1; setp.eq.s32 p, %1, 0; @p bra L; mov.b32 t, 2;"
                 " L: mov.b32 %0, t; }" : "=r"(r) : "r"(n + r));
    dynamic[threadIdx.x] = horner(v, 2.f, n);
    x[i] = dynamic[threadIdx.x ^ 1] + make(n).b[1] + *pointer + functions[n](x[1]);
    printf("%d %f\n", r, v);
    switch (n) {
        case 0: x[0] = 1; break;
        case 1: x[1] = 2; break;
        case 2: x[5] = 3; break;
        case 3: x[2] = i; break;
        case 4: x[8] = 9; break;
        case 5: x[3] = sinf(v); break;
    }
    if (n == 9) __trap();
}
__global__ void halves(__half2 *x, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = __hfma2(x[i], x[i], __hmul2(x[i], x[0]));
}
"""

FLAGS = {
    "optimised": ["-arch=sm_80"],
    "lines": ["-arch=sm_90", "-lineinfo"],
    "debug": ["-arch=sm_90", "-G"],
}

FAULTS = {"undeclared-name", "unset-register", "falls-off-end", "duplicate-name", "non-ascii"}


@pytest.fixture(scope="module", params=FLAGS)
def ptx(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("nvcc is not on PATH")
    directory: Path = tmp_path_factory.mktemp("nvcc")
    (directory / "work.cu").write_text(SOURCE)
    command = [compiler, *FLAGS[request.param], "-ptx", "work.cu", "-o", "work.ptx"]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=120)
    return (directory / "work.ptx").read_text()


def code_lines(text: str) -> list[int]:
    """Find the lines on which an instruction starts: nvcc indents each by a tab, inline assembly by more."""
    body = re.sub(r"\.section[^{]*\{[^}]*\}", lambda match: "\n" * match[0].count("\n"), text)
    return [
        number
        for number, line in enumerate(body.split("\n"), 1)
        if re.match(r"\t(?:\{? *)(?:@!?%\w+ )?[a-z][a-z0-9]*(?:\.[\w:.]+)?(?:[ \t]|;)", line)
    ]


def test_every_line_of_code_is_kept(ptx: str) -> None:
    lines = [i.line for function in parse(ptx).functions for i in function.instructions]
    expected = code_lines(ptx)
    assert len(expected) > 150
    # Inline assembly that starts with a declaration holds several statements on a line.
    blocks = {number for number, line in enumerate(ptx.split("\n"), 1) if line.startswith("\t{ .reg")}
    assert set(lines) - blocks == set(expected)


def test_nothing_that_means_a_bug_is_found(ptx: str) -> None:
    found = [finding for finding in lint(parse(ptx), ptx) if finding.rule in FAULTS]
    assert found == []


def test_declarations(ptx: str) -> None:
    module: Module = parse(ptx)
    entry = next(entry for entry in module.entries if "work" in entry.name)
    assert entry.attributes["maxntid"][0] == 128
    assert entry.attributes["minnctapersm"] == (2,)
    assert [(p.type, p.size) for p in entry.parameters][2:] == [("b8", 20), ("u8", 1), ("u32", 4)]
    assert {variable.name for variable in module.variables} >= {"counter", "pointer", "table", "functions"}
    if module.files:
        assert any(instruction.loc is not None for instruction in entry.instructions)
